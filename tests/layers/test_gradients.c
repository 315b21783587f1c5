/* Gradients of whole models in double precision: against finite differences for every built-in layer, and the same bits
 * wherever a model is cut. */
#include <math.h>

#include "layers/run_graph.h"

enum { BATCH = 2, MOST_PARAMETERS = 64, MOST_STAGES = 16 };

static int open_device(void **state) {
    return gp_device_create_reference((gp_device **)state, NULL) == GP_OK ? 0 : -1;
}

static int close_device(void **state) {
    gp_device_destroy(*state);
    return 0;
}

/* Numbers that look random enough: far from 0 (relu bends there) and not larger than 1. */
static double some_number(size_t i) {
    double sign = i % 3 == 1 ? -1 : 1;
    return sign * (0.1 + 0.9 * fabs(sin(1.7 * (double)i + 0.3)));
}

static void fill_input(const graph_run *run, gp_value value, int32_t classes) {
    gp_type type = gp_value_type(value);
    int64_t count = gp_shape_elements(type.shape);
    for (int64_t i = 0; i < count; i++) {
        if (type.dtype == GP_I32) {
            ((int32_t *)run->data[value.index])[i] = (int32_t)((i * 7 + 3) % classes);
        } else {
            data_of(run, value)[i] = some_number((size_t)i + 11);
        }
    }
}

static void fill_parameters(const gp_model *model, const graph_run *run, const gp_built *built) {
    const gp_parameter_use *uses = NULL;
    gp_model_uses(model, &uses);
    for (size_t i = 0; i < built->use_count; i++) {
        gp_parameter_info info = gp_model_parameter(model, uses[built->uses[i].use].parameter);
        int64_t count = gp_shape_elements(info.shape);
        float *values = gp_allocate_array((size_t)count, sizeof *values);
        gp_parameter_initialise(&info, 3, values);
        for (int64_t j = 0; j < count; j++)
            data_of(run, built->uses[i].value)[j] = (double)values[j];
        gp_free(values);
    }
}

static gp_built build(const gp_model *model, int32_t first, int32_t last) {
    gp_build_options options = {
        .first_layer = first, .last_layer = last, .batch = BATCH, .training = true, .gradients = true, .loss = true};
    gp_built built;
    assert_ok(gp_model_build(model, &options, &built));
    return built;
}

/* ---- finite differences ---- */

static double loss_of(const graph_run *run, const gp_built *built) {
    run_nodes(run, false);
    return *data_of(run, built->loss);
}

