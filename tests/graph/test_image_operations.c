/* Shapes and FLOPs of image operations, and what they refuse. */
#include <math.h>

#include "build.h"

static int begin(void **state) {
    *state = new_graph(true);
    return 0;
}

static int end(void **state) {
    gp_graph_destroy(*state);
    return 0;
}

/* ---- convolution ---- */

static void convolution_shapes(void **state) {
    gp_graph *g = *state;
    gp_value w = parameter(g, "f32[8,3,3,3]"), b = parameter(g, "f32[8]"), x = given(g, "bf16[2,7,10,3]");
    gp_value y = gp_convolution(x, w, b, NULL);
    assert_type(y, "bf16[2,5,8,8]");
    assert_true(flops_of(y) == 2.0 * (2 * 5 * 8 * 8) * 27 + 2 * 5 * 8 * 8);
    y = gp_convolution(x, w, gp_none(), &(gp_convolution_options){.padding = GP_PADDING_SAME, .stride = {2, 3}});
    assert_type(y, "bf16[2,4,4,8]");
    gp_convolution_options uneven = {
        .padding = GP_PADDING_EXPLICIT, .before = {1, 0}, .after = {2, 3}, .stride = {2, 2}, .dilation = {1, 4}};
    assert_type(gp_convolution(x, w, b, &uneven), "bf16[2,4,3,8]");
    y = gp_convolution(x, parameter(g, "f32[6,1,1,7]"), gp_none(), &(gp_convolution_options){.groups = 3});
    assert_type(y, "bf16[2,7,4,6]");
    assert_true(flops_of(y) == 2.0 * (2 * 7 * 4 * 6) * 7);
    assert_type(gp_convolution(given(g, "f32[0,3,3,3]"), w, b, NULL), "f32[0,1,1,8]");
}

/* SAME gives ceil(size / stride) windows, whatever the rest. */
static void same_padding(void **state) {
    gp_graph *g = *state;
    for (int64_t size = 1; size <= 9; size++) {
        for (int64_t kernel = 1; kernel <= 5; kernel++) {
            for (int64_t stride = 1; stride <= 3; stride++) {
                gp_value x = gp_graph_input(g, (gp_type){GP_F32, {4, {1, size, 2 * size, 1}}});
                gp_value w = gp_graph_parameter(g, (gp_shape){4, {1, 1, kernel, 1}});
                gp_convolution_options options = {.padding = GP_PADDING_SAME, .stride = {stride, stride}};
                gp_value y = gp_convolution(x, w, gp_none(), &options);
                assert_int_equal(gp_value_type(y).shape.dims[1], (size + stride - 1) / stride);
                assert_int_equal(gp_value_type(y).shape.dims[2], (2 * size + stride - 1) / stride);
                const gp_convolution_attributes *a = g->nodes[g->values[y.index].node].attributes;
                int64_t rest = a->window.after[0] - a->window.before[0];
                assert_true(rest == 0 || rest == 1);
            }
        }
    }
}

