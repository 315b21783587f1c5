/* The graph of a run of layers: ports, uses, boundaries, gradients, for every cut. */
#include "layers/build_models.h"

/* Layers: 0 linear, 1 keep "a", 2 linear, 3 add_kept "a", 4 linear tied to 0, 5 add_kept "a", 6 relu, 7 add_kept "a".
 */
static gp_model *long_skip(void) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    add_linear(model, 6);
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 6);
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    add(model, "linear", OPTIONS(INTEGER("features", 6), TEXT("tie", "layers.0.weight")));
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    add(model, "relu", NO_OPTIONS);
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    return model;
}

static gp_built build(const gp_model *model, int32_t first, int32_t last, gp_dtype dtype) {
    gp_build_options options = {.first_layer = first,
                                .last_layer = last,
                                .batch = 3,
                                .dtype = dtype,
                                .training = true,
                                .gradients = true,
                                .loss = true};
    gp_built built;
    assert_ok(gp_model_build(model, &options, &built));
    return built;
}

static void test_ports(void **state) {
    (void)state;
    gp_model *model = long_skip();
    const gp_port *ports = NULL;
    const int32_t expected[][3] = {{-1, 0, 0}, {0, 1, 0}, {1, 2, 0}, {1, 3, 1}, {1, 5, 1}, {1, 7, 1},
                                   {2, 3, 0},  {3, 4, 0}, {4, 5, 0}, {5, 6, 0}, {6, 7, 0}};
    assert_int_equal(gp_model_ports(model, &ports), 11);
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(ports[i].source, expected[i][0]);
        assert_int_equal(ports[i].destination, expected[i][1]);
        if (expected[i][2]) {
            assert_string_equal(ports[i].skip, "a");
        } else {
            assert_null(ports[i].skip);
        }
        assert_int_equal(ports[i].indices, i == 0); /* nobody asks for the gradient of the model's input */
    }
    gp_model_destroy(model);
}

static void test_uses(void **state) {
    (void)state;
    gp_model *model = long_skip();
    const gp_parameter_use *uses = NULL;
    const size_t expected[][2] = {{0, 0}, {1, 0}, {2, 2}, {3, 2}, {0, 4}, {4, 4}};
    assert_int_equal(gp_model_uses(model, &uses), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(uses[i].parameter, expected[i][0]);
        assert_int_equal(uses[i].layer, expected[i][1]);
    }
    assert_string_equal(gp_model_parameter(model, 4).name, "layers.4.bias");
    assert_int_equal(gp_model_layer_parameter_count(model, 4), 6);
    assert_int_equal(gp_model_parameter_count(model), 3 * 6 + 2 * 36);
    gp_model_destroy(model);
}

static bool is_input(const gp_built *built, gp_value value) {
    return gp_value_valid(value) && built->graph->values[value.index].kind == GP_VALUE_INPUT;
}

static void check_arriving(const gp_model *model, const gp_built *built, int32_t first, int32_t last, gp_dtype dtype) {
    const gp_port *ports = NULL;
    size_t port_count = gp_model_ports(model, &ports), next = 0;
    for (size_t i = 0; i < port_count; i++) {
        if (ports[i].source >= first || ports[i].destination < first || ports[i].destination > last) continue;
        assert_true(next < built->arriving_count);
        const gp_built_port *port = &built->arriving[next++];
        assert_int_equal(port->port, i);
        assert_true(is_input(built, port->value));
        assert_int_equal(gp_value_valid(port->gradient), !ports[i].indices);
        gp_dtype expected = ports[i].source < 0 ? GP_F32 : dtype; /* samples are f32 in every precision */
        gp_type type = {expected, gp_shape_of(2, (int64_t[]){3, 6})};
        assert_true(gp_type_equal(gp_value_type(port->value), type));
        if (gp_value_valid(port->gradient)) assert_true(gp_type_equal(gp_value_type(port->gradient), type));
    }
    assert_int_equal(next, built->arriving_count);
}

static void check_leaving(const gp_model *model, const gp_built *built, int32_t first, int32_t last, gp_dtype dtype) {
    const gp_port *ports = NULL;
    size_t port_count = gp_model_ports(model, &ports), next = 0;
    for (size_t i = 0; i < port_count; i++) {
        if (ports[i].source < first || ports[i].source > last || ports[i].destination <= last) continue;
        assert_true(next < built->leaving_count);
        const gp_built_port *port = &built->leaving[next++];
        assert_int_equal(port->port, i);
        assert_true(is_input(built, port->gradient));
        gp_type type = {dtype, gp_shape_of(2, (int64_t[]){3, 6})};
        assert_true(gp_type_equal(gp_value_type(port->value), type));
        assert_true(gp_type_equal(gp_value_type(port->gradient), type));
    }
    assert_int_equal(next, built->leaving_count);
}

