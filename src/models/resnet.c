/* ResNet-18 to -152 (He et al., arXiv 1512.03385) as torchvision has them: the stride of a bottleneck is in its 3x3
 * convolution; convolutions start as normal(0, sqrt(2 / fan out)), the classifier as nn.Linear. And the small ones for
 * CIFAR from section 4.2 of the paper, 6n + 2 layers deep, without parameters in the shortcuts, of any width. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "models/residual.h"

enum { STAGES = 4, CIFAR_STAGES = 3 };

typedef struct resnet_plan {
    const char *name;
    bool bottleneck;
    int blocks[STAGES];
} resnet_plan;

static const resnet_plan plans[] = {
    {"resnet18", false, {2, 2, 2, 2}},  {"resnet34", false, {3, 4, 6, 3}},  {"resnet50", true, {3, 4, 6, 3}},
    {"resnet101", true, {3, 4, 23, 3}}, {"resnet152", true, {3, 8, 36, 3}},
};

static const gp_batch_norm_settings norm = {.epsilon = 1e-5, .decay = 0.9, .weight = 1};

/* Two 3x3 convolutions. */
static gp_residual_block basic_block(int64_t channels, int64_t stride) {
    return (gp_residual_block){.branch = {gp_zoo_square(channels, 3, stride, GP_CONVOLUTION_HE),
                                          gp_zoo_square(channels, 3, 1, GP_CONVOLUTION_HE)},
                               .count = 2,
                               .shortcut_kernel = 1,
                               .init = GP_CONVOLUTION_HE,
                               .norm = norm};
}

/* 1x1, 3x3, and 1x1 to four times the channels. */
static gp_residual_block bottleneck_block(int64_t channels, int64_t stride) {
    return (gp_residual_block){.branch = {gp_zoo_square(channels, 1, 1, GP_CONVOLUTION_HE),
                                          gp_zoo_square(channels, 3, stride, GP_CONVOLUTION_HE),
                                          gp_zoo_square(4 * channels, 1, 1, GP_CONVOLUTION_HE)},
                               .count = 3,
                               .shortcut_kernel = 1,
                               .init = GP_CONVOLUTION_HE,
                               .norm = norm};
}

gp_status gp_zoo_resnet(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    const resnet_plan *plan = plans;
    while (strcmp(plan->name, arguments->info->kind) != 0)
        plan++;
    gp_convolution_settings stem = gp_zoo_square(64, 7, 2, GP_CONVOLUTION_HE);
    GP_TRY(gp_zoo_add_convolution(model, &stem, &norm, true));
    GP_TRY(gp_zoo_add_max_pool(model, 3, 2, "1", false));
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < plan->blocks[stage]; i++) {
            int64_t channels = (int64_t)64 << stage, stride = stage > 0 && i == 0 ? 2 : 1;
            gp_residual_block block =
                plan->bottleneck ? bottleneck_block(channels, stride) : basic_block(channels, stride);
            GP_TRY(gp_zoo_add_residual(model, &block));
        }
    }
    return gp_zoo_add_classifier(model, &(gp_zoo_classifier){.classes = task->classes});
}

gp_status gp_zoo_resnet_cifar(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    int64_t depth = 0, width = 0;
    GP_TRY(gp_argument_integer(arguments, "depth", 8, &depth));
    GP_TRY(gp_argument_integer(arguments, "width", 1, &width));
    if (depth % 6 != 2)
        return gp_error(GP_INVALID,
                        "resnet_cifar: depth is %" PRId64 ", but 6n + 2 is accepted: 8, 14, 20, 26, 32, 44, 56, 110",
                        depth);
    gp_convolution_settings stem = gp_zoo_square(width, 3, 1, GP_CONVOLUTION_HE);
    GP_TRY(gp_zoo_add_convolution(model, &stem, &norm, true));
    for (int stage = 0; stage < CIFAR_STAGES; stage++) {
        for (int64_t i = 0; i < (depth - 2) / 6; i++) {
            gp_residual_block block = basic_block(width << stage, stage > 0 && i == 0 ? 2 : 1);
            block.shortcut = GP_SHORTCUT_PADDING;
            GP_TRY(gp_zoo_add_residual(model, &block));
        }
    }
    return gp_zoo_add_classifier(model, &(gp_zoo_classifier){.classes = task->classes});
}
