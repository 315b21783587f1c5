/* Pooling of the reference device, with its gradients. */
#include <math.h>
#include <string.h>

#include "device/reference/reference.h"

/* The part of a window that lies inside the image, and the channels around it. */
typedef struct pooled {
    const gp_window_attributes *window;
    int64_t n, i, j; /* of the result */
    int64_t rows[2], columns[2];
    int64_t channels;
} pooled;

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smallest(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Element (row, column) of the image, channel 0. */
static int64_t pixel(const pooled *p, int64_t row, int64_t column) {
    return ((p->n * p->window->image[0] + row) * p->window->image[1] + column) * p->channels;
}

/* Calls `visit` for each window of results y[n, oh, ow, c], with the place of the result's channel 0. */
static void walk(const gp_reference_call *call, gp_shape y,
                 void (*visit)(const gp_reference_call *call, const pooled *p, int64_t result)) {
    pooled p = {.window = call->attributes, .channels = y.dims[3]};
    const gp_window_attributes *w = p.window;
    int64_t result = 0;
    for (p.n = 0; p.n < y.dims[0]; p.n++) {
        for (p.i = 0; p.i < y.dims[1]; p.i++) {
            for (p.j = 0; p.j < y.dims[2]; p.j++, result += p.channels) {
                int64_t row = p.i * w->stride[0] - w->before[0], column = p.j * w->stride[1] - w->before[1];
                p.rows[0] = largest(row, 0);
                p.rows[1] = smallest(row + w->kernel[0], w->image[0]);
                p.columns[0] = largest(column, 0);
                p.columns[1] = smallest(column + w->kernel[1], w->image[1]);
                visit(call, &p, result);
            }
        }
    }
}

static void clear(double *out, gp_type type) {
    memset(out, 0, (size_t)gp_shape_elements(type.shape) * sizeof *out);
}

/* ---- maximum ---- */

static void pick_greatest(const gp_reference_call *call, const pooled *p, int64_t result) {
    const double *x = gp_reference_in(call, 0);
    uint8_t *index = call->outputs[1];
    int64_t top = p->i * p->window->stride[0] - p->window->before[0];
    int64_t left = p->j * p->window->stride[1] - p->window->before[1];
    for (int64_t c = 0; c < p->channels; c++) {
        double best = 0.0;
        bool any = false;
        for (int64_t row = p->rows[0]; row < p->rows[1]; row++) {
            for (int64_t column = p->columns[0]; column < p->columns[1]; column++) {
                double value = x[pixel(p, row, column) + c];
                bool better = !any || value > best || (isnan(value) && !isnan(best));
                if (!better) continue;
                any = true;
                best = value;
                index[result + c] = (uint8_t)((row - top) * p->window->kernel[1] + column - left);
            }
        }
        gp_reference_out(call, 0)[result + c] = best;
    }
}

gp_status gp_reference_max_pool(const gp_reference_call *call) {
    walk(call, call->output_types[0].shape, pick_greatest);
    return GP_OK;
}

static void give_to_picked(const gp_reference_call *call, const pooled *p, int64_t result) {
    const uint8_t *index = call->inputs[1];
    for (int64_t c = 0; c < p->channels; c++) {
        int64_t picked = index[result + c];
        int64_t row = p->i * p->window->stride[0] - p->window->before[0] + picked / p->window->kernel[1];
        int64_t column = p->j * p->window->stride[1] - p->window->before[1] + picked % p->window->kernel[1];
        gp_reference_out(call, 0)[pixel(p, row, column) + c] += gp_reference_in(call, 0)[result + c];
    }
}

gp_status gp_reference_max_pool_gradient(const gp_reference_call *call) {
    clear(gp_reference_out(call, 0), call->output_types[0]);
    walk(call, call->input_types[0].shape, give_to_picked);
    return GP_OK;
}

/* ---- average ---- */

static double share(const pooled *p) {
    return 1.0 / (double)((p->rows[1] - p->rows[0]) * (p->columns[1] - p->columns[0]));
}

static void average(const gp_reference_call *call, const pooled *p, int64_t result) {
    for (int64_t c = 0; c < p->channels; c++) {
        double sum = 0.0;
        for (int64_t row = p->rows[0]; row < p->rows[1]; row++) {
            for (int64_t column = p->columns[0]; column < p->columns[1]; column++) {
                sum += gp_reference_in(call, 0)[pixel(p, row, column) + c];
            }
        }
        gp_reference_out(call, 0)[result + c] = sum * share(p);
    }
}

gp_status gp_reference_average_pool(const gp_reference_call *call) {
    walk(call, call->output_types[0].shape, average);
    return GP_OK;
}

static void spread(const gp_reference_call *call, const pooled *p, int64_t result) {
    for (int64_t row = p->rows[0]; row < p->rows[1]; row++) {
        for (int64_t column = p->columns[0]; column < p->columns[1]; column++) {
            for (int64_t c = 0; c < p->channels; c++) {
                gp_reference_out(call, 0)[pixel(p, row, column) + c] += gp_reference_in(call, 0)[result + c] * share(p);
            }
        }
    }
}

gp_status gp_reference_average_pool_gradient(const gp_reference_call *call) {
    clear(gp_reference_out(call, 0), call->output_types[0]);
    walk(call, call->input_types[0].shape, spread);
    return GP_OK;
}

/* ---- over the whole image ---- */

gp_status gp_reference_global_average_pool(const gp_reference_call *call) {
    gp_shape x = call->input_types[0].shape;
    int64_t pixels = x.dims[1] * x.dims[2], channels = x.dims[3];
    clear(gp_reference_out(call, 0), call->output_types[0]);
    for (int64_t i = 0; i < gp_shape_elements(x); i++) {
        int64_t sample = i / (pixels * channels);
        gp_reference_out(call, 0)[sample * channels + i % channels] += gp_reference_in(call, 0)[i] / (double)pixels;
    }
    return GP_OK;
}

gp_status gp_reference_global_average_pool_gradient(const gp_reference_call *call) {
    gp_shape x = call->output_types[0].shape;
    int64_t pixels = x.dims[1] * x.dims[2], channels = x.dims[3];
    for (int64_t i = 0; i < gp_shape_elements(x); i++) {
        int64_t sample = i / (pixels * channels);
        gp_reference_out(call, 0)[i] = gp_reference_in(call, 0)[sample * channels + i % channels] / (double)pixels;
    }
    return GP_OK;
}
