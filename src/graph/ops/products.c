/* Matrix products: linear (with its two gradients) and the batched product. */
#include <inttypes.h>

#include "graph/ops/ops_internal.h"

/* ---- linear: x[..., k], w f32[n, k], bias f32[n]? -> y[..., n] ---- */

static gp_status linear_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 3, 1));
    gp_type x = call->inputs[0], w = call->inputs[1];
    if (!gp_type_is_activation(x) || x.shape.rank < 1) return gp_op_refuse(call, "x must be f32 or bf16 [..., in]");
    if (w.dtype != GP_F32 || w.shape.rank != 2 || w.shape.dims[1] != gp_shape_last(x.shape))
        return gp_op_refuse(call, "weight must be f32[out,%" PRId64 "] for this x", gp_shape_last(x.shape));
    if (gp_op_present(call, 2) && !gp_type_is_vector(call->inputs[2], w.shape.dims[0]))
        return gp_op_refuse(call, "bias must be f32[%" PRId64 "] for this weight", w.shape.dims[0]);
    outputs[0] = x;
    outputs[0].shape.dims[x.shape.rank - 1] = w.shape.dims[0];
    return GP_OK;
}

static gp_status linear_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], x = g->inputs[0], w = g->inputs[1];
    if (g->wanted[0]) g->input_gradients[0] = gp_apply(GP_OP_LINEAR_INPUT_GRADIENT, NULL, (gp_value[]){dy, w}, 2);
    if (g->wanted[1]) g->input_gradients[1] = gp_apply(GP_OP_LINEAR_WEIGHT_GRADIENT, NULL, (gp_value[]){dy, x}, 2);
    if (g->input_count > 2 && g->wanted[2]) g->input_gradients[2] = gp_gradient_as(dy, gp_value_type(g->inputs[2]));
    return GP_OK;
}

static double linear_flops(const gp_op_call *call) {
    double y = gp_elements(call->outputs[0]);
    return 2.0 * y * (double)call->inputs[1].shape.dims[1] + (gp_op_present(call, 2) ? y : 0.0);
}

const gp_op_class gp_linear_class = {.size = sizeof(gp_op_class),
                                     .name = "linear",
                                     .infer = linear_infer,
                                     .gradient = linear_gradient,
                                     .flops = linear_flops};

gp_value gp_linear(gp_value x, gp_value weight, gp_value bias) {
    return gp_apply(GP_OP_LINEAR, NULL, (gp_value[]){x, weight, bias}, 3);
}

/* ---- dy[..., n], w f32[n, k] -> dx[..., k] ---- */

static gp_status linear_input_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type dy = call->inputs[0], w = call->inputs[1];
    if (!gp_type_is_activation(dy) || dy.shape.rank < 1) return gp_op_refuse(call, "dy must be f32 or bf16 [..., out]");
    if (w.dtype != GP_F32 || w.shape.rank != 2 || w.shape.dims[0] != gp_shape_last(dy.shape))
        return gp_op_refuse(call, "weight must be f32[%" PRId64 ",in] for this dy", gp_shape_last(dy.shape));
    outputs[0] = dy;
    outputs[0].shape.dims[dy.shape.rank - 1] = w.shape.dims[1];
    return GP_OK;
}

static double linear_input_gradient_flops(const gp_op_call *call) {
    return 2.0 * gp_elements(call->inputs[0]) * (double)call->inputs[1].shape.dims[1];
}

const gp_op_class gp_linear_input_gradient_class = {.size = sizeof(gp_op_class),
                                                    .name = "linear_input_gradient",
                                                    .infer = linear_input_gradient_infer,
                                                    .flops = linear_input_gradient_flops};

/* ---- dy[..., n], x[..., k] -> dw f32[n, k] ---- */

static gp_status linear_weight_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type dy = call->inputs[0], x = call->inputs[1];
    if (!gp_type_is_activation(dy) || dy.dtype != x.dtype || dy.shape.rank < 1 || x.shape.rank < 1 ||
        !gp_shape_equal(gp_shape_leading(dy.shape, 1), gp_shape_leading(x.shape, 1)))
        return gp_op_refuse(call, "dy and x must be f32 or bf16 alike and agree in all dimensions but the last");
    outputs[0] = (gp_type){GP_F32, {2, {gp_shape_last(dy.shape), gp_shape_last(x.shape)}}};
    return GP_OK;
}

