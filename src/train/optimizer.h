/* Optimizer options resolved: defaults, checks, and the update of one step. */
#ifndef GP_TRAIN_OPTIMIZER_H
#define GP_TRAIN_OPTIMIZER_H

#include "device/device.h"
#include "gpipe/train.h"

/* Fills defaults into a copy. Errors: GP_INVALID for values out of range, naming the option. */
gp_status gp_optimizer_resolve(const gp_optimizer_options *options, gp_optimizer_options *resolved);
gp_update_kind gp_optimizer_update_kind(const gp_optimizer_options *resolved);
/* The update of step `step` (from 0) at learning rate `lr`; weight_decay and gradient_scale are the engine's to fill.
 */
gp_update gp_optimizer_update(const gp_optimizer_options *resolved, int64_t step, double lr);
/* The decay of the average of the weights in the update after `updates` others. */
double gp_optimizer_average_decay(const gp_optimizer_options *resolved, int64_t updates);
/* Factors of the learning rate of all parameters (0: frozen), freed with gp_free; NULL: all are 1. Errors: GP_INVALID
 * for a pattern that no parameter matches. */
gp_status gp_optimizer_factors(const gp_optimizer_options *resolved, const gp_model *model, double **factors);

#endif
