/* The structure of gradients: which operations a rule writes, the types of gradients, the order of sums, and which
 * layers the backward operations belong to. (The numbers are checked with a device, in tests/device.) */
#include "build.h"

static int begin(void **state) {
    *state = new_graph(true);
    return 0;
}

static int end(void **state) {
    gp_graph_destroy(*state);
    return 0;
}

/* Differentiates y with respect to the values and expects these backward operations, in this order, and that every
 * gradient has the type of its value. */
static void assert_rule(gp_value y, const gp_value *wanted, size_t count, const char *operations) {
    gp_graph *g = y.graph;
    assert_true(gp_value_valid(y));
    gp_value dy = gp_graph_input(g, gp_value_type(y)), gradients[GP_MAX_OPERANDS];
    int32_t before = g->node_count;
    gp_status status = gp_graph_gradients(g, &y, &dy, 1, wanted, gradients, count);
    if (status != GP_OK) print_message("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    char names[1000];
    int32_t added[100];
    size_t added_count = 0;
    for (int32_t n = before; n < g->node_count; n++)
        added[added_count++] = n;
    node_names(g, added, added_count, names, sizeof names);
    assert_string_equal(names, operations);
    for (size_t i = 0; i < count; i++) {
        assert_true(gp_value_valid(gradients[i]));
        assert_true(gp_type_equal(gp_value_type(gradients[i]), gp_value_type(wanted[i])));
    }
    for (int32_t n = before; n < g->node_count; n++)
        assert_true(g->nodes[n].backward);
}

static void test_linear(void **state) {
    gp_graph *g = *state;
    gp_value v[] = {given(g, "bf16[2,3,8]"), parameter(g, "f32[5,8]"), parameter(g, "f32[5]")};
    assert_rule(gp_linear(v[0], v[1], v[2]), v, 3, "linear_input_gradient linear_weight_gradient reduce_to");
    assert_rule(gp_linear(v[0], v[1], gp_none()), v + 1, 1, "linear_weight_gradient");
    assert_rule(gp_linear(v[0], v[1], v[2]), v, 1, "linear_input_gradient");
}

/* All dimensions differ, so that a wrong flag or order cannot have the right shape. */
static void test_matmul(void **state) {
    gp_graph *g = *state;
    for (int flags = 0; flags < 4; flags++) {
        gp_matmul_options options = {flags & 1, flags & 2};
        gp_value v[] = {given(g, flags & 1 ? "f32[7,4,3]" : "f32[7,3,4]"),
                        given(g, flags & 2 ? "f32[7,6,4]" : "f32[7,4,6]")};
        assert_rule(gp_matmul(v[0], v[1], &options), v, 2, "matmul matmul");
        gp_value small[] = {given(g, flags & 1 ? "bf16[1,2,4,3]" : "bf16[1,2,3,4]"),
                            given(g, flags & 2 ? "bf16[5,1,6,4]" : "bf16[5,1,4,6]")};
        assert_rule(gp_matmul(small[0], small[1], &options), small, 2, "matmul reduce_to matmul reduce_to");
    }
}

static void test_elementwise(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[4,3]"), w = parameter(g, "f32[3]"), same = parameter(g, "f32[4,3]");
    assert_rule(gp_add(x, w), (gp_value[]){x, w}, 2, "reduce_to");
    assert_rule(gp_add(x, same), (gp_value[]){x, same}, 2, "cast");
    assert_rule(gp_bias(x, w), (gp_value[]){w}, 1, "reduce_to");
    assert_rule(gp_sub(x, w), (gp_value[]){x, w}, 2, "reduce_to scale");
    assert_rule(gp_sub(w, x), (gp_value[]){x, w}, 2, "reduce_to scale");
    assert_rule(gp_mul(x, w), (gp_value[]){x, w}, 2, "mul mul reduce_to");
    assert_rule(gp_mul(x, x), (gp_value[]){x}, 1, "mul mul add");
    assert_rule(gp_div(x, w), (gp_value[]){x, w}, 2, "div div mul reduce_to scale");
    assert_rule(gp_scale(x, 3.0), &x, 1, "scale");
    assert_rule(gp_cast(x, GP_F32), &x, 1, "cast");
    assert_rule(gp_relu(x), &x, 1, "activation_gradient");
    assert_rule(gp_dropout(x, 0.5), &x, 1, "dropout");
}

/* Sigmoid and tanh look at their result, the others at their operand. */
static void test_activation_operands(void **state) {
    gp_graph *g = *state;
    gp_value (*const operations[])(gp_value) = {gp_relu, gp_gelu_tanh, gp_gelu_erf, gp_silu, gp_sigmoid, gp_tanh};
    for (size_t i = 0; i < 6; i++) {
        gp_value x = given(g, "f32[4,3]"), y = operations[i](x);
        assert_rule(y, &x, 1, "activation_gradient");
        const gp_node *node = &g->nodes[g->node_count - 1];
        assert_int_equal(((const gp_activation_attributes *)node->attributes)->kind, (int)i);
        assert_int_equal(node->inputs[1], i < 4 ? x.index : y.index);
    }
}

/* The mask of the backward pass is the mask of the forward pass. */
static void test_dropout_keeps_its_use(void **state) {
    gp_graph *g = *state;
    gp_graph_begin_layer(g, 2);
    gp_value x = given(g, "f32[4,3]"), y = gp_dropout(gp_dropout(x, 0.5), 0.25);
    assert_rule(y, &x, 1, "dropout dropout");
    assert_memory_equal(g->nodes[0].attributes, g->nodes[3].attributes, sizeof(gp_dropout_attributes));
    assert_memory_equal(g->nodes[1].attributes, g->nodes[2].attributes, sizeof(gp_dropout_attributes));
    assert_int_equal(g->next_use, 2);
}

static void test_norms_and_attention(void **state) {
    gp_graph *g = *state;
    gp_value v[] = {given(g, "bf16[2,3,8]"), parameter(g, "f32[8]"), parameter(g, "f32[8]")};
    assert_rule(gp_layer_norm(v[0], v[1], v[2], 1e-5), v, 3, "layer_norm_gradient layer_norm_weight_gradient");
    assert_rule(gp_layer_norm(v[0], v[1], gp_none(), 1e-5), v, 2, "layer_norm_gradient layer_norm_weight_gradient");
    assert_rule(gp_layer_norm(v[0], v[1], v[2], 1e-5), v + 2, 1, "layer_norm_weight_gradient");
    assert_rule(gp_layer_norm(v[0], v[1], v[2], 1e-5), v, 1, "layer_norm_gradient");
    assert_rule(gp_rms_norm(v[0], v[1], 1e-5), v, 2, "rms_norm_gradient rms_norm_weight_gradient");
    assert_rule(gp_softmax(v[0]), v, 1, "softmax_gradient");
    gp_value qkv = given(g, "bf16[2,5,36]");
    gp_attention_options options = {.heads = 3, .dropout = 0.1};
    assert_rule(gp_attention(qkv, &options), &qkv, 1, "attention_gradient");
    const gp_node *forward = &g->nodes[g->node_count - 2], *backward = &g->nodes[g->node_count - 1];
    assert_memory_equal(forward->attributes, backward->attributes, sizeof(gp_attention_attributes));
    gp_value table = parameter(g, "f32[50,8]");
    assert_rule(gp_embedding(table, given(g, "i32[2,3]"), GP_BF16), &table, 1, "embedding_gradient");
}

static void test_shape_operations(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,3,4]"), z = given(g, "bf16[2,5,4]");
    assert_rule(gp_reshape(x, gp_shape_of(1, (int64_t[]){24})), &x, 1, "reshape");
    assert_rule(gp_graph_alias(x), &x, 1, "");
    assert_rule(gp_transpose(x, (int[]){2, 0, 1}), &x, 1, "transpose");
    assert_rule(gp_slice(x, 1, 1, 3), &x, 1, "slice_gradient");
    assert_rule(gp_concatenate((gp_value[]){x, z, x}, 3, 1), (gp_value[]){x, z}, 2, "slice slice slice add");
    assert_rule(gp_sum(x, 1, true), &x, 1, "broadcast_to");
    assert_rule(gp_sum(x, 1, false), &x, 1, "reshape broadcast_to");
    assert_rule(gp_mean(x, 1, false), &x, 1, "reshape scale broadcast_to");
}

