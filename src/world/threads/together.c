/* What threads do together: barrier, gathering, and the sum in a fixed order, for which every member of the group adds
 * one range of the arrays and writes it into everybody's destination. */
#include <string.h>

#include "base/memory.h"
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
    world->members[worker].gathered = mine;
    GP_TRY(gp_threads_barrier(base, worker));
    for (int w = 0; w < base->workers; w++)
        memcpy((char *)all + (size_t)w * bytes, world->members[w].gathered, bytes);
    return gp_threads_barrier(base, worker); /* nobody leaves before all have read */
}

/* ---- ordered sum ---- */

/* Waits until a peer has begun (or finished) as many sums with this worker as this worker with it. */
typedef struct sum_wait {
    const _Atomic uint32_t *theirs;
    uint32_t wanted;
} sum_wait;

static bool peer_is_there(const void *object) {
    const sum_wait *wait = object;
    return atomic_load_explicit(wait->theirs, memory_order_acquire) == wait->wanted;
}

/* Counts in `mine` for every member, then waits for the same count of theirs. `summed`: the counters of finished
 * sums. */
static gp_status meet(gp_thread_world *world, int worker, const gp_ordered_sum *part, bool summed) {
    gp_thread_member *self = &world->members[worker];
    _Atomic uint32_t *mine = summed ? self->summed : self->published;
    for (int i = 0; i < part->member_count; i++) {
        atomic_fetch_add_explicit(&mine[part->members[i]], 1, memory_order_release);
        if (part->members[i] != worker) gp_threads_wake(world, part->members[i]);
    }
    for (int i = 0; i < part->member_count; i++) {
        int peer = part->members[i];
        const gp_thread_member *other = &world->members[peer];
        sum_wait wait = {(summed ? other->summed : other->published) + worker, atomic_load(&mine[peer])};
        GP_TRY(gp_threads_wait(world, worker, peer_is_there, &wait, peer, "its part of a sum"));
    }
    return GP_OK;
}

static gp_status ensure_sources(gp_thread_member *member, size_t count) {
    if (count <= member->source_capacity) return GP_OK;
    const void **grown = gp_grow_array(member->sources, 0, count, sizeof *grown);
    if (!grown) return GP_OUT_OF_MEMORY;
    member->sources = grown;
    member->source_capacity = count;
    return GP_OK;
}

/* First element of a member's range; whole cache lines. */
static int64_t range_begin(int64_t count, int member, int members) {
    int64_t lines = (count + 15) / 16;
    int64_t begin = lines * member / members * 16;
    return begin < count ? begin : count;
}

/* Adds elements begin..end-1 of all contributions into all destinations. Own destination first: it may be one of the
 * contributions, which nobody reads again in this range. */
static gp_status sum_range(gp_thread_world *world, int worker, const gp_ordered_sum *part, int64_t begin, int64_t end) {
    gp_thread_member *self = &world->members[worker];
    size_t offset = (size_t)begin * part->element, total = 0, at = 0;
    for (int i = 0; i < part->member_count; i++)
        total += (size_t)world->members[part->members[i]].part->contribution_count;
    if (end <= begin || total == 0) return GP_OK;
    GP_TRY(ensure_sources(self, total));
    for (int i = 0; i < part->member_count; i++) {
        const gp_ordered_sum *other = world->members[part->members[i]].part;
        for (int c = 0; c < other->contribution_count; c++)
            self->sources[at++] = (char *)other->contributions[c] + offset;
    }
    void *destination = (char *)part->destination + offset;
    part->sum(part->user, destination, self->sources, (int)total, end - begin);
    for (int i = 0; i < part->member_count; i++) {
        if (part->members[i] == worker) continue;
        const void *sum = destination;
        void *copy = (char *)world->members[part->members[i]].part->destination + offset;
        part->sum(part->user, copy, &sum, 1, end - begin);
    }
    return GP_OK;
}

gp_status gp_threads_ordered_sum(gp_world *base, int worker, const gp_ordered_sum *part) {
    gp_thread_world *world = threads_of(base);
    world->members[worker].part = part;
    GP_TRY(meet(world, worker, part, false));
    for (int i = 0; i < part->member_count; i++) {
        if (part->members[i] != worker) continue;
        GP_TRY(sum_range(world, worker, part, range_begin(part->count, i, part->member_count),
                         range_begin(part->count, i + 1, part->member_count)));
    }
    return meet(world, worker, part, true); /* `part` is the caller's: all have read it, all have written here */
}
