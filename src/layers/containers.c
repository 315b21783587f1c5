/* Layers made of layers: sequential and residual.
 *
 * The scope of a layer inside is its kind when no sibling has the same kind, else the kind with its number among those
 * of the kind, from 0: linear0, relu, linear1. So a layer without parameters can be put in or taken out, and the names
 * of the others' parameters stay. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/image.h"

typedef struct container {
    gp_layer **children;
    char **scopes;
    size_t count;
    bool projection; /* residual only */
} container;

static gp_value run_children(const container *self, gp_builder *builder, gp_value x) {
    for (size_t i = 0; i < self->count && gp_value_valid(x); i++) {
        gp_builder_push(builder, self->scopes[i]);
        x = gp_layer_forward(self->children[i], builder, x);
        gp_builder_pop(builder);
    }
    return x;
}

static gp_value sequential_forward(const void *self, gp_builder *builder, gp_value input) {
    return run_children(self, builder, input);
}

/* Brings the input to the branch's channels and, by stride, to about its size: "shortcut", a 1x1 convolution and batch
 * norm as in ResNets. */
static gp_value project(gp_builder *builder, gp_value input, gp_type after) {
    gp_shape before = gp_value_type(input).shape;
    gp_batch_norm_settings norm = {.epsilon = 1e-5, .decay = 0.9, .weight = 1};
    gp_convolution_settings settings = {.kernel = {1, 1}};
    if (before.rank != 4 || after.shape.rank != 4) return input;
    settings.channels = after.shape.dims[3];
    for (int axis = 0; axis < 2; axis++) {
        int64_t from = before.dims[1 + axis], to = after.shape.dims[1 + axis];
        settings.options.stride[axis] = (from + to - 1) / to;
    }
    return gp_build_convolution_norm(builder, "shortcut", input, &settings, &norm);
}

static gp_value residual_forward(const void *self, gp_builder *builder, gp_value input) {
    gp_value branch = run_children(self, builder, input);
    if (!gp_value_valid(branch)) return branch;
    gp_type before = gp_value_type(input), after = gp_value_type(branch);
    if (((const container *)self)->projection && !gp_type_equal(before, after)) {
        input = project(builder, input, after);
        if (!gp_value_valid(input)) return input;
        before = gp_value_type(input);
    }
    char one[128], other[128];
    if (!gp_type_equal(before, after)) /* adding would broadcast in silence */
        return gp_builder_error(builder, "residual: the layers inside return %s, but the input is %s",
                                gp_type_format(after, one, sizeof one), gp_type_format(before, other, sizeof other));
    return gp_add(input, branch);
}

static void destroy(void *self) {
    container *layer = self;
    if (!layer) return;
    for (size_t i = 0; i < layer->count && layer->children && layer->scopes; i++) {
        gp_layer_destroy(layer->children[i]);
        gp_free(layer->scopes[i]);
    }
    gp_free(layer->children);
    gp_free(layer->scopes);
    gp_free(layer);
}

static const gp_layer_class sequential_class = {
    .size = sizeof(gp_layer_class), .kind = "sequential", .forward = sequential_forward, .destroy = destroy};
static const gp_layer_class residual_class = {
    .size = sizeof(gp_layer_class), .kind = "residual", .forward = residual_forward, .destroy = destroy};

static char *scope_of(gp_layer *const *children, size_t count, size_t place) {
    const char *kind = gp_layer_kind(children[place]);
    size_t same = 0, before = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(gp_layer_kind(children[i]), kind) != 0) continue;
        same++;
        before += i < place;
    }
    return same == 1 ? gp_copy_text(kind) : gp_format_text("%s%zu", kind, before);
}

static gp_status create_container(gp_arguments *arguments, gp_layer **layer, const gp_layer_class *class) {
    size_t count = arguments->child_count;
    container *self = gp_allocate(sizeof *self);
    if (!self) return GP_OUT_OF_MEMORY;
    self->children = gp_allocate_array(count, sizeof *self->children);
    self->scopes = gp_allocate_array(count, sizeof *self->scopes);
    bool whole = self->children && self->scopes;
    for (size_t i = 0; i < count && whole; i++) {
        self->scopes[i] = scope_of(arguments->children, count, i);
        whole = self->scopes[i] != NULL;
    }
    if (!whole) {
        for (size_t i = 0; i < count && self->scopes; i++)
            gp_free(self->scopes[i]);
        destroy(self); /* count is 0 still: the children stay with the caller */
        return GP_OUT_OF_MEMORY;
    }
    memcpy(self->children, arguments->children, count * sizeof *self->children);
    self->count = count;
    self->projection = class == &residual_class && gp_argument_boolean(arguments, "projection");
    arguments->child_count = 0;
    return gp_layer_create(layer, class, self);
}

gp_status gp_create_sequential(gp_arguments *arguments, gp_layer **layer) {
    return create_container(arguments, layer, &sequential_class);
}

gp_status gp_create_residual(gp_arguments *arguments, gp_layer **layer) {
    return create_container(arguments, layer, &residual_class);
}
