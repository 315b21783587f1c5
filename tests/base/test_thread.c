/* Threads, pinning, and the event: no wake-up may be lost, whoever is spinning or asleep. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/thread.h"

static void note_processors(void *argument) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    memcpy(argument, &set, sizeof set);
}

static void run_pinned(int first_core, int cores, cpu_set_t *set) {
    gp_thread *thread;
    assert_int_equal(gp_thread_create(&thread, note_processors, set, first_core, cores), GP_OK);
    gp_thread_join(thread);
}

static void test_pinning(void **state) {
    (void)state;
    cpu_set_t process, free_set, first, wrapped, all;
    note_processors(&process);
    int cores = gp_core_count();
    assert_true(cores >= 1 && cores <= CPU_COUNT(&process));
    run_pinned(0, 0, &free_set);
    assert_true(CPU_EQUAL(&free_set, &process));
    run_pinned(0, 1, &first);
    run_pinned(cores, 1, &wrapped);
    assert_true(CPU_EQUAL(&first, &wrapped));
    assert_true(CPU_COUNT(&first) >= 1 && CPU_COUNT(&first) * cores <= CPU_COUNT(&process) + cores);
    run_pinned(3, cores + 5, &all);
    assert_true(CPU_EQUAL(&all, &process));
    /* Different cores share no processor, and together they are all of them. */
    cpu_set_t together = first;
    for (int core = 1; core < cores; core++) {
        cpu_set_t one, common;
        run_pinned(core, 1, &one);
        CPU_AND(&common, &together, &one);
        assert_int_equal(CPU_COUNT(&common), 0);
        CPU_OR(&together, &together, &one);
    }
    assert_true(CPU_EQUAL(&together, &process));
}

static void test_bad_pinning(void **state) {
    (void)state;
    gp_thread *thread = (gp_thread *)state;
    assert_int_equal(gp_thread_create(&thread, note_processors, NULL, -1, 1), GP_INVALID);
    assert_null(thread);
    assert_int_equal(gp_thread_create(&thread, note_processors, NULL, 0, -2), GP_INVALID);
    gp_allocation_fail_at(1);
    assert_int_equal(gp_thread_create(&thread, note_processors, NULL, 0, 0), GP_OUT_OF_MEMORY);
    assert_null(thread);
    gp_thread_join(NULL);
}

static void note_signals(void *argument) {
    pthread_sigmask(SIG_SETMASK, NULL, argument);
}

static void test_signals_stay_with_the_program(void **state) {
    (void)state;
    sigset_t before, inside, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    gp_thread *thread;
    assert_int_equal(gp_thread_create(&thread, note_signals, &inside, 0, 0), GP_OK);
    gp_thread_join(thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&inside, SIGINT), 1);
    assert_int_equal(sigismember(&inside, SIGTERM), 1);
    assert_int_equal(sigismember(&inside, SIGSEGV), 0);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

static void test_event_timeout(void **state) {
    (void)state;
    gp_event event = {0};
    uint32_t seen = gp_event_now(&event);
    assert_false(gp_event_wait(&event, seen, 0));
    double start = gp_seconds();
    assert_false(gp_event_wait(&event, seen, 0.02));
    assert_true(gp_seconds() - start >= 0.02);
    gp_event_signal(&event);
    assert_true(gp_event_wait(&event, seen, 0));
    assert_true(gp_event_wait(&event, seen, -1));
    assert_false(gp_event_wait(&event, gp_event_now(&event), 0));
    assert_int_equal(event.sleepers, 0);
}

/* Two threads hand a plain variable back and forth: a lost wake-up hangs (and CTest ends it), a missing order is a race
 * that the thread sanitizer reports. */
typedef struct ping_pong {
    gp_event ping;
    gp_event pong;
    int value;
    int rounds;
    bool sleepy;
} ping_pong;

