/* From layers to programs: builds the graph of a stage for one micro-batch size and says, for each program, which
 * values are available where and which are wanted where. This is where recomputation is decided: the stash of a
 * recomputed micro-batch is what arrives (and, layer by layer, what flows between layers), that of a kept one is every
 * value of the forward that the backward slice reads. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/stage.h"

/* Where a crossing port's value and gradient travel. */
typedef struct port_place {
    int forward_region, gradient_region;
    size_t forward_offset, gradient_offset;
} port_place;

typedef struct placement_list {
    gp_placement *items;
    size_t count;
} placement_list;

/* A graph being sliced, with scratch that is large enough for any list. */
typedef struct compilation {
    gp_stage *stage;
    gp_stage_size *size;
    gp_built built;
    port_place *arriving, *leaving; /* as built.arriving, built.leaving */
    size_t *stash_offsets;          /* by value, of the stash at hand; SIZE_MAX: not in it */
    bool *marks;                    /* by value */
    placement_list available, wanted;
    int32_t *late;
    size_t late_count;
} compilation;

/* ---- lists ---- */

static void add_available(compilation *c, gp_value value, int region, size_t offset, bool consumable) {
    c->available.items[c->available.count++] =
        (gp_placement){.value = value.index, .region = region, .offset = offset, .consumable = consumable};
}

static void add_wanted(compilation *c, gp_value value, int region, size_t offset, bool accumulate) {
    c->wanted.items[c->wanted.count++] =
        (gp_placement){.value = value.index, .region = region, .offset = offset, .accumulate = accumulate};
}

static void clear_lists(compilation *c) {
    c->available.count = c->wanted.count = c->late_count = 0;
}

/* ---- where things lie ---- */

static const gp_built_port *find_built(const gp_built_port *ports, size_t count, size_t port) {
    for (size_t i = 0; i < count; i++)
        if (ports[i].port == port) return &ports[i];
    return NULL;
}

/* Lays out the messages exchanged with each peer: the ports in ascending order; gradients only of those that have one.
 */
static void place_ports(const compilation *c, gp_stage_peer *peers, size_t peer_count, const gp_built_port *ports,
                        size_t count, port_place *places) {
    const gp_port *all;
    gp_model_ports(c->stage->options.model, &all);
    for (size_t p = 0; p < peer_count; p++) {
        gp_stage_peer *peer = &peers[p];
        size_t forward = 0, gradient = 0;
        for (size_t i = 0; i < peer->port_count; i++) {
            const gp_built_port *port = find_built(ports, count, peer->ports[i]);
            size_t bytes = gp_stage_value_bytes(c->stage, gp_value_type(port->value));
            places[port - ports] = (port_place){peer->forward_region, peer->gradient_region, forward, gradient};
            forward += bytes;
            if (!all[port->port].indices) gradient += bytes;
        }
        if (forward > peer->forward_bytes) peer->forward_bytes = forward;
        if (peer->gradients && gradient > peer->gradient_bytes) peer->gradient_bytes = gradient;
    }
}

/* The value of the graph that holds the model's input; invalid where it does not arrive. */
static gp_value model_input(const compilation *c) {
    const gp_port *all;
    gp_model_ports(c->stage->options.model, &all);
    for (size_t i = 0; i < c->built.arriving_count; i++)
        if (all[c->built.arriving[i].port].source < 0) return c->built.arriving[i].value;
    return gp_none();
}

static void place_base(const compilation *c, gp_value value, gp_stage_value *place, size_t *at) {
    if (!gp_value_valid(value)) return;
    *place = (gp_stage_value){gp_value_type(value), *at, true};
    *at += gp_stage_value_bytes(c->stage, place->type);
}

/* What the host uploads lies at the beginning of every stash slot. */
static size_t lay_out_base(compilation *c) {
    size_t at = 0;
    place_base(c, model_input(c), &c->size->inputs, &at);
    place_base(c, c->built.targets, &c->size->targets, &at);
    place_base(c, c->built.weights, &c->size->weights, &at);
    if (at > c->stage->bytes.base) c->stage->bytes.base = at;
    return at;
}

/* ---- what is stashed ---- */

static gp_status slice(const compilation *c, const bool *available, int32_t **nodes, size_t *count) {
    int32_t *wanted = gp_allocate_array(c->wanted.count, sizeof *wanted);
    if (!wanted) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->wanted.count; i++)
        wanted[i] = c->wanted.items[i].value;
    gp_status status = gp_graph_slice(c->built.graph, available, wanted, c->wanted.count, nodes, count);
    gp_free(wanted);
    return status;
}

