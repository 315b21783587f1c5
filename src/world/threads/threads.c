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

static void read_words(gp_thread_world *world, int worker, char words[GP_WORDS]) {
    gp_thread_member *member = &world->members[worker];
    pthread_mutex_lock(&member->words_lock);
    memcpy(words, member->words, GP_WORDS);
    pthread_mutex_unlock(&member->words_lock);
}

/* Adds " worker 1 (B0 of stage 1)" and what that worker waits for itself; returns the worker to go on with. */
static int describe_waited_for(gp_thread_world *world, int worker, char *text, size_t size) {
    char words[GP_WORDS];
    size_t length = strlen(text);
    read_words(world, worker, words);
    int next = atomic_load(&world->members[worker].waits_for);
    const char *what = atomic_load(&world->members[worker].waits_for_what);
    if (next == GP_WAITS_FOR_NOBODY || !what) {
        snprintf(text + length, size - length, " worker %d (%s), which is running", worker, words);
        return GP_WAITS_FOR_NOBODY;
    }
    snprintf(text + length, size - length, " worker %d (%s), which waits for %s%s", worker, words, what,
             next == GP_WAITS_FOR_ALL ? " all workers" : " from");
    return next;
}

/* "worker 0 (B0 of stage 0) has waited 30.0 s for a message from worker 1 (F1 of stage 1), which is running": follows
 * who waits for whom until somebody runs or the circle is closed. */
static void report_wait(gp_thread_world *world, int worker, double waited, int on, const char *what) {
    char text[1024], words[GP_WORDS];
    read_words(world, worker, words);
    snprintf(text, sizeof text, "worker %d (%s) has waited %.1f s for %s%s", worker, words, waited, what,
             on == GP_WAITS_FOR_ALL ? " all workers" : " from");
    for (int hops = 0; on >= 0 && hops < world->world.workers; hops++) {
        bool closed = on == worker;
        on = describe_waited_for(world, on, text, sizeof text);
        if (closed) break;
    }
    gp_log(GP_LOG_WARNING, "%s", text);
}

/* ---- waiting ---- */

gp_status gp_threads_wait(gp_thread_world *world, int worker, bool (*ready)(const void *object), const void *object,
                          int on, const char *what) {
    gp_thread_member *member = &world->members[worker];
    double begun = 0, report_at = 0;
    for (;;) {
        uint32_t seen = gp_event_now(&member->event);
        if (atomic_load_explicit(&world->failed, memory_order_acquire)) break;
        if (ready(object)) break;
        if (begun == 0) {
            begun = gp_seconds();
            report_at = begun + world->world.report_after;
            atomic_store(&member->waits_for_what, what);
            atomic_store(&member->waits_for, on);
        }
        if (gp_event_wait(&member->event, seen, report_at - gp_seconds())) continue;
        double now = gp_seconds();
        if (now < report_at) continue;
        report_wait(world, worker, now - begun, on, what);
        report_at = now + (now - begun); /* half as often each time */
    }
    if (begun != 0) atomic_store(&member->waits_for, GP_WAITS_FOR_NOBODY);
    if (!atomic_load_explicit(&world->failed, memory_order_acquire)) return GP_OK;
    return gp_error(GP_ABORTED, "stopped because another worker failed");
}

void gp_threads_wake(gp_thread_world *world, int worker) {
    gp_event_signal(&world->members[worker].event);
}

static void doing(gp_world *base, int worker, const char *words) {
    gp_thread_member *member = &threads_of(base)->members[worker];
    pthread_mutex_lock(&member->words_lock);
    snprintf(member->words, sizeof member->words, "%s", words);
    pthread_mutex_unlock(&member->words_lock);
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
    for (int w = 0; first && w < base->workers; w++)
        gp_threads_wake(world, w);
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
    for (int w = 0; world->members && w < base->workers; w++) {
        pthread_mutex_destroy(&world->members[w].words_lock);
        gp_free(world->members[w].published);
        gp_free(world->members[w].summed);
        gp_free(world->members[w].sources);
    }
    gp_free(world->members);
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
    .ordered_sum = gp_threads_ordered_sum,
    .fail = fail,
    .failed = has_failed,
};

static gp_status create_members(gp_thread_world *world) {
    size_t workers = (size_t)world->world.workers;
    world->members = gp_allocate_array(workers, sizeof *world->members);
    if (!world->members) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < workers; w++)
        pthread_mutex_init(&world->members[w].words_lock, NULL);
    for (size_t w = 0; w < workers; w++) {
        gp_thread_member *member = &world->members[w];
        atomic_store(&member->waits_for, GP_WAITS_FOR_NOBODY);
        member->published = gp_allocate_array(workers, sizeof *member->published);
        member->summed = gp_allocate_array(workers, sizeof *member->summed);
        if (!member->published || !member->summed) return GP_OUT_OF_MEMORY;
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
    gp_status status = create_members(made);
    if (status != GP_OK) {
        destroy(&made->world);
        return status;
    }
    *world = &made->world;
    return GP_OK;
}
