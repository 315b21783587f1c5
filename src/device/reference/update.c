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

/* m is NULL without momentum. */
static double rmsprop_step(const gp_update *u, double w, double g, double *v, double *m) {
    bool inside = u->epsilon_inside;
    double before = inside && u->first ? 1.0 : *v;
    g += u->weight_decay * w;
    *v = u->beta2 * before + (1.0 - u->beta2) * g * g;
    double direction = g / (inside ? sqrt(*v + u->epsilon) : sqrt(*v) + u->epsilon);
    if (!m) return u->lr * direction;
    *m = u->momentum * *m + (inside ? u->lr * direction : direction);
    return inside ? *m : u->lr * *m;
}

/* The arrays that a kind keeps are always there (gp_update_states). */
static double step_of(const gp_update *u, double w, double g, double *m, double *v) {
    switch (u->kind) {
    case GP_UPDATE_SGD:
        return sgd_step(u, w, g, m);
    case GP_UPDATE_RMSPROP:
        return m ? rmsprop_step(u, w, g, m, v) : 0;
    case GP_UPDATE_ADAM:
    case GP_UPDATE_ADAMW:
    default:
        return m && v ? adam_step(u, w, g, m, v) : 0;
    }
}

void gp_reference_update(gp_device *device, const gp_update *update, void *weight, void *gradient, void *m, void *v,
                         int64_t count) {
    (void)device;
    double *w = weight, *g = gradient, *first = m, *second = v;
    for (int64_t i = 0; i < count; i++) {
        double scaled = update->gradient_scale * g[i];
        w[i] -= step_of(update, w[i], scaled, first ? &first[i] : NULL, second ? &second[i] : NULL);
        g[i] = 0.0;
    }
}
