/* The common half of every world: checks what callers hand in, then looks up the implementation's function. */
#include <math.h>

#include "base/status.h"
#include "base/thread.h"
#include "world/class.h"
#include "world/cluster.h"

const char *gp_cluster_implementations(void) {
    return GPIPE_MPI_NAMES;
}

void gp_world_destroy(gp_world *world) {
    if (world) world->class->destroy(world);
}

int gp_world_workers(const gp_world *world) {
    return world->workers;
}

int gp_world_first_local(const gp_world *world) {
    return world->first_local;
}

int gp_world_local_workers(const gp_world *world) {
    return world->local;
}

/* ---- links ---- */

static gp_status check_ends(const gp_world *world, int worker, int other) {
    if (worker < 0 || worker >= world->workers || other < 0 || other >= world->workers || worker == other)
        return gp_error(GP_INVALID, "a link joins two different workers of 0 to %d, not %d and %d", world->workers - 1,
                        worker, other);
    return GP_OK;
}

static gp_status check_slots(int tag, int slots, size_t slot_bytes) {
    if (tag < 0 || tag > 1) return gp_error(GP_INVALID, "a link's tag is 0 or 1, not %d", tag);
    if (slots < 1) return gp_error(GP_INVALID, "a link has at least 1 slot, not %d", slots);
    if (slot_bytes % 64 != 0) return gp_error(GP_INVALID, "slots of %zu bytes: a multiple of 64 is needed", slot_bytes);
    return GP_OK;
}

size_t gp_link_slot_bytes(const gp_world *world, int worker, int other, size_t slot_bytes) {
    return world->class->slot_bytes(world, worker, other, slot_bytes);
}

size_t gp_link_staging_bytes(const gp_world *world, int worker, int receiver, int slots, size_t slot_bytes) {
    return world->class->link_bytes(world, worker, receiver, slots, slot_bytes);
}

gp_status gp_link_open_receiver(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                                void *memory, gp_link **link) {
    *link = NULL;
    GP_TRY(check_ends(world, worker, sender));
    GP_TRY(check_slots(tag, slots, slot_bytes));
    return world->class->open_receiver(world, worker, sender, tag, slots, slot_bytes, memory, link);
}

gp_status gp_link_open_sender(gp_world *world, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                              void *staging, gp_link **link) {
    *link = NULL;
    GP_TRY(check_ends(world, worker, receiver));
    GP_TRY(check_slots(tag, slots, slot_bytes));
    return world->class->open_sender(world, worker, receiver, tag, slots, slot_bytes, staging, link);
}

gp_status gp_link_reserve(gp_link *link, void **buffer) {
    double begun = gp_seconds();
    GP_TRY(link->class->reserve(link, buffer));
    link->blocked += gp_seconds() - begun;
    return GP_OK;
}

gp_status gp_link_commit(gp_link *link, size_t bytes) {
    return link->class->commit(link, bytes);
}

gp_status gp_link_await(gp_link *link, void **buffer, int *slot) {
    gp_passage passage;
    double begun = gp_seconds();
    GP_TRY(link->class->await(link, buffer, slot, &passage));
    link->figures.messages++;
    link->figures.bytes += (double)passage.bytes;
    link->figures.transfer += fmax(0, passage.arrived - passage.started);
    if (passage.arrived > begun) link->figures.exposed += fmax(0, gp_seconds() - fmax(begun, passage.sent));
    return GP_OK;
}

void gp_link_take_figures(gp_link *link, gp_link_figures *figures) {
    *figures = link->figures;
    link->figures = (gp_link_figures){0};
}

double gp_link_take_blocked(gp_link *link) {
    double blocked = link->blocked;
    link->blocked = 0;
    return blocked;
}

void gp_link_release(gp_link *link, int slot) {
    link->class->release(link, slot);
}

/* ---- together ---- */

void gp_world_doing(gp_world *world, int worker, const char *words) {
    world->class->doing(world, worker, words);
}

gp_status gp_world_barrier(gp_world *world, int worker) {
    return world->class->barrier(world, worker);
}

gp_status gp_world_all_gather(gp_world *world, int worker, const void *mine, size_t bytes, void *all) {
    return world->class->all_gather(world, worker, mine, bytes, all);
}

gp_status gp_world_gather_rows(gp_world *world, void *rows, size_t row_bytes) {
    return world->class->gather_rows ? world->class->gather_rows(world, rows, row_bytes) : GP_OK;
}

gp_status gp_world_share(gp_world *world, int root, void *data, size_t bytes) {
    return world->class->share_data ? world->class->share_data(world, root, data, bytes) : GP_OK;
}

double gp_world_clock(const gp_world *world) {
    return world->class->clock ? world->class->clock(world) : 0;
}

void gp_world_settle(gp_world *world) {
    if (world->class->settle) world->class->settle(world);
}

/* ---- groups ---- */

static gp_status check_group(const gp_world *world, int worker, const gp_group_options *options) {
    bool found = false;
    for (int i = 0; i < options->member_count; i++) {
        int member = options->members[i];
        if (member < 0 || member >= world->workers || (i > 0 && member <= options->members[i - 1]))
            return gp_error(GP_INVALID, "member %d of a group is worker %d; ascending ones of 0 to %d are accepted", i,
                            member, world->workers - 1);
        found = found || member == worker;
    }
    if (!found) return gp_error(GP_INVALID, "worker %d opens a group that it is not a member of", worker);
    return GP_OK;
}

size_t gp_group_staging_bytes(const gp_world *world, int worker, const gp_group_options *options) {
    return world->class->group_bytes(world, worker, options);
}

gp_status gp_group_open(gp_world *world, int worker, const gp_group_options *options, gp_group **group) {
    *group = NULL;
    GP_TRY(check_group(world, worker, options));
    return world->class->open_group(world, worker, options, group);
}

gp_status gp_group_sum(gp_group *group, const gp_group_sum_part *part) {
    return group->class->sum(group, part);
}

gp_status gp_group_share(gp_group *group, const gp_group_share_part *part) {
    return group->class->share(group, part);
}

gp_status gp_world_wait(gp_world *world, int worker, gp_lane lane, bool (*ready)(const void *object),
                        const void *object, const char *what) {
    return world->class->wait(world, worker, lane, ready, object, what);
}

void gp_world_wake(gp_world *world, int worker, gp_lane lane) {
    world->class->wake(world, worker, lane);
}

/* ---- failure ---- */

void gp_world_fail(gp_world *world, int worker, gp_status status, const char *message) {
    world->class->fail(world, worker, status, message);
}

bool gp_world_failed(const gp_world *world, gp_failure *failure) {
    return world->class->failed(world, failure);
}
