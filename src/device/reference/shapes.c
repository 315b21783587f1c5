/* Operations of the reference device that move or sum elements. What only moves them takes any dtype, so that it counts
 * in bytes: integers are not doubles. */
#include <string.h>

#include "device/reference/reference.h"

static size_t element_bytes(const gp_reference_call *call) {
    return gp_reference_bytes((gp_type){call->output_types[0].dtype, {.rank = 0}});
}

/* Elements from `from` on of an input to the place `to` of the result. */
static void move(const gp_reference_call *call, int64_t to, int input, int64_t from, int64_t count) {
    size_t bytes = element_bytes(call);
    memcpy((char *)call->outputs[0] + (size_t)to * bytes, (const char *)call->inputs[input] + (size_t)from * bytes,
           (size_t)count * bytes);
}

gp_status gp_reference_transpose(const gp_reference_call *call) {
    const gp_transpose_attributes *attributes = call->attributes;
    gp_shape from = call->input_types[0].shape, to = call->output_types[0].shape;
    int64_t strides[GP_MAX_RANK] = {0}, stride = 1;
    for (int i = from.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from.dims[i];
    }
    for (int64_t e = 0; e < gp_shape_elements(to); e++) {
        int64_t rest = e, offset = 0;
        for (int i = to.rank - 1; i >= 0; i--) {
            offset += rest % to.dims[i] * strides[attributes->order[i]];
            rest /= to.dims[i];
        }
        move(call, e, 0, offset, 1);
    }
    return GP_OK;
}

/* Products of the dimensions before and after an axis. */
static int64_t outer_of(gp_shape shape, int axis) {
    int64_t outer = 1;
    for (int i = 0; i < axis; i++) {
        outer *= shape.dims[i];
    }
    return outer;
}

static int64_t inner_of(gp_shape shape, int axis) {
    int64_t inner = 1;
    for (int i = axis + 1; i < shape.rank; i++) {
        inner *= shape.dims[i];
    }
    return inner;
}

gp_status gp_reference_slice(const gp_reference_call *call) {
    const gp_slice_attributes *a = call->attributes;
    int64_t outer = outer_of(call->input_types[0].shape, a->axis),
            inner = inner_of(call->input_types[0].shape, a->axis);
    int64_t row = (a->end - a->begin) * inner;
    for (int64_t o = 0; o < outer; o++)
        move(call, o * row, 0, (o * a->length + a->begin) * inner, row);
    return GP_OK;
}

gp_status gp_reference_slice_gradient(const gp_reference_call *call) {
    const gp_slice_attributes *a = call->attributes;
    int64_t outer = outer_of(call->input_types[0].shape, a->axis),
            inner = inner_of(call->input_types[0].shape, a->axis);
    int64_t row = (a->end - a->begin) * inner;
    memset(call->outputs[0], 0, gp_reference_bytes(call->output_types[0]));
    for (int64_t o = 0; o < outer; o++) {
        double *dx = gp_reference_out(call, 0) + (o * a->length + a->begin) * inner;
        memcpy(dx, gp_reference_in(call, 0) + o * row, (size_t)row * sizeof *dx);
    }
    return GP_OK;
}

gp_status gp_reference_concatenate(const gp_reference_call *call) {
    const gp_concatenate_attributes *a = call->attributes;
    gp_shape shape = call->output_types[0].shape;
    int64_t outer = outer_of(shape, a->axis), inner = inner_of(shape, a->axis), begin = 0;
    for (int n = 0; n < call->input_count; n++) {
        int64_t length = call->input_types[n].shape.dims[a->axis];
        for (int64_t o = 0; o < outer; o++)
            move(call, (o * shape.dims[a->axis] + begin) * inner, n, o * length * inner, length * inner);
        begin += length;
    }
    return GP_OK;
}

gp_status gp_reference_reduce_to(const gp_reference_call *call) {
    gp_shape from = call->input_types[0].shape, to = call->output_types[0].shape;
    memset(call->outputs[0], 0, gp_reference_bytes(call->output_types[0]));
    for (int64_t e = 0; e < gp_shape_elements(from); e++) {
        gp_reference_out(call, 0)[gp_reference_source(from, to, e)] += gp_reference_in(call, 0)[e];
    }
    return GP_OK;
}

gp_status gp_reference_broadcast_to(const gp_reference_call *call) {
    gp_shape from = call->input_types[0].shape, to = call->output_types[0].shape;
    for (int64_t e = 0; e < gp_shape_elements(to); e++) {
        gp_reference_out(call, 0)[e] = gp_reference_in(call, 0)[gp_reference_source(to, from, e)];
    }
    return GP_OK;
}