static void check_uses(const gp_model *model, const gp_built *built, int32_t first, int32_t last) {
    const gp_parameter_use *uses = NULL;
    size_t use_count = gp_model_uses(model, &uses), next = 0;
    for (size_t i = 0; i < use_count; i++) {
        if (uses[i].layer < first || uses[i].layer > last) continue;
        assert_true(next < built->use_count);
        const gp_built_use *use = &built->uses[next++];
        assert_int_equal(use->use, i);
        assert_int_equal(built->graph->values[use->value.index].kind, GP_VALUE_PARAMETER);
        gp_type type = {GP_F32, gp_model_parameter(model, uses[i].parameter).shape};
        assert_true(gp_type_equal(gp_value_type(use->value), type));
        assert_true(gp_value_valid(use->gradient));
        assert_true(gp_type_equal(gp_value_type(use->gradient), type));
        for (size_t j = 0; j + 1 < next; j++) {
            bool same = uses[built->uses[j].use].parameter == uses[i].parameter;
            assert_int_equal(built->uses[j].value.index == use->value.index, same);
            assert_int_not_equal(built->uses[j].gradient.index, use->gradient.index);
        }
    }
    assert_int_equal(next, built->use_count);
}

/* Every run of layers, in both precisions: what arrives, leaves and is used is what the model says. */
static void test_every_run(void **state) {
    (void)state;
    gp_model *model = long_skip();
    int32_t count = (int32_t)gp_model_layer_count(model);
    for (int32_t first = 0; first < count; first++) {
        for (int32_t last = first; last < count; last++) {
            for (int bf16 = 0; bf16 < 2; bf16++) {
                gp_dtype dtype = bf16 ? GP_BF16 : GP_F32;
                gp_built built = build(model, first, last, dtype);
                check_arriving(model, &built, first, last, dtype);
                check_leaving(model, &built, first, last, dtype);
                check_uses(model, &built, first, last);
                bool end = last + 1 == count;
                assert_int_equal(gp_value_valid(built.output), end);
                assert_int_equal(gp_value_valid(built.loss), end);
                assert_int_equal(is_input(&built, built.targets), end);
                assert_int_equal(is_input(&built, built.loss_gradient), end);
                assert_false(gp_value_valid(built.weights));
                gp_built_destroy(&built);
            }
        }
    }
    gp_model_destroy(model);
}

/* The union of the uses over the stages of any cut is every use once. */
static void test_every_cut(void **state) {
    (void)state;
    gp_model *model = long_skip();
    size_t layers = gp_model_layer_count(model), use_count = gp_model_uses(model, NULL);
    for (unsigned cuts = 0; cuts < 1u << (layers - 1); cuts++) {
        size_t next = 0;
        int32_t first = 0;
        for (size_t layer = 0; layer < layers; layer++) {
            if (layer + 1 < layers && !(cuts >> layer & 1)) continue;
            gp_built built = build(model, first, (int32_t)layer, GP_F32);
            for (size_t i = 0; i < built.use_count; i++)
                assert_int_equal(built.uses[i].use, next++);
            gp_built_destroy(&built);
            first = (int32_t)layer + 1;
        }
        assert_int_equal(next, use_count);
    }
    gp_model_destroy(model);
}

/* Between layers 0..7 flow: the output of 0, which 1 keeps and passes on (one value under two names), the outputs of 2
 * to 6. */
