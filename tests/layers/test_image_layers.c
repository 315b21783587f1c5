/* Layers of images: shapes, names, initial values, what some of them compute, and what is said about wrong options. */
#include <math.h>

#include "layers/run_graph.h"

/* The type that a layer makes of an image [8, 6, 4]; the model is kept for a closer look when `kept` is given. */
static void check_shape(const char *kind, const gp_option *options, size_t count, const char *type,
                        int64_t parameters) {
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){8, 6, 4}));
    use_squared_error(model);
    add(model, kind, options, count);
    assert_ok(gp_model_finish(model));
    assert_type(gp_model_output_type(model), type);
    assert_int_equal(gp_model_parameter_count(model), parameters);
    gp_model_destroy(model);
}

static void test_shapes(void **state) {
    (void)state;
    check_shape("conv2d", OPTIONS(INTEGER("channels", 10), INTEGER("kernel", 3)), "f32[6,4,10]", 4 * 9 * 10 + 10);
    check_shape("conv2d", OPTIONS(INTEGER("channels", 10), INTEGER("kernel", 3), TEXT("padding", "same")),
                "f32[8,6,10]", 4 * 9 * 10 + 10);
    check_shape("conv2d",
                OPTIONS(INTEGER("channels", 10), TEXT("kernel", "1, 5"), INTEGER("stride", 2), TEXT("padding", "same"),
                        BOOLEAN("bias", 0)),
                "f32[4,3,10]", 4 * 5 * 10);
    check_shape("conv2d",
                OPTIONS(INTEGER("channels", 8), INTEGER("kernel", 3), TEXT("stride", "2, 1"), TEXT("padding", "1"),
                        INTEGER("groups", 4)),
                "f32[4,6,8]", 9 * 8 + 8);
    check_shape("conv2d",
                OPTIONS(INTEGER("channels", 2), INTEGER("kernel", 3), TEXT("padding", "2, 1"), INTEGER("dilation", 2)),
                "f32[8,4,2]", 4 * 9 * 2 + 2);
    check_shape("conv2d", OPTIONS(INTEGER("channels", 2), INTEGER("kernel", 1), TEXT("padding", "1,2,3,4")),
                "f32[11,13,2]", 4 * 2 + 2);
    check_shape("max_pool", OPTIONS(INTEGER("kernel", 2)), "f32[4,3,4]", 0);
    check_shape("max_pool", OPTIONS(INTEGER("kernel", 3), INTEGER("stride", 2)), "f32[3,2,4]", 0);
    check_shape("max_pool", OPTIONS(INTEGER("kernel", 3), INTEGER("stride", 2), BOOLEAN("ceil", 1)), "f32[4,3,4]", 0);
    check_shape("average_pool", OPTIONS(TEXT("kernel", "4, 3"), TEXT("padding", "same"), INTEGER("stride", 1)),
                "f32[8,6,4]", 0);
    check_shape("global_average_pool", NO_OPTIONS, "f32[4]", 0);
    check_shape("upsample", NO_OPTIONS, "f32[16,12,4]", 0);
    check_shape("upsample", OPTIONS(TEXT("factor", "3, 1")), "f32[24,6,4]", 0);
    check_shape("factorised_reduction", OPTIONS(INTEGER("channels", 6)), "f32[4,3,6]", 2 * 4 * 3 + 2 * 6);
    check_shape("squeeze_excitation", OPTIONS(INTEGER("reduction", 2)), "f32[8,6,4]", 2 * (4 * 2) + 2 + 4);
    check_shape("drop_path", NO_OPTIONS, "f32[8,6,4]", 0);
    check_shape("flatten", NO_OPTIONS, "f32[192]", 0);
}

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"layers.0.weight",        "layers.0.bias",        "layers.1.path1.weight",
                                        "layers.1.path2.weight",  "layers.1.norm.weight", "layers.1.norm.bias",
                                        "layers.2.reduce.weight", "layers.2.reduce.bias", "layers.2.expand.weight",
                                        "layers.2.expand.bias"};
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){8, 6, 4}));
    use_squared_error(model);
    add(model, "conv2d", OPTIONS(INTEGER("channels", 3), TEXT("kernel", "5, 2")));
    add(model, "factorised_reduction", OPTIONS(INTEGER("channels", 32)));
    add(model, "squeeze_excitation", NO_OPTIONS);
    assert_ok(gp_model_finish(model));
    assert_int_equal(gp_model_parameters(model), sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(gp_model_parameter(model, i).name, names[i]);
    gp_parameter_info weight = gp_model_parameter(model, 0), bias = gp_model_parameter(model, 1);
    assert_type((gp_type){GP_F32, weight.shape}, "f32[3,4,5,2]");
    assert_int_equal(weight.init.kind, GP_INIT_UNIFORM); /* as PyTorch: 1 / sqrt(inputs of a window) */
    assert_true(fabs(weight.init.value - 1 / sqrt(40)) < 1e-15);
    assert_true(bias.init.kind == GP_INIT_UNIFORM && bias.init.value == weight.init.value);
    gp_model_destroy(model);
}

