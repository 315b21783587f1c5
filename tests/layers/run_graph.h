/* Runs a graph node by node on the reference device, every value in memory of its own: the plainest way there is, to
 * check what layers compute without the rooms that plan memory. */
#ifndef GP_TESTS_LAYERS_RUN_GRAPH_H
#define GP_TESTS_LAYERS_RUN_GRAPH_H

#include "base/memory.h"
#include "device/device.h"
#include "layers/build_models.h"

typedef struct graph_run {
    const gp_graph *graph;
    gp_device *device;
    void **data;  /* by value */
    bool *shared; /* the memory is another value's */
    gp_run run;
} graph_run;

/* Memory for inputs and parameters, zeroed. */
static inline graph_run start_run(const gp_graph *graph, gp_device *device) {
    size_t count = (size_t)graph->value_count;
    graph_run run = {.graph = graph,
                     .device = device,
                     .data = gp_allocate_array(count, sizeof(void *)),
                     .shared = gp_allocate_array(count, sizeof(bool)),
                     .run = {.seed = 5, .step = 3}};
    assert_true(run.data && run.shared);
    for (size_t i = 0; i < count; i++) {
        const gp_value_info *info = &graph->values[i];
        int32_t node = info->node;
        run.shared[i] = node >= 0 && (graph->nodes[node].id == GP_OP_ALIAS || graph->nodes[node].id == GP_OP_RESHAPE);
        if (run.shared[i]) continue;
        run.data[i] = gp_allocate(device->class->bytes(info->type));
        assert_non_null(run.data[i]);
    }
    for (int32_t i = 0; i < graph->node_count; i++) { /* in the order of nodes, so that chains of aliases work */
        const gp_node *node = &graph->nodes[i];
        if (run.shared[node->outputs[0]]) run.data[node->outputs[0]] = run.data[node->inputs[0]];
    }
    return run;
}

static inline void end_run(graph_run *run) {
    for (int32_t i = 0; i < run->graph->value_count; i++) {
        if (!run->shared[i]) gp_free(run->data[i]);
    }
    gp_free(run->data);
    gp_free(run->shared);
}

static inline double *data_of(const graph_run *run, gp_value value) {
    return run->data[value.index];
}

static inline void run_node(const graph_run *run, int32_t index) {
    const gp_node *node = &run->graph->nodes[index];
    if (run->shared[node->outputs[0]]) return;
    gp_type input_types[GP_MAX_OPERANDS], output_types[GP_MAX_OPERANDS];
    const void *inputs[GP_MAX_OPERANDS] = {NULL};
    void *outputs[GP_MAX_OPERANDS] = {NULL};
    gp_op_call call = gp_node_call(run->graph, index, input_types, output_types);
    for (int32_t i = 0; i < node->input_count; i++)
        inputs[i] = node->inputs[i] >= 0 ? run->data[node->inputs[i]] : NULL;
    for (int32_t i = 0; i < node->output_count; i++)
        outputs[i] = run->data[node->outputs[i]];
    gp_kernel_desc desc = {.id = node->id,
                           .op = node->op,
                           .attributes = node->attributes,
                           .inputs = call.inputs,
                           .outputs = output_types,
                           .input_count = node->input_count,
                           .output_count = node->output_count};
    gp_kernel *kernel = NULL;
    assert_ok(run->device->class->kernel_create(run->device, &desc, &kernel));
    void *workspace = gp_allocate(kernel->workspace);
    assert_ok(kernel->run(kernel, inputs, outputs, workspace, &run->run));
    gp_free(workspace);
    kernel->destroy(kernel);
}

static inline void run_nodes(const graph_run *run, bool backward) {
    for (int32_t i = 0; i < run->graph->node_count; i++) {
        if (run->graph->nodes[i].backward == backward) run_node(run, i);
    }
}

#endif
