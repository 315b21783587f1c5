/* Groups over ranks: every member sends the others its arrays' share of their pieces, adds up its own piece from what
 * arrives in its staging memory, and sends the sum back.
 *
 * Messages of one lane between two workers come in the order in which they were sent, and both sides go through the
 * same sums; so their tag need not say which sum they belong to. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

typedef struct group_member {
    int worker, rank;
    int contributions; /* that it gives in every sum */
    int first;         /* of them, in staging memory */
    int send_tag, receive_tag;
} group_member;

typedef struct gp_mpi_group {
    gp_group group;
    gp_mpi_world *world;
    struct gp_mpi_group *next;
    gp_lane lane;
    int place, count;
    group_member *members;
    bool counted; /* the first sum has begun: everybody's contributions are known */
    int own;      /* contributions of its own */
    int foreign_most, foreign;
    size_t piece_bytes;
    char *staging;
    gp_mpi_transfer *transfers; /* scratch of a round */
    int *peers;                 /* with whom each of them is */
    int transfer_count, transfer_room;
    const void **sources;
    int *counts; /* contributions, per member: what is told and heard before the first sum */
} gp_mpi_group;

static const gp_world_class group_class;

/* ---- opening ---- */

static bool all_local(const gp_mpi_world *world, const gp_group_options *options) {
    for (int i = 0; i < options->member_count; i++)
        if (!gp_mpi_is_local(world, options->members[i])) return false;
    return true;
}

size_t gp_mpi_group_bytes(const gp_world *base, int worker, const gp_group_options *options) {
    const gp_mpi_world *world = (const gp_mpi_world *)base;
    (void)worker;
    if (all_local(world, options)) return 0;
    return (size_t)options->contributions * ((options->piece_bytes + 63) / 64 * 64);
}

static int tag_of(const gp_mpi_world *world, int from, int to, gp_lane lane) {
    int pair = (from % world->each) * world->each + to % world->each;
    return gp_mpi_first_tag(world, GP_MPI_GROUPS) + pair * GP_LANES + (int)lane;
}

static void free_group(gp_mpi_group *group) {
    if (!group) return;
    gp_free(group->members);
    gp_free(group->transfers);
    gp_free(group->peers);
    gp_free(group->sources);
    gp_free(group->counts);
    gp_free(group);
}

static void fill_members(gp_mpi_group *group, const gp_group_options *options, int worker) {
    for (int i = 0; i < group->count; i++) {
        int member = options->members[i];
        if (member == worker) group->place = i;
        group->members[i] = (group_member){.worker = member,
                                           .rank = gp_mpi_rank_of(group->world, member),
                                           .send_tag = tag_of(group->world, worker, member, options->lane),
                                           .receive_tag = tag_of(group->world, member, worker, options->lane)};
    }
}

static gp_mpi_group *make_group(gp_mpi_world *world, int worker, const gp_group_options *options) {
    size_t members = (size_t)options->member_count, contributions = (size_t)options->contributions;
    gp_mpi_group *made = gp_allocate(sizeof *made);
    if (!made) return NULL;
    *made = (gp_mpi_group){.group = {&group_class, &world->threads.world, worker},
                           .world = world,
                           .lane = options->lane,
                           .count = options->member_count,
                           .foreign_most = options->contributions,
                           .piece_bytes = (options->piece_bytes + 63) / 64 * 64,
                           .staging = options->staging};
    /* at once: every own contribution to every member, every foreign one; or a piece to and from everybody */
    made->transfer_room = (int)(contributions * members + contributions + 2 * members);
    made->members = gp_allocate_array(members, sizeof *made->members);
    made->transfers = gp_allocate_array((size_t)made->transfer_room, sizeof *made->transfers);
    made->peers = gp_allocate_array((size_t)made->transfer_room, sizeof *made->peers);
    made->sources = gp_allocate_array(contributions + 1, sizeof *made->sources);
    made->counts = gp_allocate_array(2 * members, sizeof *made->counts);
    if (!made->members || !made->transfers || !made->peers || !made->sources || !made->counts) {
        free_group(made);
        return NULL;
    }
    fill_members(made, options, worker);
    return made;
}

