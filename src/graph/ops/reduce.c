/* Sums over dimensions and their counterpart, repetition along dimensions. Both are stated by the shape of the result:
 * that is what gradients of broadcasting need, and sum and mean along an axis are special cases. */
#include <string.h>

#include "graph/ops/ops_internal.h"

static gp_shape_attributes attributes_of(gp_type type) {
    gp_shape_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.shape = type.shape;
    attributes.dtype = type.dtype;
    return attributes;
}

/* ---- reduce_to ---- */

static gp_status reduce_to_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_shape_attributes *attributes = call->attributes;
    outputs[0] = (gp_type){attributes->dtype, attributes->shape};
    if (!gp_type_is_activation(call->inputs[0]) || !gp_type_is_activation(outputs[0]) ||
        !gp_shape_fits(attributes->shape, call->inputs[0].shape)) {
        char text[160];
        return gp_op_refuse(call, "a sum cannot have the type %s", gp_type_format(outputs[0], text, sizeof text));
    }
    return GP_OK;
}

static gp_status reduce_to_gradient(const gp_op_gradient *g) {
    gp_shape_attributes attributes = attributes_of(gp_value_type(g->inputs[0]));
    g->input_gradients[0] = gp_apply(GP_OP_BROADCAST_TO, &attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_reduce_to_class = {.size = sizeof(gp_op_class),
                                        .name = "reduce_to",
                                        .attributes_size = sizeof(gp_shape_attributes),
                                        .infer = reduce_to_infer,
                                        .gradient = reduce_to_gradient,
                                        .flops = gp_flops_of_input};

/* ---- broadcast_to ---- */

static gp_status broadcast_to_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_shape_attributes *attributes = call->attributes;
    outputs[0] = (gp_type){attributes->dtype, attributes->shape};
    if (!gp_type_is_activation(call->inputs[0]) || !gp_type_is_activation(outputs[0]) ||
        !gp_shape_fits(call->inputs[0].shape, attributes->shape)) {
        char text[160];
        return gp_op_refuse(call, "x cannot be repeated to %s", gp_type_format(outputs[0], text, sizeof text));
    }
    return GP_OK;
}

static gp_status broadcast_to_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_gradient_as(g->output_gradients[0], gp_value_type(g->inputs[0]));
    return GP_OK;
}

const gp_op_class gp_broadcast_to_class = {.size = sizeof(gp_op_class),
                                           .name = "broadcast_to",
                                           .attributes_size = sizeof(gp_shape_attributes),
                                           .infer = broadcast_to_infer,
                                           .gradient = broadcast_to_gradient,
                                           .flops = gp_flops_none};

/* ---- sum and mean along an axis ---- */

static gp_value sum_along(gp_value x, int axis, bool keep, bool mean, const char *op) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    int found = gp_axis_of(x, axis, op);
    if (found < 0) return gp_invalid_like(x);
    gp_type type = gp_value_type(x);
    int64_t length = type.shape.dims[found];
    if (mean && length == 0) {
        char text[160];
        return gp_graph_error(x.graph, "%s: input %s: axis %d is empty", op, gp_type_format(type, text, sizeof text),
                              axis);
    }
    gp_type kept = type;
    kept.shape.dims[found] = 1;
    gp_shape_attributes attributes = attributes_of(kept);
    gp_value y = gp_apply(GP_OP_REDUCE_TO, &attributes, &x, 1);
    if (mean) y = gp_scale(y, 1.0 / (double)length);
    if (keep) return y;
    gp_shape shape = {.rank = type.shape.rank - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = type.shape.dims[i < found ? i : i + 1];
    return gp_reshape(y, shape);
}

gp_value gp_sum(gp_value x, int axis, bool keep) {
    return sum_along(x, axis, keep, false, "sum");
}

gp_value gp_mean(gp_value x, int axis, bool keep) {
    return sum_along(x, axis, keep, true, "mean");
}
