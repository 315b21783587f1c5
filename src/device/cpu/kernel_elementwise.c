/* Kernels that work element by element: arithmetic with broadcasting, scale, cast, activations, dropout, accumulate. */
#include "base/status.h"
#include "device/cpu/kernel.h"

/* ---- arithmetic with broadcasting: the operands are walked in rows of the innermost merged dimension, along which
 * each has step 1 or 0. Equal shapes are one row; x[.., n] with bias[n] is one row of n for each row of x. ---- */

static gp_cpu_operand operand_at(const gp_cpu_call *call, int i, const gp_cpu_cursor *cursor, int64_t skip) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_cpu_walk *walk = &kernel->plan.walk;
    gp_dtype dtype = kernel->inputs[i].dtype;
    int step = walk->strides[i][walk->rank - 1] ? 1 : 0;
    return (gp_cpu_operand){gp_cpu_from(dtype, call->inputs[i], cursor->offset[i] + skip * step), dtype, step};
}

static void binary_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_cpu_walk *walk = &kernel->plan.walk;
    int64_t n = walk->dims[walk->rank - 1], skip = begin % n;
    gp_cpu_cursor cursor;
    gp_cpu_cursor_set(&cursor, walk, begin / n);
    for (int64_t i = begin; i < end;) {
        int64_t count = n - skip < end - i ? n - skip : end - i;
        kernel->loops->binary(kernel->id, operand_at(call, 0, &cursor, skip), operand_at(call, 1, &cursor, skip),
                              gp_cpu_to(kernel->outputs[0].dtype, call->outputs[0], i), count);
        i += count;
        skip = 0;
        gp_cpu_cursor_next(&cursor, walk);
    }
}

gp_status gp_cpu_setup_binary(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_dtype a = desc->inputs[0].dtype, b = desc->inputs[1].dtype;
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && gp_cpu_is_float(desc->inputs[1]) &&
                            desc->outputs[0].dtype == (a == GP_BF16 || b == GP_BF16 ? GP_BF16 : GP_F32),
                        desc));
    gp_shape shapes[2] = {desc->inputs[0].shape, desc->inputs[1].shape};
    gp_cpu_walk_set(&kernel->plan.walk, desc->outputs[0].shape, shapes, 2);
    gp_cpu_kernel_cut(kernel, binary_part, gp_shape_elements(desc->outputs[0].shape), 1);
    return GP_OK;
}

/* ---- the same with one operand: broadcast_to; cast is the case of equal shapes ---- */

static void broadcast_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_cpu_walk *walk = &kernel->plan.walk;
    int64_t n = walk->dims[walk->rank - 1], skip = begin % n;
    gp_dtype dtype = kernel->outputs[0].dtype;
    gp_cpu_cursor cursor;
    gp_cpu_cursor_set(&cursor, walk, begin / n);
    for (int64_t i = begin; i < end;) {
        int64_t count = n - skip < end - i ? n - skip : end - i;
        kernel->loops->cast(operand_at(call, 0, &cursor, skip), gp_cpu_to(dtype, call->outputs[0], i), dtype, count);
        i += count;
        skip = 0;
        gp_cpu_cursor_next(&cursor, walk);
    }
}

gp_status gp_cpu_setup_broadcast(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && gp_cpu_is_float(desc->outputs[0]), desc));
    gp_cpu_walk_set(&kernel->plan.walk, desc->outputs[0].shape, &desc->inputs[0].shape, 1);
    gp_cpu_kernel_cut(kernel, broadcast_part, gp_shape_elements(desc->outputs[0].shape), 1);
    return GP_OK;
}

static void convert_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    gp_dtype from = call->kernel->inputs[0].dtype, to = call->kernel->outputs[0].dtype;
    gp_convert(gp_cpu_to(to, call->outputs[0], begin), to, gp_cpu_from(from, call->inputs[0], begin), from,
               (size_t)(end - begin));
}

