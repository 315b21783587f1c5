/* Which memory each operand of each step gets: the placements that the caller has given, memory that is written over in
 * place, or a new piece of the workspace, whose first and last steps the layout needs to know. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "program/compile.h"

static size_t bytes_of(const gp_compiler *c, int32_t value) {
    return c->desc->device->class->bytes(c->graph->values[value].type);
}

int32_t gp_compile_storage(gp_compiler *compiler, gp_storage storage) {
    if (compiler->storage_count == compiler->storage_capacity) {
        size_t capacity = compiler->storage_capacity ? 2 * compiler->storage_capacity : 256;
        gp_storage *grown =
            gp_grow_array(compiler->storages, compiler->storage_capacity, capacity, sizeof *compiler->storages);
        if (!grown) return -1;
        compiler->storages = grown;
        compiler->storage_capacity = capacity;
    }
    compiler->storages[compiler->storage_count] = storage;
    return (int32_t)compiler->storage_count++;
}

/* ---- what is there and what is wanted ---- */

static gp_status place_available(gp_compiler *c) {
    for (size_t i = 0; i < c->desc->available_count; i++) {
        const gp_placement *p = &c->desc->available[i];
        int32_t root = c->root[p->value];
        if (c->storage[root] >= 0)
            continue; /* the same memory under another index, or placed twice: any copy will do */
        c->storage[root] = gp_compile_storage(c, (gp_storage){.region = p->region,
                                                              .offset = p->offset,
                                                              .bytes = bytes_of(c, p->value),
                                                              .available = p->value,
                                                              .consumable = p->consumable});
        if (c->storage[root] < 0) return GP_OUT_OF_MEMORY;
    }
    return GP_OK;
}

static void chain_wanted(gp_compiler *c) {
    for (size_t i = c->desc->wanted_count; i-- > 0;) {
        int32_t root = c->root[c->desc->wanted[i].value];
        c->next_wanted[i] = c->wanted[root];
        c->wanted[root] = (int32_t)i;
    }
}

static void count_reads(gp_compiler *c) {
    for (size_t i = 0; i < c->node_count; i++) {
        const gp_node *node = &c->graph->nodes[c->nodes[i]];
        for (int k = 0; k < node->input_count; k++) {
            if (node->inputs[k] >= 0) c->reads[c->root[node->inputs[k]]]++;
        }
    }
}

/* ---- drafts ---- */

static gp_draft *add_draft(gp_compiler *c, gp_draft_kind kind) {
    if (c->draft_count == c->draft_capacity) {
        size_t capacity = c->draft_capacity ? 2 * c->draft_capacity : 256;
        gp_draft *grown = gp_grow_array(c->drafts, c->draft_capacity, capacity, sizeof *c->drafts);
        if (!grown) return NULL;
        c->drafts = grown;
        c->draft_capacity = capacity;
    }
    gp_draft *draft = &c->drafts[c->draft_count++];
    *draft = (gp_draft){.kind = kind, .node = -1, .value = -1, .wanted = -1, .scratch = -1};
    return draft;
}

/* A node may be run for one output while another one is available: that one is made once more, into memory of the
 * workspace that nobody reads. Everything else about it has been done by draft_available. */
static bool is_available(const gp_compiler *c, int32_t root) {
    return c->storage[root] >= 0 && c->storages[c->storage[root]].available >= 0;
}

/* The wanted placement that a node writes an output straight into, or -1: the first that is overwritten; or, when
 * nobody else wants or reads the value, one that the kernel itself can add into. */
static int32_t direct_placement(const gp_compiler *c, const gp_node *node, int position) {
    const gp_placement *wanted = c->desc->wanted;
    int32_t root = c->root[node->outputs[position]], head = c->wanted[root];
    if (is_available(c, root)) return -1;
    for (int32_t w = head; w >= 0; w = c->next_wanted[w]) {
        if (!wanted[w].accumulate) return w;
    }
    bool alone = head >= 0 && c->next_wanted[head] < 0 && c->reads[root] == 0;
    bool f32 = c->graph->values[root].type.dtype == GP_F32;
    return alone && f32 && gp_op_accumulates(node->id) >> position & 1u ? head : -1;
}

