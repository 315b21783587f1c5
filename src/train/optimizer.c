/* From optimizer options to the numbers of one update. What an update computes is the device's contract
 * (device/device.h). */
#include "train/optimizer.h"

#include <math.h>

#include "base/options.h"
#include "base/status.h"

static gp_status check_range(const char *key, double value, double low, double high) {
    if (value >= low && value < high) return GP_OK;
    return gp_error(GP_INVALID, "optimizer.%s is %g; at least %g and less than %g is accepted", key, value, low, high);
}

gp_status gp_optimizer_resolve(const gp_optimizer_options *options, gp_optimizer_options *resolved) {
    GP_TRY(gp_options_read(resolved, sizeof *resolved, options, "gp_optimizer_options"));
    if (resolved->lr == 0) resolved->lr = resolved->kind == GP_OPTIMIZER_SGD ? 1e-2 : 1e-3;
    if (resolved->beta1 == 0) resolved->beta1 = 0.9;
    if (resolved->beta2 == 0) resolved->beta2 = 0.999;
    if (resolved->epsilon == 0) resolved->epsilon = 1e-8;
    GP_TRY(check_range("lr", resolved->lr, 0, INFINITY));
    GP_TRY(check_range("betas[0]", resolved->beta1, 0, 1));
    GP_TRY(check_range("betas[1]", resolved->beta2, 0, 1));
    GP_TRY(check_range("epsilon", resolved->epsilon, 0, INFINITY));
    GP_TRY(check_range("weight_decay", resolved->weight_decay, 0, INFINITY));
    GP_TRY(check_range("momentum", resolved->momentum, 0, 1));
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
        .first = step == 0,
        .correction1 = 1.0 - pow(resolved->beta1, t),
        .correction2 = 1.0 - pow(resolved->beta2, t),
        .gradient_scale = 1.0,
    };
}
