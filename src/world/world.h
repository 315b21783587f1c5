/* A world: the workers of a run, links between them, and what they do together. Whether a worker is a thread of this
 * process or lives in another one cannot be seen above this room, but for who is in this process: threads/ has all of
 * them there, mpi/ spreads them over ranks.
 *
 * A link carries messages one way between two workers, in order, without copying where the memory is shared: its slots
 * are the receiver's memory; the sender asks for a free one, computes straight into it, and commits; the receiver
 * awaits the next, reads it in place as long as it likes, and releases it (in any order). Between processes the
 * sender's slots are staging memory of its own, and receives are posted for all free slots of the receiver's.
 *
 * Every wait ends when the message is there, when any worker has failed (GP_ABORTED), and is reported when it lasts
 * longer than `report_after` seconds: who waits for whom, with the words that each worker gave of what it is doing. All
 * functions with a `worker` are called by that worker's thread. */
#ifndef GP_WORLD_WORLD_H
#define GP_WORLD_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

typedef struct gp_world gp_world;
typedef struct gp_link gp_link;
typedef struct gp_group gp_group;

typedef struct gp_world_options {
    double report_after; /* seconds after which a wait is reported through the log; 0: 30 */
    int threads;         /* that compute, of each worker; 0: 1 */
} gp_world_options;

gp_status gp_world_create_threads(gp_world **world, int workers, const gp_world_options *options);
void gp_world_destroy(gp_world *world); /* after all workers have left; accepts NULL */
int gp_world_workers(const gp_world *world);
/* The workers of this process are a run of numbers. */
int gp_world_first_local(const gp_world *world);
int gp_world_local_workers(const gp_world *world);

/* ---- links ---- */

/* Bytes of memory that a slot between the worker and another one takes, for messages of slot_bytes: where memory is not
 * shared a message has a head. */
size_t gp_link_slot_bytes(const gp_world *world, int worker, int other, size_t slot_bytes);
/* Bytes of staging memory that the sender of a link to this receiver must provide (0 when memory is shared). */
size_t gp_link_staging_bytes(const gp_world *world, int worker, int receiver, int slots, size_t slot_bytes);

/* Both ends open the link (any order; `tag`, 0 or 1, tells links between the same two apart); neither waits for the
 * other. The receiver gives memory for `slots` slots of gp_link_slot_bytes each (slot_bytes: of a message, multiple of
 * 64), the sender staging for slots of the same size, in any number. The link belongs to the world, and so does the
 * memory until the world is destroyed: after a failure messages may still be on their way into it. */
gp_status gp_link_open_receiver(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                                void *memory, gp_link **link);
gp_status gp_link_open_sender(gp_world *world, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                              void *staging, gp_link **link);

/* Sender: waits for a free slot; the same slot until it is committed. */
gp_status gp_link_reserve(gp_link *link, void **buffer);
gp_status gp_link_commit(gp_link *link, size_t bytes);
/* Receiver: waits for the next message. Its slot number is for the release. */
gp_status gp_link_await(gp_link *link, void **buffer, int *slot);
void gp_link_release(gp_link *link, int slot);

/* What a link has carried. A message is under way from its commit, or, if that is later, from when the receiver has a
 * slot for it, until it has arrived, which is at once where memory is shared. Times of processes on several machines
 * are compared by gp_world_clock. */
typedef struct gp_link_figures {
    double messages, bytes;
    double transfer; /* seconds under way, summed over messages; several may be under way at once */
    double exposed;  /* seconds in which the receiver waited for a message that had been sent */
} gp_link_figures;

/* Take what has come together since the last call: the figures of the messages awaited so far, by the receiver; the
 * seconds waited for a free slot, by the sender. */
void gp_link_take_figures(gp_link *link, gp_link_figures *figures);
double gp_link_take_blocked(gp_link *link);

/* What the worker is doing, for the wait report ("B3 of stage 1"); `words` is copied (at most 47 characters). */
void gp_world_doing(gp_world *world, int worker, const char *words);

/* ---- together: every worker calls these in the same order ---- */

gp_status gp_world_barrier(gp_world *world, int worker);
/* all[w * bytes ..] = what worker w gave. */
gp_status gp_world_all_gather(gp_world *world, int worker, const void *mine, size_t bytes, void *all);