/* Checks the gradient of every element of every parameter by central differences. */
static void check_differences(gp_model *model, gp_device *device) {
    assert_ok(gp_model_finish(model));
    gp_built built = build(model, 0, (int32_t)gp_model_layer_count(model) - 1);
    graph_run run = start_run(built.graph, device);
    fill_parameters(model, &run, &built);
    fill_input(&run, built.arriving[0].value, 7);
    fill_input(&run, built.targets, 7);
    *data_of(&run, built.loss_gradient) = 1;
    run_nodes(&run, false);
    run_nodes(&run, true);
    const double step = 1e-5;
    for (size_t i = 0; i < built.use_count; i++) {
        double *values = data_of(&run, built.uses[i].value);
        int64_t count = gp_shape_elements(gp_value_type(built.uses[i].value).shape);
        for (int64_t j = 0; j < count; j++) {
            double kept = values[j], expected = 0, analytic = data_of(&run, built.uses[i].gradient)[j];
            values[j] = kept + step;
            expected += loss_of(&run, &built);
            values[j] = kept - step;
            expected -= loss_of(&run, &built);
            values[j] = kept;
            expected /= 2 * step;
            if (!(fabs(expected - analytic) <= 1e-6 * (1 + fabs(expected))))
                fail_msg("use %zu, element %d: %.12g by differences, %.12g by rule", i, (int)j, expected, analytic);
        }
    }
    end_run(&run);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

/* A linear layer before and behind, so that gradients of weights and of inputs both matter. */
static void check_between(gp_device *device, gp_layer *layer, int last) {
    gp_model *model = model_of(type_of(GP_F32, 2, (int64_t[]){3, 4}));
    use_squared_error(model);
    add_linear(model, 4);
    assert_ok(gp_model_add(model, layer));
    if (last) add_linear(model, last);
    check_differences(model, device);
}

static void test_layers(void **state) {
    gp_device *device = *state;
    const char *plain[] = {"layer_norm", "rms_norm", "relu",    "gelu",    "silu",      "sigmoid",
                           "tanh",       "softmax",  "dropout", "flatten", "positions", "batch_norm"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        check_between(device, layer_of(plain[i], NO_OPTIONS), 2);
    check_between(device, layer_of("gelu", OPTIONS(TEXT("approximate", "tanh"))), 2);
    check_between(device, layer_of("positions", OPTIONS(INTEGER("context", 5))), 2);
    check_between(device, layer_of("positions", OPTIONS(TEXT("kind", "sinusoidal"))), 2);
    check_between(device, layer_of("reshape", OPTIONS(TEXT("shape", "2,6"))), 2);
    check_between(device, layer_of("mean", OPTIONS(INTEGER("axis", 1))), 2);
    check_between(device, layer_of("mean", OPTIONS(INTEGER("axis", 2), BOOLEAN("keep", 1))), 0);
    check_between(device, layer_of("linear", OPTIONS(INTEGER("features", 3), BOOLEAN("bias", 0))), 2);
    check_between(device, layer_of("attention", OPTIONS(INTEGER("heads", 2), NUMBER("dropout", 0.2))), 2);
    check_between(device, layer_of("attention", OPTIONS(INTEGER("heads", 2), BOOLEAN("causal", 0))), 2);
    check_between(device, layer_of("feed_forward", OPTIONS(INTEGER("width", 3), NUMBER("dropout", 0.2))), 2);
    check_between(device, layer_of("transformer", OPTIONS(INTEGER("heads", 2), INTEGER("feed_forward", 3))), 0);
    check_between(device,
                  layer_of("transformer", OPTIONS(INTEGER("heads", 2), INTEGER("feed_forward", 3),
                                                  TEXT("norm", "rms_norm"), BOOLEAN("pre_norm", 0))),
                  2);
}

/* A convolution before, a linear layer behind. */
static void check_on_image(gp_device *device, gp_layer *layer) {
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){5, 4, 1}));
    use_squared_error(model);
    add(model, "conv2d", OPTIONS(INTEGER("channels", 4), TEXT("kernel", "2, 1"), TEXT("padding", "same")));
    assert_ok(gp_model_add(model, layer));
    add_linear(model, 2);
    check_differences(model, device);
}

static void test_images(void **state) {
    gp_device *device = *state;
    check_on_image(device,
                   layer_of("conv2d", OPTIONS(INTEGER("channels", 2), INTEGER("kernel", 2), INTEGER("groups", 2),
                                              TEXT("stride", "2, 1"), TEXT("padding", "1,0,0,1"))));
    check_on_image(device,
                   layer_of("conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 2), INTEGER("groups", 4),
                                              INTEGER("dilation", 2), BOOLEAN("bias", 0))));
    check_on_image(device, layer_of("max_pool", OPTIONS(INTEGER("kernel", 3), INTEGER("stride", 2),
                                                        TEXT("padding", "same"), BOOLEAN("ceil", 1))));
    check_on_image(device, layer_of("average_pool", OPTIONS(INTEGER("kernel", 2), TEXT("padding", "1"))));
    check_on_image(device, layer_of("global_average_pool", NO_OPTIONS));
    check_on_image(device, layer_of("upsample", OPTIONS(TEXT("factor", "2, 1"))));
    check_on_image(device, layer_of("factorised_reduction", OPTIONS(INTEGER("channels", 2))));
    check_on_image(device, layer_of("squeeze_excitation", OPTIONS(INTEGER("reduction", 2))));
    check_on_image(device, layer_of("drop_path", NO_OPTIONS));
    check_on_image(device, layer_of("drop_path", OPTIONS(BOOLEAN("scheduled", 1))));
    check_on_image(device, layer_of("batch_norm", OPTIONS(BOOLEAN("relu", 1))));
}

