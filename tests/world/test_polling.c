/* Who polls for transfers while it waits, on a world of threads with the hooks that ranks have (world/mpi): workers
 * compute on the same processors. And that a long wait is reported however often somebody wakes it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "base/thread.h"
#include "world/threads/threads.h"

enum { WORKERS = 2 };

typedef struct polled_world {
    gp_thread_world threads; /* first */
    int processors;
    _Atomic int polls;
    _Atomic int computing, polling; /* what the last to ask was told about */
    _Atomic bool ready;
    int lane;
} polled_world;

static void poll(gp_thread_world *base) {
    atomic_fetch_add(&((polled_world *)base)->polls, 1);
}

static bool crowded(const gp_thread_world *base, int computing, int polling) {
    polled_world *world = (polled_world *)(uintptr_t)base;
    atomic_store(&world->computing, computing);
    atomic_store(&world->polling, polling);
    return computing + polling >= world->processors;
}

static const gp_thread_hooks hooks = {.poll = poll, .crowded = crowded};

static bool is_ready(const void *object) {
    return atomic_load((const _Atomic bool *)object);
}

static void sleep_for(double seconds) {
    struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static void begin(polled_world *world, int processors) {
    *world = (polled_world){.processors = processors, .computing = -1, .lane = GP_LANE_REDUCE};
    assert_int_equal(gp_threads_begin(&world->threads, &gp_threads_class, WORKERS, 0, WORKERS, NULL), GP_OK);
    world->threads.hooks = &hooks;
}

/* Worker 0's lane waits for a transfer. */
static void await_transfer(void *user) {
    polled_world *world = user;
    int seat = gp_seat_of(&world->threads.world, 0, (gp_lane)world->lane);
    gp_threads_wait(&world->threads, seat, is_ready, &world->ready, 1, "a message");
}

/* Worker 0's reduction waits for its worker. */
static void await_own(void *user) {
    polled_world *world = user;
    gp_threads_wait_for_own(&world->threads.world, 0, GP_LANE_REDUCE, is_ready, &world->ready, "gradients");
}

static void end_wait(polled_world *world, gp_thread *thread) {
    atomic_store(&world->ready, true);
    for (int seat = 0; seat < GP_LANES * WORKERS; seat++)
        gp_threads_wake(&world->threads, seat);
    gp_thread_join(thread);
}

/* Lets worker 0's lane wait; returns how often it polled, and in `seconds` for how long at most. */
static int polls_of(polled_world *world, void (*wait)(void *user), double *seconds) {
    gp_thread *thread;
    gp_thread_seat *seat = &world->threads.seats[gp_seat_of(&world->threads.world, 0, (gp_lane)world->lane)];
    double begun = gp_seconds();
    assert_int_equal(gp_thread_create(&thread, wait, world, 0, 0), GP_OK);
    while (!atomic_load(&seat->waits_for_what) || (wait == await_transfer && atomic_load(&world->computing) < 0))
        sleep_for(0.001);
    sleep_for(0.03);
    end_wait(world, thread);
    *seconds = gp_seconds() - begun;
    assert_int_equal(atomic_load(&world->threads.waiting), 0);
    assert_int_equal(atomic_load(&world->threads.polling), 0);
    return atomic_load(&world->polls);
}

static void who_waits_for_its_own_process_does_not_poll(void **state) {
    polled_world world;
    double seconds;
    (void)state;
    begin(&world, 100);
    assert_int_equal(polls_of(&world, await_own, &seconds), 0);
    gp_threads_dispose(&world.threads);
}

/* On two processors two workers compute: a reduction that waits for a transfer sleeps between polls. */
static void a_reduction_does_not_poll_on_a_worker_s_processor(void **state) {
    polled_world world;
    double seconds;
    (void)state;
    begin(&world, 2);
    int polls = polls_of(&world, await_transfer, &seconds);
    assert_int_equal(atomic_load(&world.computing), 2);
    assert_int_equal(atomic_load(&world.polling), 0);
    assert_true(polls <= 60 + (int)(seconds / 2e-4)); /* sleeps of 20 us for 1 ms, then of 200 us */
    gp_threads_dispose(&world.threads);
}

/* A worker that waits does not compute: it may poll where it would. */
static void a_worker_that_waits_polls_on_its_own_processor(void **state) {
    polled_world world;
    double seconds;
    (void)state;
    begin(&world, 2);
    world.lane = GP_LANE_COMPUTE;
    assert_true(polls_of(&world, await_transfer, &seconds) > 0);
    assert_int_equal(atomic_load(&world.computing), 1);
    assert_int_equal(atomic_load(&world.polling), 0);
    gp_threads_dispose(&world.threads);
}

static void count_report(void *user, gp_log_level level, const char *message) {
    if (level == GP_LOG_WARNING && strstr(message, "the reduction of worker 0 has waited"))
        atomic_fetch_add((_Atomic int *)user, 1);
}

static void a_wait_that_is_woken_all_the_time_is_reported(void **state) {
    polled_world world;
    _Atomic int reports = 0;
    gp_thread *thread;
    (void)state;
    begin(&world, 2);
    world.threads.hooks = NULL;
    world.threads.world.report_after = 0.005;
    gp_log_set(count_report, &reports, GP_LOG_WARNING);
    assert_int_equal(gp_thread_create(&thread, await_own, &world, 0, 0), GP_OK);
    int seat = gp_seat_of(&world.threads.world, 0, GP_LANE_REDUCE);
    for (double begun = gp_seconds(); atomic_load(&reports) == 0 && gp_seconds() < begun + 20;)
        gp_threads_wake(&world.threads, seat);
    end_wait(&world, thread);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    assert_true(atomic_load(&reports) > 0);
    gp_threads_dispose(&world.threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_its_own_process_does_not_poll),
        cmocka_unit_test(a_reduction_does_not_poll_on_a_worker_s_processor),
        cmocka_unit_test(a_worker_that_waits_polls_on_its_own_processor),
        cmocka_unit_test(a_wait_that_is_woken_all_the_time_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
