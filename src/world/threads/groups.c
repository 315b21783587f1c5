/* Groups of threads: every member reads the others' arrays where they are. A member adds up its own piece and writes
 * the sum into everybody's destination.
 *
 * Each member counts the calls that it has begun and the ones it has finished: nobody reads an array before its owner
 * has begun the same call, and nobody leaves before all have finished with its arrays. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/threads/threads.h"

/* A member as the others see it; on cache lines of its own. */
typedef struct group_member {
    alignas(64) _Atomic uint32_t begun;
    _Atomic uint32_t finished;
    _Atomic int seat; /* -1: has not opened the group yet */
    const gp_group_sum_part *sum;
    const gp_group_share_part *share;
} group_member;

typedef struct group_handle {
    gp_group group;
    gp_thread_group *shared;
    int place; /* among the members */
    const void **sources;
    size_t source_capacity;
} group_handle;

struct gp_thread_group {
    gp_thread_group *next;
    gp_thread_world *world;
    int *numbers; /* of the members */
    int count, tag;
    group_member *members;
    group_handle *handles;
};

static group_handle *handle_of(gp_group *group) {
    return (group_handle *)group;
}

/* ---- opening ---- */

size_t gp_threads_group_bytes(const gp_world *world, int worker, const gp_group_options *options) {
    (void)world, (void)worker, (void)options; /* the others' arrays are read where they are */
    return 0;
}

static bool is_group(const gp_thread_group *group, const gp_group_options *options) {
    return group->tag == options->tag && group->count == options->member_count &&
           memcmp(group->numbers, options->members, (size_t)group->count * sizeof *group->numbers) == 0;
}

static void free_group(gp_thread_group *group) {
    if (!group) return;
    for (int i = 0; group->handles && i < group->count; i++)
        gp_free(group->handles[i].sources);
    gp_free(group->handles);
    gp_free(group->members);
    gp_free(group->numbers);
    gp_free(group);
}

static gp_thread_group *make_group(gp_thread_world *world, const gp_group_options *options) {
    size_t count = (size_t)options->member_count;
    gp_thread_group *made = gp_allocate(sizeof *made);
    if (!made) return NULL;
    made->world = world;
    made->count = options->member_count;
    made->tag = options->tag;
    made->numbers = gp_allocate_array(count, sizeof *made->numbers);
    made->members = gp_allocate_array(count, sizeof *made->members);
    made->handles = gp_allocate_array(count, sizeof *made->handles);
    if (!made->numbers || !made->members || !made->handles) {
        free_group(made);
        return NULL;
    }
    memcpy(made->numbers, options->members, count * sizeof *made->numbers);
    for (int i = 0; i < made->count; i++) {
        atomic_store(&made->members[i].seat, -1);
        made->handles[i] = (group_handle){{&gp_threads_class, &world->world, made->numbers[i]}, made, i, NULL, 0};
    }
    made->next = world->groups;
    world->groups = made;
    return made;
}

/* The caller holds the world's lock. */
static gp_status take_place(gp_thread_world *world, int worker, const gp_group_options *options, gp_group **group) {
    gp_thread_group *found = world->groups;
    while (found && !is_group(found, options))
        found = found->next;
    if (!found) found = make_group(world, options);
    if (!found) return GP_OUT_OF_MEMORY;
    int place = 0;
    while (found->numbers[place] != worker)
        place++;
    if (atomic_load(&found->members[place].seat) >= 0)
        return gp_error(GP_INVALID, "worker %d opens group %d twice", worker, options->tag);
    atomic_store(&found->members[place].seat, gp_seat_of(&world->world, worker, options->lane));
    *group = &found->handles[place].group;
    return GP_OK;
}

gp_status gp_threads_open_group(gp_world *base, int worker, const gp_group_options *options, gp_group **group) {
    gp_thread_world *world = (gp_thread_world *)base;
    pthread_mutex_lock(&world->lock);
    gp_status status = take_place(world, worker, options, group);
    pthread_mutex_unlock(&world->lock);
    return status;
}

void gp_threads_free_groups(gp_thread_group *groups) {
    while (groups) {
        gp_thread_group *next = groups->next;
        free_group(groups);
        groups = next;
    }
}

