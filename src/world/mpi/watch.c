/* The service thread of a rank, and what becomes of ranks that end.
 *
 * The thread sleeps until a process on this machine ends (the system tells at once), or until it is time to poll for
 * the sake of workers that compute, or to tell the others that this rank is alive. A rank on another machine is lost
 * when it has been silent for too long; one on this machine never by silence alone: it may be stopped, and the report
 * of long waits says so. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

/* Seconds between polls: while messages leave, while a world works to which messages come by themselves (on links; who
 * takes part in a sum polls for it), and otherwise. */
static const double busy_poll = 3e-4, working_poll = 1e-3, idle_poll = 0.05, works_for = 1.0;

/* ---- lost ranks ---- */

/* At once: the launcher may end this process next. */
void gp_cluster_tell_loss(gp_cluster *cluster) {
    if (cluster->failure.status == GP_PEER_LOST && !atomic_exchange(&cluster->told, true))
        gp_log(GP_LOG_ERROR, "%s", cluster->failure.message);
}

void gp_cluster_fail(gp_cluster *cluster, gp_status status, int worker, const char *message, bool tell) {
    gp_failure failure = {.status = status, .worker = worker};
    snprintf(failure.message, sizeof failure.message, "%s", message);
    pthread_mutex_lock(&cluster->failure_lock);
    bool first = cluster->failure.status == GP_OK;
    if (first) cluster->failure = failure;
    pthread_mutex_unlock(&cluster->failure_lock);
    if (!first) return;
    if (status == GP_PEER_LOST && gp_cluster_speaks(cluster)) gp_cluster_tell_loss(cluster);
    if (tell) gp_control_tell(cluster, -1, &failure); /* before anybody here gives up */
    atomic_store_explicit(&cluster->failed, true, memory_order_release);
    pthread_mutex_lock(&cluster->list_lock);
    for (gp_mpi_world *world = cluster->worlds; world; world = world->next)
        gp_mpi_world_fail(world, &failure, false);
    pthread_mutex_unlock(&cluster->list_lock);
}

gp_status gp_cluster_failure(gp_cluster *cluster) {
    gp_failure failure;
    pthread_mutex_lock(&cluster->failure_lock);
    failure = cluster->failure;
    pthread_mutex_unlock(&cluster->failure_lock);
    return gp_error(failure.status, "%s", failure.message);
}

/* "rank 2 (host b, process 1234, worker 2: B3 of stage 2)"; the caller holds the list's lock. */
static void name_rank(gp_cluster *cluster, int rank, char *text, size_t size) {
    gp_mpi_world *world = cluster->worlds;
    int length =
        snprintf(text, size, "rank %d (host %s, process %d", rank, cluster->peers[rank].host, cluster->peers[rank].pid);
    for (int i = 0; world && i < world->each && length > 0 && (size_t)length < size; i++) {
        int worker = rank * world->each + i;
        gp_thread_seat *seat = &world->threads.seats[worker];
        pthread_mutex_lock(&seat->words_lock);
        if (seat->words[0])
            length += snprintf(text + length, size - (size_t)length, ", worker %d: %s", worker, seat->words);
        pthread_mutex_unlock(&seat->words_lock);
    }
    if (length > 0 && (size_t)length < size) snprintf(text + length, size - (size_t)length, ")");
}

void gp_cluster_lose(gp_cluster *cluster, int rank, const char *why) {
    char name[300], message[500];
    gp_mpi_peer *peer = &cluster->peers[rank];
    if (atomic_load(&peer->left) || atomic_exchange(&peer->lost, true)) return;
    pthread_mutex_lock(&cluster->list_lock);
    name_rank(cluster, rank, name, sizeof name);
    int worker = cluster->worlds ? rank * cluster->worlds->each : -1;
    pthread_mutex_unlock(&cluster->list_lock);
    snprintf(message, sizeof message, "%s was lost: %s", name, why);
    gp_cluster_fail(cluster, GP_PEER_LOST, worker, message, true);
}

void gp_cluster_report_wait(gp_cluster *cluster, double waited) {
    char text[900], name[300];
    double now = gp_seconds();
    if (!gp_cluster_speaks(cluster)) return;
    int length = snprintf(text, sizeof text, "rank %d (host %s) has waited %.1f s for the other ranks", cluster->rank,
                          cluster->peers[cluster->rank].host, waited);
    for (int r = 0, told = 0; r < cluster->ranks && told < 4; r++) {
        double silent = now - atomic_load(&cluster->peers[r].heard);
        if (r == cluster->rank || silent < 3 * cluster->beat || length < 0 || (size_t)length >= sizeof text) continue;
        pthread_mutex_lock(&cluster->list_lock);
        name_rank(cluster, r, name, sizeof name);
        pthread_mutex_unlock(&cluster->list_lock);
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %s, which has been silent for %.0f s",
                           told++ == 0 ? ", of which" : ",", name, silent);
    }
    gp_log(GP_LOG_WARNING, "%s", text);
}

/* ---- looking ---- */

static void look_for_silence(gp_cluster *cluster, double now) {
    for (int r = 0; r < cluster->ranks; r++) {
        gp_mpi_peer *peer = &cluster->peers[r];
        double silent = now - atomic_load(&peer->heard);
        if (r == cluster->rank || peer->watch >= 0 || silent < cluster->lost_after) continue;
        char why[80];
        snprintf(why, sizeof why, "it has not been heard of for %.0f seconds", silent);
        gp_cluster_lose(cluster, r, why);
    }
}