static void convolution_refuses(void **state) {
    gp_graph *g = *state;
    static const char *const bad[][3] = {
        {"f32[2,7,7,3]", "f32[8,4,3,3]", NULL},     {"f32[2,7,7,3]", "f32[8,3,9,3]", NULL},
        {"f32[7,7,3]", "f32[8,3,3,3]", NULL},       {"i32[2,7,7,3]", "f32[8,3,3,3]", NULL},
        {"f32[2,7,7,3]", "f32[8,3,3]", NULL},       {"f32[2,7,7,3]", "bf16[8,3,3,3]", NULL},
        {"f32[2,7,7,3]", "f32[8,3,3,3]", "f32[7]"}, {"f32[2,7,7,3]", "f32[8,3,3,3]", "bf16[8]"},
        {"f32[2,7,0,3]", "f32[8,3,3,3]", NULL},     {"f32[2,7,7,3]", "f32[8,3,0,3]", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gp_value bias = bad[i][2] ? given(g, bad[i][2]) : gp_none();
        assert_refused(gp_convolution(given(g, bad[i][0]), given(g, bad[i][1]), bias, NULL), "convolution", bad[i][0],
                       bad[i][1]);
    }
    gp_value x = given(g, "f32[2,7,7,6]"), w = parameter(g, "f32[8,3,3,3]");
    static const gp_convolution_options options[] = {
        {.groups = 1},
        {.groups = -2},
        {.groups = 3},
        {.groups = 2, .stride = {-1, 1}},
        {.groups = 2, .dilation = {1, -1}},
        {.groups = 2, .dilation = {4, 1}},
        {.groups = 2, .stride = {INT64_MAX, INT64_MAX}},
        {.groups = 2, .dilation = {INT64_MAX, 1}},
        {.groups = 2, .padding = GP_PADDING_EXPLICIT, .before = {-1, 0}},
        {.groups = 2, .padding = GP_PADDING_EXPLICIT, .after = {0, INT64_MAX}}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_refused(gp_convolution(x, w, gp_none(), &options[i]), "convolution", "f32[2,7,7,6]", "f32[8,3,3,3]");
    assert_type(gp_convolution(x, w, gp_none(), &(gp_convolution_options){.groups = 2}), "f32[2,5,5,8]");
    assert_refused(gp_convolution(x, gp_none(), gp_none(), NULL), "convolution", "f32[2,7,7,6], none", "operand 1");
}

/* ---- pooling ---- */

static void pooling_shapes(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,7,10,3]"), y;
    y = gp_max_pool(x, &(gp_pool_options){.kernel = {2, 3}});
    assert_type(y, "bf16[2,3,3,3]");
    assert_output(y, 1, "u8[2,3,3,3]");
    assert_true(flops_of(y) == 2 * 3 * 3 * 3 * 6);
    assert_type(gp_average_pool(x, &(gp_pool_options){.kernel = {2, 3}, .ceil = true}), "bf16[2,4,4,3]");
    gp_pool_options options = {.kernel = {3, 3}, .stride = {2, 2}, .padding = GP_PADDING_SAME};
    assert_type(gp_average_pool(x, &options), "bf16[2,4,5,3]");
    options = (gp_pool_options){
        .kernel = {3, 3}, .stride = {2, 2}, .padding = GP_PADDING_EXPLICIT, .before = {1, 1}, .after = {1, 1}};
    assert_type(gp_max_pool(x, &options), "bf16[2,4,5,3]");
    assert_type(gp_max_pool(x, &(gp_pool_options){.kernel = {1, 1}, .stride = {2, 2}}), "bf16[2,4,5,3]");
    assert_type(gp_global_average_pool(x), "bf16[2,3]");
}

/* With `ceil` a window that would begin behind the image is not added (as in PyTorch). */
static void ceil_windows(void **state) {
    gp_graph *g = *state;
    gp_pool_options options = {.kernel = {2, 2}, .stride = {3, 3}, .ceil = true};
    assert_type(gp_average_pool(given(g, "f32[1,5,6,1]"), &options), "f32[1,2,2,1]");
    assert_type(gp_average_pool(given(g, "f32[1,7,4,1]"), &options), "f32[1,3,2,1]");
    gp_pool_options strided = {.kernel = {1, 1}, .stride = {4, 4}, .ceil = true};
    assert_type(gp_average_pool(given(g, "f32[1,4,5,1]"), &strided), "f32[1,1,2,1]");
}

static void pooling_refuses(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[2,7,7,3]");
    static const gp_pool_options bad[] = {
        {.kernel = {0, 2}},
        {.kernel = {8, 2}},
        {.kernel = {-1, 2}},
        {.kernel = {2, 2}, .stride = {1, -1}},
        {.kernel = {2, 2}, .padding = GP_PADDING_EXPLICIT, .before = {2, 0}},
        {.kernel = {2, 2}, .stride = {1, 1}, .padding = GP_PADDING_EXPLICIT, .after = {0, 2}},
        {.kernel = {2, 2}, .padding = GP_PADDING_EXPLICIT, .after = {0, -1}},
        {.kernel = {INT64_MAX, INT64_MAX}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(gp_max_pool(x, &bad[i]), "max_pool", "f32[2,7,7,3]", NULL);
        assert_refused(gp_average_pool(x, &bad[i]), "average_pool", "f32[2,7,7,3]", NULL);
    }
    assert_refused(gp_max_pool(x, NULL), "max_pool", "kernel", NULL);
    gp_value large = given(g, "f32[1,17,17,1]");
    gp_pool_options wide = {.kernel = {17, 17}};
    assert_refused(gp_max_pool(large, &wide), "max_pool", "f32[1,17,17,1]", "256");
    assert_type(gp_average_pool(large, &wide), "f32[1,1,1,1]");
    gp_pool_options two = {.kernel = {2, 2}};
    assert_refused(gp_average_pool(given(g, "f32[7,7,3]"), &two), "average_pool", "f32[7,7,3]", NULL);
    assert_refused(gp_global_average_pool(given(g, "f32[2,7,3]")), "global_average_pool", "f32[2,7,3]", NULL);
    assert_refused(gp_global_average_pool(given(g, "f32[2,0,7,3]")), "global_average_pool", "f32[2,0,7,3]", NULL);
}

/* ---- batch norm ---- */

static void batch_norm(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,4,4,8]"), w = parameter(g, "f32[8]"), wrong = parameter(g, "f32[7]"), mean, variance;
    gp_batch_norm_options options = {1e-5, false}, negative = {-1, false};
    assert_type(gp_batch_norm(x, w, w, &options, &mean, &variance), "bf16[2,4,4,8]");
    assert_type(mean, "f32[8]");
    assert_type(variance, "f32[8]");
    assert_type(gp_batch_norm(x, w, w, NULL, NULL, NULL), "bf16[2,4,4,8]");
    assert_type(gp_batch_norm_inference(x, w, w, mean, variance, &options), "bf16[2,4,4,8]");
    assert_refused(gp_batch_norm(x, wrong, w, &options, NULL, NULL), "batch_norm", "bf16[2,4,4,8]", "f32[7]");
    assert_refused(gp_batch_norm(x, w, wrong, &options, NULL, NULL), "batch_norm", "bf16[2,4,4,8]", "f32[7]");
    assert_refused(gp_batch_norm(x, w, gp_none(), &options, NULL, NULL), "batch_norm", "none", NULL);
    assert_refused(gp_batch_norm(x, w, w, &negative, NULL, NULL), "batch_norm", "bf16[2,4,4,8]", "epsilon is -1");
    assert_refused(gp_batch_norm(w, w, w, &options, NULL, NULL), "batch_norm", "f32[8]", NULL);
    assert_refused(gp_batch_norm(given(g, "f32[0,8]"), w, w, &options, NULL, NULL), "batch_norm", "f32[0,8]", NULL);
    assert_refused(gp_batch_norm_inference(x, w, w, wrong, variance, &options), "batch_norm_inference", "bf16[2,4,4,8]",
                   "f32[7]");
}

/* Nothing flows back through statistics, which is an error where somebody asks for it. */
static void statistics_have_no_gradient(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4,3]"), w = parameter(g, "f32[3]"), mean, variance, gradient;
    gp_value y = gp_batch_norm(x, w, w, NULL, &mean, &variance);
    gp_value z = gp_add(y, mean), dz = given(g, "f32[4,3]");
    assert_int_equal(gp_graph_gradients(g, &z, &dz, 1, &x, &gradient, 1), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "batch_norm: only the result has a gradient"));
    gp_graph *other = new_graph(true);
    x = given(other, "f32[4,3]");
    w = parameter(other, "f32[3]");
    z = gp_batch_norm_inference(x, w, w, w, w, NULL);
    dz = given(other, "f32[4,3]");
    assert_int_equal(gp_graph_gradients(other, &z, &dz, 1, &w, &gradient, 1), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "given statistics have no gradient"));
    gp_graph_destroy(other);
}

