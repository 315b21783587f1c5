/* Softmax over the last dimension, and multi-head attention in one operation (its scores are never kept: the gradient
 * finds them again from the logarithm of the sum of exponentials of each row). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/ops/ops_internal.h"

/* ---- softmax ---- */

static gp_status softmax_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    gp_type x = call->inputs[0];
    if (!gp_type_is_activation(x) || x.shape.rank < 1 || gp_shape_last(x.shape) < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [..., n]");
    outputs[0] = x;
    return GP_OK;
}

static gp_status softmax_gradient(const gp_op_gradient *g) {
    gp_value operands[] = {g->output_gradients[0], g->outputs[0]};
    g->input_gradients[0] = gp_apply(GP_OP_SOFTMAX_GRADIENT, NULL, operands, 2);
    return GP_OK;
}

static double softmax_flops(const gp_op_call *call) {
    return 13.0 * gp_elements(call->inputs[0]); /* the exponential counts ten */
}

const gp_op_class gp_softmax_class = {.size = sizeof(gp_op_class),
                                      .name = "softmax",
                                      .infer = softmax_infer,
                                      .gradient = softmax_gradient,
                                      .flops = softmax_flops};

static gp_status softmax_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type dy = call->inputs[0];
    if (!gp_type_is_activation(dy) || dy.shape.rank < 1 || !gp_type_equal(dy, call->inputs[1]))
        return gp_op_refuse(call, "dy and y must have the same type, f32 or bf16 [..., n]");
    outputs[0] = dy;
    return GP_OK;
}

static double softmax_gradient_flops(const gp_op_call *call) {
    return 4.0 * gp_elements(call->inputs[0]);
}

const gp_op_class gp_softmax_gradient_class = {.size = sizeof(gp_op_class),
                                               .name = "softmax_gradient",
                                               .infer = softmax_gradient_infer,
                                               .flops = softmax_gradient_flops};

gp_value gp_softmax(gp_value x) {
    return gp_apply(GP_OP_SOFTMAX, NULL, &x, 1);
}

/* ---- attention: qkv[b, t, 3c], mask i32[b, t]? -> y[b, t, c], lse f32[b, heads, t] ---- */

static gp_status check_mask(const gp_op_call *call, size_t input, gp_shape qkv) {
    const gp_attention_attributes *attributes = call->attributes;
    if (!gp_op_present(call, input)) return GP_OK;
    gp_type wanted = {GP_I32, gp_shape_leading(qkv, 1)};
    if (!gp_type_equal(call->inputs[input], wanted)) return gp_op_refuse(call, "the mask must be i32 [batch, time]");
    if (attributes->causal) return gp_op_refuse(call, "a mask is for full attention: a causal row could see nothing");
    return GP_OK;
}

static gp_status attention_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 2, 2));
    const gp_attention_attributes *attributes = call->attributes;
    gp_type qkv = call->inputs[0];
    if (!gp_type_is_activation(qkv) || qkv.shape.rank != 3 || gp_shape_last(qkv.shape) % 3 != 0)
        return gp_op_refuse(call, "qkv must be f32 or bf16 [batch, time, 3 * width]");
    int64_t width = gp_shape_last(qkv.shape) / 3;
    if (attributes->heads < 1 || width < 1 || width % attributes->heads != 0)
        return gp_op_refuse(call, "%" PRId64 " heads must divide the width %" PRId64, attributes->heads, width);
    if (!(attributes->dropout >= 0.0 && attributes->dropout < 1.0))
        return gp_op_refuse(call, "dropout is %g: 0 or more and less than 1 is accepted", attributes->dropout);
    if (!isfinite(attributes->scale) || attributes->scale <= 0.0)
        return gp_op_refuse(call, "scale is %g: it must be positive", attributes->scale);
    GP_TRY(check_mask(call, 1, qkv.shape));
    int64_t batch = qkv.shape.dims[0], time = qkv.shape.dims[1];
    outputs[0] = (gp_type){qkv.dtype, {3, {batch, time, width}}};
    outputs[1] = (gp_type){GP_F32, {3, {batch, attributes->heads, time}}};
    return GP_OK;
}