static bool has_left(gp_cluster *cluster, int rank) {
    gp_cluster_poll(cluster); /* it may have said good-bye just before */
    return atomic_load(&cluster->peers[rank].left);
}

static void look_at_ends(gp_cluster *cluster, struct pollfd *ends, const int *ranks, int count) {
    for (int i = 0; i < count; i++) {
        if (ends[i].revents == 0) continue;
        if (!has_left(cluster, ranks[i])) gp_cluster_lose(cluster, ranks[i], "its process ended");
        ends[i].fd = -1; /* poll passes over it */
    }
}

/* ---- the thread ---- */

static double seconds_to_sleep(const gp_cluster *cluster, double now, double next_beat) {
    double sleep = idle_poll;
    if (atomic_load(&cluster->links) > 0 && now - atomic_load(&cluster->active) < works_for) sleep = working_poll;
    if (atomic_load(&cluster->sends) > 0) sleep = busy_poll;
    return next_beat - now < sleep ? fmax(next_beat - now, 0) : sleep;
}

static void sleep_on(struct pollfd *ends, nfds_t count, double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    ppoll(ends, count, &time, NULL);
}

struct gp_mpi_watch {
    struct pollfd *ends; /* the wake descriptor, then one per rank on this machine */
    int *ranks;
    int count;
};

static gp_status watch_create(gp_mpi_watch *all, gp_cluster *cluster) {
    all->ends = gp_allocate_array((size_t)cluster->ranks + 1, sizeof *all->ends);
    all->ranks = gp_allocate_array((size_t)cluster->ranks, sizeof *all->ranks);
    if (!all->ends || !all->ranks) return GP_OUT_OF_MEMORY;
    all->ends[0] = (struct pollfd){.fd = cluster->wake, .events = POLLIN};
    for (int r = 0; r < cluster->ranks; r++) {
        if (cluster->peers[r].watch < 0) continue;
        all->ranks[all->count++] = r;
        all->ends[all->count] = (struct pollfd){.fd = cluster->peers[r].watch, .events = POLLIN};
    }
    return GP_OK;
}

static void serve(void *argument) {
    gp_cluster *cluster = argument;
    gp_mpi_watch *all = cluster->watch;
    double next_beat = 0;
    while (!atomic_load(&cluster->stop)) {
        double now = gp_seconds();
        sleep_on(all->ends, (nfds_t)all->count + 1, seconds_to_sleep(cluster, now, next_beat));
        if (atomic_load(&cluster->stop)) break;
        look_at_ends(cluster, all->ends + 1, all->ranks, all->count);
        now = gp_seconds();
        gp_cluster_poll(cluster);
        if (now < next_beat) continue;
        next_beat = now + cluster->beat;
        gp_cluster_lock(cluster);
        gp_control_beat(cluster);
        gp_cluster_unlock(cluster);
        look_for_silence(cluster, now);
    }
}

/* ---- life ---- */

static int open_process(int pid) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

unsigned long long gp_process_started(int pid) {
    char path[64], text[1024];
    unsigned long long started = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    char *field = strrchr(text, ')'); /* the name in front may hold anything */
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (field) sscanf(field, " %llu", &started);
    return started;
}

/* A descriptor of a process on this machine; none when it is not to be seen from here (containers). */
static void watch_peer(gp_cluster *cluster, int rank) {
    gp_mpi_peer *peer = &cluster->peers[rank];
    if (rank == cluster->rank || !gp_cluster_same_host(cluster, rank, cluster->rank)) return;
    peer->watch = open_process(peer->pid);
    if (peer->watch >= 0 && gp_process_started(peer->pid) == peer->started) return;
    if (peer->watch >= 0) close(peer->watch);
    peer->watch = -1;
}

gp_status gp_watch_start(gp_cluster *cluster) {
    for (int r = 0; r < cluster->ranks; r++) {
        atomic_store(&cluster->peers[r].heard, gp_seconds());
        watch_peer(cluster, r);
    }
    cluster->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cluster->wake < 0) return gp_error(GP_FAILED, "an event descriptor could not be made: %s", strerror(errno));
    cluster->watch = gp_allocate(sizeof *cluster->watch);
    if (!cluster->watch) return GP_OUT_OF_MEMORY;
    GP_TRY(watch_create(cluster->watch, cluster));
    return gp_thread_create(&cluster->service, serve, cluster, 0, 0);
}

void gp_watch_stop(gp_cluster *cluster) {
    uint64_t one = 1;
    atomic_store(&cluster->stop, true);
    if (cluster->wake >= 0 && write(cluster->wake, &one, sizeof one) < 0) errno = 0; /* it wakes up soon anyway */
    gp_thread_join(cluster->service);
    cluster->service = NULL;
    if (cluster->wake >= 0) close(cluster->wake);
    cluster->wake = -1;
    for (int r = 0; cluster->peers && r < cluster->ranks; r++) {
        if (cluster->peers[r].watch >= 0) close(cluster->peers[r].watch);
        cluster->peers[r].watch = -1;
    }
    if (!cluster->watch) return;
    gp_free(cluster->watch->ends);
    gp_free(cluster->watch->ranks);
    gp_free(cluster->watch);
    cluster->watch = NULL;
}