static void test_boundaries(void **state) {
    (void)state;
    gp_model *model = long_skip();
    gp_built built = build(model, 0, 7, GP_F32);
    assert_int_equal(built.boundary_count, 6);
    for (size_t i = 0; i < built.boundary_count; i++) {
        const gp_value_info *info = &built.graph->values[built.boundaries[i].index];
        assert_int_equal(info->kind, GP_VALUE_RESULT);
        assert_int_not_equal(built.graph->nodes[info->node].id, GP_OP_ALIAS);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(built.boundaries[i].index, built.boundaries[j].index);
    }
    gp_built_destroy(&built);
    built = build(model, 1, 2, GP_F32); /* what 1 passes on has arrived from outside */
    assert_int_equal(built.boundary_count, 0);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

/* Aliases of a value are made in ascending order of destination. */
static void test_alias_order(void **state) {
    (void)state;
    gp_model *model = long_skip();
    gp_built built = build(model, 1, 3, GP_F32);
    assert_int_equal(built.leaving_count, 3); /* to 5, to 7, and 3's output to 4 */
    int32_t previous = -1, aliases = 0;
    for (int32_t node = 0; node < built.graph->node_count; node++) {
        const gp_node *entry = &built.graph->nodes[node];
        if (entry->id != GP_OP_ALIAS || entry->backward || entry->layer != 1) continue;
        if (entry->outputs[0] == built.leaving[0].value.index) assert_int_equal(aliases, 2);
        if (entry->outputs[0] == built.leaving[1].value.index) assert_int_equal(aliases, 3);
        assert_true(node > previous);
        previous = node;
        aliases++;
    }
    assert_int_equal(aliases, 4); /* to 2, 3, 5, 7 */
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

static void test_inference(void **state) {
    (void)state;
    gp_model *model = long_skip();
    gp_build_options options = {.last_layer = 7, .batch = 2};
    gp_built built;
    assert_ok(gp_model_build(model, &options, &built));
    assert_false(gp_value_valid(built.loss) || gp_value_valid(built.targets) || gp_value_valid(built.loss_gradient));
    assert_true(gp_value_valid(built.output));
    for (int32_t node = 0; node < built.graph->node_count; node++)
        assert_false(built.graph->nodes[node].backward);
    for (size_t i = 0; i < built.use_count; i++)
        assert_false(gp_value_valid(built.uses[i].gradient));
    gp_built_destroy(&built);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

static void test_loss_weights(void **state) {
    (void)state;
    gp_build_options options = {.batch = 2, .gradients = true, .loss = true, .loss_weights = true};
    gp_built built;
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){4}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 5), INTEGER("width", 5)));
    assert_ok(gp_model_finish(model));
    assert_ok(gp_model_build(model, &options, &built));
    assert_true(is_input(&built, built.weights));
    assert_type(gp_value_type(built.weights), "f32[2,4]");
    assert_type(gp_value_type(built.targets), "i32[2,4]");
    assert_type(gp_value_type(built.loss), "f32[]");
    assert_true(gp_value_valid(built.uses[0].gradient));
    assert_false(gp_value_valid(built.arriving[0].gradient)); /* indices */
    gp_built_destroy(&built);
    gp_model_destroy(model);

    model = long_skip();
    options.first_layer = options.last_layer = 7;
    assert_message(gp_model_build(model, &options, &built), GP_INVALID, "squared_error takes no weights");
    gp_model_destroy(model);
}

static void test_wrong_options(void **state) {
    (void)state;
    gp_model *model = long_skip();
    const gp_build_options wrong[] = {
        {.first_layer = -1, .batch = 1}, {.first_layer = 2, .last_layer = 1, .batch = 1},
        {.last_layer = 8, .batch = 1},   {.batch = 0},
        {.batch = 1, .dtype = GP_F64},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gp_built built;
        assert_int_equal(gp_model_build(model, &wrong[i], &built), GP_INVALID);
        assert_null(built.graph);
    }
    gp_model_destroy(model);
}

/* Layers before the first parameter get no gradient: nobody would use it. */
static void test_dead_ports(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_F32, 2, (int64_t[]){3, 2}));
    add(model, "flatten", NO_OPTIONS);
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 6);
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    const gp_port *ports = NULL;
    const bool dead[] = {true, true, true, true, false}; /* -1>0, 0>1, 1>2, 1>3, 2>3 */
    assert_int_equal(gp_model_ports(model, &ports), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(ports[i].indices, dead[i]);
    gp_model_destroy(model);
}

/* A layer that ignores its input stops the gradient. */
static gp_value ignore(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)input;
    gp_value kept = gp_builder_recall(builder, "a");
    return gp_relu(kept);
}

