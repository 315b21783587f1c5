/* Benchmarks that compare processes: runners that stand ready, one process or several that mpirun has started, and work
 * when they are told to. So what is compared can take turns within the same seconds, and whoever waits takes no time.
 *
 * A runner is this same program, started again with --serve=NAME and --folder=DIR: pipes of the file system in that
 * folder carry the commands to each of its processes and the answers of the first one. */
#ifndef GP_BENCH_RUNNER_H
#define GP_BENCH_RUNNER_H

#include <stdbool.h>
#include <sys/types.h>

enum { BENCH_MOST_PROCESSES = 8 };

/* ---- the one that commands ---- */

typedef struct bench_runner {
    char name[32];
    pid_t pid;
    int processes;
    int commands[BENCH_MOST_PROCESSES], answer;
} bench_runner;

/* A folder for the pipes; removed by bench_runners_end. */
void bench_runners_begin(char folder[64]);
void bench_runners_end(const char *folder);
/* Starts a runner with the arguments of this program. `launcher`: an mpirun with its options, words apart by spaces;
 * NULL: one process without it. */
void bench_runner_start(bench_runner *runner, const char *folder, const char *name, const char *launcher, int processes,
                        int count, char **arguments);
/* Work of so many rounds begins; 0: leave. */
void bench_runner_tell(const bench_runner *runner, int rounds);
/* Waits for the answer: a number of its own kind, seconds as a rule. Ends the benchmark when the runner has ended. */
double bench_runner_hear(const bench_runner *runner);
/* Both. */
double bench_runner_ask(const bench_runner *runner, int rounds);
/* Tells it to leave and waits for its end. */
void bench_runner_stop(const bench_runner *runner);

/* The launcher of an implementation ("openmpi"), with the options that it needs to start two processes on two cores;
 * NULL: there is none. `--openmpi=COMMAND` and `--mpich=COMMAND` say otherwise; an empty command leaves it out. */
const char *bench_launcher(int count, char **arguments, const char *implementation);

/* ---- the runner ---- */

typedef struct bench_service {
    const char *name; /* of the runner; NULL: this process was not started as one */
    int command, answer;
} bench_service;

/* `rank`: the number of this process within the runner. */
void bench_service_open(bench_service *service, int count, char **arguments, int rank);
/* The name of the runner that this process is part of; NULL: it is none. */
const char *bench_service_name(int count, char **arguments);
/* Waits for a command; 0: leave. */
int bench_service_next(const bench_service *service);
/* By the first process. */
void bench_service_answer(const bench_service *service, double value);

#endif
