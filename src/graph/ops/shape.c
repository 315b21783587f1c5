/* Operations that move elements and compute nothing: reshape and alias (which move none either), transpose, slice,
 * concatenate. */
#include <inttypes.h>
#include <string.h>

#include "graph/ops/ops_internal.h"

/* ---- reshape ---- */

static gp_status reshape_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_shape_attributes *attributes = call->attributes;
    outputs[0] = (gp_type){call->inputs[0].dtype, attributes->shape};
    GP_TRY(gp_shape_check(attributes->shape));
    if (gp_shape_elements(attributes->shape) != gp_shape_elements(call->inputs[0].shape)) {
        char text[160];
        return gp_op_refuse(call, "the number of elements differs from that of %s",
                            gp_type_format(outputs[0], text, sizeof text));
    }
    return GP_OK;
}

static gp_status reshape_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_reshape(g->output_gradients[0], gp_value_type(g->inputs[0]).shape);
    return GP_OK;
}

const gp_op_class gp_reshape_class = {.size = sizeof(gp_op_class),
                                      .name = "reshape",
                                      .attributes_size = sizeof(gp_shape_attributes),
                                      .infer = reshape_infer,
                                      .gradient = reshape_gradient,
                                      .flops = gp_flops_none};

/* Replaces a dimension of -1 by what is left for it; leaves it where nothing fits, for the shape rule to refuse. */
static gp_shape resolve_shape(gp_shape shape, int64_t elements) {
    int open = -1;
    int64_t known = 1;
    for (int i = 0; i < shape.rank && i < GP_MAX_RANK; i++) {
        if (shape.dims[i] == -1 && open < 0) {
            open = i;
        } else if (shape.dims[i] <= 0 || known > elements / shape.dims[i]) {
            return shape;
        } else {
            known *= shape.dims[i];
        }
    }
    if (open >= 0 && elements % known == 0) shape.dims[open] = elements / known;
    return shape;
}

gp_value gp_reshape(gp_value x, gp_shape shape) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    gp_type type = gp_value_type(x);
    gp_shape_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.shape = resolve_shape(shape, gp_shape_elements(type.shape));
    attributes.dtype = type.dtype;
    if (gp_shape_check(attributes.shape) != GP_OK) {
        char from[160], to[160];
        return gp_graph_error(x.graph, "reshape: input %s cannot become %s", gp_type_format(type, from, sizeof from),
                              gp_type_format((gp_type){type.dtype, shape}, to, sizeof to));
    }
    if (gp_shape_equal(attributes.shape, type.shape)) return x;
    return gp_apply(GP_OP_RESHAPE, &attributes, &x, 1);
}

/* ---- alias ---- */

static gp_status alias_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status alias_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = g->output_gradients[0];
    return GP_OK;
}

const gp_op_class gp_alias_class = {.size = sizeof(gp_op_class),
                                    .name = "alias",
                                    .infer = alias_infer,
                                    .gradient = alias_gradient,
                                    .flops = gp_flops_none};

gp_value gp_graph_alias(gp_value value) {
    return gp_apply(GP_OP_ALIAS, NULL, &value, 1);
}

/* ---- transpose ---- */

static gp_status transpose_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_transpose_attributes *attributes = call->attributes;
    gp_type x = call->inputs[0];
    bool seen[GP_MAX_RANK] = {false};
    outputs[0] = x;
    for (int i = 0; i < x.shape.rank; i++) {
        int from = attributes->order[i];
        if (from < 0 || from >= x.shape.rank || seen[from])
            return gp_op_refuse(call, "entry %d of the order is %d: each of 0 to %d must be there once", i, from,
                                x.shape.rank - 1);
        seen[from] = true;
        outputs[0].shape.dims[i] = x.shape.dims[from];
    }
    return GP_OK;
}

static gp_status transpose_gradient(const gp_op_gradient *g) {
    const gp_transpose_attributes *attributes = g->attributes;
    int back[GP_MAX_RANK] = {0};
    for (int i = 0; i < gp_value_type(g->inputs[0]).shape.rank; i++)
        back[attributes->order[i]] = i;
    g->input_gradients[0] = gp_transpose(g->output_gradients[0], back);
    return GP_OK;
}

const gp_op_class gp_transpose_class = {.size = sizeof(gp_op_class),
                                        .name = "transpose",
                                        .attributes_size = sizeof(gp_transpose_attributes),
                                        .infer = transpose_infer,
                                        .gradient = transpose_gradient,
                                        .flops = gp_flops_none};

gp_value gp_transpose(gp_value x, const int *order) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    gp_transpose_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    bool moves = false;
    for (int i = 0; i < gp_value_type(x).shape.rank; i++) {
        attributes.order[i] = order[i];
        moves |= order[i] != i;
    }
    return moves ? gp_apply(GP_OP_TRANSPOSE, &attributes, &x, 1) : x;
}

/* ---- slice ---- */

