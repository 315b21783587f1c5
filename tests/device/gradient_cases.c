/* Graphs for the test of gradient rules; see gradient_cases.h. */
#include "gradient_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

static gp_value add_input(fixture *f, gp_value value, double low, double high) {
    assert_true(f->count < MOST);
    f->inputs[f->count] = value;
    f->low[f->count] = low;
    f->high[f->count++] = high;
    return value;
}

gp_value activation(fixture *f, gp_shape shape) {
    return add_input(f, gp_graph_input(f->graph, (gp_type){f->dtype, shape}), -1.5, 1.5);
}

gp_value parameter(fixture *f, gp_shape shape) {
    return add_input(f, gp_graph_parameter(f->graph, shape), -1.0, 1.0);
}

gp_value divisor(fixture *f, gp_shape shape) {
    return add_input(f, gp_graph_input(f->graph, (gp_type){f->dtype, shape}), 0.5, 2.0);
}

gp_value indices(fixture *f, gp_shape shape, int low, int limit) {
    gp_value value = add_input(f, gp_graph_input(f->graph, (gp_type){GP_I32, shape}), low, limit - 1e-6);
    f->constant[f->count - 1] = true;
    return value;
}

gp_value weights(fixture *f, gp_shape shape) {
    gp_value value = add_input(f, gp_graph_input(f->graph, (gp_type){GP_F32, shape}), 0.0, 2.0);
    f->constant[f->count - 1] = true;
    return value;
}

/* ---- cases: products ---- */

static gp_value linear(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 5)), w = parameter(f, SHAPE(4, 5)), b = parameter(f, SHAPE(4));
    return gp_linear(x, w, b);
}

static gp_value linear_without_bias(fixture *f) {
    gp_value x = activation(f, SHAPE(3, 2)), w = parameter(f, SHAPE(1, 2));
    return gp_linear(x, w, gp_none());
}

static gp_value matmul(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 3, 4)), b = activation(f, SHAPE(2, 4, 2));
    return gp_matmul(a, b, NULL);
}

static gp_value matmul_transposed_a(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 4, 3)), b = activation(f, SHAPE(2, 4, 2));
    return gp_matmul(a, b, &(gp_matmul_options){.transpose_a = true});
}

static gp_value matmul_transposed_b(fixture *f) {
    gp_value a = activation(f, SHAPE(3, 4)), b = activation(f, SHAPE(2, 4));
    return gp_matmul(a, b, &(gp_matmul_options){.transpose_b = true});
}

static gp_value matmul_transposed_both(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 4, 3)), b = activation(f, SHAPE(2, 2, 4));
    return gp_matmul(a, b, &(gp_matmul_options){true, true});
}

static gp_value matmul_broadcast(fixture *f) {
    gp_value a = activation(f, SHAPE(3, 1, 2, 3)), b = activation(f, SHAPE(2, 3, 2));
    return gp_matmul(a, b, NULL);
}

static gp_value matmul_itself(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 3, 3));
    return gp_matmul(a, a, &(gp_matmul_options){.transpose_b = true});
}

/* ---- element by element ---- */

static gp_value add(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 1, 3)), b = activation(f, SHAPE(4, 1));
    return gp_add(a, b);
}

static gp_value sub(fixture *f) {
    gp_value a = activation(f, SHAPE(3)), b = activation(f, SHAPE(2, 3));
    return gp_sub(a, b);
}

static gp_value mul(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 1, 3)), b = activation(f, SHAPE(2, 4, 1));
    return gp_mul(a, b);
}

static gp_value square(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 3));
    return gp_mul(a, a);
}

static gp_value quotient(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 3)), b = divisor(f, SHAPE(1, 3));
    return gp_div(a, b);
}

static gp_value quotient_of_one(fixture *f) {
    gp_value a = activation(f, SHAPE(1)), b = divisor(f, SHAPE(2, 3));
    return gp_div(a, b);
}

static gp_value with_parameter(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 3)), b = parameter(f, SHAPE(3)), c = parameter(f, SHAPE(2, 1));
    return gp_mul(gp_add(a, b), c);
}

static gp_value scale(fixture *f) {
    return gp_scale(activation(f, SHAPE(2, 3)), -2.5);
}

static gp_value bias(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 2, 3)), b = parameter(f, SHAPE(3));
    return gp_bias(x, b);
}

static gp_value cast(fixture *f) {
    return gp_cast(gp_cast(activation(f, SHAPE(2, 3)), GP_BF16), GP_F32);
}

static gp_value relu(fixture *f) {
    return gp_relu(activation(f, SHAPE(3, 4)));
}

static gp_value gelu_tanh(fixture *f) {
    return gp_gelu_tanh(activation(f, SHAPE(3, 4)));
}

static gp_value gelu_erf(fixture *f) {
    return gp_gelu_erf(activation(f, SHAPE(3, 4)));
}

