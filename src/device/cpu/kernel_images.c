/* Kernels that move or scale pixels: padding, repeating, drop-path, scaling of channels. */
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernel.h"

static size_t element_bytes(const gp_cpu_kernel *kernel) {
    return gp_dtype_bytes(kernel->outputs[0].dtype);
}

/* ---- pad: lines of y, from the last padded dimension on; items are the lines, each `columns` elements long ---- */

/* Elements behind one step along the last padded dimension, and which dimension that is. */
static int64_t padded_line(const gp_cpu_kernel *kernel, int *axis) {
    const gp_pad_attributes *attributes = &kernel->attributes.pad;
    gp_shape y = kernel->outputs[0].shape;
    int64_t inner = 1;
    *axis = y.rank - 1;
    while (*axis > 0 && !attributes->before[*axis] && !attributes->after[*axis]) {
        inner *= y.dims[(*axis)--];
    }
    return inner;
}

/* The line of x that line `item` of y shows; -1: none. */
static int64_t padded_source(const gp_cpu_kernel *kernel, int axis, int64_t item) {
    gp_shape x = kernel->inputs[0].shape, y = kernel->outputs[0].shape;
    int64_t source = 0, stride = 1;
    for (int i = axis - 1; i >= 0; i--) {
        int64_t at = item % y.dims[i] - kernel->attributes.pad.before[i];
        item /= y.dims[i];
        if (at < 0 || at >= x.dims[i]) return -1;
        source += at * stride;
        stride *= x.dims[i];
    }
    return source;
}

static void pad_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    int axis;
    int64_t inner = padded_line(kernel, &axis), length = kernel->inputs[0].shape.dims[axis];
    int64_t before = kernel->attributes.pad.before[axis], after = kernel->attributes.pad.after[axis];
    int64_t cut = before < 0 ? -before : 0, kept = length - cut + (after < 0 ? after : 0);
    size_t step = (size_t)inner * element_bytes(kernel), line = (size_t)kernel->columns * element_bytes(kernel);
    for (int64_t item = begin; item < end; item++) {
        char *to = (char *)call->outputs[0] + (size_t)item * line;
        int64_t source = padded_source(kernel, axis, item);
        if (source < 0) {
            memset(to, 0, line);
            continue;
        }
        const char *from = (const char *)call->inputs[0] + (size_t)(source * length + cut) * step;
        size_t front = before > 0 ? (size_t)before * step : 0, copied = (size_t)kept * step;
        memset(to, 0, front);
        memcpy(to + front, from, copied);
        memset(to + front + copied, 0, line - front - copied);
    }
}

gp_status gp_cpu_setup_pad(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type x = desc->inputs[0], y = desc->outputs[0];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(x) && y.dtype == x.dtype && y.shape.rank == x.shape.rank && x.shape.rank > 0,
                        desc));
    int axis;
    int64_t inner = padded_line(kernel, &axis);
    kernel->columns = inner * y.shape.dims[axis];
    int64_t lines = kernel->columns > 0 ? gp_shape_elements(y.shape) / kernel->columns : 0;
    gp_cpu_kernel_cut(kernel, pad_part, lines, kernel->columns);
    return GP_OK;
}

/* ---- upsample: items are rows of pixels of y ---- */

static void upsample_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_upsample_attributes *attributes = &kernel->attributes.upsample;
    int64_t width = kernel->inputs[0].shape.dims[2];
    size_t pixel = (size_t)kernel->inputs[0].shape.dims[3] * element_bytes(kernel);
    for (int64_t item = begin; item < end; item++) {
        /* rows of a sample are a multiple of what one is repeated to, so samples need not be told apart */
        const char *from = (const char *)call->inputs[0] + (size_t)(item / attributes->rows * width) * pixel;
        char *to = (char *)call->outputs[0] + (size_t)(item * width * attributes->columns) * pixel;
        for (int64_t j = 0; j < width * attributes->columns; j++) {
            memcpy(to + (size_t)j * pixel, from + (size_t)(j / attributes->columns) * pixel, pixel);
        }
    }
}

gp_status gp_cpu_setup_upsample(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type x = desc->inputs[0], y = desc->outputs[0];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(x) && y.dtype == x.dtype && x.shape.rank == 4, desc));
    gp_cpu_kernel_cut(kernel, upsample_part, y.shape.dims[0] * y.shape.dims[1], y.shape.dims[2] * y.shape.dims[3]);
    return GP_OK;
}

/* ---- drop-path: a sample has `columns` elements in `rows` pieces ---- */

enum { PIECE = 16384 };

