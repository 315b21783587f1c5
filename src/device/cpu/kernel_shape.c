/* Kernels that move elements: transpose, slice and its gradient, concatenate. They move bytes: any dtype will do. */
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernel.h"

static int64_t product(const int64_t *dims, int begin, int end) {
    int64_t result = 1;
    for (int i = begin; i < end; i++) {
        result *= dims[i];
    }
    return result;
}

static size_t element_bytes(const gp_cpu_kernel *kernel) {
    return gp_dtype_bytes(kernel->outputs[0].dtype);
}

/* ---- slices: a slice is `rows` pieces of `columns` bytes; the axis and all that follows it is one piece ---- */

/* Bytes of one element of the axis, and of the whole axis before the slice. */
static int64_t slice_stride(const gp_cpu_kernel *kernel, gp_shape shape) {
    return product(shape.dims, kernel->attributes.slice.axis + 1, shape.rank) * (int64_t)element_bytes(kernel);
}

static void slice_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_slice_attributes *slice = &kernel->attributes.slice;
    int64_t stride = slice_stride(kernel, kernel->outputs[0].shape);
    const char *x = (const char *)call->inputs[0] + slice->begin * stride;
    char *y = call->outputs[0];
    for (int64_t r = begin; r < end; r++) {
        memcpy(y + r * kernel->columns, x + r * slice->length * stride, (size_t)kernel->columns);
    }
}

gp_status gp_cpu_setup_slice(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    const gp_slice_attributes *slice = &kernel->attributes.slice;
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    kernel->rows = product(desc->outputs[0].shape.dims, 0, slice->axis);
    kernel->columns = (slice->end - slice->begin) * slice_stride(kernel, desc->outputs[0].shape);
    gp_cpu_kernel_cut(kernel, slice_part, kernel->rows, kernel->columns / 4);
    return GP_OK;
}

static void slice_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_slice_attributes *slice = &kernel->attributes.slice;
    int64_t stride = slice_stride(kernel, kernel->outputs[0].shape);
    const char *dy = call->inputs[0];
    for (int64_t r = begin; r < end; r++) {
        char *dx = (char *)call->outputs[0] + r * slice->length * stride;
        memset(dx, 0, (size_t)(slice->begin * stride));
        memcpy(dx + slice->begin * stride, dy + r * kernel->columns, (size_t)kernel->columns);
        memset(dx + slice->end * stride, 0, (size_t)((slice->length - slice->end) * stride));
    }
}

gp_status gp_cpu_setup_slice_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    const gp_slice_attributes *slice = &kernel->attributes.slice;
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    int64_t stride = slice_stride(kernel, desc->outputs[0].shape);
    kernel->rows = product(desc->outputs[0].shape.dims, 0, slice->axis);
    kernel->columns = (slice->end - slice->begin) * stride;
    gp_cpu_kernel_cut(kernel, slice_gradient_part, kernel->rows, slice->length * stride / 4);
    return GP_OK;
}

/* ---- concatenate: a row of the result is a piece of each input in turn ---- */

static void concatenate_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    for (int64_t r = begin; r < end; r++) {
        char *y = (char *)call->outputs[0] + r * kernel->columns;
        for (int i = 0; i < kernel->input_count; i++) {
            gp_shape shape = kernel->inputs[i].shape;
            size_t bytes =
                (size_t)product(shape.dims, kernel->attributes.concatenate.axis, shape.rank) * element_bytes(kernel);
            memcpy(y, (const char *)call->inputs[i] + (size_t)r * bytes, bytes);
            y += bytes;
        }
    }
}

gp_status gp_cpu_setup_concatenate(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_shape shape = desc->outputs[0].shape;
    int axis = kernel->attributes.concatenate.axis;
    for (int i = 0; i < desc->input_count; i++) {
        GP_TRY(gp_cpu_check(desc->inputs[i].dtype == desc->outputs[0].dtype, desc));
    }
    kernel->rows = product(shape.dims, 0, axis);
    kernel->columns = product(shape.dims, axis, shape.rank) * (int64_t)element_bytes(kernel);
    gp_cpu_kernel_cut(kernel, concatenate_part, kernel->rows, kernel->columns / 4);
    return GP_OK;
}

/* ---- transpose ----
 * The walk has the result's dimensions, merged, and x's strides along them. Where x's last dimension stays last, rows
 * are copied. Otherwise items are the other dimensions, and for each the plane of (the dimension that is x's last)
 * times (the result's last) is transposed in tiles that stay in the cache. */

enum { TILE_ROWS = 32, TILE_COLUMNS = 32 };

static void move_strided(size_t bytes, char *y, int64_t y_step, const char *x, int64_t x_step, int64_t count) {
    switch (bytes) {
    case 4:
        for (int64_t i = 0; i < count; i++) {
            ((uint32_t *)(void *)y)[i * y_step] = ((const uint32_t *)(const void *)x)[i * x_step];
        }
        break;
    case 2:
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)(void *)y)[i * y_step] = ((const uint16_t *)(const void *)x)[i * x_step];
        }
        break;
    default:
        for (int64_t i = 0; i < count; i++) {
            memcpy(y + (size_t)(i * y_step) * bytes, x + (size_t)(i * x_step) * bytes, bytes);
        }
    }
}

