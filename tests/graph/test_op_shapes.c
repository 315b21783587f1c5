/* The types that every operation gives to its results, and their FLOPs. */
#include "build.h"

static int begin(void **state) {
    *state = new_graph(true);
    return 0;
}

static int end(void **state) {
    gp_graph_destroy(*state);
    return 0;
}

static void test_linear(void **state) {
    gp_graph *g = *state;
    gp_value w = parameter(g, "f32[5,8]"), b = parameter(g, "f32[5]");
    gp_value y = gp_linear(given(g, "bf16[2,3,8]"), w, b);
    assert_type(y, "bf16[2,3,5]");
    assert_true(flops_of(y) == 2.0 * 6 * 5 * 8 + 6 * 5);
    assert_type(gp_linear(given(g, "f32[8]"), w, gp_none()), "f32[5]");
    assert_type(gp_linear(given(g, "f32[1,1,1,1,1,8]"), w, gp_none()), "f32[1,1,1,1,1,5]");
    assert_type(gp_linear(given(g, "f32[0,8]"), w, b), "f32[0,5]");
}

static void test_matmul(void **state) {
    gp_graph *g = *state;
    gp_value y = gp_matmul(given(g, "f32[2,1,3,4]"), given(g, "f32[5,4,6]"), NULL);
    assert_type(y, "f32[2,5,3,6]");
    assert_true(flops_of(y) == 2.0 * 2 * 5 * 3 * 6 * 4);
    for (int flags = 0; flags < 4; flags++) {
        gp_matmul_options options = {flags & 1, flags & 2};
        gp_value a = given(g, flags & 1 ? "bf16[7,4,3]" : "bf16[7,3,4]");
        gp_value b = given(g, flags & 2 ? "bf16[7,6,4]" : "bf16[7,4,6]");
        y = gp_matmul(a, b, &options);
        assert_type(y, "bf16[7,3,6]");
        assert_true(flops_of(y) == 2.0 * 7 * 3 * 6 * 4);
    }
    assert_type(gp_matmul(given(g, "f32[3,4]"), given(g, "f32[4,6]"), NULL), "f32[3,6]");
    assert_type(gp_matmul(given(g, "f32[1,1,1,1,3,4]"), given(g, "f32[4,6]"), NULL), "f32[1,1,1,1,3,6]");
}

static void test_arithmetic(void **state) {
    gp_graph *g = *state;
    gp_value (*const operations[])(gp_value, gp_value) = {gp_add, gp_sub, gp_mul, gp_div};
    for (size_t i = 0; i < 4; i++) {
        assert_type(operations[i](given(g, "f32[4,1,3]"), given(g, "f32[2,3]")), "f32[4,2,3]");
        assert_type(operations[i](given(g, "bf16[2,3]"), parameter(g, "f32[3]")), "bf16[2,3]");
        assert_type(operations[i](parameter(g, "f32[]"), given(g, "bf16[2,3]")), "bf16[2,3]");
        assert_type(operations[i](given(g, "f32[0,3]"), given(g, "f32[1,3]")), "f32[0,3]");
    }
    gp_value x = given(g, "bf16[2,3]");
    assert_type(gp_bias(x, parameter(g, "f32[3]")), "bf16[2,3]");
    assert_type(gp_scale(x, 0.5), "bf16[2,3]");
    assert_type(gp_cast(x, GP_F32), "f32[2,3]");
    assert_int_equal(gp_cast(x, GP_BF16).index, x.index);
}

static void test_activations(void **state) {
    gp_graph *g = *state;
    gp_value (*const operations[])(gp_value) = {gp_relu, gp_gelu_tanh, gp_gelu_erf, gp_silu, gp_sigmoid, gp_tanh};
    for (size_t i = 0; i < 6; i++) {
        gp_value y = operations[i](given(g, "bf16[4,8]"));
        assert_type(y, "bf16[4,8]");
        const gp_activation_attributes *attributes = g->nodes[g->values[y.index].node].attributes;
        assert_int_equal(attributes->kind, (int)i);
        assert_true(flops_of(y) >= 32.0);
    }
}

static void test_norms(void **state) {
    gp_graph *g = *state;
    gp_value w = parameter(g, "f32[8]"), x = given(g, "bf16[2,3,8]");
    gp_value y = gp_layer_norm(x, w, w, 1e-5);
    assert_type(y, "bf16[2,3,8]");
    assert_output(y, 1, "f32[6]");
    assert_output(y, 2, "f32[6]");
    assert_type(gp_layer_norm(x, w, gp_none(), 0.0), "bf16[2,3,8]");
    y = gp_rms_norm(given(g, "f32[8]"), w, 1e-5);
    assert_type(y, "f32[8]");
    assert_output(y, 1, "f32[1]");
    assert_type(gp_softmax(x), "bf16[2,3,8]");
}

