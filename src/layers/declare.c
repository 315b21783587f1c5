/* The first walk through a model's layers, one small graph per layer: takes down parameters, uses, skips and ports, and
 * the types that flow. Two samples are sent through, so that a layer that mixes samples up shows by its shapes. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/status.h"
#include "layers/builder.h"

enum { WALK_BATCH = 2 };

/* A port as it is found, with its type; sorted once all are known. */
typedef struct gp_found_port {
    gp_port port;
    gp_type type;
    size_t order;
} gp_found_port;

typedef struct gp_walk {
    gp_model *model;
    gp_found_port *ports;
    gp_value *values; /* what arrives on ports[i], for the ports of the layer at hand */
    size_t port_count, port_capacity, value_capacity;
    gp_type chain; /* what the layer before returns */
} gp_walk;

static gp_status add_port(gp_walk *walk, gp_graph *graph, gp_port port, gp_type type, gp_value *value) {
    GP_TRY(gp_model_reserve((void **)&walk->ports, walk->port_count, &walk->port_capacity, sizeof *walk->ports));
    GP_TRY(gp_model_reserve((void **)&walk->values, walk->port_count, &walk->value_capacity, sizeof *walk->values));
    *value = gp_graph_input(graph, type);
    walk->ports[walk->port_count] = (gp_found_port){port, type, walk->port_count};
    walk->values[walk->port_count++] = *value;
    return GP_OK;
}

static gp_skip *find_skip(const gp_model *model, const char *name) {
    for (size_t i = 0; i < model->skip_count; i++) {
        if (strcmp(model->skips[i].name, name) == 0) return &model->skips[i];
    }
    return NULL;
}

static gp_value recall_first(gp_builder *builder, const char *name) {
    gp_walk *walk = builder->context;
    gp_skip *skip = find_skip(walk->model, name);
    if (!skip) {
        gp_nearest nearest = {0};
        for (size_t i = 0; i < walk->model->skip_count; i++)
            gp_nearest_consider(&nearest, name, walk->model->skips[i].name);
        return gp_builder_error(builder, "skip \"%s\" is recalled, but no earlier layer keeps it%s%s%s", name,
                                nearest.word ? " (the nearest kept one is \"" : "", nearest.word ? nearest.word : "",
                                nearest.word ? "\")" : "");
    }
    skip->recalled = true;
    for (size_t i = walk->port_count; i-- > 0 && walk->ports[i].port.destination == builder->layer;) {
        if (walk->ports[i].port.skip == skip->name) return walk->values[i];
    }
    gp_value value = gp_none();
    gp_port port = {skip->layer, builder->layer, skip->name, !gp_dtype_is_float(skip->type.dtype)};
    gp_status status = add_port(walk, builder->graph, port, skip->type, &value);
    return status == GP_OK ? value : gp_builder_fail(builder, status);
}

/* Index of the parameter that `name` is declared as; declarations of the layer named in it are searched, not all. */
static bool find_tied(const gp_builder *builder, const gp_model *model, const char *name, size_t *declaration) {
    char *end = NULL;
    if (strncmp(name, "layers.", 7) != 0 || name[7] < '0' || name[7] > '9') return false;
    unsigned long long layer = strtoull(name + 7, &end, 10);
    if (*end != '.' || layer > (unsigned long long)builder->layer) return false;
    size_t last =
        layer < (unsigned long long)builder->layer ? model->ranges[layer + 1].declaration : model->declaration_count;
    for (size_t i = model->ranges[layer].declaration; i < last; i++) {
        if (strcmp(model->declarations[i].name, name) == 0) {
            *declaration = i;
            return true;
        }
    }
    return false;
}

