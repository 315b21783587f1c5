/* The graph: values, nodes, and the first error.
 *
 * Values and nodes are kept in two arrays and named by index, so that a slice, a plan or a set of values is an array
 * too. Nodes are only ever appended, after the nodes that make their inputs: the order of the array is an order in
 * which they can run, and every walk over a graph is a loop, never a recursion. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum { USES_PER_LAYER = 256, FIRST_CAPACITY = 64 };

gp_status gp_graph_create(gp_graph **graph, bool training) {
    *graph = gp_allocate(sizeof **graph);
    if (!*graph) return GP_OUT_OF_MEMORY;
    (*graph)->training = training;
    (*graph)->layer = -1;
    return GP_OK;
}

void gp_graph_destroy(gp_graph *graph) {
    if (!graph) return;
    for (int32_t i = 0; i < graph->node_count; i++)
        gp_free(graph->nodes[i].attributes);
    gp_free(graph->nodes);
    gp_free(graph->values);
    gp_free(graph->error);
    gp_free(graph);
}

void gp_graph_begin_layer(gp_graph *graph, int32_t layer) {
    graph->layer = layer;
    graph->next_use = 0;
}

/* ---- errors ---- */

/* Keeps the calling thread's message as the graph's, unless there is an earlier one. */
static gp_value keep_error(gp_graph *graph, gp_status status) {
    if (graph && graph->status == GP_OK) {
        graph->error = gp_copy_text(gp_error_message());
        graph->status = graph->error ? status : GP_OUT_OF_MEMORY;
    }
    return (gp_value){graph, -1};
}

gp_value gp_graph_error(gp_graph *graph, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return keep_error(graph, gp_error(GP_INVALID, "%s", text));
}

gp_status gp_graph_status(const gp_graph *graph) {
    if (graph->status != GP_OK) gp_error_message_set(graph->error ? graph->error : gp_status_text(graph->status));
    return graph->status;
}

uint32_t gp_graph_next_use(gp_graph *graph) {
    if (graph->next_use >= USES_PER_LAYER) {
        gp_graph_error(graph, "a layer has more than %d operations that draw random numbers", (int)USES_PER_LAYER);
        return 0;
    }
    return (uint32_t)graph->layer * USES_PER_LAYER + graph->next_use++;
}

/* ---- values and nodes ---- */

/* Makes room for `more` elements in one of the two arrays. */
static gp_status reserve(void **array, int32_t count, int32_t *capacity, int32_t more, size_t bytes) {
    if (count <= *capacity - more) return GP_OK;
    if (count > INT32_MAX / 2 - more)
        return gp_error(GP_OUT_OF_MEMORY, "a graph has more than %d values or operations", INT32_MAX / 2);
    int32_t wanted = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    void *grown = gp_grow_array(*array, (size_t)count, (size_t)wanted, bytes);
    if (!grown) return GP_OUT_OF_MEMORY;
    *array = grown;
    *capacity = wanted;
    return GP_OK;
}

static gp_status reserve_values(gp_graph *graph, int32_t more) {
    void *values = graph->values;
    gp_status status = reserve(&values, graph->value_count, &graph->value_capacity, more, sizeof *graph->values);
    graph->values = values;
    return status;
}

static gp_status reserve_node(gp_graph *graph) {
    void *nodes = graph->nodes;
    gp_status status = reserve(&nodes, graph->node_count, &graph->node_capacity, 1, sizeof *graph->nodes);
    graph->nodes = nodes;
    return status;
}

/* After reserve_values. */
static int32_t append_value(gp_graph *graph, gp_type type, gp_value_kind kind, int32_t node, int32_t position) {
    graph->values[graph->value_count] = (gp_value_info){type, kind, node, position};
    return graph->value_count++;
}

static gp_value append_given(gp_graph *graph, gp_type type, gp_value_kind kind) {
    gp_status status = gp_shape_check(type.shape);
    if (status == GP_OK) status = reserve_values(graph, 1);
    if (status != GP_OK) return keep_error(graph, status);
    return (gp_value){graph, append_value(graph, type, kind, -1, 0)};
}

gp_value gp_graph_input(gp_graph *graph, gp_type type) {
    return append_given(graph, type, GP_VALUE_INPUT);
}

gp_value gp_graph_parameter(gp_graph *graph, gp_shape shape) {
    return append_given(graph, (gp_type){GP_F32, shape}, GP_VALUE_PARAMETER);
}

gp_value gp_none(void) {
    return (gp_value){NULL, -1};
}

bool gp_value_valid(gp_value value) {
    return value.graph && value.index >= 0 && value.index < value.graph->value_count;
}

gp_type gp_value_type(gp_value value) {
    return gp_value_valid(value) ? value.graph->values[value.index].type : (gp_type){.dtype = GP_F32};
}

/* ---- application of an operation ---- */

static const gp_type absent = {.dtype = GP_F32, .shape = {.rank = -1}};

/* What is known about one application while it is checked and made. */
typedef struct application {
    const gp_op_class *op;
    const void *attributes;
    const gp_value *inputs;
    size_t input_count, output_count;
    gp_graph *graph; /* of the first operand that has one */
    gp_type input_types[GP_MAX_OPERANDS], output_types[GP_MAX_OPERANDS];
} application;

