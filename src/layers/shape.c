/* Layers that change the shape of a sample. The batch, dimension 0, is never touched. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct mean {
    int axis;
    bool keep;
} mean;

static gp_value flatten_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)builder;
    gp_shape shape = gp_value_type(input).shape;
    return gp_reshape(input, gp_shape_of(2, (int64_t[]){shape.dims[0], -1}));
}

static gp_value reshape_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)builder;
    gp_shape shape = *(const gp_shape *)self; /* with the batch to be filled in */
    shape.dims[0] = gp_value_type(input).shape.dims[0];
    return gp_reshape(input, shape);
}

static gp_value mean_forward(const void *self, gp_builder *builder, gp_value input) {
    const mean *layer = self;
    int rank = gp_value_type(input).shape.rank, axis = layer->axis < 0 ? layer->axis + rank : layer->axis;
    if (axis < 1 || axis >= rank)
        return gp_builder_error(builder, "mean: axis %d of an input of rank %d; 1 to %d is accepted (0 is the batch)",
                                layer->axis, rank, rank - 1);
    return gp_mean(input, axis, layer->keep);
}

static const gp_layer_class flatten_class = {
    .size = sizeof(gp_layer_class), .kind = "flatten", .forward = flatten_forward};
static const gp_layer_class reshape_class = {
    .size = sizeof(gp_layer_class), .kind = "reshape", .forward = reshape_forward, .destroy = gp_free};
static const gp_layer_class mean_class = {
    .size = sizeof(gp_layer_class), .kind = "mean", .forward = mean_forward, .destroy = gp_free};

gp_status gp_create_flatten(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return gp_layer_create(layer, &flatten_class, NULL);
}

/* "16, -1" -> [batch, 16, -1] */
static bool read_shape(const char *text, gp_shape *shape) {
    int open = 0;
    *shape = (gp_shape){.rank = 1};
    for (;;) {
        char *end = NULL;
        errno = 0;
        long long dim = strtoll(text, &end, 10);
        if (end == text || errno || dim < -1 || dim == 0 || shape->rank >= GP_MAX_RANK) return false;
        open += dim == -1;
        shape->dims[shape->rank++] = dim;
        while (*end == ' ')
            end++;
        if (*end == '\0') return open <= 1;
        if (*end != ',') return false;
        text = end + 1;
    }
}

gp_status gp_create_reshape(gp_arguments *arguments, gp_layer **layer) {
    gp_shape shape;
    const char *text = gp_argument_text(arguments, "shape");
    if (!read_shape(text, &shape))
        return gp_error(GP_INVALID,
                        "option \"shape\" of layer reshape is \"%s\", but 1 to %d dimensions with commas between are "
                        "accepted, one of which may be -1",
                        text, GP_MAX_RANK - 1);
    return gp_layer_create_copy(layer, &reshape_class, &shape, sizeof shape);
}

gp_status gp_create_mean(gp_arguments *arguments, gp_layer **layer) {
    int64_t axis = 0;
    GP_TRY(gp_argument_integer(arguments, "axis", -GP_MAX_RANK, &axis));
    if (axis == 0 || axis >= GP_MAX_RANK)
        return gp_error(GP_INVALID,
                        "option \"axis\" of layer mean is %" PRId64 ", but 1 to %d or a negative one is "
                        "accepted (0 is the batch)",
                        axis, GP_MAX_RANK - 1);
    mean self = {.axis = (int)axis, .keep = gp_argument_boolean(arguments, "keep")};
    return gp_layer_create_copy(layer, &mean_class, &self, sizeof self);
}
