/* Layers that several image models have. */
#include "models/blocks.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

gp_status gp_zoo_add_copy(gp_model *model, const gp_layer_class *layer_class, const void *self, size_t bytes) {
    gp_layer *layer = NULL;
    GP_TRY(gp_layer_create_copy(&layer, layer_class, self, bytes));
    return gp_model_add(model, layer);
}

gp_convolution_settings gp_zoo_square(int64_t channels, int64_t kernel, int64_t stride, gp_convolution_init init) {
    int64_t half = kernel / 2;
    return (gp_convolution_settings){.channels = channels,
                                     .kernel = {kernel, kernel},
                                     .options = {.stride = {stride, stride},
                                                 .padding = GP_PADDING_EXPLICIT,
                                                 .before = {half, half},
                                                 .after = {half, half}},
                                     .init = init};
}

gp_status gp_zoo_add_max_pool(gp_model *model, int64_t kernel, int64_t stride, const char *padding, bool ceil) {
    gp_option options[] = {gp_zoo_integer("kernel", kernel), gp_zoo_integer("stride", stride),
                           gp_zoo_text("padding", padding), gp_zoo_boolean("ceil", ceil)};
    return gp_zoo_add(model, "max_pool", options, sizeof options / sizeof *options);
}

/* ---- convolution ---- */

typedef struct convolution {
    gp_convolution_settings settings;
    gp_batch_norm_settings norm;
    bool has_norm, relu;
} convolution;

static gp_value convolution_forward(const void *self, gp_builder *builder, gp_value input) {
    const convolution *layer = self;
    if (layer->has_norm) return gp_build_convolution_norm(builder, NULL, input, &layer->settings, &layer->norm);
    gp_value y = gp_build_convolution(builder, NULL, input, &layer->settings);
    return layer->relu ? gp_relu(y) : y;
}

static const gp_layer_class convolution_class = {
    .size = sizeof(gp_layer_class), .kind = "convolution", .forward = convolution_forward, .destroy = gp_free};

gp_status gp_zoo_add_convolution(gp_model *model, const gp_convolution_settings *settings,
                                 const gp_batch_norm_settings *norm, bool relu) {
    convolution self = {.settings = *settings, .has_norm = norm != NULL, .relu = relu};
    if (norm) {
        self.norm = *norm;
        self.norm.relu = relu;
    }
    return gp_zoo_add_copy(model, &convolution_class, &self, sizeof self);
}

/* ---- classifier ---- */

static gp_value classifier_forward(const void *self, gp_builder *builder, gp_value input) {
    const gp_zoo_classifier *layer = self;
    gp_value x = gp_global_average_pool(layer->relu ? gp_relu(input) : input);
    if (layer->dropout > 0) x = gp_dropout(x, layer->dropout);
    x = gp_build_linear(builder, NULL, x, layer->classes, true, layer->init, NULL);
    if (layer->auxiliary)
        gp_builder_auxiliary(builder, gp_builder_recall(builder, layer->auxiliary), layer->auxiliary_weight);
    return x;
}

static const gp_layer_class classifier_class = {
    .size = sizeof(gp_layer_class), .kind = "classifier", .forward = classifier_forward, .destroy = gp_free};

gp_status gp_zoo_add_classifier(gp_model *model, const gp_zoo_classifier *classifier) {
    return gp_zoo_add_copy(model, &classifier_class, classifier, sizeof *classifier);
}