static bool is_alias(const gp_graph *graph, const gp_value_info *info) {
    return graph->nodes[info->node].id == GP_OP_ALIAS || graph->nodes[info->node].id == GP_OP_RESHAPE;
}

/* Marks what may be available to backward: everything from outside, and of the forward's results either all that have
 * memory of their own (kept) or what flows between layers. */
static void mark_candidates(const compilation *c, bool kept) {
    const gp_graph *graph = c->built.graph;
    for (int32_t v = 0; v < graph->value_count; v++) {
        const gp_value_info *info = &graph->values[v];
        bool result = info->kind == GP_VALUE_RESULT;
        c->marks[v] = !result || (kept && !graph->nodes[info->node].backward && !is_alias(graph, info));
    }
    bool by_layer = !kept && c->stage->options.granularity == GP_GRANULARITY_LAYER;
    for (size_t i = 0; by_layer && i < c->built.boundary_count; i++)
        c->marks[c->built.boundaries[i].index] = true;
}

/* Lays out the candidates that the backward slice (in c->wanted) reads, behind `at`; returns the end of the slot. */
static gp_status lay_out_stash(compilation *c, bool kept, size_t at, size_t *end) {
    const gp_graph *graph = c->built.graph;
    int32_t *nodes = NULL;
    size_t count = 0;
    mark_candidates(c, kept);
    GP_TRY(slice(c, c->marks, &nodes, &count));
    memset(c->marks, 0, (size_t)graph->value_count * sizeof *c->marks);
    gp_graph_reads(graph, nodes, count, c->marks);
    gp_free(nodes);
    for (int32_t v = 0; v < graph->value_count; v++) {
        c->stash_offsets[v] = SIZE_MAX;
        if (!c->marks[v] || graph->values[v].kind != GP_VALUE_RESULT) continue;
        c->stash_offsets[v] = at;
        at += gp_stage_value_bytes(c->stage, graph->values[v].type);
    }
    *end = at;
    return GP_OK;
}

/* ---- placements ---- */

static void make_inputs_available(compilation *c, bool arriving_consumable) {
    const gp_stage *stage = c->stage;
    const gp_built *built = &c->built;
    gp_value input = model_input(c);
    memset(c->marks, 0, (size_t)built->graph->value_count * sizeof *c->marks);
    for (size_t i = 0; i < built->use_count; i++) {
        const gp_parameter_use *uses;
        gp_model_uses(stage->options.model, &uses);
        if (c->marks[built->uses[i].value.index]) continue; /* one value for all uses of a parameter */
        c->marks[built->uses[i].value.index] = true;
        size_t index = gp_stage_find_parameter(stage, uses[built->uses[i].use].parameter);
        add_available(c, built->uses[i].value, GP_REGION_WEIGHTS, stage->parameters[index].offset, false);
    }
    for (size_t i = 0; i < built->arriving_count; i++) {
        if (gp_value_valid(input) && built->arriving[i].value.index == input.index) continue;
        add_available(c, built->arriving[i].value, c->arriving[i].forward_region, c->arriving[i].forward_offset,
                      arriving_consumable);
    }
    for (size_t i = 0; i < built->state_count; i++)
        add_available(c, built->states[i].value, GP_REGION_STATES,
                      stage->states[built->states[i].state - stage->first_state].offset, false);
    if (c->size->inputs.there) add_available(c, input, GP_REGION_STASH, c->size->inputs.offset, false);
    if (gp_value_valid(built->targets))
        add_available(c, built->targets, GP_REGION_STASH, c->size->targets.offset, false);
    if (gp_value_valid(built->weights))
        add_available(c, built->weights, GP_REGION_STASH, c->size->weights.offset, false);
}

static void make_stash_available(compilation *c) {
    for (int32_t v = 0; v < c->built.graph->value_count; v++)
        if (c->stash_offsets[v] != SIZE_MAX)
            add_available(c, (gp_value){c->built.graph, v}, GP_REGION_STASH, c->stash_offsets[v], true);
}

static void make_gradients_available(compilation *c) {
    for (size_t i = 0; i < c->built.leaving_count; i++) {
        gp_value gradient = c->built.leaving[i].gradient;
        if (!gp_value_valid(gradient)) continue;
        add_available(c, gradient, c->leaving[i].gradient_region, c->leaving[i].gradient_offset, true);
        c->late[c->late_count++] = gradient.index;
    }
    if (!gp_value_valid(c->built.loss_gradient)) return;
    add_available(c, c->built.loss_gradient, GP_REGION_LOSS_GRADIENT, 0, false);
    c->late[c->late_count++] = c->built.loss_gradient.index;
}

