/* Inside the room: the table of functions that an implementation of a world fills in. Every world and every link starts
 * with one of these structs; world.c only looks up. Waits, failures and ownership are as world.h says. */
#ifndef GP_WORLD_CLASS_H
#define GP_WORLD_CLASS_H

#include <stdalign.h>

#include "world/world.h"

/* When a message was sent, when it could go (there was a slot for it at the receiver), and when it had arrived, on this
 * process's clock, and its length. */
typedef struct gp_passage {
    double sent, started, arrived;
    size_t bytes;
} gp_passage;

typedef struct gp_world_class {
    const char *name;

    /* Frees the world and its links. No worker uses it any more. */
    void (*destroy)(gp_world *world);

    /* Bytes of a slot for messages of slot_bytes; staging bytes that a sender provides. Pure. */
    size_t (*slot_bytes)(const gp_world *world, int worker, int other, size_t slot_bytes);
    size_t (*link_bytes)(const gp_world *world, int worker, int receiver, int slots, size_t slot_bytes);
    /* Opening does not wait for the other end. Arguments have been checked. Errors: GP_INVALID (opened twice),
     * GP_OUT_OF_MEMORY. */
    gp_status (*open_receiver)(gp_world *world, int worker, int sender, int tag, int slots, size_t slot_bytes,
                               void *memory, gp_link **link);
    gp_status (*open_sender)(gp_world *world, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                             void *staging, gp_link **link);
    /* Block until a slot or a message is there or a worker has failed (GP_ABORTED). */
    gp_status (*reserve)(gp_link *link, void **buffer);
    gp_status (*await)(gp_link *link, void **buffer, int *slot, gp_passage *passage);
    /* Do not block. */
    gp_status (*commit)(gp_link *link, size_t bytes);
    void (*release)(gp_link *link, int slot);

    /* Does not block; copies. */
    void (*doing)(gp_world *world, int worker, const char *words);

    /* Block until all have come. Errors: GP_ABORTED, GP_OUT_OF_MEMORY. */
    gp_status (*barrier)(gp_world *world, int worker);
    gp_status (*all_gather)(gp_world *world, int worker, const void *mine, size_t bytes, void *all);

    /* By the driver; NULL where all workers are in one process. Block. Errors: GP_ABORTED. */
    gp_status (*gather_rows)(gp_world *world, void *rows, size_t row_bytes);
    gp_status (*share_data)(gp_world *world, int root, void *data, size_t bytes);
    void (*settle)(gp_world *world);
    double (*clock)(const gp_world *world);

    /* Staging bytes that a member provides. Pure. */
    size_t (*group_bytes)(const gp_world *world, int worker, const gp_group_options *options);
    /* Opening does not wait for the others. Arguments have been checked. Errors: GP_INVALID (opened twice),
     * GP_OUT_OF_MEMORY. */
    gp_status (*open_group)(gp_world *world, int worker, const gp_group_options *options, gp_group **group);
    /* Block until the member has what it is to get and nobody needs its arrays any more. Errors: GP_ABORTED,
     * GP_OUT_OF_MEMORY. */
    gp_status (*sum)(gp_group *group, const gp_group_sum_part *part);
    gp_status (*share)(gp_group *group, const gp_group_share_part *part);

    /* Blocks until ready; wakes without blocking. */
    gp_status (*wait)(gp_world *world, int worker, gp_lane lane, bool (*ready)(const void *object), const void *object,
                      const char *what);
    void (*wake)(gp_world *world, int worker, gp_lane lane);

    /* Any thread; do not block. */
    void (*fail)(gp_world *world, int worker, gp_status status, const char *message);
    bool (*failed)(const gp_world *world, gp_failure *failure);
} gp_world_class;

struct gp_world {
    const gp_world_class *class;
    int workers;
    int first_local, local;
    double report_after; /* resolved */
};

/* Where memory is shared both ends use one of these: what each counts is on a cache line of its own. */
struct gp_link { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    const gp_world_class *class;
    int sender, receiver, tag;
    alignas(64) gp_link_figures figures; /* the receiver's */
    alignas(64) double blocked;          /* the sender's */
};

/* A member's handle of a group. */
struct gp_group {
    const gp_world_class *class;
    gp_world *world;
    int worker;
};

#endif
