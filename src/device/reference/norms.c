/* Normalisation and softmax of the reference device, over the last dimension, with their gradients. */
#include <math.h>

#include "device/reference/reference.h"

/* Rows and columns of the operand that the rows are counted of. */
typedef struct extent {
    int64_t rows, n;
} extent;

static extent extent_of(const gp_reference_call *call, int input) {
    gp_shape shape = call->input_types[input].shape;
    return (extent){gp_reference_rows(shape), gp_reference_columns(shape)};
}

static double epsilon_of(const gp_reference_call *call) {
    return ((const gp_norm_attributes *)call->attributes)->epsilon;
}

/* ---- layer norm: y = (x - mean) rstd w + b ---- */

gp_status gp_reference_layer_norm(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *w = gp_reference_in(call, 1), *b = NULL;
    if (call->input_count > 2 && gp_reference_present(call->input_types[2])) b = gp_reference_in(call, 2);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *x = gp_reference_in(call, 0) + r * e.n;
        double *y = gp_reference_out(call, 0) + r * e.n;
        double mean = 0.0, variance = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            mean += x[i] / (double)e.n;
        }
        for (int64_t i = 0; i < e.n; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (double)e.n;
        }
        double rstd = 1.0 / sqrt(variance + epsilon_of(call));
        for (int64_t i = 0; i < e.n; i++) {
            y[i] = (x[i] - mean) * rstd * w[i] + (b ? b[i] : 0.0);
        }
        gp_reference_out(call, 1)[r] = mean;
        gp_reference_out(call, 2)[r] = rstd;
    }
    return GP_OK;
}

/* With h = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - h mean(g h)). */
gp_status gp_reference_layer_norm_gradient(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *w = gp_reference_in(call, 2);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *dy = gp_reference_in(call, 0) + r * e.n, *x = gp_reference_in(call, 1) + r * e.n;
        double mean = gp_reference_in(call, 3)[r], rstd = gp_reference_in(call, 4)[r];
        double *dx = gp_reference_out(call, 0) + r * e.n;
        double mean_g = 0.0, mean_gh = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            mean_g += dy[i] * w[i] / (double)e.n;
            mean_gh += dy[i] * w[i] * (x[i] - mean) * rstd / (double)e.n;
        }
        for (int64_t i = 0; i < e.n; i++) {
            dx[i] = rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
        }
    }
    return GP_OK;
}

gp_status gp_reference_layer_norm_weight_gradient(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *dy = gp_reference_in(call, 0), *x = gp_reference_in(call, 1);
    const double *mean = gp_reference_in(call, 2), *rstd = gp_reference_in(call, 3);
    for (int64_t i = 0; i < e.n; i++) {
        double dw = 0.0, db = 0.0;
        for (int64_t r = 0; r < e.rows; r++) {
            dw += dy[r * e.n + i] * (x[r * e.n + i] - mean[r]) * rstd[r];
            db += dy[r * e.n + i];
        }
        gp_reference_out(call, 0)[i] = dw;
        gp_reference_out(call, 1)[i] = db;
    }
    return GP_OK;
}

/* ---- RMS norm: y = x rstd w ---- */

gp_status gp_reference_rms_norm(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *w = gp_reference_in(call, 1);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *x = gp_reference_in(call, 0) + r * e.n;
        double *y = gp_reference_out(call, 0) + r * e.n;
        double square = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            square += x[i] * x[i] / (double)e.n;
        }
        double rstd = 1.0 / sqrt(square + epsilon_of(call));
        for (int64_t i = 0; i < e.n; i++) {
            y[i] = x[i] * rstd * w[i];
        }
        gp_reference_out(call, 1)[r] = rstd;
    }
    return GP_OK;
}

/* With h = x rstd and g = dy w: dx = rstd (g - h mean(g h)). */
gp_status gp_reference_rms_norm_gradient(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *w = gp_reference_in(call, 2);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *dy = gp_reference_in(call, 0) + r * e.n, *x = gp_reference_in(call, 1) + r * e.n;
        double *dx = gp_reference_out(call, 0) + r * e.n;
        double rstd = gp_reference_in(call, 3)[r], mean_gh = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            mean_gh += dy[i] * w[i] * x[i] * rstd / (double)e.n;
        }
        for (int64_t i = 0; i < e.n; i++) {
            dx[i] = rstd * (dy[i] * w[i] - x[i] * rstd * mean_gh);
        }
    }
    return GP_OK;
}

gp_status gp_reference_rms_norm_weight_gradient(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    const double *dy = gp_reference_in(call, 0), *x = gp_reference_in(call, 1), *rstd = gp_reference_in(call, 2);
    for (int64_t i = 0; i < e.n; i++) {
        double dw = 0.0;
        for (int64_t r = 0; r < e.rows; r++) {
            dw += dy[r * e.n + i] * x[r * e.n + i] * rstd[r];
        }
        gp_reference_out(call, 0)[i] = dw;
    }
    return GP_OK;
}

/* ---- softmax ---- */

gp_status gp_reference_softmax(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *x = gp_reference_in(call, 0) + r * e.n;
        double *y = gp_reference_out(call, 0) + r * e.n;
        double largest = -(double)INFINITY, sum = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            largest = fmax(largest, x[i]);
        }
        for (int64_t i = 0; i < e.n; i++) {
            sum += exp(x[i] - largest);
        }
        for (int64_t i = 0; i < e.n; i++) {
            y[i] = exp(x[i] - largest) / sum;
        }
    }
    return GP_OK;
}

gp_status gp_reference_softmax_gradient(const gp_reference_call *call) {
    extent e = extent_of(call, 0);
    for (int64_t r = 0; r < e.rows; r++) {
        const double *dy = gp_reference_in(call, 0) + r * e.n, *y = gp_reference_in(call, 1) + r * e.n;
        double *dx = gp_reference_out(call, 0) + r * e.n;
        double dot = 0.0;
        for (int64_t i = 0; i < e.n; i++) {
            dot += dy[i] * y[i];
        }
        for (int64_t i = 0; i < e.n; i++) {
            dx[i] = y[i] * (dy[i] - dot);
        }
    }
    return GP_OK;
}