/* y[a][b] (rows y_step apart) = x[b][a] (rows x_step apart), for `rows` a and `columns` b. */
static void transpose_plane(size_t bytes, char *y, int64_t y_step, const char *x, int64_t x_step, int64_t rows,
                            int64_t columns) {
    for (int64_t a = 0; a < rows; a += TILE_ROWS) {
        int64_t a_end = a + TILE_ROWS < rows ? a + TILE_ROWS : rows;
        for (int64_t b = 0; b < columns; b += TILE_COLUMNS) {
            int64_t count = columns - b < TILE_COLUMNS ? columns - b : TILE_COLUMNS;
            for (int64_t i = a; i < a_end; i++) {
                move_strided(bytes, y + (size_t)(i * y_step + b) * bytes, 1, x + (size_t)(b * x_step + i) * bytes,
                             x_step, count);
            }
        }
    }
}

static void copy_rows_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_walk *walk = &call->kernel->plan.walk;
    size_t bytes = element_bytes(call->kernel), row = (size_t)walk->dims[walk->rank - 1] * bytes;
    gp_cpu_cursor cursor;
    gp_cpu_cursor_set(&cursor, walk, begin);
    for (int64_t r = begin; r < end; r++) {
        memcpy((char *)call->outputs[0] + (size_t)r * row,
               (const char *)call->inputs[0] + (size_t)cursor.offset[0] * bytes, row);
        gp_cpu_cursor_next(&cursor, walk);
    }
}

/* The walk of planes: operand 0 is x, operand 1 the result; dimension `rank - 1` stands for a whole plane. */
static void planes_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_cpu_walk *walk = &kernel->plan.walk;
    size_t bytes = element_bytes(kernel);
    int last = walk->rank - 1;
    gp_cpu_cursor cursor;
    gp_cpu_cursor_set(&cursor, walk, begin);
    for (int64_t i = begin; i < end; i++) {
        transpose_plane(bytes, (char *)call->outputs[0] + (size_t)cursor.offset[1] * bytes, walk->strides[1][last],
                        (const char *)call->inputs[0] + (size_t)cursor.offset[0] * bytes, walk->strides[0][last],
                        kernel->rows, kernel->columns);
        gp_cpu_cursor_next(&cursor, walk);
    }
}

/* The result's dimensions with x's strides (operand 0) and its own (operand 1), merged where both run on. */
static void transpose_walk(gp_cpu_walk *walk, gp_shape x, gp_shape y, const int *order) {
    int64_t x_strides[GP_MAX_RANK];
    for (int i = 0; i < x.rank; i++) {
        x_strides[i] = product(x.dims, i + 1, x.rank);
    }
    *walk = (gp_cpu_walk){.rank = 0};
    for (int i = 0; i < y.rank; i++) {
        if (y.dims[i] == 1) continue;
        int64_t stride = x_strides[order[i]];
        int last = walk->rank - 1;
        bool merges = last >= 0 && walk->strides[0][last] == stride * y.dims[i];
        int at = merges ? last : walk->rank++;
        walk->dims[at] = merges ? walk->dims[at] * y.dims[i] : y.dims[i];
        walk->strides[0][at] = stride;
        walk->strides[1][at] = product(y.dims, i + 1, y.rank);
    }
    if (walk->rank == 0) {
        *walk = (gp_cpu_walk){.rank = 1, .dims = {1}, .strides = {{1}, {1}}};
    }
}

gp_status gp_cpu_setup_transpose(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_cpu_walk *walk = &kernel->plan.walk;
    gp_shape shape = desc->outputs[0].shape;
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    transpose_walk(walk, desc->inputs[0].shape, shape, kernel->attributes.transpose.order);
    int last = walk->rank - 1;
    int64_t elements = gp_shape_elements(shape);
    if (elements == 0 || walk->strides[0][last] == 1) {
        int64_t row = walk->dims[last];
        gp_cpu_kernel_cut(kernel, copy_rows_part, row > 0 ? elements / row : 0, row);
        return GP_OK;
    }
    int fast = 0; /* the dimension along which x is contiguous */
    while (walk->strides[0][fast] != 1) {
        fast++;
    }
    kernel->rows = walk->dims[fast];
    kernel->columns = walk->dims[last];
    int64_t plane_strides[2] = {walk->strides[0][last], walk->strides[1][fast]};
    for (int i = fast; i < last - 1; i++) {
        walk->dims[i] = walk->dims[i + 1];
        walk->strides[0][i] = walk->strides[0][i + 1];
        walk->strides[1][i] = walk->strides[1][i + 1];
    }
    walk->rank = last;
    walk->dims[last - 1] = 1;
    walk->strides[0][last - 1] = plane_strides[0];
    walk->strides[1][last - 1] = plane_strides[1];
    gp_cpu_kernel_cut(kernel, planes_part, elements / (kernel->rows * kernel->columns), kernel->rows * kernel->columns);
    return GP_OK;
}