static void test_tokens(void **state) {
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){3}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 7), INTEGER("width", 4)));
    gp_layer *children[] = {layer_of("keep", OPTIONS(TEXT("name", "a"))),
                            layer_of("linear", OPTIONS(INTEGER("features", 4))), layer_of("tanh", NO_OPTIONS)};
    add_container(model, "residual", children, 3);
    add(model, "concatenate_kept", OPTIONS(TEXT("name", "a")));
    add_linear(model, 7);
    gp_loss loss = {.cross_entropy = {.label_smoothing = 0.1, .has_ignored = true, .ignored = 3}};
    assert_ok(gp_model_set_loss(model, &loss));
    check_differences(model, *state);

    model = model_of(type_of(GP_I32, 1, (int64_t[]){3}));
    add(model, "text_embedding", OPTIONS(INTEGER("vocabulary", 7), INTEGER("width", 4), NUMBER("dropout", 0.2)));
    add_linear(model, 7);
    gp_loss mixed = {.cross_entropy = {.label_smoothing = 0.1}, .mixed = true};
    assert_ok(gp_model_set_loss(model, &mixed));
    check_differences(model, *state);
}

/* ---- the same bits for every cut ---- */

/* Skips over several layers, one kept before and one inside a layer, a tied head, dropout everywhere. */
static gp_model *winding(void) {
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){5}));
    add(model, "text_embedding", OPTIONS(INTEGER("vocabulary", 7), INTEGER("width", 8), NUMBER("dropout", 0.1)));
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add(model, "transformer", OPTIONS(INTEGER("heads", 2), NUMBER("dropout", 0.1)));
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    gp_layer *children[] = {layer_of("keep", OPTIONS(TEXT("name", "b"))), layer_of("layer_norm", NO_OPTIONS)};
    add_container(model, "sequential", children, 2);
    add(model, "linear", OPTIONS(INTEGER("features", 7), TEXT("tie", "layers.0.token.weight")));
    add(model, "concatenate_kept", OPTIONS(TEXT("name", "b")));
    add_linear(model, 8);
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    add(model, "linear", OPTIONS(INTEGER("features", 7), TEXT("tie", "layers.0.token.weight"), BOOLEAN("bias", 0)));
    gp_loss loss = {.cross_entropy = {.label_smoothing = 0.1}};
    assert_ok(gp_model_set_loss(model, &loss));
    assert_ok(gp_model_finish(model));
    return model;
}

typedef struct stage {
    gp_built built;
    graph_run run;
} stage;

/* What a step gives: the loss and the gradient of every use. */
typedef struct step_result {
    double loss;
    double *gradients[MOST_PARAMETERS];
    size_t bytes[MOST_PARAMETERS];
} step_result;

static const gp_built_port *find_port(const gp_built_port *ports, size_t count, size_t port) {
    for (size_t i = 0; i < count; i++) {
        if (ports[i].port == port) return &ports[i];
    }
    return NULL;
}

/* Copies what leaves any stage to where it arrives (or gradients the other way). */
static void carry(const stage *from, const stage *to, bool gradients) {
    for (size_t i = 0; i < from->built.leaving_count; i++) {
        const gp_built_port *out = &from->built.leaving[i];
        const gp_built_port *in = find_port(to->built.arriving, to->built.arriving_count, out->port);
        if (!in || (gradients && !gp_value_valid(out->gradient))) continue;
        size_t bytes = to->run.device->class->bytes(gp_value_type(in->value));
        if (gradients) {
            memcpy(data_of(&from->run, out->gradient), data_of(&to->run, in->gradient), bytes);
        } else {
            memcpy(data_of(&to->run, in->value), data_of(&from->run, out->value), bytes);
        }
    }
}

