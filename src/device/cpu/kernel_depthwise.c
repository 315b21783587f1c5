/* Kernels of depthwise convolutions (every channel for itself): forward and both gradients, with loops over channels.
 * convolution.c says where they run instead of oneDNN's.
 *
 * The result and the gradient of the input are sums over a window: of the pixels under the kernel, or of the results
 * that a pixel is part of. Which those are is found once for each row and each column before a run (taps_of). The
 * workspace holds the weights tap by tap, then what was found for the rows, then for the columns. `columns` are the
 * channels. */
#include "base/status.h"
#include "device/cpu/kernel.h"

/* What row (or column) of a result sees along its axis: `count` taps of the kernel, from `first` on, every `step`-th,
 * at places from `begin` on, `stride` apart. */
typedef struct taps {
    int64_t first, step, count, begin, stride;
} taps;

static const gp_convolution_attributes *attributes_of(const gp_cpu_kernel *kernel) {
    return &kernel->attributes.convolution;
}

static int64_t tap_count(const gp_cpu_kernel *kernel) {
    const int64_t *size = attributes_of(kernel)->window.kernel;
    return size[0] * size[1];
}

/* Result i of the forward direction sees the pixels i stride - before + k dilation. */
static taps forward_taps(const gp_window_attributes *w, int axis, int64_t i) {
    int64_t origin = i * w->stride[axis] - w->before[axis], dilation = w->dilation[axis];
    taps t = {.step = 1, .stride = dilation};
    while (t.first < w->kernel[axis] && origin + t.first * dilation < 0) {
        t.first++;
    }
    while (t.first + t.count < w->kernel[axis] && origin + (t.first + t.count) * dilation < w->image[axis]) {
        t.count++;
    }
    t.begin = origin + t.first * dilation;
    return t;
}

/* Pixel p is part of the results i of which i stride = p + before - k dilation: the larger k, the smaller i. */
static taps gradient_taps(const gp_window_attributes *w, int axis, int64_t results, int64_t p) {
    int64_t stride = w->stride[axis], dilation = w->dilation[axis], origin = p + w->before[axis];
    taps t = {.step = 1};
    while (t.step * dilation % stride) { /* from one tap that meets a result to the next one */
        t.step++;
    }
    t.stride = -t.step * dilation / stride;
    while (t.first < w->kernel[axis] && origin >= t.first * dilation &&
           ((origin - t.first * dilation) % stride || (origin - t.first * dilation) / stride >= results)) {
        t.first++;
    }
    t.begin = (origin - t.first * dilation) / stride;
    for (int64_t k = t.first; k < w->kernel[axis] && origin >= k * dilation; k += t.step) {
        t.count++;
    }
    return t;
}

/* Tap k sees the pixels of the results from `first` on, `count` of them, from pixel `begin` on. */
static taps weight_taps(const gp_window_attributes *w, int axis, int64_t results, int64_t k) {
    int64_t offset = k * w->dilation[axis] - w->before[axis];
    taps t = {.stride = w->stride[axis]};
    while (t.first < results && t.first * t.stride + offset < 0) {
        t.first++;
    }
    while (t.first + t.count < results && (t.first + t.count) * t.stride + offset < w->image[axis]) {
        t.count++;
    }
    t.begin = t.first * t.stride + offset;
    return t;
}

/* ---- before a run ---- */

static float *weights_of(const gp_cpu_call *call) {
    return call->workspace;
}

static size_t weight_bytes(const gp_cpu_kernel *kernel) {
    return ((size_t)(tap_count(kernel) * kernel->columns) * sizeof(float) + 63) / 64 * 64;
}

/* The entries of an axis; there are plan.window.entries[axis] of them. */
static taps *taps_of(const gp_cpu_call *call, int axis) {
    taps *all = (taps *)((char *)call->workspace + weight_bytes(call->kernel));
    return axis == 0 ? all : all + call->kernel->plan.window.entries[0];
}

static gp_status prepare(const gp_cpu_call *call) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = &attributes_of(kernel)->window;
    for (int axis = 0; axis < 2; axis++) {
        int64_t results = kernel->plan.window.small[axis];
        for (int64_t i = 0; i < kernel->plan.window.entries[axis]; i++) {
            taps_of(call, axis)[i] = kernel->id == GP_OP_CONVOLUTION ? forward_taps(w, axis, i)
                                     : kernel->id == GP_OP_CONVOLUTION_INPUT_GRADIENT
                                         ? gradient_taps(w, axis, results, i)
                                         : weight_taps(w, axis, results, i);
        }
    }
    if (kernel->id == GP_OP_CONVOLUTION_WEIGHT_GRADIENT) return GP_OK;
    const float *plain = call->inputs[1];
    int64_t count = tap_count(kernel), n = kernel->columns;
    for (int64_t c = 0; c < n; c++) {
        for (int64_t k = 0; k < count; k++) {
            weights_of(call)[k * n + c] = plain[c * count + k];
        }
    }
    return GP_OK;
}

/* ---- result and gradient of the input: items are rows of the image that is made ---- */

/* Height and width of the image that is read, and of the one that is made. */
static const int64_t *read_size(const gp_cpu_kernel *kernel) {
    return kernel->id == GP_OP_CONVOLUTION ? attributes_of(kernel)->window.image : kernel->plan.window.small;
}

static const int64_t *made_size(const gp_cpu_kernel *kernel) {
    return kernel->id == GP_OP_CONVOLUTION ? kernel->plan.window.small : attributes_of(kernel)->window.image;
}

