/* Inside the library: a model as the pipeline sees it, and the graph of a run of its layers.
 *
 * Ports: every value that goes from a layer to a later one is a port: the chain (layer i to i + 1) and one for each
 * layer that recalls a skip. A cut turns the ports that cross it into messages. Inside a stage a port is an alias of
 * its source, one for each destination; so the gradient of a value that several layers use is summed layer by layer,
 * last layer first, with the same association wherever the cuts are. */
#ifndef GP_LAYERS_MODEL_H
#define GP_LAYERS_MODEL_H

#include "gpipe/layer.h"
#include "graph/graph.h"

typedef struct gp_port {
    int32_t source;      /* layer; -1: the model's input */
    int32_t destination; /* layer, > source */
    const char *skip;    /* name of the skip; NULL: the chain */
    bool indices; /* no gradient flows back: integers, nobody before it has parameters, or nothing of it reaches the
                     loss */
} gp_port;

/* A layer's use of a parameter. Every use has a gradient of its own; the gradient of the parameter is the sum over its
 * uses in the order of layers: the same order whether the layers share a stage or not. */
typedef struct gp_parameter_use {
    size_t parameter; /* index for gp_model_parameter */
    int32_t layer;
} gp_parameter_use;

/* Sorted by (source, destination). Valid after gp_model_finish. */
size_t gp_model_ports(const gp_model *model, const gp_port **ports);
/* What flows through a port with activations of this dtype; dimension 0 is the batch. Valid after gp_model_finish. */
gp_type gp_model_port_type(const gp_model *model, size_t port, gp_dtype dtype);
/* Sorted by (layer, order of declaration). Valid after gp_model_finish. */
size_t gp_model_uses(const gp_model *model, const gp_parameter_use **uses);

/* Two states that follow the moments of the mini-batches; see gp_builder_moving_moments. */
typedef struct gp_moments {
    size_t mean, variance; /* states, indices for gp_model_state */
    int32_t layer;
    double decay;
} gp_moments;

/* Sorted by (layer, order in the forward). Valid after gp_model_finish. */
size_t gp_model_moments(const gp_model *model, const gp_moments **moments);

/* The weight of samples first..first+count-1 in the mean loss: tokens that are not ignored (or the sum of `weights`),
 * or samples. targets: host tensor, batch first; weights: host f32 tensor or NULL. */
double gp_model_loss_weight(const gp_model *model, const gp_tensor *targets, const gp_tensor *weights, int64_t first,
                            int64_t count);

typedef struct gp_build_options {
    int32_t first_layer, last_layer; /* inclusive */
    int64_t batch;                   /* samples of the micro-batch */
    gp_dtype dtype;                  /* of activations: f32 or bf16 */
    bool training;                   /* dropout works */
    bool gradients;                  /* add the backward operations */
    bool loss;         /* when last_layer is the model's last: append the loss (targets become an input) */
    bool loss_weights; /* the loss takes per-token weights (an input) */
} gp_build_options;

typedef struct gp_built_port {
    size_t port;       /* index in gp_model_ports */
    gp_value value;    /* what arrives (an input of the graph) or leaves */
    gp_value gradient; /* of the loss with respect to it: computed for arriving ports, an input of the graph for leaving
                          ones; gp_none() without gradients or for indices */
} gp_built_port;

typedef struct gp_built_use {
    size_t use;        /* index in gp_model_uses */
    gp_value value;    /* GP_VALUE_PARAMETER; uses of one parameter in one stage share the value */
    gp_value gradient; /* f32 result; invalid without gradients or when the loss does not depend on it */
} gp_built_use;

typedef struct gp_built_state {
    size_t state;   /* index for gp_model_state */
    gp_value value; /* an input of the graph, f32 */
} gp_built_state;

typedef struct gp_built_moments {
    size_t moments;          /* index in gp_model_moments */
    gp_value mean, variance; /* of the micro-batch, computed in forward */
} gp_built_moments;

/* The graph of a run of layers. Ports whose source is before first_layer arrive, those whose destination is behind
 * last_layer leave; both lists are sorted as gp_model_ports. */
typedef struct gp_built {
    gp_graph *graph;
    gp_built_port *arriving, *leaving;
    size_t arriving_count, leaving_count;
    gp_built_use *uses;
    size_t use_count;
    gp_built_state *states; /* every state of the layers */
    size_t state_count;
    gp_built_moments *moments; /* every pair of the layers, in training */
    size_t moment_count;
    gp_value *boundaries; /* what flows on ports between two layers of this stage (sources, each once): stashed by
                             recomputation at the granularity of layers */
    size_t boundary_count;
    gp_value output;                 /* of the last layer, when that is the model's last, else gp_none() */
    gp_value targets, weights, loss; /* gp_none() when there are none */
    gp_value auxiliary;              /* what counts beside the output in the loss of training; gp_none() */
    double auxiliary_weight;
    gp_value loss_gradient; /* an input: f32 scalar, 1 / weight of the mini-batch */
} gp_built;

/* Builds. `model` must be finished. Thread-safe (the model is only read). Errors name the layer. */
gp_status gp_model_build(const gp_model *model, const gp_build_options *options, gp_built *built);
void gp_built_destroy(gp_built *built); /* accepts a zeroed struct */

/* Writes the parameter's initial values (host memory, f32): a function of seed and name alone. */
void gp_parameter_initialise(const gp_parameter_info *parameter, uint64_t seed, float *values);
void gp_state_initialise(const gp_state_info *state, uint64_t seed, float *values);

#endif
