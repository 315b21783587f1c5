/* Exchanges between all ranks of a world, made of single messages: when the world fails they can be given up, which MPI
 * does not allow with its own collective operations.
 *
 * Gathering goes in rounds (Bruck et al. 1997): in round k every rank passes all it knows on to the rank 2^k before it,
 * so that log2 of the ranks rounds are enough. What one rank has for all goes along a binomial tree. */
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

/* Bytes that go along the tree at a time. */
enum { PORTION = 8 << 20 };

/* ---- waiting ---- */

/* In the driver's thread, which has no seat. */
static gp_status await_as_driver(gp_mpi_world *world, const gp_mpi_transfer *transfer) {
    double begun = gp_seconds(), report_after = world->threads.world.report_after;
    for (int rounds = 0; atomic_load_explicit(&transfer->pending, memory_order_acquire) > 0; rounds++) {
        if (gp_threads_failed(&world->threads.world, NULL))
            return gp_error(GP_ABORTED, "stopped because a worker failed");
        gp_cluster_poll(world->cluster);
        struct timespec time = {.tv_nsec = rounds < 400 ? 10000 : 200000};
        if (rounds > 200) nanosleep(&time, NULL);
        double waited = rounds > 400 ? gp_seconds() - begun : 0;
        if (waited < report_after) continue;
        gp_cluster_report_wait(world->cluster, waited);
        report_after = 2 * waited;
    }
    int error = atomic_load(&transfer->error);
    return error ? gp_mpi_error(world->cluster, error, "a message was lost") : GP_OK;
}

static gp_status await(gp_mpi_world *world, int seat, const gp_mpi_transfer *transfer) {
    if (seat < 0) return await_as_driver(world, transfer);
    return gp_mpi_await(world, seat, transfer, GP_WAITS_FOR_ALL, "the barrier of");
}

/* ---- messages ---- */

static void aim(gp_mpi_world *world, gp_mpi_exchange *exchange, int seat) {
    gp_mpi_transfer *both[2] = {&exchange->sending, &exchange->receiving};
    for (int i = 0; i < 2; i++) {
        both[i]->world = seat < 0 ? NULL : world;
        both[i]->seat = seat;
    }
}

static gp_status start(gp_mpi_world *world, gp_mpi_exchange *exchange, int to, size_t send_at, int from,
                       size_t receive_at, size_t bytes) {
    gp_cluster *cluster = world->cluster;
    gp_cluster_lock(cluster);
    gp_status status = GP_OK;
    if (from >= 0)
        status = gp_mpi_receive(cluster, world->comm, exchange->memory + receive_at, bytes, from, exchange->tag,
                                &exchange->receiving);
    if (status == GP_OK && to >= 0)
        status = gp_mpi_send(cluster, world->comm, exchange->memory + send_at, bytes, bytes, to, exchange->tag,
                             &exchange->sending);
    gp_cluster_unlock(cluster);
    return status;
}

/* After a failure the last exchange may still be under way, into the memory that there is. */
static gp_status make_room(const gp_mpi_world *world, gp_mpi_exchange *exchange, size_t bytes) {
    if (gp_threads_failed(&world->threads.world, NULL)) return gp_error(GP_ABORTED, "stopped because a worker failed");
    if (bytes <= exchange->capacity) return GP_OK;
    gp_free(exchange->memory);
    exchange->capacity = 0;
    exchange->memory = gp_allocate(bytes);
    if (!exchange->memory) return GP_OUT_OF_MEMORY;
    exchange->capacity = bytes;
    return GP_OK;
}

/* ---- gathering ---- */

gp_status gp_mpi_exchange_all(gp_mpi_world *world, gp_mpi_exchange *exchange, int seat, const void *mine, size_t bytes,
                              void *all) {
    int rank = world->cluster->rank, ranks = world->cluster->ranks;
    GP_TRY(make_room(world, exchange, bytes * (size_t)ranks));
    memcpy(exchange->memory, mine, bytes);
    aim(world, exchange, seat);
    for (int known = 1; known < ranks; known *= 2) {
        int count = known < ranks - known ? known : ranks - known;
        GP_TRY(start(world, exchange, (rank - known + ranks) % ranks, 0, (rank + known) % ranks, bytes * (size_t)known,
                     bytes * (size_t)count));
        GP_TRY(await(world, seat, &exchange->receiving));
        GP_TRY(await(world, seat, &exchange->sending));
    }
    for (int i = 0; i < ranks; i++)
        memcpy((char *)all + bytes * (size_t)((rank + i) % ranks), exchange->memory + bytes * (size_t)i, bytes);
    return GP_OK;
}

/* ---- from one to all ---- */

/* With ranks counted from the root: a rank receives from itself without its lowest bit, and sends to itself with each
 * lower bit. */
static gp_status pass_on(gp_mpi_world *world, gp_mpi_exchange *exchange, int root, size_t bytes) {
    int ranks = world->cluster->ranks, place = (world->cluster->rank - root + ranks) % ranks, bit = 1;
    while (bit < ranks && !(place & bit))
        bit *= 2;
    if (place > 0) {
        GP_TRY(start(world, exchange, -1, 0, (place - bit + root) % ranks, 0, bytes));
        GP_TRY(await(world, -1, &exchange->receiving));
    }
    for (bit /= 2; bit > 0; bit /= 2) {
        if (place + bit >= ranks) continue;
        GP_TRY(start(world, exchange, (place + bit + root) % ranks, 0, -1, 0, bytes));
        GP_TRY(await(world, -1, &exchange->sending));
    }
    return GP_OK;
}

gp_status gp_mpi_exchange_one(gp_mpi_world *world, gp_mpi_exchange *exchange, int root, void *data, size_t bytes) {
    aim(world, exchange, -1);
    for (size_t at = 0; at < bytes; at += PORTION) {
        size_t count = bytes - at < PORTION ? bytes - at : PORTION;
        GP_TRY(make_room(world, exchange, count));
        if (world->cluster->rank == root) memcpy(exchange->memory, (char *)data + at, count);
        GP_TRY(pass_on(world, exchange, root, count));
        if (world->cluster->rank != root) memcpy((char *)data + at, exchange->memory, count);
    }
    return GP_OK;
}

/* Under the lock. */
void gp_mpi_exchange_end(gp_mpi_world *world, gp_mpi_exchange *exchange) {
    gp_cluster *cluster = world->cluster;
    if (cluster->dead) return; /* MPI may still write to the memory */
    gp_mpi_take_back(cluster, &exchange->receiving, 1);
    gp_free(exchange->memory);
    exchange->memory = NULL;
}
