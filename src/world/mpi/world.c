/* A world over ranks: a world of threads for the workers here, seats for those elsewhere, and a communicator of its
 * own. Ending it needs all ranks: messages that a failure has left without a receiver are taken and thrown away, so
 * that nothing is under way when the memory goes. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

/* ---- what the waits of threads need to know ---- */

static void poll_for_transfers(gp_thread_world *base) {
    gp_mpi_world *world = gp_mpi_world_of(&base->world);
    atomic_store_explicit(&world->cluster->active, gp_seconds(), memory_order_relaxed);
    gp_cluster_poll(world->cluster);
}

static bool is_crowded(const gp_thread_world *base, int computing, int polling) {
    const gp_mpi_world *world = (const gp_mpi_world *)base;
    return computing * world->compute_threads + polling >= world->processors;
}

static bool speaks(const gp_thread_world *base) {
    return gp_cluster_speaks(((const gp_mpi_world *)base)->cluster);
}

static void add_place(const gp_thread_world *base, int worker, char *text, size_t size) {
    const gp_mpi_world *world = (const gp_mpi_world *)base;
    int rank = gp_mpi_rank_of(world, worker);
    size_t length = strlen(text);
    snprintf(text + length, size - length, " on rank %d, host %s", rank, world->cluster->peers[rank].host);
}

static double silence(const gp_thread_world *base, int worker) {
    const gp_mpi_world *world = (const gp_mpi_world *)base;
    double silent = gp_seconds() - atomic_load(&world->cluster->peers[gp_mpi_rank_of(world, worker)].heard);
    return gp_mpi_is_local(world, worker) || silent < 3 * world->cluster->beat ? 0 : silent;
}

static const gp_thread_hooks hooks = {poll_for_transfers, is_crowded, speaks, add_place, silence};

static bool has_finished(const void *object) {
    const gp_mpi_transfer *transfer = object;
    return atomic_load_explicit(&transfer->pending, memory_order_acquire) == 0;
}

gp_status gp_mpi_await(gp_mpi_world *world, int seat, const gp_mpi_transfer *transfer, int on, const char *what) {
    GP_TRY(gp_threads_wait(&world->threads, seat, has_finished, transfer, on, what));
    int error = atomic_load(&transfer->error);
    return error ? gp_mpi_error(world->cluster, error, "a message was lost") : GP_OK;
}

/* ---- what is known of workers elsewhere ---- */

/* The constant text of this content; texts are few. NULL: none, or too many. */
static const char *intern(gp_mpi_world *world, const char *text) {
    if (!*text) return NULL;
    for (int i = 0; i < world->text_count; i++)
        if (strcmp(world->texts[i], text) == 0) return world->texts[i];
    if (world->text_count == GP_MPI_TEXTS) return NULL;
    char *copy = world->texts[world->text_count++];
    snprintf(copy, sizeof world->texts[0], "%s", text);
    return copy;
}

void gp_mpi_note_seat(gp_mpi_world *world, int worker, const char *words, const char *what, int waits_for) {
    gp_thread_seat *seat = &world->threads.seats[worker];
    int seats = GP_LANES * world->threads.world.workers;
    pthread_mutex_lock(&seat->words_lock);
    snprintf(seat->words, sizeof seat->words, "%.*s", GP_WORDS - 1, words);
    pthread_mutex_unlock(&seat->words_lock);
    atomic_store(&seat->waits_for_what, intern(world, what));
    atomic_store(&seat->waits_for,
                 waits_for < seats && waits_for >= GP_WAITS_FOR_ALL ? waits_for : GP_WAITS_FOR_NOBODY);
}

/* ---- failure ---- */

void gp_mpi_world_fail(gp_mpi_world *world, const gp_failure *failure, bool verdict) {
    bool first = gp_threads_fail(&world->threads, failure);
    if (!first && verdict) {
        pthread_mutex_lock(&world->threads.lock);
        world->threads.failure = *failure;
        pthread_mutex_unlock(&world->threads.lock);
    }
    if (verdict || failure->status == GP_PEER_LOST) atomic_store(&world->settled, true);
}