gp_status gp_mpi_open_group(gp_world *base, int worker, const gp_group_options *options, gp_group **group) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    gp_cluster *cluster = world->cluster;
    if (all_local(world, options)) return gp_threads_open_group(base, worker, options, group);
    gp_mpi_group *made = make_group(world, worker, options);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_cluster_lock(cluster);
    bool room = cluster->calls->pool_reserve(cluster->pool, made->transfer_room);
    made->next = world->groups;
    world->groups = made;
    gp_cluster_unlock(cluster);
    if (!room) return gp_error(GP_OUT_OF_MEMORY, "no memory for %d transfers", made->transfer_room);
    *group = &made->group;
    return GP_OK;
}

void gp_mpi_free_groups(gp_mpi_world *world) {
    while (world->groups) {
        gp_mpi_group *group = world->groups;
        world->groups = group->next;
        gp_mpi_take_back(world->cluster, group->transfers, group->transfer_room);
        free_group(group);
    }
}

/* ---- rounds of transfers ---- */

static gp_mpi_group *mpi_group_of(gp_group *group) {
    return (gp_mpi_group *)group;
}

static void begin_round(gp_mpi_group *group) {
    group->transfer_count = 0;
    gp_cluster_lock(group->world->cluster);
}

static gp_mpi_transfer *next_transfer(gp_mpi_group *group, int peer) {
    gp_mpi_transfer *transfer = &group->transfers[group->transfer_count];
    group->peers[group->transfer_count++] = group->members[peer].worker;
    transfer->world = group->world;
    transfer->seat = gp_seat_of(&group->world->threads.world, group->group.worker, group->lane);
    return transfer;
}

static gp_status send(gp_mpi_group *group, int to, const void *data, size_t bytes) {
    const gp_mpi_world *world = group->world;
    const group_member *member = &group->members[to];
    return gp_mpi_send(world->cluster, world->comm, data, bytes, bytes, member->rank, member->send_tag,
                       next_transfer(group, to));
}

static gp_status receive(gp_mpi_group *group, int from, void *data, size_t bytes) {
    const gp_mpi_world *world = group->world;
    const group_member *member = &group->members[from];
    return gp_mpi_receive(world->cluster, world->comm, data, bytes, member->rank, member->receive_tag,
                          next_transfer(group, from));
}

/* Waits for all transfers of the round; `status` is what starting them came to. */
static gp_status end_round(gp_mpi_group *group, gp_status status) {
    gp_mpi_world *world = group->world;
    gp_cluster_unlock(world->cluster);
    GP_TRY(status);
    int own = gp_seat_of(&world->threads.world, group->group.worker, group->lane);
    for (int i = 0; i < group->transfer_count; i++)
        GP_TRY(gp_mpi_await(world, own, &group->transfers[i], group->peers[i], "its part of a sum"));
    return GP_OK;
}

/* ---- before the first sum: how many contributions everybody gives ---- */

static gp_status exchange_counts(gp_mpi_group *group, int own) {
    gp_status status = GP_OK;
    int *told = group->counts, *heard = group->counts + group->count;
    begin_round(group);
    for (int i = 0; status == GP_OK && i < group->count; i++) {
        if (i == group->place) continue;
        told[i] = own;
        status = receive(group, i, &heard[i], sizeof *heard);
        if (status == GP_OK) status = send(group, i, &told[i], sizeof *told);
    }
    GP_TRY(end_round(group, status));
    group->counted = true;
    group->own = own;
    for (int i = 0; i < group->count; i++) {
        if (i == group->place) continue;
        group->members[i].contributions = heard[i];
        group->members[i].first = group->foreign;
        group->foreign += heard[i];
        if (heard[i] < 0 || group->foreign + own > group->foreign_most)
            return gp_error(GP_FAILED, "worker %d gives %d contributions to a sum of at most %d",
                            group->members[i].worker, heard[i], group->foreign_most);
    }
    return GP_OK;
}

