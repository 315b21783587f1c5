/* See clock.h. At the beginning the ranks that ask do so one after the other, QUESTIONS times each; after that they ask
 * with every sign of life (control.c). */
#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

enum { QUESTIONS = 20, CLOCK_TAG = 1 };

/* Seconds that two clocks may drift apart in a second: what crystals are good for. */
static const double drift = 2e-5;

gp_clock_estimate gp_clock_estimate_from(double asked, double told, double heard) {
    return (gp_clock_estimate){
        .offset = told - asked - (heard - asked) / 2, .error = (heard - asked) / 2, .made = heard};
}

bool gp_clock_replaces(const gp_clock_estimate *found, const gp_clock_estimate *kept) {
    return kept->made == 0 || found->error <= kept->error + drift * (found->made - kept->made);
}

/* ---- who asks ---- */

/* The first rank on a rank's machine. */
static int first_there(const gp_cluster *cluster, int rank) {
    int first = 0;
    while (!gp_cluster_same_host(cluster, first, rank))
        first++;
    return first;
}

bool gp_clock_follows(const gp_cluster *cluster, int rank) {
    return rank > 0 && rank != cluster->rank && rank == first_there(cluster, cluster->rank);
}

static bool asks(const gp_cluster *cluster, int rank) {
    return rank > 0 && rank == first_there(cluster, rank);
}

bool gp_clock_asks(const gp_cluster *cluster) {
    return asks(cluster, cluster->rank);
}

void gp_clock_learn(gp_cluster *cluster, double asked, double told) {
    gp_clock_estimate found = gp_clock_estimate_from(asked, told, gp_seconds());
    if (!gp_clock_replaces(&found, &cluster->estimate)) return;
    cluster->estimate = found;
    atomic_store(&cluster->clock, found.offset);
}

/* ---- at the beginning ---- */

/* Lost (on purpose) when a message does not arrive: MPI may still write to it. */
typedef struct question {
    gp_mpi_transfer sending, receiving;
    double sent, received;
} question;

static gp_status start(gp_cluster *cluster, question *q, bool sends, int rank) {
    gp_cluster_lock(cluster);
    if (sends) q->sent = gp_seconds();
    gp_status status = sends ? gp_mpi_send(cluster, cluster->comm, &q->sent, sizeof q->sent, sizeof q->sent, rank,
                                           CLOCK_TAG, &q->sending)
                             : gp_mpi_receive(cluster, cluster->comm, &q->received, sizeof q->received, rank, CLOCK_TAG,
                                              &q->receiving);
    gp_cluster_unlock(cluster);
    return status;
}

/* One question and its answer, as the one who asks or the one who knows. */
static gp_status ask(gp_cluster *cluster, question *q, int rank, bool knows) {
    GP_TRY(start(cluster, q, false, rank));
    if (!knows) GP_TRY(start(cluster, q, true, rank));
    GP_TRY(gp_cluster_await(cluster, &q->receiving));
    if (knows) GP_TRY(start(cluster, q, true, rank));
    if (!knows) {
        gp_cluster_lock(cluster);
        gp_clock_learn(cluster, q->sent, q->received);
        gp_cluster_unlock(cluster);
    }
    return gp_cluster_await(cluster, &q->sending);
}

static gp_status ask_often(gp_cluster *cluster, int rank, bool knows) {
    question *q = gp_allocate(sizeof *q);
    if (!q) return GP_OUT_OF_MEMORY;
    for (int i = 0; i < QUESTIONS; i++)
        GP_TRY(ask(cluster, q, rank, knows));
    gp_free(q);
    return GP_OK;
}

/* The first rank of a machine knows for all that are there. */
static gp_status take_over(gp_cluster *cluster, bool each) {
    double own = atomic_load(&cluster->clock), *all = gp_allocate_array((size_t)cluster->ranks, sizeof *all);
    if (!all) return GP_OUT_OF_MEMORY;
    gp_status status = gp_cluster_gather(cluster, &own, sizeof own, all);
    int from = each ? cluster->rank : first_there(cluster, cluster->rank);
    if (status == GP_OK) atomic_store(&cluster->clock, all[from]);
    gp_free(all);
    return status;
}

gp_status gp_clock_compare(gp_cluster *cluster, bool each) {
    cluster->estimate = (gp_clock_estimate){0};
    atomic_store(&cluster->clock, 0);
    for (int r = 1; r < cluster->ranks; r++) {
        if (!each && !asks(cluster, r)) continue;
        if (cluster->rank == 0) GP_TRY(ask_often(cluster, r, true));
        if (cluster->rank == r) GP_TRY(ask_often(cluster, 0, false));
    }
    return take_over(cluster, each);
}
