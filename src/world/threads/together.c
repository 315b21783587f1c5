/* What all threads do together: barrier and gathering. */
#include <string.h>

#include "base/status.h"
#include "world/threads/threads.h"

static gp_thread_world *threads_of(gp_world *world) {
    return (gp_thread_world *)world;
}

/* ---- barrier ---- */

typedef struct barrier_wait {
    gp_thread_world *world;
    uint32_t generation;
} barrier_wait;

static bool all_have_arrived(const void *object) {
    const barrier_wait *wait = object;
    return atomic_load_explicit(&wait->world->generation, memory_order_acquire) != wait->generation;
}

gp_status gp_threads_barrier(gp_world *base, int worker) {
    gp_thread_world *world = threads_of(base);
    barrier_wait wait = {world, atomic_load(&world->generation)};
    if (atomic_fetch_add(&world->arrived, 1) == base->workers - 1) {
        atomic_store(&world->arrived, 0);
        atomic_fetch_add(&world->generation, 1);
        for (int w = 0; w < base->workers; w++)
            if (w != worker) gp_threads_wake(world, w);
    }
    return gp_threads_wait(world, worker, all_have_arrived, &wait, GP_WAITS_FOR_ALL, "the barrier of");
}

gp_status gp_threads_all_gather(gp_world *base, int worker, const void *mine, size_t bytes, void *all) {
    gp_thread_world *world = threads_of(base);
    world->seats[worker].gathered = mine;
    GP_TRY(gp_threads_barrier(base, worker));
    for (int w = 0; w < base->workers; w++)
        memcpy((char *)all + (size_t)w * bytes, world->seats[w].gathered, bytes);
    return gp_threads_barrier(base, worker); /* nobody leaves before all have read */
}
