/* What ranks tell each other besides the work: signs of life with what every worker is doing and waits for, failures,
 * good-bye. Messages are small, all of one size, on the cluster's own communicator; a few receives are always posted.
 *
 * Failures of a world go to rank 0 (or the lowest rank that is left), which keeps the first it hears of and tells it to
 * all: so all ranks report the same one. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

enum { CONTROL_TAG = 0, POSTED = 4, MOST_TOLD = 16, WHAT = 40 };

typedef enum control_kind {
    CONTROL_BEAT,
    CONTROL_FAILURE, /* to the rank that decides */
    CONTROL_VERDICT, /* from it to all */
    CONTROL_ASKS,    /* rank 0 for the time */
    CONTROL_TELLS,   /* it */
    CONTROL_LEAVING
} control_kind;

/* What a worker's own thread is doing. */
typedef struct control_seat {
    char words[GP_WORDS];
    char what[WHAT];
    int waits_for;
} control_seat;

typedef struct control_message {
    control_kind kind;
    int world;        /* number; -1: the cluster */
    int first, count; /* workers told of */
    int lost;         /* with a failure: the first rank that is known to be lost; -1: none */
    double asked;     /* by the clock of the rank that asks for the time */
    double clock;     /* with a sign of life: what its sender adds to get the world's; or the time that is told */
    gp_failure failure;
    control_seat seats[MOST_TOLD];
} control_message;

typedef struct control_mail {
    control_message message;
    gp_mpi_transfer transfer;
    gp_cluster *cluster;
} control_mail;

struct gp_mpi_control {
    control_mail posted[POSTED];
    control_mail *beats;    /* per rank: the last sign of life sent to it */
    control_mail *failures; /* per rank: the last failure, or good-bye, sent to it */
    control_mail *times;    /* per rank: the last question for the time, or answer, sent to it */
    bool stopped;
    int early_world; /* that this rank has not made yet and that has failed already; -1: none */
    gp_failure early;
};

/* ---- receiving ---- */

/* Worlds come and go under the lock, which is held here. */
static gp_mpi_world *find_world(const gp_cluster *cluster, int number) {
    gp_mpi_world *world = cluster->worlds;
    while (world && world->number != number)
        world = world->next;
    return world;
}

/* The lowest rank that is left. */
static int decider(const gp_cluster *cluster) {
    int rank = 0;
    while (rank < cluster->rank && atomic_load(&cluster->peers[rank].lost))
        rank++;
    return rank;
}

static void note_seats(gp_cluster *cluster, const control_message *message) {
    gp_mpi_world *world = find_world(cluster, message->world);
    for (int i = 0; world && i < message->count; i++) {
        int worker = message->first + i;
        if (worker < 0 || worker >= world->threads.world.workers || gp_mpi_is_local(world, worker)) continue;
        gp_mpi_note_seat(world, worker, message->seats[i].words, message->seats[i].what, message->seats[i].waits_for);
    }
}

/* Sends to one rank unless what was sent to it in this mail before is still under way, or the rank is gone. */
static void send_mail(gp_cluster *cluster, control_mail *mail, int to) {
    size_t bytes = sizeof mail->message;
    bool gone = atomic_load(&cluster->peers[to].lost) || atomic_load(&cluster->peers[to].left);
    if (to == cluster->rank || gone || atomic_load(&mail->transfer.pending) > 0) return;
    gp_mpi_send(cluster, cluster->comm, &mail->message, bytes, bytes, to, CONTROL_TAG, &mail->transfer);
}

static int lost_rank(const gp_cluster *cluster) {
    for (int r = 0; r < cluster->ranks; r++)
        if (atomic_load(&cluster->peers[r].lost)) return r;
    return -1;
}

static void send_failure(gp_cluster *cluster, int to, control_kind kind, int world, const gp_failure *failure) {
    control_mail *mail = &cluster->control->failures[to];
    if (atomic_load(&mail->transfer.pending) > 0) return;
    mail->message = (control_message){.kind = kind, .world = world, .failure = *failure, .lost = lost_rank(cluster)};
    send_mail(cluster, mail, to);
}

static void tell_all(gp_cluster *cluster, int world, const gp_failure *failure) {
    for (int r = 0; r < cluster->ranks; r++)
        send_failure(cluster, r, CONTROL_VERDICT, world, failure);
}

/* A failure that another rank tells of. The rank that decides tells all, unless it knows of an earlier one, which it
 * has told all then. */
static void take_failure(gp_cluster *cluster, const control_message *message) {
    bool verdict = message->kind == CONTROL_VERDICT;
    if (message->lost >= 0 && message->lost < cluster->ranks && message->lost != cluster->rank)
        atomic_store(&cluster->peers[message->lost].lost, true);
    if (message->world < 0) {
        gp_cluster_fail(cluster, message->failure.status, message->failure.worker, message->failure.message, false);
        return;
    }
    gp_mpi_world *world = find_world(cluster, message->world);
    if (!world) {
        if (message->world < cluster->world_count) return; /* it is gone */
        cluster->control->early_world = message->world;
        cluster->control->early = message->failure;
    }
    bool known = world && gp_threads_failed(&world->threads.world, NULL);
    if (world) gp_mpi_world_fail(world, &message->failure, verdict);
    if (verdict) return;
    if (world) atomic_store(&world->settled, true); /* what this rank has heard first is what counts */
    if (!known) tell_all(cluster, message->world, &message->failure);
}

static void send_time(gp_cluster *cluster, int to, control_kind kind, double asked) {
    control_mail *mail = &cluster->control->times[to];
    if (atomic_load(&mail->transfer.pending) > 0) return;
    mail->message = (control_message){.kind = kind, .world = -1, .asked = asked, .clock = gp_seconds()};
    send_mail(cluster, mail, to);
}