static void want_leaving(compilation *c) {
    for (size_t i = 0; i < c->built.leaving_count; i++)
        add_wanted(c, c->built.leaving[i].value, c->leaving[i].forward_region, c->leaving[i].forward_offset, false);
}

static void want_loss(compilation *c) {
    if (gp_value_valid(c->built.loss)) add_wanted(c, c->built.loss, GP_REGION_LOSS, 0, false);
}

/* The moments of the micro-batch that states follow. */
static void want_statistics(compilation *c) {
    size_t variances = c->stage->bytes.statistics / 4 * GP_MICRO_BATCH_VARIANCES;
    for (size_t i = 0; i < c->built.moment_count; i++) {
        const gp_built_moments *moments = &c->built.moments[i];
        size_t offset = c->stage->statistics[moments->moments - c->stage->first_statistic].offset;
        add_wanted(c, moments->mean, GP_REGION_STATISTICS, offset, false);
        add_wanted(c, moments->variance, GP_REGION_STATISTICS, variances + offset, false);
    }
}

static void want_stash(compilation *c) {
    for (int32_t v = 0; v < c->built.graph->value_count; v++)
        if (c->stash_offsets[v] != SIZE_MAX)
            add_wanted(c, (gp_value){c->built.graph, v}, GP_REGION_STASH, c->stash_offsets[v], false);
}

static void want_gradients(compilation *c) {
    for (size_t i = 0; i < c->built.arriving_count; i++)
        if (gp_value_valid(c->built.arriving[i].gradient))
            add_wanted(c, c->built.arriving[i].gradient, c->arriving[i].gradient_region, c->arriving[i].gradient_offset,
                       false);
    for (size_t i = 0; i < c->built.use_count; i++)
        if (gp_value_valid(c->built.uses[i].gradient))
            add_wanted(c, c->built.uses[i].gradient, GP_REGION_GRADIENTS, c->stage->use_offsets[i], true);
}

/* ---- programs ---- */

/* The stage's parameter behind a value of the graph. */
static size_t parameter_of(const compilation *c, int32_t value) {
    const gp_parameter_use *uses;
    gp_model_uses(c->stage->options.model, &uses);
    for (size_t i = 0; i < c->built.use_count; i++)
        if (c->built.uses[i].value.index == value)
            return gp_stage_find_parameter(c->stage, uses[c->built.uses[i].use].parameter);
    return SIZE_MAX;
}