/* ---- pixels, paths, channels ---- */

static void pixels(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,4,5,3]");
    static const int64_t none[4] = {0}, before[4] = {0, 2, -1, 0}, after[4] = {0, -1, 1, 5};
    assert_type(gp_pad(x, before, after), "bf16[2,5,5,8]");
    assert_int_equal(gp_pad(x, none, none).index, x.index);
    assert_type(gp_pixel_shift(x, 3, -4), "bf16[2,4,5,3]");
    assert_int_equal(gp_pixel_shift(x, 0, 0).index, x.index);
    assert_type(gp_upsample(x, 2, 3), "bf16[2,8,15,3]");
    assert_int_equal(gp_upsample(x, 1, 1).index, x.index);
    static const int64_t bad[][4] = {{1, 0, 0, 0}, {0, -4, 0, 0}, {0, INT64_MIN, 0, 0}, {0, INT64_MAX, 0, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(gp_pad(x, bad[i], none), "pad", "bf16[2,4,5,3]", NULL);
        assert_refused(gp_pad(x, none, bad[i]), "pad", "bf16[2,4,5,3]", NULL);
    }
    assert_refused(gp_pad(given(g, "i32[2,3]"), none, after), "pad", "i32[2,3]", NULL);
    assert_refused(gp_pixel_shift(x, 4, 0), "pixel_shift", "bf16[2,4,5,3]", "4 rows");
    assert_refused(gp_pixel_shift(x, 0, -5), "pixel_shift", "bf16[2,4,5,3]", "-5 columns");
    assert_refused(gp_pixel_shift(given(g, "f32[2,3]"), 1, 1), "pixel_shift", "f32[2,3]", NULL);
    assert_refused(gp_upsample(x, 0, 2), "upsample", "bf16[2,4,5,3]", "factors 0 and 2");
    assert_refused(gp_upsample(x, INT64_MAX, 2), "upsample", "bf16[2,4,5,3]", NULL);
    assert_refused(gp_upsample(given(g, "f32[2,3]"), 2, 2), "upsample", "f32[2,3]", NULL);
}