/* ---- the driver: the thread that commands the workers of a process; every process's in the same order ---- */

/* `rows` has a row for every worker; each process has filled in those of its own workers and gets the others'. Errors:
 * GP_ABORTED. */
gp_status gp_world_gather_rows(gp_world *world, void *rows, size_t row_bytes);
/* What the process of worker `root` has goes to all. */
gp_status gp_world_share(gp_world *world, int root, void *data, size_t bytes);
/* Seconds to add to this process's clock to get the world's (that of worker 0's machine); any thread. */
double gp_world_clock(const gp_world *world);
/* After a failure: waits (not for long) until all processes know the same one. */
void gp_world_settle(gp_world *world);

/* ---- groups: some workers, who add arrays up ---- */

/* A worker has two lanes, each served by one thread: its own, and one that moves gradients meanwhile. A wait belongs to
 * a lane. */
typedef enum gp_lane { GP_LANE_COMPUTE, GP_LANE_REDUCE, GP_LANES } gp_lane;

/* Elements of an array. */
typedef struct gp_piece {
    int64_t first, count;
} gp_piece;

typedef struct gp_group_options {
    const int *members; /* ascending worker numbers, this one among them; copied */
    int member_count;
    int tag;            /* tells groups of the same members apart */
    gp_lane lane;       /* whose thread will call, unless a call says otherwise */
    int contributions;  /* of all members together, at most */
    size_t piece_bytes; /* of a member's piece, at most */
    void *staging;      /* gp_group_staging_bytes of them; NULL for none */
} gp_group_options;

/* Bytes of staging memory that a member must provide (0 when memory is shared). `options->staging` is not looked at. */
size_t gp_group_staging_bytes(const gp_world *world, int worker, const gp_group_options *options);

/* Every member opens the group, in any order; nobody waits for the others. The group belongs to the world. */
gp_status gp_group_open(gp_world *world, int worker, const gp_group_options *options, gp_group **group);

/* A member's part in a sum: `contributions` arrays of f32, of which the member whose number in the group is i adds up
 * pieces[i], by member, then in the order given, into the `destination` of every member (or, with `own_only`, into its
 * own). A destination may be one of its member's contributions. `sum` adds arrays (the device's ordered_sum). */
typedef struct gp_group_sum_part {
    void *const *contributions;
    int contribution_count;
    void *destination;
    const gp_piece *pieces; /* one per member, disjoint, the same at all members */
    bool own_only;
    size_t element; /* bytes of an element on the device */
    void (*sum)(void *user, void *destination, const void *const *sources, int source_count, int64_t count);
    void *user;
} gp_group_sum_part;

/* Called by all members; of several groups of one lane in the same order by all who are in both. One call of a member
 * at a time; a member's number of contributions is the same in every call. */
gp_status gp_group_sum(gp_group *group, const gp_group_sum_part *part);
/* Every member gives its own piece of `array` to the others. `copy` copies (the device's). */
typedef struct gp_group_share_part {
    void *array;
    const gp_piece *pieces;
    size_t element;
    void (*copy)(void *user, void *destination, const void *source, size_t bytes);
    void *user;
} gp_group_share_part;
gp_status gp_group_share(gp_group *group, const gp_group_share_part *part);

/* ---- waiting for something of one's own ---- */

/* Waits in a lane of the worker until ready(object): like every wait it ends when a worker fails (GP_ABORTED) and is
 * reported when it lasts. Whoever makes it ready calls gp_world_wake afterwards. `what` is a constant text ("its
 * gradients"). */
gp_status gp_world_wait(gp_world *world, int worker, gp_lane lane, bool (*ready)(const void *object),
                        const void *object, const char *what);
void gp_world_wake(gp_world *world, int worker, gp_lane lane);

/* ---- failure ---- */

/* Where and why a worker failed. */
typedef struct gp_failure {
    gp_status status;
    int worker;
    char message[512];
} gp_failure;

/* Stops all: the first failure is kept, every wait of every worker ends with GP_ABORTED. Any thread. */
void gp_world_fail(gp_world *world, int worker, gp_status status, const char *message);
/* Whether any worker has failed, and the first failure (may be NULL). Any thread. */
bool gp_world_failed(const gp_world *world, gp_failure *failure);

#endif