/* What has to do with clocks. */
static void take_time(gp_cluster *cluster, const control_message *message, int source) {
    if (message->kind == CONTROL_ASKS && !cluster->control->stopped)
        send_time(cluster, source, CONTROL_TELLS, message->asked);
    if (message->kind == CONTROL_TELLS && gp_clock_asks(cluster))
        gp_clock_learn(cluster, message->asked, message->clock);
    if (message->kind == CONTROL_BEAT && gp_clock_follows(cluster, source))
        atomic_store(&cluster->clock, message->clock);
}

static void take_message(gp_mpi_transfer *transfer) {
    control_mail *mail = transfer->user;
    gp_cluster *cluster = mail->cluster;
    bool whole = transfer->bytes == sizeof mail->message && !atomic_load(&transfer->error);
    if (whole && transfer->source >= 0 && transfer->source < cluster->ranks) {
        gp_mpi_peer *peer = &cluster->peers[transfer->source];
        atomic_store(&peer->heard, gp_seconds());
        take_time(cluster, &mail->message, transfer->source);
        if (mail->message.kind == CONTROL_BEAT) note_seats(cluster, &mail->message);
        if (mail->message.kind == CONTROL_LEAVING) atomic_store(&peer->left, true);
        if (mail->message.kind == CONTROL_FAILURE || mail->message.kind == CONTROL_VERDICT)
            take_failure(cluster, &mail->message);
    }
    atomic_store(&transfer->pending, 0);
    if (cluster->control->stopped) return;
    gp_mpi_receive(cluster, cluster->comm, &mail->message, sizeof mail->message, GP_MPI_ANYBODY, CONTROL_TAG, transfer);
}

/* ---- sending ---- */

/* What the workers of this rank are doing in the newest world. */
static void fill_beat(gp_cluster *cluster, control_message *message) {
    gp_mpi_world *world = cluster->worlds;
    *message = (control_message){.kind = CONTROL_BEAT, .world = -1, .clock = atomic_load(&cluster->clock)};
    if (!world) return;
    message->world = world->number;
    message->first = world->first;
    message->count = world->each < MOST_TOLD ? world->each : MOST_TOLD;
    for (int i = 0; i < message->count; i++) {
        gp_thread_seat *seat = &world->threads.seats[world->first + i];
        const char *what = atomic_load(&seat->waits_for_what);
        pthread_mutex_lock(&seat->words_lock);
        memcpy(message->seats[i].words, seat->words, GP_WORDS);
        pthread_mutex_unlock(&seat->words_lock);
        snprintf(message->seats[i].what, WHAT, "%s", what ? what : "");
        message->seats[i].waits_for = atomic_load(&seat->waits_for);
    }
}

void gp_control_beat(gp_cluster *cluster) {
    control_message message;
    if (cluster->dead) return;
    fill_beat(cluster, &message);
    for (int r = 0; r < cluster->ranks; r++) {
        control_mail *mail = &cluster->control->beats[r];
        if (atomic_load(&mail->transfer.pending) > 0) continue;
        mail->message = message;
        send_mail(cluster, mail, r);
    }
    if (gp_clock_asks(cluster)) send_time(cluster, 0, CONTROL_ASKS, gp_seconds());
}

void gp_control_tell(gp_cluster *cluster, int world, const gp_failure *failure) {
    int to = decider(cluster);
    gp_cluster_lock(cluster);
    if (cluster->control && !cluster->control->stopped && !cluster->dead) {
        if (to == cluster->rank || world < 0) {
            tell_all(cluster, world, failure);
        } else {
            send_failure(cluster, to, CONTROL_FAILURE, world, failure);
        }
    }
    gp_cluster_unlock(cluster);
}

bool gp_control_early(gp_cluster *cluster, int world, gp_failure *failure) {
    gp_mpi_control *control = cluster->control;
    if (control->early_world != world) return false;
    *failure = control->early;
    return true;
}

/* ---- life ---- */

gp_status gp_control_start(gp_cluster *cluster) {
    gp_mpi_control *control = gp_allocate(sizeof *control);
    cluster->control = control;
    if (!control) return GP_OUT_OF_MEMORY;
    control->early_world = -1;
    control->beats = gp_allocate_array((size_t)cluster->ranks, sizeof *control->beats);
    control->failures = gp_allocate_array((size_t)cluster->ranks, sizeof *control->failures);
    control->times = gp_allocate_array((size_t)cluster->ranks, sizeof *control->times);
    if (!control->beats || !control->failures || !control->times) return GP_OUT_OF_MEMORY;
    for (int i = 0; i < POSTED; i++) {
        control_mail *mail = &control->posted[i];
        mail->cluster = cluster;
        mail->transfer = (gp_mpi_transfer){.finished = take_message, .user = mail};
        GP_TRY(gp_mpi_receive(cluster, cluster->comm, &mail->message, sizeof mail->message, GP_MPI_ANYBODY, CONTROL_TAG,
                              &mail->transfer));
    }
    return GP_OK;
}

void gp_control_say_goodbye(gp_cluster *cluster) {
    gp_failure nothing = {.status = GP_OK};
    for (int r = 0; r < cluster->ranks; r++)
        send_failure(cluster, r, CONTROL_LEAVING, -1, &nothing);
}

void gp_control_stop(gp_cluster *cluster) {
    gp_mpi_control *control = cluster->control;
    if (!control) return;
    control->stopped = true;
    for (int i = 0; i < POSTED; i++)
        cluster->calls->cancel(cluster->pool, &control->posted[i].transfer);
}

void gp_control_destroy(gp_mpi_control *control) {
    if (!control) return;
    gp_free(control->beats);
    gp_free(control->failures);
    gp_free(control->times);
    gp_free(control);
}
