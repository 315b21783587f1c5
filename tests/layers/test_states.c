/* States: names, what is refused, and what a graph has of them in training and in evaluation. */
#include <math.h>

#include "base/memory.h"
#include "layers/build_models.h"

/* linear 4, batch norm, linear 4, sequential of two batch norms */
static gp_model *with_norms(void) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){3}));
    add_linear(model, 4);
    add(model, "batch_norm", OPTIONS(NUMBER("decay", 0.75)));
    add_linear(model, 5);
    gp_layer *inside[] = {layer_of("batch_norm", NO_OPTIONS), layer_of("batch_norm", OPTIONS(BOOLEAN("relu", 1)))};
    add_container(model, "sequential", inside, 2);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    return model;
}

static void test_names(void **state) {
    (void)state;
    gp_model *model = with_norms();
    static const char *const names[] = {"layers.1.moving_mean",
                                        "layers.1.moving_variance",
                                        "layers.3.batch_norm0.moving_mean",
                                        "layers.3.batch_norm0.moving_variance",
                                        "layers.3.batch_norm1.moving_mean",
                                        "layers.3.batch_norm1.moving_variance"};
    assert_int_equal(gp_model_states(model), 6);
    for (size_t i = 0; i < 6; i++) {
        gp_state_info info = gp_model_state(model, i);
        assert_string_equal(info.name, names[i]);
        assert_int_equal(info.layer, i < 2 ? 1 : 3);
        assert_int_equal(gp_shape_elements(info.shape), i < 2 ? 4 : 5);
        float values[5];
        gp_state_initialise(&info, 1, values);
        assert_true(values[0] == (float)(i % 2) && values[3] == (float)(i % 2));
    }
    assert_int_equal(gp_model_parameter_count(model), 4 * 3 + 4 + 8 + 5 * 4 + 5 + 20); /* states are none */
    const gp_moments *moments = NULL;
    assert_int_equal(gp_model_moments(model, &moments), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(moments[i].mean, 2 * i);
        assert_int_equal(moments[i].variance, 2 * i + 1);
        assert_true(moments[i].decay == (i == 0 ? 0.75 : 0.9));
    }
    gp_model_destroy(model);
}

static gp_built build(const gp_model *model, int32_t first, int32_t last, bool training) {
    gp_build_options options = {.first_layer = first,
                                .last_layer = last,
                                .batch = 3,
                                .training = training,
                                .gradients = training,
                                .loss = true};
    gp_built built;
    assert_ok(gp_model_build(model, &options, &built));
    return built;
}

static size_t count_nodes(const gp_graph *graph, gp_op_id id) {
    size_t count = 0;
    for (int32_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].id == id;
    return count;
}

