/* A cluster's life, and what its ranks do together outside worlds.
 *
 * What MPI writes to while ranks wait for each other is memory of the cluster's own: when a rank is lost the wait ends,
 * but MPI may still hold on to the memory. */
#include "gpipe/cluster.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "world/mpi/inside.h"
#include "world/mpi/load.h"

/* ---- exchanges ---- */

/* Memory for one exchange. Lost (on purpose) when the exchange does not finish. */
typedef struct exchange {
    gp_mpi_transfer transfer;
    char *memory;
} exchange;

static gp_status finish_exchange(gp_cluster *cluster, exchange *one, int error) {
    if (error) {
        gp_free(one->memory);
        gp_free(one);
        return gp_mpi_error(cluster, error, "ranks could not exchange data");
    }
    return gp_cluster_await(cluster, &one->transfer);
}

static exchange *begin_exchange(size_t bytes) {
    exchange *one = gp_allocate(sizeof *one);
    if (!one) return NULL;
    one->memory = gp_allocate(bytes);
    if (one->memory) return one;
    gp_free(one);
    return NULL;
}

static void end_exchange(exchange *one) {
    gp_free(one->memory);
    gp_free(one);
}

static gp_status gather_some(gp_cluster *cluster, const void *mine, size_t bytes, void *all) {
    size_t ranks = (size_t)cluster->ranks;
    exchange *one = begin_exchange((ranks + 1) * bytes);
    if (!one) return GP_OUT_OF_MEMORY;
    char *own = one->memory + ranks * bytes;
    memcpy(own, mine, bytes);
    gp_cluster_lock(cluster);
    atomic_store(&one->transfer.pending, 1);
    int error = cluster->dead ? 0
                              : cluster->calls->gather(cluster->comm, cluster->pool, own, (int)bytes, one->memory,
                                                       &one->transfer);
    gp_cluster_unlock(cluster);
    GP_TRY(finish_exchange(cluster, one, error));
    memcpy(all, one->memory, ranks * bytes);
    end_exchange(one);
    return GP_OK;
}

gp_status gp_cluster_gather(gp_cluster *cluster, const void *mine, size_t bytes, void *all) {
    size_t most = GP_MPI_LARGEST / 64;
    if (bytes <= most) return bytes > 0 ? gather_some(cluster, mine, bytes, all) : GP_OK;
    return gp_error(GP_INVALID, "%zu bytes are too many to be gathered; at most %zu are possible", bytes, most);
}

gp_status gp_cluster_share(gp_cluster *cluster, int root, void *data, size_t bytes) {
    size_t most = GP_MPI_LARGEST / 64;
    for (size_t at = 0; at < bytes; at += most) {
        size_t count = bytes - at < most ? bytes - at : most;
        exchange *one = begin_exchange(count);
        if (!one) return GP_OUT_OF_MEMORY;
        if (cluster->rank == root) memcpy(one->memory, (char *)data + at, count);
        gp_cluster_lock(cluster);
        atomic_store(&one->transfer.pending, 1);
        int error = cluster->dead ? 0
                                  : cluster->calls->broadcast(cluster->comm, cluster->pool, one->memory, (int)count,
                                                              root, &one->transfer);
        gp_cluster_unlock(cluster);
        GP_TRY(finish_exchange(cluster, one, error));
        memcpy((char *)data + at, one->memory, count);
        end_exchange(one);
    }
    return GP_OK;
}

/* ---- agreement ---- */

typedef struct opinion {
    gp_status status;
    char message[1500];
} opinion;

gp_status gp_cluster_agree(gp_cluster *cluster, gp_status status) {
    opinion *all = gp_allocate_array((size_t)cluster->ranks, sizeof *all);
    opinion mine = {.status = status};
    if (!all) return GP_OUT_OF_MEMORY;
    if (status != GP_OK) snprintf(mine.message, sizeof mine.message, "%s", gp_error_message());
    gp_status result = gp_cluster_gather(cluster, &mine, sizeof mine, all);
    int same = 0, first = -1;
    for (int r = 0; result == GP_OK && r < cluster->ranks; r++) {
        if (all[r].status == GP_OK) continue;
        if (first < 0) first = r;
        same += all[r].status == all[first].status && strcmp(all[r].message, all[first].message) == 0;
    }
    if (first >= 0) {
        all[first].message[sizeof all[first].message - 1] = '\0';
        result = same == cluster->ranks ? gp_error(all[first].status, "%s", all[first].message)
                                        : gp_error(all[first].status, "rank %d (host %s): %s", first,
                                                   cluster->peers[first].host, all[first].message);
    }
    gp_free(all);
    return result;
}

