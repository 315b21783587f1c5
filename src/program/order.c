/* Which nodes a program runs, in which order, and where its second segment begins. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "program/compile.h"

/* Whether the node has no kernel because its result is its input's memory. */
static bool is_view(const gp_node *node) {
    return node->id == GP_OP_RESHAPE || node->id == GP_OP_ALIAS;
}

static gp_status find_roots(gp_compiler *c) {
    const gp_graph *graph = c->graph;
    c->root = gp_allocate_array((size_t)graph->value_count, sizeof *c->root);
    if (!c->root) return GP_OUT_OF_MEMORY;
    for (int32_t v = 0; v < graph->value_count; v++) {
        int32_t maker = graph->values[v].node;
        c->root[v] = v;
        if (maker >= 0 && is_view(&graph->nodes[maker])) c->root[v] = c->root[graph->nodes[maker].inputs[0]];
    }
    return GP_OK;
}

/* Whatever shares memory with an available value is available too. */
static bool *mark_available(const gp_compiler *c) {
    size_t count = (size_t)c->graph->value_count;
    bool *available = gp_allocate_array(count, sizeof *available);
    if (!available) return NULL;
    for (size_t i = 0; i < c->desc->available_count; i++) {
        available[c->root[c->desc->available[i].value]] = true;
    }
    for (size_t v = 0; v < count; v++) {
        available[v] = available[c->root[v]];
    }
    return available;
}

static gp_status slice(gp_compiler *c) {
    bool *available = mark_available(c);
    int32_t *wanted = gp_allocate_array(c->desc->wanted_count, sizeof *wanted);
    gp_status status = available && wanted ? GP_OK : GP_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < c->desc->wanted_count && status == GP_OK; i++) {
        int32_t value = c->desc->wanted[i].value;
        if (!available[value]) wanted[count++] = value;
    }
    if (status == GP_OK) status = gp_graph_slice(c->graph, available, wanted, count, &c->nodes, &c->node_count);
    gp_free(available);
    gp_free(wanted);
    return status;
}

static void drop_views(gp_compiler *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->node_count; i++) {
        if (!is_view(&c->graph->nodes[c->nodes[i]])) c->nodes[kept++] = c->nodes[i];
    }
    c->node_count = kept;
}

/* Sets the marks of the outputs of every node that reads something marked. */
static void spread(const gp_compiler *c, bool *marks) {
    for (size_t i = 0; i < c->node_count; i++) {
        const gp_node *node = &c->graph->nodes[c->nodes[i]];
        bool any = false;
        for (int k = 0; k < node->input_count; k++) {
            any = any || (node->inputs[k] >= 0 && marks[c->root[node->inputs[k]]]);
        }
        for (int k = 0; k < node->output_count && any; k++) {
            marks[c->root[node->outputs[k]]] = true;
        }
    }
}

static bool makes_marked(const gp_compiler *c, int32_t n, const bool *marks) {
    return marks[c->root[c->graph->nodes[n].outputs[0]]];
}

/* All forward nodes first. A forward node that depends on something which stays behind stays behind too. */
static gp_status forward_first(gp_compiler *c) {
    bool *behind = gp_allocate_array((size_t)c->graph->value_count, sizeof *behind);
    int32_t *ordered = gp_allocate_array(c->node_count, sizeof *ordered);
    gp_status status = behind && ordered ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK) {
        size_t count = 0;
        memcpy(behind, c->late, (size_t)c->graph->value_count * sizeof *behind);
        for (size_t i = 0; i < c->node_count; i++) {
            const gp_node *node = &c->graph->nodes[c->nodes[i]];
            for (int k = 0; k < node->output_count && node->backward; k++) {
                behind[c->root[node->outputs[k]]] = true;
            }
        }
        spread(c, behind);
        for (int part = 0; part < 2; part++) {
            for (size_t i = 0; i < c->node_count; i++) {
                if (makes_marked(c, c->nodes[i], behind) == (part == 1)) ordered[count++] = c->nodes[i];
            }
        }
        memcpy(c->nodes, ordered, c->node_count * sizeof *ordered);
    }
    gp_free(behind);
    gp_free(ordered);
    return status;
}

static gp_status cut(gp_compiler *c) {
    c->late = gp_allocate_array((size_t)c->graph->value_count, sizeof *c->late);
    if (!c->late) return GP_OUT_OF_MEMORY;
    c->late_begin = c->node_count;
    c->segments = 1;
    if (!c->desc->late_count) return GP_OK;
    for (size_t i = 0; i < c->desc->late_count; i++) {
        c->late[c->root[c->desc->late[i]]] = true;
    }
    spread(c, c->late);
    if (c->desc->early_all) GP_TRY(forward_first(c));
    c->segments = 2;
    c->late_begin = 0;
    while (c->late_begin < c->node_count && !makes_marked(c, c->nodes[c->late_begin], c->late)) {
        c->late_begin++;
    }
    return GP_OK;
}

gp_status gp_compile_order(gp_compiler *compiler) {
    GP_TRY(find_roots(compiler));
    GP_TRY(slice(compiler));
    drop_views(compiler);
    return cut(compiler);
}
