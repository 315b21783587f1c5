/* Who polls for transfers while it waits, on a world of threads with the hooks that ranks have (world/mpi): workers
 * compute on the same processors. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <time.h>

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
    *world = (polled_world){.processors = processors};
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

/* Lets somebody wait; returns how often it polled, and in `seconds` for how long at most. */
static int polls_of(polled_world *world, void (*wait)(void *user), double *seconds) {
    gp_thread *thread;
    double begun = gp_seconds();
    assert_int_equal(gp_thread_create(&thread, wait, world, 0, 0), GP_OK);
    sleep_for(0.03);
    atomic_store(&world->ready, true);
    for (int seat = 0; seat < GP_LANES * WORKERS; seat++)
        gp_threads_wake(&world->threads, seat);
    gp_thread_join(thread);
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
    world.lane = GP_LANE_REDUCE;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_its_own_process_does_not_poll),
        cmocka_unit_test(a_reduction_does_not_poll_on_a_worker_s_processor),
        cmocka_unit_test(a_worker_that_waits_polls_on_its_own_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
