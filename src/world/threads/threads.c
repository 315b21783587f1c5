/* A world of threads: its life, the wait that everything else is made of, the report of long waits, failure. */
#include "world/threads/threads.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static gp_thread_world *threads_of(gp_world *world) {
    return (gp_thread_world *)world;
}

/* ---- the report of a long wait ---- */

static void read_words(gp_thread_world *world, int seat, char words[GP_WORDS]) {
    gp_thread_seat *of = &world->seats[seat];
    pthread_mutex_lock(&of->words_lock);
    memcpy(words, of->words, GP_WORDS);
    pthread_mutex_unlock(&of->words_lock);
}

/* Adds "worker 1 (B0 of stage 1)", or "the reduction of worker 1". */
static void add_name(gp_thread_world *world, int seat, char *text, size_t size) {
    char words[GP_WORDS];
    int workers = world->world.workers;
    size_t length = strlen(text);
    if (seat >= workers) {
        snprintf(text + length, size - length, "the reduction of worker %d", seat % workers);
        return;
    }
    read_words(world, seat, words);
    snprintf(text + length, size - length, "worker %d (%s)", seat, words);
}

static void add_what(int on, const char *what, char *text, size_t size) {
    size_t length = strlen(text);
    const char *from = on == GP_WAITS_FOR_ALL ? " all workers" : on == GP_WAITS_FOR_NOBODY ? "" : " from ";
    snprintf(text + length, size - length, "%s%s", what, from);
}

static void add_text(const char *more, char *text, size_t size) {
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s", more);
}

/* Adds a seat and what it waits for itself; returns the seat to go on with. */
static int describe_waited_for(gp_thread_world *world, int seat, char *text, size_t size) {
    int next = atomic_load(&world->seats[seat].waits_for);
    const char *what = atomic_load(&world->seats[seat].waits_for_what);
    add_name(world, seat, text, size);
    if (next == GP_WAITS_FOR_NOBODY || !what) {
        add_text(", which is running", text, size);
        return GP_WAITS_FOR_NOBODY;
    }
    add_text(", which waits for ", text, size);
    add_what(next, what, text, size);
    return next;
}

/* "worker 0 (B0 of stage 0) has waited 30.0 s for a message from worker 1 (F1 of stage 1), which is running": follows
 * who waits for whom until somebody runs or the circle is closed. */
static void report_wait(gp_thread_world *world, int seat, double waited, int on, const char *what) {
    char text[1024] = "", since[64];
    snprintf(since, sizeof since, " has waited %.1f s for ", waited);
    add_name(world, seat, text, sizeof text);
    add_text(since, text, sizeof text);
    add_what(on, what, text, sizeof text);
    for (int hops = 0; on >= 0 && hops < world->world.workers; hops++) {
        bool closed = on == seat;
        on = describe_waited_for(world, on, text, sizeof text);
        if (closed) break;
    }
    gp_log(GP_LOG_WARNING, "%s", text);
}

/* ---- waiting ---- */

gp_status gp_threads_wait(gp_thread_world *world, int number, bool (*ready)(const void *object), const void *object,
                          int on, const char *what) {
    gp_thread_seat *seat = &world->seats[number];
    double begun = 0, report_at = 0;
    for (;;) {
        uint32_t seen = gp_event_now(&seat->event);
        if (atomic_load_explicit(&world->failed, memory_order_acquire)) break;
        if (ready(object)) break;
        if (begun == 0) {
            begun = gp_seconds();
            report_at = begun + world->world.report_after;
            atomic_store(&seat->waits_for, on);
            atomic_store(&seat->waits_for_what, what);
        }
        if (gp_event_wait(&seat->event, seen, report_at - gp_seconds())) continue;
        double now = gp_seconds();
        if (now < report_at) continue;
        report_wait(world, number, now - begun, on, what);
        report_at = now + (now - begun); /* half as often each time */
    }
    if (begun != 0) {
        atomic_store(&seat->waits_for_what, NULL);
        atomic_store(&seat->waits_for, GP_WAITS_FOR_NOBODY);
    }
    if (!atomic_load_explicit(&world->failed, memory_order_acquire)) return GP_OK;
    return gp_error(GP_ABORTED, "stopped because another worker failed");
}

void gp_threads_wake(gp_thread_world *world, int seat) {
    gp_event_signal(&world->seats[seat].event);
}

