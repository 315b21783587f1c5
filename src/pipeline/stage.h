/* Inside the room: a stage, a worker's run of layers as compiled programs and the memory that they work in.
 *
 * For every micro-batch size that occurs (at most two in a step) the graph of the layers is built and sliced:
 *
 *   forward, recomputed   arriving -> leaving, loss; keeps the reduced stash, from which everything can be computed
 * again forward, kept         the same, and keeps every value that backward reads backward, recomputed  reduced stash
 * -> (segment 0) what backward reads -> (segment 1) gradients backward, kept        kept stash -> gradients evaluate
 * arriving -> leaving, loss, without dropout output                arriving -> leaving or the model's output
 *
 * Recomputation is nothing but the choice of what is available. A stage knows nothing of threads, links or schedules:
 * who runs it binds the regions and runs the programs.
 *
 * Life: create, prepare (compiles; needs no device memory), read the plan, allocate, prepare again for sizes that
 * nobody foresaw (this may allocate). */
#ifndef GP_PIPELINE_STAGE_H
#define GP_PIPELINE_STAGE_H

#include "pipeline/engine.h"
#include "program/program.h"

typedef enum gp_stage_program {
    GP_STAGE_FORWARD_RECOMPUTED,
    GP_STAGE_FORWARD_KEPT,
    GP_STAGE_BACKWARD_RECOMPUTED,
    GP_STAGE_BACKWARD_KEPT,
    GP_STAGE_EVALUATE,
    GP_STAGE_OUTPUT,
    GP_STAGE_PROGRAMS
} gp_stage_program;

/* Regions of every program of a stage. From GP_REGION_PEERS on: one for each peer's forward message and gradient (see
 * gp_stage_peer), then one for each block of forms that was allocated late. */
enum {
    GP_REGION_WEIGHTS = GP_REGION_WORKSPACE + 1,
    GP_REGION_GRADIENTS,
    GP_REGION_FORMS,
    GP_REGION_STATES,
    GP_REGION_STATISTICS,    /* moments of the micro-batch */
    GP_REGION_STASH,         /* slot of the micro-batch */
    GP_REGION_LOSS,          /* cell of the micro-batch */
    GP_REGION_LOSS_GRADIENT, /* 1 / weight of the mini-batch */
    GP_REGION_OUTPUT,        /* of the model; behind the workspace of the output program */
    GP_REGION_PEERS
};

/* Another stage with which values are exchanged: all ports between the two travel as one message, each at an offset
 * that both sides compute alike from the ports' types. */
typedef struct gp_stage_peer {
    size_t stage;
    const size_t *ports; /* indices in gp_model_ports, ascending */
    size_t port_count;
    bool gradients;       /* some port has a gradient: a message goes the other way in backward */
    int forward_region;   /* of the message from (or to) the peer */
    int gradient_region;  /* of the gradient to (or from) the peer */
    size_t forward_bytes; /* largest message so far prepared for, a multiple of 64 */
    size_t gradient_bytes;
} gp_stage_peer;

/* A parameter that the stage holds. Weights, gradients and moments lie in one array each, at the same offsets. */
typedef struct gp_stage_parameter {
    size_t parameter; /* index for gp_model_parameter */
    gp_type type;
    int64_t elements;
    size_t offset;
    bool no_decay;
    double lr_factor;   /* 0: frozen */
    size_t owner;       /* first stage that holds it */
    size_t first_extra; /* accumulators of its further uses: stage->extra[first_extra ..] */
    size_t extra_count;
    const int *holders; /* stages that hold it, ascending */
    int holder_count;
    int use_count;                /* in all layers */
    int64_t own_first, own_count; /* elements that this replica updates: all, unless optimizer state is sharded */
    size_t moment_offset;         /* in each array of moments, of the first of these */
} gp_stage_parameter;

/* A state that the stage holds. */
typedef struct gp_stage_state {
    gp_type type;
    size_t offset;
} gp_stage_state;

/* Two states that follow moments of the mini-batch. */
typedef struct gp_stage_statistic {
    size_t offset; /* in each block of statistics */
    int64_t elements;
    size_t mean, variance; /* offsets of the states */
    double decay;
} gp_stage_statistic;

