/* Groups of threads: every member reads the others' arrays where they are. A member adds up its own piece and writes
 * the sum into everybody's destination.
 *
 * Each member counts the calls that it has begun and the ones it has finished: nobody reads an array before its owner
 * has begun the same call, and nobody leaves before all have finished with its arrays. That holds after a failure too:
 * a call that ends early counts as finished, and who begins one afterwards looks at nothing of the others. */
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

static void wake_others(const group_handle *handle) {
    const gp_thread_group *shared = handle->shared;
    for (int i = 0; i < shared->count; i++) {
        int other = atomic_load(&shared->members[i].seat);
        if (i != handle->place && other >= 0) gp_threads_wake(shared->world, other);
    }
}

static gp_status await_others(const group_handle *handle, bool at_end, uint32_t call) {
    const gp_thread_group *shared = handle->shared;
    int seat = atomic_load_explicit(&shared->members[handle->place].seat, memory_order_relaxed);
    for (int i = 0; i < shared->count; i++) {
        const group_member *other = &shared->members[i];
        meeting wait = {at_end ? &other->finished : &other->begun, call};
        if (i == handle->place || has_come(&wait)) continue;
        int on = atomic_load(&other->seat);
        GP_TRY(gp_threads_wait(shared->world, seat, has_come, &wait, on >= 0 ? on : shared->numbers[i],
                               "its part of a sum"));
    }
    return GP_OK;
}

static gp_status refuse_failed(const group_handle *handle) {
    if (!atomic_load(&handle->shared->world->failed)) return GP_OK;
    return gp_error(GP_ABORTED, "stopped because another worker failed");
}

/* Begins a call: afterwards the others' parts are there. Counting comes before the look at the failure, so that a
 * member that leaves because of one either sees this call or is not looked at by it. */
static gp_status begin_call(const group_handle *handle) {
    const gp_thread_group *shared = handle->shared;
    uint32_t call = 1 + atomic_fetch_add(&shared->members[handle->place].begun, 1);
    wake_others(handle);
    GP_TRY(refuse_failed(handle));
    return await_others(handle, false, call);
}

/* Whether a member may still look at the others' parts of a call. */
static bool is_inside(const group_member *member, uint32_t call) {
    return (int32_t)(atomic_load(&member->begun) - call) >= 0 && (int32_t)(atomic_load(&member->finished) - call) < 0;
}

/* After a failure: waits until nobody looks at this member's part any more, which takes no other's help. */
static void await_readers(const group_handle *handle, uint32_t call) {
    const gp_thread_group *shared = handle->shared;
    int seat = atomic_load_explicit(&shared->members[handle->place].seat, memory_order_relaxed);
    gp_event *event = &shared->world->seats[seat].event;
    for (int i = 0; i < shared->count; i++) {
        for (;;) {
            uint32_t seen = gp_event_now(event);
            if (!is_inside(&shared->members[i], call)) break;
            gp_event_wait(event, seen, -1);
        }
    }
}

/* Ends a call, which has come to `status` so far: afterwards nobody looks at this member's part. */
static gp_status end_call(const group_handle *handle, gp_status status) {
    gp_world *world = &handle->shared->world->world;
    if (status != GP_OK && status != GP_ABORTED) gp_world_fail(world, handle->group.worker, status, gp_error_message());
    uint32_t call = 1 + atomic_fetch_add(&handle->shared->members[handle->place].finished, 1);
    wake_others(handle);
    if (status == GP_OK) status = await_others(handle, true, call);
    if (status == GP_OK) status = refuse_failed(handle); /* then not everybody did its part */
    if (status != GP_OK) await_readers(handle, call);
    return status;
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
    gp_status status = begin_call(handle);
    if (status == GP_OK) status = add_piece(handle, part);
    return end_call(handle, status); /* `part` is the caller's: all have read it, all have written here */
}

static void copy_pieces(const group_handle *handle, const gp_group_share_part *part) {
    const gp_thread_group *shared = handle->shared;
    for (int i = 0; i < shared->count; i++) {
        gp_piece piece = part->pieces[i];
        if (i == handle->place || piece.count < 1) continue;
        size_t offset = (size_t)piece.first * part->element;
        const char *theirs = shared->members[i].share->array;
        part->copy(part->user, (char *)part->array + offset, theirs + offset, (size_t)piece.count * part->element);
    }
}

gp_status gp_threads_share(gp_group *group, const gp_group_share_part *part) {
    group_handle *handle = handle_of(group);
    handle->shared->members[handle->place].share = part;
    gp_status status = begin_call(handle);
    if (status == GP_OK) copy_pieces(handle, part);
    return end_call(handle, status);
}
