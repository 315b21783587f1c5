/* Normalisation over the last dimension. Weights start as 1, biases as 0 (Ba et al. 2016; Zhang & Sennrich 2019). */
#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct norm {
    double epsilon;
    bool bias;
} norm;

static gp_value build_weight(gp_builder *builder, gp_value input) {
    int64_t width = gp_last_dim(input);
    if (width < 1) return gp_builder_error(builder, "norm: the input has no last dimension to work on");
    gp_parameter_options options = {.init = {GP_INIT_CONSTANT, 1}};
    return gp_builder_parameter(builder, "weight", gp_shape_of(1, &width), &options);
}

static gp_value layer_norm_forward(const void *self, gp_builder *builder, gp_value input) {
    const norm *layer = self;
    gp_value weight = build_weight(builder, input), bias = gp_none();
    if (!gp_value_valid(weight)) return gp_none();
    int64_t width = gp_last_dim(input);
    if (layer->bias) {
        bias = gp_builder_parameter(builder, "bias", gp_shape_of(1, &width), NULL);
        if (!gp_value_valid(bias)) return gp_none();
    }
    return gp_layer_norm(input, weight, bias, layer->epsilon);
}

static gp_value rms_norm_forward(const void *self, gp_builder *builder, gp_value input) {
    const norm *layer = self;
    return gp_rms_norm(input, build_weight(builder, input), layer->epsilon);
}

static const gp_layer_class layer_norm_class = {
    .size = sizeof(gp_layer_class), .kind = "layer_norm", .forward = layer_norm_forward, .destroy = gp_free};
static const gp_layer_class rms_norm_class = {
    .size = sizeof(gp_layer_class), .kind = "rms_norm", .forward = rms_norm_forward, .destroy = gp_free};

gp_status gp_create_layer_norm(gp_arguments *arguments, gp_layer **layer) {
    norm self = {.bias = gp_argument_boolean(arguments, "bias")};
    GP_TRY(gp_argument_number(arguments, "epsilon", 0, 1, &self.epsilon));
    return gp_layer_create_copy(layer, &layer_norm_class, &self, sizeof self);
}

gp_status gp_create_rms_norm(gp_arguments *arguments, gp_layer **layer) {
    norm self = {0};
    GP_TRY(gp_argument_number(arguments, "epsilon", 0, 1, &self.epsilon));
    return gp_layer_create_copy(layer, &rms_norm_class, &self, sizeof self);
}