gp_status gp_cluster_any(gp_cluster *cluster, bool mine, bool *any) {
    char *all = gp_allocate((size_t)cluster->ranks), own = mine;
    if (!all) return GP_OUT_OF_MEMORY;
    gp_status status = gp_cluster_gather(cluster, &own, 1, all);
    *any = mine;
    for (int r = 0; status == GP_OK && r < cluster->ranks; r++)
        *any = *any || all[r];
    gp_free(all);
    return status;
}

/* FNV-1a, 64 bits, twice with different beginnings. */
typedef struct digest {
    uint64_t a, b, bytes;
} digest;

static digest digest_of(const void *data, size_t bytes) {
    digest result = {0xcbf29ce484222325u, 0x84222325cbf29ce4u, bytes};
    for (size_t i = 0; i < bytes; i++) {
        result.a = (result.a ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
        result.b = (result.b ^ ((const unsigned char *)data)[i]) * 0x100000001b3u + 1;
    }
    return result;
}

gp_status gp_cluster_compare(gp_cluster *cluster, const char *what, const void *data, size_t bytes) {
    digest *all = gp_allocate_array((size_t)cluster->ranks, sizeof *all), mine = digest_of(data, bytes);
    if (!all) return GP_OUT_OF_MEMORY;
    gp_status status = gp_cluster_gather(cluster, &mine, sizeof mine, all);
    for (int r = 1; status == GP_OK && r < cluster->ranks; r++)
        if (memcmp(&all[r], &all[0], sizeof all[0]) != 0)
            status = gp_error(GP_INVALID, "%s of rank %d (host %s) differs from that of rank 0 (host %s)", what, r,
                              cluster->peers[r].host, cluster->peers[0].host);
    gp_free(all);
    return status;
}

/* ---- what is known ---- */

int gp_cluster_rank(const gp_cluster *cluster) {
    return cluster->rank;
}

int gp_cluster_ranks(const gp_cluster *cluster) {
    return cluster->ranks;
}

const char *gp_cluster_host(const gp_cluster *cluster, int rank) {
    return rank >= 0 && rank < cluster->ranks ? cluster->peers[rank].host : "";
}

const char *gp_cluster_implementation(const gp_cluster *cluster) {
    return cluster->calls->name;
}

bool gp_cluster_same_host(const gp_cluster *cluster, int a, int b) {
    return strcmp(cluster->peers[a].machine, cluster->peers[b].machine) == 0;
}

int gp_cluster_first_core(const gp_cluster *cluster) {
    return cluster->turn;
}

bool gp_cluster_speaks(const gp_cluster *cluster) {
    double now = gp_seconds();
    for (int r = 0; r < cluster->rank; r++) {
        const gp_mpi_peer *peer = &cluster->peers[r];
        bool silent = cluster->service && now - atomic_load(&peer->heard) > 3 * cluster->beat;
        if (!atomic_load(&peer->lost) && !silent) return false; /* a process that is stopped cannot speak */
    }
    return true;
}

/* ---- joining ---- */

/* What ranks tell of themselves. */
typedef struct introduction {
    char host[64], machine[48];
    int pid;
    unsigned long long started;
    cpu_set_t processors; /* that it may use */
} introduction;

static void read_boot(char *text, size_t size) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    text[0] = '\0';
    if (file) {
        if (!fgets(text, (int)size, file)) text[0] = '\0';
        fclose(file);
    }
    text[strcspn(text, "\n")] = '\0';
}

static introduction introduce(void) {
    introduction own = {.pid = (int)getpid()};
    if (gethostname(own.host, sizeof own.host) != 0) snprintf(own.host, sizeof own.host, "unknown");
    own.host[sizeof own.host - 1] = '\0';
    read_boot(own.machine, sizeof own.machine);
    if (!own.machine[0]) snprintf(own.machine, sizeof own.machine, "%.47s", own.host);
    own.started = gp_process_started(own.pid);
    if (sched_getaffinity(own.pid, sizeof own.processors, &own.processors) != 0) CPU_ZERO(&own.processors);
    return own;
}