gp_status gp_cpu_setup_cast(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    if (gp_cpu_is_float(desc->inputs[0]) && gp_cpu_is_float(desc->outputs[0])) {
        return gp_cpu_setup_broadcast(kernel, desc);
    }
    gp_cpu_kernel_cut(kernel, convert_part, gp_shape_elements(desc->outputs[0].shape), 1);
    return GP_OK;
}

/* ---- one run of elements ---- */

static void scale_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    kernel->loops->scale(dtype, gp_cpu_from(dtype, call->inputs[0], begin), gp_cpu_to(dtype, call->outputs[0], begin),
                         (float)kernel->attributes.scale.factor, end - begin);
}

gp_status gp_cpu_setup_scale(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    gp_cpu_kernel_cut(kernel, scale_part, gp_shape_elements(desc->outputs[0].shape), 1);
    return GP_OK;
}

static void activation_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    kernel->loops->activation(kernel->attributes.activation.kind, dtype, gp_cpu_from(dtype, call->inputs[0], begin),
                              gp_cpu_to(dtype, call->outputs[0], begin), end - begin);
}

gp_status gp_cpu_setup_activation(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    gp_cpu_kernel_cut(kernel, activation_part, gp_shape_elements(desc->outputs[0].shape), 4);
    return GP_OK;
}

static void activation_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    kernel->loops->activation_gradient(
        kernel->attributes.activation.kind, dtype, gp_cpu_from(dtype, call->inputs[0], begin),
        gp_cpu_from(dtype, call->inputs[1], begin), gp_cpu_to(dtype, call->outputs[0], begin), end - begin);
}

gp_status gp_cpu_setup_activation_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->inputs[0].dtype == desc->inputs[1].dtype &&
                            desc->inputs[0].dtype == desc->outputs[0].dtype,
                        desc));
    gp_cpu_kernel_cut(kernel, activation_gradient_part, gp_shape_elements(desc->outputs[0].shape), 4);
    return GP_OK;
}

static void accumulate_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    kernel->loops->accumulate(dtype, gp_cpu_from(dtype, call->inputs[0], begin), (float *)call->outputs[0] + begin,
                              end - begin);
}

gp_status gp_cpu_setup_accumulate(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->outputs[0].dtype == GP_F32, desc));
    gp_cpu_kernel_cut(kernel, accumulate_part, gp_shape_elements(desc->outputs[0].shape), 1);
    return GP_OK;
}

/* ---- dropout: items are pieces of PIECE elements, a sample has `columns` elements in `rows` pieces ---- */

enum { PIECE = 4096 };

static void dropout_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_dropout_attributes *attributes = &kernel->attributes.dropout;
    gp_dtype dtype = kernel->inputs[0].dtype;
    gp_cpu_draw draw = {.key = gp_random_key_of(call->run->seed),
                        .step = call->run->step,
                        .use = attributes->use,
                        .threshold = gp_random_threshold(attributes->p),
                        .scale = (float)(1.0 / (1.0 - attributes->p))};
    for (int64_t i = begin; i < end; i++) {
        int64_t sample = i / kernel->rows, first = i % kernel->rows * PIECE;
        int64_t count = kernel->columns - first < PIECE ? kernel->columns - first : PIECE;
        int64_t at = sample * kernel->columns + first;
        draw.sample = call->run->first_sample + (uint32_t)sample;
        kernel->loops->dropout(&draw, dtype, gp_cpu_from(dtype, call->inputs[0], at),
                               gp_cpu_to(dtype, call->outputs[0], at), first, count);
    }
}

gp_status gp_cpu_setup_dropout(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_shape shape = desc->inputs[0].shape;
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->inputs[0].dtype == desc->outputs[0].dtype, desc));
    int64_t batch = shape.rank > 0 ? shape.dims[0] : 1;
    kernel->columns = batch > 0 ? gp_shape_elements(shape) / batch : 0;
    kernel->rows = (kernel->columns + PIECE - 1) / PIECE;
    gp_cpu_kernel_cut(kernel, dropout_part, batch * kernel->rows, PIECE);
    return GP_OK;
}