/* Outputs that have an input of their number begin as that input; the others, and biases, as without it. */
static void test_identity(void **state) {
    (void)state;
    enum { OUTPUTS = 6, INPUTS = 4, WINDOW = 3 * 5, MIDDLE = 7 };
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){8, 6, INPUTS}));
    use_squared_error(model);
    add(model, "conv2d", OPTIONS(INTEGER("channels", OUTPUTS), TEXT("kernel", "3, 5"), BOOLEAN("identity", 1)));
    assert_ok(gp_model_finish(model));
    float weights[OUTPUTS * INPUTS * WINDOW], biases[OUTPUTS];
    gp_parameter_info weight = gp_model_parameter(model, 0), bias = gp_model_parameter(model, 1);
    gp_parameter_initialise(&weight, 1, weights);
    gp_parameter_initialise(&bias, 1, biases);
    float limit = (float)(1 / sqrt(INPUTS * WINDOW));
    for (int i = 0; i < OUTPUTS * INPUTS * WINDOW; i++) {
        int output = i / (INPUTS * WINDOW);
        if (output < INPUTS)
            assert_true(weights[i] == (i == (output * INPUTS + output) * WINDOW + MIDDLE ? 1.0f : 0.0f));
        else
            assert_true(weights[i] != 0 && fabsf(weights[i]) <= limit);
    }
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(biases[i] != 0 && fabsf(biases[i]) <= limit);
    gp_model_destroy(model);
}

/* A 1x1 convolution of stride 2 of the image, and one of the image without its first row and column. */
static void test_factorised_reduction(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_ok(gp_device_create_reference(&device, NULL));
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){3, 4, 1}));
    use_squared_error(model);
    add(model, "factorised_reduction", OPTIONS(INTEGER("channels", 2)));
    assert_ok(gp_model_finish(model));
    gp_built built;
    assert_ok(gp_model_build(model, &(gp_build_options){.last_layer = 0, .batch = 1, .dtype = GP_F32}, &built));
    graph_run run = start_run(built.graph, device);
    for (int i = 0; i < 12; i++)
        data_of(&run, built.arriving[0].value)[i] = i + 1;
    static const double parameters[4][2] = {{1}, {10}, {1, 1}, {0, 0}}; /* path1, path2, norm's weight and bias */
    for (size_t i = 0; i < 4; i++)
        memcpy(data_of(&run, built.uses[i].value), parameters[i], (i < 2 ? 1 : 2) * sizeof(double));
    for (size_t i = 0; i < built.state_count; i++) { /* mean 0, variance 1 */
        for (int c = 0; c < 2; c++)
            data_of(&run, built.states[i].value)[c] = (double)i;
    }
    run_nodes(&run, false);
    static const double expected[] = {1, 60, 3, 80, 9, 0, 11, 0};
    for (int i = 0; i < 8; i++)
        assert_true(fabs(data_of(&run, built.output)[i] - expected[i] / sqrt(1 + 1e-5)) < 1e-9);
    end_run(&run);
    gp_built_destroy(&built);
    gp_model_destroy(model);
    gp_device_destroy(device);
}

