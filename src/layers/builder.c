/* What a layer's forward calls: parameters, scopes, skips, errors; and the frame around one layer's forward, which puts
 * the layer's place before the message of whatever went wrong inside. */
#include "layers/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"

gp_value gp_builder_fail(gp_builder *builder, gp_status status) {
    if (gp_graph_status(builder->graph) == GP_OK) {
        gp_graph_error(builder->graph, "%s", gp_error_message());
        builder->graph->status = status;
    }
    return gp_none();
}

gp_value gp_builder_error(gp_builder *builder, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (gp_graph_status(builder->graph) == GP_OK) gp_error(GP_INVALID, "%s", text);
    return gp_builder_fail(builder, GP_INVALID);
}

gp_status gp_builder_full_name(gp_builder *builder, const char *what, const char *name, size_t *used) {
    size_t length = strlen(name);
    *used = strlen(builder->path);
    if (*used + length >= GP_MAX_NAME)
        return gp_error(GP_INVALID, "the name of %s %.60s... is longer than %d characters", what, name,
                        GP_MAX_NAME - 1);
    memcpy(builder->path + *used, name, length + 1);
    return GP_OK;
}

gp_value gp_builder_parameter(gp_builder *builder, const char *name, gp_shape shape,
                              const gp_parameter_options *options) {
    gp_parameter_options known;
    if (!name || !*name) return gp_builder_error(builder, "a parameter has no name");
    gp_status status = gp_options_read(&known, sizeof known, options, "gp_parameter_options");
    if (status == GP_OK) status = gp_shape_check(shape);
    if (status != GP_OK) return gp_builder_fail(builder, gp_error_within(status, "parameter %s", name));
    size_t used;
    status = gp_builder_full_name(builder, "parameter", name, &used);
    if (status != GP_OK) return gp_builder_fail(builder, status);
    gp_value value = builder->parameter(builder, builder->path, shape, &known);
    builder->path[used] = '\0';
    return value;
}

void gp_builder_push(gp_builder *builder, const char *scope) {
    size_t used = strlen(builder->path);
    int depth = builder->depth++; /* counted even on error: the matching pop will come */
    if (depth >= GP_MAX_SCOPES) {
        gp_builder_error(builder, "layers are nested deeper than %d scopes", (int)GP_MAX_SCOPES);
        return;
    }
    builder->lengths[depth] = used;
    int written = snprintf(builder->path + used, GP_MAX_NAME - used, "%s.", scope);
    if (written < 0 || (size_t)written >= GP_MAX_NAME - used) {
        builder->path[used] = '\0';
        gp_builder_error(builder, "names of scopes add up to more than %d characters", GP_MAX_NAME - 1);
    }
}

void gp_builder_pop(gp_builder *builder) {
    if (builder->depth == 0) {
        gp_builder_error(builder, "gp_builder_pop without a gp_builder_push before it");
        return;
    }
    if (--builder->depth < GP_MAX_SCOPES) builder->path[builder->lengths[builder->depth]] = '\0';
}

gp_dtype gp_builder_dtype(const gp_builder *builder) {
    return builder->dtype;
}

static gp_kept *find_kept(const gp_builder *builder, const char *name) {
    for (size_t i = 0; i < builder->kept_count; i++) {
        if (strcmp(builder->kept[i].name, name) == 0) return &builder->kept[i];
    }
    return NULL;
}

void gp_builder_keep(gp_builder *builder, const char *name, gp_value value) {
    if (!gp_value_valid(value)) return; /* something failed before */
    if (find_kept(builder, name)) {
        gp_builder_error(builder, "skip \"%s\" is kept twice in this layer", name);
        return;
    }
    gp_status status =
        gp_model_reserve((void **)&builder->kept, builder->kept_count, &builder->kept_capacity, sizeof *builder->kept);
    char *copy = status == GP_OK ? gp_copy_text(name) : NULL;
    if (!copy) {
        gp_builder_fail(builder, GP_OUT_OF_MEMORY);
        return;
    }
    builder->kept[builder->kept_count++] = (gp_kept){copy, value};
}

gp_value gp_builder_recall(gp_builder *builder, const char *name) {
    const gp_kept *kept = find_kept(builder, name); /* by this very layer: no port is needed */
    return kept ? kept->value : builder->recall(builder, name);
}