static void test_losses(void **state) {
    gp_graph *g = *state;
    gp_value logits = given(g, "bf16[2,10]"), targets = given(g, "i32[2]"), weights = given(g, "f32[2]");
    assert_rule(gp_cross_entropy(logits, targets, weights, NULL), &logits, 1, "cross_entropy_gradient");
    assert_rule(gp_cross_entropy(logits, targets, gp_none(), NULL), &logits, 1, "cross_entropy_gradient");
    assert_int_equal(g->nodes[g->node_count - 1].inputs[2], -1);
    gp_value x = given(g, "bf16[4,3]"), target = given(g, "f32[4,3]");
    assert_rule(gp_squared_error(x, target), &x, 1, "squared_error_gradient cast");
    assert_rule(gp_squared_error(x, target), &target, 1, "squared_error_gradient scale");
    gp_value loss = gp_cross_entropy(logits, targets, weights, NULL), one = given(g, "f32[]"), none;
    assert_int_equal(gp_graph_gradients(g, &loss, &one, 1, &weights, &none, 1), GP_INVALID);
    assert_string_equal(gp_error_message(), "gradient of cross_entropy: there is no gradient of the weights");
}

/* Contributions of later nodes come first: ((third + second) + first), each sum in the layer of the node that it comes
 * from. */
