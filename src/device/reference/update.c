/* Updates of parameters on the reference device; the formulas are in device.h. */
#include <math.h>

#include "device/reference/reference.h"

static double sgd_step(const gp_update *u, double w, double g, double *m) {
    g += u->weight_decay * w;
    if (!m) return u->lr * g;
    *m = u->first ? g : u->momentum * *m + g;
    return u->lr * (u->nesterov ? g + u->momentum * *m : *m);
}

static double adam_step(const gp_update *u, double w, double g, double *m, double *v) {
    bool decoupled = u->kind == GP_UPDATE_ADAMW;
    if (!decoupled) g += u->weight_decay * w;
    *m = u->beta1 * *m + (1.0 - u->beta1) * g;
    *v = u->beta2 * *v + (1.0 - u->beta2) * g * g;
    double step = u->lr * (*m / u->correction1) / (sqrt(*v / u->correction2) + u->epsilon);
    return step + (decoupled ? u->lr * u->weight_decay * w : 0.0);
}

void gp_reference_update(gp_device *device, const gp_update *update, void *weight, void *gradient, void *m, void *v,
                         int64_t count) {
    (void)device;
    double *w = weight, *g = gradient, *first = m, *second = v;
    for (int64_t i = 0; i < count; i++) {
        double scaled = update->gradient_scale * g[i];
        w[i] -= update->kind == GP_UPDATE_SGD ? sgd_step(update, w[i], scaled, first ? &first[i] : NULL)
                                              : adam_step(update, w[i], scaled, &first[i], &second[i]);
        g[i] = 0.0;
    }
}