static void run_stages(const gp_model *model, stage *stages, size_t count) {
    for (size_t s = 0; s < count; s++) {
        fill_parameters(model, &stages[s].run, &stages[s].built);
        if (s == 0) fill_input(&stages[s].run, stages[s].built.arriving[0].value, 7);
        for (size_t earlier = 0; earlier < s; earlier++)
            carry(&stages[earlier], &stages[s], false);
        run_nodes(&stages[s].run, false);
    }
    stage *last = &stages[count - 1];
    fill_input(&last->run, last->built.targets, 7);
    run_nodes(&last->run, false);
    *data_of(&last->run, last->built.loss_gradient) = 0.1;
    for (size_t s = count; s-- > 0;) {
        for (size_t later = s + 1; later < count; later++)
            carry(&stages[s], &stages[later], true);
        run_nodes(&stages[s].run, true);
    }
}

static step_result step(const gp_model *model, gp_device *device, const int32_t *bounds, size_t count) {
    stage stages[MOST_STAGES];
    step_result result = {0};
    for (size_t s = 0; s < count; s++) {
        stages[s].built = build(model, bounds[s], bounds[s + 1] - 1);
        stages[s].run = start_run(stages[s].built.graph, device);
    }
    run_stages(model, stages, count);
    result.loss = *data_of(&stages[count - 1].run, stages[count - 1].built.loss);
    for (size_t s = 0; s < count; s++) {
        for (size_t i = 0; i < stages[s].built.use_count; i++) {
            const gp_built_use *use = &stages[s].built.uses[i];
            size_t bytes = device->class->bytes(gp_value_type(use->gradient));
            assert_true(use->use < MOST_PARAMETERS);
            result.gradients[use->use] = gp_allocate(bytes);
            result.bytes[use->use] = bytes;
            memcpy(result.gradients[use->use], data_of(&stages[s].run, use->gradient), bytes);
        }
        end_run(&stages[s].run);
        gp_built_destroy(&stages[s].built);
    }
    return result;
}

static void free_result(step_result *result) {
    for (size_t i = 0; i < MOST_PARAMETERS; i++)
        gp_free(result->gradients[i]);
}

static void check_cut(const gp_model *model, gp_device *device, const step_result *whole, const int32_t *bounds,
                      size_t count) {
    step_result cut = step(model, device, bounds, count);
    assert_memory_equal(&cut.loss, &whole->loss, sizeof cut.loss);
    for (size_t i = 0; i < MOST_PARAMETERS; i++) {
        assert_int_equal(cut.bytes[i], whole->bytes[i]);
        if (cut.bytes[i]) assert_memory_equal(cut.gradients[i], whole->gradients[i], cut.bytes[i]);
    }
    free_result(&cut);
}

static void test_same_bits(void **state) {
    gp_device *device = *state;
    gp_model *model = winding();
    int32_t layers = (int32_t)gp_model_layer_count(model), all[MOST_STAGES];
    step_result whole = step(model, device, (int32_t[]){0, layers}, 1);
    assert_true(isfinite(whole.loss) && whole.loss > 0);
    size_t uses = gp_model_uses(model, NULL);
    for (size_t i = 0; i < uses; i++)
        assert_true(whole.bytes[i] > 0);
    for (int32_t first = 1; first < layers; first++) {
        check_cut(model, device, &whole, (int32_t[]){0, first, layers}, 2);
        for (int32_t second = first + 1; second < layers; second++)
            check_cut(model, device, &whole, (int32_t[]){0, first, second, layers}, 3);
    }
    for (int32_t i = 0; i <= layers; i++)
        all[i] = i;
    check_cut(model, device, &whole, all, (size_t)layers);
    free_result(&whole);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