static void test_ignored_input(void **state) {
    (void)state;
    const gp_layer_class own = {.size = sizeof own, .kind = "ignore", .forward = ignore};
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    add_linear(model, 6);
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 6);
    gp_layer *layer = NULL;
    assert_ok(gp_layer_create(&layer, &own, NULL));
    assert_ok(gp_model_add(model, layer));
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    const gp_port *ports = NULL;
    const bool dead[] = {true, false, true, false, true}; /* -1>0, 0>1, 1>2, 1>3, 2>3 */
    assert_int_equal(gp_model_ports(model, &ports), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(ports[i].indices, dead[i]);
    for (int cut = 0; cut < 2; cut++) { /* the same where the layers live */
        gp_built built = build(model, cut ? 2 : 0, cut ? 2 : 3, GP_F32);
        for (size_t i = 0; i < built.use_count; i++) {
            bool unused = built.uses[i].use >= 2;
            assert_int_equal(gp_value_valid(built.uses[i].gradient), !unused);
        }
        gp_built_destroy(&built);
    }
    gp_model_destroy(model);
}

static gp_value to_f32(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)builder;
    return gp_cast(input, GP_F32);
}

static gp_value only_f32(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    if (gp_builder_dtype(builder) == GP_BF16) return gp_builder_error(builder, "does not work in bf16");
    return gp_relu(input);
}

static gp_model *with_own_layer(const gp_layer_class *own) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    gp_layer *layer = NULL;
    add_linear(model, 6);
    assert_ok(gp_layer_create(&layer, own, NULL));
    assert_ok(gp_model_add(model, layer));
    add_linear(model, 3);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    return model;
}

/* A layer may return f32 though activations are bf16: what travels then is f32. One that cannot do bf16 spoils that
 * only. */
static void test_precisions(void **state) {
    (void)state;
    const gp_layer_class cast = {.size = sizeof cast, .kind = "to_f32", .forward = to_f32};
    gp_model *model = with_own_layer(&cast);
    gp_built built = build(model, 1, 1, GP_BF16);
    assert_type(gp_value_type(built.arriving[0].value), "bf16[3,6]");
    assert_type(gp_value_type(built.arriving[0].gradient), "bf16[3,6]");
    assert_type(gp_value_type(built.leaving[0].gradient), "f32[3,6]");
    gp_built_destroy(&built);
    built = build(model, 2, 2, GP_BF16);
    assert_type(gp_value_type(built.arriving[0].value), "f32[3,6]");
    gp_built_destroy(&built);
    gp_model_destroy(model);

    const gp_layer_class refuse = {.size = sizeof refuse, .kind = "refuse", .forward = only_f32};
    model = with_own_layer(&refuse);
    built = build(model, 0, 2, GP_F32);
    gp_built_destroy(&built);
    gp_build_options options = {.batch = 1, .dtype = GP_BF16};
    assert_message(gp_model_build(model, &options, &built), GP_INVALID, "layer 1 (refuse): does not work in bf16");
    gp_model_destroy(model);
}

/* A skip, the chain and a layer's own use between the same two layers. */
static void test_neighbours(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    gp_layer *children[] = {
        layer_of("keep", OPTIONS(TEXT("name", "b"))), layer_of("linear", OPTIONS(INTEGER("features", 6))),
        layer_of("add_kept", OPTIONS(TEXT("name", "b"))), layer_of("keep", OPTIONS(TEXT("name", "a")))};
    add_container(model, "sequential", children, 4);
    gp_layer *others[] = {
        layer_of("concatenate_kept", OPTIONS(TEXT("name", "a"))), layer_of("linear", OPTIONS(INTEGER("features", 6))),
        layer_of("add_kept", OPTIONS(TEXT("name", "a"))), layer_of("add_kept", OPTIONS(TEXT("name", "b")))};
    add_container(model, "sequential", others, 4);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    const gp_port *ports = NULL;
    assert_int_equal(gp_model_ports(model, &ports), 4);
    assert_null(ports[1].skip);
    assert_string_equal(ports[2].skip, "a"); /* recalled twice by one layer: one port */
    assert_string_equal(ports[3].skip, "b");
    assert_false(ports[3].indices); /* layer 0 has parameters: how it makes what it keeps is its own business */
    gp_built built = build(model, 1, 1, GP_F32);
    assert_int_equal(built.arriving_count, 3);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports),      cmocka_unit_test(test_uses),          cmocka_unit_test(test_every_run),
        cmocka_unit_test(test_every_cut),  cmocka_unit_test(test_boundaries),    cmocka_unit_test(test_alias_order),
        cmocka_unit_test(test_inference),  cmocka_unit_test(test_loss_weights),  cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_dead_ports), cmocka_unit_test(test_ignored_input), cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
