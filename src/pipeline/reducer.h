/* Inside the room: the sum of gradients over the replicas of a stage, made by a second thread of each worker while the
 * first one is still in backward.
 *
 * In a step the worker's own thread counts the buckets whose gradients are complete (`ready`) and, when optimizer state
 * is sharded, the ones whose weights it has updated (`updated`); the reducer follows both counts: it sums buckets, then
 * shares out new weights. Buckets go in one order at all replicas, so the sum is the same bits in every run. */
#ifndef GP_PIPELINE_REDUCER_H
#define GP_PIPELINE_REDUCER_H

#include "base/thread.h"
#include "pipeline/buckets.h"

struct gp_worker;

typedef struct gp_reducer {
    struct gp_worker *worker;
    gp_buckets buckets;
    gp_group *group; /* the workers of this stage in all replicas; NULL: there is one replica, nothing to do */
    gp_thread *thread;

    /* When the last backward has written a bucket: after so many steps of its program. */
    const gp_program *program;
    size_t *complete_at; /* per early bucket */

    /* A session: one step. Written by the worker's thread before it posts `begun`. */
    bool shares; /* weights are shared out after the sums, which then only go to whose piece it is */
    bool leave;
    gp_event begun, ended; /* counts of sessions */
    uint32_t session;
    _Atomic size_t ready, updated; /* the worker's */
    _Atomic size_t summed, shared; /* the reducer's */
    double seconds;                /* in sums, waiting for the others included */
    double bytes;                  /* summed */
} gp_reducer;

/* Plans; `bytes`: staging memory that is needed. */
gp_status gp_reducer_prepare(struct gp_worker *worker, size_t *bytes);
/* Opens the group with the staging memory and starts the thread. */
gp_status gp_reducer_start(struct gp_worker *worker, void *staging);
void gp_reducer_destroy(gp_reducer *reducer); /* ends the thread; accepts a zeroed struct */

/* All by the worker's own thread; nothing with one replica. */
void gp_reducer_begin(struct gp_worker *worker, bool shares);
/* The program whose run completes the gradients; a run's progress is told to gp_reducer_progress. */
void gp_reducer_expect(gp_reducer *reducer, const gp_program *program);
void gp_reducer_progress(void *reducer, size_t done);
/* The early buckets, or all of them, are complete. */
void gp_reducer_ready(gp_reducer *reducer, bool all);
void gp_reducer_updated(gp_reducer *reducer, size_t buckets);
/* Wait until all has been summed, or shared out. Errors: GP_ABORTED. */
gp_status gp_reducer_await_sums(gp_reducer *reducer);
gp_status gp_reducer_await_shares(gp_reducer *reducer);
/* Waits until the thread is idle, which it is soon after the end of a step and after a failure. */
void gp_reducer_settle(gp_reducer *reducer);

#endif