static void linger(int round) {
    for (double until = gp_seconds() + (round % 8 == 0 ? 3e-4 : 0); gp_seconds() < until;)
        continue;
}

static void answer(void *argument) {
    ping_pong *game = argument;
    uint32_t seen = 0;
    for (int i = 0; i < game->rounds; i++) {
        gp_event_wait(&game->ping, seen, -1);
        seen++;
        if (game->sleepy) linger(i);
        game->value++;
        gp_event_signal(&game->pong);
    }
}

static void play(int rounds, bool sleepy) {
    ping_pong game = {.rounds = rounds, .sleepy = sleepy};
    gp_thread *thread;
    assert_int_equal(gp_thread_create(&thread, answer, &game, 0, 0), GP_OK);
    for (int i = 0; i < rounds; i++) {
        game.value++;
        gp_event_signal(&game.ping);
        assert_true(gp_event_wait(&game.pong, (uint32_t)i, 60));
    }
    gp_thread_join(thread);
    assert_int_equal(game.value, 2 * rounds);
}

static void test_event_hand_over(void **state) {
    (void)state;
    play(2000, false);
    play(200, true);
}

/* One signal wakes every waiter. */
enum { CROWD = 6, WAVES = 100 };

typedef struct crowd {
    gp_event go;
    gp_event arrived;
    _Atomic int inside;
} crowd;

static void join_waves(void *argument) {
    crowd *c = argument;
    for (uint32_t wave = 0; wave < WAVES; wave++) {
        gp_event_wait(&c->go, wave, -1);
        atomic_fetch_add(&c->inside, 1);
        gp_event_signal(&c->arrived);
        while (gp_event_now(&c->go) == wave)
            gp_event_wait(&c->go, wave, -1);
    }
}

static void test_event_wakes_all(void **state) {
    (void)state;
    crowd c = {0};
    gp_thread *threads[CROWD];
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(gp_thread_create(&threads[i], join_waves, &c, i, 1), GP_OK);
    for (int wave = 0; wave < WAVES; wave++) {
        gp_event_signal(&c.go);
        for (;;) {
            uint32_t seen = gp_event_now(&c.arrived);
            if (atomic_load(&c.inside) == (wave + 1) * CROWD) break;
            assert_true(gp_event_wait(&c.arrived, seen, 60));
        }
    }
    for (int i = 0; i < CROWD; i++)
        gp_thread_join(threads[i]);
    assert_int_equal(c.go.sleepers, 0);
}

/* How often waits that are over before any spinning would be have given the processor away. */
static long sleeps_in_waits(void) {
    gp_event event = {0};
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 200; i++)
        assert_false(gp_event_wait(&event, 0, 4e-6));
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_nvcsw - before.ru_nvcsw;
}

static void sleep_through(void *event) {
    gp_event_wait(event, 0, -1);
}

/* Where other processes need the processors a waiter leaves them to those: it does not spin. */
static void test_no_spinning_beside_other_processes(void **state) {
    gp_event over = {0};
    gp_thread *worker;
    (void)state;
    if (gp_core_count() < 2) skip(); /* nobody spins anyhow */
    assert_int_equal(gp_thread_create(&worker, sleep_through, &over, 0, 0), GP_OK);
    long alone = sleeps_in_waits();
    gp_threads_share_processors(1000);
    long beside = sleeps_in_waits();
    gp_threads_share_processors(1);
    gp_event_signal(&over);
    gp_thread_join(worker);
    if (alone > 50 || beside < 100) fail_msg("of 200 waits %ld sleep alone, %ld beside others", alone, beside);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinning),
        cmocka_unit_test(test_bad_pinning),
        cmocka_unit_test(test_signals_stay_with_the_program),
        cmocka_unit_test(test_event_timeout),
        cmocka_unit_test(test_event_hand_over),
        cmocka_unit_test(test_event_wakes_all),
        cmocka_unit_test(test_no_spinning_beside_other_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
