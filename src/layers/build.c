/* The graph of a run of layers.
 *
 * Every value that leaves a layer does so through aliases, one for each destination, made when the layer is done, in
 * ascending order of destination. The backward walk goes through nodes in reverse, so it adds the gradient that comes
 * from the last destination first; and it does so whether a destination is in the same graph or behind a cut, because a
 * leaving value is an alias too. In the same way each layer uses a shared parameter through an alias of its own: the
 * gradients of the uses are added up outside, in the order of layers. That is how the same bits come out of every
 * partitioning. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builder.h"

/* A build under way. */
typedef struct gp_construction {
    const gp_model *model;
    const gp_build_options *options;
    gp_built *built;
    gp_value *arrived;                /* by incoming port of the stage's layers: what the destination sees */
    gp_value *used;                   /* by use of this stage: what the layer sees */
    size_t first_use, first_incoming; /* of the stage */
    size_t declaration;               /* the next one of the layer at hand */
} gp_construction;

static gp_type port_type(const gp_model *model, size_t port, const gp_build_options *options) {
    gp_type type = model->port_types[gp_activation_index(options->dtype)][port];
    type.shape.dims[0] = options->batch;
    return type;
}

/* Where the destination finds what comes over a port; the destination is in the stage. */
static gp_value *arrived_on(const gp_construction *construction, size_t port) {
    return &construction->arrived[construction->model->arrivals[port] - construction->first_incoming];
}

/* ---- what a layer's forward asks for ---- */

static gp_value parameter_value(gp_construction *construction, size_t use) {
    const gp_model *model = construction->model;
    gp_built *built = construction->built;
    gp_value *used = &construction->used[use - construction->first_use];
    if (gp_value_valid(*used)) return *used;
    size_t parameter = model->uses[use].parameter;
    const gp_model_parameter_data *data = &model->parameters[parameter];
    gp_built_use *own = &built->uses[use - construction->first_use];
    for (size_t i = construction->first_use; data->shared && i < use && !gp_value_valid(own->value); i++) {
        if (model->uses[i].parameter == parameter) own->value = built->uses[i - construction->first_use].value;
    }
    if (!gp_value_valid(own->value)) own->value = gp_graph_parameter(built->graph, data->info.shape);
    *used = data->shared && construction->options->gradients ? gp_graph_alias(own->value) : own->value;
    return *used;
}

static gp_value parameter_again(gp_builder *builder, const char *name, gp_shape shape,
                                const gp_parameter_options *options) {
    (void)options;
    gp_construction *construction = builder->context;
    const gp_model *model = construction->model;
    size_t next = construction->declaration, end = model->ranges[builder->layer + 1].declaration;
    if (next >= end || strcmp(model->declarations[next].name, name) != 0 ||
        !gp_shape_equal(model->declarations[next].shape, shape)) {
        return gp_builder_error(builder, "declares %s now, but declared %s when the model was finished", name,
                                next < end ? model->declarations[next].name : "nothing more");
    }
    construction->declaration++;
    return parameter_value(construction, model->declarations[next].use);
}

static gp_status state_again(gp_builder *builder, const char *name, gp_shape shape, const gp_init *init,
                             size_t *state) {
    const gp_construction *construction = builder->context;
    const gp_model *model = construction->model;
    size_t next = model->ranges[builder->layer].state + builder->state_count;
    size_t end = model->ranges[builder->layer + 1].state;
    (void)init;
    if (next >= end || strcmp(model->states[next].name, name) != 0 ||
        !gp_shape_equal(model->states[next].info.shape, shape))
        return gp_error(GP_INVALID, "declares state %s now, but declared %s when the model was finished", name,
                        next < end ? model->states[next].name : "nothing more");
    *state = next;
    return GP_OK;
}