static void test_training(void **state) {
    (void)state;
    gp_model *model = with_norms();
    gp_built built = build(model, 1, 3, true);
    assert_int_equal(built.state_count, 6);
    assert_int_equal(built.moment_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(built.moments[i].moments, i);
        assert_type(gp_value_type(built.moments[i].mean), i == 0 ? "f32[4]" : "f32[5]");
        assert_type(gp_value_type(built.moments[i].variance), i == 0 ? "f32[4]" : "f32[5]");
    }
    assert_int_equal(count_nodes(built.graph, GP_OP_BATCH_NORM), 3);
    gp_built_destroy(&built);
    built = build(model, 2, 3, true); /* another stage has its own only */
    assert_int_equal(built.state_count, 4);
    assert_int_equal(built.states[0].state, 2);
    assert_int_equal(built.moment_count, 2);
    assert_int_equal(built.moments[0].moments, 1);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

static void test_evaluation(void **state) {
    (void)state;
    gp_model *model = with_norms();
    gp_built built = build(model, 0, 3, false);
    assert_int_equal(built.state_count, 6);
    assert_int_equal(built.moment_count, 0);
    assert_int_equal(count_nodes(built.graph, GP_OP_BATCH_NORM), 0);
    assert_int_equal(count_nodes(built.graph, GP_OP_BATCH_NORM_INFERENCE), 3);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(built.states[i].state, i);
        assert_int_equal(built.graph->values[built.states[i].value.index].kind, GP_VALUE_INPUT);
    }
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

/* ---- what is refused ---- */

enum {
    TWICE,
    AS_PARAMETER,
    NO_NAME,
    BAD_INIT,
    BAD_DECAY,
    BAD_SHAPE,
    NOT_COMPUTED,
    NO_STATE,
    SAME_STATE,
    FOLLOWED_TWICE,
    NO_FAULT,
    FAULTS
};

static gp_value faulty_forward(const void *self, gp_builder *builder, gp_value input) {
    int fault = *(const int *)self;
    int64_t four = 4, three = 3;
    gp_shape shape = gp_shape_of(1, &four);
    gp_init bad = {GP_INIT_CONSTANT, (double)NAN};
    gp_value mean = gp_builder_state(builder, "mean", shape, fault == BAD_INIT ? &bad : NULL);
    gp_value variance = gp_builder_state(builder,
                                         fault == TWICE     ? "mean"
                                         : fault == NO_NAME ? ""
                                                            : "variance",
                                         fault == BAD_SHAPE ? gp_shape_of(1, &three) : shape, NULL);
    if (fault == AS_PARAMETER) gp_builder_parameter(builder, "mean", shape, NULL);
    gp_value moment = gp_sum(input, 0, false);
    if (fault == NOT_COMPUTED) moment = mean;
    if (!gp_builder_training(builder)) return input;
    gp_builder_moving_moments(builder, fault == NO_STATE ? input : mean, fault == SAME_STATE ? mean : variance, moment,
                              moment, fault == BAD_DECAY ? 1.5 : 0.5);
    if (fault == FOLLOWED_TWICE) gp_builder_moving_moments(builder, variance, mean, moment, moment, 0.5);
    return input;
}

static void test_refused(void **state) {
    (void)state;
    static const gp_layer_class faulty = {
        .size = sizeof(gp_layer_class), .kind = "faulty", .forward = faulty_forward, .destroy = gp_free};
    static const char *const messages[FAULTS] = {
        [TWICE] = "state layers.0.mean is declared twice",
        [AS_PARAMETER] = "parameter layers.0.mean is declared twice",
        [NO_NAME] = "a state has no name",
        [BAD_INIT] = "state layers.0.mean has an initial value of kind 1 with number nan",
        [BAD_DECAY] = "decay of moving averages is 1.5",
        [BAD_SHAPE] = "the variance that a state follows is f32[4]; a computed f32[3] is accepted",
        [NOT_COMPUTED] = "f32[4] and not computed",
        [NO_STATE] = "no state of this layer",
        [SAME_STATE] = "one state cannot follow mean and variance",
        [FOLLOWED_TWICE] = "follows other moments already",
    };
    for (int fault = 0; fault < FAULTS; fault++) {
        gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){4}));
        gp_layer *layer = NULL;
        int *self = gp_allocate(sizeof *self);
        assert_non_null(self);
        *self = fault;
        assert_ok(gp_layer_create(&layer, &faulty, self));
        assert_ok(gp_model_add(model, layer));
        use_squared_error(model);
        if (messages[fault]) {
            assert_message(gp_model_finish(model), GP_INVALID, messages[fault]);
        } else {
            assert_ok(gp_model_finish(model));
        }
        gp_model_destroy(model);
    }
}

/* ---- a layer that is another one later ---- */

static int builds;

static gp_value fickle_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    int64_t four = 4;
    gp_builder_state(builder, builds > 0 ? "other" : "one", gp_shape_of(1, &four), NULL);
    return input;
}

static void test_fickle(void **state) {
    (void)state;
    static const gp_layer_class fickle = {.size = sizeof(gp_layer_class), .kind = "fickle", .forward = fickle_forward};
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){4}));
    gp_layer *layer = NULL;
    assert_ok(gp_layer_create(&layer, &fickle, NULL));
    assert_ok(gp_model_add(model, layer));
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    builds = 1;
    gp_build_options options = {.batch = 2};
    gp_built built;
    assert_message(gp_model_build(model, &options, &built), GP_INVALID,
                   "declares state layers.0.other now, but declared layers.0.one");
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_training),
                                       cmocka_unit_test(test_evaluation), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_fickle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
