/* Inside the library: the graph itself, its gradients and its slices. The public half is gpipe/graph.h.
 *
 * One graph per stage and micro-batch size holds everything that the stage computes: the forward of its layers, and the
 * backward operations that gradient rules add to it. What runs is always a slice of it (program/program.h). */
#ifndef GP_GRAPH_GRAPH_H
#define GP_GRAPH_GRAPH_H

#include "gpipe/graph.h"
#include "graph/ops.h"

typedef enum gp_value_kind {
    GP_VALUE_INPUT,     /* given from outside: activation, indices, targets, gradient of an output */
    GP_VALUE_PARAMETER, /* f32, held by the stage */
    GP_VALUE_RESULT     /* of a node */
} gp_value_kind;

typedef struct gp_value_info {
    gp_type type;
    gp_value_kind kind;
    int32_t node;     /* that makes it; -1 */
    int32_t position; /* among the node's outputs */
} gp_value_info;

typedef struct gp_node {
    const gp_op_class *op;
    gp_op_id id;      /* GP_OP_CUSTOM for a user's */
    void *attributes; /* owned by the graph */
    int32_t input_count, output_count;
    int32_t inputs[GP_MAX_OPERANDS];  /* value indices; -1: absent */
    int32_t outputs[GP_MAX_OPERANDS]; /* value indices */
    int32_t layer;                    /* of the model; the loss is layer `count`; -1: none */
    bool backward;                    /* added by gp_graph_gradients */
} gp_node;

struct gp_graph {
    gp_value_info *values;
    gp_node *nodes; /* in an order in which they can run */
    int32_t value_count, value_capacity;
    int32_t node_count, node_capacity;
    bool training;     /* false: dropout is the identity */
    int32_t layer;     /* given to nodes that are added now */
    uint32_t next_use; /* number of the next operation of this layer that draws random numbers */
    bool backward;     /* nodes added now are backward ones */
    gp_status status;  /* of the first error */
    char *error;       /* its sentence */
};

gp_status gp_graph_create(gp_graph **graph, bool training);
void gp_graph_destroy(gp_graph *graph); /* accepts NULL */

/* Nodes added from now on belong to `layer`; the count of random uses starts again. */
void gp_graph_begin_layer(gp_graph *graph, int32_t layer);
gp_value gp_graph_input(gp_graph *graph, gp_type type);
gp_value gp_graph_parameter(gp_graph *graph, gp_shape shape);
/* The same value under another index (no kernel, no copy): each layer takes its inputs through aliases, so that
 * gradients of a value used by several layers are summed per layer first, in the same order wherever the layers live.
 */
gp_value gp_graph_alias(gp_value value);

/* Keeps the first error; returns the invalid value. */
gp_value gp_graph_error(gp_graph *graph, const char *format, ...) GP_PRINTF(2, 3);
/* GP_OK or the first error, with its sentence as the thread's message. */
gp_status gp_graph_status(const gp_graph *graph);

/* A fresh number for an operation that draws random numbers: layer * 256 + use. */
uint32_t gp_graph_next_use(gp_graph *graph);

/* Adds backward operations: given outputs and values that hold their gradients, finds the gradients of `wanted`
 * (invalid where nothing depends on it). Contributions are added in reverse order of nodes, a fixed order. Errors:
 * GP_INVALID for an operation that has no gradient rule, naming it. */
gp_status gp_graph_gradients(gp_graph *graph, const gp_value *outputs, const gp_value *output_gradients,
                             size_t output_count, const gp_value *wanted, gp_value *gradients, size_t wanted_count);

/* The nodes that compute `wanted` from values that are available (available[value index]; parameters must be marked by
 * the caller too), in running order. Backward nodes come in the order in which they were added; a forward node that has
 * to be computed again comes as late as possible, right before the first node that needs it: that is what makes
 * recomputation layer by layer fall out of nothing but the choice of what is available. `nodes` is allocated for the
 * caller (gp_free). Errors: GP_FAILED when a wanted value needs an input that is not available (a mistake of the
 * caller). */
gp_status gp_graph_slice(const gp_graph *graph, const bool *available, const int32_t *wanted, size_t wanted_count,
                         int32_t **nodes, size_t *node_count);

/* Marks used[value] for every value that the given nodes read and do not make themselves. */
void gp_graph_reads(const gp_graph *graph, const int32_t *nodes, size_t node_count, bool *used);

/* FLOPs of one node. */
double gp_node_flops(const gp_graph *graph, int32_t node);
/* The call as the class's functions see it; `inputs` and `outputs` are caller's arrays of GP_MAX_OPERANDS. An absent
 * input has rank -1. */
gp_op_call gp_node_call(const gp_graph *graph, int32_t node, gp_type *inputs, gp_type *outputs);

#endif
