/* Graphs of image operations for the test of gradient rules; see gradient_cases.h. */
#include "gradient_cases.h"

/* ---- convolution ---- */

static gp_value convolution(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 4, 5, 3)), w = parameter(f, SHAPE(2, 3, 3, 2)), b = parameter(f, SHAPE(2));
    return gp_convolution(x, w, b, NULL);
}

static gp_value convolution_same(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 4, 5, 2)), w = parameter(f, SHAPE(3, 2, 3, 3));
    gp_convolution_options options = {.stride = {2, 2}, .padding = GP_PADDING_SAME};
    return gp_convolution(x, w, gp_none(), &options);
}

/* Everything uneven; the last row is reached by no window. */
static gp_value convolution_explicit(fixture *f) {
    gp_value x = activation(f, SHAPE(1, 6, 5, 2)), w = parameter(f, SHAPE(2, 2, 2, 3));
    gp_convolution_options options = {
        .stride = {3, 1}, .dilation = {1, 2}, .padding = GP_PADDING_EXPLICIT, .before = {0, 2}, .after = {1, 0}};
    return gp_convolution(x, w, gp_none(), &options);
}

static gp_value convolution_grouped(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 3, 4)), w = parameter(f, SHAPE(6, 2, 2, 2)), b = parameter(f, SHAPE(6));
    return gp_convolution(x, w, b, &(gp_convolution_options){.groups = 2});
}

static gp_value convolution_depthwise(fixture *f) {
    gp_value x = activation(f, SHAPE(1, 5, 5, 3)), w = parameter(f, SHAPE(3, 1, 3, 3));
    gp_convolution_options options = {.groups = 3, .dilation = {2, 2}, .padding = GP_PADDING_SAME};
    return gp_convolution(x, w, gp_none(), &options);
}

static gp_value convolution_1x7_7x1(fixture *f) {
    gp_value x = activation(f, SHAPE(1, 4, 8, 2)), wide = parameter(f, SHAPE(2, 2, 1, 7));
    gp_value high = parameter(f, SHAPE(1, 2, 7, 1));
    gp_convolution_options first = {.stride = {1, 2}, .padding = GP_PADDING_SAME};
    gp_convolution_options second = {.stride = {2, 1}, .padding = GP_PADDING_SAME};
    return gp_convolution(gp_convolution(x, wide, gp_none(), &first), high, gp_none(), &second);
}

/* ---- pooling ---- */

static gp_value max_pool(fixture *f) {
    gp_pool_options options = {.kernel = {3, 2}, .stride = {2, 1}, .padding = GP_PADDING_SAME};
    return gp_max_pool(activation(f, SHAPE(2, 5, 4, 3)), &options);
}

static gp_value average_pool(fixture *f) {
    gp_pool_options options = {.kernel = {3, 3}, .stride = {2, 2}, .padding = GP_PADDING_SAME};
    return gp_average_pool(activation(f, SHAPE(2, 5, 4, 3)), &options);
}

static gp_value average_pool_ceil(fixture *f) {
    gp_pool_options options = {.kernel = {2, 3},
                               .stride = {2, 2},
                               .padding = GP_PADDING_EXPLICIT,
                               .before = {1, 0},
                               .after = {0, 1},
                               .ceil = true};
    return gp_average_pool(activation(f, SHAPE(1, 4, 6, 2)), &options);
}

static gp_value global_average_pool(fixture *f) {
    return gp_global_average_pool(activation(f, SHAPE(2, 3, 2, 4)));
}

/* ---- batch norm ---- */

static gp_value batch_norm(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 2, 2, 3)), w = parameter(f, SHAPE(3)), b = parameter(f, SHAPE(3));
    return gp_batch_norm(x, w, b, &(gp_batch_norm_options){.epsilon = 1e-3}, NULL, NULL);
}

static gp_value batch_norm_relu(fixture *f) {
    gp_value x = activation(f, SHAPE(7, 3)), w = parameter(f, SHAPE(3)), b = parameter(f, SHAPE(3)), mean, variance;
    return gp_batch_norm(x, w, b, &(gp_batch_norm_options){1e-3, true}, &mean, &variance);
}

