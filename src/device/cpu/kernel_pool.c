/* Kernels of pooling: the greatest of a window, and sums over windows with factors, which make averages, averages over
 * the whole image, the gradient of repeated pixels, and the gradients of the averages.
 *
 * Every result is made whole by one call: that of a gradient, a pixel of the large image, looks at the windows that it
 * is part of instead of adding to many pixels from each window, so that rows are independent. `rows` and `columns` are
 * the rows of results of one sample and the channels. */
#include "base/status.h"
#include "device/cpu/kernel.h"

static const gp_window_attributes *window_of(const gp_cpu_call *call) {
    return &call->kernel->attributes.window;
}

/* The part of window i that lies inside the image along an axis. */
typedef struct range {
    int64_t begin, end;
} range;

static range inside(const gp_window_attributes *w, int axis, int64_t i) {
    int64_t begin = i * w->stride[axis] - w->before[axis], end = begin + w->kernel[axis];
    return (range){begin > 0 ? begin : 0, end < w->image[axis] ? end : w->image[axis]};
}

/* The windows, of `count`, that pixel i is part of. */
static range around(const gp_window_attributes *w, int axis, int64_t count, int64_t i) {
    int64_t last = (i + w->before[axis]) / w->stride[axis];
    int64_t before_first = i + w->before[axis] - w->kernel[axis]; /* where a window has just passed */
    int64_t first = before_first < 0 ? 0 : before_first / w->stride[axis] + 1;
    return (range){first < count ? first : count, last < count ? last + 1 : count};
}

/* A row of results: where it lies in both images. */
typedef struct place {
    int64_t sample, row;
} place;

static place place_of(const gp_cpu_kernel *kernel, int64_t item) {
    return (place){item / kernel->rows, item % kernel->rows};
}

/* Element of pixel (row, column) of a sample in an image of this size. */
static int64_t element(const gp_cpu_kernel *kernel, const int64_t *size, int64_t sample, int64_t row, int64_t column) {
    return ((sample * size[0] + row) * size[1] + column) * kernel->columns;
}

static gp_cpu_window pixels(const gp_cpu_kernel *kernel, const int64_t *size, range rows, range columns) {
    return (gp_cpu_window){.rows = rows.end - rows.begin,
                           .columns = columns.end - columns.begin,
                           .row = size[1] * kernel->columns,
                           .pixel = kernel->columns};
}

/* ---- greatest ---- */

static void max_pool_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = window_of(call);
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t item = begin; item < end; item++) {
        place at = place_of(kernel, item);
        range rows = inside(w, 0, at.row);
        for (int64_t j = 0; j < kernel->plan.window.small[1]; j++) {
            range columns = inside(w, 1, j);
            gp_cpu_window seen = pixels(kernel, w->image, rows, columns);
            int64_t x = element(kernel, w->image, at.sample, rows.begin, columns.begin);
            int64_t y = element(kernel, kernel->plan.window.small, at.sample, at.row, j);
            seen.row_step = (int32_t)w->kernel[1];
            seen.column_step = 1;
            seen.first = (int32_t)((rows.begin - at.row * w->stride[0] + w->before[0]) * w->kernel[1] + columns.begin -
                                   j * w->stride[1] + w->before[1]);
            kernel->loops->max_pool(dtype, &seen, gp_cpu_from(dtype, call->inputs[0], x),
                                    gp_cpu_to(dtype, call->outputs[0], y), (uint8_t *)call->outputs[1] + y,
                                    kernel->columns);
        }
    }
}

static void max_pool_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = window_of(call);
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t item = begin; item < end; item++) {
        place at = place_of(kernel, item);
        range rows = around(w, 0, kernel->plan.window.small[0], at.row);
        for (int64_t j = 0; j < w->image[1]; j++) {
            range columns = around(w, 1, kernel->plan.window.small[1], j);
            gp_cpu_window seen = pixels(kernel, kernel->plan.window.small, rows, columns);
            int64_t dy = element(kernel, kernel->plan.window.small, at.sample, rows.begin, columns.begin);
            seen.row_step = (int32_t)(-w->stride[0] * w->kernel[1]); /* the next window begins further down */
            seen.column_step = (int32_t)-w->stride[1];
            seen.first = (int32_t)((at.row - rows.begin * w->stride[0] + w->before[0]) * w->kernel[1] + j -
                                   columns.begin * w->stride[1] + w->before[1]);
            kernel->loops->max_pool_gradient(
                dtype, &seen, gp_cpu_from(dtype, call->inputs[0], dy), (const uint8_t *)call->inputs[1] + dy,
                gp_cpu_to(dtype, call->outputs[0], element(kernel, w->image, at.sample, at.row, j)), kernel->columns);
        }
    }
}

/* ---- sums: the workspace holds a factor for each row of windows, then one for each column of them ---- */

static gp_status set_shares(const gp_cpu_call *call) {
    const gp_cpu_kernel *kernel = call->kernel;
    float *share = call->workspace;
    for (int axis = 0; axis < 2; axis++) {
        for (int64_t i = 0; i < kernel->plan.window.small[axis]; i++) {
            range r = inside(window_of(call), axis, i);
            *share++ = kernel->id == GP_OP_UPSAMPLE_GRADIENT ? 1.0f : 1.0f / (float)(r.end - r.begin);
        }
    }
    return GP_OK;
}

