/* Planning a program: order, places, kernels, layout of the workspace, and the finished list of steps. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "program/compile.h"
#include "program/layout.h"

/* ---- what the caller has given ---- */

static gp_status check_placement(const gp_program_desc *desc, const gp_placement *p, const char *what) {
    if (p->value < 0 || p->value >= desc->graph->value_count) {
        return gp_error(GP_INVALID, "%s value %d does not exist: the graph has %d", what, (int)p->value,
                        (int)desc->graph->value_count);
    }
    if (p->region <= GP_REGION_WORKSPACE || p->offset % 64) {
        return gp_error(
            GP_INVALID,
            "%s value %d is placed in region %d at byte %zu: regions from 1 and multiples of 64 are accepted", what,
            (int)p->value, p->region, p->offset);
    }
    return GP_OK;
}

static gp_status check_desc(const gp_program_desc *desc) {
    for (size_t i = 0; i < desc->available_count; i++) {
        GP_TRY(check_placement(desc, &desc->available[i], "available"));
    }
    for (size_t i = 0; i < desc->wanted_count; i++) {
        GP_TRY(check_placement(desc, &desc->wanted[i], "wanted"));
        gp_dtype dtype = desc->graph->values[desc->wanted[i].value].type.dtype;
        if (desc->wanted[i].accumulate && dtype != GP_F32 && dtype != GP_BF16) {
            return gp_error(GP_INVALID, "wanted value %d is %s: only f32 and bf16 are accumulated",
                            (int)desc->wanted[i].value, gp_dtype_name(dtype));
        }
    }
    for (size_t i = 0; i < desc->late_count; i++) {
        if (desc->late[i] >= 0 && desc->late[i] < desc->graph->value_count) continue;
        return gp_error(GP_INVALID, "late value %d does not exist", (int)desc->late[i]);
    }
    return GP_OK;
}

/* ---- kernels ---- */

/* The parameter that an input is, under this or another index; -1 when it is none. */
static int32_t parameter_of(const gp_compiler *c, int32_t value) {
    if (value < 0) return -1;
    const gp_value_info *root = &c->graph->values[c->root[value]];
    bool same = root->kind == GP_VALUE_PARAMETER && gp_type_equal(root->type, c->graph->values[value].type);
    return same ? c->root[value] : -1;
}

static uint32_t parameter_inputs(const gp_compiler *c, const gp_node *node) {
    uint32_t parameters = 0;
    for (int k = 0; k < node->input_count && c->desc->place_form; k++) {
        if (parameter_of(c, node->inputs[k]) >= 0) parameters |= 1u << k;
    }
    return parameters;
}

/* Asks the stage where the forms are that the kernel wants its parameters in. */
static gp_status place_forms(gp_compiler *c, gp_draft *draft, const gp_node *node, uint32_t parameters) {
    for (int k = 0; k < node->input_count; k++) {
        if (!(parameters >> k & 1u) || !draft->kernel->forms[k]) continue;
        int region = -1;
        GP_TRY(c->desc->place_form(c->desc->user, parameter_of(c, node->inputs[k]), draft->kernel->forms[k], &region,
                                   &draft->forms[k].offset));
        draft->forms[k].region = region;
        draft->kernel->packed |= 1u << k; /* the same for all that share the kernel: `parameters` is part of its key */
    }
    return GP_OK;
}

static gp_status node_kernel(gp_compiler *c, gp_draft *draft) {
    const gp_node *node = &c->graph->nodes[draft->node];
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_op_call call = gp_node_call(c->graph, draft->node, inputs, outputs);
    uint32_t parameters = parameter_inputs(c, node);
    gp_kernel_desc desc = {node->id, node->op,          call.attributes,    inputs,
                           outputs,  node->input_count, node->output_count, draft->accumulate};
    GP_TRY(gp_kernels_get(&c->program->kernels, c->desc->device, &desc, parameters, &draft->kernel));
    return place_forms(c, draft, node, parameters);
}

static gp_status accumulate_kernel(gp_compiler *c, gp_draft *draft) {
    gp_type input = c->graph->values[draft->value].type, output = input;
    output.dtype = GP_F32;
    gp_kernel_desc desc = {GP_OP_ACCUMULATE, gp_op_class_of(GP_OP_ACCUMULATE), NULL, &input, &output, 1, 1,
                           .accumulate = 1};
    return gp_kernels_get(&c->program->kernels, c->desc->device, &desc, 0, &draft->kernel);
}

