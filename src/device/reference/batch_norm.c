/* Batch norm of the reference device: statistics of a channel over all rows, in two passes. */
#include <math.h>

#include "device/reference/reference.h"

typedef struct channels {
    int64_t rows, n;
    double epsilon;
    bool relu;
} channels;

static channels channels_of(const gp_reference_call *call, int x) {
    gp_shape shape = call->input_types[x].shape;
    const gp_batch_norm_attributes *attributes = call->attributes;
    return (channels){gp_reference_rows(shape), gp_reference_columns(shape), attributes->epsilon, attributes->relu};
}

/* Writes channel c of y = (x - mean) rstd w + b, rectified where asked. */
static void normalise(const gp_reference_call *call, channels e, int64_t c, double mean, double variance) {
    const double *x = gp_reference_in(call, 0);
    double rstd = 1.0 / sqrt(variance + e.epsilon), w = gp_reference_in(call, 1)[c], b = gp_reference_in(call, 2)[c];
    for (int64_t r = 0; r < e.rows; r++) {
        double y = (x[r * e.n + c] - mean) * rstd * w + b;
        gp_reference_out(call, 0)[r * e.n + c] = e.relu && y < 0.0 ? 0.0 : y;
    }
}

gp_status gp_reference_batch_norm(const gp_reference_call *call) {
    channels e = channels_of(call, 0);
    for (int64_t c = 0; c < e.n; c++) {
        const double *x = gp_reference_in(call, 0) + c;
        double mean = 0.0, variance = 0.0;
        for (int64_t r = 0; r < e.rows; r++) {
            mean += x[r * e.n] / (double)e.rows;
        }
        for (int64_t r = 0; r < e.rows; r++) {
            variance += (x[r * e.n] - mean) * (x[r * e.n] - mean) / (double)e.rows;
        }
        normalise(call, e, c, mean, variance);
        gp_reference_out(call, 1)[c] = mean;
        gp_reference_out(call, 2)[c] = variance;
    }
    return GP_OK;
}

gp_status gp_reference_batch_norm_inference(const gp_reference_call *call) {
    channels e = channels_of(call, 0);
    for (int64_t c = 0; c < e.n; c++) {
        normalise(call, e, c, gp_reference_in(call, 3)[c], gp_reference_in(call, 4)[c]);
    }
    return GP_OK;
}

/* What of dy reaches the sum before the rectifier, and h = (x - mean) rstd, at row r of channel c; operands are dy, x,
 * w, b, mean, variance. */
typedef struct element {
    double dy, h, rstd;
} element;

static element element_at(const gp_reference_call *call, channels e, int64_t r, int64_t c) {
    double mean = gp_reference_in(call, 4)[c], variance = gp_reference_in(call, 5)[c];
    element at = {.dy = gp_reference_in(call, 0)[r * e.n + c], .rstd = 1.0 / sqrt(variance + e.epsilon)};
    at.h = (gp_reference_in(call, 1)[r * e.n + c] - mean) * at.rstd;
    double y = at.h * gp_reference_in(call, 2)[c] + gp_reference_in(call, 3)[c];
    if (e.relu && !(y > 0.0)) at.dy = 0.0;
    return at;
}

gp_status gp_reference_batch_norm_weight_gradient(const gp_reference_call *call) {
    channels e = channels_of(call, 1);
    for (int64_t c = 0; c < e.n; c++) {
        double dw = 0.0, db = 0.0;
        for (int64_t r = 0; r < e.rows; r++) {
            element at = element_at(call, e, r, c);
            dw += at.dy * at.h;
            db += at.dy;
        }
        gp_reference_out(call, 0)[c] = dw;
        gp_reference_out(call, 1)[c] = db;
    }
    return GP_OK;
}

gp_status gp_reference_batch_norm_gradient(const gp_reference_call *call) {
    channels e = channels_of(call, 1);
    for (int64_t c = 0; c < e.n; c++) {
        double w = gp_reference_in(call, 2)[c], dw = gp_reference_in(call, 6)[c], db = gp_reference_in(call, 7)[c];
        for (int64_t r = 0; r < e.rows; r++) {
            element at = element_at(call, e, r, c);
            double centred = at.dy - db / (double)e.rows - at.h * dw / (double)e.rows;
            gp_reference_out(call, 0)[r * e.n + c] = w * at.rstd * centred;
        }
    }
    return GP_OK;
}

gp_status gp_reference_batch_norm_inference_gradient(const gp_reference_call *call) {
    channels e = channels_of(call, 1);
    for (int64_t c = 0; c < e.n; c++) {
        for (int64_t r = 0; r < e.rows; r++) {
            element at = element_at(call, e, r, c);
            gp_reference_out(call, 0)[r * e.n + c] = gp_reference_in(call, 2)[c] * at.rstd * at.dy;
        }
    }
    return GP_OK;
}
