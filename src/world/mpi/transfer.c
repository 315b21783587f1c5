/* Transfers: cutting long messages into pieces that MPI can count, starting them, and learning that they have
 * finished. */
#include <stdio.h>
#include <time.h>

#include "base/status.h"
#include "world/mpi/inside.h"

/* ---- pieces ---- */

int gp_mpi_pieces(size_t slot_bytes, size_t largest) {
    size_t pieces = slot_bytes / largest + (slot_bytes % largest != 0);
    return pieces > 0 ? (int)pieces : 1;
}

size_t gp_mpi_piece_bytes(size_t message_bytes, int piece, size_t largest) {
    size_t first = (size_t)piece * largest;
    if (first >= message_bytes) return 0;
    return message_bytes - first < largest ? message_bytes - first : largest;
}

/* ---- starting ---- */

void gp_cluster_lock(gp_cluster *cluster) {
    pthread_mutex_lock(&cluster->lock);
}

void gp_cluster_unlock(gp_cluster *cluster) {
    pthread_mutex_unlock(&cluster->lock);
}

gp_status gp_mpi_error(const gp_cluster *cluster, int error, const char *what) {
    char text[256];
    cluster->calls->describe(error, text, sizeof text);
    return gp_error(GP_FAILED, "%s: %s", what, text);
}

static void begin(gp_cluster *cluster, gp_mpi_transfer *transfer, int pieces, bool sends) {
    transfer->begun = gp_seconds();
    transfer->ended = 0;
    transfer->sends = sends;
    atomic_store(&transfer->error, 0);
    atomic_store_explicit(&transfer->pending, pieces, memory_order_relaxed);
    atomic_store_explicit(&cluster->active, transfer->begun, memory_order_relaxed);
}

/* Only the pieces that were begun will finish. */
static gp_status not_begun(const gp_cluster *cluster, gp_mpi_transfer *transfer, int begun, int error,
                           const char *what) {
    atomic_store(&transfer->pending, begun);
    return gp_mpi_error(cluster, error, what);
}

gp_status gp_mpi_send(gp_cluster *cluster, gp_mpi_comm *comm, const void *data, size_t bytes, size_t slot_bytes, int to,
                      int tag, gp_mpi_transfer *transfer) {
    int pieces = gp_mpi_pieces(slot_bytes, cluster->largest);
    if (cluster->dead) return gp_error(GP_ABORTED, "stopped because another rank was lost");
    begin(cluster, transfer, pieces, true);
    for (int i = 0; i < pieces; i++) {
        const char *from = (const char *)data + (size_t)i * cluster->largest;
        int count = (int)gp_mpi_piece_bytes(bytes, i, cluster->largest);
        int error = cluster->calls->send(comm, cluster->pool, count > 0 ? from : data, count, to, tag, transfer);
        if (error) return not_begun(cluster, transfer, i, error, "a message could not be sent");
        atomic_fetch_add_explicit(&cluster->sends, 1, memory_order_relaxed);
    }
    return GP_OK;
}

gp_status gp_mpi_receive(gp_cluster *cluster, gp_mpi_comm *comm, void *data, size_t slot_bytes, int from, int tag,
                         gp_mpi_transfer *transfer) {
    int pieces = gp_mpi_pieces(slot_bytes, cluster->largest);
    if (cluster->dead) return gp_error(GP_ABORTED, "stopped because another rank was lost");
    begin(cluster, transfer, pieces, false);
    for (int i = 0; i < pieces; i++) {
        char *to = (char *)data + (size_t)i * cluster->largest;
        int count = (int)gp_mpi_piece_bytes(slot_bytes, i, cluster->largest);
        int error = cluster->calls->receive(comm, cluster->pool, to, count, from, tag, transfer);
        if (error) return not_begun(cluster, transfer, i, error, "a message could not be received");
    }
    return GP_OK;
}

/* ---- finishing ---- */

static void finish(gp_cluster *cluster, const gp_mpi_finished *finished) {
    gp_mpi_transfer *transfer = finished->user;
    if (!transfer) return;
    if (finished->error) atomic_store(&transfer->error, finished->error);
    if (transfer->sends) atomic_fetch_sub_explicit(&cluster->sends, 1, memory_order_relaxed);
    transfer->bytes = finished->bytes;
    transfer->source = finished->source;
    if (atomic_load_explicit(&transfer->pending, memory_order_relaxed) > 1) {
        atomic_fetch_sub_explicit(&transfer->pending, 1, memory_order_relaxed);
        return;
    }
    gp_mpi_world *world = transfer->world;
    int seat = transfer->seat;
    transfer->ended = gp_seconds();
    if (transfer->finished)
        transfer->finished(transfer); /* may start it again */
    else
        atomic_store_explicit(&transfer->pending, 0, memory_order_release);
    if (world) gp_threads_wake(&world->threads, seat);
}

void gp_cluster_poll_locked(gp_cluster *cluster) {
    const gp_mpi_finished *finished;
    if (cluster->dead) return;
    int count = cluster->calls->poll(cluster->pool, &finished);
    for (int i = 0; i < count; i++) {
        if (finished[i].error && !finished[i].user) {
            gp_mpi_error(cluster, finished[i].error, "messages could not be looked for");
            gp_cluster_fail(cluster, GP_FAILED, -1, gp_error_message(), false);
        }
        finish(cluster, &finished[i]);
    }
}

void gp_cluster_poll(gp_cluster *cluster) {
    if (pthread_mutex_trylock(&cluster->lock) != 0) return;
    gp_cluster_poll_locked(cluster);
    gp_cluster_unlock(cluster);
}

static bool some_pending(const gp_mpi_transfer *transfers, int count) {
    for (int i = 0; i < count; i++)
        if (atomic_load(&transfers[i].pending) > 0) return true;
    return false;
}

void gp_mpi_take_back(gp_cluster *cluster, gp_mpi_transfer *transfers, int count) {
    double limit = gp_seconds() + 5;
    for (int i = 0; i < count && !cluster->dead; i++)
        if (atomic_load(&transfers[i].pending) > 0) cluster->calls->cancel(cluster->pool, &transfers[i]);
    while (!cluster->dead && some_pending(transfers, count)) {
        gp_cluster_poll_locked(cluster);
        if (gp_seconds() < limit) continue;
        gp_cluster_fail(cluster, GP_FAILED, -1, "MPI does not let go of receives that were cancelled", false);
        cluster->dead = true; /* what it holds on to goes away now */
    }
}

static void pause_briefly(int rounds) {
    struct timespec time = {.tv_nsec = rounds < 100 ? 10000 : 200000};
    nanosleep(&time, NULL);
}

/* What the transfer works on goes now: MPI must not be let near it again. */
static gp_status give_up(gp_cluster *cluster) {
    gp_cluster_lock(cluster);
    cluster->dead = true;
    gp_cluster_unlock(cluster);
    return gp_cluster_failure(cluster);
}

gp_status gp_cluster_await(gp_cluster *cluster, gp_mpi_transfer *transfer) {
    for (int rounds = 0; atomic_load_explicit(&transfer->pending, memory_order_acquire) > 0; rounds++) {
        if (atomic_load_explicit(&cluster->failed, memory_order_acquire)) return give_up(cluster);
        gp_cluster_poll(cluster);
        if (rounds > 200) pause_briefly(rounds - 200);
    }
    int error = atomic_load(&transfer->error);
    return error ? gp_mpi_error(cluster, error, "a message was lost") : GP_OK;
}
