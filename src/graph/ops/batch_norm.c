/* Batch norm, the form of training (statistics of these rows, which are results too) and that of evaluation (statistics
 * are given). In training the gradients of weight and bias are also the sums that the gradient of x needs, so they are
 * one operation, read twice. The rectifier may be part of it: its gradient finds the sign again from x. */
#include <inttypes.h>
#include <string.h>

#include "graph/ops/ops_internal.h"

/* Costs of an element, roughly. */
static double forward_flops(const gp_op_call *call) {
    return 8.0 * gp_elements(call->inputs[0]);
}

static double inference_flops(const gp_op_call *call) {
    return 2.0 * gp_elements(call->inputs[0]);
}

static double sums_flops(const gp_op_call *call) {
    return 5.0 * gp_elements(call->inputs[0]);
}

static double gradient_flops(const gp_op_call *call) {
    return 6.0 * gp_elements(call->inputs[0]);
}

/* x[..., c] at `x`, and vectors f32[c] from there to the last operand. */
static gp_status check_operands(const gp_op_call *call, size_t x) {
    const gp_batch_norm_attributes *attributes = call->attributes;
    gp_type type = call->inputs[x];
    if (!gp_type_is_activation(type) || type.shape.rank < 2 || gp_shape_elements(type.shape) < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, ..., channels] and not empty");
    for (size_t i = x + 1; i < call->input_count; i++) {
        if (!gp_type_is_vector(call->inputs[i], gp_shape_last(type.shape)))
            return gp_op_refuse(call, "weight, bias and statistics must be f32[%" PRId64 "] for this x",
                                gp_shape_last(type.shape));
    }
    if (attributes->epsilon >= 0.0) return GP_OK;
    return gp_op_refuse(call, "epsilon is %g: it must be 0 or more", attributes->epsilon);
}

/* dy of the type of x, then what check_operands checks. */
static gp_status check_gradient(const gp_op_call *call) {
    GP_TRY(check_operands(call, 1));
    if (gp_type_equal(call->inputs[0], call->inputs[1])) return GP_OK;
    return gp_op_refuse(call, "dy and x must have the same type");
}

static gp_batch_norm_attributes resolve(const gp_batch_norm_options *options) {
    gp_batch_norm_attributes attributes;
    memset(&attributes, 0, sizeof attributes); /* the padding too: attributes are compared as bytes */
    attributes.epsilon = options ? options->epsilon : 0.0;
    attributes.relu = options && options->relu;
    return attributes;
}

/* The gradients of weight and bias, of both forms: the node's statistics are `mean` and `variance`. */
static void weight_gradients(const gp_op_gradient *g, gp_value mean, gp_value variance, gp_value *sums) {
    gp_value operands[] = {g->output_gradients[0], g->inputs[0], g->inputs[1], g->inputs[2], mean, variance};
    gp_op_apply(&gp_batch_norm_weight_gradient_class, g->attributes, operands, 6, sums, 2);
    if (g->wanted[1]) g->input_gradients[1] = sums[0];
    if (g->wanted[2]) g->input_gradients[2] = sums[1];
}

/* ---- training ---- */

static gp_status batch_norm_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 3, 3, 3));
    GP_TRY(check_operands(call, 0));
    outputs[0] = call->inputs[0];
    outputs[1] = outputs[2] = gp_type_vector(gp_shape_last(call->inputs[0].shape));
    return GP_OK;
}

static gp_status batch_norm_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], mean = g->outputs[1], variance = g->outputs[2], sums[2];
    if (!gp_value_valid(dy) || gp_value_valid(g->output_gradients[1]) || gp_value_valid(g->output_gradients[2]))
        return gp_error(GP_INVALID, "only the result has a gradient, not its statistics");
    weight_gradients(g, mean, variance, sums);
    if (g->wanted[0]) {
        gp_value operands[] = {dy, g->inputs[0], g->inputs[1], g->inputs[2], mean, variance, sums[0], sums[1]};
        g->input_gradients[0] = gp_apply(GP_OP_BATCH_NORM_GRADIENT, g->attributes, operands, 8);
    }
    return GP_OK;
}

