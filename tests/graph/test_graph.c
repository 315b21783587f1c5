/* The graph itself: values, the kept error, aliases, random uses, custom classes, the table of classes. */
#include "build.h"

static void test_values(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "bf16[4,8]"), w = parameter(g, "f32[3,8]");
    assert_type(x, "bf16[4,8]");
    assert_type(w, "f32[3,8]");
    assert_int_equal(g->values[x.index].kind, GP_VALUE_INPUT);
    assert_int_equal(g->values[w.index].kind, GP_VALUE_PARAMETER);
    assert_int_equal(g->values[x.index].node, -1);
    gp_graph_begin_layer(g, 7);
    gp_value y = gp_linear(x, w, gp_none());
    assert_int_equal(g->node_count, 1);
    assert_int_equal(g->values[y.index].kind, GP_VALUE_RESULT);
    assert_int_equal(g->values[y.index].node, 0);
    assert_int_equal(g->nodes[0].layer, 7);
    assert_false(g->nodes[0].backward);
    assert_int_equal(g->nodes[0].inputs[2], -1);
    assert_int_equal(g->nodes[0].id, GP_OP_LINEAR);
    assert_false(gp_value_valid(gp_none()));
    assert_false(gp_value_valid((gp_value){g, 99}));
    assert_int_equal(gp_value_type(gp_none()).shape.rank, 0);
    gp_graph_destroy(g);
    gp_graph_destroy(NULL);
}

static void test_invalid_shapes_given(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_type type = {GP_F32, {2, {3, -1}}};
    gp_value x = gp_graph_input(g, type);
    assert_false(gp_value_valid(x));
    assert_ptr_equal(x.graph, g);
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    gp_graph_destroy(g);
}

static void test_first_error_is_kept(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "f32[4,8]"), other = given(g, "f32[4,9]");
    gp_value bad = gp_add(x, other);
    assert_false(gp_value_valid(bad));
    assert_ptr_equal(bad.graph, g);
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    assert_string_equal(gp_error_message(), "add: inputs f32[4,8], f32[4,9]: dimensions, compared from the last, must "
                                            "be equal or 1");
    int32_t nodes = g->node_count;
    gp_value later[] = {gp_relu(bad),
                        gp_mul(x, bad),
                        gp_reshape(bad, gp_shape_of(1, (int64_t[]){-1})),
                        gp_slice(bad, 0, 0, 1),
                        gp_transpose(bad, (int[]){1, 0}),
                        gp_sum(bad, 0, true),
                        gp_dropout(bad, 0.5),
                        gp_attention(bad, &(gp_attention_options){.heads = 1}),
                        gp_concatenate((gp_value[]){x, bad}, 2, 0),
                        gp_graph_alias(bad),
                        gp_cast(bad, GP_BF16),
                        gp_bias(x, bad),
                        gp_squared_error(bad, x),
                        gp_linear(x, bad, gp_none())};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        assert_false(gp_value_valid(later[i]));
        assert_ptr_equal(later[i].graph, g);
    }
    gp_transpose(given(g, "f32[2,2]"), (int[]){1, 1}); /* another mistake, not reported */
    assert_int_equal(g->node_count, nodes);
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    assert_memory_equal(gp_error_message(), "add: inputs f32[4,8]", 20);
    gp_graph_destroy(g);
}

/* An absent bias is fine, one that an earlier error made invalid is not: the operation must not come out without it. */
static void test_absent_is_not_invalid(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "f32[4,8]"), w = parameter(g, "f32[8,8]");
    assert_true(gp_value_valid(gp_linear(x, w, gp_none())));
    gp_value bias = gp_graph_error(g, "the bias is broken");
    assert_false(gp_value_valid(gp_linear(x, w, bias)));
    gp_graph_status(g);
    assert_string_equal(gp_error_message(), "the bias is broken");
    gp_graph_destroy(g);
}

static void test_two_graphs_do_not_mix(void **state) {
    (void)state;
    gp_graph *g = new_graph(true), *h = new_graph(true);
    gp_value y = gp_add(given(g, "f32[4]"), given(h, "f32[4]"));
    assert_false(gp_value_valid(y));
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "another graph"));
    assert_int_equal(gp_graph_status(h), GP_OK);
    assert_false(gp_value_valid(gp_relu(gp_none())));
    assert_non_null(strstr(gp_error_message(), "no operand is a value of a graph"));
    gp_graph_destroy(g);
    gp_graph_destroy(h);
}