static gp_status moments_again(gp_builder *builder, const gp_moments *moments, gp_value mean, gp_value variance) {
    const gp_construction *construction = builder->context;
    const gp_model *model = construction->model;
    size_t next = model->ranges[construction->options->first_layer].moments + construction->built->moment_count;
    const gp_moments *known = &model->moments[next];
    if (next >= model->ranges[builder->layer + 1].moments || known->mean != moments->mean ||
        known->variance != moments->variance || known->decay != moments->decay)
        return gp_error(GP_INVALID, "state %s follows other moments now than when the model was finished",
                        model->states[moments->mean].name);
    construction->built->moments[construction->built->moment_count++] = (gp_built_moments){next, mean, variance};
    return GP_OK;
}

static gp_value recall_again(gp_builder *builder, const char *name) {
    const gp_construction *construction = builder->context;
    const gp_model *model = construction->model;
    for (size_t i = model->ranges[builder->layer].incoming; i < model->ranges[builder->layer + 1].incoming; i++) {
        const gp_port *port = &model->ports[model->incoming[i]];
        if (port->skip && strcmp(port->skip, name) == 0) return *arrived_on(construction, model->incoming[i]);
    }
    return gp_builder_error(builder, "recalls skip \"%s\", but did not when the model was finished", name);
}

/* ---- ports ---- */