static gp_status add_form(gp_stage *stage, size_t parameter, const gp_form *form, gp_stage_form **added) {
    if (stage->form_count == stage->form_capacity) {
        size_t capacity = stage->form_capacity ? 2 * stage->form_capacity : 16;
        gp_stage_form *grown = gp_grow_array(stage->forms, stage->form_count, capacity, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        stage->forms = grown;
        stage->form_capacity = capacity;
    }
    size_t late = GP_REGION_PEERS + 2 * (stage->before_count + stage->after_count) + stage->late_count;
    size_t *end = stage->allocated ? &stage->late_bytes : &stage->bytes.forms;
    *added = &stage->forms[stage->form_count++];
    **added = (gp_stage_form){.parameter = parameter,
                              .form = *form,
                              .region = stage->allocated ? (int)late : GP_REGION_FORMS,
                              .offset = *end};
    *end += gp_align(form->bytes);
    return GP_OK;
}

static gp_status place_form(void *user, int32_t value, const gp_form *form, int *region, size_t *offset) {
    compilation *c = user;
    gp_stage *stage = c->stage;
    gp_stage_form *found = NULL;
    size_t parameter = parameter_of(c, value);
    if (parameter == SIZE_MAX) return gp_error(GP_FAILED, "a kernel wants a form of a value that is no parameter");
    for (size_t f = 0; f < stage->form_count && !found; f++)
        if (stage->forms[f].parameter == parameter && strcmp(stage->forms[f].form.key, form->key) == 0)
            found = &stage->forms[f];
    if (!found) GP_TRY(add_form(stage, parameter, form, &found));
    *region = found->region;
    *offset = found->offset;
    return GP_OK;
}

/* Compiles what the lists say. */
static gp_status create_program(compilation *c, gp_stage_program which) {
    bool recomputes = which == GP_STAGE_BACKWARD_RECOMPUTED;
    gp_stage_bytes *bytes = &c->stage->bytes;
    gp_program_desc desc = {.graph = c->built.graph,
                            .device = c->stage->options.device,
                            .available = c->available.items,
                            .available_count = c->available.count,
                            .wanted = c->wanted.items,
                            .wanted_count = c->wanted.count,
                            .late = c->late,
                            .late_count = recomputes ? c->late_count : 0,
                            .early_all = recomputes && c->stage->options.granularity == GP_GRANULARITY_STAGE,
                            .place_form = place_form,
                            .user = c};
    c->size->prepared[which] = true;
    if (c->wanted.count == 0) return GP_OK;
    GP_TRY(gp_program_create(&c->size->programs[which], &desc));
    size_t workspace = gp_align(gp_program_workspace(c->size->programs[which]));
    bool has_output = which == GP_STAGE_OUTPUT || (which == GP_STAGE_EVALUATE && c->stage->options.predictions);
    if (has_output && workspace > bytes->output_offset) bytes->output_offset = workspace;
    if (bytes->output > 0 && bytes->output_offset + bytes->output > workspace)
        workspace = bytes->output_offset + bytes->output;
    if (workspace > bytes->workspace) bytes->workspace = workspace;
    return GP_OK;
}

static void larger(size_t *most, size_t bytes) {
    if (bytes > *most) *most = bytes;
}

static gp_status check_slot(const gp_stage *stage, const size_t *planned, size_t bytes) {
    if (!stage->allocated || bytes <= *planned) return GP_OK;
    return gp_error(GP_FAILED,
                    "layers %d to %d need %zu bytes of stash for a smaller micro-batch and %zu for the largest",
                    (int)stage->first_layer, (int)stage->last_layer, bytes, *planned);
}

static gp_status compile_forward(compilation *c, gp_stage_program which, size_t end) {
    bool kept = which == GP_STAGE_FORWARD_KEPT;
    size_t *planned = kept ? &c->stage->bytes.kept : &c->stage->bytes.recomputed;
    GP_TRY(check_slot(c->stage, planned, end));
    larger(planned, end);
    clear_lists(c);
    make_inputs_available(c, false);
    want_leaving(c);
    want_loss(c);
    want_stash(c);
    want_statistics(c);
    GP_TRY(create_program(c, which));
    gp_program *program = c->size->programs[which];
    if (program) c->size->flops_forward = gp_program_flops(program, 0);
    return GP_OK;
}

static gp_status count_backward_flops(compilation *c) {
    const gp_graph *graph = c->built.graph;
    int32_t *nodes = NULL;
    size_t count = 0;
    memset(c->marks, 0, (size_t)graph->value_count * sizeof *c->marks);
    for (size_t i = 0; i < c->available.count; i++)
        c->marks[c->available.items[i].value] = true;
    GP_TRY(slice(c, c->marks, &nodes, &count));
    double recompute = 0, backward = 0;
    for (size_t i = 0; i < count; i++)
        *(graph->nodes[nodes[i]].backward ? &backward : &recompute) += gp_node_flops(graph, nodes[i]);
    gp_free(nodes);
    c->size->flops_backward = backward;
    if (recompute > c->size->flops_recompute) c->size->flops_recompute = recompute;
    return GP_OK;
}

static gp_status compile_backward(compilation *c, gp_stage_program which) {
    clear_lists(c);
    make_inputs_available(c, true);
    make_stash_available(c);
    make_gradients_available(c);
    want_gradients(c);
    if (c->wanted.count > 0) GP_TRY(count_backward_flops(c));
    return create_program(c, which);
}

/* Forward and backward of one kind of micro-batch, which share a stash. */
static gp_status compile_pair(compilation *c, bool kept, size_t base, uint32_t programs) {
    gp_stage_program forward = kept ? GP_STAGE_FORWARD_KEPT : GP_STAGE_FORWARD_RECOMPUTED;
    gp_stage_program backward = kept ? GP_STAGE_BACKWARD_KEPT : GP_STAGE_BACKWARD_RECOMPUTED;
    size_t end;
    if (!(programs & (1u << forward | 1u << backward))) return GP_OK;
    clear_lists(c);
    want_gradients(c);
    GP_TRY(lay_out_stash(c, kept, base, &end));
    if (programs & 1u << forward) GP_TRY(compile_forward(c, forward, end));
    return programs & 1u << backward ? compile_backward(c, backward) : GP_OK;
}

static void want_output(compilation *c) {
    if (!gp_value_valid(c->built.output)) return;
    c->size->output = (gp_stage_value){gp_value_type(c->built.output), 0, true};
    larger(&c->stage->bytes.output, gp_stage_value_bytes(c->stage, c->size->output.type));
    add_wanted(c, c->built.output, GP_REGION_OUTPUT, 0, false);
}

static gp_status compile_evaluate(compilation *c) {
    clear_lists(c);
    make_inputs_available(c, true);
    want_leaving(c);
    want_loss(c);
    if (c->stage->options.predictions) want_output(c);
    return create_program(c, GP_STAGE_EVALUATE);
}

static gp_status compile_output(compilation *c) {
    clear_lists(c);
    make_inputs_available(c, true);
    want_leaving(c);
    want_output(c);
    return create_program(c, GP_STAGE_OUTPUT);
}

/* ---- gradients that nobody computes ---- */

static gp_status find_gaps(compilation *c) {
    const gp_port *all;
    gp_model_ports(c->stage->options.model, &all);
    if (c->size->gaps) return GP_OK;
    c->size->gaps = gp_allocate_array(c->built.arriving_count, sizeof *c->size->gaps);
    if (!c->size->gaps) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->built.arriving_count; i++) {
        const gp_built_port *port = &c->built.arriving[i];
        if (all[port->port].source < 0 || all[port->port].indices || gp_value_valid(port->gradient)) continue;
        c->size->gaps[c->size->gap_count++] =
            (gp_stage_gap){c->arriving[i].gradient_region, c->arriving[i].gradient_offset,
                           gp_stage_value_bytes(c->stage, gp_value_type(port->value))};
    }
    return GP_OK;
}

