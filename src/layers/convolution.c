/* Convolution and batch norm as layers and models use them. Weights are [outputs, inputs / groups, height, width], as
 * files of PyTorch have them. */
#include "layers/image.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static gp_init weight_init(const gp_convolution_settings *s, int64_t inputs, int64_t groups) {
    double window = (double)s->kernel[0] * (double)s->kernel[1];
    double fan_in = window * (double)inputs / (double)groups, fan_out = window * (double)s->channels;
    switch (s->init) {
    case GP_CONVOLUTION_UNIFORM:
        return (gp_init){GP_INIT_UNIFORM, 1 / sqrt(fan_in)};
    case GP_CONVOLUTION_HE:
        return (gp_init){GP_INIT_NORMAL, sqrt(2 / fan_out)};
    case GP_CONVOLUTION_TRUNCATED:
        return (gp_init){GP_INIT_TRUNCATED_NORMAL, sqrt(2.6 / (fan_out / (double)groups))};
    case GP_CONVOLUTION_IDENTITY:
        return (gp_init){GP_INIT_IDENTITY, 1 / sqrt(fan_in)};
    case GP_CONVOLUTION_NORMAL:
        break;
    }
    return (gp_init){GP_INIT_NORMAL, s->deviation};
}

static gp_value convolve(gp_builder *builder, gp_value x, const gp_convolution_settings *s) {
    gp_type type = gp_value_type(x);
    char text[128];
    int64_t groups = s->options.groups == 0 ? 1 : s->options.groups;
    if (type.shape.rank != 4)
        return gp_builder_error(builder, "convolution: the input is %s, but [batch, height, width, channels] is needed",
                                gp_type_format(type, text, sizeof text));
    int64_t inputs = type.shape.dims[3];
    if (inputs % groups != 0 || s->channels % groups != 0)
        return gp_builder_error(
            builder, "convolution: %" PRId64 " groups do not divide %" PRId64 " input and %" PRId64 " output channels",
            groups, inputs, s->channels);
    int64_t dims[] = {s->channels, inputs / groups, s->kernel[0], s->kernel[1]};
    gp_parameter_options weights = {.init = weight_init(s, inputs, groups)};
    bool drawn = s->init == GP_CONVOLUTION_UNIFORM || s->init == GP_CONVOLUTION_IDENTITY;
    gp_parameter_options biases = {.init = drawn ? (gp_init){GP_INIT_UNIFORM, weights.init.value} : (gp_init){0}};
    gp_value weight = gp_builder_parameter(builder, "weight", gp_shape_of(4, dims), &weights), bias = gp_none();
    if (s->bias) bias = gp_builder_parameter(builder, "bias", gp_shape_of(1, dims), &biases);
    if (!gp_value_valid(weight) || (s->bias && !gp_value_valid(bias))) return gp_none();
    return gp_convolution(x, weight, bias, &s->options);
}

gp_value gp_build_convolution(gp_builder *builder, const char *scope, gp_value x,
                              const gp_convolution_settings *settings) {
    if (!gp_value_valid(x)) return gp_none();
    if (scope) gp_builder_push(builder, scope);
    gp_value y = convolve(builder, x, settings);
    if (scope) gp_builder_pop(builder);
    return y;
}

gp_value gp_build_convolution_norm(gp_builder *builder, const char *scope, gp_value x,
                                   const gp_convolution_settings *settings, const gp_batch_norm_settings *norm) {
    if (!gp_value_valid(x)) return gp_none();
    if (scope) gp_builder_push(builder, scope);
    gp_value y = gp_build_batch_norm(builder, "norm", gp_build_convolution(builder, "conv", x, settings), norm);
    if (scope) gp_builder_pop(builder);
    return y;
}

gp_value gp_build_factorised_reduction(gp_builder *builder, const char *scope, gp_value x, int64_t channels,
                                       gp_convolution_init init, const gp_batch_norm_settings *norm) {
    if (!gp_value_valid(x)) return gp_none();
    if (channels % 2 != 0)
        return gp_builder_error(builder, "factorised reduction: %" PRId64 " channels are no even number", channels);
    gp_convolution_settings half = {
        .channels = channels / 2, .kernel = {1, 1}, .options = {.stride = {2, 2}}, .init = init};
    if (scope) gp_builder_push(builder, scope);
    gp_value paths[] = {gp_build_convolution(builder, "path1", x, &half),
                        gp_build_convolution(builder, "path2", gp_pixel_shift(x, 1, 1), &half)};
    gp_value y = gp_build_batch_norm(builder, "norm", gp_concatenate(paths, 2, 3), norm);
    if (scope) gp_builder_pop(builder);
    return y;
}

