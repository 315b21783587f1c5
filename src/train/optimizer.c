/* From optimizer options to the numbers of one update. What an update computes is the device's contract
 * (device/device.h). */
#include "train/optimizer.h"

#include <math.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "train/names.h"

static gp_status check_range(const char *key, double value, double low, double high) {
    if (value >= low && value < high) return GP_OK;
    return gp_error(GP_INVALID, "optimizer.%s is %g; at least %g and less than %g is accepted", key, value, low, high);
}

gp_status gp_optimizer_resolve(const gp_optimizer_options *options, gp_optimizer_options *resolved) {
    GP_TRY(gp_options_read(resolved, sizeof *resolved, options, "gp_optimizer_options"));
    bool adam = resolved->kind == GP_OPTIMIZER_ADAM || resolved->kind == GP_OPTIMIZER_ADAMW;
    if (resolved->lr == 0) resolved->lr = adam ? 1e-3 : 1e-2;
    if (resolved->beta1 == 0) resolved->beta1 = 0.9;
    if (resolved->beta2 == 0) resolved->beta2 = adam ? 0.999 : 0.9;
    if (resolved->epsilon == 0) resolved->epsilon = 1e-8;
    if (resolved->layer_decay == 0) resolved->layer_decay = 1;
    GP_TRY(check_range("lr", resolved->lr, 0, INFINITY));
    GP_TRY(check_range("betas[0]", resolved->beta1, 0, 1));
    GP_TRY(check_range("betas[1]", resolved->beta2, 0, 1));
    GP_TRY(check_range("epsilon", resolved->epsilon, 0, INFINITY));
    GP_TRY(check_range("weight_decay", resolved->weight_decay, 0, INFINITY));
    GP_TRY(check_range("momentum", resolved->momentum, 0, 1));
    GP_TRY(check_range("average", resolved->average, 0, 1));
    GP_TRY(check_range("layer_decay", resolved->layer_decay, 0, INFINITY));
    GP_TRY(check_range("clip", resolved->clip, 0, INFINITY));
    GP_TRY(check_range("schedule.min_lr", resolved->schedule.min_lr, 0, INFINITY));
    GP_TRY(check_range("schedule.warmup", (double)resolved->schedule.warmup, 0, 1e18));
    if (resolved->nesterov && resolved->momentum == 0)
        return gp_error(GP_INVALID, "optimizer.nesterov needs optimizer.momentum above 0");
    return GP_OK;
}

gp_update_kind gp_optimizer_update_kind(const gp_optimizer_options *resolved) {
    switch (resolved->kind) {
    case GP_OPTIMIZER_SGD:
        return GP_UPDATE_SGD;
    case GP_OPTIMIZER_ADAM:
        return GP_UPDATE_ADAM;
    case GP_OPTIMIZER_RMSPROP:
        return GP_UPDATE_RMSPROP;
    case GP_OPTIMIZER_ADAMW:
    default:
        return GP_UPDATE_ADAMW;
    }
}

gp_update gp_optimizer_update(const gp_optimizer_options *resolved, int64_t step, double lr) {
    double t = (double)(step + 1);
    return (gp_update){
        .kind = gp_optimizer_update_kind(resolved),
        .lr = lr,
        .beta1 = resolved->beta1,
        .beta2 = resolved->beta2,
        .epsilon = resolved->epsilon,
        .momentum = resolved->momentum,
        .nesterov = resolved->nesterov,
        .epsilon_inside = resolved->epsilon_inside,
        .first = step == 0,
        .correction1 = 1.0 - pow(resolved->beta1, t),
        .correction2 = 1.0 - pow(resolved->beta2, t),
        .gradient_scale = 1.0,
    };
}

double gp_optimizer_average_decay(const gp_optimizer_options *resolved, int64_t updates) {
    double n = (double)updates;
    return fmin(resolved->average, (1 + n) / (10 + n));
}

/* ---- factors of the learning rate ---- */

static gp_status check_groups(const gp_optimizer_options *resolved, const gp_model *model) {
    for (size_t g = 0; g < resolved->group_count; g++) {
        GP_TRY(check_range("groups: lr_factor", resolved->groups[g].lr_factor, 0, INFINITY));
        GP_TRY(gp_names_check(model, resolved->groups[g].pattern));
    }
    return GP_OK;
}

static double factor_of(const gp_optimizer_options *resolved, const gp_model *model, size_t parameter) {
    gp_parameter_info info = gp_model_parameter(model, parameter);
    double last = (double)gp_model_layer_count(model) - 1;
    double factor = pow(resolved->layer_decay, last - (double)info.layer);
    for (size_t g = 0; g < resolved->group_count; g++) {
        const gp_parameter_group *group = &resolved->groups[g];
        if (!gp_name_matches(model, group->pattern, info.name)) continue;
        if (group->frozen) return 0;
        return group->lr_factor > 0 ? factor * group->lr_factor : factor;
    }
    return factor;
}

gp_status gp_optimizer_factors(const gp_optimizer_options *resolved, const gp_model *model, double **factors) {
    size_t parameters = gp_model_parameters(model);
    bool all_one = resolved->layer_decay == 1 && resolved->group_count == 0;
    *factors = NULL;
    if (all_one) return GP_OK;
    GP_TRY(check_groups(resolved, model));
    double *made = gp_allocate_array(parameters, sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    for (size_t p = 0; p < parameters; p++)
        made[p] = factor_of(resolved, model, p);
    *factors = made;
    return GP_OK;
}