typedef enum gp_statistic_block {
    GP_MICRO_BATCH_MEANS,
    GP_MICRO_BATCH_VARIANCES,
    GP_MERGED_MEANS, /* of all micro-batches of the step so far */
    GP_MERGED_VARIANCES
} gp_statistic_block;

/* A form in which some kernel wants a parameter. */
typedef struct gp_stage_form {
    size_t parameter; /* index in stage->parameters */
    gp_form form;
    int region;
    size_t offset;
} gp_stage_form;

/* Bytes without a value, written as zeros: the gradient of an arriving value on which the loss does not depend. */
typedef struct gp_stage_gap {
    int region;
    size_t offset, bytes;
} gp_stage_gap;

typedef struct gp_stage_value {
    gp_type type;
    size_t offset;
    bool there;
} gp_stage_value;

/* Programs and layouts for one micro-batch size. */
typedef struct gp_stage_size {
    int64_t samples;
    gp_program *programs[GP_STAGE_PROGRAMS]; /* NULL: not prepared, or nothing to compute */
    bool prepared[GP_STAGE_PROGRAMS];
    gp_stage_value inputs, targets, weights; /* host tensors to upload into the stash slot */
    gp_stage_value output;                   /* of the last stage */
    gp_stage_gap *gaps;
    size_t gap_count;
    double flops_forward, flops_recompute, flops_backward;
} gp_stage_size;

typedef struct gp_stage_options {
    const gp_model *model;
    gp_device *device; /* borrowed */
    const size_t *bounds;
    size_t stages, index;
    gp_dtype precision;
    gp_granularity granularity;
    bool inference, loss_weights, predictions;
    int moments; /* arrays that the optimizer keeps */
    int replicas, replica;
    bool average;             /* an average of the weights is kept */
    const double *lr_factors; /* see gp_engine_options */
    bool shard_optimizer;     /* each replica keeps optimizer state for its pieces of the parameters only */
} gp_stage_options;

/* Bytes of one piece of each kind; the largest over everything that has been prepared. */
typedef struct gp_stage_bytes {
    size_t weights, averages, forms, gradients, moments; /* moments: all arrays */
    size_t states, statistics;                           /* statistics: four blocks of the same size */
    size_t base;                                         /* of a stash slot: model input, targets, weights */
    size_t recomputed, kept;                             /* stash slots, with the base */
    size_t workspace;                                    /* with the output behind it */
    size_t output_offset, output; /* in the workspace: where the model's output lies, and its bytes */
} gp_stage_bytes;

typedef struct gp_stage {
    gp_stage_options options;
    int32_t first_layer, last_layer;
    bool is_first, is_last;
    gp_stage_peer *before, *after; /* ascending stages */
    size_t before_count, after_count;
    gp_stage_parameter *parameters; /* ascending by the model's index */
    size_t parameter_count;
    size_t *extra; /* offsets in the gradients of accumulators beyond a parameter's first */
    size_t extra_count;
    size_t *use_offsets; /* of each use of the stage, in the order of gp_built.uses */
    size_t use_count;
    gp_stage_state *states; /* those of the model from first_state on */
    size_t first_state, state_count;
    gp_stage_statistic *statistics; /* those of the model from first_statistic on; none for inference */
    size_t first_statistic, statistic_count;
    int64_t samples_merged; /* in the merged blocks of statistics */
    gp_stage_size **sizes;
    size_t size_count;
    gp_stage_form *forms;
    size_t form_count, form_capacity;
    gp_stage_bytes bytes;

    /* After gp_stage_allocate. */
    bool allocated;
    void *weights, *averages, *gradients, *moments, *packed, *workspace;
    void *shown; /* what programs read as weights: the weights or their average */
    void *state_memory, *statistic_memory;
    size_t workspace_bytes, packed_bytes;
    struct gp_stage_block {
        void *memory;
        size_t bytes;
    } * late; /* blocks of forms that were not foreseen */
    size_t late_count, late_bytes /* of the block being laid out */;
    size_t *ports; /* memory of all peers' ports */
    int *holders;  /* memory of all parameters' holders */
} gp_stage;