/* The compute lane waits for what its own reduction does, the reduction for what the compute lane does. */
static gp_status wait_for_own(gp_world *base, int worker, gp_lane lane, bool (*ready)(const void *object),
                              const void *object, const char *what) {
    gp_lane other = lane == GP_LANE_COMPUTE ? GP_LANE_REDUCE : GP_LANE_COMPUTE;
    return gp_threads_wait(threads_of(base), gp_seat_of(base, worker, lane), ready, object,
                           gp_seat_of(base, worker, other), what);
}

static void wake(gp_world *base, int worker, gp_lane lane) {
    gp_threads_wake(threads_of(base), gp_seat_of(base, worker, lane));
}

static void doing(gp_world *base, int worker, const char *words) {
    gp_thread_seat *seat = &threads_of(base)->seats[worker];
    pthread_mutex_lock(&seat->words_lock);
    snprintf(seat->words, sizeof seat->words, "%s", words);
    pthread_mutex_unlock(&seat->words_lock);
}

/* ---- failure ---- */

static void fail(gp_world *base, int worker, gp_status status, const char *message) {
    gp_thread_world *world = threads_of(base);
    pthread_mutex_lock(&world->lock);
    bool first = !atomic_load(&world->failed);
    if (first) {
        world->failure.status = status;
        world->failure.worker = worker;
        snprintf(world->failure.message, sizeof world->failure.message, "%s", message);
        atomic_store_explicit(&world->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&world->lock);
    for (int seat = 0; first && seat < GP_LANES * base->workers; seat++)
        gp_threads_wake(world, seat);
}

/* The failure is written once, before the flag is set. */
static bool has_failed(const gp_world *base, gp_failure *failure) {
    const gp_thread_world *world = (const gp_thread_world *)base;
    if (!atomic_load_explicit(&world->failed, memory_order_acquire)) return false;
    if (failure) *failure = world->failure;
    return true;
}

/* ---- life ---- */

static size_t sender_bytes(const gp_world *world, int slots, size_t slot_bytes) {
    (void)world, (void)slots, (void)slot_bytes; /* the sender computes into the receiver's slot */
    return 0;
}

static void destroy(gp_world *base) {
    gp_thread_world *world = threads_of(base);
    gp_threads_free_links(world->links);
    gp_threads_free_groups(world->groups);
    for (int seat = 0; world->seats && seat < GP_LANES * base->workers; seat++)
        pthread_mutex_destroy(&world->seats[seat].words_lock);
    gp_free(world->seats);
    pthread_mutex_destroy(&world->lock);
    gp_free(world);
}

static const gp_world_class threads_class = {
    .name = "threads",
    .destroy = destroy,
    .sender_bytes = sender_bytes,
    .open_receiver = gp_threads_open_receiver,
    .open_sender = gp_threads_open_sender,
    .reserve = gp_threads_reserve,
    .await = gp_threads_await,
    .commit = gp_threads_commit,
    .release = gp_threads_release,
    .doing = doing,
    .barrier = gp_threads_barrier,
    .all_gather = gp_threads_all_gather,
    .group_bytes = gp_threads_group_bytes,
    .open_group = gp_threads_open_group,
    .sum = gp_threads_sum,
    .share = gp_threads_share,
    .wait = wait_for_own,
    .wake = wake,
    .fail = fail,
    .failed = has_failed,
};

static gp_status create_seats(gp_thread_world *world) {
    size_t seats = GP_LANES * (size_t)world->world.workers;
    world->seats = gp_allocate_array(seats, sizeof *world->seats);
    if (!world->seats) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < seats; i++) {
        pthread_mutex_init(&world->seats[i].words_lock, NULL);
        atomic_store(&world->seats[i].waits_for, GP_WAITS_FOR_NOBODY);
    }
    return GP_OK;
}

gp_status gp_world_create_threads(gp_world **world, int workers, const gp_world_options *options) {
    *world = NULL;
    if (workers < 1) return gp_error(GP_INVALID, "a world has at least 1 worker, not %d", workers);
    gp_thread_world *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    double report_after = options ? options->report_after : 0;
    made->world = (gp_world){&threads_class, workers, report_after > 0 ? report_after : 30};
    pthread_mutex_init(&made->lock, NULL);
    gp_status status = create_seats(made);
    if (status != GP_OK) {
        destroy(&made->world);
        return status;
    }
    *world = &made->world;
    return GP_OK;
}
