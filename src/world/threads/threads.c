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

static void add_text(const char *more, char *text, size_t size) {
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s", more);
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
    snprintf(text + length, size - length, "worker %d (%s", seat, words);
    if (world->hooks) world->hooks->add_place(world, seat, text, size);
    add_text(")", text, size);
}

static void add_what(int on, const char *what, char *text, size_t size) {
    size_t length = strlen(text);
    const char *from = on == GP_WAITS_FOR_ALL ? " all workers" : on == GP_WAITS_FOR_NOBODY ? "" : " from ";
    snprintf(text + length, size - length, "%s%s", what, from);
}

/* Adds a seat and what it waits for itself; returns the seat to go on with. */
static int describe_waited_for(gp_thread_world *world, int seat, char *text, size_t size) {
    int next = atomic_load(&world->seats[seat].waits_for);
    const char *what = atomic_load(&world->seats[seat].waits_for_what);
    add_name(world, seat, text, size);
    double silent = world->hooks ? world->hooks->silence(world, seat % world->world.workers) : 0;
    if (silent > 0) { /* what it was doing then is all that is known */
        char words[64];
        snprintf(words, sizeof words, ", which has been silent for %.0f s", silent);
        add_text(words, text, size);
        return GP_WAITS_FOR_NOBODY;
    }
    if (next == GP_WAITS_FOR_NOBODY || !what) {
        add_text(", which is running", text, size);
        return GP_WAITS_FOR_NOBODY;
    }
    add_text(", which waits for ", text, size);
    add_what(next, what, text, size);
    return next;
}

/* Whoever keeps the others from meeting: the first worker that has not been heard of, or else that has not come. */
static int find_missing(const gp_thread_world *world, int seat) {
    for (int w = 0; world->hooks && w < world->world.workers; w++)
        if (w != seat && world->hooks->silence(world, w) > 0) return w;
    for (int w = 0; w < world->world.workers; w++)
        if (w != seat && atomic_load(&world->seats[w].waits_for) != GP_WAITS_FOR_ALL) return w;
    return GP_WAITS_FOR_NOBODY;
}

enum { HOPS = 32 };

/* "worker 0 (B0 of stage 0) has waited 30.0 s for a message from worker 1 (F1 of stage 1), which is running": follows
 * who waits for whom until somebody runs or the circle is closed. */
static void report_wait(gp_thread_world *world, int seat, double waited, int on, const char *what) {
    char text[1024] = "", since[64];
    int passed[HOPS] = {seat}, count = 1;
    if (world->hooks && !world->hooks->speaks(world)) return;
    snprintf(since, sizeof since, " has waited %.1f s for ", waited);
    add_name(world, seat, text, sizeof text);
    add_text(since, text, sizeof text);
    add_what(on, what, text, sizeof text);
    while (on != GP_WAITS_FOR_NOBODY && count < HOPS) {
        bool closed = false;
        if (on == GP_WAITS_FOR_ALL) {
            on = find_missing(world, seat);
            if (on < 0) break;
            add_text(", of which ", text, sizeof text);
        }
        for (int i = 0; i < count; i++)
            closed = closed || passed[i] == on;
        passed[count++] = on;
        on = describe_waited_for(world, on, text, sizeof text);
        if (closed) break;
    }
    gp_log(GP_LOG_WARNING, "%s", text);
}

/* ---- waiting ---- */

/* Seconds for which a waiter polls without a pause, on a processor that nobody else needs, and that it sleeps at a time
 * afterwards: a little at first. */
static const double poll_for = 0.02, first_sleeps = 2e-5, first_for = 1e-3, later_sleeps = 2e-4;

/* One wait of a seat. */
typedef struct wait {
    gp_thread_world *world;
    int number;
    bool polls;   /* transfers must be polled for until it is over */
    bool polling; /* it is counted among those that do so without a pause */
    double begun;
} wait;

/* A worker that waits leaves its processor to who polls; the other lane has none of its own. */
static bool is_compute_lane(const wait *one) {
    return one->number < one->world->world.workers;
}

static void set_polling(wait *one, bool polling) {
    if (polling == one->polling) return;
    atomic_fetch_add_explicit(&one->world->polling, polling ? 1 : -1, memory_order_relaxed);
    one->polling = polling;
}

