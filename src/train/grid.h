/* Inside the room: how the workers of a cluster are laid out, and what its ranks must have in common. */
#ifndef GP_TRAIN_GRID_H
#define GP_TRAIN_GRID_H

#include "train/plan.h"

/* Partitions and replicas as asked for, or worked out from the number of ranks where they were left open. Errors:
 * GP_INVALID saying how many ranks there are and how many workers. */
gp_status gp_grid_resolve(const gp_pipeline_options *pipeline, int64_t *partitions, int64_t *replicas);

/* Collective: refuses ranks with another version of gpipe, another model or other options. Nothing without a cluster.
 */
gp_status gp_grid_compare(const gp_model *model, const gp_pipeline_options *pipeline,
                          const gp_optimizer_options *optimizer, int64_t steps);

/* Collective: refuses ranks whose data is another: other counts, or another content in some samples spread over it. */
gp_status gp_grid_compare_data(gp_cluster *cluster, const gp_dataset *dataset);

/* Collective: seconds of each layer as every rank has measured them (`status`: whether it could) become those that all
 * plan with, at speed 1. Where no speeds were given, those of the machines become the layout's. */
gp_status gp_grid_share_times(gp_layout *layout, gp_status status, gp_stage_times *times);
/* From the seconds that each rank took for the same work, and the number of its machine, to its speed; ranks of one
 * machine have its mean. False: they hardly differ, and are all 1. Pure. */
bool gp_grid_find_speeds(const double *seconds, const int *machines, int ranks, double *speeds);

#endif