static int compare_indices(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Inputs of the graph for what arrives from before the stage. */
static gp_status arrive(gp_construction *construction) {
    const gp_model *model = construction->model;
    const gp_build_options *options = construction->options;
    gp_built *built = construction->built;
    size_t first = model->ranges[options->first_layer].incoming;
    size_t end = model->ranges[options->last_layer + 1].incoming, count = 0;
    size_t *arriving = gp_allocate_array(end - first, sizeof *arriving);
    if (!arriving) return GP_OUT_OF_MEMORY;
    for (size_t i = first; i < end; i++) {
        if (model->ports[model->incoming[i]].source < options->first_layer) arriving[count++] = model->incoming[i];
    }
    qsort(arriving, count, sizeof *arriving, compare_indices);
    built->arriving = gp_allocate_array(count, sizeof *built->arriving);
    if (built->arriving) {
        for (size_t i = 0; i < count; i++) {
            gp_type type = port_type(model, arriving[i], options);
            if (model->ports[arriving[i]].source < 0) type.dtype = model->sample.dtype;
            gp_value value = gp_graph_input(built->graph, type);
            *arrived_on(construction, arriving[i]) = value;
            built->arriving[i] = (gp_built_port){arriving[i], value, gp_none()};
        }
        built->arriving_count = count;
    }
    gp_free(arriving);
    return built->arriving ? GP_OK : GP_OUT_OF_MEMORY;
}

/* What the value is an alias of. */
static gp_value root_of(gp_value value) {
    const gp_graph *graph = value.graph;
    for (;;) {
        const gp_value_info *info = &graph->values[value.index];
        if (info->kind != GP_VALUE_RESULT || graph->nodes[info->node].id != GP_OP_ALIAS) return value;
        value.index = graph->nodes[info->node].inputs[0];
    }
}

/* A value between two layers of the stage; what arrived from outside is stashed as that already. */
static void add_boundary(gp_built *built, gp_value value) {
    value = root_of(value);
    if (built->graph->values[value.index].kind != GP_VALUE_RESULT) return;
    for (size_t i = built->boundary_count; i-- > 0;) {
        if (built->boundaries[i].index == value.index) return;
    }
    built->boundaries[built->boundary_count++] = value;
}

static gp_value source_value(const gp_builder *builder, const gp_port *port, gp_value output) {
    if (!port->skip) return output;
    for (size_t i = 0; i < builder->kept_count; i++) {
        if (strcmp(builder->kept[i].name, port->skip) == 0) return builder->kept[i].value;
    }
    gp_error(GP_INVALID, "does not keep skip \"%s\" now, but did when the model was finished", port->skip);
    return gp_none();
}

static gp_status check_type(const gp_construction *construction, size_t port, gp_value value) {
    gp_type expected = port_type(construction->model, port, construction->options), found = gp_value_type(value);
    if (expected.shape.rank == 0 || gp_type_equal(expected, found)) return GP_OK; /* rank 0: not known yet */
    char one[160], other[160];
    return gp_error(GP_INVALID,
                    "%s is %s for %" PRId64 " samples, but %s is expected: dimension 0 must be the batch "
                    "and the rest must not depend on it",
                    construction->model->ports[port].skip ? "a skip" : "the output",
                    gp_type_format(found, one, sizeof one), construction->options->batch,
                    gp_type_format(expected, other, sizeof other));
}

/* Aliases for every destination of what the layer returned and kept. */
static gp_status depart(gp_construction *construction, const gp_builder *builder, gp_value output) {
    const gp_model *model = construction->model;
    gp_built *built = construction->built;
    for (size_t i = model->ranges[builder->layer].outgoing; i < model->ranges[builder->layer + 1].outgoing; i++) {
        const gp_port *port = &model->ports[i];
        gp_value source = source_value(builder, port, output);
        if (!gp_value_valid(source)) return GP_INVALID;
        GP_TRY(check_type(construction, i, source));
        gp_value alias = gp_graph_alias(source);
        if (port->destination > construction->options->last_layer) {
            built->leaving[built->leaving_count++] = (gp_built_port){i, alias, gp_none()};
        } else {
            *arrived_on(construction, i) = alias;
            add_boundary(built, source);
        }
    }
    return gp_graph_status(built->graph);
}

static gp_status allocate_ports(gp_construction *construction) {
    const gp_model *model = construction->model;
    const gp_build_options *options = construction->options;
    gp_built *built = construction->built;
    size_t outgoing = model->ranges[options->last_layer + 1].outgoing - model->ranges[options->first_layer].outgoing;
    construction->first_incoming = model->ranges[options->first_layer].incoming;
    size_t incoming = model->ranges[options->last_layer + 1].incoming - construction->first_incoming;
    construction->first_use = model->ranges[options->first_layer].use;
    built->use_count = model->ranges[options->last_layer + 1].use - construction->first_use;
    const gp_layer_range *first = &model->ranges[options->first_layer], *end = &model->ranges[options->last_layer + 1];
    built->states = gp_allocate_array(end->state - first->state, sizeof *built->states);
    built->moments = gp_allocate_array(end->moments - first->moments, sizeof *built->moments);
    construction->arrived = gp_allocate_array(incoming, sizeof(gp_value));
    construction->used = gp_allocate_array(built->use_count, sizeof(gp_value));
    built->leaving = gp_allocate_array(outgoing, sizeof *built->leaving);
    built->boundaries = gp_allocate_array(outgoing, sizeof *built->boundaries);
    built->uses = gp_allocate_array(built->use_count, sizeof *built->uses);
    if (!construction->arrived || !construction->used || !built->leaving || !built->boundaries || !built->uses ||
        !built->states || !built->moments)
        return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < built->use_count; i++) {
        built->uses[i] = (gp_built_use){construction->first_use + i, gp_none(), gp_none()};
        construction->used[i] = gp_none();
    }
    return GP_OK;
}

/* ---- the walk through the layers ---- */

/* What the layer has declared, and that it is all that it once declared. */
static gp_status take_states(gp_construction *construction, const gp_builder *builder) {
    gp_built *built = construction->built;
    const gp_layer_range *range = &construction->model->ranges[builder->layer];
    size_t first_moments = construction->model->ranges[construction->options->first_layer].moments;
    if (builder->state_count != range[1].state - range->state)
        return gp_error(GP_INVALID, "declares fewer states than when the model was finished");
    if (construction->options->training && first_moments + built->moment_count != range[1].moments)
        return gp_error(GP_INVALID, "fewer of its states follow moments than when the model was finished");
    if (builder->state_count > 0)
        memcpy(built->states + built->state_count, builder->states, builder->state_count * sizeof *built->states);
    built->state_count += builder->state_count;
    return GP_OK;
}