static float kept(const gp_cpu_call *call, int64_t sample) {
    const gp_drop_path_attributes *attributes = &call->kernel->attributes.drop_path;
    double p = attributes->scheduled ? attributes->p * call->run->progress : attributes->p;
    gp_random_block block =
        gp_random_element4(gp_random_key_of(call->run->seed), 0, call->run->first_sample + (uint32_t)sample,
                           call->run->step, attributes->use);
    return block.word[0] >= gp_random_threshold(p) ? (float)(1.0 / (1.0 - p)) : 0.0f;
}

static void drop_path_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    for (int64_t i = begin; i < end; i++) {
        int64_t sample = i / kernel->rows, first = i % kernel->rows * PIECE;
        int64_t count = kernel->columns - first < PIECE ? kernel->columns - first : PIECE;
        int64_t at = sample * kernel->columns + first;
        kernel->loops->scale(dtype, gp_cpu_from(dtype, call->inputs[0], at), gp_cpu_to(dtype, call->outputs[0], at),
                             kept(call, sample), count);
    }
}

gp_status gp_cpu_setup_drop_path(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_shape shape = desc->inputs[0].shape;
    GP_TRY(gp_cpu_check(
        gp_cpu_is_float(desc->inputs[0]) && desc->inputs[0].dtype == desc->outputs[0].dtype && shape.rank > 0, desc));
    kernel->columns = shape.dims[0] > 0 ? gp_shape_elements(shape) / shape.dims[0] : 0;
    kernel->rows = (kernel->columns + PIECE - 1) / PIECE;
    gp_cpu_kernel_cut(kernel, drop_path_part, shape.dims[0] * kernel->rows, kernel->columns < PIECE ? 1 : PIECE);
    return GP_OK;
}

/* ---- channel scaling: a sample has `rows` rows of `columns` channels ---- */

static gp_status set_up_channels(gp_cpu_kernel *kernel, const gp_kernel_desc *desc, gp_type x, bool fits) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(x) && x.shape.rank > 1 && fits, desc));
    kernel->columns = gp_cpu_columns(x.shape);
    kernel->rows = x.shape.dims[0] > 0 ? gp_cpu_rows(x.shape) / x.shape.dims[0] : 0;
    return GP_OK;
}

/* Items are rows of all samples. */
static void channel_scale_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    while (begin < end) {
        int64_t sample = begin / kernel->rows, next = (sample + 1) * kernel->rows, n = kernel->columns;
        int64_t last = next < end ? next : end;
        kernel->loops->channel_scale(dtype, gp_cpu_from(dtype, call->inputs[0], begin * n),
                                     gp_cpu_from(dtype, call->inputs[1], sample * n),
                                     gp_cpu_to(dtype, call->outputs[0], begin * n), last - begin, n);
        begin = last;
    }
}

gp_status gp_cpu_setup_channel_scale(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type x = desc->inputs[0];
    bool fits = desc->inputs[1].dtype == x.dtype && gp_type_equal(desc->outputs[0], x);
    GP_TRY(set_up_channels(kernel, desc, x, fits));
    gp_cpu_kernel_cut(kernel, channel_scale_part, gp_cpu_rows(x.shape), kernel->columns);
    return GP_OK;
}

/* Items are samples; a block of rows is summed before it is added to the total, which keeps rounding errors small. */
static void channel_dot_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    enum { CHANNELS = 1024, ROWS = 256 };
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    int64_t n = kernel->columns;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t c = 0; c < n; c += CHANNELS) {
            float sums[CHANNELS] = {0};
            int64_t channels = n - c < CHANNELS ? n - c : CHANNELS;
            for (int64_t r = 0; r < kernel->rows; r += ROWS) {
                int64_t at = (i * kernel->rows + r) * n + c, rows = kernel->rows - r < ROWS ? kernel->rows - r : ROWS;
                kernel->loops->channel_dot(dtype, gp_cpu_from(dtype, call->inputs[0], at), n,
                                           gp_cpu_from(dtype, call->inputs[1], at), n, rows, sums, channels);
            }
            kernel->loops->cast((gp_cpu_operand){sums, GP_F32, 1}, gp_cpu_to(dtype, call->outputs[0], i * n + c), dtype,
                                channels);
        }
    }
}

gp_status gp_cpu_setup_channel_scale_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type x = desc->inputs[1];
    bool fits = gp_type_equal(desc->inputs[0], x) && desc->outputs[0].dtype == x.dtype;
    GP_TRY(set_up_channels(kernel, desc, x, fits));
    gp_cpu_kernel_cut(kernel, channel_dot_part, x.shape.dims[0], kernel->rows * kernel->columns);
    return GP_OK;
}