static bool may_poll_on(wait *one, double waited) {
    gp_thread_world *world = one->world;
    int computing = world->world.local - atomic_load_explicit(&world->waiting, memory_order_relaxed);
    int others = atomic_load_explicit(&world->polling, memory_order_relaxed) - one->polling;
    set_polling(one, waited < poll_for && !world->hooks->crowded(world, computing, others));
    return one->polling;
}

/* Waits until the event has moved or `limit` seconds are over, or, where transfers must be polled for, for a moment;
 * returns whether the condition may have changed. */
static bool pause_in_wait(wait *one, uint32_t seen, double limit, double waited) {
    gp_event *event = &one->world->seats[one->number].event;
    if (one->polls) one->world->hooks->poll(one->world);
    if (limit <= 0) return false; /* even if the event has moved: somebody may signal it for ever */
    if (!one->polls) return gp_event_wait(event, seen, limit);
    if (gp_event_now(event) != seen || may_poll_on(one, waited)) return true;
    double sleep = waited < first_for ? first_sleeps : later_sleeps;
    return gp_event_wait(event, seen, limit < sleep ? limit : sleep);
}

static void begin_wait(wait *one, int on, const char *what) {
    gp_thread_seat *seat = &one->world->seats[one->number];
    one->begun = gp_seconds();
    if (is_compute_lane(one)) atomic_fetch_add_explicit(&one->world->waiting, 1, memory_order_relaxed);
    atomic_store(&seat->waits_for, on);
    atomic_store(&seat->waits_for_what, what);
}

static void end_wait(wait *one) {
    gp_thread_seat *seat = &one->world->seats[one->number];
    if (one->begun == 0) return;
    set_polling(one, false);
    if (is_compute_lane(one)) atomic_fetch_sub_explicit(&one->world->waiting, 1, memory_order_relaxed);
    atomic_store(&seat->waits_for_what, NULL);
    atomic_store(&seat->waits_for, GP_WAITS_FOR_NOBODY);
}

static gp_status wait_until(wait *one, bool (*ready)(const void *object), const void *object, int on,
                            const char *what) {
    gp_thread_world *world = one->world;
    double report_at = 0;
    for (;;) {
        uint32_t seen = gp_event_now(&world->seats[one->number].event);
        if (atomic_load_explicit(&world->failed, memory_order_acquire)) break;
        if (ready(object)) break;
        if (one->begun == 0) {
            begin_wait(one, on, what);
            report_at = one->begun + world->world.report_after;
        }
        double now = gp_seconds();
        if (pause_in_wait(one, seen, report_at - now, now - one->begun)) continue;
        now = gp_seconds();
        if (now < report_at) continue;
        report_wait(world, one->number, now - one->begun, on, what);
        report_at = now + (now - one->begun); /* half as often each time */
    }
    end_wait(one);
    if (!atomic_load_explicit(&world->failed, memory_order_acquire)) return GP_OK;
    return gp_error(GP_ABORTED, "stopped because another worker failed");
}

gp_status gp_threads_wait(gp_thread_world *world, int number, bool (*ready)(const void *object), const void *object,
                          int on, const char *what) {
    wait one = {.world = world, .number = number, .polls = world->hooks != NULL};
    return wait_until(&one, ready, object, on, what);
}

void gp_threads_wake(gp_thread_world *world, int seat) {
    gp_event_signal(&world->seats[seat].event);
}

/* The compute lane waits for what its own reduction does, the reduction for what the compute lane does: it is woken,
 * and if what the other does needs transfers, the other polls for them. */
gp_status gp_threads_wait_for_own(gp_world *base, int worker, gp_lane lane, bool (*ready)(const void *object),
                                  const void *object, const char *what) {
    gp_lane other = lane == GP_LANE_COMPUTE ? GP_LANE_REDUCE : GP_LANE_COMPUTE;
    wait one = {.world = threads_of(base), .number = gp_seat_of(base, worker, lane)};
    return wait_until(&one, ready, object, gp_seat_of(base, worker, other), what);
}

void gp_threads_wake_worker(gp_world *base, int worker, gp_lane lane) {
    gp_threads_wake(threads_of(base), gp_seat_of(base, worker, lane));
}