/* ---- meeting ---- */

/* Waits until another member has begun (or finished) as many calls as this one. */
typedef struct meeting {
    const _Atomic uint32_t *theirs;
    uint32_t wanted;
} meeting;

static bool has_come(const void *object) {
    const meeting *wait = object;
    return (int32_t)(atomic_load_explicit(wait->theirs, memory_order_acquire) - wait->wanted) >= 0;
}

static gp_status meet(group_handle *handle, bool at_end) {
    gp_thread_group *shared = handle->shared;
    group_member *self = &shared->members[handle->place];
    int seat = atomic_load_explicit(&self->seat, memory_order_relaxed);
    uint32_t mine = 1 + atomic_fetch_add_explicit(at_end ? &self->finished : &self->begun, 1, memory_order_release);
    for (int i = 0; i < shared->count; i++) {
        int other = atomic_load(&shared->members[i].seat);
        if (i != handle->place && other >= 0) gp_threads_wake(shared->world, other);
    }
    for (int i = 0; i < shared->count; i++) {
        const group_member *other = &shared->members[i];
        meeting wait = {at_end ? &other->finished : &other->begun, mine};
        if (i == handle->place || has_come(&wait)) continue;
        int on = atomic_load(&other->seat);
        GP_TRY(gp_threads_wait(shared->world, seat, has_come, &wait, on >= 0 ? on : shared->numbers[i],
                               "its part of a sum"));
    }
    return GP_OK;
}

/* ---- sums ---- */

static gp_status list_sources(group_handle *handle, size_t offset, size_t *count) {
    const gp_thread_group *shared = handle->shared;
    size_t total = 0, at = 0;
    for (int i = 0; i < shared->count; i++)
        total += (size_t)shared->members[i].sum->contribution_count;
    if (total > handle->source_capacity) {
        const void **grown = gp_grow_array(handle->sources, 0, total, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        handle->sources = grown;
        handle->source_capacity = total;
    }
    for (int i = 0; i < shared->count; i++) {
        const gp_group_sum_part *other = shared->members[i].sum;
        for (int c = 0; c < other->contribution_count; c++)
            handle->sources[at++] = (char *)other->contributions[c] + offset;
    }
    *count = total;
    return GP_OK;
}

/* Own destination first: it may be one of the contributions, which nobody reads again in this piece. */
static gp_status add_piece(group_handle *handle, const gp_group_sum_part *part) {
    const gp_thread_group *shared = handle->shared;
    gp_piece piece = part->pieces[handle->place];
    size_t offset = (size_t)piece.first * part->element, count;
    if (piece.count < 1) return GP_OK;
    GP_TRY(list_sources(handle, offset, &count));
    if (count == 0) return GP_OK;
    void *destination = (char *)part->destination + offset;
    part->sum(part->user, destination, handle->sources, (int)count, piece.count);
    for (int i = 0; !part->own_only && i < shared->count; i++) {
        if (i == handle->place) continue;
        const void *sum = destination;
        void *copy = (char *)shared->members[i].sum->destination + offset;
        part->sum(part->user, copy, &sum, 1, piece.count);
    }
    return GP_OK;
}

gp_status gp_threads_sum(gp_group *group, const gp_group_sum_part *part) {
    group_handle *handle = handle_of(group);
    handle->shared->members[handle->place].sum = part;
    GP_TRY(meet(handle, false));
    GP_TRY(add_piece(handle, part));
    return meet(handle, true); /* `part` is the caller's: all have read it, all have written here */
}

gp_status gp_threads_share(gp_group *group, const gp_group_share_part *part) {
    group_handle *handle = handle_of(group);
    const gp_thread_group *shared = handle->shared;
    handle->shared->members[handle->place].share = part;
    GP_TRY(meet(handle, false));
    for (int i = 0; i < shared->count; i++) {
        gp_piece piece = part->pieces[i];
        if (i == handle->place || piece.count < 1) continue;
        size_t offset = (size_t)piece.first * part->element;
        const char *theirs = shared->members[i].share->array;
        part->copy(part->user, (char *)part->array + offset, theirs + offset, (size_t)piece.count * part->element);
    }
    return meet(handle, true);
}