/* Which ranks must share processors with this one. */
static void find_sharers(gp_cluster *cluster, const introduction *all) {
    const introduction *own = &all[cluster->rank];
    cluster->processors = CPU_COUNT(&own->processors);
    if (cluster->processors < 1) cluster->processors = 1;
    for (int r = 0; r < cluster->ranks; r++) {
        if (strcmp(all[r].machine, own->machine) != 0 || !CPU_EQUAL(&all[r].processors, &own->processors)) continue;
        cluster->sharers++;
        cluster->turn += r < cluster->rank;
    }
    gp_threads_share_processors(cluster->sharers);
}

static gp_status meet_the_others(gp_cluster *cluster) {
    introduction own = introduce(), *all = gp_allocate_array((size_t)cluster->ranks, sizeof *all);
    if (!all) return GP_OUT_OF_MEMORY;
    gp_status status = gp_cluster_gather(cluster, &own, sizeof own, all);
    for (int r = 0; status == GP_OK && r < cluster->ranks; r++) {
        gp_mpi_peer *peer = &cluster->peers[r];
        snprintf(peer->host, sizeof peer->host, "%.63s", all[r].host);
        snprintf(peer->machine, sizeof peer->machine, "%.47s", all[r].machine);
        peer->pid = all[r].pid;
        peer->started = all[r].started;
    }
    if (status == GP_OK) find_sharers(cluster, all);
    gp_free(all);
    return status;
}

static const char *const thread_levels[] = {"single", "funneled", "serialized", "multiple"};

static gp_status start_mpi(gp_cluster *cluster) {
    gp_mpi_threads threads;
    int error = cluster->calls->initialise(&cluster->initialised, &threads);
    if (error) return gp_mpi_error(cluster, error, "MPI could not be initialised");
    if (threads < GP_MPI_THREAD_SERIALIZED)
        return gp_error(GP_INVALID,
                        "MPI (%s) %s the thread level %s; gpipe needs serialized or multiple (MPI_Init_thread)",
                        cluster->calls->name, cluster->initialised ? "granted" : "was initialised by the program with",
                        thread_levels[threads]);
    return GP_OK;
}

static gp_status own_communicator(gp_cluster *cluster, const void *communicator) {
    gp_mpi_comm *given = cluster->calls->comm_of(communicator);
    gp_mpi_transfer made = {.world = NULL};
    if (!given) return gp_error(GP_OUT_OF_MEMORY, "no memory for a communicator");
    gp_cluster_lock(cluster);
    atomic_store(&made.pending, 1);
    int error = cluster->calls->duplicate(given, &cluster->comm, cluster->pool, &made);
    gp_cluster_unlock(cluster);
    gp_status status =
        error ? gp_mpi_error(cluster, error, "a communicator could not be made") : gp_cluster_await(cluster, &made);
    cluster->calls->comm_free(given, false);
    if (status == GP_OK) cluster->calls->place(cluster->comm, &cluster->rank, &cluster->ranks);
    return status;
}

/* srun without a plugin for this MPI starts every process as a job of its own. */
static gp_status check_launcher(const gp_cluster *cluster, const gp_cluster_options *options) {
    const char *by;
    int launched = gp_cluster_launched_by(&by);
    if (options->communicator || launched <= 1 || cluster->ranks > 1) return GP_OK;
    return gp_error(GP_INVALID,
                    "%s started %d processes, but MPI (%s) sees one: start them with the launcher of that MPI (with "
                    "Slurm: srun --mpi=pmix or --mpi=pmi2), or choose the MPI with GPIPE_MPI=openmpi or mpich",
                    by, launched, cluster->calls->name);
}

static gp_status initialise(gp_cluster *cluster, const gp_cluster_options *options) {
    GP_TRY(start_mpi(cluster));
    cluster->pool = cluster->calls->pool_create(64);
    if (!cluster->pool) return gp_error(GP_OUT_OF_MEMORY, "no memory for a pool of transfers");
    GP_TRY(own_communicator(cluster, options->communicator));
    GP_TRY(check_launcher(cluster, options));
    cluster->beat = cluster->ranks > 100 ? 0.01 * cluster->ranks : 1; /* at most 100 signs of life a second and rank */
    cluster->lost_after = options->lost_after > 0 ? options->lost_after : 20;
    if (cluster->lost_after < 3 * cluster->beat) cluster->lost_after = 3 * cluster->beat;
    cluster->peers = gp_allocate_array((size_t)cluster->ranks, sizeof *cluster->peers);
    if (!cluster->peers) return GP_OUT_OF_MEMORY;
    for (int r = 0; r < cluster->ranks; r++)
        cluster->peers[r].watch = -1;
    return meet_the_others(cluster);
}