static void test_a_missing_operand_is_an_error(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    assert_false(gp_value_valid(gp_add(given(g, "f32[4]"), gp_none())));
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    assert_string_equal(gp_error_message(), "add: inputs f32[4], none: operand 1 is required");
    gp_graph_destroy(g);
}

static void test_alias(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "bf16[4,8]"), a = gp_graph_alias(x);
    assert_int_not_equal(a.index, x.index);
    assert_type(a, "bf16[4,8]");
    assert_int_equal(g->nodes[0].id, GP_OP_ALIAS);
    gp_graph_destroy(g);
}

static void test_uses_are_counted_per_layer(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "f32[4,6]"), qkv = given(g, "f32[2,4,24]");
    gp_graph_begin_layer(g, 3);
    gp_dropout(x, 0.1);
    gp_attention(qkv, &(gp_attention_options){.heads = 2, .dropout = 0.1});
    gp_dropout(x, 0.0); /* draws nothing */
    gp_attention(qkv, &(gp_attention_options){.heads = 2});
    gp_dropout(x, 0.1);
    gp_graph_begin_layer(g, 4);
    gp_dropout(x, 0.1);
    assert_int_equal(g->node_count, 5);
    assert_int_equal(((const gp_dropout_attributes *)g->nodes[0].attributes)->use, 3 * 256);
    assert_int_equal(((const gp_attention_attributes *)g->nodes[1].attributes)->use, 3 * 256 + 1);
    assert_int_equal(((const gp_dropout_attributes *)g->nodes[3].attributes)->use, 3 * 256 + 2);
    assert_int_equal(((const gp_dropout_attributes *)g->nodes[4].attributes)->use, 4 * 256);
    for (int i = 1; i < 256; i++)
        gp_graph_next_use(g);
    assert_int_equal(gp_graph_status(g), GP_OK);
    gp_graph_next_use(g); /* would be the first number of layer 5 */
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    gp_graph_destroy(g);
}

static void test_inference_drops_nothing(void **state) {
    (void)state;
    gp_graph *g = new_graph(false);
    gp_value x = given(g, "f32[4,6]"), y = gp_dropout(x, 0.5);
    assert_int_equal(y.index, x.index);
    gp_attention(given(g, "f32[2,4,24]"), &(gp_attention_options){.heads = 2, .dropout = 0.1});
    const gp_attention_attributes *attributes = g->nodes[0].attributes;
    assert_true(attributes->dropout == 0.0);
    assert_true(attributes->causal);
    assert_true(attributes->scale == 0.5);            /* 1/sqrt(8/2) */
    assert_false(gp_value_valid(gp_dropout(x, 1.0))); /* a wrong p is refused all the same */
    gp_graph_destroy(g);
}

/* ---- custom classes ---- */

typedef struct twice_attributes {
    int64_t times;
    bool wrong;
} twice_attributes;

static gp_status twice_infer(const gp_op_call *call, gp_type *outputs) {
    const twice_attributes *attributes = call->attributes;
    assert_null(call->outputs);
    if (call->inputs[0].shape.rank != 1) return gp_error(GP_INVALID, "x must be a vector");
    outputs[0] = call->inputs[0];
    outputs[0].shape.dims[0] *= attributes->times;
    if (attributes->wrong) outputs[0].shape.rank = 17;
    return GP_OK;
}

static gp_status twice_kernel(const gp_op_call *call, const gp_op_data *data) {
    (void)call;
    (void)data;
    return GP_OK;
}

static double twice_flops(const gp_op_call *call) {
    return 3.0 * (double)call->outputs[0].shape.dims[0];
}

static const gp_op_class twice = {.size = sizeof(gp_op_class),
                                  .name = "twice",
                                  .attributes_size = sizeof(twice_attributes),
                                  .infer = twice_infer,
                                  .kernel = twice_kernel,
                                  .flops = twice_flops};