static void fail(gp_world *base, int worker, gp_status status, const char *message) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    gp_failure failure = {.status = status, .worker = worker};
    gp_cluster *cluster = world->cluster;
    snprintf(failure.message, sizeof failure.message, "%.*s", (int)sizeof failure.message - 1, message);
    if (cluster->ranks > 1) {
        int rank = gp_mpi_rank_of(world, worker);
        snprintf(failure.message, sizeof failure.message, "rank %d (host %s): %.*s", rank, cluster->peers[rank].host,
                 (int)sizeof failure.message - 100, message);
    }
    if (!gp_threads_fail(&world->threads, &failure)) return;
    if (cluster->rank == 0) atomic_store(&world->settled, true); /* what rank 0 knows first is what counts */
    gp_control_tell(cluster, world->number, &failure);
}

static double world_clock(const gp_world *base) {
    return atomic_load_explicit(&((const gp_mpi_world *)base)->cluster->clock, memory_order_relaxed);
}

/* The others' verdict comes at once unless they are in trouble too. */
static void settle(gp_world *base) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    double limit = gp_seconds() + 3;
    while (gp_threads_failed(base, NULL) && !atomic_load(&world->settled) && gp_seconds() < limit) {
        gp_cluster_poll(world->cluster);
        struct timespec time = {.tv_nsec = 1000000};
        nanosleep(&time, NULL);
    }
}

/* ---- the driver ---- */

static gp_status gather_rows(gp_world *base, void *rows, size_t row_bytes) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    size_t bytes = row_bytes * (size_t)world->each;
    const char *own = (const char *)rows + bytes * (size_t)world->cluster->rank;
    return gp_mpi_exchange_all(world, &world->exchange, -1, own, bytes, rows);
}

static gp_status share_data(gp_world *base, int root, void *data, size_t bytes) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    return gp_mpi_exchange_one(world, &world->exchange, gp_mpi_rank_of(world, root), data, bytes);
}

/* ---- the end ---- */

/* Until all ranks are here and nothing of this world is under way. Without the others (some are lost) it is no use. */
static void drain(gp_mpi_world *world) {
    gp_cluster *cluster = world->cluster;
    gp_mpi_transfer barrier = {.world = NULL};
    size_t ranks = (size_t)cluster->ranks;
    char *all = gp_allocate(ranks + 1);
    bool begun = false;
    for (int rounds = 0; all && !atomic_load(&cluster->failed); rounds++) {
        bool found = false;
        gp_cluster_lock(cluster);
        gp_cluster_poll_locked(cluster);
        bool all_here = begun && atomic_load(&barrier.pending) == 0;
        int error = cluster->calls->discard(world->comm, &found);
        if (!begun && !error && atomic_load(&cluster->sends) == 0) {
            atomic_store(&barrier.pending, 1);
            error = cluster->calls->gather(cluster->comm, cluster->pool, all + ranks, 1, all, &barrier);
            begun = true;
        }
        gp_cluster_unlock(cluster);
        if (error || (all_here && !found)) break; /* what is left would go to a world of the same context to come */
        struct timespec time = {.tv_nsec = 20000};
        if (!found && rounds > 50) nanosleep(&time, NULL);
    }
    gp_cluster_lock(cluster);
    bool over = atomic_load(&barrier.pending) == 0;
    if (!over) cluster->dead = true; /* nobody must count the barrier any more */
    gp_cluster_unlock(cluster);
    if (over) gp_free(all); /* otherwise MPI may still write to it */
}

static void take_from_list(gp_mpi_world *world) {
    gp_cluster *cluster = world->cluster;
    pthread_mutex_lock(&cluster->list_lock);
    for (gp_mpi_world **at = &cluster->worlds; *at; at = &(*at)->next) {
        if (*at != world) continue;
        *at = world->next;
        break;
    }
    pthread_mutex_unlock(&cluster->list_lock);
}

static void destroy(gp_world *base) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    gp_cluster *cluster = world->cluster;
    if (world->comm && !atomic_load(&cluster->failed)) drain(world);
    gp_cluster_lock(cluster);
    take_from_list(world);
    if (atomic_load(&cluster->failed)) cluster->dead = true; /* somebody's messages may be under way to what goes now */
    gp_mpi_free_links(world);
    gp_mpi_free_groups(world);
    gp_mpi_free_meeting(world);
    gp_mpi_exchange_end(world, &world->exchange);
    if (!cluster->dead) gp_cluster_poll_locked(cluster);
    if (!cluster->dead) cluster->calls->comm_free(world->comm, true);
    gp_cluster_unlock(cluster);
    gp_threads_dispose(&world->threads);
    gp_free(world);
}