/* Fills the types of the operands. An operand that an earlier error made invalid gives that error again. */
static gp_status read_operands(application *a) {
    for (size_t i = 0; i < a->input_count; i++) {
        gp_value input = a->inputs[i];
        a->input_types[i] = gp_value_valid(input) ? gp_value_type(input) : absent;
        if (!input.graph) continue;
        if (input.graph != a->graph) return gp_error(GP_INVALID, "operand %zu is a value of another graph", i);
        if (gp_value_valid(input)) continue;
        GP_TRY(gp_graph_status(a->graph));
        return gp_error(GP_INVALID, "operand %zu is not a value that the graph has made", i);
    }
    return a->graph ? GP_OK : gp_error(GP_INVALID, "no operand is a value of a graph");
}

static gp_status check_class(const application *a) {
    const gp_op_class *op = a->op;
    if (op->size != sizeof *op) {
        return gp_error(GP_INVALID, "the class has size %zu, this library knows classes of %zu bytes", op->size,
                        sizeof *op);
    }
    if (!op->infer) return gp_error(GP_INVALID, "the class has no infer function");
    if (!op->kernel && gp_op_id_of(op) == GP_OP_CUSTOM) return gp_error(GP_INVALID, "the class has no kernel");
    if (op->attributes_size > 0 && !a->attributes) return gp_error(GP_INVALID, "the attributes are missing");
    if (a->input_count > GP_MAX_OPERANDS || a->output_count > GP_MAX_OPERANDS || a->output_count == 0) {
        return gp_error(GP_INVALID, "%zu inputs and %zu outputs: up to %d inputs and 1 to %d outputs are accepted",
                        a->input_count, a->output_count, (int)GP_MAX_OPERANDS, (int)GP_MAX_OPERANDS);
    }
    return GP_OK;
}

/* Asks the class for the types of the outputs and does not trust them. */
static gp_status infer_outputs(application *a) {
    gp_op_call call = {a->attributes, a->input_types, a->input_count, NULL, a->output_count};
    GP_TRY(a->op->infer(&call, a->output_types));
    for (size_t i = 0; i < a->output_count; i++) {
        if ((unsigned)a->output_types[i].dtype >= GP_DTYPE_COUNT)
            return gp_error(GP_INVALID, "infer gave output %zu an unknown dtype", i);
        GP_TRY(gp_error_within(gp_shape_check(a->output_types[i].shape), "output %zu", i));
    }
    return GP_OK;
}

/* Appends the node; nothing is changed on failure. */
static gp_status append_node(const application *a) {
    gp_graph *graph = a->graph;
    GP_TRY(reserve_values(graph, (int32_t)a->output_count));
    GP_TRY(reserve_node(graph));
    gp_node node = {.op = a->op,
                    .id = gp_op_id_of(a->op),
                    .input_count = (int32_t)a->input_count,
                    .output_count = (int32_t)a->output_count,
                    .layer = graph->layer,
                    .backward = graph->backward};
    if (a->op->attributes_size > 0) {
        node.attributes = gp_allocate(a->op->attributes_size);
        if (!node.attributes) return GP_OUT_OF_MEMORY;
        memcpy(node.attributes, a->attributes, a->op->attributes_size);
    }
    for (size_t i = 0; i < a->input_count; i++)
        node.inputs[i] = a->inputs[i].graph ? a->inputs[i].index : -1;
    for (size_t i = 0; i < a->output_count; i++)
        node.outputs[i] = append_value(graph, a->output_types[i], GP_VALUE_RESULT, graph->node_count, (int32_t)i);
    graph->nodes[graph->node_count++] = node;
    return GP_OK;
}

static gp_status apply(application *a) {
    for (size_t i = 0; i < a->input_count && !a->graph; i++)
        a->graph = a->inputs[i].graph;
    GP_TRY(check_class(a));
    GP_TRY(read_operands(a));
    GP_TRY(infer_outputs(a));
    return append_node(a);
}

void gp_op_apply(const gp_op_class *op, const void *attributes, const gp_value *inputs, size_t input_count,
                 gp_value *outputs, size_t output_count) {
    application a = {
        .op = op, .attributes = attributes, .inputs = inputs, .input_count = input_count, .output_count = output_count};
    gp_status status = apply(&a);
    if (status != GP_OK)
        keep_error(a.graph, gp_error_within(status, "%s", op->name ? op->name : "operation without a name"));
    for (size_t i = 0; i < output_count; i++) {
        int32_t index = status == GP_OK ? a.graph->nodes[a.graph->node_count - 1].outputs[i] : -1;
        outputs[i] = (gp_value){a.graph, index};
    }
}

/* ---- questions about nodes ---- */

gp_op_call gp_node_call(const gp_graph *graph, int32_t node, gp_type *inputs, gp_type *outputs) {
    const gp_node *n = &graph->nodes[node];
    for (int32_t i = 0; i < n->input_count; i++)
        inputs[i] = n->inputs[i] >= 0 ? graph->values[n->inputs[i]].type : absent;
    for (int32_t i = 0; i < n->output_count; i++)
        outputs[i] = graph->values[n->outputs[i]].type;
    return (gp_op_call){n->attributes, inputs, (size_t)n->input_count, outputs, (size_t)n->output_count};
}

double gp_node_flops(const gp_graph *graph, int32_t node) {
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_op_call call = gp_node_call(graph, node, inputs, outputs);
    const gp_op_class *op = graph->nodes[node].op;
    if (op->flops) return op->flops(&call);
    double elements = 0;
    for (size_t i = 0; i < call.output_count; i++)
        elements += (double)gp_shape_elements(outputs[i].shape);
    return elements;
}