static gp_value batch_norm_inference(fixture *f) {
    gp_value x = activation(f, SHAPE(3, 2, 2)), w = parameter(f, SHAPE(2)), b = parameter(f, SHAPE(2));
    gp_value mean = weights(f, SHAPE(2)), variance = weights(f, SHAPE(2));
    return gp_batch_norm_inference(x, w, b, mean, variance, &(gp_batch_norm_options){.epsilon = 1e-2});
}

static gp_value batch_norm_inference_relu(fixture *f) {
    gp_value x = activation(f, SHAPE(4, 2, 2)), w = parameter(f, SHAPE(2)), b = parameter(f, SHAPE(2));
    gp_value mean = weights(f, SHAPE(2)), variance = weights(f, SHAPE(2));
    return gp_batch_norm_inference(x, w, b, mean, variance, &(gp_batch_norm_options){1e-2, true});
}

/* ---- pixels, paths, channels ---- */

static gp_value pad(fixture *f) {
    return gp_pad(activation(f, SHAPE(2, 3, 4)), (int64_t[]){0, 2, -1}, (int64_t[]){0, -1, 1});
}

static gp_value pixel_shift(fixture *f) {
    return gp_pixel_shift(activation(f, SHAPE(2, 3, 4, 2)), 1, -2);
}

static gp_value upsample(fixture *f) {
    return gp_upsample(activation(f, SHAPE(2, 2, 3, 2)), 2, 3);
}

static gp_value drop_path(fixture *f) {
    return gp_drop_path(activation(f, SHAPE(6, 2, 2)), 0.4, false);
}

static gp_value drop_path_scheduled(fixture *f) {
    return gp_drop_path(activation(f, SHAPE(6, 3)), 0.5, true);
}

static gp_value channel_scale(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 3, 2, 4)), s = activation(f, SHAPE(2, 4));
    return gp_channel_scale(x, s);
}

/* ---- all together: factorised reduction, squeeze-and-excitation and a residual connection ---- */

static gp_value block(fixture *f) {
    gp_value x = activation(f, SHAPE(2, 4, 4, 2)), w = parameter(f, SHAPE(2, 2, 1, 1)), g = parameter(f, SHAPE(4));
    gp_value b = parameter(f, SHAPE(4)), squeeze = parameter(f, SHAPE(4, 4));
    gp_convolution_options strided = {.stride = {2, 2}};
    gp_value halves[] = {gp_convolution(x, w, gp_none(), &strided),
                         gp_convolution(gp_pixel_shift(x, 1, 1), w, gp_none(), &strided)};
    gp_value h = gp_batch_norm(gp_concatenate(halves, 2, -1), g, b, &(gp_batch_norm_options){1e-3, true}, NULL, NULL);
    gp_value s = gp_sigmoid(gp_linear(gp_global_average_pool(h), squeeze, gp_none()));
    return gp_add(h, gp_drop_path(gp_channel_scale(h, s), 0.3, false));
}

const gradient_case image_gradient_cases[] = {
#define CASE(name)                                                                                                     \
    { #name, name }
    CASE(convolution),
    CASE(convolution_same),
    CASE(convolution_explicit),
    CASE(convolution_grouped),
    CASE(convolution_depthwise),
    CASE(convolution_1x7_7x1),
    CASE(max_pool),
    CASE(average_pool),
    CASE(average_pool_ceil),
    CASE(global_average_pool),
    CASE(batch_norm),
    CASE(batch_norm_relu),
    CASE(batch_norm_inference),
    CASE(batch_norm_inference_relu),
    CASE(pad),
    CASE(pixel_shift),
    CASE(upsample),
    CASE(drop_path),
    CASE(drop_path_scheduled),
    CASE(channel_scale),
    CASE(block),
#undef CASE
};

const size_t image_gradient_case_count = sizeof image_gradient_cases / sizeof *image_gradient_cases;