static const gp_world_class mpi_class = {
    .name = "mpi",
    .destroy = destroy,
    .slot_bytes = gp_mpi_slot_bytes,
    .link_bytes = gp_mpi_link_bytes,
    .open_receiver = gp_mpi_open_receiver,
    .open_sender = gp_mpi_open_sender,
    .doing = gp_threads_doing,
    .barrier = gp_mpi_barrier,
    .all_gather = gp_mpi_all_gather,
    .gather_rows = gather_rows,
    .share_data = share_data,
    .settle = settle,
    .clock = world_clock,
    .group_bytes = gp_mpi_group_bytes,
    .open_group = gp_mpi_open_group,
    .wait = gp_threads_wait_for_own,
    .wake = gp_threads_wake_worker,
    .fail = fail,
    .failed = gp_threads_failed,
};

/* ---- the beginning ---- */

static gp_status own_communicator(gp_mpi_world *world) {
    gp_cluster *cluster = world->cluster;
    gp_mpi_transfer made = {.world = NULL};
    gp_cluster_lock(cluster);
    atomic_store(&made.pending, 1);
    int error = cluster->calls->duplicate(cluster->comm, &world->comm, cluster->pool, &made);
    gp_cluster_unlock(cluster);
    if (error) return gp_mpi_error(cluster, error, "a communicator could not be made");
    GP_TRY(gp_cluster_await(cluster, &made));
    int rank, ranks;
    gp_cluster_lock(cluster);
    cluster->calls->place(world->comm, &rank, &ranks);
    gp_cluster_unlock(cluster);
    return GP_OK;
}

int gp_mpi_first_tag(const gp_mpi_world *world, gp_mpi_tags of) {
    int pairs = world->each * world->each; /* between two ranks */
    int counts[] = {pairs * 2, pairs * GP_LANES, 1, 1}, first = 0;
    for (int i = 0; i < (int)of; i++)
        first += counts[i];
    return first;
}

static void put_on_list(gp_mpi_world *world) {
    gp_cluster *cluster = world->cluster;
    gp_failure early;
    gp_cluster_lock(cluster);
    pthread_mutex_lock(&cluster->list_lock);
    world->number = cluster->world_count++;
    world->next = cluster->worlds;
    cluster->worlds = world;
    pthread_mutex_unlock(&cluster->list_lock);
    if (gp_control_early(cluster, world->number, &early)) gp_mpi_world_fail(world, &early, true);
    gp_cluster_unlock(cluster);
}

gp_status gp_world_create_cluster(gp_world **world, gp_cluster *cluster, int workers, const gp_world_options *options) {
    *world = NULL;
    if (workers < 1 || workers % cluster->ranks != 0)
        return gp_error(GP_INVALID, "%d workers cannot be spread evenly over %d ranks", workers, cluster->ranks);
    int each = workers / cluster->ranks;
    if (cluster->ranks == 1) return gp_world_create_threads(world, workers, options);
    if (each > GP_MPI_MOST_EACH)
        return gp_error(GP_INVALID, "%d workers on each rank; at most %d are possible", each, GP_MPI_MOST_EACH);
    gp_mpi_world *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->cluster = cluster;
    made->each = each;
    made->first = made->each * cluster->rank;
    made->compute_threads = options && options->threads > 1 ? options->threads : 1;
    made->processors = cluster->processors / cluster->sharers;
    gp_status status = gp_threads_begin(&made->threads, &mpi_class, workers, made->first, made->each, options);
    made->threads.hooks = &hooks;
    made->exchange.tag = gp_mpi_first_tag(made, GP_MPI_DRIVERS);
    put_on_list(made);
    if (status == GP_OK) status = gp_mpi_create_meeting(made);
    if (status == GP_OK) status = own_communicator(made);
    if (status != GP_OK) {
        destroy(&made->threads.world);
        return status;
    }
    *world = &made->threads.world;
    return GP_OK;
}