static void image_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const int64_t *from = read_size(kernel), *to = made_size(kernel);
    int64_t n = kernel->columns, kernel_width = attributes_of(kernel)->window.kernel[1];
    gp_dtype dtype = kernel->inputs[0].dtype;
    const float *bias = kernel->input_count > 2 ? call->inputs[2] : NULL;
    for (int64_t item = begin; item < end; item++) {
        const taps *row = &taps_of(call, 0)[item % to[0]];
        int64_t sample = item / to[0];
        for (int64_t j = 0; j < to[1]; j++) {
            const taps *column = &taps_of(call, 1)[j];
            bool any = row->count > 0 && column->count > 0;
            gp_cpu_window window = {.rows = any ? row->count : 0,
                                    .columns = column->count,
                                    .row = row->stride * from[1] * n,
                                    .pixel = column->stride * n,
                                    .first = (int32_t)(row->first * kernel_width + column->first),
                                    .row_step = (int32_t)(row->step * kernel_width),
                                    .column_step = (int32_t)column->step};
            int64_t place = any ? ((sample * from[0] + row->begin) * from[1] + column->begin) * n : 0;
            kernel->loops->depthwise(dtype, &window, gp_cpu_from(dtype, call->inputs[0], place), weights_of(call), bias,
                                     gp_cpu_to(dtype, call->outputs[0], (item * to[1] + j) * n), n);
        }
    }
}

/* ---- gradient of the weights: items are channels ---- */

/* Adds what one row of results finds to the sums of all taps, channels c .. c + channels - 1. */
static void add_row(const gp_cpu_call *call, int64_t sample, int64_t i, int64_t c, int64_t channels) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = &attributes_of(kernel)->window;
    int64_t n = kernel->columns;
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t r = 0; r < w->kernel[0]; r++) {
        const taps *row = &taps_of(call, 0)[r];
        if (i < row->first || i >= row->first + row->count) continue;
        int64_t x_row = sample * w->image[0] + row->begin + (i - row->first) * row->stride;
        int64_t y_row = sample * kernel->plan.window.small[0] + i;
        for (int64_t s = 0; s < w->kernel[1]; s++) {
            const taps *column = &taps_of(call, 1)[s];
            if (column->count < 1) continue;
            int64_t dy = (y_row * kernel->plan.window.small[1] + column->first) * n + c;
            int64_t x = (x_row * w->image[1] + column->begin) * n + c;
            kernel->loops->channel_dot(dtype, gp_cpu_from(dtype, call->inputs[0], dy), n,
                                       gp_cpu_from(dtype, call->inputs[1], x), column->stride * n, column->count,
                                       weights_of(call) + (r * w->kernel[1] + s) * n + c, channels);
        }
    }
}

static void weight_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    enum { CHANNELS = 64 }; /* whose rows stay in the first-level cache */
    const gp_cpu_kernel *kernel = call->kernel;
    int64_t count = tap_count(kernel), n = kernel->columns;
    float *dw = call->outputs[0];
    for (int64_t c = begin; c < end; c += CHANNELS) {
        int64_t channels = end - c < CHANNELS ? end - c : CHANNELS;
        for (int64_t k = 0; k < count; k++) {
            for (int64_t l = 0; l < channels; l++) {
                weights_of(call)[k * n + c + l] = 0.0f;
            }
        }
        for (int64_t item = 0; item < kernel->rows * kernel->plan.window.small[0]; item++) {
            add_row(call, item / kernel->plan.window.small[0], item % kernel->plan.window.small[0], c, channels);
        }
    }
    for (int64_t c = begin; c < end; c++) {
        for (int64_t k = 0; k < count; k++) {
            float old = kernel->accumulate & 1u ? dw[c * count + k] : 0.0f;
            dw[c * count + k] = old + weights_of(call)[k * n + c];
        }
    }
}

/* ---- creation ---- */

/* `rows` are the samples. */
gp_status gp_cpu_setup_depthwise(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    bool forward = desc->id == GP_OP_CONVOLUTION, weights = desc->id == GP_OP_CONVOLUTION_WEIGHT_GRADIENT;
    gp_shape y = (forward ? desc->outputs[0] : desc->inputs[0]).shape;
    const gp_window_attributes *w = &attributes_of(kernel)->window;
    if (forward && !(desc->input_count > 2 && gp_cpu_is_present(desc->inputs[2]))) kernel->input_count = 2;
    kernel->rows = y.dims[0];
    kernel->columns = y.dims[3];
    for (int axis = 0; axis < 2; axis++) {
        kernel->plan.window.small[axis] = y.dims[1 + axis];
        kernel->plan.window.entries[axis] = weights ? w->kernel[axis] : forward ? y.dims[1 + axis] : w->image[axis];
    }
    int64_t entries = kernel->plan.window.entries[0] + kernel->plan.window.entries[1];
    kernel->kernel.workspace = weight_bytes(kernel) + (size_t)entries * sizeof(taps);
    kernel->check = prepare;
    int64_t cost = tap_count(kernel) * kernel->columns * made_size(kernel)[1];
    if (weights) {
        gp_cpu_kernel_cut_columns(kernel, weight_part, kernel->columns, tap_count(kernel) * gp_cpu_rows(y));
    } else {
        gp_cpu_kernel_cut(kernel, image_part, kernel->rows * made_size(kernel)[0], cost);
    }
    return GP_OK;
}