static size_t workspace_of(const gp_kernel *kernel) {
    uint32_t forms = 0;
    for (int k = 0; k < GP_MAX_OPERANDS; k++) {
        if (kernel->forms[k]) forms |= 1u << k;
    }
    return forms && kernel->packed == forms ? kernel->packed_workspace : kernel->workspace;
}

static gp_status make_kernel(gp_compiler *c, gp_draft *draft, int32_t step) {
    if (draft->kind == GP_DRAFT_COPY) return GP_OK;
    GP_TRY(draft->kind == GP_DRAFT_NODE ? node_kernel(c, draft) : accumulate_kernel(c, draft));
    if (!workspace_of(draft->kernel)) return GP_OK;
    draft->scratch = gp_compile_storage(c, (gp_storage){.region = GP_REGION_WORKSPACE,
                                                        .bytes = workspace_of(draft->kernel),
                                                        .first = step,
                                                        .last = step,
                                                        .available = -1});
    return draft->scratch >= 0 ? GP_OK : GP_OUT_OF_MEMORY;
}

static const char *name_of(const gp_compiler *c, const gp_draft *draft) {
    if (draft->kind == GP_DRAFT_NODE) return c->graph->nodes[draft->node].op->name;
    return draft->kind == GP_DRAFT_COPY ? "copy" : gp_op_name(GP_OP_ACCUMULATE);
}

static gp_status make_kernels(gp_compiler *c) {
    for (size_t i = 0; i < c->draft_count; i++) {
        gp_draft *draft = &c->drafts[i];
        gp_status status = make_kernel(c, draft, (int32_t)i);
        int32_t layer = draft->node >= 0 ? c->graph->nodes[draft->node].layer : -1;
        if (status != GP_OK && layer >= 0)
            return gp_error_within(status, "layer %d, %s", (int)layer, name_of(c, draft));
        if (status != GP_OK) return gp_error_within(status, "%s", name_of(c, draft));
    }
    return GP_OK;
}

/* ---- layout ---- */

static gp_status lay_out(gp_compiler *c) {
    gp_interval *intervals = gp_allocate_array(c->storage_count, sizeof *intervals);
    if (!intervals) return GP_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < c->storage_count; i++) {
        const gp_storage *s = &c->storages[i];
        if (s->region == GP_REGION_WORKSPACE) intervals[count++] = (gp_interval){s->bytes, s->first, s->last, 0};
    }
    gp_status status = gp_layout(intervals, count, (int32_t)c->draft_count, &c->program->workspace);
    count = 0;
    for (size_t i = 0; i < c->storage_count && status == GP_OK; i++) {
        gp_storage *s = &c->storages[i];
        if (s->region == GP_REGION_WORKSPACE) s->offset = intervals[count++].offset;
    }
    gp_free(intervals);
    return status;
}

/* ---- the finished list ---- */

static int operand_count(const gp_compiler *c, const gp_draft *draft, int *outputs) {
    *outputs = draft->kind == GP_DRAFT_NODE ? c->graph->nodes[draft->node].output_count : 1;
    return draft->kind == GP_DRAFT_NODE ? c->graph->nodes[draft->node].input_count : 1;
}

static gp_status allocate_list(gp_compiler *c) {
    gp_program *program = c->program;
    size_t locations = 0, outputs = 0;
    for (size_t i = 0; i < c->draft_count; i++) {
        int made, read = operand_count(c, &c->drafts[i], &made);
        locations += (size_t)(read + made);
        outputs += (size_t)made;
    }
    program->steps = gp_allocate_array(c->draft_count, sizeof *program->steps);
    program->locations = gp_allocate_array(locations, sizeof *program->locations);
    program->output_types = gp_allocate_array(outputs, sizeof *program->output_types);
    program->reads = gp_allocate_array((size_t)c->graph->value_count, sizeof *program->reads);
    program->value_count = c->graph->value_count;
    bool all = program->steps && program->locations && program->output_types && program->reads;
    return all ? GP_OK : GP_OUT_OF_MEMORY;
}