static gp_status build_layer(gp_construction *construction, gp_builder *builder, int32_t index) {
    const gp_model *model = construction->model;
    const gp_layer *layer = model->layers[index];
    gp_value input = gp_none(), output = gp_none();
    gp_builder_begin(builder, layer, index);
    construction->declaration = model->ranges[index].declaration;
    for (size_t i = model->ranges[index].incoming; i < model->ranges[index + 1].incoming; i++) {
        if (!model->ports[model->incoming[i]].skip) input = *arrived_on(construction, model->incoming[i]);
    }
    /* Samples are f32 in host memory whatever the activations are. */
    if (index == 0 && gp_value_type(input).dtype == GP_F32 && builder->dtype != GP_F32)
        input = gp_cast(input, builder->dtype);
    GP_TRY(gp_builder_run(builder, input, &output));
    gp_status status = GP_OK;
    if (construction->declaration != model->ranges[index + 1].declaration)
        status = gp_error(GP_INVALID, "declares fewer parameters than when the model was finished");
    if (status == GP_OK) status = take_states(construction, builder);
    if (status == GP_OK) status = depart(construction, builder, output);
    if ((size_t)index + 1 == model->layer_count) {
        construction->built->output = output;
        construction->built->auxiliary = builder->auxiliary;
        construction->built->auxiliary_weight = builder->auxiliary_weight;
    }
    return gp_error_within(status, "layer %" PRId32 " (%s)", index, layer->class->kind);
}

static gp_status build_layers(gp_construction *construction) {
    const gp_build_options *options = construction->options;
    gp_builder builder = {.graph = construction->built->graph,
                          .dtype = options->dtype,
                          .batch = options->batch,
                          .layer_count = construction->model->layer_count,
                          .parameter = parameter_again,
                          .recall = recall_again,
                          .state = state_again,
                          .moments = moments_again,
                          .context = construction};
    gp_status status = GP_OK;
    for (int32_t i = options->first_layer; i <= options->last_layer && status == GP_OK; i++) {
        status = build_layer(construction, &builder, i);
        gp_builder_end(&builder);
    }
    return status;
}

/* ---- gradients ---- */

typedef struct gp_gradient_lists {
    gp_value *outputs, *output_gradients, *wanted, *gradients;
    size_t output_count, wanted_count;
} gp_gradient_lists;

static void list_outputs(const gp_construction *construction, gp_gradient_lists *lists) {
    gp_built *built = construction->built;
    if (gp_value_valid(built->loss)) {
        built->loss_gradient = gp_graph_input(built->graph, (gp_type){.dtype = GP_F32});
        lists->outputs[0] = built->loss;
        lists->output_gradients[lists->output_count++] = built->loss_gradient;
    }
    for (size_t i = 0; i < built->leaving_count; i++) {
        gp_built_port *port = &built->leaving[i];
        if (construction->model->ports[port->port].indices) continue;
        port->gradient = gp_graph_input(built->graph, gp_value_type(port->value));
        lists->outputs[lists->output_count] = port->value;
        lists->output_gradients[lists->output_count++] = port->gradient;
    }
}

static void list_wanted(const gp_construction *construction, gp_gradient_lists *lists) {
    const gp_built *built = construction->built;
    for (size_t i = 0; i < built->arriving_count; i++) {
        if (!construction->model->ports[built->arriving[i].port].indices)
            lists->wanted[lists->wanted_count++] = built->arriving[i].value;
    }
    for (size_t i = 0; i < built->use_count; i++)
        lists->wanted[lists->wanted_count++] = construction->used[i];
}

static void take_gradients(const gp_construction *construction, const gp_gradient_lists *lists) {
    gp_built *built = construction->built;
    size_t next = 0;
    for (size_t i = 0; i < built->arriving_count; i++) {
        if (!construction->model->ports[built->arriving[i].port].indices)
            built->arriving[i].gradient = lists->gradients[next++];
    }
    for (size_t i = 0; i < built->use_count; i++)
        built->uses[i].gradient = lists->gradients[next++];
}

