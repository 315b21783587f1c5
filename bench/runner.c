/* Linux: pipes of the file system, opened for reading and writing by the one that commands, so that no opening waits.
 */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { MOST_WORDS = 64 };

static void stop(const char *what, const char *which) {
    fprintf(stderr, "bench: %s: %s\n", which, what);
    exit(1);
}

/* ---- pipes ---- */

static void pipe_path(char path[160], const char *folder, const char *name, const char *what, int rank) {
    snprintf(path, 160, "%s/%s.%s.%d", folder, name, what, rank);
}

static int make_pipe(const char *folder, const char *name, const char *what, int rank) {
    char path[160];
    pipe_path(path, folder, name, what, rank);
    if (mkfifo(path, 0600) != 0) stop(strerror(errno), path);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) stop(strerror(errno), path);
    return descriptor;
}

static int open_pipe(const char *folder, const char *name, const char *what, int rank, int mode) {
    char path[160];
    pipe_path(path, folder, name, what, rank);
    int descriptor = open(path, mode | O_CLOEXEC);
    if (descriptor < 0) stop(strerror(errno), path);
    return descriptor;
}

void bench_runners_begin(char folder[64]) {
    snprintf(folder, 64, "/tmp/gpipe-bench-XXXXXX");
    if (!mkdtemp(folder)) stop(strerror(errno), folder);
    setenv("GPIPE_MODULES", GP_BENCH_MODULES, 0); /* of programs that have the library in them */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 1);
}

void bench_runners_end(const char *folder) {
    rmdir(folder); /* empty: a pipe is removed with its runner */
}

static void remove_pipes(const char *folder, const bench_runner *runner) {
    char path[160];
    for (int r = 0; r < runner->processes; r++) {
        pipe_path(path, folder, runner->name, "command", r);
        unlink(path);
    }
    pipe_path(path, folder, runner->name, "answer", 0);
    unlink(path);
}

/* ---- the one that commands ---- */

/* The words of the launcher, the number of processes, this program, its arguments and the runner's own. */
static void become(const bench_runner *runner, const char *folder, char *launcher, int count, char **arguments) {
    char *words[MOST_WORDS + 1], option[] = "-n", number[16], serve[64], where[96], self[4096], *rest = NULL;
    int word = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) _exit(127);
    self[length] = 0;
    snprintf(number, sizeof number, "%d", runner->processes);
    snprintf(serve, sizeof serve, "--serve=%s", runner->name);
    snprintf(where, sizeof where, "--folder=%s", folder);
    for (char *next = launcher ? strtok_r(launcher, " ", &rest) : NULL; next; next = strtok_r(NULL, " ", &rest))
        if (word < MOST_WORDS - 8) words[word++] = next;
    if (launcher) words[word++] = option;
    if (launcher) words[word++] = number;
    words[word++] = self;
    words[word++] = serve;
    words[word++] = where;
    for (int i = 1; i < count && word < MOST_WORDS; i++)
        words[word++] = arguments[i];
    words[word] = NULL;
    execvp(words[0], words);
    fprintf(stderr, "bench: %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

void bench_runner_start(bench_runner *runner, const char *folder, const char *name, const char *launcher, int processes,
                        int count, char **arguments) {
    *runner = (bench_runner){.processes = processes};
    snprintf(runner->name, sizeof runner->name, "%s", name);
    for (int r = 0; r < processes; r++)
        runner->commands[r] = make_pipe(folder, name, "command", r);
    runner->answer = make_pipe(folder, name, "answer", 0);
    char *words = launcher ? strdup(launcher) : NULL;
    runner->pid = fork();
    if (runner->pid < 0) stop(strerror(errno), name);
    if (runner->pid == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing >= 0) dup2(nothing, STDIN_FILENO);
        become(runner, folder, words, count, arguments);
    }
    free(words);
    bench_runner_hear(runner); /* it stands ready */
    remove_pipes(folder, runner);
}

void bench_runner_tell(const bench_runner *runner, int rounds) {
    for (int r = 0; r < runner->processes; r++)
        if (write(runner->commands[r], &rounds, sizeof rounds) != (ssize_t)sizeof rounds)
            stop(strerror(errno), runner->name);
}

double bench_runner_hear(const bench_runner *runner) {
    struct pollfd ready = {.fd = runner->answer, .events = POLLIN};
    double value = 0;
    while (poll(&ready, 1, 500) == 0)
        if (waitpid(runner->pid, NULL, WNOHANG) != 0) stop("a runner has ended", runner->name);
    if (read(runner->answer, &value, sizeof value) != (ssize_t)sizeof value) stop(strerror(errno), runner->name);
    return value;
}

double bench_runner_ask(const bench_runner *runner, int rounds) {
    bench_runner_tell(runner, rounds);
    return bench_runner_hear(runner);
}

void bench_runner_stop(const bench_runner *runner) {
    bench_runner_tell(runner, 0);
    waitpid(runner->pid, NULL, 0);
    for (int r = 0; r < runner->processes; r++)
        close(runner->commands[r]);
    close(runner->answer);
}

/* ---- launchers ---- */

const char *bench_launcher(int count, char **arguments, const char *implementation) {
    static const struct {
        const char *implementation, *command;
    } known[] = {
#ifdef GP_BENCH_OPENMPI_RUN
        {"openmpi", GP_BENCH_OPENMPI_RUN},
#endif
#ifdef GP_BENCH_MPICH_RUN
        {"mpich", GP_BENCH_MPICH_RUN},
#endif
        {NULL, NULL}};
    const char *command = NULL;
    for (int i = 0; known[i].implementation; i++)
        if (strcmp(known[i].implementation, implementation) == 0) command = known[i].command;
    const char *given = bench_text(count, arguments, implementation);
    if (given) command = given;
    return command && *command ? command : NULL;
}

/* ---- the runner ---- */

const char *bench_service_name(int count, char **arguments) {
    return bench_text(count, arguments, "serve");
}

void bench_service_open(bench_service *service, int count, char **arguments, int rank) {
    const char *name = bench_service_name(count, arguments), *folder = bench_text(count, arguments, "folder");
    if (!name || !folder) stop("is not a runner", "serve");
    *service = (bench_service){.name = name, .answer = -1};
    service->command = open_pipe(folder, name, "command", rank, O_RDONLY);
    if (rank == 0) service->answer = open_pipe(folder, name, "answer", 0, O_WRONLY);
}

int bench_service_next(const bench_service *service) {
    int rounds = 0;
    return read(service->command, &rounds, sizeof rounds) == (ssize_t)sizeof rounds ? rounds : 0;
}

void bench_service_answer(const bench_service *service, double value) {
    if (service->answer < 0) return;
    if (write(service->answer, &value, sizeof value) != (ssize_t)sizeof value) exit(1);
}
