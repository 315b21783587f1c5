/* Inside of the builder. There are two makers of builders: the first walk through a model, which takes down what the
 * layers declare (declare.c), and the build of a stage, which gives out what was taken down (build.c). They differ in
 * where parameters and recalled values come from, and in nothing else. */
#ifndef GP_LAYERS_BUILDER_H
#define GP_LAYERS_BUILDER_H

#include "graph/graph.h"
#include "layers/structure.h"

enum { GP_MAX_SCOPES = 32, GP_MAX_NAME = 512 };

/* A value kept by the layer that is being built. */
typedef struct gp_kept {
    char *name; /* owned */
    gp_value value;
} gp_kept;

struct gp_builder {
    gp_graph *graph;
    gp_dtype dtype;
    int32_t layer;
    const gp_layer *top; /* the layer of the model */
    int64_t batch;

    char path[GP_MAX_NAME]; /* "layers.3.attention.": what names are put behind */
    size_t lengths[GP_MAX_SCOPES];
    int depth;
    size_t root;             /* length of "layers.3." */
    char where[GP_MAX_NAME]; /* of the innermost nested layer that failed; "" when the layer itself did */

    gp_kept *kept;
    size_t kept_count, kept_capacity;
    size_t layer_count; /* of the model */
    gp_value auxiliary; /* invalid: none */
    double auxiliary_weight;

    gp_built_state *states; /* declared so far by the layer that is being built */
    size_t state_count, state_capacity;

    /* All return gp_none() after gp_builder_fail or gp_builder_error. `name` is the full one. */
    gp_value (*parameter)(gp_builder *builder, const char *name, gp_shape shape, const gp_parameter_options *options);
    gp_value (*recall)(gp_builder *builder, const char *name);
    /* The states are numbers for gp_model_state. */
    gp_status (*state)(gp_builder *builder, const char *name, gp_shape shape, const gp_init *init, size_t *state);
    gp_status (*moments)(gp_builder *builder, const gp_moments *moments, gp_value mean, gp_value variance);
    void *context;
};

/* Begins a layer: path, uses of random numbers, kept values. */
void gp_builder_begin(gp_builder *builder, const gp_layer *layer, int32_t index);
/* Calls the layer's forward and checks what it returns. Errors name the layer. */
gp_status gp_builder_run(gp_builder *builder, gp_value input, gp_value *output);
/* Writes `name` behind the path and returns the length that the path had before; the path is cut back to it by the
 * caller. Errors: too long. */
gp_status gp_builder_full_name(gp_builder *builder, const char *what, const char *name, size_t *used);
/* Frees what was kept. */
void gp_builder_end(gp_builder *builder);

/* Makes the thread's message the layer's first error; returns an invalid value. */
gp_value gp_builder_fail(gp_builder *builder, gp_status status);

#endif
