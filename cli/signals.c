/* A handler may do next to nothing: it counts, and writes one line. */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

/* Signal handlers have no other way to speak. */
static volatile sig_atomic_t asked_by = 0, interrupted = 0, terminated = 0;

static void say(const char *text, size_t length) {
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
}

static void end_at_once(int number) {
    signal(number, SIG_DFL);
    raise(number); /* delivered when the handler returns */
}

/* Seconds within which two signals are one: timeout (coreutils) sends its own to the program, then to its group. */
static const double apart = 0.2;
static volatile double last_time = 0;

static bool follows_at_once(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* may be called in handlers */
    double now = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec, before = last_time;
    last_time = now;
    return now - before < apart;
}

static void on_signal(int number) {
    static const char first[] = "\ngpipe: finishing this step and writing a checkpoint; once more ends at once\n";
    static const char again[] = "\ngpipe: the end is near already; once more ends at once\n";
    bool repeated = (number == SIGINT && interrupted) || (number == SIGTERM && terminated), same = follows_at_once();
    if (repeated) {
        if (!same) end_at_once(number);
        return;
    }
    if (number == SIGINT) interrupted = 1;
    if (number == SIGTERM) terminated = 1;
    if (asked_by == 0) {
        say(first, sizeof first - 1);
    } else if (number == SIGINT) {
        say(again, sizeof again - 1);
    }
    if (asked_by == 0) asked_by = number;
}

void cli_signals_listen(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

int cli_signals_asked(void) {
    return asked_by;
}

int cli_signals_exit(int number) {
    return number == SIGTERM || number == SIGUSR1 ? 0 : 128 + number;
}
