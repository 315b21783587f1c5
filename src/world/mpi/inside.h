/* Inside mpi/: ranks that MPI started, and worlds whose workers are spread over them.
 *
 * A world is a world of threads (threads/threads.h) for the workers that this process hosts, with seats for the others
 * that hold what is known of them; links and groups that leave the process go through MPI. All MPI calls are made under
 * one lock. Whoever waits for a transfer polls; besides, a service thread polls now and then, so that transfers go on
 * while workers compute, tells the other ranks that this one is alive and what it is doing, and watches for ranks that
 * end.
 *
 * Failure. An error of a worker belongs to its world: rank 0 hears of it first and tells all, so that all report the
 * same. A rank that is lost is lost for the cluster and for every world of it. */
#ifndef GP_WORLD_MPI_INSIDE_H
#define GP_WORLD_MPI_INSIDE_H

#include <pthread.h>

#include "base/thread.h"
#include "world/cluster.h"
#include "world/mpi/calls.h"
#include "world/mpi/clock.h"
#include "world/threads/threads.h"

typedef struct gp_mpi_world gp_mpi_world;
typedef struct gp_mpi_control gp_mpi_control;
typedef struct gp_mpi_watch gp_mpi_watch;
typedef struct gp_mpi_arrival gp_mpi_arrival;

/* One or several MPI transfers that somebody waits for as one. */
typedef struct gp_mpi_transfer {
    _Atomic int pending; /* MPI transfers */
    bool sends;
    gp_mpi_world *world; /* whose seat is woken when none is left; NULL: nobody is */
    int seat;
    _Atomic int error;   /* of MPI; 0: none */
    double begun, ended; /* seconds */
    size_t bytes;        /* of the last one that was received */
    int source;
    /* Called under the lock when none is left, before the seat is woken; NULL: nothing. */
    void (*finished)(struct gp_mpi_transfer *transfer);
    void *user;
} gp_mpi_transfer;

/* Another rank. */
typedef struct gp_mpi_peer {
    char host[64];
    char machine[48]; /* tells machines apart: their boot */
    int pid;
    unsigned long long started; /* of the process, by the system's clock: pids are used again */
    int watch;                  /* a descriptor that tells of its end; -1: none */
    _Atomic double heard;       /* when it last said something */
    _Atomic bool lost, left;    /* left: it has said good-bye */
} gp_mpi_peer;

struct gp_cluster {
    const gp_mpi_calls *calls;
    bool initialised; /* MPI was initialised here */
    gp_mpi_comm *comm;
    int rank, ranks;
    gp_mpi_peer *peers;         /* per rank, this one too */
    double lost_after, beat;    /* seconds: of silence until a rank is lost, between signs of life */
    size_t largest;             /* bytes of a message of MPI */
    _Atomic double clock;       /* seconds to be added to this rank's clock to get that of rank 0's machine */
    gp_clock_estimate estimate; /* where this rank is the one that asks; under the lock */

    pthread_mutex_t lock; /* of MPI calls and the pool */
    gp_mpi_pool *pool;
    _Atomic int sends;         /* that have not finished */
    _Atomic int links;         /* of all worlds, between this rank and others */
    _Atomic double active;     /* when somebody last started or awaited a transfer */
    pthread_mutex_t list_lock; /* taken after `lock` */
    gp_mpi_world *worlds;      /* the newest first */
    int world_count;           /* made so far: the next one's number */
    int sharers, turn;         /* ranks that may use the same processors; how many of them come before this one */
    int processors;            /* that they share */

    gp_thread *service;
    int wake; /* a descriptor that ends the service thread's sleep */
    _Atomic bool stop;
    gp_mpi_control *control;
    gp_mpi_watch *watch;
    bool dead; /* no more MPI calls: what they work on is gone */

    pthread_mutex_t failure_lock;
    _Atomic bool failed; /* a rank is lost, or MPI fails */
    _Atomic bool told;   /* this process has said so */
    gp_failure failure;
};

/* ---- transfer.c: all under the lock but gp_mpi_await ---- */

