/* A stage's life and its tables: with whom it exchanges values, which parameters it holds, where they lie. */
#include "pipeline/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/buckets.h"

size_t gp_stage_value_bytes(const gp_stage *stage, gp_type type) {
    return gp_align(stage->options.device->class->bytes(type));
}

size_t gp_stage_regions(const gp_stage *stage) {
    return GP_REGION_PEERS + 2 * (stage->before_count + stage->after_count) + stage->late_count + 1;
}

/* The stage that holds a layer: the last one that begins at it or before. */
static size_t stage_of(const gp_stage_options *options, int32_t layer) {
    size_t first = 0, end = options->stages;
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;
        if (options->bounds[middle] <= (size_t)layer)
            first = middle;
        else
            end = middle;
    }
    return first;
}

/* ---- peers ---- */

/* The peer of a port seen from this stage, if the port crosses its border: `arrives` says which side. */
static bool crossing(const gp_stage *stage, const gp_port *port, bool arrives, size_t *peer) {
    bool source_in = port->source >= stage->first_layer && port->source <= stage->last_layer;
    bool destination_in = port->destination >= stage->first_layer && port->destination <= stage->last_layer;
    if (port->source < 0 || source_in == destination_in || destination_in != arrives) return false;
    *peer = stage_of(&stage->options, arrives ? port->source : port->destination);
    return true;
}

static size_t count_ports(const gp_stage *stage, bool arrives) {
    const gp_port *ports;
    size_t port_count = gp_model_ports(stage->options.model, &ports), count = 0, peer;
    for (size_t i = 0; i < port_count; i++)
        count += crossing(stage, &ports[i], arrives, &peer);
    return count;
}

/* Writes the ports exchanged with one stage; returns how many. */
static size_t list_ports(const gp_stage *stage, bool arrives, size_t with, size_t *list, bool *gradients) {
    const gp_port *ports;
    size_t port_count = gp_model_ports(stage->options.model, &ports), count = 0, peer;
    *gradients = false;
    for (size_t i = 0; i < port_count; i++) {
        if (!crossing(stage, &ports[i], arrives, &peer) || peer != with) continue;
        *gradients = *gradients || !ports[i].indices;
        list[count++] = i;
    }
    return count;
}

static size_t find_peers(gp_stage *stage, bool arrives, gp_stage_peer *peers, size_t *ports, size_t first, size_t end) {
    size_t count = 0;
    for (size_t with = first; with < end; with++) {
        gp_stage_peer peer = {.stage = with, .ports = ports};
        peer.port_count = list_ports(stage, arrives, with, ports, &peer.gradients);
        if (peer.port_count == 0) continue;
        peer.gradients = peer.gradients && !stage->options.inference;
        ports += peer.port_count;
        peers[count++] = peer;
    }
    return count;
}

static gp_status create_peers(gp_stage *stage) {
    size_t arriving = count_ports(stage, true), leaving = count_ports(stage, false);
    size_t index = stage->options.index;
    stage->ports = gp_allocate_array(arriving + leaving, sizeof *stage->ports);
    stage->before = gp_allocate_array(index, sizeof *stage->before);
    stage->after = gp_allocate_array(stage->options.stages - index, sizeof *stage->after);
    if (!stage->ports || !stage->before || !stage->after) return GP_OUT_OF_MEMORY;
    stage->before_count = find_peers(stage, true, stage->before, stage->ports, 0, index);
    stage->after_count =
        find_peers(stage, false, stage->after, stage->ports + arriving, index + 1, stage->options.stages);
    int region = GP_REGION_PEERS;
    for (size_t i = 0; i < stage->before_count; i++) {
        stage->before[i].forward_region = region++;
        stage->before[i].gradient_region = region++;
    }
    for (size_t i = 0; i < stage->after_count; i++) {
        stage->after[i].forward_region = region++;
        stage->after[i].gradient_region = region++;
    }
    return GP_OK;
}

/* ---- parameters ---- */

static int compare_parameters(const void *a, const void *b) {
    size_t x = ((const gp_stage_parameter *)a)->parameter, y = ((const gp_stage_parameter *)b)->parameter;
    return (x > y) - (x < y);
}

static bool in_stage(const gp_stage *stage, const gp_parameter_use *use) {
    return use->layer >= stage->first_layer && use->layer <= stage->last_layer;
}

