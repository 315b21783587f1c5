/* Layer norm and RMS norm over the last dimension. The statistics of the rows are outputs of the forward operation, so
 * that the gradients need not find them again; the gradient of the weights is an operation of its own, so that it can
 * wait (it belongs to W where B and W are split). */
#include <inttypes.h>

#include "graph/ops/ops_internal.h"

/* x[..., n] with n > 0 and w f32[n] at the places given. */
static gp_status check_rows(const gp_op_call *call, size_t x, size_t w) {
    gp_type type = call->inputs[x];
    if (!gp_type_is_activation(type) || type.shape.rank < 1 || gp_shape_last(type.shape) < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [..., n]");
    if (!gp_type_is_vector(call->inputs[w], gp_shape_last(type.shape)))
        return gp_op_refuse(call, "weight must be f32[%" PRId64 "] for this x", gp_shape_last(type.shape));
    return GP_OK;
}

/* That inputs 0 and 1 are dy and x of one type, and that the statistics from input `first` on are f32[rows]. */
static gp_status check_gradient(const gp_op_call *call, size_t first) {
    gp_type x = call->inputs[1];
    if (!gp_type_is_activation(x) || x.shape.rank < 1 || !gp_type_equal(call->inputs[0], x))
        return gp_op_refuse(call, "dy and x must have the same type, f32 or bf16 [..., n]");
    for (size_t i = first; i < call->input_count; i++) {
        if (!gp_type_is_vector(call->inputs[i], gp_shape_rows(x.shape)))
            return gp_op_refuse(call, "statistics must be f32[%" PRId64 "]", gp_shape_rows(x.shape));
    }
    return GP_OK;
}

/* Rough costs of an element. */
static double norm_flops(const gp_op_call *call) {
    return 8.0 * gp_elements(call->inputs[0]);
}

static double norm_gradient_flops(const gp_op_call *call) {
    return 12.0 * gp_elements(call->inputs[0]);
}

static double norm_weight_gradient_flops(const gp_op_call *call) {
    return 5.0 * gp_elements(call->inputs[0]);
}

static gp_status check_epsilon(const gp_op_call *call) {
    const gp_norm_attributes *attributes = call->attributes;
    if (attributes->epsilon >= 0.0) return GP_OK;
    return gp_op_refuse(call, "epsilon is %g: it must be 0 or more", attributes->epsilon);
}

/* ---- layer norm ---- */

static gp_status layer_norm_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 3, 3));
    GP_TRY(check_rows(call, 0, 1));
    gp_type x = call->inputs[0];
    if (gp_op_present(call, 2) && !gp_type_is_vector(call->inputs[2], gp_shape_last(x.shape)))
        return gp_op_refuse(call, "bias must be f32[%" PRId64 "] for this x", gp_shape_last(x.shape));
    GP_TRY(check_epsilon(call));
    outputs[0] = x;
    outputs[1] = outputs[2] = gp_type_vector(gp_shape_rows(x.shape));
    return GP_OK;
}

static gp_status layer_norm_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], x = g->inputs[0], w = g->inputs[1], mean = g->outputs[1],
             rstd = g->outputs[2];
    if (!gp_value_valid(dy)) return gp_error(GP_INVALID, "only the result has a gradient, not its statistics");
    if (g->wanted[0]) {
        gp_value operands[] = {dy, x, w, mean, rstd};
        g->input_gradients[0] = gp_apply(GP_OP_LAYER_NORM_GRADIENT, NULL, operands, 5);
    }
    if (g->wanted[1] || (g->input_count > 2 && g->wanted[2])) {
        gp_value operands[] = {dy, x, mean, rstd}, gradients[2];
        gp_op_apply(&gp_layer_norm_weight_gradient_class, NULL, operands, 4, gradients, 2);
        if (g->wanted[1]) g->input_gradients[1] = gradients[0];
        if (g->input_count > 2 && g->wanted[2]) g->input_gradients[2] = gradients[1];
    }
    return GP_OK;
}