static void sum_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = window_of(call);
    const float *row_shares = call->workspace, *column_shares = row_shares + kernel->plan.window.small[0];
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t item = begin; item < end; item++) {
        place at = place_of(kernel, item);
        range rows = inside(w, 0, at.row);
        for (int64_t j = 0; j < kernel->plan.window.small[1]; j++) {
            range columns = inside(w, 1, j);
            gp_cpu_window seen = pixels(kernel, w->image, rows, columns);
            int64_t x = element(kernel, w->image, at.sample, rows.begin, columns.begin);
            int64_t y = element(kernel, kernel->plan.window.small, at.sample, at.row, j);
            kernel->loops->window_sum(dtype, &seen, gp_cpu_from(dtype, call->inputs[0], x), row_shares + at.row,
                                      column_shares + j, gp_cpu_to(dtype, call->outputs[0], y), kernel->columns);
        }
    }
}

static void spread_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_window_attributes *w = window_of(call);
    const float *row_shares = call->workspace, *column_shares = row_shares + kernel->plan.window.small[0];
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t item = begin; item < end; item++) {
        place at = place_of(kernel, item);
        range rows = around(w, 0, kernel->plan.window.small[0], at.row);
        for (int64_t j = 0; j < w->image[1]; j++) {
            range columns = around(w, 1, kernel->plan.window.small[1], j);
            gp_cpu_window seen = pixels(kernel, kernel->plan.window.small, rows, columns);
            int64_t dy = element(kernel, kernel->plan.window.small, at.sample, rows.begin, columns.begin);
            seen.share_step = 1;
            kernel->loops->window_sum(
                dtype, &seen, gp_cpu_from(dtype, call->inputs[0], dy), row_shares + rows.begin,
                column_shares + columns.begin,
                gp_cpu_to(dtype, call->outputs[0], element(kernel, w->image, at.sample, at.row, j)), kernel->columns);
        }
    }
}

/* ---- creation ---- */

/* Operations without a window of their own get one: the whole image, or the pixels that one is repeated to. */
static void resolve_window(gp_cpu_kernel *kernel, gp_shape large) {
    gp_window_attributes *w = &kernel->attributes.window;
    gp_upsample_attributes repeats = kernel->attributes.upsample;
    bool global = kernel->id == GP_OP_GLOBAL_AVERAGE_POOL || kernel->id == GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT;
    if (!global && kernel->id != GP_OP_UPSAMPLE_GRADIENT) return;
    *w = (gp_window_attributes){.dilation = {1, 1}, .image = {large.dims[1], large.dims[2]}};
    w->kernel[0] = w->stride[0] = global ? large.dims[1] : repeats.rows;
    w->kernel[1] = w->stride[1] = global ? large.dims[2] : repeats.columns;
}

/* `gradient`: results are pixels of the large image. */
static gp_status set_up(gp_cpu_kernel *kernel, const gp_kernel_desc *desc, gp_cpu_part *part, bool gradient) {
    gp_type large = gradient ? desc->outputs[0] : desc->inputs[0],
            small = gradient ? desc->inputs[0] : desc->outputs[0];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(large) && small.dtype == large.dtype && large.shape.rank == 4, desc));
    resolve_window(kernel, large.shape);
    bool one = small.shape.rank == 2; /* of the whole image */
    for (int axis = 0; axis < 2; axis++) {
        kernel->plan.window.small[axis] = one ? 1 : small.shape.dims[1 + axis];
    }
    int64_t pixels_in_row = gradient ? large.shape.dims[2] : kernel->plan.window.small[1];
    const int64_t *kernel_size = kernel->attributes.window.kernel;
    kernel->columns = large.shape.dims[3];
    kernel->rows = gradient ? large.shape.dims[1] : kernel->plan.window.small[0];
    gp_cpu_kernel_cut(kernel, part, large.shape.dims[0] * kernel->rows,
                      pixels_in_row * kernel->columns * (gradient ? 1 : kernel_size[0] * kernel_size[1]));
    return GP_OK;
}

static gp_status set_up_sum(gp_cpu_kernel *kernel, const gp_kernel_desc *desc, gp_cpu_part *part, bool gradient) {
    GP_TRY(set_up(kernel, desc, part, gradient));
    kernel->kernel.workspace = (size_t)(kernel->plan.window.small[0] + kernel->plan.window.small[1]) * sizeof(float);
    kernel->check = set_shares;
    return GP_OK;
}

gp_status gp_cpu_setup_max_pool(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return set_up(kernel, desc, max_pool_part, false);
}

gp_status gp_cpu_setup_max_pool_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return set_up(kernel, desc, max_pool_gradient_part, true);
}

gp_status gp_cpu_setup_window_sum(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return set_up_sum(kernel, desc, sum_part, false);
}

gp_status gp_cpu_setup_window_spread(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return set_up_sum(kernel, desc, spread_part, true);
}