static gp_value silu(fixture *f) {
    return gp_silu(activation(f, SHAPE(3, 4)));
}

static gp_value sigmoid(fixture *f) {
    return gp_sigmoid(activation(f, SHAPE(3, 4)));
}

static gp_value hyperbolic_tangent(fixture *f) {
    return gp_tanh(activation(f, SHAPE(3, 4)));
}

/* ---- norms, softmax, attention, embedding, dropout ---- */

static gp_value layer_norm(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 5)), w = parameter(f, SHAPE(5)), b = parameter(f, SHAPE(5));
    return gp_layer_norm(x, w, b, 1e-3);
}

static gp_value layer_norm_without_bias(fixture *f) {
    gp_value x = activation(f, SHAPE(3, 4)), w = parameter(f, SHAPE(4));
    return gp_layer_norm(x, w, gp_none(), 1e-5);
}

static gp_value rms_norm(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 5)), w = parameter(f, SHAPE(5));
    return gp_rms_norm(x, w, 1e-3);
}

static gp_value softmax(fixture *f) {
    return gp_softmax(activation(f, SHAPE(3, 5)));
}

static gp_value attention_causal(fixture *f) {
    return gp_attention(activation(f, SHAPE(2, 3, 12)), &(gp_attention_options){.heads = 2});
}

static gp_value attention_full(fixture *f) {
    return gp_attention(activation(f, SHAPE(1, 4, 6)), &(gp_attention_options){.heads = 1, .full = true, .scale = 0.3});
}

static gp_value attention_masked(fixture *f) {
    gp_value qkv = activation(f, SHAPE(2, 4, 12)), token = indices(f, SHAPE(2, 1), 1, 2);
    gp_value parts[] = {token, indices(f, SHAPE(2, 2), 0, 2), indices(f, SHAPE(2, 1), 0, 1)};
    return gp_attention_masked(qkv, gp_concatenate(parts, 3, 1), &(gp_attention_options){.heads = 2, .full = true});
}

static gp_value attention_dropout(fixture *f) {
    return gp_attention(activation(f, SHAPE(2, 4, 12)), &(gp_attention_options){.heads = 2, .dropout = 0.4});
}

static gp_value embedding(fixture *f) {
    gp_value table = parameter(f, SHAPE(3, 2)), which = indices(f, SHAPE(2, 4), 0, 3); /* some rows more than once */
    return gp_embedding(table, which, f->dtype);
}

static gp_value dropout(fixture *f) {
    return gp_dropout(activation(f, SHAPE(3, 7)), 0.4);
}

/* ---- shapes ---- */

static gp_value reshape(fixture *f) {
    return gp_reshape(activation(f, SHAPE(2, 6)), SHAPE(3, -1));
}

static gp_value alias(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3));
    return gp_mul(gp_graph_alias(x), gp_tanh(gp_graph_alias(x)));
}

static gp_value transpose(fixture *f) {
    return gp_transpose(activation(f, SHAPE(2, 3, 4)), (int[]){1, 2, 0});
}

static gp_value slice(fixture *f) {
    return gp_slice(activation(f, SHAPE(2, 5, 3)), 1, 1, 4);
}

static gp_value slice_last(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 5));
    return gp_mul(gp_slice(x, -1, 0, 3), gp_slice(x, -1, 2, 5)); /* overlapping slices of one value */
}

static gp_value concatenate(fixture *f) {
    gp_value a = activation(f, SHAPE(2, 1, 3)), b = activation(f, SHAPE(2, 2, 3));
    return gp_concatenate((gp_value[]){a, b, a}, 3, 1);
}

static gp_value sum(fixture *f) {
    return gp_sum(activation(f, SHAPE(2, 3, 2)), 1, false);
}

static gp_value sum_kept(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3));
    return gp_div(gp_sigmoid(x), gp_sum(gp_sigmoid(x), -1, true));
}

static gp_value mean(fixture *f) {
    return gp_mean(activation(f, SHAPE(4, 3)), 0, true);
}

static gp_value broadcast_to(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 1)), y;
    gp_shape_attributes attributes = {SHAPE(3, 2, 2), f->dtype};
    gp_op_apply(gp_op_class_of(GP_OP_BROADCAST_TO), &attributes, &x, 1, &y, 1);
    return y;
}

/* ---- losses ---- */

static gp_value cross_entropy(fixture *f) {
    gp_value logits = activation(f, SHAPE(3, 4)), targets = indices(f, SHAPE(3), 0, 4);
    return gp_cross_entropy(logits, targets, gp_none(), NULL);
}

static gp_value cross_entropy_all(fixture *f) {
    gp_value logits = activation(f, SHAPE(2, 4, 3)), targets = indices(f, SHAPE(2, 4), -1, 3);
    gp_cross_entropy_options options = {.label_smoothing = 0.2, .has_ignored = true, .ignored = -1};
    return gp_cross_entropy(logits, targets, weights(f, SHAPE(2, 4)), &options);
}

