/* Inside threads/: a world whose workers are threads of this process.
 *
 * Every worker has one event; whatever may end a wait of that worker signals it. A waiter looks at its condition again
 * whenever its event moves, so a wake-up too many does no harm and one too few cannot happen. */
#ifndef GP_WORLD_THREADS_THREADS_H
#define GP_WORLD_THREADS_THREADS_H

#include <pthread.h>
#include <stdalign.h>

#include "base/thread.h"
#include "world/class.h"

enum { GP_WORDS = 48 };

typedef struct gp_thread_link gp_thread_link;
typedef struct gp_thread_group gp_thread_group;

/* One lane of one worker as the others see it; on cache lines of its own, since it is written at every action. Its
 * number is lane * workers + worker. */
typedef struct gp_thread_seat {
    alignas(64) gp_event event;
    _Atomic int waits_for;                /* a seat; GP_WAITS_FOR_NOBODY, GP_WAITS_FOR_ALL */
    _Atomic(const char *) waits_for_what; /* a constant text */
    pthread_mutex_t words_lock;
    char words[GP_WORDS];
    const void *gathered; /* what it gives to the all_gather that is going on */
    _Atomic bool reading; /* what the others give to it */
} gp_thread_seat;

enum { GP_WAITS_FOR_NOBODY = -1, GP_WAITS_FOR_ALL = -2 };

typedef struct gp_thread_world gp_thread_world;

/* What a world adds whose other workers live in other processes (mpi/). */
typedef struct gp_thread_hooks {
    void (*poll)(gp_thread_world *world); /* lets transfers go on */
    /* Whether one more thread that polls without a pause would take time from so many workers that compute and threads
     * that poll. */
    bool (*crowded)(const gp_thread_world *world, int computing, int polling);
    bool (*speaks)(const gp_thread_world *world); /* whether this process reports long waits */
    /* Adds where a worker is. */
    void (*add_place)(const gp_thread_world *world, int worker, char *text, size_t size);
    /* Seconds for which nothing was heard of the worker's process; 0 when all is well. */
    double (*silence)(const gp_thread_world *world, int worker);
} gp_thread_hooks;

struct gp_thread_world {
    gp_world world;
    const gp_thread_hooks *hooks; /* NULL: all workers are here */
    gp_thread_seat *seats;
    _Atomic int waiting; /* workers of this process that wait for something */
    _Atomic int polling; /* threads that do so without a pause */

    _Atomic int arrived; /* at the barrier */
    _Atomic uint32_t generation;

    pthread_mutex_t lock; /* of the lists and of the failure */
    gp_thread_link *links;
    gp_thread_group *groups;
    gp_failure failure;
    _Atomic bool failed;
};

extern const gp_world_class gp_threads_class;

/* A world of `workers`, of which this process hosts `local` from `first_local` on; to be completed by whoever embeds
 * it. Errors: GP_INVALID, GP_OUT_OF_MEMORY; disposing is right in any case. */
gp_status gp_threads_begin(gp_thread_world *world, const gp_world_class *class, int workers, int first_local, int local,
                           const gp_world_options *options);
void gp_threads_dispose(gp_thread_world *world);

static inline int gp_seat_of(const gp_world *world, int worker, gp_lane lane) {
    return (int)lane * world->workers + worker;
}

/* Waits in a seat's thread until ready(object). `on` is the seat it waits for (or GP_WAITS_FOR_ALL, _NOBODY) and `what`
 * a constant text for the report ("a message"). Errors: GP_ABORTED once any worker has failed, even if ready. */
gp_status gp_threads_wait(gp_thread_world *world, int seat, bool (*ready)(const void *object), const void *object,
                          int on, const char *what);
/* The functions of the table that a world of ranks shares. */
gp_status gp_threads_wait_for_own(gp_world *world, int worker, gp_lane lane, bool (*ready)(const void *object),
                                  const void *object, const char *what);
void gp_threads_wake_worker(gp_world *world, int worker, gp_lane lane);
void gp_threads_doing(gp_world *world, int worker, const char *words);
bool gp_threads_failed(const gp_world *world, gp_failure *failure);
/* Keeps the first failure and ends all waits; returns whether this was the first. */
bool gp_threads_fail(gp_thread_world *world, const gp_failure *failure);

/* Lets a seat look at its condition again. */
void gp_threads_wake(gp_thread_world *world, int seat);

gp_status gp_threads_open_receiver(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                                   void *memory, gp_link **link);
gp_status gp_threads_open_sender(gp_world *world, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                                 void *staging, gp_link **link);
gp_status gp_threads_reserve(gp_link *link, void **buffer);
gp_status gp_threads_commit(gp_link *link, size_t bytes);
gp_status gp_threads_await(gp_link *link, void **buffer, int *slot, gp_passage *passage);
void gp_threads_release(gp_link *link, int slot);
void gp_threads_free_links(gp_thread_link *links);

gp_status gp_threads_barrier(gp_world *world, int worker);
gp_status gp_threads_all_gather(gp_world *world, int worker, const void *mine, size_t bytes, void *all);

size_t gp_threads_group_bytes(const gp_world *world, int worker, const gp_group_options *options);
gp_status gp_threads_open_group(gp_world *world, int worker, const gp_group_options *options, gp_group **group);
gp_status gp_threads_sum(gp_group *group, const gp_group_sum_part *part);
gp_status gp_threads_share(gp_group *group, const gp_group_share_part *part);
void gp_threads_free_groups(gp_thread_group *groups);

#endif
