/* Learning rate as a pure function of the step, so that a run can be resumed, planned and drawn without state. */
#include <math.h>

#include "gpipe/train.h"

static double after_warmup(const gp_lr_options *schedule, double lr, int64_t step, int64_t steps) {
    double gamma = schedule->gamma > 0 ? schedule->gamma : 0.1;
    int64_t every = schedule->every > 0 ? schedule->every : 1;
    int64_t since = step - schedule->warmup;
    int64_t length = steps - schedule->warmup;
    double progress = length > 0 ? fmin(1.0, (double)since / (double)length) : 1.0;
    switch (schedule->kind) {
    case GP_LR_LINEAR:
        return lr + (schedule->min_lr - lr) * progress;
    case GP_LR_COSINE:
        return schedule->min_lr + 0.5 * (1.0 + cos(3.14159265358979323846 * progress)) * (lr - schedule->min_lr);
    case GP_LR_STEP: {
        int64_t drops = since / every;
        return fmax(schedule->min_lr, lr * pow(gamma, (double)drops));
    }
    case GP_LR_EXPONENTIAL:
        return fmax(schedule->min_lr, lr * pow(gamma, (double)since / (double)every));
    case GP_LR_INVERSE_SQRT: {
        double warmup = (double)(schedule->warmup > 0 ? schedule->warmup : 1);
        return fmax(schedule->min_lr, lr * sqrt(warmup / fmax(warmup, (double)step)));
    }
    case GP_LR_CONSTANT:
    default:
        return lr;
    }
}

double gp_learning_rate(const gp_lr_options *schedule, double lr, int64_t step, int64_t steps) {
    if (step < schedule->warmup) return lr * (double)step / (double)schedule->warmup;
    return after_warmup(schedule, lr, step, steps);
}