/* The largest message of MPI; longer ones go in pieces. */
enum { GP_MPI_LARGEST = 1 << 30 };
/* How many pieces a message of a slot of so many bytes goes in, and the bytes of piece number `piece` of a message. A
 * message has as many pieces as its slot, the last ones perhaps empty: the receiver need not know its length. */
int gp_mpi_pieces(size_t slot_bytes, size_t largest);
size_t gp_mpi_piece_bytes(size_t message_bytes, int piece, size_t largest);

void gp_cluster_lock(gp_cluster *cluster);
void gp_cluster_unlock(gp_cluster *cluster);
/* Start a transfer in pieces and count them in `transfer`, which must have none pending. */
gp_status gp_mpi_send(gp_cluster *cluster, gp_mpi_comm *comm, const void *data, size_t bytes, size_t slot_bytes, int to,
                      int tag, gp_mpi_transfer *transfer);
gp_status gp_mpi_receive(gp_cluster *cluster, gp_mpi_comm *comm, void *data, size_t slot_bytes, int from, int tag,
                         gp_mpi_transfer *transfer);
/* Polls, unless somebody else does. Any thread, without the lock. */
void gp_cluster_poll(gp_cluster *cluster);
/* The same under the lock. */
void gp_cluster_poll_locked(gp_cluster *cluster);
/* Waits in the calling thread until the transfer has finished. Errors: GP_PEER_LOST, GP_FAILED. */
gp_status gp_cluster_await(gp_cluster *cluster, gp_mpi_transfer *transfer);
gp_status gp_mpi_error(const gp_cluster *cluster, int error, const char *what);

/* ---- control.c: what ranks tell each other besides the work ---- */

gp_status gp_control_start(gp_cluster *cluster);
/* Under the lock: this rank leaves in good order; cancels the receives. */
void gp_control_say_goodbye(gp_cluster *cluster);
void gp_control_stop(gp_cluster *cluster);
void gp_control_destroy(gp_mpi_control *control);
/* Tells the others that this rank is alive and what its workers are doing. Under the lock. */
void gp_control_beat(gp_cluster *cluster);
/* Tells the others of a failure of the world with this number, or of the cluster (-1). Any thread, without the lock. */
void gp_control_tell(gp_cluster *cluster, int world, const gp_failure *failure);
/* Whether a world failed elsewhere before it was made here. Under the lock. */
bool gp_control_early(gp_cluster *cluster, int world, gp_failure *failure);

/* ---- arrival.c ---- */

/* Until all ranks have met: tells of a long wait and, where the launcher `signals` that another process has ended, ends
 * this one with an error then. NULL: no memory or thread for that. */
gp_mpi_arrival *gp_mpi_arrival_begin(bool signals);
void gp_mpi_arrival_end(gp_mpi_arrival *arrival); /* accepts NULL */

/* ---- watch.c ---- */

gp_status gp_watch_start(gp_cluster *cluster); /* starts the service thread */
void gp_watch_stop(gp_cluster *cluster);
/* A rank is lost: `why` ends the sentence "rank 2 (host b) was lost: ...". */
void gp_cluster_lose(gp_cluster *cluster, int rank, const char *why);
/* Says through the log which rank was lost, once. */
void gp_cluster_tell_loss(gp_cluster *cluster);
/* Reports a wait for all ranks through the log: which of them have been silent. */
void gp_cluster_report_wait(gp_cluster *cluster, double waited);
/* When a process was started, in the system's ticks; 0: there is none with this number (here). */
unsigned long long gp_process_started(int pid);
/* The cluster fails; the first failure counts. */
void gp_cluster_fail(gp_cluster *cluster, gp_status status, int worker, const char *message, bool tell);
gp_status gp_cluster_failure(gp_cluster *cluster); /* as this thread's error */

/* ---- world.c ---- */

enum { GP_MPI_TEXTS = 32 };
/* Workers of a rank: tags tell their pairs apart, and MPI promises no more than 32767. */
enum { GP_MPI_MOST_EACH = 90 };

/* Memory and transfers of exchanges between all ranks (exchange.c), one at a time. */
typedef struct gp_mpi_exchange {
    int tag;
    char *memory;
    size_t capacity;
    gp_mpi_transfer sending, receiving;
} gp_mpi_exchange;