static gp_location input_location(gp_compiler *c, const gp_draft *draft, int k) {
    if (draft->inputs[k] < 0) return (gp_location){-1, 0};
    if (draft->kernel && draft->kernel->packed >> k & 1u) return draft->forms[k];
    const gp_storage *s = &c->storages[draft->inputs[k]];
    if (s->available >= 0) c->program->reads[s->available] = true;
    return (gp_location){s->region, s->offset};
}

/* The type of output k as the program writes it. */
static gp_type output_type(const gp_compiler *c, const gp_draft *draft, int k) {
    if (draft->kind == GP_DRAFT_NODE) return c->graph->values[c->graph->nodes[draft->node].outputs[k]].type;
    gp_type type = c->graph->values[draft->value].type;
    if (draft->kind == GP_DRAFT_ACCUMULATE) type.dtype = GP_F32;
    return type;
}

static gp_step finish_step(gp_compiler *c, const gp_draft *draft, size_t *locations, size_t *outputs) {
    gp_program *program = c->program;
    const gp_node *node = draft->node >= 0 ? &c->graph->nodes[draft->node] : NULL;
    int made, read = operand_count(c, draft, &made);
    gp_step step = {.kernel = draft->kernel,
                    .workspace = draft->scratch >= 0 ? c->storages[draft->scratch].offset : 0,
                    .bytes = c->storages[draft->outputs[0]].bytes,
                    .operands = (uint32_t)*locations,
                    .output_type = (uint32_t)*outputs,
                    .input_count = (uint8_t)read,
                    .output_count = (uint8_t)made,
                    .backward = node && node->backward,
                    .layer = node ? node->layer : -1,
                    .op = name_of(c, draft)};
    for (int k = 0; k < read; k++) {
        program->locations[(*locations)++] = input_location(c, draft, k);
    }
    for (int k = 0; k < made; k++) {
        const gp_storage *s = &c->storages[draft->outputs[k]];
        program->locations[(*locations)++] = (gp_location){s->region, s->offset};
        program->output_types[(*outputs)++] = output_type(c, draft, k);
    }
    return step;
}

static gp_status finish(gp_compiler *c) {
    gp_program *program = c->program;
    GP_TRY(allocate_list(c));
    size_t locations = 0, outputs = 0;
    for (size_t i = 0; i < c->draft_count; i++) {
        const gp_draft *draft = &c->drafts[i];
        program->steps[i] = finish_step(c, draft, &locations, &outputs);
        if (draft->kind == GP_DRAFT_NODE) program->flops[i >= c->late_draft] += gp_node_flops(c->graph, draft->node);
    }
    program->step_count = c->draft_count;
    program->segments = c->segments;
    program->segment_begin[1] = c->segments == 2 ? c->late_draft : c->draft_count;
    program->segment_begin[2] = c->draft_count;
    gp_kernels_seal(&program->kernels);
    return GP_OK;
}

static void compiler_destroy(gp_compiler *c) {
    gp_free(c->root);
    gp_free(c->storage);
    gp_free(c->last_read);
    gp_free(c->reads);
    gp_free(c->wanted);
    gp_free(c->next_wanted);
    gp_free(c->late);
    gp_free(c->nodes);
    gp_free(c->drafts);
    gp_free(c->storages);
}

gp_status gp_program_create(gp_program **program, const gp_program_desc *desc) {
    gp_compiler compiler = {.desc = desc, .graph = desc->graph};
    *program = NULL;
    GP_TRY(check_desc(desc));
    compiler.program = gp_allocate(sizeof *compiler.program);
    if (!compiler.program) return GP_OUT_OF_MEMORY;
    compiler.program->device = desc->device;
    gp_status status = gp_compile_order(&compiler);
    if (status == GP_OK) status = gp_compile_place(&compiler);
    if (status == GP_OK) status = make_kernels(&compiler);
    if (status == GP_OK) status = lay_out(&compiler);
    if (status == GP_OK) status = finish(&compiler);
    compiler_destroy(&compiler);
    if (status == GP_OK) {
        *program = compiler.program;
    } else {
        gp_program_destroy(compiler.program);
    }
    return status;
}