static gp_status add_gradients(const gp_construction *construction) {
    gp_built *built = construction->built;
    size_t outputs = built->leaving_count + 1, wanted = built->arriving_count + built->use_count;
    gp_gradient_lists lists = {.outputs = gp_allocate_array(outputs, sizeof(gp_value)),
                               .output_gradients = gp_allocate_array(outputs, sizeof(gp_value)),
                               .wanted = gp_allocate_array(wanted, sizeof(gp_value)),
                               .gradients = gp_allocate_array(wanted, sizeof(gp_value))};
    gp_status status = GP_OUT_OF_MEMORY;
    if (!lists.outputs || !lists.output_gradients || !lists.wanted || !lists.gradients) goto done;
    status = GP_OK;
    list_outputs(construction, &lists);
    list_wanted(construction, &lists);
    if (lists.output_count == 0 || lists.wanted_count == 0) goto done;
    status = gp_graph_gradients(built->graph, lists.outputs, lists.output_gradients, lists.output_count, lists.wanted,
                                lists.gradients, lists.wanted_count);
    if (status == GP_OK) take_gradients(construction, &lists);
done:
    gp_free(lists.outputs);
    gp_free(lists.output_gradients);
    gp_free(lists.wanted);
    gp_free(lists.gradients);
    return status;
}

/* ---- the whole ---- */

static gp_status check_options(const gp_model *model, const gp_build_options *options) {
    if (options->first_layer < 0 || options->last_layer < options->first_layer ||
        (size_t)options->last_layer >= model->layer_count)
        return gp_error(GP_INVALID, "layers %" PRId32 " to %" PRId32 " are asked for, the model has 0 to %zu",
                        options->first_layer, options->last_layer, model->layer_count - 1);
    if (options->batch < 1) return gp_error(GP_INVALID, "a micro-batch has %" PRId64 " samples", options->batch);
    if (options->dtype != GP_F32 && options->dtype != GP_BF16)
        return gp_error(GP_INVALID, "activations are %s: f32 and bf16 are accepted", gp_dtype_name(options->dtype));
    if (options->dtype == GP_BF16 && model->bf16_error) return gp_error(GP_INVALID, "%s", model->bf16_error);
    return GP_OK;
}

static gp_status construct(gp_construction *construction) {
    const gp_model *model = construction->model;
    const gp_build_options *options = construction->options;
    GP_TRY(gp_graph_create(&construction->built->graph, options->training));
    GP_TRY(allocate_ports(construction));
    GP_TRY(arrive(construction));
    GP_TRY(build_layers(construction));
    if (options->loss && gp_value_valid(construction->built->output))
        GP_TRY(gp_model_build_loss(model, options, construction->built));
    if (options->gradients) GP_TRY(add_gradients(construction));
    return gp_graph_status(construction->built->graph);
}

gp_status gp_model_build(const gp_model *model, const gp_build_options *options, gp_built *built) {
    *built = (gp_built){.output = gp_none(),
                        .auxiliary = gp_none(),
                        .targets = gp_none(),
                        .weights = gp_none(),
                        .loss = gp_none(),
                        .loss_gradient = gp_none()};
    GP_TRY(check_options(model, options));
    gp_construction construction = {.model = model, .options = options, .built = built};
    gp_status status = construct(&construction);
    gp_free(construction.arrived);
    gp_free(construction.used);
    if (status != GP_OK) gp_built_destroy(built);
    return status;
}

void gp_built_destroy(gp_built *built) {
    gp_graph_destroy(built->graph);
    gp_free(built->arriving);
    gp_free(built->leaving);
    gp_free(built->uses);
    gp_free(built->boundaries);
    gp_free(built->states);
    gp_free(built->moments);
    *built = (gp_built){0};
}