static gp_status list_parameters(gp_stage *stage) {
    const gp_parameter_use *uses;
    size_t total = gp_model_uses(stage->options.model, &uses);
    for (size_t i = 0; i < total; i++)
        stage->use_count += in_stage(stage, &uses[i]);
    stage->parameters = gp_allocate_array(stage->use_count, sizeof *stage->parameters);
    stage->use_offsets = gp_allocate_array(stage->use_count, sizeof *stage->use_offsets);
    stage->extra = gp_allocate_array(stage->use_count, sizeof *stage->extra);
    bool *listed = gp_allocate_array(gp_model_parameters(stage->options.model), sizeof *listed);
    bool all = stage->parameters && stage->use_offsets && stage->extra && listed;
    for (size_t i = 0; all && i < total; i++) {
        if (!in_stage(stage, &uses[i]) || listed[uses[i].parameter]) continue;
        listed[uses[i].parameter] = true;
        gp_parameter_info info = gp_model_parameter(stage->options.model, uses[i].parameter);
        const double *factors = stage->options.lr_factors;
        stage->parameters[stage->parameter_count++] =
            (gp_stage_parameter){.parameter = uses[i].parameter,
                                 .type = {GP_F32, info.shape},
                                 .elements = gp_shape_elements(info.shape),
                                 .no_decay = info.no_decay,
                                 .lr_factor = factors ? factors[uses[i].parameter] : 1};
    }
    gp_free(listed);
    if (!all) return GP_OUT_OF_MEMORY;
    qsort(stage->parameters, stage->parameter_count, sizeof *stage->parameters, compare_parameters);
    return GP_OK;
}

/* Where the accumulators of further uses lie: behind the weights, parameter by parameter. Returns the end. */
static size_t place_extra(gp_stage *stage, size_t at) {
    for (size_t p = 0; p < stage->parameter_count; p++) {
        gp_stage_parameter *parameter = &stage->parameters[p];
        parameter->first_extra = stage->extra_count;
        for (size_t i = 0; i < parameter->extra_count; i++) {
            stage->extra[stage->extra_count++] = at;
            at += gp_stage_value_bytes(stage, parameter->type);
        }
    }
    return at;
}

/* Which elements of each parameter are this replica's to update, and where their optimizer state lies. */
static void lay_out_moments(gp_stage *stage) {
    const gp_stage_options *options = &stage->options;
    size_t at = 0;
    for (size_t p = 0; p < stage->parameter_count; p++) {
        gp_stage_parameter *parameter = &stage->parameters[p];
        gp_piece own = {0, parameter->elements};
        if (options->shard_optimizer && gp_parameter_is_cut(parameter->elements, options->replicas))
            own = gp_parameter_piece(parameter->elements, options->replica, options->replicas);
        parameter->own_first = own.first;
        parameter->own_count = own.count;
        parameter->moment_offset = at;
        at += gp_stage_value_bytes(stage, (gp_type){GP_F32, {.rank = 1, .dims = {own.count}}});
    }
    stage->bytes.moments = at * (size_t)options->moments;
}

/* Offsets: first accumulators lie like the weights, those of further uses behind them. */
static gp_status lay_out_parameters(gp_stage *stage) {
    const gp_parameter_use *uses;
    size_t total = gp_model_uses(stage->options.model, &uses), at = 0, use = 0;
    for (size_t p = 0; p < stage->parameter_count; p++) {
        stage->parameters[p].offset = at;
        at += gp_stage_value_bytes(stage, stage->parameters[p].type);
    }
    stage->bytes.weights = at;
    if (stage->options.inference) return GP_OK;
    stage->bytes.averages = stage->options.average ? at : 0;
    lay_out_moments(stage);
    size_t *seen = gp_allocate_array(stage->parameter_count, sizeof *seen);
    if (!seen) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < total; i++) {
        if (!in_stage(stage, &uses[i])) continue;
        size_t p = gp_stage_find_parameter(stage, uses[i].parameter);
        stage->parameters[p].extra_count += seen[p]++ > 0;
    }
    stage->bytes.gradients = place_extra(stage, at);
    memset(seen, 0, stage->parameter_count * sizeof *seen);
    for (size_t i = 0; i < total; i++) {
        if (!in_stage(stage, &uses[i])) continue;
        size_t p = gp_stage_find_parameter(stage, uses[i].parameter), before = seen[p]++;
        const gp_stage_parameter *parameter = &stage->parameters[p];
        stage->use_offsets[use++] = before == 0 ? parameter->offset : stage->extra[parameter->first_extra + before - 1];
    }
    gp_free(seen);
    return GP_OK;
}