const gp_op_class gp_layer_norm_class = {.size = sizeof(gp_op_class),
                                         .name = "layer_norm",
                                         .attributes_size = sizeof(gp_norm_attributes),
                                         .infer = layer_norm_infer,
                                         .gradient = layer_norm_gradient,
                                         .flops = norm_flops};

static gp_status layer_norm_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 5, 5, 1));
    GP_TRY(check_gradient(call, 3));
    GP_TRY(check_rows(call, 1, 2));
    outputs[0] = call->inputs[1];
    return GP_OK;
}

const gp_op_class gp_layer_norm_gradient_class = {.size = sizeof(gp_op_class),
                                                  .name = "layer_norm_gradient",
                                                  .infer = layer_norm_gradient_infer,
                                                  .flops = norm_gradient_flops};

static gp_status layer_norm_weight_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 4, 4, 2));
    GP_TRY(check_gradient(call, 2));
    outputs[0] = outputs[1] = gp_type_vector(gp_shape_last(call->inputs[1].shape));
    return GP_OK;
}

const gp_op_class gp_layer_norm_weight_gradient_class = {.size = sizeof(gp_op_class),
                                                         .name = "layer_norm_weight_gradient",
                                                         .infer = layer_norm_weight_gradient_infer,
                                                         .flops = norm_weight_gradient_flops};

gp_value gp_layer_norm(gp_value x, gp_value weight, gp_value bias, double epsilon) {
    return gp_apply(GP_OP_LAYER_NORM, &(gp_norm_attributes){epsilon}, (gp_value[]){x, weight, bias}, 3);
}

/* ---- RMS norm ---- */

static gp_status rms_norm_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 2));
    GP_TRY(check_rows(call, 0, 1));
    GP_TRY(check_epsilon(call));
    outputs[0] = call->inputs[0];
    outputs[1] = gp_type_vector(gp_shape_rows(call->inputs[0].shape));
    return GP_OK;
}

static gp_status rms_norm_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], x = g->inputs[0], w = g->inputs[1], rstd = g->outputs[1];
    if (!gp_value_valid(dy)) return gp_error(GP_INVALID, "only the result has a gradient, not its statistics");
    if (g->wanted[0]) {
        gp_value operands[] = {dy, x, w, rstd};
        g->input_gradients[0] = gp_apply(GP_OP_RMS_NORM_GRADIENT, NULL, operands, 4);
    }
    if (g->wanted[1])
        g->input_gradients[1] = gp_apply(GP_OP_RMS_NORM_WEIGHT_GRADIENT, NULL, (gp_value[]){dy, x, rstd}, 3);
    return GP_OK;
}

const gp_op_class gp_rms_norm_class = {.size = sizeof(gp_op_class),
                                       .name = "rms_norm",
                                       .attributes_size = sizeof(gp_norm_attributes),
                                       .infer = rms_norm_infer,
                                       .gradient = rms_norm_gradient,
                                       .flops = norm_flops};

static gp_status rms_norm_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 4, 4, 1));
    GP_TRY(check_gradient(call, 3));
    GP_TRY(check_rows(call, 1, 2));
    outputs[0] = call->inputs[1];
    return GP_OK;
}

const gp_op_class gp_rms_norm_gradient_class = {.size = sizeof(gp_op_class),
                                                .name = "rms_norm_gradient",
                                                .infer = rms_norm_gradient_infer,
                                                .flops = norm_gradient_flops};

static gp_status rms_norm_weight_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 3, 3, 1));
    GP_TRY(check_gradient(call, 2));
    outputs[0] = gp_type_vector(gp_shape_last(call->inputs[1].shape));
    return GP_OK;
}

const gp_op_class gp_rms_norm_weight_gradient_class = {.size = sizeof(gp_op_class),
                                                       .name = "rms_norm_weight_gradient",
                                                       .infer = rms_norm_weight_gradient_infer,
                                                       .flops = norm_weight_gradient_flops};

gp_value gp_rms_norm(gp_value x, gp_value weight, double epsilon) {
    return gp_apply(GP_OP_RMS_NORM, &(gp_norm_attributes){epsilon}, (gp_value[]){x, weight}, 2);
}
