/* The engine: workers that run a schedule over their stages. Workers form a grid of D replicas x K stages: worker r * K
 * + s holds stage s of replica r. A replica takes its share of the samples of every mini-batch; gradients are summed
 * over the replicas of a stage in their order, so every replica makes the same update.
 *
 * The planner (plan.c) computes everything about memory
 * without allocating; gp_engine_create allocates what the plan says and starts the workers; a step then allocates
 * nothing.
 *
 * The functions of an engine are called by one thread at a time (the driver); the workers are threads of their own. */
#ifndef GP_PIPELINE_ENGINE_H
#define GP_PIPELINE_ENGINE_H

#include "device/device.h"
#include "gpipe/cluster.h"
#include "gpipe/data.h"
#include "gpipe/pipeline.h"
#include "layers/model.h"

typedef enum gp_granularity { GP_GRANULARITY_STAGE, GP_GRANULARITY_LAYER } gp_granularity;

typedef struct gp_engine_options {
    const gp_model *model; /* finished; outlives the engine */
    size_t stages;
    const size_t *bounds; /* stages + 1, as gp_partition gives them; NULL: by parameters */
    int replicas;         /* copies of the pipeline; 0: 1 */
    bool shard_optimizer; /* each replica keeps the optimizer state of its pieces of the parameters only */
    int64_t batch;        /* samples of the largest mini-batch; at least one for each replica */
    int micro_batches;    /* of each replica; larger than its share of the batch: as many as it has samples */
    gp_schedule_kind schedule;
    const gp_schedule *custom; /* instead of `schedule`: as read from a file; copied */
    gp_recompute recompute;
    gp_granularity granularity;
    gp_dtype precision;       /* GP_F32 (0) or GP_BF16 */
    gp_device_options device; /* of each worker */
    const size_t *limits;     /* bytes of each worker in place of device.memory, 0: none; copied; NULL: all are alike */
    bool inference;           /* no gradients, no optimizer state */
    bool predictions;         /* evaluations also tell what a classifier says; see gp_engine_prediction */
    bool loss_weights;        /* batches have per-token weights */
    gp_update_kind optimizer; /* for the number of moment arrays */
    double momentum;
    bool average; /* an average of the weights is kept beside them (gp_step_options.average_decay) */
    const double
        *lr_factors; /* of each parameter of the model, copied; 0: frozen, its gradient counts nowhere; NULL: all 1 */
    double report_after; /* seconds, see world.h */
    bool snapshot;       /* room for a copy of what is kept, for saving in the background (save.h) */
    uint64_t seed;       /* of dropout */
    gp_cluster *cluster; /* whose ranks share the workers, every process with the same options; NULL: all are here */
    int64_t steps;       /* of the whole training: rates that are scheduled over it grow with step / steps; 0: they
                            stay at their beginning */
    /* See gp_pipeline_options; NULL: none. */
    void (*measuring)(void *user, size_t layer, size_t layers, const char *kind);
    void *measuring_user;
} gp_engine_options;

/* Bytes of a worker by kind. */
typedef struct gp_worker_bytes {
    size_t parameters; /* and the forms that kernels want them in; states with the moments that they follow */
    size_t gradients, optimizer, stash, workspace, communication;
    size_t snapshot; /* the copy that is saved in the background; host memory */
    size_t total;    /* what counts against the device's limit */
} gp_worker_bytes;

typedef struct gp_worker_plan {
    int replica, stage;
    int32_t first_layer, last_layer;
    int64_t parameters; /* elements that this worker holds (a tied one counts at each holder) */
    double flops_forward, flops_recompute, flops_backward; /* of one full-size micro-batch */
    gp_worker_bytes bytes;
    double machine_memory; /* bytes of the machine that it is on; 0: not known */
} gp_worker_plan;

typedef struct gp_engine_plan {
    size_t workers; /* replicas x stages */
    gp_worker_plan *worker;
} gp_engine_plan;