void gp_threads_doing(gp_world *base, int worker, const char *words) {
    gp_thread_seat *seat = &threads_of(base)->seats[worker];
    pthread_mutex_lock(&seat->words_lock);
    snprintf(seat->words, sizeof seat->words, "%s", words);
    pthread_mutex_unlock(&seat->words_lock);
}

/* ---- failure ---- */

bool gp_threads_fail(gp_thread_world *world, const gp_failure *failure) {
    pthread_mutex_lock(&world->lock);
    bool first = !atomic_load(&world->failed);
    if (first) {
        world->failure = *failure;
        atomic_store(&world->failed, true); /* in one order with the counts of calls of groups */
    }
    pthread_mutex_unlock(&world->lock);
    for (int seat = 0; first && seat < GP_LANES * world->world.workers; seat++)
        gp_threads_wake(world, seat);
    return first;
}

static void fail(gp_world *base, int worker, gp_status status, const char *message) {
    gp_failure failure = {.status = status, .worker = worker};
    snprintf(failure.message, sizeof failure.message, "%s", message);
    gp_threads_fail(threads_of(base), &failure);
}

bool gp_threads_failed(const gp_world *base, gp_failure *failure) {
    gp_thread_world *world = (gp_thread_world *)(uintptr_t)base; /* the lock is not part of what is asked about */
    if (!atomic_load_explicit(&world->failed, memory_order_acquire)) return false;
    pthread_mutex_lock(&world->lock);
    if (failure) *failure = world->failure;
    pthread_mutex_unlock(&world->lock);
    return true;
}

/* ---- life ---- */

static size_t slot_bytes_of(const gp_world *world, int worker, int other, size_t slot_bytes) {
    (void)world, (void)worker, (void)other;
    return slot_bytes;
}

static size_t link_bytes(const gp_world *world, int worker, int receiver, int slots, size_t slot_bytes) {
    (void)world, (void)worker, (void)receiver, (void)slots, (void)slot_bytes; /* computed into the receiver's slot */
    return 0;
}

void gp_threads_dispose(gp_thread_world *world) {
    gp_threads_free_links(world->links);
    gp_threads_free_groups(world->groups);
    for (int seat = 0; world->seats && seat < GP_LANES * world->world.workers; seat++)
        pthread_mutex_destroy(&world->seats[seat].words_lock);
    gp_free(world->seats);
    pthread_mutex_destroy(&world->lock);
}

static void destroy(gp_world *base) {
    gp_threads_dispose(threads_of(base));
    gp_free(base);
}

const gp_world_class gp_threads_class = {
    .name = "threads",
    .destroy = destroy,
    .slot_bytes = slot_bytes_of,
    .link_bytes = link_bytes,
    .open_receiver = gp_threads_open_receiver,
    .open_sender = gp_threads_open_sender,
    .reserve = gp_threads_reserve,
    .await = gp_threads_await,
    .commit = gp_threads_commit,
    .release = gp_threads_release,
    .doing = gp_threads_doing,
    .barrier = gp_threads_barrier,
    .all_gather = gp_threads_all_gather,
    .group_bytes = gp_threads_group_bytes,
    .open_group = gp_threads_open_group,
    .sum = gp_threads_sum,
    .share = gp_threads_share,
    .wait = gp_threads_wait_for_own,
    .wake = gp_threads_wake_worker,
    .fail = fail,
    .failed = gp_threads_failed,
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

gp_status gp_threads_begin(gp_thread_world *world, const gp_world_class *class, int workers, int first_local, int local,
                           const gp_world_options *options) {
    double report_after = options ? options->report_after : 0;
    world->world = (gp_world){class, workers, first_local, local, report_after > 0 ? report_after : 30};
    pthread_mutex_init(&world->lock, NULL);
    return create_seats(world);
}

gp_status gp_world_create_threads(gp_world **world, int workers, const gp_world_options *options) {
    *world = NULL;
    if (workers < 1) return gp_error(GP_INVALID, "a world has at least 1 worker, not %d", workers);
    gp_thread_world *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = gp_threads_begin(made, &gp_threads_class, workers, 0, workers, options);
    if (status != GP_OK) {
        destroy(&made->world);
        return status;
    }
    *world = &made->world;
    return GP_OK;
}
