/* From pipeline options to a partition and a plan. */
#ifndef GP_TRAIN_PLAN_H
#define GP_TRAIN_PLAN_H

#include "gpipe/train.h"
#include "pipeline/engine.h"
#include "train/optimizer.h"

/* Everything that gp_engine_create needs, with the storage behind its pointers. */
typedef struct gp_layout {
    gp_engine_options engine;
    size_t *bounds;        /* partitions + 1 */
    gp_schedule *custom;   /* from schedule_text; NULL */
    double *lr_factors;    /* see gp_engine_options */
    gp_stage_times *times; /* of each stage for one micro-batch at speed 1; NULL when nothing was measured */
    size_t *limits;        /* bytes of each worker; NULL: device.memory for all */
    double *speeds;        /* of each worker; NULL: all are alike */
} gp_layout;

/* Checks the options, partitions. `optimizer` is resolved, or NULL for inference. Errors: GP_INVALID naming the option.
 */
gp_status gp_layout_create(gp_layout *layout, const gp_model *model, const gp_pipeline_options *pipeline,
                           const gp_optimizer_options *optimizer);
void gp_layout_destroy(gp_layout *layout); /* accepts a zeroed struct */

/* workers.c: fills in limits and speeds from the options. Errors: GP_INVALID naming the option. */
gp_status gp_layout_read_workers(gp_layout *layout, const gp_pipeline_options *pipeline);
/* The same from measured speeds of the cluster's ranks. */
gp_status gp_layout_take_speeds(gp_layout *layout, const double *ranks);
/* Of a worker's memory, 0: no limit; of a stage's workers the smallest, infinite: no limit, and the slowest. */
size_t gp_layout_limit(const gp_layout *layout, size_t worker);
double gp_layout_stage_limit(const gp_layout *layout, size_t stage);
double gp_layout_stage_speed(const gp_layout *layout, size_t stage);
/* Of all stages, freed by the caller; NULL: all are alike. */
gp_status gp_layout_stage_speeds(const gp_layout *layout, double **speeds);

/* Whether no worker needs more than its limit. */
bool gp_layout_fits(const gp_layout *layout);
/* Replaces bounds that are over the limits by ones that are not, the fastest that are found; leaves them when there
 * are none. `costs` of the layers and `cut_costs` (may be NULL) as for gp_partition. */
gp_status gp_layout_fit_memory(gp_layout *layout, const double *costs, const double *cut_costs);

/* The public plan of a layout. */
gp_status gp_plan_from_layout(gp_plan **plan, const gp_layout *layout);

#endif