static gp_status slice_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_slice_attributes *attributes = call->attributes;
    gp_type x = call->inputs[0];
    if (attributes->axis < 0 || attributes->axis >= x.shape.rank ||
        x.shape.dims[attributes->axis] != attributes->length)
        return gp_op_refuse(call, "axis %d of length %" PRId64 " does not exist", attributes->axis, attributes->length);
    if (attributes->begin < 0 || attributes->begin >= attributes->end || attributes->end > attributes->length)
        return gp_op_refuse(call, "%" PRId64 " to %" PRId64 " of axis %d: 0 <= begin < end <= %" PRId64 " is accepted",
                            attributes->begin, attributes->end, attributes->axis, attributes->length);
    outputs[0] = x;
    outputs[0].shape.dims[attributes->axis] = attributes->end - attributes->begin;
    return GP_OK;
}

static gp_status slice_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_apply(GP_OP_SLICE_GRADIENT, g->attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_slice_class = {.size = sizeof(gp_op_class),
                                    .name = "slice",
                                    .attributes_size = sizeof(gp_slice_attributes),
                                    .infer = slice_infer,
                                    .gradient = slice_gradient,
                                    .flops = gp_flops_none};

static gp_status slice_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_slice_attributes *attributes = call->attributes;
    gp_type dy = call->inputs[0];
    if (!gp_type_is_activation(dy) || attributes->axis < 0 || attributes->axis >= dy.shape.rank ||
        dy.shape.dims[attributes->axis] != attributes->end - attributes->begin)
        return gp_op_refuse(call, "dy must be f32 or bf16 with %" PRId64 " elements along axis %d",
                            attributes->end - attributes->begin, attributes->axis);
    outputs[0] = dy;
    outputs[0].shape.dims[attributes->axis] = attributes->length;
    return GP_OK;
}

const gp_op_class gp_slice_gradient_class = {.size = sizeof(gp_op_class),
                                             .name = "slice_gradient",
                                             .attributes_size = sizeof(gp_slice_attributes),
                                             .infer = slice_gradient_infer,
                                             .flops = gp_flops_none};

gp_value gp_slice(gp_value x, int axis, int64_t begin, int64_t end) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    int found = gp_axis_of(x, axis, "slice");
    if (found < 0) return gp_invalid_like(x);
    gp_slice_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.axis = found;
    attributes.begin = begin;
    attributes.end = end;
    attributes.length = gp_value_type(x).shape.dims[found];
    if (begin == 0 && end == attributes.length) return x;
    return gp_apply(GP_OP_SLICE, &attributes, &x, 1);
}

/* ---- concatenate ---- */

static gp_status concatenate_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, call->input_count ? call->input_count : 1, GP_MAX_OPERANDS, 1));
    const gp_concatenate_attributes *attributes = call->attributes;
    gp_type first = call->inputs[0];
    int axis = attributes->axis;
    if (axis < 0 || axis >= first.shape.rank) return gp_op_refuse(call, "axis %d does not exist", axis);
    outputs[0] = first;
    for (size_t i = 1; i < call->input_count; i++) {
        gp_type type = call->inputs[i];
        int64_t length = type.shape.rank == first.shape.rank ? type.shape.dims[axis] : 0;
        type.shape.dims[axis] = first.shape.dims[axis];
        if (!gp_type_equal(type, first))
            return gp_op_refuse(call, "all must agree in dtype and in all dimensions but %d", axis);
        if (length > INT64_MAX - outputs[0].shape.dims[axis]) return gp_op_refuse(call, "there are too many elements");
        outputs[0].shape.dims[axis] += length;
    }
    return GP_OK;
}

static gp_status concatenate_gradient(const gp_op_gradient *g) {
    const gp_concatenate_attributes *attributes = g->attributes;
    int64_t begin = 0;
    for (size_t i = 0; i < g->input_count; i++) {
        int64_t end = begin + gp_value_type(g->inputs[i]).shape.dims[attributes->axis];
        if (g->wanted[i] && end > begin)
            g->input_gradients[i] = gp_slice(g->output_gradients[0], attributes->axis, begin, end);
        begin = end;
    }
    return GP_OK;
}

const gp_op_class gp_concatenate_class = {.size = sizeof(gp_op_class),
                                          .name = "concatenate",
                                          .attributes_size = sizeof(gp_concatenate_attributes),
                                          .infer = concatenate_infer,
                                          .gradient = concatenate_gradient,
                                          .flops = gp_flops_none};

gp_value gp_concatenate(const gp_value *values, size_t count, int axis) {
    if (count == 0) return gp_none();
    for (size_t i = 0; i < count; i++) {
        if (!gp_value_valid(values[i]) && values[i].graph) return gp_invalid_like(values[i]);
    }
    if (count == 1 || !gp_value_valid(values[0])) return values[0];
    int found = gp_axis_of(values[0], axis, "concatenate");
    if (found < 0) return gp_invalid_like(values[0]);
    return gp_apply(GP_OP_CONCATENATE, &(gp_concatenate_attributes){found}, values, count);
}