/* Copies and accumulations of a value into its wanted placements, all but `direct`. */
static gp_status draft_transfers(gp_compiler *c, int32_t root, int32_t node, int32_t direct) {
    for (int32_t w = c->wanted[root]; w >= 0; w = c->next_wanted[w]) {
        const gp_placement *p = &c->desc->wanted[w];
        const gp_storage *from = c->storage[root] >= 0 ? &c->storages[c->storage[root]] : NULL;
        bool there = from && from->region == p->region && from->offset == p->offset;
        if (w == direct || (there && !p->accumulate)) continue;
        gp_draft *draft = add_draft(c, p->accumulate ? GP_DRAFT_ACCUMULATE : GP_DRAFT_COPY);
        if (!draft) return GP_OUT_OF_MEMORY;
        draft->node = node;
        draft->value = root;
        draft->wanted = w;
    }
    return GP_OK;
}

/* What is available and wanted too: before any node can overwrite it. */
static gp_status draft_available(gp_compiler *c, bool late) {
    for (size_t i = 0; i < c->storage_count; i++) {
        int32_t root = c->root[c->storages[i].available];
        if (c->late[root] == late) GP_TRY(draft_transfers(c, root, -1, -1));
    }
    return GP_OK;
}

static gp_status draft_nodes(gp_compiler *c, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        const gp_node *node = &c->graph->nodes[c->nodes[i]];
        gp_draft *draft = add_draft(c, GP_DRAFT_NODE);
        if (!draft) return GP_OUT_OF_MEMORY;
        draft->node = c->nodes[i];
        for (int k = 0; k < node->output_count; k++) {
            int32_t direct = direct_placement(c, node, k);
            if (direct >= 0 && c->desc->wanted[direct].accumulate) draft->accumulate |= 1u << k;
        }
        for (int k = 0; k < node->output_count; k++) {
            int32_t root = c->root[node->outputs[k]];
            if (!is_available(c, root)) GP_TRY(draft_transfers(c, root, c->nodes[i], direct_placement(c, node, k)));
        }
    }
    return GP_OK;
}

static gp_status draft_all(gp_compiler *c) {
    GP_TRY(draft_available(c, false));
    GP_TRY(draft_nodes(c, 0, c->late_begin));
    c->late_draft = c->draft_count;
    if (c->segments == 2) GP_TRY(draft_available(c, true));
    return draft_nodes(c, c->late_begin, c->node_count);
}

static void find_last_reads(gp_compiler *c) {
    for (size_t i = 0; i < c->draft_count; i++) {
        const gp_draft *draft = &c->drafts[i];
        if (draft->kind != GP_DRAFT_NODE) {
            c->last_read[draft->value] = (int32_t)i;
            continue;
        }
        const gp_node *node = &c->graph->nodes[draft->node];
        for (int k = 0; k < node->input_count; k++) {
            if (node->inputs[k] >= 0) c->last_read[c->root[node->inputs[k]]] = (int32_t)i;
        }
    }
}

/* ---- storages of operands ---- */

/* Whether output 0 may be written over input k: the operation allows it, both have the same elements, the input is not
 * needed any more, and no other input lives there that the operation may read after it has written. */
static bool in_place(const gp_compiler *c, const gp_node *node, int k, int32_t step) {
    if (!(node->op->in_place >> k & 1u) || node->inputs[k] < 0) return false;
    gp_type from = c->graph->values[node->inputs[k]].type, to = c->graph->values[node->outputs[0]].type;
    int32_t root = c->root[node->inputs[k]], storage = c->storage[root];
    bool same = from.dtype == to.dtype && gp_shape_elements(from.shape) == gp_shape_elements(to.shape);
    if (!same || !c->storages[storage].consumable || c->last_read[root] != step) return false;
    for (int other = 0; other < node->input_count; other++) {
        bool there = node->inputs[other] >= 0 && c->storage[c->root[node->inputs[other]]] == storage;
        if (there && !(node->op->in_place >> other & 1u)) return false;
    }
    return true;
}