static gp_value squared_error(fixture *f) {
    gp_value x = activation(f, SHAPE(3, 2, 2)), target = activation(f, SHAPE(3, 2, 2));
    return gp_squared_error(x, target);
}

/* ---- a user's operation: y = a sin(b), with a rule made of built-in operations and of another one of the user's ----
 */

static gp_status wave_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status wave(const gp_op_call *call, const gp_op_data *data, double (*function)(double)) {
    const double *a = data->inputs[0], *b = data->inputs[1];
    double *y = data->outputs[0];
    assert_int_equal(call->inputs[0].dtype, GP_F64);
    for (int64_t i = 0; i < gp_shape_elements(call->outputs[0].shape); i++) {
        y[i] = a[i] * function(b[i]);
    }
    return GP_OK;
}

static gp_status sine_reference(const gp_op_call *call, const gp_op_data *data) {
    return wave(call, data, sin);
}

static gp_status cosine_reference(const gp_op_call *call, const gp_op_data *data) {
    return wave(call, data, cos);
}

static gp_status no_kernel(const gp_op_call *call, const gp_op_data *data) {
    (void)call;
    (void)data;
    return gp_error(GP_FAILED, "the reference device must use the double-precision form");
}

static const gp_op_class cosine_class = {.size = sizeof(gp_op_class),
                                         .name = "scaled_cosine",
                                         .infer = wave_infer,
                                         .kernel = no_kernel,
                                         .reference = cosine_reference};

static gp_status sine_gradient(const gp_op_gradient *g);

static const gp_op_class sine_class = {.size = sizeof(gp_op_class),
                                       .name = "scaled_sine",
                                       .infer = wave_infer,
                                       .gradient = sine_gradient,
                                       .kernel = no_kernel,
                                       .reference = sine_reference};

static gp_status sine_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0];
    if (g->wanted[0]) gp_op_apply(&sine_class, NULL, (gp_value[]){dy, g->inputs[1]}, 2, &g->input_gradients[0], 1);
    if (g->wanted[1]) {
        gp_value product = gp_mul(dy, g->inputs[0]);
        gp_op_apply(&cosine_class, NULL, (gp_value[]){product, g->inputs[1]}, 2, &g->input_gradients[1], 1);
    }
    return GP_OK;
}

static gp_value custom(fixture *f) {
    gp_value operands[] = {activation(f, SHAPE(2, 3)), activation(f, SHAPE(2, 3))}, y;
    gp_op_apply(&sine_class, NULL, operands, 2, &y, 1);
    return gp_tanh(y);
}

/* ---- all together: a small transformer block, whose values are used several times ---- */

static gp_value block(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 4)), w = parameter(f, SHAPE(4)), wide = parameter(f, SHAPE(12, 4));
    gp_value narrow = parameter(f, SHAPE(4, 4));
    gp_value h = gp_attention(gp_linear(gp_layer_norm(x, w, gp_none(), 1e-5), wide, gp_none()),
                              &(gp_attention_options){.heads = 2, .dropout = 0.2});
    h = gp_add(x, gp_dropout(gp_linear(h, narrow, gp_none()), 0.2));
    return gp_add(h, gp_linear(gp_gelu_tanh(gp_linear(gp_rms_norm(h, w, 1e-5), narrow, w)), narrow, w));
}

const gradient_case gradient_cases[] = {
#define CASE(name)                                                                                                     \
    { #name, name }
    CASE(linear),
    CASE(linear_without_bias),
    CASE(matmul),
    CASE(matmul_transposed_a),
    CASE(matmul_transposed_b),
    CASE(matmul_transposed_both),
    CASE(matmul_broadcast),
    CASE(matmul_itself),
    CASE(add),
    CASE(sub),
    CASE(mul),
    CASE(square),
    CASE(quotient),
    CASE(quotient_of_one),
    CASE(with_parameter),
    CASE(scale),
    CASE(bias),
    CASE(cast),
    CASE(relu),
    CASE(gelu_tanh),
    CASE(gelu_erf),
    CASE(silu),
    CASE(sigmoid),
    CASE(hyperbolic_tangent),
    CASE(layer_norm),
    CASE(layer_norm_without_bias),
    CASE(rms_norm),
    CASE(softmax),
    CASE(attention_causal),
    CASE(attention_full),
    CASE(attention_masked),
    CASE(attention_dropout),
    CASE(embedding),
    CASE(dropout),
    CASE(reshape),
    CASE(alias),
    CASE(transpose),
    CASE(slice),
    CASE(slice_last),
    CASE(concatenate),
    CASE(sum),
    CASE(sum_kept),
    CASE(mean),
    CASE(broadcast_to),
    CASE(cross_entropy),
    CASE(cross_entropy_all),
    CASE(squared_error),
    CASE(custom),
    CASE(block),
#undef CASE
};

const size_t gradient_case_count = sizeof gradient_cases / sizeof *gradient_cases;