static void test_order_of_sums(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4]"), ys[3], dys[3], dx;
    for (int i = 0; i < 3; i++) {
        gp_graph_begin_layer(g, i);
        ys[i] = gp_scale(x, 1.0 + i);
        dys[i] = given(g, "f32[4]");
    }
    gp_graph_begin_layer(g, 50);
    assert_int_equal(gp_graph_gradients(g, ys, dys, 3, &x, &dx, 1), GP_OK);
    assert_int_equal(g->layer, 50);
    assert_false(g->backward);
    char names[200];
    node_names(g, NULL, (size_t)g->node_count, names, sizeof names);
    assert_string_equal(names, "scale scale scale scale scale add scale add");
    static const int layers[] = {0, 1, 2, 2, 1, 1, 0, 0};
    for (int n = 0; n < 8; n++)
        assert_int_equal(g->nodes[n].layer, layers[n]);
    const gp_node *first = &g->nodes[5], *second = &g->nodes[7];
    assert_int_equal(first->inputs[0], g->nodes[3].outputs[0]);
    assert_int_equal(first->inputs[1], g->nodes[4].outputs[0]);
    assert_int_equal(second->inputs[0], first->outputs[0]);
    assert_int_equal(second->inputs[1], g->nodes[6].outputs[0]);
    assert_int_equal(dx.index, second->outputs[0]);
}

/* What the cut of a network does: the later part's gradient arrives as the gradient of an output, and the sum is the
 * same. */
static void test_an_output_that_is_also_used(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4]"), h = gp_relu(x), y = gp_scale(h, 2.0), dx;
    gp_value outputs[] = {h, y}, dys[] = {given(g, "f32[4]"), given(g, "f32[4]")};
    assert_int_equal(gp_graph_gradients(g, outputs, dys, 2, &x, &dx, 1), GP_OK);
    char names[200];
    node_names(g, NULL, (size_t)g->node_count, names, sizeof names);
    assert_string_equal(names, "activation scale scale add activation_gradient");
    assert_int_equal(g->nodes[3].inputs[0], dys[0].index);
}

/* A parameter that a bf16 network uses twice has an f32 gradient, and no sum on the way is made in bf16. */
static void test_parameter_gradients_are_f32(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[4,3]"), w = parameter(g, "f32[4,3]"), dw;
    gp_value y = gp_mul(gp_add(x, w), w), dy = given(g, "bf16[4,3]");
    assert_int_equal(gp_graph_gradients(g, &y, &dy, 1, &w, &dw, 1), GP_OK);
    assert_type(dw, "f32[4,3]");
    const gp_node *sum = &g->nodes[g->values[dw.index].node];
    assert_int_equal(sum->id, GP_OP_ADD);
    assert_int_equal(g->values[sum->inputs[0]].type.dtype, GP_F32);
    assert_int_equal(g->values[sum->inputs[1]].type.dtype, GP_F32);
}

static void test_only_where_gradients_flow(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4,3]"), w = parameter(g, "f32[3,3]"), unused = parameter(g, "f32[3]");
    gp_value frozen = gp_linear(x, parameter(g, "f32[3,3]"), gp_none());
    gp_value y = gp_linear(gp_relu(frozen), w, gp_none());
    gp_relu(y); /* not on the way to an output */
    gp_value wanted[] = {w, unused, gp_none(), y}, gradients[4], dy = given(g, "f32[4,3]");
    int32_t before = g->node_count;
    assert_int_equal(gp_graph_gradients(g, &y, &dy, 1, wanted, gradients, 4), GP_OK);
    assert_int_equal(g->node_count, before + 1); /* the weight's alone */
    assert_true(gp_value_valid(gradients[0]));
    assert_false(gp_value_valid(gradients[1]));
    assert_false(gp_value_valid(gradients[2]));
    assert_int_equal(gradients[3].index, dy.index);
}