/* ---- sums ---- */

static size_t offset_of(const gp_group_sum_part *part, int member) {
    return (size_t)part->pieces[member].first * part->element;
}

static size_t bytes_of(const gp_group_sum_part *part, int member) {
    return (size_t)part->pieces[member].count * part->element;
}

static char *staging_of(const gp_mpi_group *group, int contribution) {
    return group->staging + (size_t)contribution * group->piece_bytes;
}

static gp_status exchange_contributions(gp_mpi_group *group, const gp_group_sum_part *part) {
    gp_status status = GP_OK;
    size_t own_bytes = bytes_of(part, group->place);
    begin_round(group);
    for (int i = 0; status == GP_OK && own_bytes > 0 && i < group->count; i++) {
        const group_member *member = &group->members[i];
        for (int c = 0; status == GP_OK && i != group->place && c < member->contributions; c++)
            status = receive(group, i, staging_of(group, member->first + c), own_bytes);
    }
    for (int k = 1; status == GP_OK && k < group->count; k++) {
        int i = (group->place + k) % group->count; /* not all to the same at once */
        size_t bytes = bytes_of(part, i);
        for (int c = 0; status == GP_OK && bytes > 0 && c < part->contribution_count; c++)
            status = send(group, i, (const char *)part->contributions[c] + offset_of(part, i), bytes);
    }
    return end_round(group, status);
}

static void add_own_piece(gp_mpi_group *group, const gp_group_sum_part *part) {
    size_t offset = offset_of(part, group->place);
    int count = 0;
    for (int i = 0; i < group->count; i++) {
        bool own = i == group->place;
        int contributions = own ? part->contribution_count : group->members[i].contributions;
        for (int c = 0; c < contributions; c++)
            group->sources[count++] =
                own ? (const char *)part->contributions[c] + offset : staging_of(group, group->members[i].first + c);
    }
    if (count == 0) return;
    part->sum(part->user, (char *)part->destination + offset, group->sources, count, part->pieces[group->place].count);
}

/* Every member's piece of an array goes to all others. */
static gp_status exchange_pieces(gp_mpi_group *group, char *array, const gp_piece *pieces, size_t element) {
    gp_status status = GP_OK;
    gp_piece own = pieces[group->place];
    begin_round(group);
    for (int i = 0; status == GP_OK && i < group->count; i++) {
        if (i == group->place || pieces[i].count < 1) continue;
        status = receive(group, i, array + (size_t)pieces[i].first * element, (size_t)pieces[i].count * element);
    }
    for (int k = 1; status == GP_OK && own.count > 0 && k < group->count; k++)
        status = send(group, (group->place + k) % group->count, array + (size_t)own.first * element,
                      (size_t)own.count * element);
    return end_round(group, status);
}

static gp_status sum(gp_group *base, const gp_group_sum_part *part) {
    gp_mpi_group *group = mpi_group_of(base);
    if (!group->counted) GP_TRY(exchange_counts(group, part->contribution_count));
    if (part->contribution_count != group->own || bytes_of(part, group->place) > group->piece_bytes)
        return gp_error(GP_FAILED, "a sum of %d contributions and %zu bytes in a group made for %d and %zu",
                        part->contribution_count, bytes_of(part, group->place), group->own, group->piece_bytes);
    GP_TRY(exchange_contributions(group, part));
    if (part->pieces[group->place].count > 0) add_own_piece(group, part);
    if (part->own_only) return GP_OK;
    return exchange_pieces(group, part->destination, part->pieces, part->element);
}

static gp_status share(gp_group *base, const gp_group_share_part *part) {
    return exchange_pieces(mpi_group_of(base), part->array, part->pieces, part->element);
}

static const gp_world_class group_class = {.name = "mpi", .sum = sum, .share = share};