static void test_attention_and_embedding(void **state) {
    gp_graph *g = *state;
    gp_value y = gp_attention(given(g, "bf16[2,5,36]"), &(gp_attention_options){.heads = 3, .full = true});
    assert_type(y, "bf16[2,5,12]");
    assert_output(y, 1, "f32[2,3,5]");
    assert_true(flops_of(y) == 2.0 * 2 * 2 * 25 * 12);
    y = gp_attention(given(g, "f32[2,5,36]"), &(gp_attention_options){.heads = 3, .scale = 2.0});
    assert_true(flops_of(y) == 2.0 * 2 * 2 * 15 * 12);
    assert_true(((const gp_attention_attributes *)g->nodes[g->values[y.index].node].attributes)->scale == 2.0);
    gp_value table = parameter(g, "f32[100,12]");
    assert_type(gp_embedding(table, given(g, "i32[2,5]"), GP_BF16), "bf16[2,5,12]");
    assert_type(gp_embedding(table, given(g, "i32[2]"), GP_F32), "f32[2,12]");
    assert_type(gp_dropout(given(g, "bf16[4,3]"), 0.25), "bf16[4,3]");
}

static void test_shape_operations(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,3,4]");
    assert_type(gp_reshape(x, gp_shape_of(2, (int64_t[]){-1, 4})), "bf16[6,4]");
    assert_type(gp_reshape(x, gp_shape_of(2, (int64_t[]){24, 1})), "bf16[24,1]");
    assert_type(gp_reshape(given(g, "f32[1,1]"), gp_shape_of(0, NULL)), "f32[]");
    assert_int_equal(gp_reshape(x, gp_shape_of(3, (int64_t[]){2, -1, 4})).index, x.index);
    assert_type(gp_transpose(x, (int[]){2, 0, 1}), "bf16[4,2,3]");
    assert_int_equal(gp_transpose(x, (int[]){0, 1, 2}).index, x.index);
    assert_type(gp_slice(x, -1, 1, 3), "bf16[2,3,2]");
    assert_type(gp_slice(x, 0, 1, 2), "bf16[1,3,4]");
    assert_int_equal(gp_slice(x, 1, 0, 3).index, x.index);
    assert_type(gp_slice(given(g, "i32[2,9]"), 1, 0, 8), "i32[2,8]");
    assert_type(gp_concatenate((gp_value[]){x, given(g, "bf16[2,1,4]"), x}, 3, -2), "bf16[2,7,4]");
    assert_int_equal(gp_concatenate(&x, 1, 0).index, x.index);
    gp_value all[] = {x, x, x, x, x, x, x, x};
    assert_type(gp_concatenate(all, 8, 0), "bf16[16,3,4]");
}

static void test_sums(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,3,4]");
    assert_type(gp_sum(x, 1, true), "bf16[2,1,4]");
    assert_type(gp_sum(x, 1, false), "bf16[2,4]");
    assert_type(gp_sum(x, -1, false), "bf16[2,3]");
    assert_type(gp_sum(given(g, "f32[0,3]"), 0, false), "f32[3]");
    gp_value mean = gp_mean(x, 0, true);
    assert_type(mean, "bf16[1,3,4]");
    const gp_scale_attributes *attributes = g->nodes[g->values[mean.index].node].attributes;
    assert_true(attributes->factor == 0.5);
    assert_type(gp_mean(given(g, "f32[7]"), 0, false), "f32[]");
}

static void test_losses(void **state) {
    gp_graph *g = *state;
    gp_value loss = gp_cross_entropy(given(g, "bf16[2,3,10]"), given(g, "i32[2,3]"), gp_none(), NULL);
    assert_type(loss, "f32[]");
    assert_output(loss, 1, "f32[6]");
    gp_cross_entropy_options options = {.label_smoothing = 0.1, .has_ignored = true, .ignored = -100};
    assert_type(gp_cross_entropy(given(g, "f32[2,10]"), given(g, "i32[2]"), given(g, "f32[2]"), &options), "f32[]");
    assert_type(gp_squared_error(given(g, "f32[4,3]"), given(g, "f32[4,3]")), "f32[]");
    int32_t before = g->node_count;
    assert_type(gp_squared_error(given(g, "bf16[4,3]"), given(g, "f32[4,3]")), "f32[]");
    char names[200];
    node_names(g, (int32_t[]){before, before + 1}, 2, names, sizeof names);
    assert_string_equal(names, "cast squared_error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_linear, begin, end),
        cmocka_unit_test_setup_teardown(test_matmul, begin, end),
        cmocka_unit_test_setup_teardown(test_arithmetic, begin, end),
        cmocka_unit_test_setup_teardown(test_activations, begin, end),
        cmocka_unit_test_setup_teardown(test_norms, begin, end),
        cmocka_unit_test_setup_teardown(test_attention_and_embedding, begin, end),
        cmocka_unit_test_setup_teardown(test_shape_operations, begin, end),
        cmocka_unit_test_setup_teardown(test_sums, begin, end),
        cmocka_unit_test_setup_teardown(test_losses, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
