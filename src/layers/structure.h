/* What a layer and a model are inside. Only files of this room look in here. */
#ifndef GP_LAYERS_STRUCTURE_H
#define GP_LAYERS_STRUCTURE_H

#include "layers/model.h"
#include "tensor/batched.h"

struct gp_layer {
    const gp_layer_class *class;
    void *self;
};

/* A parameter of the model's own. */
typedef struct gp_model_parameter_data {
    gp_parameter_info info;
    char *name;  /* info.name, owned */
    bool shared; /* used by more than one layer */
} gp_model_parameter_data;

/* A call of gp_builder_parameter in a layer's forward, in order. Tied ones are declarations too: they have a name of
 * their own but use another's parameter. */
typedef struct gp_declaration {
    char *name; /* full, owned */
    gp_shape shape;
    size_t use;
} gp_declaration;

/* A state of a layer. */
typedef struct gp_model_state_data {
    gp_state_info info;
    char *name; /* info.name, owned */
} gp_model_state_data;

typedef struct gp_skip {
    char *name; /* owned */
    int32_t layer;
    gp_type type; /* with f32 activations */
    bool recalled;
} gp_skip;

/* Where a layer's entries begin in the model's arrays; they end where the next layer's begin. There are layers + 1 of
 * these. */
typedef struct gp_layer_range {
    size_t declaration, use, incoming;
    size_t state, moments;
    size_t outgoing; /* in ports */
} gp_layer_range;

struct gp_model {
    gp_type sample;
    gp_loss loss;
    bool finished;

    gp_layer **layers;
    size_t layer_count, layer_capacity;
    double *flops; /* per layer */

    gp_model_parameter_data *parameters;
    size_t parameter_count, parameter_capacity;
    gp_declaration *declarations;
    size_t declaration_count, declaration_capacity;
    gp_parameter_use *uses;
    size_t use_count, use_capacity;
    gp_model_state_data *states;
    size_t state_count, state_capacity;
    gp_moments *moments;
    size_t moment_count, moment_capacity;
    gp_skip *skips;
    size_t skip_count, skip_capacity;

    gp_port *ports;
    size_t port_count, port_capacity;
    gp_type *port_types[2]; /* what flows, with f32 and with bf16 activations; dimension 0 is the batch */
    size_t *incoming;       /* indices of ports, by destination */
    size_t *arrivals;       /* the inverse: by port, its place in `incoming` */
    gp_layer_range *ranges;

    gp_type output;   /* of one sample, f32 activations */
    bool aside;       /* the auxiliary output has targets of its own, one a sample, behind the others */
    char *bf16_error; /* why the model cannot be built with bf16 activations; NULL: it can */
};

/* Grows the array behind `array` for one more element. */
gp_status gp_model_reserve(void **array, size_t count, size_t *capacity, size_t bytes);
/* Types with and without the batch dimension. */
/* Index in gp_model.port_types. */
size_t gp_activation_index(gp_dtype dtype);
/* Walks through all layers for the first time: finds parameters, uses, skips, ports and their types (declare.c). */
gp_status gp_model_declare(gp_model *model);

/* Whether the loss fits the output (loss.c). */
gp_status gp_model_check_loss(const gp_model *model);
/* Appends the loss to the graph and fills targets, weights, loss of `built` (loss.c). */
gp_status gp_model_build_loss(const gp_model *model, const gp_build_options *options, gp_built *built);

#endif