static int32_t wanted_storage(gp_compiler *c, int32_t w) {
    const gp_placement *p = &c->desc->wanted[w];
    return gp_compile_storage(
        c, (gp_storage){.region = p->region, .offset = p->offset, .bytes = bytes_of(c, p->value), .available = -1});
}

static int32_t output_storage(gp_compiler *c, const gp_node *node, int position, int32_t step) {
    int32_t direct = direct_placement(c, node, position);
    if (direct >= 0) return wanted_storage(c, direct);
    for (int k = 0; k < node->input_count && position == 0; k++) {
        if (in_place(c, node, k, step)) return c->storage[c->root[node->inputs[k]]];
    }
    return gp_compile_storage(c, (gp_storage){.region = GP_REGION_WORKSPACE,
                                              .bytes = bytes_of(c, node->outputs[position]),
                                              .first = step,
                                              .last = step,
                                              .available = -1,
                                              .consumable = true});
}

static int32_t read_storage(gp_compiler *c, int32_t value, int32_t step) {
    int32_t storage = c->storage[c->root[value]];
    if (storage >= 0) c->storages[storage].last = step;
    return storage;
}

static gp_status assign_node(gp_compiler *c, gp_draft *draft, int32_t step) {
    const gp_node *node = &c->graph->nodes[draft->node];
    for (int k = 0; k < node->input_count; k++) {
        draft->inputs[k] = node->inputs[k] >= 0 ? read_storage(c, node->inputs[k], step) : -1;
        if (node->inputs[k] >= 0 && draft->inputs[k] < 0) {
            return gp_error(GP_FAILED, "value %d is read by %s before it is there", (int)node->inputs[k],
                            node->op->name);
        }
    }
    for (int k = 0; k < node->output_count; k++) {
        draft->outputs[k] = output_storage(c, node, k, step);
        if (draft->outputs[k] < 0) return GP_OUT_OF_MEMORY;
    }
    for (int k = 0; k < node->output_count; k++) {
        int32_t root = c->root[node->outputs[k]];
        if (!is_available(c, root)) c->storage[root] = draft->outputs[k];
        c->storages[draft->outputs[k]].last = step;
    }
    return GP_OK;
}

static gp_status assign_all(gp_compiler *c) {
    for (size_t i = 0; i < c->draft_count; i++) {
        gp_draft *draft = &c->drafts[i];
        if (draft->kind == GP_DRAFT_NODE) {
            GP_TRY(assign_node(c, draft, (int32_t)i));
            continue;
        }
        draft->inputs[0] = read_storage(c, draft->value, (int32_t)i);
        draft->outputs[0] = wanted_storage(c, draft->wanted);
        if (draft->outputs[0] < 0) return GP_OUT_OF_MEMORY;
    }
    return GP_OK;
}

/* An array of -1, one for each value or placement. */
static int32_t *minus_ones(size_t count) {
    int32_t *array = gp_allocate_array(count, sizeof *array);
    if (array && count) memset(array, 0xFF, count * sizeof *array);
    return array;
}

gp_status gp_compile_place(gp_compiler *compiler) {
    size_t values = (size_t)compiler->graph->value_count;
    compiler->storage = minus_ones(values);
    compiler->last_read = minus_ones(values);
    compiler->wanted = minus_ones(values);
    compiler->next_wanted = minus_ones(compiler->desc->wanted_count);
    compiler->reads = gp_allocate_array(values, sizeof *compiler->reads);
    if (!compiler->storage || !compiler->last_read || !compiler->wanted || !compiler->next_wanted || !compiler->reads) {
        return GP_OUT_OF_MEMORY;
    }
    GP_TRY(place_available(compiler));
    chain_wanted(compiler);
    count_reads(compiler);
    GP_TRY(draft_all(compiler));
    find_last_reads(compiler);
    return assign_all(compiler);
}