/* Plans without allocating device memory. Does not enforce device.memory. */
gp_status gp_engine_plan_create(gp_engine_plan *plan, const gp_engine_options *options);
void gp_engine_plan_destroy(gp_engine_plan *plan);

typedef struct gp_engine gp_engine;

/* Plans, checks the schedule and the memory limits (GP_DOES_NOT_FIT, with the table of what needs what in the message),
 * allocates, starts the workers. Parameters are zero until gp_engine_initialise or gp_engine_write. */
gp_status gp_engine_create(gp_engine **engine, const gp_engine_options *options);
void gp_engine_destroy(gp_engine *engine);                        /* accepts NULL; also after a failure */
const gp_engine_plan *gp_engine_planned(const gp_engine *engine); /* owned by the engine */

gp_status gp_engine_initialise(gp_engine *engine, uint64_t seed);
/* Parameters and gradients by the model's parameter index; host f32 memory, plain. A tied one is written to every
 * holder. */
gp_status gp_engine_write_parameter(gp_engine *engine, size_t parameter, const float *values);
gp_status gp_engine_read_parameter(gp_engine *engine, size_t parameter, float *values);
/* Valid after gp_engine_gradients until the next step, gradients, evaluation or forward (reading and writing parameters
 * leaves them): the gradient of the mean loss, summed over uses, not clipped. */
gp_status gp_engine_read_gradient(gp_engine *engine, size_t parameter, float *values);

/* States (moving averages) by the model's state index; host f32 memory, plain. Initialised with the parameters. Written
 * by nothing but gp_engine_write_state and a step that made its update. */
gp_status gp_engine_write_state(gp_engine *engine, size_t state, const float *values);
gp_status gp_engine_read_state(gp_engine *engine, size_t state, float *values);

/* From here on evaluation, forward and reading of parameters see the average of the weights (true) or the weights
 * themselves (false, as after creation). Steps, gradients and writing demand false. */
gp_status gp_engine_show_averages(gp_engine *engine, bool averages);

typedef struct gp_step_options {
    uint32_t step;
    gp_update update;    /* gradient_scale is filled by the engine (clipping); lr etc. by the caller */
    double weight_decay; /* for parameters that decay; update.weight_decay is ignored */
    double clip;         /* largest global norm; 0: none */
    /* After the update, average = average_decay * average + (1 - average_decay) * weight (Polyak & Juditsky 1992),
     * where the engine keeps averages; initial values and written ones are averages of themselves. */
    double average_decay;
} gp_step_options;

/* A worker's time in a step. */
typedef struct gp_worker_times {
    double forward, recompute, backward, update, wait; /* seconds; wait = span - the others */
    double reduce;  /* of the sum over replicas, made beside the others; waits for the other replicas included */
    double exposed; /* the part of the wait in which there was nothing left but that sum */
    double bytes_reduced;
    double communication; /* the part of the wait in which a message was awaited that had been sent already */
    double blocked;       /* the part in which a message was ready to be written, but all slots were taken */
} gp_worker_times;

/* What went one way between two workers in a step: activations, or gradients of them. */
typedef struct gp_link_times {
    int from, to; /* workers */
    bool gradients;
    double messages, bytes;
    double transfer; /* seconds from sending to arrival, summed over the messages; 0 within a process */
    double exposed;  /* seconds in which the receiver awaited one that had been sent */
} gp_link_times;

typedef struct gp_step_result {
    double loss; /* mean over the mini-batch's weight */
    double weight;
    double gradient_norm; /* before clipping */
    double seconds;       /* of the whole step */
    double span;          /* from the first action to the end of the last backward of any worker */
    double bubble;        /* 1 - busy / (workers * span), over forward, recompute and backward */
    bool finite;          /* false: loss or gradients are NaN or infinite; no update was made; `fault` says where */
    char fault[256];
    const gp_worker_times *workers; /* owned by the engine, until the next step */
    const gp_link_times *links;     /* the same: of all links, by receiver; every step has the same ones */
    size_t link_count;
} gp_step_result;