static gp_status attention_gradient(const gp_op_gradient *g) {
    if (!gp_value_valid(g->output_gradients[0]))
        return gp_error(GP_INVALID, "only the result has a gradient, not its statistics");
    gp_value mask = g->input_count > 1 ? g->inputs[1] : gp_none();
    gp_value operands[] = {g->output_gradients[0], g->inputs[0], g->outputs[0], g->outputs[1], mask};
    g->input_gradients[0] = gp_apply(GP_OP_ATTENTION_GRADIENT, g->attributes, operands, gp_value_valid(mask) ? 5 : 4);
    return GP_OK;
}

/* Two products forward, five backward; with a causal mask half of the scores count. */
static double attention_products(const gp_op_call *call, gp_shape qkv, double products) {
    const gp_attention_attributes *attributes = call->attributes;
    double batch = (double)qkv.dims[0], time = (double)qkv.dims[1], width = (double)qkv.dims[2] / 3.0;
    double pairs = attributes->causal ? time * (time + 1.0) / 2.0 : time * time;
    return products * 2.0 * batch * pairs * width;
}

static double attention_flops(const gp_op_call *call) {
    return attention_products(call, call->inputs[0].shape, 2.0);
}

static double attention_gradient_flops(const gp_op_call *call) {
    return attention_products(call, call->inputs[1].shape, 5.0);
}

const gp_op_class gp_attention_class = {.size = sizeof(gp_op_class),
                                        .name = "attention",
                                        .attributes_size = sizeof(gp_attention_attributes),
                                        .infer = attention_infer,
                                        .gradient = attention_gradient,
                                        .flops = attention_flops};

static gp_status attention_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 4, 5, 1));
    gp_type expected[2] = {{.dtype = GP_F32}, {.dtype = GP_F32}};
    gp_op_call forward = {call->attributes, call->inputs + 1, 1, NULL, 2};
    GP_TRY(attention_infer(&forward, expected));
    GP_TRY(check_mask(call, 4, call->inputs[1].shape));
    if (!gp_type_equal(call->inputs[0], expected[0]) || !gp_type_equal(call->inputs[2], expected[0]) ||
        !gp_type_equal(call->inputs[3], expected[1]))
        return gp_op_refuse(call, "dy, y and lse must have the types of the results of attention");
    outputs[0] = call->inputs[1];
    return GP_OK;
}

const gp_op_class gp_attention_gradient_class = {.size = sizeof(gp_op_class),
                                                 .name = "attention_gradient",
                                                 .attributes_size = sizeof(gp_attention_attributes),
                                                 .infer = attention_gradient_infer,
                                                 .flops = attention_gradient_flops};

gp_value gp_attention(gp_value qkv, const gp_attention_options *options) {
    return gp_attention_masked(qkv, gp_none(), options);
}

gp_value gp_attention_masked(gp_value qkv, gp_value mask, const gp_attention_options *options) {
    if (!gp_value_valid(qkv)) return gp_invalid_like(qkv);
    if (!options)
        return gp_graph_error(qkv.graph, "attention: the options are missing: the number of heads is required");
    gp_attention_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.heads = options->heads;
    attributes.causal = !options->full;
    attributes.dropout = options->dropout;
    attributes.scale = options->scale;
    if (attributes.scale == 0.0) { /* heads that do not fit are refused by the shape rule */
        int64_t width = gp_shape_last(gp_value_type(qkv).shape) / 3;
        int64_t head_width = options->heads > 0 && width >= options->heads ? width / options->heads : 1;
        attributes.scale = 1.0 / sqrt((double)head_width);
    }
    bool drops = attributes.dropout > 0.0 && attributes.dropout < 1.0;
    if (drops && !qkv.graph->training) attributes.dropout = 0.0;
    if (drops && qkv.graph->training) attributes.use = gp_graph_next_use(qkv.graph);
    return gp_apply(GP_OP_ATTENTION, &attributes, (gp_value[]){qkv, mask}, gp_value_valid(mask) ? 2 : 1);
}