/* Which stages hold each parameter: uses come in the order of layers. */
static gp_status find_holders(gp_stage *stage) {
    const gp_parameter_use *uses;
    size_t total = gp_model_uses(stage->options.model, &uses), room = 0;
    size_t *places = gp_allocate_array(stage->parameter_count + 1, sizeof *places);
    if (!places) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < total; i++) {
        size_t p = gp_stage_find_parameter(stage, uses[i].parameter);
        if (p == SIZE_MAX) continue;
        places[p + 1]++;
        room++;
    }
    stage->holders = gp_allocate_array(room, sizeof *stage->holders);
    for (size_t p = 0; stage->holders && p < stage->parameter_count; p++) {
        stage->parameters[p].holders = stage->holders + places[p];
        places[p + 1] += places[p];
    }
    for (size_t i = 0; stage->holders && i < total; i++) {
        size_t p = gp_stage_find_parameter(stage, uses[i].parameter);
        if (p == SIZE_MAX) continue;
        gp_stage_parameter *parameter = &stage->parameters[p];
        parameter->use_count++;
        int holder = (int)stage_of(&stage->options, uses[i].layer);
        if (parameter->holder_count > 0 && parameter->holders[parameter->holder_count - 1] == holder) continue;
        stage->holders[places[p] + (size_t)parameter->holder_count++] = holder;
        if (parameter->holder_count == 1) parameter->owner = (size_t)holder;
    }
    gp_free(places);
    return stage->holders ? GP_OK : GP_OUT_OF_MEMORY;
}

/* ---- life ---- */

static gp_status fill(gp_stage *stage) {
    GP_TRY(create_peers(stage));
    GP_TRY(list_parameters(stage));
    GP_TRY(lay_out_parameters(stage));
    GP_TRY(gp_stage_list_states(stage));
    return find_holders(stage);
}

gp_status gp_stage_create(gp_stage **stage, const gp_stage_options *options) {
    *stage = NULL;
    gp_stage *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->options = *options;
    made->first_layer = (int32_t)options->bounds[options->index];
    made->last_layer = (int32_t)options->bounds[options->index + 1] - 1;
    made->is_first = options->index == 0;
    made->is_last = options->index == options->stages - 1;
    gp_status status = fill(made);
    if (status != GP_OK) {
        gp_stage_destroy(made);
        return status;
    }
    *stage = made;
    return GP_OK;
}

static void release_memory(gp_stage *stage) {
    gp_device *device = stage->options.device;
    gp_device_release(device, stage->weights, stage->bytes.weights);
    gp_device_release(device, stage->packed, stage->packed_bytes);
    gp_device_release(device, stage->gradients, stage->bytes.gradients);
    gp_device_release(device, stage->moments, stage->bytes.moments);
    gp_device_release(device, stage->averages, stage->bytes.averages);
    gp_device_release(device, stage->workspace, stage->workspace_bytes);
    gp_device_release(device, stage->state_memory, stage->bytes.states);
    gp_device_release(device, stage->statistic_memory, stage->bytes.statistics);
    for (size_t i = 0; i < stage->late_count; i++)
        gp_device_release(device, stage->late[i].memory, stage->late[i].bytes);
}

void gp_stage_destroy(gp_stage *stage) {
    if (!stage) return;
    release_memory(stage);
    for (size_t i = 0; i < stage->size_count; i++) {
        for (int p = 0; p < GP_STAGE_PROGRAMS; p++)
            gp_program_destroy(stage->sizes[i]->programs[p]);
        gp_free(stage->sizes[i]->gaps);
        gp_free(stage->sizes[i]);
    }
    gp_free(stage->sizes);
    gp_free(stage->late);
    gp_free(stage->forms);
    gp_free(stage->parameters);
    gp_free(stage->use_offsets);
    gp_free(stage->states);
    gp_free(stage->statistics);
    gp_free(stage->extra);
    gp_free(stage->holders);
    gp_free(stage->ports);
    gp_free(stage->before);
    gp_free(stage->after);
    gp_free(stage);
}

/* ---- memory ---- */

static gp_status allocate(gp_device *device, size_t bytes, void **memory) {
    *memory = NULL;
    return bytes == 0 ? GP_OK : gp_device_allocate(device, bytes, memory);
}

