/* Batch norm over all dimensions but the last (Ioffe & Szegedy 2015). In training the statistics are those of the
 * micro-batch, as in GPipe; two states follow those of the whole mini-batch and take their place in evaluation. The
 * variance is the biased one in both. */
#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

static gp_value build(gp_builder *builder, gp_value x, const gp_batch_norm_settings *settings) {
    int64_t channels = gp_last_dim(x);
    gp_shape shape = gp_shape_of(1, &channels);
    if (gp_value_type(x).shape.rank < 2 || channels < 1)
        return gp_builder_error(builder, "batch_norm: a sample has no dimension of channels to keep apart");
    gp_parameter_options weights = {.init = {GP_INIT_CONSTANT, settings->weight}};
    gp_init ones = {GP_INIT_CONSTANT, 1};
    gp_batch_norm_options options = {.epsilon = settings->epsilon, .relu = settings->relu};
    gp_value weight = gp_builder_parameter(builder, "weight", shape, &weights);
    gp_value bias = gp_builder_parameter(builder, "bias", shape, NULL);
    gp_value moving_mean = gp_builder_state(builder, "moving_mean", shape, NULL);
    gp_value moving_variance = gp_builder_state(builder, "moving_variance", shape, &ones);
    if (!gp_value_valid(weight) || !gp_value_valid(bias) || !gp_value_valid(moving_mean) ||
        !gp_value_valid(moving_variance))
        return gp_none();
    if (!gp_builder_training(builder))
        return gp_batch_norm_inference(x, weight, bias, moving_mean, moving_variance, &options);
    gp_value mean, variance;
    gp_value y = gp_batch_norm(x, weight, bias, &options, &mean, &variance);
    gp_builder_moving_moments(builder, moving_mean, moving_variance, mean, variance, settings->decay);
    return y;
}

gp_value gp_build_batch_norm(gp_builder *builder, const char *scope, gp_value x,
                             const gp_batch_norm_settings *settings) {
    if (!gp_value_valid(x)) return gp_none();
    if (scope) gp_builder_push(builder, scope);
    gp_value y = build(builder, x, settings);
    if (scope) gp_builder_pop(builder);
    return y;
}

static gp_value batch_norm_forward(const void *self, gp_builder *builder, gp_value input) {
    return gp_build_batch_norm(builder, NULL, input, self);
}

static const gp_layer_class batch_norm_class = {
    .size = sizeof(gp_layer_class), .kind = "batch_norm", .forward = batch_norm_forward, .destroy = gp_free};

gp_status gp_create_batch_norm(gp_arguments *arguments, gp_layer **layer) {
    gp_batch_norm_settings self = {.relu = gp_argument_boolean(arguments, "relu")};
    GP_TRY(gp_argument_number(arguments, "epsilon", 0, 1, &self.epsilon));
    GP_TRY(gp_argument_number(arguments, "decay", 0, 1, &self.decay));
    GP_TRY(gp_argument_number(arguments, "init", -1e6, 1e6, &self.weight));
    return gp_layer_create_copy(layer, &batch_norm_class, &self, sizeof self);
}
