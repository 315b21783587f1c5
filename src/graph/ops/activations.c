/* Activation functions: one operation with a kind, and its gradient. */
#include "graph/ops/ops_internal.h"

static gp_status activation_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    if (!gp_type_is_activation(call->inputs[0])) return gp_op_refuse(call, "x must be f32 or bf16");
    outputs[0] = call->inputs[0];
    return GP_OK;
}

/* The derivative of sigmoid and tanh is a function of y, which the next operation often keeps anyhow. */
static gp_status activation_gradient(const gp_op_gradient *g) {
    const gp_activation_attributes *attributes = g->attributes;
    bool of_result = attributes->kind == GP_SIGMOID || attributes->kind == GP_TANH;
    gp_value operands[] = {g->output_gradients[0], of_result ? g->outputs[0] : g->inputs[0]};
    g->input_gradients[0] = gp_apply(GP_OP_ACTIVATION_GRADIENT, attributes, operands, 2);
    return GP_OK;
}

/* Rough costs of an element: an exponential counts ten. */
static double element_flops(const void *attributes) {
    switch (((const gp_activation_attributes *)attributes)->kind) {
    case GP_RELU:
        return 1.0;
    case GP_GELU_TANH:
    case GP_GELU_ERF:
        return 20.0;
    case GP_SILU:
    case GP_SIGMOID:
    case GP_TANH:
        break;
    }
    return 12.0;
}

static double activation_flops(const gp_op_call *call) {
    return gp_elements(call->outputs[0]) * element_flops(call->attributes);
}

const gp_op_class gp_activation_class = {.size = sizeof(gp_op_class),
                                         .name = "activation",
                                         .attributes_size = sizeof(gp_activation_attributes),
                                         .infer = activation_infer,
                                         .gradient = activation_gradient,
                                         .flops = activation_flops,
                                         .in_place = 1};

static gp_status activation_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    if (!gp_type_is_activation(call->inputs[0]) || !gp_type_equal(call->inputs[0], call->inputs[1]))
        return gp_op_refuse(call, "both must have the same type, f32 or bf16");
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static double activation_gradient_flops(const gp_op_call *call) {
    return gp_elements(call->outputs[0]) * (element_flops(call->attributes) + 4.0);
}

const gp_op_class gp_activation_gradient_class = {.size = sizeof(gp_op_class),
                                                  .name = "activation_gradient",
                                                  .attributes_size = sizeof(gp_activation_attributes),
                                                  .infer = activation_gradient_infer,
                                                  .flops = activation_gradient_flops,
                                                  .in_place = 3};

static gp_value activation(gp_value x, gp_activation_kind kind) {
    return gp_apply(GP_OP_ACTIVATION, &(gp_activation_attributes){kind}, &x, 1);
}

gp_value gp_relu(gp_value x) {
    return activation(x, GP_RELU);
}

gp_value gp_gelu_tanh(gp_value x) {
    return activation(x, GP_GELU_TANH);
}

gp_value gp_gelu_erf(gp_value x) {
    return activation(x, GP_GELU_ERF);
}

gp_value gp_silu(gp_value x) {
    return activation(x, GP_SILU);
}

gp_value gp_sigmoid(gp_value x) {
    return activation(x, GP_SIGMOID);
}

gp_value gp_tanh(gp_value x) {
    return activation(x, GP_TANH);
}