static void paths_and_channels(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "bf16[2,4,5,3]"), y = gp_drop_path(x, 0.25, true);
    assert_type(y, "bf16[2,4,5,3]");
    const gp_drop_path_attributes *attributes = g->nodes[g->values[y.index].node].attributes;
    assert_true(attributes->scheduled && attributes->p == 0.25);
    assert_int_equal(gp_drop_path(x, 0, false).index, x.index);
    static const double bad[] = {-0.1, 1.0, (double)NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(gp_drop_path(x, bad[i], false), "drop_path", "bf16[2,4,5,3]", "p is");
    g->training = false;
    assert_int_equal(gp_drop_path(x, 0.5, false).index, x.index);
    assert_type(gp_channel_scale(x, given(g, "bf16[2,3]")), "bf16[2,4,5,3]");
    static const char *const scales[] = {"bf16[3]", "bf16[2,4]", "bf16[1,3]", "f32[2,3]", "bf16[2,1,3]"};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        assert_refused(gp_channel_scale(x, given(g, scales[i])), "channel_scale", "bf16[2,4,5,3]", scales[i]);
    assert_refused(gp_channel_scale(given(g, "f32[3]"), given(g, "f32[1,3]")), "channel_scale", "f32[3]", "f32[1,3]");
}

/* The operations that only gradient rules apply check their operands just the same. */
static void gradients_refuse(void **state) {
    gp_graph *g = *state;
    static const gp_convolution_attributes convolution = {
        .window = {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .image = {5, 5}}, .groups = 1};
    static const gp_image_attributes none;
    static const gp_upsample_attributes upsample = {2, 2};
    static const gp_batch_norm_attributes norm;
    static const struct {
        gp_op_id id;
        const void *attributes;
        const char *types[8];
    } bad[] = {
        {GP_OP_CONVOLUTION_INPUT_GRADIENT, &convolution, {"f32[2,3,4,8]", "f32[8,3,3,3]"}},
        {GP_OP_CONVOLUTION_INPUT_GRADIENT, &convolution, {"f32[2,3,3,8]", "f32[8,3,3,2]"}},
        {GP_OP_CONVOLUTION_INPUT_GRADIENT, &convolution, {"f32[2,3,3,8]", "f32[7,3,3,3]"}},
        {GP_OP_CONVOLUTION_WEIGHT_GRADIENT, &convolution, {"f32[2,3,3,8]", "f32[2,5,6,3]"}},
        {GP_OP_CONVOLUTION_WEIGHT_GRADIENT, &convolution, {"f32[1,3,3,8]", "f32[2,5,5,3]"}},
        {GP_OP_CONVOLUTION_WEIGHT_GRADIENT, &convolution, {"bf16[2,3,3,8]", "f32[2,5,5,3]"}},
        {GP_OP_MAX_POOL_GRADIENT, &convolution.window, {"f32[2,3,3,8]", "u8[2,3,3,7]"}},
        {GP_OP_MAX_POOL_GRADIENT, &convolution.window, {"f32[2,3,3,8]", "f32[2,3,3,8]"}},
        {GP_OP_MAX_POOL_GRADIENT, &convolution.window, {"f32[2,2,3,8]", "u8[2,2,3,8]"}},
        {GP_OP_AVERAGE_POOL_GRADIENT, &convolution.window, {"f32[2,2,3,8]"}},
        {GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, &none, {"f32[2,8]"}},
        {GP_OP_BATCH_NORM_WEIGHT_GRADIENT, &norm, {"f32[2,8]", "bf16[2,8]", "f32[8]", "f32[8]", "f32[8]", "f32[8]"}},
        {GP_OP_BATCH_NORM_GRADIENT,
         &norm,
         {"f32[2,8]", "f32[2,8]", "f32[8]", "f32[8]", "f32[8]", "f32[8]", "f32[8]", "f32[7]"}},
        {GP_OP_BATCH_NORM_INFERENCE_GRADIENT, &norm, {"f32[3,8]", "f32[2,8]", "f32[8]", "f32[8]", "f32[8]", "f32[8]"}},
        {GP_OP_UPSAMPLE_GRADIENT, &upsample, {"f32[2,3,4,8]"}},
        {GP_OP_CHANNEL_SCALE_GRADIENT, NULL, {"f32[2,3,4,8]", "f32[2,3,5,8]"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gp_value inputs[8], outputs[2];
        size_t count = 0;
        for (; count < 8 && bad[i].types[count]; count++)
            inputs[count] = given(g, bad[i].types[count]);
        gp_op_apply(gp_op_class_of(bad[i].id), bad[i].attributes, inputs, count, outputs,
                    bad[i].id == GP_OP_BATCH_NORM_WEIGHT_GRADIENT ? 2 : 1);
        assert_refused(outputs[0], gp_op_name(bad[i].id), bad[i].types[0], bad[i].types[count - 1]);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(convolution_shapes),
                                       TEST(same_padding),
                                       TEST(convolution_refuses),
                                       TEST(pooling_shapes),
                                       TEST(ceil_windows),
                                       TEST(pooling_refuses),
                                       TEST(batch_norm),
                                       TEST(statistics_have_no_gradient),
                                       TEST(pixels),
                                       TEST(paths_and_channels),
                                       TEST(gradients_refuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