const gp_op_class gp_batch_norm_class = {.size = sizeof(gp_op_class),
                                         .name = "batch_norm",
                                         .attributes_size = sizeof(gp_batch_norm_attributes),
                                         .infer = batch_norm_infer,
                                         .gradient = batch_norm_gradient,
                                         .flops = forward_flops,
                                         .in_place = 1}; /* all statistics are there before y is written */

gp_value gp_batch_norm(gp_value x, gp_value weight, gp_value bias, const gp_batch_norm_options *options, gp_value *mean,
                       gp_value *variance) {
    gp_batch_norm_attributes attributes = resolve(options);
    gp_value outputs[3];
    gp_op_apply(&gp_batch_norm_class, &attributes, (gp_value[]){x, weight, bias}, 3, outputs, 3);
    if (mean) *mean = outputs[1];
    if (variance) *variance = outputs[2];
    return outputs[0];
}

static gp_status weight_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 6, 6, 2));
    GP_TRY(check_gradient(call));
    outputs[0] = outputs[1] = gp_type_vector(gp_shape_last(call->inputs[1].shape));
    return GP_OK;
}

const gp_op_class gp_batch_norm_weight_gradient_class = {.size = sizeof(gp_op_class),
                                                         .name = "batch_norm_weight_gradient",
                                                         .attributes_size = sizeof(gp_batch_norm_attributes),
                                                         .infer = weight_gradient_infer,
                                                         .flops = sums_flops};

static gp_status input_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 8, 8, 1));
    GP_TRY(check_gradient(call));
    outputs[0] = call->inputs[1];
    return GP_OK;
}

const gp_op_class gp_batch_norm_gradient_class = {.size = sizeof(gp_op_class),
                                                  .name = "batch_norm_gradient",
                                                  .attributes_size = sizeof(gp_batch_norm_attributes),
                                                  .infer = input_gradient_infer,
                                                  .flops = gradient_flops,
                                                  .in_place = 3};

/* ---- evaluation ---- */

static gp_status inference_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 5, 5, 1));
    GP_TRY(check_operands(call, 0));
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status inference_gradient(const gp_op_gradient *g) {
    gp_value mean = g->inputs[3], variance = g->inputs[4], sums[2];
    if (g->wanted[3] || g->wanted[4]) return gp_error(GP_INVALID, "given statistics have no gradient");
    if (g->wanted[1] || g->wanted[2]) weight_gradients(g, mean, variance, sums);
    if (g->wanted[0]) {
        gp_value operands[] = {g->output_gradients[0], g->inputs[0], g->inputs[1], g->inputs[2], mean, variance};
        g->input_gradients[0] = gp_apply(GP_OP_BATCH_NORM_INFERENCE_GRADIENT, g->attributes, operands, 6);
    }
    return GP_OK;
}

const gp_op_class gp_batch_norm_inference_class = {.size = sizeof(gp_op_class),
                                                   .name = "batch_norm_inference",
                                                   .attributes_size = sizeof(gp_batch_norm_attributes),
                                                   .infer = inference_infer,
                                                   .gradient = inference_gradient,
                                                   .flops = inference_flops,
                                                   .in_place = 1};

gp_value gp_batch_norm_inference(gp_value x, gp_value weight, gp_value bias, gp_value mean, gp_value variance,
                                 const gp_batch_norm_options *options) {
    gp_batch_norm_attributes attributes = resolve(options);
    gp_value operands[] = {x, weight, bias, mean, variance};
    return gp_apply(GP_OP_BATCH_NORM_INFERENCE, &attributes, operands, 5);
}

static gp_status inference_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 6, 6, 1));
    GP_TRY(check_gradient(call));
    outputs[0] = call->inputs[1];
    return GP_OK;
}

const gp_op_class gp_batch_norm_inference_gradient_class = {.size = sizeof(gp_op_class),
                                                            .name = "batch_norm_inference_gradient",
                                                            .attributes_size = sizeof(gp_batch_norm_attributes),
                                                            .infer = inference_gradient_infer,
                                                            .flops = inference_flops,
                                                            .in_place = 3};
