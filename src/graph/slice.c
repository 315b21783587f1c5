/* Slices: which nodes lead from values that are there to values that are wanted, and in which order they run.
 *
 * Backward nodes run in the order in which they were added. A forward node that has to run again is put off until
 * something needs it: a value that is computed late is not kept for long. */
#include "base/memory.h"
#include "base/status.h"
#include "graph/graph.h"

typedef struct slicing {
    const gp_graph *graph;
    const bool *available;
    bool *needed;     /* per node: belongs to the slice and has not been emitted yet */
    int32_t *emitted; /* the slice so far */
    size_t count;
    int32_t *stack;    /* nodes that wait for their inputs; each needs the one above it */
    int32_t *progress; /* per level of the stack: next input to look at */
} slicing;

/* Marks the node that makes a value which is not there; its own inputs are looked at when the scan comes to it. */
static gp_status need_value(slicing *s, int32_t value) {
    if (value < 0 || s->available[value]) return GP_OK;
    const gp_value_info *info = &s->graph->values[value];
    if (info->node >= 0) {
        s->needed[info->node] = true;
        return GP_OK;
    }
    char text[160];
    return gp_error(GP_FAILED, "a slice needs the %s %d, %s, which is not available",
                    info->kind == GP_VALUE_PARAMETER ? "parameter" : "input", value,
                    gp_type_format(info->type, text, sizeof text));
}

/* One scan from the last node to the first suffices: nodes come after those that make their inputs. */
static gp_status mark_needed(slicing *s, const int32_t *wanted, size_t wanted_count, size_t *count) {
    for (size_t i = 0; i < wanted_count; i++)
        GP_TRY(need_value(s, wanted[i]));
    *count = 0;
    for (int32_t n = s->graph->node_count - 1; n >= 0; n--) {
        if (!s->needed[n]) continue;
        ++*count;
        const gp_node *node = &s->graph->nodes[n];
        for (int32_t i = 0; i < node->input_count; i++)
            GP_TRY(need_value(s, node->inputs[i]));
    }
    return GP_OK;
}

/* The next input's maker that has yet to run, or -1. */
static int32_t next_waiting(const slicing *s, int32_t n, int32_t *progress) {
    const gp_node *node = &s->graph->nodes[n];
    while (*progress < node->input_count) {
        int32_t value = node->inputs[(*progress)++];
        if (value < 0 || s->available[value]) continue;
        int32_t maker = s->graph->values[value].node;
        if (maker >= 0 && s->needed[maker]) return maker;
    }
    return -1;
}

/* Emits a node after everything that it waits for. */
static void emit(slicing *s, int32_t last) {
    size_t depth = 0;
    s->stack[depth] = last;
    s->progress[depth++] = 0;
    while (depth > 0) {
        int32_t maker = next_waiting(s, s->stack[depth - 1], &s->progress[depth - 1]);
        if (maker >= 0) {
            s->stack[depth] = maker;
            s->progress[depth++] = 0;
        } else {
            int32_t n = s->stack[--depth];
            s->needed[n] = false;
            s->emitted[s->count++] = n;
        }
    }
}

gp_status gp_graph_slice(const gp_graph *graph, const bool *available, const int32_t *wanted, size_t wanted_count,
                         int32_t **nodes, size_t *node_count) {
    slicing s = {.graph = graph, .available = available};
    size_t count = 0;
    *nodes = NULL;
    *node_count = 0;
    gp_status status = GP_OUT_OF_MEMORY;
    s.needed = gp_allocate_array((size_t)graph->node_count, sizeof *s.needed);
    if (!s.needed) goto done;
    status = mark_needed(&s, wanted, wanted_count, &count);
    if (status != GP_OK) goto done;
    status = GP_OUT_OF_MEMORY;
    s.emitted = gp_allocate_array(count, sizeof *s.emitted);
    s.stack = gp_allocate_array(count, sizeof *s.stack);
    s.progress = gp_allocate_array(count, sizeof *s.progress);
    if (!s.emitted || !s.stack || !s.progress) goto done;
    for (int32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].backward && s.needed[n]) emit(&s, n);
    }
    for (int32_t n = 0; n < graph->node_count; n++) { /* what no backward node needs: a forward slice is all of it */
        if (s.needed[n]) emit(&s, n);
    }
    *nodes = s.emitted;
    *node_count = s.count;
    s.emitted = NULL;
    status = GP_OK;
done:
    gp_free(s.needed);
    gp_free(s.emitted);
    gp_free(s.stack);
    gp_free(s.progress);
    return status;
}

/* What the nodes make themselves is remembered in a second bit of the caller's array (bytes that hold 0 or 1), which
 * needs no memory and therefore cannot fail; the array holds nothing but 0 and 1 again at the end. */
void gp_graph_reads(const gp_graph *graph, const int32_t *nodes, size_t node_count, bool *used) {
    _Static_assert(sizeof(bool) == 1, "a bool is looked at as one byte");
    enum { USED = 1, MADE = 2 };
    unsigned char *marks = (unsigned char *)used;
    for (size_t i = 0; i < node_count; i++) {
        const gp_node *node = &graph->nodes[nodes[i]];
        for (int32_t o = 0; o < node->output_count; o++)
            marks[node->outputs[o]] |= MADE;
    }
    for (size_t i = 0; i < node_count; i++) {
        const gp_node *node = &graph->nodes[nodes[i]];
        for (int32_t k = 0; k < node->input_count; k++) {
            if (node->inputs[k] >= 0 && !(marks[node->inputs[k]] & MADE)) marks[node->inputs[k]] |= USED;
        }
    }
    for (size_t i = 0; i < node_count; i++) {
        const gp_node *node = &graph->nodes[nodes[i]];
        for (int32_t o = 0; o < node->output_count; o++)
            marks[node->outputs[o]] &= USED;
    }
}
