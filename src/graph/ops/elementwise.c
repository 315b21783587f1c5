/* Element by element: the four arithmetic operations with broadcasting, scale, conversion, and the addition into memory
 * that programs insert. */
#include <inttypes.h>

#include "graph/ops/ops_internal.h"

/* ---- add, sub, mul, div ---- */

/* An f32 operand, a parameter as a rule, may meet a bf16 one. */
static gp_status arithmetic_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type a = call->inputs[0], b = call->inputs[1];
    if (!gp_type_is_activation(a) || !gp_type_is_activation(b)) return gp_op_refuse(call, "both must be f32 or bf16");
    if (!gp_shape_broadcast(a.shape, b.shape, &outputs[0].shape))
        return gp_op_refuse(call, "dimensions, compared from the last, must be equal or 1");
    outputs[0].dtype = a.dtype == GP_BF16 ? GP_BF16 : b.dtype;
    return GP_OK;
}

static void set_gradient(const gp_op_gradient *g, size_t input, gp_value gradient) {
    g->input_gradients[input] = gp_gradient_as(gradient, gp_value_type(g->inputs[input]));
}

static gp_status add_gradient(const gp_op_gradient *g) {
    for (size_t i = 0; i < 2; i++) {
        if (g->wanted[i]) set_gradient(g, i, g->output_gradients[0]);
    }
    return GP_OK;
}

static gp_status sub_gradient(const gp_op_gradient *g) {
    if (g->wanted[0]) set_gradient(g, 0, g->output_gradients[0]);
    if (g->wanted[1]) { /* the sign after the sum: fewer elements */
        set_gradient(g, 1, g->output_gradients[0]);
        g->input_gradients[1] = gp_scale(g->input_gradients[1], -1.0);
    }
    return GP_OK;
}

static gp_status mul_gradient(const gp_op_gradient *g) {
    for (size_t i = 0; i < 2; i++) {
        if (g->wanted[i]) set_gradient(g, i, gp_mul(g->output_gradients[0], g->inputs[1 - i]));
    }
    return GP_OK;
}

static gp_status div_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], b = g->inputs[1];
    if (g->wanted[0]) set_gradient(g, 0, gp_div(dy, b));
    if (g->wanted[1]) { /* d(a/b)/db = -(a/b)/b */
        set_gradient(g, 1, gp_mul(dy, gp_div(g->outputs[0], b)));
        g->input_gradients[1] = gp_scale(g->input_gradients[1], -1.0);
    }
    return GP_OK;
}

const gp_op_class gp_add_class = {
    .size = sizeof(gp_op_class), .name = "add", .infer = arithmetic_infer, .gradient = add_gradient, .in_place = 3};
const gp_op_class gp_sub_class = {
    .size = sizeof(gp_op_class), .name = "sub", .infer = arithmetic_infer, .gradient = sub_gradient, .in_place = 3};
const gp_op_class gp_mul_class = {
    .size = sizeof(gp_op_class), .name = "mul", .infer = arithmetic_infer, .gradient = mul_gradient, .in_place = 3};
const gp_op_class gp_div_class = {
    .size = sizeof(gp_op_class), .name = "div", .infer = arithmetic_infer, .gradient = div_gradient, .in_place = 3};

gp_value gp_add(gp_value a, gp_value b) {
    return gp_apply(GP_OP_ADD, NULL, (gp_value[]){a, b}, 2);
}

gp_value gp_sub(gp_value a, gp_value b) {
    return gp_apply(GP_OP_SUB, NULL, (gp_value[]){a, b}, 2);
}

gp_value gp_mul(gp_value a, gp_value b) {
    return gp_apply(GP_OP_MUL, NULL, (gp_value[]){a, b}, 2);
}

gp_value gp_div(gp_value a, gp_value b) {
    return gp_apply(GP_OP_DIV, NULL, (gp_value[]){a, b}, 2);
}

gp_value gp_bias(gp_value x, gp_value bias) {
    if (gp_value_valid(x) && gp_value_valid(bias)) {
        gp_type type_x = gp_value_type(x), type_b = gp_value_type(bias);
        if (type_x.shape.rank < 1 || type_b.shape.rank != 1 || type_b.shape.dims[0] != gp_shape_last(type_x.shape)) {
            char text_x[160], text_b[160];
            return gp_graph_error(x.graph, "bias: inputs %s, %s: bias must be [%" PRId64 "] for this x",
                                  gp_type_format(type_x, text_x, sizeof text_x),
                                  gp_type_format(type_b, text_b, sizeof text_b), gp_shape_last(type_x.shape));
        }
    }
    return gp_add(x, bias);
}

/* ---- scale ---- */

static gp_status scale_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    if (!gp_type_is_activation(call->inputs[0])) return gp_op_refuse(call, "x must be f32 or bf16");
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status scale_gradient(const gp_op_gradient *g) {
    const gp_scale_attributes *attributes = g->attributes;
    g->input_gradients[0] = gp_scale(g->output_gradients[0], attributes->factor);
    return GP_OK;
}

const gp_op_class gp_scale_class = {.size = sizeof(gp_op_class),
                                    .name = "scale",
                                    .attributes_size = sizeof(gp_scale_attributes),
                                    .infer = scale_infer,
                                    .gradient = scale_gradient,
                                    .in_place = 1};

gp_value gp_scale(gp_value x, double factor) {
    return gp_apply(GP_OP_SCALE, &(gp_scale_attributes){factor}, &x, 1);
}

/* ---- cast ---- */

static gp_status cast_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_cast_attributes *attributes = call->attributes;
    outputs[0] = (gp_type){attributes->dtype, call->inputs[0].shape};
    if (!gp_type_is_activation(call->inputs[0]) || !gp_type_is_activation(outputs[0]))
        return gp_op_refuse(call, "conversion to %s: x and result must be f32 or bf16",
                            gp_dtype_name(attributes->dtype));
    return GP_OK;
}

static gp_status cast_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_cast(g->output_gradients[0], gp_value_type(g->inputs[0]).dtype);
    return GP_OK;
}

const gp_op_class gp_cast_class = {.size = sizeof(gp_op_class),
                                   .name = "cast",
                                   .attributes_size = sizeof(gp_cast_attributes),
                                   .infer = cast_infer,
                                   .gradient = cast_gradient};

gp_value gp_cast(gp_value x, gp_dtype dtype) {
    if (gp_value_valid(x) && gp_value_type(x).dtype == dtype) return x;
    return gp_apply(GP_OP_CAST, &(gp_cast_attributes){dtype}, &x, 1);
}

/* ---- accumulate: only programs make it, after the graph is complete ---- */

static gp_status accumulate_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    if (!gp_type_is_activation(call->inputs[0])) return gp_op_refuse(call, "x must be f32 or bf16");
    outputs[0] = (gp_type){GP_F32, call->inputs[0].shape};
    return GP_OK;
}

const gp_op_class gp_accumulate_class = {.size = sizeof(gp_op_class), .name = "accumulate", .infer = accumulate_infer};