void gp_builder_auxiliary(gp_builder *builder, gp_value value, double weight) {
    if (!gp_value_valid(value)) return; /* something failed before */
    if ((size_t)builder->layer + 1 != builder->layer_count) {
        gp_builder_error(builder, "an auxiliary output counts in the loss, so that only the last layer can give it");
    } else if (gp_value_valid(builder->auxiliary)) {
        gp_builder_error(builder, "there is more than one auxiliary output");
    } else if (!(weight > 0 && isfinite(weight))) {
        gp_builder_error(builder, "the auxiliary output has weight %g, but more than 0 is accepted", weight);
    }
    builder->auxiliary = value;
    builder->auxiliary_weight = weight;
}

void gp_builder_begin(gp_builder *builder, const gp_layer *layer, int32_t index) {
    builder->top = layer;
    builder->layer = index;
    builder->depth = 0;
    builder->state_count = 0;
    builder->where[0] = '\0';
    builder->auxiliary = gp_none();
    builder->root = (size_t)snprintf(builder->path, GP_MAX_NAME, "layers.%" PRId32 ".", index);
    gp_graph_begin_layer(builder->graph, index);
}

/* As the output, or classes of the whole sample beside an output of rows. */
static gp_status check_auxiliary(const gp_builder *builder, gp_type output) {
    gp_type type = gp_value_type(builder->auxiliary);
    char text[128], other[128];
    bool aside = type.shape.rank == 2 && output.shape.rank == 3 && type.shape.dims[0] == builder->batch &&
                 gp_dtype_is_float(type.dtype);
    if (aside || gp_type_equal(type, output)) return GP_OK;
    return gp_error(GP_INVALID, "its auxiliary output is %s, but its output is %s",
                    gp_type_format(type, other, sizeof other), gp_type_format(output, text, sizeof text));
}

static gp_status check_output(const gp_builder *builder, gp_value output) {
    GP_TRY(gp_graph_status(builder->graph));
    if (!gp_value_valid(output)) return gp_error(GP_INVALID, "its forward returned no value");
    if (output.graph != builder->graph) return gp_error(GP_INVALID, "its forward returned a value of another graph");
    if (builder->depth != 0) return gp_error(GP_INVALID, "its forward left %d scopes open", builder->depth);
    gp_type type = gp_value_type(output);
    char text[128];
    if (gp_value_valid(builder->auxiliary)) GP_TRY(check_auxiliary(builder, type));
    if (type.shape.rank < 1 || type.shape.dims[0] != builder->batch)
        return gp_error(GP_INVALID, "it returns %s for %" PRId64 " samples, but dimension 0 must stay the batch",
                        gp_type_format(type, text, sizeof text), builder->batch);
    return GP_OK;
}

gp_status gp_builder_run(gp_builder *builder, gp_value input, gp_value *output) {
    const gp_layer *layer = builder->top;
    *output = layer->class->forward(layer->self, builder, input);
    gp_status status = check_output(builder, *output);
    const char *where = builder->where;
    return gp_error_within(status, "layer %" PRId32 " (%s)%s%s", builder->layer, layer->class->kind, *where ? ", " : "",
                           where);
}

void gp_builder_end(gp_builder *builder) {
    for (size_t i = 0; i < builder->kept_count; i++)
        gp_free(builder->kept[i].name);
    gp_free(builder->kept);
    gp_free(builder->states);
    builder->kept = NULL;
    builder->states = NULL;
    builder->kept_count = builder->kept_capacity = 0;
    builder->state_count = builder->state_capacity = 0;
}

gp_value gp_layer_forward(const gp_layer *layer, gp_builder *builder, gp_value input) {
    if (!gp_value_valid(input)) return gp_none();
    gp_value output = layer->class->forward(layer->self, builder, input);
    if (gp_graph_status(builder->graph) != GP_OK && !builder->where[0]) {
        int scopes = (int)(strlen(builder->path) - builder->root);
        snprintf(builder->where, sizeof builder->where, "%.*s (%s)", scopes > 0 ? scopes - 1 : 0,
                 builder->path + builder->root, layer->class->kind);
    }
    return output;
}