static gp_status tie(gp_builder *builder, const char *name, gp_shape shape, const char *tied, size_t *parameter) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    size_t found = 0;
    if (!find_tied(builder, model, tied, &found)) {
        gp_nearest nearest = {0};
        for (size_t i = 0; i < model->declaration_count; i++)
            gp_nearest_consider(&nearest, tied, model->declarations[i].name);
        return gp_error(GP_INVALID, "%s is tied to \"%s\", which this and the earlier layers do not declare%s%s%s",
                        name, tied, nearest.word ? " (the nearest one is \"" : "", nearest.word ? nearest.word : "",
                        nearest.word ? "\")" : "");
    }
    const gp_declaration *declaration = &model->declarations[found];
    if (!gp_shape_equal(declaration->shape, shape)) {
        char own[128], other[128];
        gp_type_format((gp_type){GP_F32, shape}, own, sizeof own);
        gp_type_format((gp_type){GP_F32, declaration->shape}, other, sizeof other);
        return gp_error(GP_INVALID, "%s is %s, but \"%s\", to which it is tied, is %s", name, own, tied, other);
    }
    *parameter = model->uses[declaration->use].parameter;
    return GP_OK;
}

static gp_status check_init(const gp_init *init, gp_shape shape, const char *what, const char *name) {
    bool fits = init->kind != GP_INIT_IDENTITY || shape.rank >= 2;
    if (fits && init->kind >= GP_INIT_ZEROS && init->kind <= GP_INIT_IDENTITY && isfinite(init->value)) return GP_OK;
    return gp_error(GP_INVALID, "%s %s has an initial value of kind %d with number %g", what, name, (int)init->kind,
                    init->value);
}

static gp_status own(gp_builder *builder, const char *name, gp_shape shape, const gp_parameter_options *options,
                     size_t *parameter) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    GP_TRY(check_init(&options->init, shape, "parameter", name));
    GP_TRY(gp_model_reserve((void **)&model->parameters, model->parameter_count, &model->parameter_capacity,
                            sizeof *model->parameters));
    char *copy = gp_copy_text(name);
    if (!copy) return GP_OUT_OF_MEMORY;
    *parameter = model->parameter_count++;
    model->parameters[*parameter].name = copy;
    model->parameters[*parameter].info = (gp_parameter_info){.name = copy,
                                                             .shape = shape,
                                                             .layer = (size_t)builder->layer,
                                                             .init = options->init,
                                                             .no_decay = options->no_decay || shape.rank < 2};
    return GP_OK;
}

/* One use for each layer and parameter, however often the layer declares it. */
static gp_status add_use(const gp_builder *builder, size_t parameter, size_t *use) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    for (size_t i = model->ranges[builder->layer].use; i < model->use_count; i++) {
        if (model->uses[i].parameter != parameter) continue;
        *use = i;
        return GP_OK;
    }
    GP_TRY(gp_model_reserve((void **)&model->uses, model->use_count, &model->use_capacity, sizeof *model->uses));
    if (model->parameters[parameter].info.layer != (size_t)builder->layer) model->parameters[parameter].shared = true;
    *use = model->use_count++;
    model->uses[*use] = (gp_parameter_use){parameter, builder->layer};
    return GP_OK;
}

/* That the layer has neither parameter nor state of this name yet. */
static gp_status check_new(const gp_builder *builder, const gp_model *model, const char *what, const char *name) {
    bool known = false;
    for (size_t i = model->ranges[builder->layer].declaration; i < model->declaration_count && !known; i++)
        known = strcmp(model->declarations[i].name, name) == 0;
    for (size_t i = model->ranges[builder->layer].state; i < model->state_count && !known; i++)
        known = strcmp(model->states[i].name, name) == 0;
    return known ? gp_error(GP_INVALID, "%s %s is declared twice", what, name) : GP_OK;
}

static gp_status declare(gp_builder *builder, const char *name, gp_shape shape, const gp_parameter_options *options) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    GP_TRY(check_new(builder, model, "parameter", name));
    size_t parameter = 0, use = 0;
    if (options->tie) {
        GP_TRY(tie(builder, name, shape, options->tie, &parameter));
    } else {
        GP_TRY(own(builder, name, shape, options, &parameter));
    }
    GP_TRY(add_use(builder, parameter, &use));
    GP_TRY(gp_model_reserve((void **)&model->declarations, model->declaration_count, &model->declaration_capacity,
                            sizeof *model->declarations));
    char *copy = gp_copy_text(name);
    if (!copy) return GP_OUT_OF_MEMORY;
    model->declarations[model->declaration_count++] = (gp_declaration){copy, shape, use};
    return GP_OK;
}

