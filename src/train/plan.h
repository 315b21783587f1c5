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
    gp_stage_times *times; /* of each stage for one micro-batch; NULL when nothing was measured */
} gp_layout;

/* Checks the options, partitions. `optimizer` is resolved, or NULL for inference. Errors: GP_INVALID naming the option.
 */
gp_status gp_layout_create(gp_layout *layout, const gp_model *model, const gp_pipeline_options *pipeline,
                           const gp_optimizer_options *optimizer);
void gp_layout_destroy(gp_layout *layout); /* accepts a zeroed struct */

/* Whether no worker needs more than device.memory. */
bool gp_layout_fits(const gp_layout *layout);
/* Replaces bounds that are over device.memory by ones that are not, the fastest that are found; leaves them when there
 * are none. `costs` of the layers and `cut_costs` (may be NULL) as for gp_partition. */
gp_status gp_layout_fit_memory(gp_layout *layout, const double *costs, const double *cut_costs);

/* The public plan of a layout. */
gp_status gp_plan_from_layout(gp_plan **plan, const gp_layout *layout);

#endif