/* A branch of stride 2 to 6 channels, as in a ResNet; without projection it is refused. */
static void test_projection(void **state) {
    (void)state;
    for (int projection = 0; projection < 2; projection++) {
        gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){7, 6, 4}));
        use_squared_error(model);
        gp_layer *layer = NULL,
                 *inside = layer_of("conv2d", OPTIONS(INTEGER("channels", 6), INTEGER("kernel", 3),
                                                      INTEGER("stride", 2), TEXT("padding", "1"), BOOLEAN("bias", 0)));
        assert_ok(gp_layer_create_builtin(&layer, "residual", OPTIONS(BOOLEAN("projection", projection)), &inside, 1));
        assert_ok(gp_model_add(model, layer));
        if (projection) {
            assert_ok(gp_model_finish(model));
            assert_type(gp_model_output_type(model), "f32[4,3,6]");
            assert_int_equal(gp_model_parameter_count(model), 9 * 4 * 6 + 4 * 6 + 2 * 6);
            assert_string_equal(gp_model_parameter(model, 1).name, "layers.0.shortcut.conv.weight");
        } else {
            assert_message(gp_model_finish(model), GP_INVALID, "residual: the layers inside return f32[2,4,3,6]");
        }
        gp_model_destroy(model);
    }
}

static gp_status try_layer(const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    gp_status status = gp_layer_create_builtin(&layer, kind, options, count, NULL, 0);
    gp_layer_destroy(layer);
    return status;
}

static gp_status try_on_image(const char *kind, const gp_option *options, size_t count) {
    gp_model *model = model_of(type_of(GP_F32, 3, (int64_t[]){8, 6, 4}));
    use_squared_error(model);
    add(model, kind, options, count);
    gp_status status = gp_model_finish(model);
    gp_model_destroy(model);
    return status;
}

static void test_errors(void **state) {
    (void)state;
    static const char *const kernels[] = {"", "0", "a", "1,", "1, 2, 3", "1 2", "3.5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 1), TEXT("kernel", kernels[i]))), GP_INVALID,
                       "option \"kernel\" of layer conv2d");
    static const char *const paddings[] = {"", "some", "-1", "1, 2, 3", "1, 2, 3, 4, 5"};
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++)
        assert_message(try_layer("max_pool", OPTIONS(INTEGER("kernel", 2), TEXT("padding", paddings[i]))), GP_INVALID,
                       "valid, same, or 1, 2 or 4");
    assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 1))), GP_INVALID, "needs option \"kernel\"");
    assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 1), INTEGER("kernel", 0))), GP_INVALID, "kernel");
    assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 1), NUMBER("kernel", 3))), GP_INVALID,
                   "is a number, but an integer or several is accepted");
    assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 3), NUMBER("init", 0.1),
                                               BOOLEAN("identity", 1))),
                   GP_INVALID, "identity goes with one group and without init");
    assert_message(try_layer("conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 3), INTEGER("groups", 2),
                                               BOOLEAN("identity", 1))),
                   GP_INVALID, "identity goes with one group and without init");
    assert_message(try_layer("drop_path", OPTIONS(NUMBER("p", 1))), GP_INVALID, "less than 1");
    assert_message(try_on_image("conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 1), INTEGER("groups", 3))),
                   GP_INVALID, "layer 0 (conv2d): convolution: 3 groups do not divide 4 input and 4 output channels");
    assert_message(try_on_image("conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 7))), GP_INVALID,
                   "a window of 7 does not fit");
    assert_message(try_on_image("factorised_reduction", OPTIONS(INTEGER("channels", 3))), GP_INVALID, "even");
    assert_message(try_on_image("squeeze_excitation", NO_OPTIONS), GP_INVALID, "16th of 4 channels");
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){8}));
    add(model, "conv2d", OPTIONS(INTEGER("channels", 4), INTEGER("kernel", 1)));
    assert_message(gp_model_finish(model), GP_INVALID, "the input is f32[2,8], but [batch, height, width, channels]");
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),     cmocka_unit_test(test_names),    cmocka_unit_test(test_factorised_reduction),
        cmocka_unit_test(test_projection), cmocka_unit_test(test_identity), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