/* Links of all workers, at most. */
size_t gp_engine_most_links(const gp_engine *engine);

/* The samples of a mini-batch of `samples` whose inputs the workers of this process read: a process without a first
 * stage reads none (count 0), and its batches need no memory for inputs. Targets and weights must be there for all. */
void gp_engine_inputs_read(const gp_engine *engine, int64_t samples, int64_t *first, int64_t *count);

/* One optimizer step. Any batch up to options.batch; M shrinks with it, replicas may go
 * without samples. Errors: the first worker's, its message says
 * stage, micro-batch and layer; afterwards the engine can only be destroyed. A loss that is not finite is no error
 * (result->finite). */
gp_status gp_engine_step(gp_engine *engine, const gp_batch *batch, const gp_step_options *options,
                         gp_step_result *result);
/* The same without the update: gradients stay for gp_engine_read_gradient. */
gp_status gp_engine_gradients(gp_engine *engine, const gp_batch *batch, uint32_t step, gp_step_result *result);
/* Sum of the loss and its weight, without dropout and gradients. Any batch up to options.batch. */
gp_status gp_engine_evaluate(gp_engine *engine, const gp_batch *batch, double *loss, double *weight);
/* Another view of the samples of the last evaluation: predictions are by the sum of the outputs for all views. */
gp_status gp_engine_evaluate_view(gp_engine *engine, const gp_batch *batch, double *loss, double *weight);

/* Classes of a model whose output is a number for each of them, f32[classes], and whose target is a label, i32 or
 * i32[n] of which the first counts; else 0. */
int64_t gp_model_classes(const gp_model *model);

typedef struct gp_prediction {
    int32_t label;     /* -1: none that counts */
    int32_t predicted; /* the class with the largest output */
    int32_t rank;      /* of the label: so many classes come before it */
} gp_prediction;

/* Of a sample of the last evaluation, which was of at least so many samples; NULL for an engine without predictions. */
const gp_prediction *gp_engine_prediction(const gp_engine *engine, int64_t sample);
/* The last layer's output for `inputs` (host, batch first; batch at most a micro-batch's size) -> host f32 `outputs`.
 */
gp_status gp_engine_forward(gp_engine *engine, const gp_tensor *inputs, gp_tensor *outputs);

/* ---- processes: nothing to do when all workers are in one ---- */

/* Collective: every process says how something ended that it did by itself (this thread's message tells why), and
 * whether it wants something (`any` may be NULL). All get the first failure, or whether any process wants it. */
gp_status gp_engine_agree(gp_engine *engine, gp_status status, bool says, bool *any);
/* Not collective: this process cannot go on, and the others, who may be in the middle of a step, must hear of it.
 * Returns the failure that all report. GP_OK: nothing happens. */
gp_status gp_engine_fail(gp_engine *engine, gp_status status);
/* Collective: traces of all workers, for gp_engine_trace; they stay until the next call. */
gp_status gp_engine_gather_traces(gp_engine *engine);

/* One computation of the last step (or gradients, evaluation), in seconds since that command began. */
typedef struct gp_trace_entry {
    gp_action action;
    double start, end;
} gp_trace_entry;

/* The last command's computations of a worker in the order in which they ran; owned by the engine, until the next
 * command. Gaps are waits. NULL and 0 for a worker that is not there, or in
 * another process whose traces were not gathered. Gathered ones are on the world's clock instead. */
const gp_trace_entry *gp_engine_trace(const gp_engine *engine, size_t worker, size_t *count);

/* Measured high-water mark of a worker's device memory. */
size_t gp_engine_high_water(const gp_engine *engine, size_t worker);

/* Seconds of forward, recompute, backward of each layer alone for one micro-batch, on a device made by
 * `options->device`: median of a few runs. times[layer]; seconds 0 for recompute when the mode is never. */
gp_status gp_engine_profile(const gp_engine_options *options, gp_stage_times *times);

#endif