static gp_status join(gp_cluster *cluster, const gp_cluster_options *options) {
    GP_TRY(gp_mpi_load(options->implementation, &cluster->calls));
    gp_mpi_arrival *arrival = gp_mpi_arrival_begin(cluster->calls->signals);
    gp_status status = initialise(cluster, options);
    gp_mpi_arrival_end(arrival);
    GP_TRY(status);
    gp_cluster_lock(cluster);
    status = gp_control_start(cluster);
    gp_cluster_unlock(cluster);
    if (status == GP_OK) status = gp_watch_start(cluster);
    return status == GP_OK ? gp_clock_compare(cluster, false) : status;
}

static void leave(gp_cluster *cluster, int exit_status, const char *unsaid);

gp_status gp_cluster_create(gp_cluster **cluster, const gp_cluster_options *options) {
    gp_cluster_options known;
    *cluster = NULL;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_cluster_options"));
    if (!(known.lost_after >= 0))
        return gp_error(GP_INVALID, "lost_after is %g seconds; 0 (20 seconds) or more is accepted", known.lost_after);
    gp_cluster *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->list_lock, NULL);
    pthread_mutex_init(&made->failure_lock, NULL);
    made->largest = GP_MPI_LARGEST;
    made->wake = -1;
    gp_status status = join(made, &known);
    if (status != GP_OK) {
        leave(made, gp_status_exit(status), gp_error_message());
        return status;
    }
    *cluster = made;
    return GP_OK;
}

/* ---- leaving ---- */

/* Until all have come, or some are lost, or time is over; returns whether all are there. */
static bool come_together(gp_cluster *cluster, double seconds) {
    double limit = seconds > 0 ? gp_seconds() + seconds : 0;
    size_t ranks = (size_t)cluster->ranks;
    exchange *one = begin_exchange(ranks + 1);
    if (!one) return false;
    gp_cluster_lock(cluster);
    atomic_store(&one->transfer.pending, 1);
    int error = cluster->dead ? 1
                              : cluster->calls->gather(cluster->comm, cluster->pool, one->memory + ranks, 1,
                                                       one->memory, &one->transfer);
    gp_cluster_unlock(cluster);
    while (!error && atomic_load(&one->transfer.pending) > 0) {
        if (atomic_load(&cluster->failed) || (limit > 0 && gp_seconds() > limit)) return false;
        gp_cluster_poll(cluster);
        usleep(200);
    }
    end_exchange(one);
    return !error;
}

/* The service threads of all ranks still run here: ends are told apart from losses by the good-byes. */
static void part(gp_cluster *cluster) {
    gp_cluster_lock(cluster);
    gp_control_say_goodbye(cluster);
    gp_cluster_unlock(cluster);
    come_together(cluster, 10); /* everybody has said it, and messages in order: has heard it */
    gp_watch_stop(cluster);
    double limit = gp_seconds() + 2;
    gp_cluster_lock(cluster);
    while (atomic_load(&cluster->sends) > 0 && gp_seconds() < limit && !cluster->dead)
        gp_cluster_poll_locked(cluster);
    gp_control_stop(cluster);
    gp_cluster_poll_locked(cluster);
    gp_cluster_unlock(cluster);
}

/* An MPI that cannot reach its launcher any more waits for its answer for ever, and that of MPICH over UCX may wait in
 * MPI_Finalize for another process which is in there already and answers nobody (openucx/ucx issue 2254): a process
 * that has nothing left to do but this ends by itself after a while. */
enum { SECONDS_FOR_MPI = 5, SECONDS_FOR_LAUNCHER = 2 };

typedef struct last_resort {
    int exit_status;
    const char *unsaid;  /* an error that the thread which waits for MPI can no longer tell of; NULL: none */
    char words[300];     /* to be said then; "": nothing */
    bool (*leave)(void); /* tells the launcher; NULL: nothing to be told */
    atomic_bool over;    /* MPI has come back */
    atomic_bool told;
    gp_thread *thread;
} last_resort;

