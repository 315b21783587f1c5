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

/* ---- gathering ---- */

/* What the others give lies on their stacks: they leave early only after a failure, and then await_readers. */
static gp_status read_all(gp_thread_world *world, int worker, size_t bytes, void *all) {
    gp_thread_seat *self = &world->seats[worker];
    atomic_store(&self->reading, true);
    bool failed = atomic_load(&world->failed);
    for (int w = 0; !failed && w < world->world.workers; w++)
        memcpy((char *)all + (size_t)w * bytes, world->seats[w].gathered, bytes);
    atomic_store(&self->reading, false);
    if (!atomic_load(&world->failed)) return GP_OK;
    for (int w = 0; w < world->world.workers; w++)
        gp_threads_wake(world, w); /* it may be waiting for this reader */
    return gp_error(GP_ABORTED, "stopped because another worker failed");
}

/* After a failure: who has not begun to read will not. */
static void await_readers(gp_thread_world *world, int worker) {
    gp_event *event = &world->seats[worker].event;
    for (int w = 0; w < world->world.workers; w++) {
        for (;;) {
            uint32_t seen = gp_event_now(event);
            if (!atomic_load(&world->seats[w].reading)) break;
            gp_event_wait(event, seen, -1);
        }
    }
}

gp_status gp_threads_all_gather(gp_world *base, int worker, const void *mine, size_t bytes, void *all) {
    gp_thread_world *world = threads_of(base);
    world->seats[worker].gathered = mine;
    gp_status status = gp_threads_barrier(base, worker);
    if (status == GP_OK) status = read_all(world, worker, bytes, all);
    if (status == GP_OK) status = gp_threads_barrier(base, worker); /* nobody leaves before all have read */
    if (status != GP_OK) await_readers(world, worker);
    return status;
}
