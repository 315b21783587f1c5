/* Slices: what is in them, in which order, and what they read. */
#include "base/random.h"
#include "build.h"

/* Two layers of linear and gelu, with gradients of everything. */
typedef struct network {
    gp_graph *graph;
    gp_value x, w[2], in[2], h[2], y[2]; /* in: the layer's alias of its input */
    gp_value dy, dx, dw[2];
    bool *available;
} network;

static int begin(void **state) {
    network *n = gp_allocate(sizeof *n);
    gp_graph *g = n->graph = new_graph(true);
    n->x = given(g, "f32[4,8]");
    gp_value v = n->x;
    for (int i = 0; i < 2; i++) {
        gp_graph_begin_layer(g, i);
        n->w[i] = parameter(g, "f32[8,8]");
        n->in[i] = gp_graph_alias(v);
        n->h[i] = gp_linear(n->in[i], n->w[i], gp_none());
        v = n->y[i] = gp_gelu_tanh(n->h[i]);
    }
    n->dy = given(g, "f32[4,8]");
    gp_value wanted[] = {n->x, n->w[0], n->w[1]}, gradients[3];
    assert_int_equal(gp_graph_gradients(g, &n->y[1], &n->dy, 1, wanted, gradients, 3), GP_OK);
    n->dx = gradients[0];
    n->dw[0] = gradients[1];
    n->dw[1] = gradients[2];
    n->available = gp_allocate((size_t)g->value_count);
    n->available[n->w[0].index] = n->available[n->w[1].index] = true;
    *state = n;
    return 0;
}

static int end(void **state) {
    network *n = *state;
    gp_graph_destroy(n->graph);
    gp_free(n->available);
    gp_free(n);
    return 0;
}