static void test_errors(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4,3]"), y = gp_softmax(x), dy = given(g, "f32[4,3]"), dx, wrong = given(g, "f32[3]");
    assert_int_equal(gp_graph_gradients(g, &y, &wrong, 1, &x, &dx, 1), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "f32[3]"));
    assert_int_equal(gp_graph_gradients(g, &y, &dy, 1, &x, &dx, 1), GP_OK);
    gp_value none, ddx = given(g, "f32[4,3]"); /* a gradient of a gradient */
    assert_int_equal(gp_graph_gradients(g, &dx, &ddx, 1, &dy, &none, 1), GP_INVALID);
    assert_string_equal(gp_error_message(), "gradient of softmax_gradient: the operation has no gradient rule");
    gp_graph_error(g, "something else");
    assert_int_equal(gp_graph_gradients(g, &y, &dy, 1, &x, &dx, 1), GP_INVALID);
    assert_string_equal(gp_error_message(), "something else");
}

/* ---- a user's rule ---- */

static gp_status pair_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = outputs[1] = call->inputs[0];
    return GP_OK;
}

static gp_status pair_kernel(const gp_op_call *call, const gp_op_data *data) {
    (void)call;
    (void)data;
    return GP_OK;
}

/* Input 1 has the gradient of whichever outputs have one; input 0 gets a wrong shape; input 2 is absent. */
static gp_status pair_gradient(const gp_op_gradient *g) {
    assert_int_equal(g->input_count, 3);
    assert_false(g->wanted[2]);
    assert_false(gp_value_valid(g->inputs[2]));
    if (g->wanted[0]) g->input_gradients[0] = gp_sum(g->output_gradients[0], 0, true);
    assert_false(gp_value_valid(g->output_gradients[1]));
    if (g->wanted[1]) g->input_gradients[1] = gp_scale(g->output_gradients[0], 2.0);
    return GP_OK;
}

static void test_custom_rule(void **state) {
    gp_graph *g = *state;
    gp_op_class pair = {.size = sizeof(gp_op_class),
                        .name = "pair",
                        .infer = pair_infer,
                        .gradient = pair_gradient,
                        .kernel = pair_kernel};
    gp_value inputs[] = {given(g, "f32[4]"), given(g, "f32[4]"), gp_none()}, outputs[2], gradient;
    gp_op_apply(&pair, NULL, inputs, 3, outputs, 2);
    gp_value dy = given(g, "f32[4]");
    assert_int_equal(gp_graph_gradients(g, outputs, &dy, 1, &inputs[1], &gradient, 1), GP_OK);
    assert_type(gradient, "f32[4]");
    assert_int_equal(gp_graph_gradients(g, outputs, &dy, 1, &inputs[0], &gradient, 1), GP_INVALID);
    assert_string_equal(gp_error_message(),
                        "gradient of pair: the gradient of a value f32[4] is f32[1]: the shapes must be equal");
    pair.gradient = NULL;
    assert_int_equal(gp_graph_gradients(g, outputs, &dy, 1, &inputs[1], &gradient, 1), GP_INVALID);
    assert_string_equal(gp_error_message(), "gradient of pair: the operation has no gradient rule");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_linear, begin, end),
        cmocka_unit_test_setup_teardown(test_matmul, begin, end),
        cmocka_unit_test_setup_teardown(test_elementwise, begin, end),
        cmocka_unit_test_setup_teardown(test_activation_operands, begin, end),
        cmocka_unit_test_setup_teardown(test_dropout_keeps_its_use, begin, end),
        cmocka_unit_test_setup_teardown(test_norms_and_attention, begin, end),
        cmocka_unit_test_setup_teardown(test_shape_operations, begin, end),
        cmocka_unit_test_setup_teardown(test_losses, begin, end),
        cmocka_unit_test_setup_teardown(test_order_of_sums, begin, end),
        cmocka_unit_test_setup_teardown(test_an_output_that_is_also_used, begin, end),
        cmocka_unit_test_setup_teardown(test_parameter_gradients_are_f32, begin, end),
        cmocka_unit_test_setup_teardown(test_only_where_gradients_flow, begin, end),
        cmocka_unit_test_setup_teardown(test_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_custom_rule, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
