/* Gradients by reverse accumulation: walks the nodes from last to first and lets each class write its rule as further
 * operations of the same graph.
 *
 * Order is part of the contract: contributions to one value are added one after the other, those of later nodes first,
 * so that the sum has the same bits however a network is cut. */
#include "base/memory.h"
#include "base/status.h"
#include "graph/graph.h"

typedef struct gradient_walk {
    gp_graph *graph;
    int32_t value_count, node_count; /* before backward operations are added */
    bool *reached;                   /* per value: depends on a wanted one (or is wanted) */
    gp_value *gradients;             /* per value: sum of the contributions so far */
} gradient_walk;

/* Marks everything that depends on a wanted value: gradients flow nowhere else. */
static void mark_reached(gradient_walk *walk, const gp_value *wanted, size_t wanted_count) {
    const gp_graph *graph = walk->graph;
    for (size_t i = 0; i < wanted_count; i++) {
        if (gp_value_valid(wanted[i]) && gp_dtype_is_float(gp_value_type(wanted[i]).dtype))
            walk->reached[wanted[i].index] = true;
    }
    for (int32_t n = 0; n < walk->node_count; n++) {
        const gp_node *node = &graph->nodes[n];
        bool reached = false;
        for (int32_t i = 0; i < node->input_count && !reached; i++)
            reached = node->inputs[i] >= 0 && walk->reached[node->inputs[i]];
        for (int32_t i = 0; i < node->output_count && reached; i++)
            walk->reached[node->outputs[i]] |= gp_dtype_is_float(graph->values[node->outputs[i]].type.dtype);
    }
}

/* Adds a contribution to the gradient of a value. Contributions have the dtype of the value: f32 for a parameter. */
static gp_status contribute(gradient_walk *walk, int32_t value, gp_value contribution) {
    gp_type type = walk->graph->values[value].type, found = gp_value_type(contribution);
    if (contribution.graph != walk->graph || !gp_value_valid(contribution))
        return gp_error(GP_INVALID, "a gradient is not a value of the graph");
    if (!gp_shape_equal(type.shape, found.shape)) {
        char text[160], text_found[160];
        return gp_error(GP_INVALID, "the gradient of a value %s is %s: the shapes must be equal",
                        gp_type_format(type, text, sizeof text), gp_type_format(found, text_found, sizeof text_found));
    }
    contribution = gp_cast(contribution, type.dtype);
    gp_value *sum = &walk->gradients[value];
    *sum = gp_value_valid(*sum) ? gp_add(*sum, contribution) : contribution;
    return gp_graph_status(walk->graph);
}

/* Applies the rule of one node whose outputs have gradients. The node is a copy: its array grows meanwhile. */
static gp_status differentiate(gradient_walk *walk, gp_node node) {
    gp_value inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_value output_gradients[GP_MAX_OPERANDS], input_gradients[GP_MAX_OPERANDS];
    bool wanted[GP_MAX_OPERANDS];
    for (int32_t i = 0; i < node.input_count; i++) {
        inputs[i] = node.inputs[i] >= 0 ? (gp_value){walk->graph, node.inputs[i]} : gp_none();
        wanted[i] = node.inputs[i] >= 0 && walk->reached[node.inputs[i]];
        input_gradients[i] = gp_none();
    }
    for (int32_t i = 0; i < node.output_count; i++) {
        outputs[i] = (gp_value){walk->graph, node.outputs[i]};
        output_gradients[i] = walk->gradients[node.outputs[i]];
    }
    if (!node.op->gradient) return gp_error(GP_INVALID, "the operation has no gradient rule");
    gp_op_gradient call = {node.attributes,           inputs,           (size_t)node.input_count, outputs,
                           (size_t)node.output_count, output_gradients, input_gradients,          wanted};
    walk->graph->layer = node.layer;
    GP_TRY(node.op->gradient(&call));
    GP_TRY(gp_graph_status(walk->graph));
    for (int32_t i = 0; i < node.input_count; i++) {
        if (wanted[i] && (input_gradients[i].graph || input_gradients[i].index >= 0))
            GP_TRY(contribute(walk, node.inputs[i], input_gradients[i]));
    }
    return GP_OK;
}

static bool takes_part(const gradient_walk *walk, const gp_node *node) {
    bool wanted = false, given = false;
    for (int32_t i = 0; i < node->input_count; i++)
        wanted |= node->inputs[i] >= 0 && walk->reached[node->inputs[i]];
    for (int32_t i = 0; i < node->output_count; i++)
        given |= gp_value_valid(walk->gradients[node->outputs[i]]);
    return wanted && given;
}

static gp_status walk_back(gradient_walk *walk, const gp_value *outputs, const gp_value *output_gradients,
                           size_t output_count) {
    for (size_t i = output_count; i-- > 0;) {
        if (!gp_value_valid(outputs[i]) || !walk->reached[outputs[i].index]) continue;
        const gp_value_info *info = &walk->graph->values[outputs[i].index];
        walk->graph->layer = info->node >= 0 ? walk->graph->nodes[info->node].layer : -1;
        GP_TRY(contribute(walk, outputs[i].index, output_gradients[i]));
    }
    for (int32_t n = walk->node_count - 1; n >= 0; n--) {
        gp_node node = walk->graph->nodes[n];
        if (takes_part(walk, &node))
            GP_TRY(gp_error_within(differentiate(walk, node), "gradient of %s", node.op->name));
    }
    return GP_OK;
}

gp_status gp_graph_gradients(gp_graph *graph, const gp_value *outputs, const gp_value *output_gradients,
                             size_t output_count, const gp_value *wanted, gp_value *gradients, size_t wanted_count) {
    for (size_t i = 0; i < wanted_count; i++)
        gradients[i] = gp_none();
    GP_TRY(gp_graph_status(graph));
    gradient_walk walk = {.graph = graph, .value_count = graph->value_count, .node_count = graph->node_count};
    int32_t layer = graph->layer;
    bool backward = graph->backward;
    gp_status status = GP_OUT_OF_MEMORY;
    walk.reached = gp_allocate_array((size_t)walk.value_count, sizeof *walk.reached);
    walk.gradients = gp_allocate_array((size_t)walk.value_count, sizeof *walk.gradients);
    if (!walk.reached || !walk.gradients) goto done; /* a zeroed gradient has no graph: it is none */
    graph->backward = true;
    mark_reached(&walk, wanted, wanted_count);
    status = walk_back(&walk, outputs, output_gradients, output_count);
    for (size_t i = 0; i < wanted_count && status == GP_OK; i++) {
        if (gp_value_valid(wanted[i]) && gp_value_valid(walk.gradients[wanted[i].index]))
            gradients[i] = walk.gradients[wanted[i].index];
    }
done:
    graph->layer = layer;
    graph->backward = backward;
    gp_free(walk.reached);
    gp_free(walk.gradients);
    return status;
}