static double linear_weight_gradient_flops(const gp_op_call *call) {
    return 2.0 * gp_elements(call->inputs[0]) * (double)gp_shape_last(call->inputs[1].shape);
}

const gp_op_class gp_linear_weight_gradient_class = {.size = sizeof(gp_op_class),
                                                     .name = "linear_weight_gradient",
                                                     .infer = linear_weight_gradient_infer,
                                                     .flops = linear_weight_gradient_flops};

/* ---- batched product ---- */

static gp_status matmul_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    const gp_matmul_options *options = call->attributes;
    gp_type a = call->inputs[0], b = call->inputs[1];
    if (!gp_type_is_activation(a) || a.dtype != b.dtype || a.shape.rank < 2 || b.shape.rank < 2)
        return gp_op_refuse(call, "both must have the same dtype, f32 or bf16, and rank 2 or more");
    const int64_t *dims_a = a.shape.dims + a.shape.rank - 2, *dims_b = b.shape.dims + b.shape.rank - 2;
    int64_t n = dims_a[options->transpose_a], k = dims_a[!options->transpose_a];
    int64_t k_b = dims_b[options->transpose_b], m = dims_b[!options->transpose_b];
    if (k != k_b)
        return gp_op_refuse(call, "the inner dimensions differ: %" PRId64 "%s and %" PRId64 "%s", k,
                            options->transpose_a ? " (a transposed)" : "", k_b,
                            options->transpose_b ? " (b transposed)" : "");
    gp_shape shape;
    if (!gp_shape_broadcast(gp_shape_leading(a.shape, 2), gp_shape_leading(b.shape, 2), &shape))
        return gp_op_refuse(call, "the leading dimensions must be equal or 1");
    shape.dims[shape.rank] = n;
    shape.dims[shape.rank + 1] = m;
    shape.rank += 2;
    outputs[0] = (gp_type){a.dtype, shape};
    return GP_OK;
}

static gp_value product(gp_value a, bool transpose_a, gp_value b, bool transpose_b) {
    return gp_matmul(a, b, &(gp_matmul_options){transpose_a, transpose_b});
}

/* With A and B the operands as they enter the product: dA = dC B^T and dB = A^T dC, both transposed back where the
 * operand was; transposing a product swaps its factors. */
static gp_status matmul_gradient(const gp_op_gradient *g) {
    const gp_matmul_options *options = g->attributes;
    bool ta = options->transpose_a, tb = options->transpose_b;
    gp_value a = g->inputs[0], b = g->inputs[1], dc = g->output_gradients[0];
    if (g->wanted[0]) {
        gp_value da = ta ? product(b, tb, dc, true) : product(dc, false, b, !tb);
        g->input_gradients[0] = gp_gradient_as(da, gp_value_type(a));
    }
    if (g->wanted[1]) {
        gp_value db = tb ? product(dc, true, a, ta) : product(a, !ta, dc, false);
        g->input_gradients[1] = gp_gradient_as(db, gp_value_type(b));
    }
    return GP_OK;
}

static double matmul_flops(const gp_op_call *call) {
    const gp_matmul_options *options = call->attributes;
    gp_shape a = call->inputs[0].shape;
    return 2.0 * gp_elements(call->outputs[0]) * (double)a.dims[a.rank - (options->transpose_a ? 2 : 1)];
}

const gp_op_class gp_matmul_class = {.size = sizeof(gp_op_class),
                                     .name = "matmul",
                                     .attributes_size = sizeof(gp_matmul_options),
                                     .infer = matmul_infer,
                                     .gradient = matmul_gradient,
                                     .flops = matmul_flops};

gp_value gp_matmul(gp_value a, gp_value b, const gp_matmul_options *options) {
    static const gp_matmul_options plain = {false, false};
    return gp_apply(GP_OP_MATMUL, options ? options : &plain, (gp_value[]){a, b}, 2);
}
