/* Layers that keep a value for later layers and that use what an earlier one kept. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct skip {
    int axis;    /* concatenate_kept only */
    char name[]; /* as long as it is */
} skip;

static gp_value keep_forward(const void *self, gp_builder *builder, gp_value input) {
    gp_builder_keep(builder, ((const skip *)self)->name, input);
    return input;
}

static gp_value add_forward(const void *self, gp_builder *builder, gp_value input) {
    const skip *layer = self;
    gp_value kept = gp_builder_recall(builder, layer->name);
    if (!gp_value_valid(kept)) return kept;
    gp_type own = gp_value_type(input), other = gp_value_type(kept);
    char one[128], two[128];
    if (!gp_type_equal(own, other)) /* adding would broadcast in silence */
        return gp_builder_error(builder, "add_kept: the input is %s, but skip \"%s\" is %s",
                                gp_type_format(own, one, sizeof one), layer->name,
                                gp_type_format(other, two, sizeof two));
    return gp_add(input, kept);
}

static gp_value concatenate_forward(const void *self, gp_builder *builder, gp_value input) {
    const skip *layer = self;
    gp_value values[] = {input, gp_builder_recall(builder, layer->name)};
    int rank = gp_value_type(input).shape.rank, axis = layer->axis < 0 ? layer->axis + rank : layer->axis;
    if (axis < 1 || axis >= rank)
        return gp_builder_error(
            builder, "concatenate_kept: axis %d of an input of rank %d; 1 to %d is accepted (0 is the batch)",
            layer->axis, rank, rank - 1);
    return gp_concatenate(values, 2, axis);
}

static const gp_layer_class keep_class = {
    .size = sizeof(gp_layer_class), .kind = "keep", .forward = keep_forward, .destroy = gp_free};
static const gp_layer_class add_class = {
    .size = sizeof(gp_layer_class), .kind = "add_kept", .forward = add_forward, .destroy = gp_free};
static const gp_layer_class concatenate_class = {
    .size = sizeof(gp_layer_class), .kind = "concatenate_kept", .forward = concatenate_forward, .destroy = gp_free};

static gp_status create_skip(const gp_arguments *arguments, gp_layer **layer, const gp_layer_class *class, int axis) {
    const char *name = gp_argument_text(arguments, "name");
    if (!*name) return gp_error(GP_INVALID, "option \"name\" of layer %s is empty", class->kind);
    size_t bytes = strlen(name) + 1;
    skip *self = gp_allocate(sizeof *self + bytes);
    if (!self) return GP_OUT_OF_MEMORY;
    self->axis = axis;
    memcpy(self->name, name, bytes);
    return gp_layer_create(layer, class, self);
}

gp_status gp_create_keep(gp_arguments *arguments, gp_layer **layer) {
    return create_skip(arguments, layer, &keep_class, 0);
}

gp_status gp_create_add_kept(gp_arguments *arguments, gp_layer **layer) {
    return create_skip(arguments, layer, &add_class, 0);
}

gp_status gp_create_concatenate_kept(gp_arguments *arguments, gp_layer **layer) {
    int64_t axis = 0;
    GP_TRY(gp_argument_integer(arguments, "axis", -GP_MAX_RANK, &axis));
    if (axis == 0 || axis >= GP_MAX_RANK)
        return gp_error(GP_INVALID,
                        "option \"axis\" of layer concatenate_kept is %" PRId64 ", but 1 to %d or a "
                        "negative one is accepted (0 is the batch)",
                        axis, GP_MAX_RANK - 1);
    return create_skip(arguments, layer, &concatenate_class, (int)axis);
}