static void assert_slice(const network *n, const int32_t *wanted, size_t count, const char *expected) {
    int32_t *nodes = NULL;
    size_t node_count = 0;
    gp_status status = gp_graph_slice(n->graph, n->available, wanted, count, &nodes, &node_count);
    if (status != GP_OK) print_message("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    char text[2000] = "";
    for (size_t i = 0; i < node_count; i++) {
        const gp_node *node = &n->graph->nodes[nodes[i]];
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s.%d", i ? " " : "", node->op->name, node->layer);
    }
    assert_string_equal(text, expected);
    gp_free(nodes);
}

static void test_forward(void **state) {
    network *n = *state;
    n->available[n->x.index] = true;
    assert_slice(n, &n->y[1].index, 1, "alias.0 linear.0 activation.0 alias.1 linear.1 activation.1");
    assert_slice(n, &n->y[0].index, 1, "alias.0 linear.0 activation.0");
    /* The order in which values are wanted does not matter, and one may be wanted twice. */
    assert_slice(n, (int32_t[]){n->y[1].index, n->h[0].index, n->y[1].index, n->x.index}, 4,
                 "alias.0 linear.0 activation.0 alias.1 linear.1 activation.1");
    n->available[n->y[0].index] = true;
    assert_slice(n, &n->y[1].index, 1, "alias.1 linear.1 activation.1");
    n->available[n->y[1].index] = true;
    assert_slice(n, &n->y[1].index, 1, "");
    assert_slice(n, NULL, 0, "");
}

static void test_backward_without_recomputation(void **state) {
    network *n = *state;
    n->available[n->dy.index] = true;
    for (int i = 0; i < 2; i++)
        n->available[n->in[i].index] = n->available[n->h[i].index] = true;
    int32_t wanted[] = {n->dw[0].index, n->dw[1].index, n->dx.index};
    assert_slice(n, wanted, 3,
                 "activation_gradient.1 linear_input_gradient.1 linear_weight_gradient.1 activation_gradient.0 "
                 "linear_input_gradient.0 linear_weight_gradient.0");
    /* B alone, and then W from what B leaves behind. */
    assert_slice(n, wanted + 2, 1,
                 "activation_gradient.1 linear_input_gradient.1 activation_gradient.0 "
                 "linear_input_gradient.0");
    for (int32_t v = 0; v < n->graph->value_count; v++) {
        int32_t maker = n->graph->values[v].node;
        if (maker >= 0 && n->graph->nodes[maker].id == GP_OP_ACTIVATION_GRADIENT) n->available[v] = true;
    }
    assert_slice(n, wanted, 2, "linear_weight_gradient.1 linear_weight_gradient.0");
}

/* With the inputs of both layers kept, a layer's forward runs again right before its backward. */
static void test_recomputation_layer_by_layer(void **state) {
    network *n = *state;
    n->available[n->dy.index] = n->available[n->x.index] = n->available[n->y[0].index] = true;
    int32_t wanted[] = {n->dx.index, n->dw[0].index, n->dw[1].index};
    assert_slice(n, wanted, 3,
                 "alias.1 linear.1 activation_gradient.1 linear_input_gradient.1 linear_weight_gradient.1 "
                 "alias.0 linear.0 activation_gradient.0 linear_input_gradient.0 linear_weight_gradient.0");
    /* With the stage's input alone, the whole forward runs first; its last activation is not needed. */
    n->available[n->y[0].index] = false;
    assert_slice(n, wanted, 3,
                 "alias.0 linear.0 activation.0 alias.1 linear.1 activation_gradient.1 linear_input_gradient.1 "
                 "linear_weight_gradient.1 activation_gradient.0 linear_input_gradient.0 linear_weight_gradient.0");
    /* A forward value that is wanted besides and that no gradient needs comes last. */
    assert_slice(n, (int32_t[]){n->y[1].index, n->dw[1].index}, 2,
                 "alias.0 linear.0 activation.0 alias.1 linear.1 activation_gradient.1 linear_weight_gradient.1 "
                 "activation.1");
}

static void test_what_is_not_there(void **state) {
    network *n = *state;
    int32_t *nodes = NULL;
    size_t count = 0;
    assert_int_equal(gp_graph_slice(n->graph, n->available, &n->y[0].index, 1, &nodes, &count), GP_FAILED);
    assert_non_null(strstr(gp_error_message(), "input 0, f32[4,8]"));
    assert_null(nodes);
    n->available[n->x.index] = true;
    n->available[n->w[0].index] = false;
    assert_int_equal(gp_graph_slice(n->graph, n->available, &n->y[0].index, 1, &nodes, &count), GP_FAILED);
    assert_non_null(strstr(gp_error_message(), "parameter"));
    assert_int_equal(gp_graph_slice(n->graph, n->available, &n->dy.index, 1, &nodes, &count), GP_FAILED);
}

static void test_reads(void **state) {
    network *n = *state;
    n->available[n->x.index] = n->available[n->dy.index] = n->available[n->y[0].index] = true;
    int32_t *nodes = NULL;
    size_t count = 0;
    bool *used = gp_allocate((size_t)n->graph->value_count);
    assert_int_equal(gp_graph_slice(n->graph, n->available, &n->dw[1].index, 1, &nodes, &count), GP_OK);
    gp_graph_reads(n->graph, nodes, count, used);
    gp_free(nodes);
    for (int32_t v = 0; v < n->graph->value_count; v++) {
        bool expected = v == n->y[0].index || v == n->dy.index || v == n->w[1].index;
        assert_int_equal(used[v], expected);
    }
    /* What another slice makes stays marked, and marks add up. */
    assert_int_equal(gp_graph_slice(n->graph, (bool *)n->available, &n->h[0].index, 1, &nodes, &count), GP_OK);
    used[n->h[0].index] = true;
    gp_graph_reads(n->graph, nodes, count, used);
    gp_free(nodes);
    assert_int_equal(used[n->h[0].index], true);
    assert_int_equal(used[n->y[0].index], true);
    assert_int_equal(used[n->x.index], true);
    assert_int_equal(used[n->in[0].index], false);
    gp_free(used);
}

/* ---- properties, on graphs made at random ---- */

typedef struct dice {
    uint32_t count, seed;
} dice;

static uint32_t roll(dice *d, uint32_t sides) {
    return gp_random4(gp_random_key_of(d->seed), (gp_random_block){{d->count++, 0, 0, 0}}).word[0] % sides;
}

static gp_graph *random_graph(dice *d, gp_value *dy, gp_value *gradients) {
    gp_graph *g = new_graph(true);
    gp_value values[40], wanted[2];
    wanted[0] = values[0] = given(g, "f32[4]");
    wanted[1] = values[1] = parameter(g, "f32[4]");
    for (uint32_t i = 2; i < 40; i++) {
        gp_value a = values[roll(d, i)], b = values[i - 1 - roll(d, i < 4 ? i : 4)];
        uint32_t kind = roll(d, 4);
        values[i] = kind == 0 ? gp_add(a, b) : kind == 1 ? gp_mul(a, b) : kind == 2 ? gp_tanh(b) : gp_silu(b);
    }
    *dy = given(g, "f32[4]");
    assert_int_equal(gp_graph_gradients(g, &values[39], dy, 1, wanted, gradients, 2), GP_OK);
    return g;
}

/* Whether `node` needs `target` through values that are not available. Nodes come after their operands. */
static bool depends(const gp_graph *g, const bool *available, int32_t node, int32_t target) {
    if (node == target) return true;
    if (node < target) return false;
    for (int32_t i = 0; i < g->nodes[node].input_count; i++) {
        int32_t value = g->nodes[node].inputs[i];
        if (value < 0 || available[value] || g->values[value].node < 0) continue;
        if (depends(g, available, g->values[value].node, target)) return true;
    }
    return false;
}

static void check_slice(const gp_graph *g, const bool *available, const int32_t *wanted, size_t wanted_count,
                        const int32_t *nodes, size_t count) {
    bool *there = gp_allocate((size_t)g->value_count), *needed = gp_allocate((size_t)g->value_count);
    memcpy(there, available, (size_t)g->value_count);
    int32_t last_backward = -1;
    for (size_t i = 0; i < count; i++) {
        const gp_node *node = &g->nodes[nodes[i]];
        for (int32_t k = 0; k < node->input_count; k++) {
            assert_true(node->inputs[k] < 0 || there[node->inputs[k]]);
            if (node->inputs[k] >= 0) needed[node->inputs[k]] = true;
        }
        for (int32_t k = 0; k < node->output_count; k++) {
            assert_false(there[node->outputs[k]] && !available[node->outputs[k]]); /* made once */
            there[node->outputs[k]] = true;
        }
        if (node->backward) {
            assert_true(nodes[i] > last_backward);
            last_backward = nodes[i];
            continue;
        }
        size_t next = i; /* put off until the next backward node needs it */
        while (next < count && !g->nodes[nodes[next]].backward)
            next++;
        if (next < count) assert_true(depends(g, available, nodes[next], nodes[i]));
    }
    for (size_t i = 0; i < wanted_count; i++) {
        assert_true(there[wanted[i]]);
        needed[wanted[i]] = true;
    }
    for (size_t i = 0; i < count; i++) { /* nothing runs for nothing */
        bool used = false;
        for (int32_t k = 0; k < g->nodes[nodes[i]].output_count; k++)
            used |= needed[g->nodes[nodes[i]].outputs[k]];
        assert_true(used);
    }
    gp_free(there);
    gp_free(needed);
}

static void test_random_graphs(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 60; seed++) {
        dice d = {.seed = seed};
        gp_value dy, gradients[2];
        gp_graph *g = random_graph(&d, &dy, gradients);
        int32_t wanted[3] = {0};
        size_t wanted_count = 0;
        for (int i = 0; i < 2; i++) {
            if (gp_value_valid(gradients[i])) wanted[wanted_count++] = gradients[i].index;
        }
        for (int round = 0; round < 10; round++) {
            bool *available = gp_allocate((size_t)g->value_count);
            available[0] = available[1] = available[dy.index] = true;
            for (int32_t v = 2; v < dy.index; v++) /* some activations are kept */
                available[v] = roll(&d, 4) == 0;
            wanted[wanted_count] = (int32_t)(2 + roll(&d, 30));
            int32_t *nodes = NULL;
            size_t count = 0;
            assert_int_equal(gp_graph_slice(g, available, wanted, wanted_count + 1, &nodes, &count), GP_OK);
            check_slice(g, available, wanted, wanted_count + 1, nodes, count);
            gp_free(nodes);
            gp_free(available);
        }
        gp_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forward, begin, end),
        cmocka_unit_test_setup_teardown(test_backward_without_recomputation, begin, end),
        cmocka_unit_test_setup_teardown(test_recomputation_layer_by_layer, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_not_there, begin, end),
        cmocka_unit_test_setup_teardown(test_reads, begin, end),
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
