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

/* One worker as the others see it; on cache lines of its own, since it is written at every action. */
typedef struct gp_thread_member {
    alignas(64) gp_event event;
    _Atomic int waits_for;                /* worker; WAITS_FOR_NOBODY, WAITS_FOR_ALL */
    _Atomic(const char *) waits_for_what; /* a constant text */
    pthread_mutex_t words_lock;
    char words[GP_WORDS];

    const void *gathered;                 /* what it gives to the all_gather that is going on */
    const gp_ordered_sum *part;           /* what it gives to the ordered sum that is going on */
    _Atomic uint32_t *published, *summed; /* [peer]: ordered sums with that peer begun, finished */
    const void **sources;                 /* scratch of ordered sums */
    size_t source_capacity;
} gp_thread_member;

enum { GP_WAITS_FOR_NOBODY = -1, GP_WAITS_FOR_ALL = -2 };

typedef struct gp_thread_world {
    gp_world world;
    gp_thread_member *members;

    _Atomic int arrived; /* at the barrier */
    _Atomic uint32_t generation;

    pthread_mutex_t lock; /* of the links' list and of the failure */
    gp_thread_link *links;
    gp_failure failure;
    _Atomic bool failed;
} gp_thread_world;

/* Waits in `worker`'s thread until ready(object). `on` is the worker it waits for (or GP_WAITS_FOR_ALL) and `what` a
 * constant text for the report ("a message"). Errors: GP_ABORTED once any worker has failed, even if ready. */
gp_status gp_threads_wait(gp_thread_world *world, int worker, bool (*ready)(const void *object), const void *object,
                          int on, const char *what);
/* Lets a worker look at its condition again. */
void gp_threads_wake(gp_thread_world *world, int worker);

gp_status gp_threads_open_receiver(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                                   void *memory, gp_link **link);
gp_status gp_threads_open_sender(gp_world *world, int worker, int receiver, int tag, void *staging, gp_link **link);
gp_status gp_threads_reserve(gp_link *link, void **buffer);
gp_status gp_threads_commit(gp_link *link, size_t bytes);
gp_status gp_threads_await(gp_link *link, void **buffer, int *slot);
void gp_threads_release(gp_link *link, int slot);
void gp_threads_free_links(gp_thread_link *links);

gp_status gp_threads_barrier(gp_world *world, int worker);
gp_status gp_threads_all_gather(gp_world *world, int worker, const void *mine, size_t bytes, void *all);
gp_status gp_threads_ordered_sum(gp_world *world, int worker, const gp_ordered_sum *part);

#endif
