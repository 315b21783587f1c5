/* Partitions, schedules, simulation: pure data, computed without a model or a device. All functions are thread-safe as
 * long as no two threads use one object. */
#ifndef GPIPE_PIPELINE_H
#define GPIPE_PIPELINE_H

#include "gpipe/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- partitioning ---- */

typedef struct gp_partition_options {
    size_t size;             /* sizeof, or 0 */
    const double *cut_costs; /* cost added to both sides of a cut behind layer i (count - 1 entries); NULL: 0 */
    const double *memory;    /* bytes of each layer (count entries); NULL: no memory limit */
    const double *limits;    /* bytes of each part (parts entries); NULL: no memory limit */
    const double *speeds;    /* of each part (parts entries): its cost is divided by it; NULL: all 1 */
} gp_partition_options;

/* Cuts `count` layers with the given non-negative costs into `parts` non-empty runs such that the costliest part is the
 * exact minimum (with speeds: the largest cost divided by its part's speed) and, among those, the sum of the parts'
 * costs (with cuts) is smallest; further ties: the first part is the largest possible. bounds[0..parts]: part p holds
 * layers bounds[p]..bounds[p+1]-1. Errors: GP_INVALID (parts < 1, parts > count, a cost negative or not finite, speeds
 * that are not above 0 or differ by more than a factor of 1048576), GP_DOES_NOT_FIT (no cut keeps the limits; the
 * message names the layer or part). Costs are rounded to 2^-61 of their sum (with speeds: times the ratio of the
 * fastest to the slowest) first, so that ties (equal layers) are exact; bytes are added as doubles, exact for whole
 * numbers that sum to less than 2^53. Time O(parts * count * log), memory 8 * parts * count bytes. */
GP_API gp_status gp_partition(const double *costs, size_t count, size_t parts, const gp_partition_options *options,
                              size_t *bounds);

/* ---- micro-batches ---- */

/* Splits a mini-batch of `batch` samples into `micro_batches` sizes that differ by at most one, larger ones first. A
 * batch smaller than micro_batches gives `batch` micro-batches of one sample. Returns the number of micro-batches, 0
 * when an argument is below 1. `sizes` (room for micro_batches entries) may be NULL. */
GP_API int gp_micro_batch_sizes(int64_t batch, int micro_batches, int64_t *sizes);

/* The bubble of GPipe and 1F1B with equal stages, (K - 1) / (M + K - 1) (GPipe, arXiv 1811.06965, section 2.3); 0 when
 * an argument is below 1. */
GP_API double gp_bubble_formula(int stages, int micro_batches);

/* ---- schedules ---- */

/* Kinds of actions with their letters. R must directly precede the B of its micro-batch among a worker's compute
 * actions. */
#define GP_ACTIONS(X)                                                                                                  \
    X(GP_FORWARD, "F")                                                                                                 \
    X(GP_RECOMPUTE, "R")                                                                                               \
    X(GP_BACKWARD, "B") /* gradients of inputs and of weights */                                                       \
    X(GP_SEND_FORWARD, "SEND_F")                                                                                       \
    X(GP_RECEIVE_FORWARD, "RECV_F")                                                                                    \
    X(GP_SEND_BACKWARD, "SEND_B")                                                                                      \
    X(GP_RECEIVE_BACKWARD, "RECV_B")

typedef enum gp_action_kind {
#define GP_ACTION_ENUM(name, text) name,
    GP_ACTIONS(GP_ACTION_ENUM)
#undef GP_ACTION_ENUM
        GP_ACTION_KINDS
} gp_action_kind;

typedef struct gp_action {
    gp_action_kind kind;
    int stage;       /* 0..stages-1; worker w holds stage w */
    int micro_batch; /* 0..micro_batches-1 */
} gp_action;

typedef enum gp_schedule_kind { GP_SCHEDULE_GPIPE, GP_SCHEDULE_1F1B, GP_SCHEDULE_NAIVE } gp_schedule_kind;
typedef enum gp_recompute { GP_RECOMPUTE_EXCEPT_LAST, GP_RECOMPUTE_ALWAYS, GP_RECOMPUTE_NEVER } gp_recompute;

/* Names as the configuration has them: "gpipe", "1f1b", "naive"; "except_last", "always", "never". By name: GP_INVALID
 * with the names that are accepted. The name of a number that is no enumerator is "unknown". */
GP_API gp_status gp_schedule_kind_by_name(const char *name, gp_schedule_kind *kind);
GP_API const char *gp_schedule_kind_name(gp_schedule_kind kind);
GP_API gp_status gp_recompute_by_name(const char *name, gp_recompute *recompute);
GP_API const char *gp_recompute_name(gp_recompute recompute);

typedef struct gp_schedule gp_schedule;

/* Sizes of a schedule; beyond them creating, reading and lowering refuse (GP_INVALID). */
#define GP_SCHEDULE_MOST_STAGES        16384
#define GP_SCHEDULE_MOST_MICRO_BATCHES 1048576
#define GP_SCHEDULE_MOST_ACTIONS       ((size_t)1 << 25) /* of all workers together */