static bool comes_true(const atomic_bool *condition, double seconds) {
    double limit = gp_seconds() + seconds;
    while (!atomic_load(condition) && gp_seconds() < limit)
        usleep(10000);
    return atomic_load(condition);
}

static void tell_launcher(void *user) {
    last_resort *resort = user;
    resort->leave();
    atomic_store(&resort->told, true);
}

static void end_without_mpi(void *user) {
    last_resort *resort = user;
    gp_thread *telling;
    if (comes_true(&resort->over, SECONDS_FOR_MPI)) return;
    if (resort->unsaid) gp_log(GP_LOG_ERROR, "%s", resort->unsaid);
    if (resort->words[0]) gp_log(GP_LOG_WARNING, "%s", resort->words);
    if (resort->leave && gp_thread_create(&telling, tell_launcher, resort, 0, 0) == GP_OK)
        comes_true(&resort->told, SECONDS_FOR_LAUNCHER);
    _exit(resort->exit_status);
}

static gp_status begin_last_resort(last_resort *resort) {
    fflush(NULL);
    return gp_thread_create(&resort->thread, end_without_mpi, resort, 0, 0);
}

/* By name: machines that share a system (containers) are connected as others are. */
static bool over_machines(const gp_cluster *cluster) {
    for (int r = 0; cluster->peers && r < cluster->ranks; r++)
        if (strcmp(cluster->peers[r].host, cluster->peers[cluster->rank].host) != 0) return true;
    return false;
}

static void finalise(const gp_cluster *cluster, int exit_status, const char *unsaid) {
    last_resort resort = {.exit_status = exit_status, .unsaid = unsaid, .leave = cluster->calls->leave};
    snprintf(
        resort.words, sizeof resort.words,
        "rank %d has nothing left to do, but MPI (%s) has not come back from MPI_Finalize for %d seconds: the process "
        "ends without it, with status %d",
        cluster->rank, cluster->calls->name, SECONDS_FOR_MPI, exit_status);
    gp_status watched = begin_last_resort(&resort);
    bool left = cluster->calls->leaves && over_machines(cluster) && cluster->calls->leave();
    if (!left) cluster->calls->finalise();
    atomic_store(&resort.over, true);
    if (watched == GP_OK) gp_thread_join(resort.thread);
}

static void free_cluster(gp_cluster *cluster, bool orderly, int exit_status, const char *unsaid) {
    gp_watch_stop(cluster);
    if (orderly && cluster->calls) {
        if (cluster->pool) cluster->calls->pool_free(cluster->pool);
        cluster->calls->comm_free(cluster->comm, true);
        if (cluster->initialised) finalise(cluster, exit_status, unsaid);
    }
    gp_threads_share_processors(1);
    if (orderly) gp_control_destroy(cluster->control); /* otherwise MPI may still write to it */
    pthread_mutex_destroy(&cluster->lock);
    pthread_mutex_destroy(&cluster->list_lock);
    pthread_mutex_destroy(&cluster->failure_lock);
    gp_free(cluster->peers);
    gp_free(cluster);
}

static void leave(gp_cluster *cluster, int exit_status, const char *unsaid) {
    bool whole = cluster->service && !atomic_load(&cluster->failed);
    bool orderly = whole ? come_together(cluster, 0) : cluster->service == NULL && !cluster->dead;
    if (whole && orderly) part(cluster);
    free_cluster(cluster, orderly, exit_status, unsaid);
}

void gp_cluster_destroy(gp_cluster *cluster) {
    if (cluster) leave(cluster, 0, NULL);
}

void gp_cluster_abort(gp_cluster *cluster, int exit_status) {
    last_resort resort = {.exit_status = exit_status};
    if (!cluster) return;
    bool all = cluster->service && !atomic_load(&cluster->failed) && come_together(cluster, 5);
    if (all) {
        part(cluster);
        free_cluster(cluster, true, exit_status, NULL);
        return;
    }
    /* The one who has spoken ends the job; should it not be able to, the others end by themselves. */
    double limit = gp_seconds() + 2;
    while (!gp_cluster_speaks(cluster) && gp_seconds() < limit)
        usleep(10000);
    gp_cluster_tell_loss(cluster); /* who should have said it may have been stuck */
    if (begin_last_resort(&resort) != GP_OK) _exit(exit_status);
    cluster->calls->abort(exit_status);
    _exit(exit_status);
}