gp_status gp_stage_allocate(gp_stage *stage) {
    gp_device *device = stage->options.device;
    GP_TRY(allocate(device, stage->bytes.weights, &stage->weights));
    stage->shown = stage->weights;
    GP_TRY(allocate(device, stage->bytes.gradients, &stage->gradients));
    GP_TRY(allocate(device, stage->bytes.moments, &stage->moments));
    GP_TRY(allocate(device, stage->bytes.averages, &stage->averages));
    GP_TRY(allocate(device, stage->bytes.forms, &stage->packed));
    stage->packed_bytes = stage->bytes.forms;
    GP_TRY(allocate(device, stage->bytes.workspace, &stage->workspace));
    stage->workspace_bytes = stage->bytes.workspace;
    GP_TRY(allocate(device, stage->bytes.states, &stage->state_memory));
    GP_TRY(allocate(device, stage->bytes.statistics, &stage->statistic_memory));
    stage->allocated = true;
    return gp_stage_pack(stage, SIZE_MAX);
}

/* What the plan did not foresee, once the stage is allocated: a larger workspace, another block of forms. */
static gp_status allocate_late(gp_stage *stage, size_t forms_before) {
    gp_device *device = stage->options.device;
    if (stage->bytes.workspace > stage->workspace_bytes) {
        gp_device_release(device, stage->workspace, stage->workspace_bytes);
        stage->workspace = NULL;
        stage->workspace_bytes = 0;
        GP_TRY(allocate(device, stage->bytes.workspace, &stage->workspace));
        stage->workspace_bytes = stage->bytes.workspace;
    }
    if (stage->late_bytes == 0) return GP_OK;
    struct gp_stage_block *grown =
        gp_grow_array(stage->late, stage->late_count, stage->late_count + 1, sizeof *stage->late);
    if (!grown) return GP_OUT_OF_MEMORY;
    stage->late = grown;
    struct gp_stage_block block = {.bytes = stage->late_bytes};
    GP_TRY(allocate(device, block.bytes, &block.memory));
    stage->late[stage->late_count++] = block;
    stage->late_bytes = 0;
    for (size_t f = forms_before; f < stage->form_count; f++)
        GP_TRY(gp_stage_pack(stage, stage->forms[f].parameter));
    return GP_OK;
}

void gp_stage_bind(const gp_stage *stage, void **regions) {
    size_t late = GP_REGION_PEERS + 2 * (stage->before_count + stage->after_count);
    regions[GP_REGION_WORKSPACE] = stage->workspace;
    regions[GP_REGION_WEIGHTS] = stage->shown;
    regions[GP_REGION_GRADIENTS] = stage->gradients;
    regions[GP_REGION_FORMS] = stage->packed;
    regions[GP_REGION_STATES] = stage->state_memory;
    regions[GP_REGION_STATISTICS] = stage->statistic_memory;
    regions[GP_REGION_OUTPUT] = stage->workspace ? (char *)stage->workspace + stage->bytes.output_offset : NULL;
    for (size_t i = 0; i < stage->late_count; i++)
        regions[late + i] = stage->late[i].memory;
}

/* ---- sizes ---- */

const gp_stage_size *gp_stage_find_size(const gp_stage *stage, int64_t samples) {
    for (size_t i = 0; i < stage->size_count; i++)
        if (stage->sizes[i]->samples == samples) return stage->sizes[i];
    return NULL;
}

static gp_status find_or_add_size(gp_stage *stage, int64_t samples, gp_stage_size **size) {
    for (size_t i = 0; i < stage->size_count; i++) {
        *size = stage->sizes[i];
        if (stage->sizes[i]->samples == samples) return GP_OK;
    }
    gp_stage_size **grown = gp_grow_array(stage->sizes, stage->size_count, stage->size_count + 1, sizeof *stage->sizes);
    if (!grown) return GP_OUT_OF_MEMORY;
    stage->sizes = grown;
    *size = gp_allocate(sizeof **size);
    if (!*size) return GP_OUT_OF_MEMORY;
    (*size)->samples = samples;
    stage->sizes[stage->size_count++] = *size;
    return GP_OK;
}

gp_status gp_stage_prepare(gp_stage *stage, int64_t samples, uint32_t programs) {
    const gp_stage_size *found = gp_stage_find_size(stage, samples);
    uint32_t missing = 0;
    for (uint32_t p = 0; p < GP_STAGE_PROGRAMS; p++)
        if ((programs >> p & 1) && !(found && found->prepared[p])) missing |= 1u << p;
    if (missing == 0) return GP_OK;
    gp_stage_size *size;
    size_t forms_before = stage->form_count;
    GP_TRY(find_or_add_size(stage, samples, &size));
    GP_TRY(gp_stage_compile(stage, size, missing));
    return stage->allocated ? allocate_late(stage, forms_before) : GP_OK;
}