/* ---- one graph ---- */

static gp_status allocate_scratch(compilation *c) {
    size_t values = (size_t)c->built.graph->value_count;
    size_t most = 2 * values + c->built.use_count + c->built.leaving_count + c->built.arriving_count +
                  c->built.state_count + 2 * c->built.moment_count + 4;
    c->arriving = gp_allocate_array(c->built.arriving_count, sizeof *c->arriving);
    c->leaving = gp_allocate_array(c->built.leaving_count, sizeof *c->leaving);
    c->stash_offsets = gp_allocate_array(values, sizeof *c->stash_offsets);
    c->marks = gp_allocate_array(values, sizeof *c->marks);
    c->available.items = gp_allocate_array(most, sizeof *c->available.items);
    c->wanted.items = gp_allocate_array(most, sizeof *c->wanted.items);
    c->late = gp_allocate_array(c->built.leaving_count + 1, sizeof *c->late);
    bool all =
        c->arriving && c->leaving && c->stash_offsets && c->marks && c->available.items && c->wanted.items && c->late;
    if (!all) return GP_OUT_OF_MEMORY;
    gp_stage *stage = c->stage;
    place_ports(c, stage->before, stage->before_count, c->built.arriving, c->built.arriving_count, c->arriving);
    place_ports(c, stage->after, stage->after_count, c->built.leaving, c->built.leaving_count, c->leaving);
    return GP_OK;
}

static void destroy_compilation(compilation *c) {
    gp_free(c->arriving);
    gp_free(c->leaving);
    gp_free(c->stash_offsets);
    gp_free(c->marks);
    gp_free(c->available.items);
    gp_free(c->wanted.items);
    gp_free(c->late);
    gp_built_destroy(&c->built);
}

static gp_status compile_training(compilation *c, uint32_t programs) {
    GP_TRY(allocate_scratch(c));
    size_t base = lay_out_base(c);
    GP_TRY(find_gaps(c));
    GP_TRY(compile_pair(c, false, base, programs));
    return compile_pair(c, true, base, programs);
}

static gp_status compile_inference(compilation *c, uint32_t programs) {
    GP_TRY(allocate_scratch(c));
    lay_out_base(c);
    if (programs & 1u << GP_STAGE_EVALUATE) GP_TRY(compile_evaluate(c));
    return programs & 1u << GP_STAGE_OUTPUT ? compile_output(c) : GP_OK;
}

static gp_status compile_graph(gp_stage *stage, gp_stage_size *size, bool training, uint32_t programs) {
    compilation c = {.stage = stage, .size = size};
    gp_build_options options = {.first_layer = stage->first_layer,
                                .last_layer = stage->last_layer,
                                .batch = size->samples,
                                .dtype = stage->options.precision,
                                .training = training,
                                .gradients = training,
                                .loss = true,
                                .loss_weights = stage->options.loss_weights};
    GP_TRY(gp_model_build(stage->options.model, &options, &c.built));
    gp_status status = training ? compile_training(&c, programs) : compile_inference(&c, programs);
    destroy_compilation(&c);
    return status;
}

gp_status gp_stage_compile(gp_stage *stage, gp_stage_size *size, uint32_t programs) {
    const uint32_t inference = 1u << GP_STAGE_EVALUATE | 1u << GP_STAGE_OUTPUT;
    if (programs & ~inference) GP_TRY(compile_graph(stage, size, true, programs & ~inference));
    return programs & inference ? compile_graph(stage, size, false, programs & inference) : GP_OK;
}
