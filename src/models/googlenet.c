/* GoogLeNet (Szegedy et al., arXiv 1409.4842) in torchvision's form: batch norm behind every convolution, 3x3 where the
 * paper has 5x5, no auxiliary classifiers. Weights start as normal(0, 0.01), as there. A module is a layer. */
#include "base/memory.h"
#include "base/status.h"
#include "models/blocks.h"

static const double deviation = 0.01;
static const gp_batch_norm_settings norm = {.epsilon = 1e-3, .decay = 0.9, .weight = 1, .relu = true};

static gp_convolution_settings square(int64_t channels, int64_t kernel, int64_t stride) {
    gp_convolution_settings settings = gp_zoo_square(channels, kernel, stride, GP_CONVOLUTION_NORMAL);
    settings.deviation = deviation;
    return settings;
}

/* Four branches side by side: 1x1; 1x1, 3x3; 1x1, 3x3; max pool, 1x1. Channels of each convolution. */
typedef struct module {
    int64_t single, reduce3, three, reduce5, five, pooled;
} module;

static gp_value convolve(gp_builder *builder, const char *scope, gp_value x, int64_t channels, int64_t kernel) {
    gp_convolution_settings settings = square(channels, kernel, 1);
    return gp_build_convolution_norm(builder, scope, x, &settings, &norm);
}

static gp_value module_forward(const void *self, gp_builder *builder, gp_value x) {
    const module *m = self;
    gp_pool_options pool = {
        .kernel = {3, 3}, .stride = {1, 1}, .padding = GP_PADDING_EXPLICIT, .before = {1, 1}, .after = {1, 1}};
    gp_value branches[] = {
        convolve(builder, "branch1", x, m->single, 1),
        convolve(builder, "branch2.1", convolve(builder, "branch2.0", x, m->reduce3, 1), m->three, 3),
        convolve(builder, "branch3.1", convolve(builder, "branch3.0", x, m->reduce5, 1), m->five, 3),
        convolve(builder, "branch4", gp_max_pool(x, &pool), m->pooled, 1),
    };
    return gp_concatenate(branches, 4, 3);
}

static const gp_layer_class module_class = {
    .size = sizeof(gp_layer_class), .kind = "inception", .forward = module_forward, .destroy = gp_free};

static gp_status add_stem(gp_model *model) {
    gp_convolution_settings convolutions[] = {square(64, 7, 2), square(64, 1, 1), square(192, 3, 1)};
    for (int i = 0; i < 3; i++) {
        GP_TRY(gp_zoo_add_convolution(model, &convolutions[i], &norm, true));
        if (i != 1) GP_TRY(gp_zoo_add_max_pool(model, 3, 2, "valid", true));
    }
    return GP_OK;
}

gp_status gp_zoo_googlenet(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    static const module modules[] = {
        {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},   {192, 96, 208, 16, 48, 64},
        {160, 112, 224, 24, 64, 64},   {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
        {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128},
    };
    enum { FIRST_OF_FOURTH = 2, FIRST_OF_FIFTH = 7 };
    gp_zoo_classifier classifier = {.classes = task->classes, .init = {.given = true, .deviation = deviation}};
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &classifier.dropout));
    GP_TRY(add_stem(model));
    for (int i = 0; i < (int)(sizeof modules / sizeof *modules); i++) {
        if (i == FIRST_OF_FOURTH) GP_TRY(gp_zoo_add_max_pool(model, 3, 2, "valid", true));
        if (i == FIRST_OF_FIFTH) GP_TRY(gp_zoo_add_max_pool(model, 2, 2, "valid", true));
        GP_TRY(gp_zoo_add_copy(model, &module_class, &modules[i], sizeof modules[i]));
    }
    return gp_zoo_add_classifier(model, &classifier);
}
