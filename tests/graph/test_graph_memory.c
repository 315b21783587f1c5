/* Memory: a graph whose allocations fail one after the other, and a graph of 2,000 layers. */
#include "build.h"

/* Some twenty operations, like a layer of a transformer. */
static gp_value block(gp_graph *g, gp_value x) {
    gp_value residual = gp_graph_alias(x), weight = parameter(g, "f32[12]"), bias = parameter(g, "f32[12]");
    gp_value h = gp_layer_norm(residual, weight, bias, 1e-5);
    h = gp_linear(h, parameter(g, "f32[36,12]"), parameter(g, "f32[36]"));
    h = gp_attention(h, &(gp_attention_options){.heads = 2, .dropout = 0.1});
    h = gp_dropout(gp_linear(h, parameter(g, "f32[12,12]"), bias), 0.1);
    residual = gp_add(residual, h);
    h = gp_rms_norm(residual, weight, 1e-5);
    gp_value gate = gp_silu(gp_linear(h, parameter(g, "f32[24,12]"), gp_none()));
    h = gp_mul(gate, gp_linear(h, parameter(g, "f32[24,12]"), gp_none()));
    h = gp_concatenate((gp_value[]){gp_slice(h, -1, 0, 12), gp_slice(h, -1, 12, 24)}, 2, -1);
    h = gp_reshape(gp_transpose(gp_reshape(h, gp_shape_of(2, (int64_t[]){-1, 24})), (int[]){1, 0}),
                   gp_shape_of(3, (int64_t[]){2, 5, 24}));
    h = gp_linear(h, parameter(g, "f32[12,24]"), bias);
    return gp_add(residual, gp_scale(h, 0.5));
}

/* Builds, differentiates and slices a model of `layers` blocks. */
static gp_status build(int layers, size_t *forward_nodes, size_t *backward_nodes) {
    gp_graph *g = NULL;
    int32_t *nodes = NULL, *parameters = NULL;
    gp_value *wanted = NULL, *gradients = NULL;
    bool *available = NULL;
    size_t count = 0;
    gp_status status = gp_graph_create(&g, true);
    if (status != GP_OK) return status;
    gp_value x = given(g, "bf16[2,5,12]"), y = x;
    for (int i = 0; i < layers; i++) {
        gp_graph_begin_layer(g, i);
        y = block(g, y);
    }
    gp_value loss = gp_cross_entropy(y, given(g, "i32[2,5]"), gp_none(), NULL), one = given(g, "f32[]");
    status = gp_graph_status(g);
    if (status != GP_OK) goto done;
    status = GP_OUT_OF_MEMORY;
    int32_t before = g->value_count;
    wanted = gp_allocate_array((size_t)before, sizeof *wanted);
    gradients = gp_allocate_array((size_t)before, sizeof *gradients);
    parameters = gp_allocate_array((size_t)before, sizeof *parameters);
    if (!wanted || !gradients || !parameters) goto done;
    for (int32_t v = 0; v < before; v++) {
        if (g->values[v].kind == GP_VALUE_PARAMETER) wanted[count++] = (gp_value){g, v};
    }
    status = gp_graph_gradients(g, &loss, &one, 1, wanted, gradients, count);
    if (status != GP_OK) goto done;
    status = GP_OUT_OF_MEMORY;
    available = gp_allocate((size_t)g->value_count);
    if (!available) goto done;
    for (int32_t v = 0; v < before; v++)
        available[v] = g->values[v].kind != GP_VALUE_RESULT;
    for (size_t i = 0; i < count; i++)
        parameters[i] = gradients[i].index;
    status = gp_graph_slice(g, available, &loss.index, 1, &nodes, forward_nodes);
    if (status != GP_OK) goto done;
    gp_free(nodes);
    nodes = NULL;
    status = gp_graph_slice(g, available, parameters, count, &nodes, backward_nodes);
done:
    gp_free(available);
    gp_free(parameters);
    gp_free(wanted);
    gp_free(gradients);
    gp_free(nodes);
    gp_graph_destroy(g);
    return status;
}

static void test_every_allocation_fails_once(void **state) {
    (void)state;
    size_t forward = 0, backward = 0;
    uint64_t before = gp_allocation_count();
    assert_int_equal(build(2, &forward, &backward), GP_OK);
    uint64_t allocations = gp_allocation_count() - before;
    assert_true(allocations > 20);
    for (uint64_t n = 1; n <= allocations; n++) {
        gp_allocation_fail_at(n);
        assert_int_equal(build(2, &forward, &backward), GP_OUT_OF_MEMORY);
        assert_non_null(strstr(gp_error_message(), "no memory left"));
    }
    gp_allocation_fail_at(0);
    assert_int_equal(build(2, &forward, &backward), GP_OK);
}

/* The sentence of an error needs memory too. */
static void test_error_without_memory(void **state) {
    (void)state;
    gp_graph *g = new_graph(true);
    gp_allocation_fail_at(1);
    gp_graph_error(g, "a sentence");
    gp_allocation_fail_at(0);
    assert_int_equal(gp_graph_status(g), GP_OUT_OF_MEMORY);
    assert_non_null(strstr(gp_error_message(), "no memory left"));
    gp_graph_destroy(g);
}

static void test_two_thousand_layers(void **state) {
    (void)state;
    size_t forward = 0, backward = 0;
    assert_int_equal(build(2000, &forward, &backward), GP_OK);
    assert_int_equal(forward, 2000 * 21 + 1);
    assert_true(backward > forward);
}

/* One chain through 100,000 operations: a walk that recursed would run out of stack. */
static void test_deep_chain(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    gp_graph *g = new_graph(true);
    gp_value x = given(g, "f32[4]"), y = x, dy, dx;
    for (int i = 0; i < DEPTH; i++)
        y = gp_silu(y);
    dy = given(g, "f32[4]");
    assert_int_equal(gp_graph_gradients(g, &y, &dy, 1, &x, &dx, 1), GP_OK);
    bool *available = gp_allocate((size_t)g->value_count);
    available[x.index] = available[dy.index] = true;
    int32_t *nodes = NULL;
    size_t count = 0;
    assert_int_equal(gp_graph_slice(g, available, &dx.index, 1, &nodes, &count), GP_OK);
    assert_int_equal(count, 2 * DEPTH - 1); /* the last activation itself is not needed */
    gp_free(nodes);
    gp_free(available);
    gp_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_error_without_memory),
        cmocka_unit_test(test_two_thousand_layers),
        cmocka_unit_test(test_deep_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