struct gp_mpi_world {
    gp_thread_world threads; /* first: a gp_world */
    gp_cluster *cluster;
    gp_mpi_world *next;
    gp_mpi_comm *comm;
    int number;          /* among the cluster's */
    int each, first;     /* workers of a rank; the first of this one */
    int compute_threads; /* of each worker */
    int processors;      /* this rank's share of those that it may use */
    struct gp_mpi_link *links;
    struct gp_mpi_group *groups;
    struct gp_mpi_meeting *meeting;
    gp_mpi_exchange exchange; /* of the drivers */
    _Atomic bool settled;     /* all ranks know of the same failure */
    char texts[GP_MPI_TEXTS][40];
    int text_count;
};

static inline gp_mpi_world *gp_mpi_world_of(gp_world *world) {
    return (gp_mpi_world *)world;
}

static inline int gp_mpi_rank_of(const gp_mpi_world *world, int worker) {
    return worker / world->each;
}

static inline bool gp_mpi_is_local(const gp_mpi_world *world, int worker) {
    return worker / world->each == world->cluster->rank;
}

/* Waits in a seat until the transfer has finished. `on`: the seat of whom it is waited for. */
gp_status gp_mpi_await(gp_mpi_world *world, int seat, const gp_mpi_transfer *transfer, int on, const char *what);
/* What a worker elsewhere is doing, by its last sign of life. Under the lock. */
void gp_mpi_note_seat(gp_mpi_world *world, int worker, const char *words, const char *what, int waits_for);
/* A failure that another rank has told of, or the cluster's: ends all waits. With `verdict` it replaces one of this
 * rank's own. */
void gp_mpi_world_fail(gp_mpi_world *world, const gp_failure *failure, bool verdict);

/* ---- exchange.c ---- */

/* Messages of a world have tags by what they are for. */
typedef enum gp_mpi_tags { GP_MPI_LINKS, GP_MPI_GROUPS, GP_MPI_MEETING, GP_MPI_DRIVERS } gp_mpi_tags;
int gp_mpi_first_tag(const gp_mpi_world *world, gp_mpi_tags of);

/* all[r * bytes ..] = what rank r gave; what `root` has goes to all. `seat`: of the worker that waits; -1: the driver.
 * Errors: GP_ABORTED, GP_OUT_OF_MEMORY, GP_FAILED. */
gp_status gp_mpi_exchange_all(gp_mpi_world *world, gp_mpi_exchange *exchange, int seat, const void *mine, size_t bytes,
                              void *all);
gp_status gp_mpi_exchange_one(gp_mpi_world *world, gp_mpi_exchange *exchange, int root, void *data, size_t bytes);
/* Under the lock: gives the memory back. */
void gp_mpi_exchange_end(gp_mpi_world *world, gp_mpi_exchange *exchange);

/* Under the lock: cancels receives that nobody answers any more, and waits until MPI has let go of them. */
void gp_mpi_take_back(gp_cluster *cluster, gp_mpi_transfer *transfers, int count);

/* ---- links.c, groups.c, together.c ---- */

size_t gp_mpi_slot_bytes(const gp_world *world, int worker, int other, size_t slot_bytes);
size_t gp_mpi_link_bytes(const gp_world *world, int worker, int receiver, int slots, size_t slot_bytes);
gp_status gp_mpi_open_receiver(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                               void *memory, gp_link **link);
gp_status gp_mpi_open_sender(gp_world *world, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                             void *staging, gp_link **link);
void gp_mpi_free_links(gp_mpi_world *world);

size_t gp_mpi_group_bytes(const gp_world *world, int worker, const gp_group_options *options);
gp_status gp_mpi_open_group(gp_world *world, int worker, const gp_group_options *options, gp_group **group);
void gp_mpi_free_groups(gp_mpi_world *world);

gp_status gp_mpi_create_meeting(gp_mpi_world *world);
void gp_mpi_free_meeting(gp_mpi_world *world); /* under the lock */
gp_status gp_mpi_barrier(gp_world *world, int worker);
gp_status gp_mpi_all_gather(gp_world *world, int worker, const void *mine, size_t bytes, void *all);

#endif
