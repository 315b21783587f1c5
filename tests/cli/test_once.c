/* What processes with one parent say alike is said once, and it is never lost: launchers end all processes as soon as
 * one has failed, so nobody may go before it has been said. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../cli/once.h"

enum { OTHERS = 4, SAID_NOTHING = 10 };

static void pause_for(long milliseconds) {
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* In a process that is to say something: writes a byte for it, slowly; nobody else may think meanwhile that it is said.
 */
static void speak(const char *text, int to, bool dies) {
    int hold;
    if (!cli_once_first(text, &hold)) _exit(SAID_NOTHING);
    if (dies) raise(SIGSTOP);
    pause_for(200);
    if (write(to, "x", 1) != 1) _exit(1);
    cli_once_linger(hold, OTHERS - 1);
    _exit(0);
}

/* Bytes that have been written so far. */
static int written(int from) {
    char bytes[16];
    ssize_t count = read(from, bytes, sizeof bytes);
    return count > 0 ? (int)count : 0;
}

static pid_t begin(const char *text, int to, bool dies) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) speak(text, to, dies);
    return child;
}

/* Waits for so many children; those that said nothing must have ended after the byte was there. Returns how many said
 * it. */
static int said_by(int children, int from) {
    int bytes = 0, speakers = 0;
    for (int i = 0; i < children; i++) {
        int status;
        assert_true(wait(&status) > 0);
        bytes += written(from);
        if (WIFSIGNALED(status)) continue;
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SAID_NOTHING);
        speakers += WEXITSTATUS(status) == 0;
        assert_true(bytes > 0);
    }
    assert_int_equal(bytes, speakers);
    return speakers;
}

static void open_pipe(int *ends) {
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
}

static void close_pipe(const int *ends) {
    close(ends[0]);
    close(ends[1]);
}

static void nobody_goes_before_it_is_said(void **state) {
    int ends[2];
    (void)state;
    open_pipe(ends);
    for (int i = 0; i < OTHERS; i++)
        begin("the same", ends[1], false);
    assert_int_equal(said_by(OTHERS, ends[0]), 1);
    close_pipe(ends);
}

static void another_speaks_when_the_first_ends_without_a_word(void **state) {
    int ends[2], status;
    (void)state;
    open_pipe(ends);
    pid_t first = begin("the same", ends[1], true);
    assert_int_equal(waitpid(first, &status, WUNTRACED), first);
    for (int i = 0; i < OTHERS; i++)
        begin("the same", ends[1], false);
    pause_for(50);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(said_by(1 + OTHERS, ends[0]), 1);
    close_pipe(ends);
}

static void other_words_are_said(void **state) {
    int hold[2];
    (void)state;
    assert_true(cli_once_first("one", &hold[0]) && cli_once_first("other", &hold[1]));
    cli_once_linger(hold[0], 0);
    assert_true(cli_once_first("one", &hold[0]));
    cli_once_linger(hold[0], 0);
    cli_once_linger(hold[1], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_goes_before_it_is_said),
        cmocka_unit_test(another_speaks_when_the_first_ends_without_a_word),
        cmocka_unit_test(other_words_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