static gp_value parameter_first(gp_builder *builder, const char *name, gp_shape shape,
                                const gp_parameter_options *options) {
    gp_status status = declare(builder, name, shape, options);
    if (status != GP_OK) return gp_builder_fail(builder, status);
    return gp_graph_parameter(builder->graph, shape);
}

static gp_status state_first(gp_builder *builder, const char *name, gp_shape shape, const gp_init *init,
                             size_t *state) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    GP_TRY(check_new(builder, model, "state", name));
    GP_TRY(check_init(init, shape, "state", name));
    GP_TRY(
        gp_model_reserve((void **)&model->states, model->state_count, &model->state_capacity, sizeof *model->states));
    char *copy = gp_copy_text(name);
    if (!copy) return GP_OUT_OF_MEMORY;
    gp_state_info info = {.name = copy, .shape = shape, .layer = (size_t)builder->layer, .init = *init};
    *state = model->state_count++;
    model->states[*state] = (gp_model_state_data){info, copy};
    return GP_OK;
}

static gp_status moments_first(gp_builder *builder, const gp_moments *moments, gp_value mean, gp_value variance) {
    gp_model *model = ((gp_walk *)builder->context)->model;
    (void)mean;
    (void)variance;
    for (size_t i = model->ranges[builder->layer].moments; i < model->moment_count; i++) {
        const gp_moments *m = &model->moments[i];
        if (m->mean == moments->mean || m->variance == moments->mean || m->mean == moments->variance ||
            m->variance == moments->variance)
            return gp_error(GP_INVALID, "states %s and %s: one of them follows other moments already",
                            model->states[moments->mean].name, model->states[moments->variance].name);
    }
    GP_TRY(gp_model_reserve((void **)&model->moments, model->moment_count, &model->moment_capacity,
                            sizeof *model->moments));
    model->moments[model->moment_count++] = *moments;
    return GP_OK;
}

/* Moves what the layer kept to the model's skips. */
static gp_status add_skips(const gp_walk *walk, const gp_builder *builder) {
    gp_model *model = walk->model;
    for (size_t i = 0; i < builder->kept_count; i++) {
        const gp_kept *kept = &builder->kept[i];
        const gp_skip *before = find_skip(model, kept->name);
        if (before)
            return gp_error(GP_INVALID, "keeps skip \"%s\", which layer %" PRId32 " (%s) keeps already", kept->name,
                            before->layer, gp_layer_kind(model->layers[before->layer]));
        gp_type type = gp_value_type(kept->value);
        if (type.shape.rank < 1 || type.shape.dims[0] != WALK_BATCH)
            return gp_error(GP_INVALID, "keeps skip \"%s\", whose dimension 0 is not the batch", kept->name);
        GP_TRY(
            gp_model_reserve((void **)&model->skips, model->skip_count, &model->skip_capacity, sizeof *model->skips));
        char *copy = gp_copy_text(kept->name);
        if (!copy) return GP_OUT_OF_MEMORY;
        model->skips[model->skip_count++] = (gp_skip){copy, builder->layer, type, false};
    }
    return GP_OK;
}

static gp_status walk_layer(gp_walk *walk, gp_builder *builder, int32_t index) {
    gp_model *model = walk->model;
    const gp_layer *layer = model->layers[index];
    model->ranges[index] = (gp_layer_range){.declaration = model->declaration_count,
                                            .use = model->use_count,
                                            .state = model->state_count,
                                            .moments = model->moment_count,
                                            .incoming = walk->port_count};
    gp_builder_begin(builder, layer, index);
    gp_value input = gp_none(), output = gp_none();
    gp_port port = {index - 1, index, NULL, !gp_dtype_is_float(walk->chain.dtype)};
    GP_TRY(add_port(walk, builder->graph, port, walk->chain, &input));
    GP_TRY(gp_builder_run(builder, input, &output));
    GP_TRY(gp_error_within(add_skips(walk, builder), "layer %" PRId32 " (%s)", index, layer->class->kind));
    walk->chain = gp_value_type(output);
    model->aside = gp_value_valid(builder->auxiliary) && !gp_type_equal(gp_value_type(builder->auxiliary), walk->chain);
    return GP_OK;
}

