/* Optimizers: one pass over weight, gradient and moments, which also zeroes the gradient. These loops run at the speed
 * of memory, so what counts is that nothing is read twice. */
#ifndef GP_DEVICE_CPU_LOOPS_UPDATE_H
#define GP_DEVICE_CPU_LOOPS_UPDATE_H

#include <math.h>

#include "device/cpu/loops_lanes.h"

GP_INLINE void sgd_run(const gp_cpu_update *update, float *w, float *g, int64_t count) {
    gp_cpu_update u = *update;
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float gradient = g[i] * u.scale + u.weight_decay * w[i];
        w[i] -= u.lr * gradient;
        g[i] = 0.0f;
    }
}

GP_INLINE void momentum_run(const gp_cpu_update *update, bool first, bool nesterov, float *w, float *g, float *m,
                            int64_t count) {
    gp_cpu_update u = *update;
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float gradient = g[i] * u.scale + u.weight_decay * w[i];
        float moment = first ? gradient : u.factor * m[i] + gradient;
        w[i] -= u.lr * (nesterov ? gradient + u.factor * moment : moment);
        m[i] = moment;
        g[i] = 0.0f;
    }
}

/* Adam has keep = 1, AdamW weight_decay = 0. */
GP_INLINE void adam_run(const gp_cpu_update *update, float *w, float *g, float *m, float *v, int64_t count) {
    gp_cpu_update u = *update;
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float weight = w[i];
        float gradient = g[i] * u.scale + u.weight_decay * weight;
        float first = u.beta1 * m[i] + u.rest1 * gradient;
        float second = u.beta2 * v[i] + u.rest2 * (gradient * gradient);
        m[i] = first;
        v[i] = second;
        w[i] = weight * u.keep - u.lr * first / (sqrtf(second) * u.root + u.epsilon);
        g[i] = 0.0f;
    }
}

/* v is the second moment, m the momentum or NULL. The two published forms differ in where epsilon stands and in whether
 * the momentum holds steps or directions. */
GP_INLINE void rmsprop_run(const gp_cpu_update *update, bool inside, bool momentum, float *w, float *g, float *v,
                           float *m, int64_t count) {
    gp_cpu_update u = *update;
    float before = inside && u.first ? u.beta2 : 0.0f; /* v starts at 1 */
    float inner = inside ? u.epsilon : 0.0f, outer = inside ? 0.0f : u.epsilon;
    float direction_rate = inside ? u.lr : 1.0f, step_rate = inside ? 1.0f : u.lr;
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float gradient = g[i] * u.scale + u.weight_decay * w[i];
        float second = u.beta2 * v[i] + before + u.rest2 * (gradient * gradient);
        float step = direction_rate * gradient / (sqrtf(second + inner) + outer);
        v[i] = second;
        if (momentum) step = m[i] = u.factor * m[i] + step;
        w[i] -= step_rate * step;
        g[i] = 0.0f;
    }
}

static void rmsprop_any(const gp_cpu_update *update, float *w, float *g, float *v, float *m, int64_t count) {
    if (update->momentum) {
        rmsprop_run(update, update->epsilon_inside, true, w, g, v, m, count);
    } else {
        rmsprop_run(update, update->epsilon_inside, false, w, g, v, m, count);
    }
}

static void update_run(const gp_cpu_update *update, float *w, float *g, float *m, float *v, int64_t count) {
    if (update->kind == GP_UPDATE_RMSPROP) {
        rmsprop_any(update, w, g, m, v, count);
    } else if (update->kind != GP_UPDATE_SGD) {
        adam_run(update, w, g, m, v, count);
    } else if (!update->momentum) {
        sgd_run(update, w, g, count);
    } else if (update->first) {
        if (update->nesterov) {
            momentum_run(update, true, true, w, g, m, count);
        } else {
            momentum_run(update, true, false, w, g, m, count);
        }
    } else if (update->nesterov) {
        momentum_run(update, false, true, w, g, m, count);
    } else {
        momentum_run(update, false, false, w, g, m, count);
    }
}

#endif