gp_value gp_build_squeeze_excitation(gp_builder *builder, const char *scope, gp_value x, int64_t reduction,
                                     gp_convolution_init init) {
    gp_value pooled = gp_global_average_pool(x);
    if (!gp_value_valid(pooled)) return gp_none();
    int64_t channels = gp_last_dim(x), squeezed = channels / reduction;
    if (squeezed < 1)
        return gp_builder_error(builder, "squeeze_excitation: a %" PRId64 "th of %" PRId64 " channels is less than one",
                                reduction, channels);
    bool he = init == GP_CONVOLUTION_HE;
    gp_weight_init down = {.given = he, .deviation = sqrt(2 / (double)squeezed)};
    gp_weight_init up = {.given = he, .deviation = sqrt(2 / (double)channels)};
    if (scope) gp_builder_push(builder, scope);
    gp_value s = gp_relu(gp_build_linear(builder, "reduce", pooled, squeezed, true, down, NULL));
    s = gp_sigmoid(gp_build_linear(builder, "expand", s, channels, true, up, NULL));
    if (scope) gp_builder_pop(builder);
    return gp_channel_scale(x, s);
}

/* ---- layers ---- */

static gp_value conv2d_forward(const void *self, gp_builder *builder, gp_value input) {
    return gp_build_convolution(builder, NULL, input, self);
}

typedef struct factorised_reduction {
    int64_t channels;
    gp_batch_norm_settings norm;
} factorised_reduction;

static gp_value factorised_reduction_forward(const void *self, gp_builder *builder, gp_value input) {
    const factorised_reduction *layer = self;
    return gp_build_factorised_reduction(builder, NULL, input, layer->channels, GP_CONVOLUTION_UNIFORM, &layer->norm);
}

typedef struct squeeze_excitation {
    int64_t reduction;
} squeeze_excitation;

static gp_value squeeze_excitation_forward(const void *self, gp_builder *builder, gp_value input) {
    const squeeze_excitation *layer = self;
    return gp_build_squeeze_excitation(builder, NULL, input, layer->reduction, GP_CONVOLUTION_UNIFORM);
}

static const gp_layer_class conv2d_class = {
    .size = sizeof(gp_layer_class), .kind = "conv2d", .forward = conv2d_forward, .destroy = gp_free};
static const gp_layer_class factorised_reduction_class = {.size = sizeof(gp_layer_class),
                                                          .kind = "factorised_reduction",
                                                          .forward = factorised_reduction_forward,
                                                          .destroy = gp_free};
static const gp_layer_class squeeze_excitation_class = {.size = sizeof(gp_layer_class),
                                                        .kind = "squeeze_excitation",
                                                        .forward = squeeze_excitation_forward,
                                                        .destroy = gp_free};

gp_status gp_create_conv2d(gp_arguments *arguments, gp_layer **layer) {
    gp_convolution_settings self = {.bias = gp_argument_boolean(arguments, "bias")};
    gp_convolution_options *options = &self.options;
    gp_weight_init init;
    GP_TRY(gp_argument_integer(arguments, "channels", 1, &self.channels));
    GP_TRY(gp_argument_pair(arguments, "kernel", 1, self.kernel));
    GP_TRY(gp_argument_pair(arguments, "stride", 1, options->stride));
    GP_TRY(gp_argument_pair(arguments, "dilation", 1, options->dilation));
    GP_TRY(gp_argument_integer(arguments, "groups", 1, &options->groups));
    GP_TRY(gp_argument_padding(arguments, "padding", &options->padding, options->before, options->after));
    GP_TRY(gp_argument_init(arguments, "init", &init));
    self.init = init.given ? GP_CONVOLUTION_NORMAL : GP_CONVOLUTION_UNIFORM;
    if (gp_argument_boolean(arguments, "identity")) {
        if (init.given || options->groups != 1)
            return gp_error(GP_INVALID, "conv2d: identity goes with one group and without init");
        self.init = GP_CONVOLUTION_IDENTITY;
    }
    self.deviation = init.deviation;
    return gp_layer_create_copy(layer, &conv2d_class, &self, sizeof self);
}

gp_status gp_create_factorised_reduction(gp_arguments *arguments, gp_layer **layer) {
    factorised_reduction self = {.norm = {.weight = 1}};
    GP_TRY(gp_argument_integer(arguments, "channels", 1, &self.channels));
    GP_TRY(gp_argument_number(arguments, "epsilon", 0, 1, &self.norm.epsilon));
    GP_TRY(gp_argument_number(arguments, "decay", 0, 1, &self.norm.decay));
    return gp_layer_create_copy(layer, &factorised_reduction_class, &self, sizeof self);
}

gp_status gp_create_squeeze_excitation(gp_arguments *arguments, gp_layer **layer) {
    squeeze_excitation self = {0};
    GP_TRY(gp_argument_integer(arguments, "reduction", 1, &self.reduction));
    return gp_layer_create_copy(layer, &squeeze_excitation_class, &self, sizeof self);
}