/* The actions of every worker for one step. Pure function of its arguments. Backward passes run in the order of the
 * micro-batches in every kind, so that sums of gradients are the same bits. Recompute: R before every B (always),
 * before every B but the last micro-batch's (except_last), nowhere (never). Errors: GP_INVALID (stages or micro_batches
 * < 1). */
GP_API gp_status gp_schedule_create(gp_schedule **schedule, gp_schedule_kind kind, int stages, int micro_batches,
                                    gp_recompute recompute);
/* Reads the text form: one line per worker, actions separated by blanks ("F0 F1 R0 B0 B1"), '#' starts a comment, lines
 * without actions are skipped, an optional stage number before the letter ("2F0") must be the worker's. The number of
 * micro-batches is the highest one named plus one. Reads syntax only: gp_schedule_check says whether it can run.
 * Errors: GP_INVALID with line and column (from 1). The text may come from anywhere: memory used is at most
 * proportional to its length. */
GP_API gp_status gp_schedule_parse(gp_schedule **schedule, const char *text);
/* Writes the text form; the caller frees it with gp_text_free. */
GP_API gp_status gp_schedule_format(const gp_schedule *schedule, char **text);
/* Frees a text that the library made (here, and in gpipe/train.h). Accepts NULL. */
GP_API void gp_text_free(char *text);
GP_API void gp_schedule_destroy(gp_schedule *schedule); /* accepts NULL */

/* Stages (workers) and micro-batches of the schedule. */
GP_API int gp_schedule_stages(const gp_schedule *schedule);
GP_API int gp_schedule_micro_batches(const gp_schedule *schedule);
/* The actions of a worker, owned by the schedule; NULL and 0 for a worker that is not there. */
GP_API const gp_action *gp_schedule_actions(const gp_schedule *schedule, int worker, size_t *count);

/* Proves a schedule: every F and B exactly once per stage and micro-batch, at most one R, F before R before B, nothing
 * between R and its B, per link messages sent in the order in which they are received, free of deadlock however little
 * buffering the links have (at least one message), in flight at most `most_in_flight` (0: any). Errors: GP_INVALID with
 * worker, position (from 0 in the worker's list) and reason. Accepts schedules with or without sends and receives; one
 * that has any must have all of them. The links that the proof assumes: a forward link has one slot more
 * than its receiver holds micro-batches at once, a slot being taken by the sender's F and given back, in any order, by
 * the receiver's B; a gradient link has one slot (or as many as the receiver's receives run ahead), taken by the
 * sender's B and given back by the receiver's. Any engine that has at least these cannot hang: more slots only remove
 * waits. */
GP_API gp_status gp_schedule_check(const gp_schedule *schedule, int most_in_flight);
/* Micro-batches whose forward has run and whose backward has not, at most, on a worker. `recomputed` and `kept`, when
 * not NULL, receive the same of those that have an R and of those that have none (each its own maximum: their sum may
 * be larger). 0 for a worker that is not there; -1 when the system has no memory left. */
GP_API int gp_schedule_in_flight(const gp_schedule *schedule, int worker, int *recomputed, int *kept);
/* Whether every worker's backward passes run in the order of the micro-batches, which makes sums of gradients the same
 * bits as those of every other such schedule. True of all that gp_schedule_create makes; a schedule from a file may
 * differ. */
GP_API bool gp_schedule_backward_in_order(const gp_schedule *schedule);
/* The same of forward passes, in whose order the moments of micro-batches are merged (moving averages). */
GP_API bool gp_schedule_forward_in_order(const gp_schedule *schedule);
/* A copy with sends and receives: RECV_F before F, SEND_F after; RECV_B after R and before B (early recompute), SEND_B
 * after. Errors: GP_INVALID when the schedule has sends or receives already. */
GP_API gp_status gp_schedule_lower(const gp_schedule *schedule, gp_schedule **lowered);

/* ---- simulation ---- */

typedef struct gp_stage_times {
    double forward, recompute, backward; /* seconds of one micro-batch */
    double transfer;                     /* seconds of a message from this stage to either neighbour */
} gp_stage_times;

typedef struct gp_simulation {
    double span;   /* seconds from the first action to the end of the last */
    double bubble; /* share of worker time idle: 1 - busy / (workers * span) */
} gp_simulation;

/* Times a schedule: every action starts as soon as its worker is free and its inputs have arrived; a receive occupies
 * no compute time, a link carries one message at a time in each direction, and buffers are unlimited. `times` has one
 * entry per stage. `starts`, when not NULL, receives for each worker (an array of arrays, allocated by the caller: the
 * worker's action count) the start second of each action. The schedule is one without sends and receives. Errors:
 * GP_INVALID (a time negative or not finite, sends or receives, a schedule that cannot finish). */
GP_API gp_status gp_simulate(const gp_schedule *schedule, const gp_stage_times *times, gp_simulation *simulation,
                             double *const *starts);

#ifdef __cplusplus
}
#endif
#endif
