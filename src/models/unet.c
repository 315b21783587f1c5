/* A U-Net (Ronneberger et al., arXiv 1505.04597) of any size: the family that torchgpipe (Kim et al., arXiv 2004.09910)
 * is measured on, whose skips reach from the first layers to the last. U-Net (B, C): B convolutions on each level, C
 * channels on the first; five levels down, each with half the pixels and twice the channels, and up again by repeating
 * pixels. Every convolution is a layer. In place of torchgpipe's instance norm and leaky rectifier stand batch norm and
 * a plain one, and there is no dropout. Weights start as PyTorch's nn.Conv2d. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "models/blocks.h"

enum { MOST_NAME = 32 };

static const gp_batch_norm_settings norm = {.epsilon = 1e-5, .decay = 0.9, .weight = 1};

/* "join": as large as the skip, whose channels come behind. */
typedef struct join {
    char name[MOST_NAME];
} join;

static gp_value join_forward(const void *self, gp_builder *builder, gp_value input) {
    const join *layer = self;
    gp_value kept = gp_builder_recall(builder, layer->name), grown = gp_upsample(input, 2, 2);
    if (!gp_value_valid(kept) || !gp_value_valid(grown)) return gp_none();
    gp_shape own = gp_value_type(grown).shape, other = gp_value_type(kept).shape;
    int64_t before[4] = {0}, after[4] = {0};
    for (int axis = 1; axis <= 2; axis++)
        after[axis] = other.dims[axis] - own.dims[axis];
    if (after[1] || after[2]) grown = gp_pad(grown, before, after); /* an odd row or column was lost on the way down */
    gp_value both[] = {grown, kept};
    return gp_concatenate(both, 2, 3);
}

static const gp_layer_class join_class = {
    .size = sizeof(gp_layer_class), .kind = "join", .forward = join_forward, .destroy = gp_free};

/* `depth` convolutions, all but the last with `inner` channels. */
static gp_status add_convolutions(gp_model *model, int64_t depth, int64_t inner, int64_t last) {
    for (int64_t i = 0; i < depth; i++) {
        gp_convolution_settings settings = gp_zoo_square(i + 1 < depth ? inner : last, 3, 1, GP_CONVOLUTION_UNIFORM);
        GP_TRY(gp_zoo_add_convolution(model, &settings, &norm, true));
    }
    return GP_OK;
}

static gp_status add_level_down(gp_model *model, int64_t depth, int64_t channels, int64_t level) {
    char name[MOST_NAME];
    snprintf(name, sizeof name, "level.%" PRId64, level);
    GP_TRY(add_convolutions(model, depth, channels, channels));
    gp_option options[] = {gp_zoo_text("name", name)};
    GP_TRY(gp_zoo_add(model, "keep", options, 1));
    return gp_zoo_add_max_pool(model, 2, 2, "valid", false);
}

static gp_status add_level_up(gp_model *model, int64_t depth, int64_t channels, int64_t level) {
    join self;
    snprintf(self.name, sizeof self.name, "level.%" PRId64, level);
    GP_TRY(gp_zoo_add_copy(model, &join_class, &self, sizeof self));
    return add_convolutions(model, depth, channels, channels);
}

gp_status gp_zoo_unet(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    int64_t depth = 0, channels = 0, levels = 0;
    GP_TRY(gp_argument_integer(arguments, "depth", 1, &depth));
    GP_TRY(gp_argument_integer(arguments, "channels", 2, &channels));
    GP_TRY(gp_argument_integer(arguments, "levels", 1, &levels));
    int64_t smaller = task->height < task->width ? task->height : task->width;
    if (levels > 16 || smaller >> levels < 1)
        return gp_error(GP_INVALID, "unet: %" PRId64 " levels halve an image of %" PRId64 "x%" PRId64 " to nothing",
                        levels, task->height, task->width);
    if (channels > INT32_MAX >> levels)
        return gp_error(GP_INVALID, "unet: %" PRId64 " channels on %" PRId64 " levels are too many", channels, levels);
    for (int64_t level = 0; level < levels; level++)
        GP_TRY(add_level_down(model, depth, channels << level, level));
    GP_TRY(add_convolutions(model, depth, channels << levels, channels << (levels - 1)));
    for (int64_t level = levels; level-- > 0;)
        GP_TRY(add_level_up(model, depth, (channels << level) / 2, level));
    gp_convolution_settings last = gp_zoo_square(task->classes, 1, 1, GP_CONVOLUTION_UNIFORM);
    return gp_zoo_add_convolution(model, &last, NULL, false);
}