static gp_status walk_layers(gp_walk *walk) {
    gp_model *model = walk->model;
    for (size_t i = 0; i < model->layer_count; i++) {
        gp_builder builder = {.dtype = GP_F32,
                              .layer_count = model->layer_count,
                              .batch = WALK_BATCH,
                              .parameter = parameter_first,
                              .recall = recall_first,
                              .state = state_first,
                              .moments = moments_first,
                              .context = walk};
        GP_TRY(gp_graph_create(&builder.graph, true));
        gp_status status = walk_layer(walk, &builder, (int32_t)i);
        gp_builder_end(&builder);
        gp_graph_destroy(builder.graph);
        GP_TRY(status);
    }
    model->ranges[model->layer_count] = (gp_layer_range){.declaration = model->declaration_count,
                                                         .use = model->use_count,
                                                         .state = model->state_count,
                                                         .moments = model->moment_count,
                                                         .incoming = walk->port_count,
                                                         .outgoing = walk->port_count};
    for (size_t i = 0; i < model->skip_count; i++) {
        const gp_skip *skip = &model->skips[i];
        if (!skip->recalled)
            return gp_error(GP_INVALID, "layer %" PRId32 " (%s): keeps skip \"%s\", which no later layer recalls",
                            skip->layer, gp_layer_kind(model->layers[skip->layer]), skip->name);
    }
    model->output = gp_type_of_sample(walk->chain);
    return GP_OK;
}

/* By source, then destination, the chain before skips, skips as they were recalled. */
static int compare_ports(const void *a, const void *b) {
    const gp_found_port *x = a, *y = b;
    if (x->port.source != y->port.source) return x->port.source < y->port.source ? -1 : 1;
    if (x->port.destination != y->port.destination) return x->port.destination < y->port.destination ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static gp_status settle_ports(gp_walk *walk) {
    gp_model *model = walk->model;
    size_t count = walk->port_count;
    if (count == 0) return GP_OK;
    model->ports = gp_allocate_array(count, sizeof *model->ports);
    model->port_types[0] = gp_allocate_array(count, sizeof(gp_type));
    model->port_types[1] = gp_allocate_array(count, sizeof(gp_type));
    model->incoming = gp_allocate_array(count, sizeof *model->incoming);
    model->arrivals = gp_allocate_array(count, sizeof *model->arrivals);
    if (!model->ports || !model->port_types[0] || !model->port_types[1] || !model->incoming || !model->arrivals)
        return GP_OUT_OF_MEMORY;
    qsort(walk->ports, count, sizeof *walk->ports, compare_ports);
    size_t outgoing = 0;
    for (size_t i = 0; i < count; i++) {
        const gp_found_port *found = &walk->ports[i];
        model->ports[i] = found->port;
        model->port_types[0][i] = found->type;
        model->incoming[found->order] = i; /* found in the order of destinations */
        model->arrivals[i] = found->order;
        for (; (int64_t)outgoing <= found->port.source; outgoing++)
            model->ranges[outgoing].outgoing = i;
    }
    for (; outgoing < model->layer_count; outgoing++)
        model->ranges[outgoing].outgoing = count;
    model->port_count = count;
    return GP_OK;
}

gp_status gp_model_declare(gp_model *model) {
    gp_walk walk = {.model = model, .chain = gp_type_with_batch(model->sample, WALK_BATCH)};
    model->ranges = gp_allocate_array(model->layer_count + 1, sizeof *model->ranges);
    if (!model->ranges) return GP_OUT_OF_MEMORY;
    gp_status status = walk_layers(&walk);
    if (status == GP_OK) status = settle_ports(&walk);
    gp_free(walk.ports);
    gp_free(walk.values);
    return status;
}
