/* Losses: sums over the micro-batch as f32 scalars. */
#include "graph/ops/ops_internal.h"

static bool is_scalar(gp_type type) {
    return type.dtype == GP_F32 && type.shape.rank == 0;
}

/* ---- cross-entropy with softmax ---- */

/* logits, targets, weights? at inputs 0 to 2. */
static gp_status check_cross_entropy(const gp_op_call *call) {
    const gp_cross_entropy_options *options = call->attributes;
    gp_type logits = call->inputs[0], targets = call->inputs[1];
    if (!gp_type_is_activation(logits) || logits.shape.rank < 1 || gp_shape_last(logits.shape) < 1)
        return gp_op_refuse(call, "logits must be f32 or bf16 [..., classes]");
    if (targets.dtype != GP_I32 || !gp_shape_equal(targets.shape, gp_shape_leading(logits.shape, 1)))
        return gp_op_refuse(call, "targets must be i32 in the shape of the logits without the classes");
    if (gp_op_present(call, 2) &&
        (call->inputs[2].dtype != GP_F32 || !gp_shape_equal(call->inputs[2].shape, targets.shape)))
        return gp_op_refuse(call, "weights must be f32 in the shape of the targets");
    if (!(options->label_smoothing >= 0.0 && options->label_smoothing < 1.0))
        return gp_op_refuse(call, "label_smoothing is %g: 0 or more and less than 1 is accepted",
                            options->label_smoothing);
    return GP_OK;
}

static gp_status cross_entropy_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 3, 2));
    GP_TRY(check_cross_entropy(call));
    outputs[0] = (gp_type){.dtype = GP_F32};
    outputs[1] = gp_type_vector(gp_shape_rows(call->inputs[0].shape));
    return GP_OK;
}

static gp_status cross_entropy_gradient(const gp_op_gradient *g) {
    if (!gp_value_valid(g->output_gradients[0]))
        return gp_error(GP_INVALID, "only the loss has a gradient, not its statistics");
    if (g->input_count > 2 && g->wanted[2]) return gp_error(GP_INVALID, "there is no gradient of the weights");
    if (!g->wanted[0]) return GP_OK;
    gp_value weights = g->input_count > 2 ? g->inputs[2] : gp_none();
    gp_value operands[] = {g->inputs[0], g->inputs[1], weights, g->outputs[1], g->output_gradients[0]};
    g->input_gradients[0] = gp_apply(GP_OP_CROSS_ENTROPY_GRADIENT, g->attributes, operands, 5);
    return GP_OK;
}

/* Rough costs of a logit: an exponential counts ten. */
static double cross_entropy_flops(const gp_op_call *call) {
    return 12.0 * gp_elements(call->inputs[0]);
}

const gp_op_class gp_cross_entropy_class = {.size = sizeof(gp_op_class),
                                            .name = "cross_entropy",
                                            .attributes_size = sizeof(gp_cross_entropy_options),
                                            .infer = cross_entropy_infer,
                                            .gradient = cross_entropy_gradient,
                                            .flops = cross_entropy_flops};

static gp_status cross_entropy_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 5, 1));
    GP_TRY(check_cross_entropy(call));
    if (call->input_count != 5 || !gp_type_is_vector(call->inputs[3], gp_shape_rows(call->inputs[0].shape)) ||
        !is_scalar(call->inputs[4]))
        return gp_op_refuse(call, "lse must be f32[rows] and dloss an f32 scalar");
    outputs[0] = call->inputs[0];
    return GP_OK;
}

/* Over the logits: with a big vocabulary they are the largest value of a network. */
const gp_op_class gp_cross_entropy_gradient_class = {.size = sizeof(gp_op_class),
                                                     .name = "cross_entropy_gradient",
                                                     .attributes_size = sizeof(gp_cross_entropy_options),
                                                     .infer = cross_entropy_gradient_infer,
                                                     .flops = cross_entropy_flops,
                                                     .in_place = 1};

gp_value gp_cross_entropy(gp_value logits, gp_value targets, gp_value weights,
                          const gp_cross_entropy_options *options) {
    static const gp_cross_entropy_options defaults = {0};
    return gp_apply(GP_OP_CROSS_ENTROPY, options ? options : &defaults, (gp_value[]){logits, targets, weights}, 3);
}

/* ---- squared error ---- */

static gp_status check_squared_error(const gp_op_call *call) {
    gp_type x = call->inputs[0];
    if (!gp_type_is_activation(x) || x.shape.rank < 1 || !gp_type_equal(x, call->inputs[1]))
        return gp_op_refuse(call, "x and target must have the same type, f32 or bf16 [batch, ...]");
    return GP_OK;
}

static gp_status squared_error_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    GP_TRY(check_squared_error(call));
    outputs[0] = (gp_type){.dtype = GP_F32};
    return GP_OK;
}

static gp_status squared_error_gradient(const gp_op_gradient *g) {
    gp_value operands[] = {g->inputs[0], g->inputs[1], g->output_gradients[0]};
    gp_value dx = gp_apply(GP_OP_SQUARED_ERROR_GRADIENT, NULL, operands, 3);
    if (g->wanted[0]) g->input_gradients[0] = dx;
    if (g->wanted[1]) g->input_gradients[1] = gp_scale(dx, -1.0);
    return GP_OK;
}

static double squared_error_flops(const gp_op_call *call) {
    return 3.0 * gp_elements(call->inputs[0]);
}

const gp_op_class gp_squared_error_class = {.size = sizeof(gp_op_class),
                                            .name = "squared_error",
                                            .infer = squared_error_infer,
                                            .gradient = squared_error_gradient,
                                            .flops = squared_error_flops};

static gp_status squared_error_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 3, 3, 1));
    GP_TRY(check_squared_error(call));
    if (!is_scalar(call->inputs[2])) return gp_op_refuse(call, "dloss must be an f32 scalar");
    outputs[0] = call->inputs[0];
    return GP_OK;
}

const gp_op_class gp_squared_error_gradient_class = {.size = sizeof(gp_op_class),
                                                     .name = "squared_error_gradient",
                                                     .infer = squared_error_gradient_infer,
                                                     .flops = squared_error_flops,
                                                     .in_place = 3};

/* Targets come as f32 from a data set: a bf16 operand that meets an f32 one is converted, which loses nothing. */
gp_value gp_squared_error(gp_value x, gp_value target) {
    gp_type type_x = gp_value_type(x), type_target = gp_value_type(target);
    if (gp_value_valid(x) && gp_value_valid(target) && gp_shape_equal(type_x.shape, type_target.shape)) {
        if (type_x.dtype == GP_BF16 && type_target.dtype == GP_F32) x = gp_cast(x, GP_F32);
        if (type_x.dtype == GP_F32 && type_target.dtype == GP_BF16) target = gp_cast(target, GP_F32);
    }
    return gp_apply(GP_OP_SQUARED_ERROR, NULL, (gp_value[]){x, target}, 2);
}
