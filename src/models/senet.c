/* SENet-154 and SE-ResNet-50 (Hu et al., arXiv 1709.01507): residual networks whose branches end in
 * squeeze-and-excitation, in the form of the authors' Caffe models: the stride of SE-ResNet-50's bottlenecks is in the
 * first 1x1 convolution, max pools count a last window that is not whole. Weights start as normal(0, sqrt(2 / fan
 * out)), the strategy that the paper names (He et al., arXiv 1502.01852). */
#include <string.h>

#include "base/status.h"
#include "models/residual.h"

enum { STAGES = 4, REDUCTION = 16 };

static const gp_batch_norm_settings norm = {.epsilon = 1e-5, .decay = 0.9, .weight = 1};

static gp_residual_block base_block(void) {
    return (gp_residual_block){
        .count = 3, .shortcut_kernel = 1, .reduction = REDUCTION, .init = GP_CONVOLUTION_HE, .norm = norm};
}

static gp_residual_block resnet_block(int64_t channels, int64_t stride) {
    gp_residual_block block = base_block();
    block.branch[0] = gp_zoo_square(channels, 1, stride, GP_CONVOLUTION_HE);
    block.branch[1] = gp_zoo_square(channels, 3, 1, GP_CONVOLUTION_HE);
    block.branch[2] = gp_zoo_square(4 * channels, 1, 1, GP_CONVOLUTION_HE);
    return block;
}

/* Twice as wide inside, the 3x3 convolution in 64 groups, and from the second stage on a shortcut of 3x3. */
static gp_residual_block senet_block(int64_t channels, int64_t stride) {
    gp_residual_block block = base_block();
    block.branch[0] = gp_zoo_square(2 * channels, 1, 1, GP_CONVOLUTION_HE);
    block.branch[1] = gp_zoo_square(4 * channels, 3, stride, GP_CONVOLUTION_HE);
    block.branch[1].options.groups = 64;
    block.branch[2] = gp_zoo_square(4 * channels, 1, 1, GP_CONVOLUTION_HE);
    block.shortcut_kernel = stride > 1 ? 3 : 1;
    return block;
}

static gp_status add_stem(gp_model *model, bool senet) {
    gp_convolution_settings first = gp_zoo_square(64, senet ? 3 : 7, 2, GP_CONVOLUTION_HE);
    GP_TRY(gp_zoo_add_convolution(model, &first, &norm, true));
    for (int64_t channels = 64; senet && channels <= 128; channels *= 2) {
        gp_convolution_settings more = gp_zoo_square(channels, 3, 1, GP_CONVOLUTION_HE);
        GP_TRY(gp_zoo_add_convolution(model, &more, &norm, true));
    }
    return gp_zoo_add_max_pool(model, 3, 2, "valid", true);
}

gp_status gp_zoo_senet(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    static const int blocks[2][STAGES] = {{3, 4, 6, 3}, {3, 8, 36, 3}};
    bool senet = strcmp(arguments->info->kind, "senet154") == 0;
    gp_zoo_classifier classifier = {.classes = task->classes};
    if (senet) GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &classifier.dropout));
    GP_TRY(add_stem(model, senet));
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < blocks[senet][stage]; i++) {
            int64_t channels = (int64_t)64 << stage, stride = stage > 0 && i == 0 ? 2 : 1;
            gp_residual_block block = senet ? senet_block(channels, stride) : resnet_block(channels, stride);
            GP_TRY(gp_zoo_add_residual(model, &block));
        }
    }
    return gp_zoo_add_classifier(model, &classifier);
}