/* Rounds up to what placements are aligned to. */
static inline size_t gp_align(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Bytes of a value on the stage's device, aligned. */
size_t gp_stage_value_bytes(const gp_stage *stage, gp_type type);

gp_status gp_stage_create(gp_stage **stage, const gp_stage_options *options);
void gp_stage_destroy(gp_stage *stage); /* accepts NULL, half-built ones; releases device memory */

/* Number of regions; grows when forms are allocated late. */
size_t gp_stage_regions(const gp_stage *stage);

/* Compiles what is wanted (bit per gp_stage_program) for a size and is not there yet. Called before gp_stage_allocate
 * it adds to the plan; later it allocates what the plan lacks (GP_DOES_NOT_FIT). Errors name layer and operation. */
gp_status gp_stage_prepare(gp_stage *stage, int64_t samples, uint32_t programs);
/* The prepared size, or NULL. */
const gp_stage_size *gp_stage_find_size(const gp_stage *stage, int64_t samples);

/* Allocates weights, forms, gradients, moments and workspace as planned. */
gp_status gp_stage_allocate(gp_stage *stage);
/* Fills in the regions that are the same in every run. */
void gp_stage_bind(const gp_stage *stage, void **regions);

/* ---- stage_parameters.c: called by the worker's thread, after gp_stage_allocate ---- */

/* Index in stage->parameters of the model's parameter; SIZE_MAX when the stage does not hold it. */
size_t gp_stage_find_parameter(const gp_stage *stage, size_t parameter);
gp_status gp_stage_initialise(gp_stage *stage, uint64_t seed);
gp_status gp_stage_write(gp_stage *stage, size_t index, const float *values);
void gp_stage_read(const gp_stage *stage, size_t index, float *values);
void gp_stage_read_gradient(const gp_stage *stage, size_t index, float *values);
/* Packs the forms of one parameter, or of all (SIZE_MAX). */
gp_status gp_stage_pack(gp_stage *stage, size_t index);
void gp_stage_zero_gradients(gp_stage *stage);
void gp_stage_zero_further(gp_stage *stage); /* those beyond each parameter's first */
/* Where use number `use` (0: the first) of a parameter in this stage accumulates. */
void *gp_stage_accumulator(const gp_stage *stage, const gp_stage_parameter *parameter, size_t use);
/* Updates every parameter that is not frozen, zeroes all accumulators, packs all forms. */
gp_status gp_stage_update(gp_stage *stage, const gp_update *update, double weight_decay);
/* Updates elements of one parameter that are among its own ones, and zeroes their gradients. */
void gp_stage_update_piece(gp_stage *stage, size_t index, int64_t first, int64_t count, const gp_update *update,
                           double weight_decay);
/* Moves the averages towards the weights; see gp_step_options. */
void gp_stage_update_averages(gp_stage *stage, double decay);
/* Programs, reading and forms are of the averages or of the weights. */
gp_status gp_stage_show_averages(gp_stage *stage, bool averages);
/* Array number `which` of the moments: where the parameter's own elements have theirs; NULL when there is no such
 * array.
 */
void *gp_stage_moment(const gp_stage *stage, const gp_stage_parameter *parameter, int which);

/* ---- stage_states.c ---- */

/* Fills the tables of states and statistics and their part of the plan. */
gp_status gp_stage_list_states(gp_stage *stage);

/* By the worker's thread, after gp_stage_allocate. A state is a number for gp_model_state; it is read and written only
 * where it is held. */
bool gp_stage_holds_state(const gp_stage *stage, size_t state);
gp_status gp_stage_initialise_states(gp_stage *stage, uint64_t seed);
void gp_stage_write_state(gp_stage *stage, size_t state, const float *values);
void gp_stage_read_state(const gp_stage *stage, size_t state, float *values);

/* Of a mini-batch: none yet; those of the micro-batch that forward has just run are merged with those before; every
 * state that follows moments makes its step. */
void gp_stage_begin_statistics(gp_stage *stage);
void gp_stage_merge_statistics(gp_stage *stage, int64_t samples);
void gp_stage_update_states(gp_stage *stage);
/* One block, bytes.statistics / 4 long. */
void *gp_stage_statistic_block(const gp_stage *stage, gp_statistic_block block);

/* ---- stage_compile.c ---- */

/* Builds the graph that the program is a slice of and compiles what is wanted for the size. */
gp_status gp_stage_compile(gp_stage *stage, gp_stage_size *size, uint32_t programs);

#endif
