/* Layers that look at images through windows without weights, repeat their pixels, or drop whole samples of them. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/image.h"

static gp_status wrong_padding(const gp_arguments *arguments, const char *key) {
    return gp_error(GP_INVALID,
                    "option \"%s\" of layer %s is \"%s\", but valid, same, or 1, 2 or 4 numbers of pixels are accepted "
                    "(all sides; height, width; top, bottom, left, right)",
                    key, arguments->info->kind, gp_argument_text(arguments, key));
}

gp_status gp_argument_padding(const gp_arguments *arguments, const char *key, gp_padding *padding, int64_t before[2],
                              int64_t after[2]) {
    const char *text = gp_argument_text(arguments, key);
    int64_t pixels[4];
    size_t count;
    *padding = strcmp(text, "same") == 0 ? GP_PADDING_SAME : GP_PADDING_VALID;
    if (strcmp(text, "same") == 0 || strcmp(text, "valid") == 0) return GP_OK;
    *padding = GP_PADDING_EXPLICIT;
    if (gp_argument_integers(arguments, key, 0, 4, pixels, &count) != GP_OK || count == 0 || count == 3)
        return wrong_padding(arguments, key);
    for (size_t axis = 0; axis < 2; axis++) {
        before[axis] = count == 4 ? pixels[2 * axis] : count == 2 ? pixels[axis] : pixels[0];
        after[axis] = count == 4 ? pixels[2 * axis + 1] : before[axis];
    }
    return GP_OK;
}

static gp_value max_pool_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)builder;
    return gp_max_pool(input, self);
}

static gp_value average_pool_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)builder;
    return gp_average_pool(input, self);
}

static gp_value global_average_pool_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)builder;
    return gp_global_average_pool(input);
}

typedef struct upsample {
    int64_t factor[2];
} upsample;

static gp_value upsample_forward(const void *self, gp_builder *builder, gp_value input) {
    const upsample *layer = self;
    (void)builder;
    return gp_upsample(input, layer->factor[0], layer->factor[1]);
}

typedef struct drop_path {
    double p;
    bool scheduled;
} drop_path;

static gp_value drop_path_forward(const void *self, gp_builder *builder, gp_value input) {
    const drop_path *layer = self;
    (void)builder;
    return gp_drop_path(input, layer->p, layer->scheduled);
}

static const gp_layer_class max_pool_class = {
    .size = sizeof(gp_layer_class), .kind = "max_pool", .forward = max_pool_forward, .destroy = gp_free};
static const gp_layer_class average_pool_class = {
    .size = sizeof(gp_layer_class), .kind = "average_pool", .forward = average_pool_forward, .destroy = gp_free};
static const gp_layer_class global_average_pool_class = {
    .size = sizeof(gp_layer_class), .kind = "global_average_pool", .forward = global_average_pool_forward};
static const gp_layer_class upsample_class = {
    .size = sizeof(gp_layer_class), .kind = "upsample", .forward = upsample_forward, .destroy = gp_free};
static const gp_layer_class drop_path_class = {
    .size = sizeof(gp_layer_class), .kind = "drop_path", .forward = drop_path_forward, .destroy = gp_free};

static gp_status create_pool(const gp_arguments *arguments, gp_layer **layer, const gp_layer_class *class) {
    gp_pool_options self = {.ceil = gp_argument_boolean(arguments, "ceil")};
    GP_TRY(gp_argument_pair(arguments, "kernel", 1, self.kernel));
    GP_TRY(gp_argument_pair(arguments, "stride", 1, self.stride)); /* nothing given: 0, which is the kernel's size */
    GP_TRY(gp_argument_padding(arguments, "padding", &self.padding, self.before, self.after));
    return gp_layer_create_copy(layer, class, &self, sizeof self);
}

gp_status gp_create_max_pool(gp_arguments *arguments, gp_layer **layer) {
    return create_pool(arguments, layer, &max_pool_class);
}

gp_status gp_create_average_pool(gp_arguments *arguments, gp_layer **layer) {
    return create_pool(arguments, layer, &average_pool_class);
}

gp_status gp_create_global_average_pool(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return gp_layer_create(layer, &global_average_pool_class, NULL);
}

gp_status gp_create_upsample(gp_arguments *arguments, gp_layer **layer) {
    upsample self;
    GP_TRY(gp_argument_pair(arguments, "factor", 1, self.factor));
    return gp_layer_create_copy(layer, &upsample_class, &self, sizeof self);
}

gp_status gp_create_drop_path(gp_arguments *arguments, gp_layer **layer) {
    drop_path self = {.scheduled = gp_argument_boolean(arguments, "scheduled")};
    GP_TRY(gp_argument_number(arguments, "p", 0, 1, &self.p));
    return gp_layer_create_copy(layer, &drop_path_class, &self, sizeof self);
}