static void test_custom_class(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "f32[5]"), y;
    twice_attributes attributes = {.times = 2};
    gp_op_apply(&twice, &attributes, &x, 1, &y, 1);
    attributes.times = 99; /* the graph has its own copy */
    assert_type(y, "f32[10]");
    assert_int_equal(g->nodes[0].id, GP_OP_CUSTOM);
    assert_int_equal(((const twice_attributes *)g->nodes[0].attributes)->times, 2);
    assert_true(gp_node_flops(g, 0) == 30.0);
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_op_call call = gp_node_call(g, 0, inputs, outputs);
    assert_int_equal(call.input_count, 1);
    assert_int_equal(call.outputs[0].shape.dims[0], 10);
    gp_graph_destroy(g);
}

/* Applies to a fresh graph and expects a refusal that says `message`. */
static void refuse_class(const gp_op_class *op, const void *attributes, const char *type, size_t inputs, size_t outputs,
                         const char *message) {
    gp_graph *g = new_graph(true);
    gp_value in[2 * GP_MAX_OPERANDS], out[2 * GP_MAX_OPERANDS];
    for (size_t i = 0; i < 2 * GP_MAX_OPERANDS; i++)
        in[i] = given(g, type);
    gp_op_apply(op, attributes, in, inputs, out, outputs);
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    if (!strstr(gp_error_message(), message)) print_message("%s\n", gp_error_message());
    assert_non_null(strstr(gp_error_message(), message));
    for (size_t i = 0; i < outputs; i++)
        assert_false(gp_value_valid(out[i]));
    assert_int_equal(g->node_count, 0);
    gp_graph_destroy(g);
}

static void test_wrong_classes_are_refused(void **state) {
    (void)state;
    twice_attributes good = {.times = 2}, bad = {.times = 2, .wrong = true};
    refuse_class(&twice, &good, "f32[5,5]", 1, 1, "twice: x must be a vector");
    refuse_class(&twice, &bad, "f32[5]", 1, 1, "twice: output 0: a shape has rank 17");
    refuse_class(&twice, NULL, "f32[5]", 1, 1, "attributes are missing");
    refuse_class(&twice, &good, "f32[5]", 9, 1, "9 inputs and 1 outputs");
    refuse_class(&twice, &good, "f32[5]", 1, 0, "1 inputs and 0 outputs");
    refuse_class(&twice, &good, "f32[5]", 1, 9, "1 inputs and 9 outputs");
    gp_op_class changed = twice;
    changed.kernel = NULL;
    refuse_class(&changed, &good, "f32[5]", 1, 1, "no kernel");
    changed = twice;
    changed.infer = NULL;
    refuse_class(&changed, &good, "f32[5]", 1, 1, "no infer");
    changed = twice;
    changed.size = 8;
    refuse_class(&changed, &good, "f32[5]", 1, 1, "size 8");
}

static void test_table(void **state) {
    (void)state;
    for (int id = 0; id < GP_OP_CUSTOM; id++) {
        const gp_op_class *op = gp_op_class_of((gp_op_id)id);
        assert_non_null(op);
        assert_int_equal(op->size, sizeof *op);
        assert_string_equal(op->name, gp_op_name((gp_op_id)id));
        assert_int_equal(gp_op_id_of(op), id);
        assert_non_null(op->infer);
        assert_null(op->kernel);
    }
    assert_null(gp_op_class_of(GP_OP_CUSTOM));
    assert_int_equal(gp_op_id_of(&twice), GP_OP_CUSTOM);
    assert_string_equal(gp_op_name(GP_OP_CUSTOM), "custom");
    assert_int_equal(gp_op_accumulates(GP_OP_LAYER_NORM_WEIGHT_GRADIENT), 3);
    assert_int_equal(gp_op_accumulates(GP_OP_REDUCE_TO), 1);
    assert_int_equal(gp_op_accumulates(GP_OP_LINEAR_INPUT_GRADIENT), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_invalid_shapes_given),
        cmocka_unit_test(test_first_error_is_kept),
        cmocka_unit_test(test_absent_is_not_invalid),
        cmocka_unit_test(test_two_graphs_do_not_mix),
        cmocka_unit_test(test_a_missing_operand_is_an_error),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_uses_are_counted_per_layer),
        cmocka_unit_test(test_inference_drops_nothing),
        cmocka_unit_test(test_custom_class),
        cmocka_unit_test(test_wrong_classes_are_refused),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
