/* The residual block (He et al., arXiv 1512.03385). */
#include "models/residual.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"

/* How many pixels the branch goes forward for each of its own. */
static int64_t stride_of(const gp_residual_block *block) {
    int64_t stride = 1;
    for (int i = 0; i < block->count; i++)
        stride *= block->branch[i].options.stride[0];
    return stride;
}

static gp_value padded(gp_value x, const gp_residual_block *block) {
    int64_t stride = stride_of(block), channels = block->branch[block->count - 1].channels;
    gp_pool_options pick = {.kernel = {1, 1}, .stride = {stride, stride}};
    int64_t before[4] = {0}, after[4] = {0};
    after[3] = channels - gp_last_dim(x);
    return gp_pad(stride > 1 ? gp_average_pool(x, &pick) : x, before, after);
}

static gp_value shortcut(const gp_residual_block *block, gp_builder *builder, gp_value x) {
    int64_t stride = stride_of(block), channels = block->branch[block->count - 1].channels;
    if (stride == 1 && gp_last_dim(x) == channels) return x;
    if (block->shortcut == GP_SHORTCUT_PADDING) return padded(x, block);
    gp_convolution_settings convolution = gp_zoo_square(channels, block->shortcut_kernel, stride, block->init);
    return gp_build_convolution_norm(builder, "shortcut", x, &convolution, &block->norm);
}

static gp_value forward(const void *self, gp_builder *builder, gp_value input) {
    const gp_residual_block *block = self;
    gp_value x = input;
    for (int i = 0; i < block->count; i++) {
        char scope[24];
        gp_batch_norm_settings norm = block->norm;
        norm.relu = i + 1 < block->count;
        snprintf(scope, sizeof scope, "branch%d", i);
        x = gp_build_convolution_norm(builder, scope, x, &block->branch[i], &norm);
    }
    if (block->reduction > 0) x = gp_build_squeeze_excitation(builder, "scale", x, block->reduction, block->init);
    return gp_relu(gp_add(x, shortcut(block, builder, input)));
}

static const gp_layer_class residual_class = {
    .size = sizeof(gp_layer_class), .kind = "residual_block", .forward = forward, .destroy = gp_free};

gp_status gp_zoo_add_residual(gp_model *model, const gp_residual_block *block) {
    return gp_zoo_add_copy(model, &residual_class, block, sizeof *block);
}
