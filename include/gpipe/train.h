/* Training: plans, the trainer, evaluation, generation, run directories.
 *
 * A trainer owns the workers. Its functions are called by one thread at a time. After a failure (any status but GP_OK
 * of a step) only gp_trainer_destroy is useful. */
#ifndef GPIPE_TRAIN_H
#define GPIPE_TRAIN_H

#include "gpipe/cluster.h"
#include "gpipe/data.h"
#include "gpipe/device.h"
#include "gpipe/layer.h"
#include "gpipe/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how a model is laid over workers ---- */

typedef enum gp_balance { GP_BALANCE_TIME, GP_BALANCE_FLOPS, GP_BALANCE_PARAMETERS } gp_balance;

/* All zero is the default: one partition, one micro-batch, gpipe, except_last by stage, balanced by time, f32, one
 * thread. */
typedef struct gp_pipeline_options {
    size_t size;       /* sizeof, or 0 */
    int partitions;    /* K; 0: 1, or with a cluster as many as its workers and replicas leave */
    int micro_batches; /* M, of each replica; 0: 1 */
    int64_t batch;     /* samples of a mini-batch; 0: 1 */
    gp_schedule_kind schedule;
    const char *schedule_text; /* instead of `schedule`: the text form of one; NULL: none */
    gp_recompute recompute;
    bool recompute_by_layer; /* granularity: false stage, true layer */
    gp_balance balance;
    const size_t *stage_layers; /* layers of each stage (partitions entries), by hand; NULL: by `balance` */
    const double *cut_costs;    /* see gp_partition_options; NULL: none */
    gp_device_options device;   /* of every worker */
    gp_dtype precision;         /* GP_F32 or GP_BF16 */
    bool loss_weights;          /* mini-batches come with per-token weights */
    double report_after;        /* seconds before a wait is reported through the log; 0: 30 */
    uint64_t seed;              /* of initial parameters and of dropout */
    int replicas;               /* D, copies of the pipeline that share every mini-batch (data parallelism); 0: 1 */
    bool shard_optimizer; /* each replica keeps the optimizer state of its part of every parameter only (ZeRO stage
                             1, Rajbhandari et al., arXiv 1910.02054): the same bits with less memory */
    bool snapshot; /* room for a copy of weights and optimizer state, from which checkpoints are written while training
                      goes on */
    gp_cluster *cluster;  /* whose processes share the workers, all with the same options; NULL: all are threads here */
    int workers_per_rank; /* of the cluster; 0: 1, or all when there is one rank */
    /* Called before a layer (from 0) of so many is measured, and with layer = layers at the end; not for layers that
     * cost the same as one that was measured. By a thread of the library, while the caller waits. NULL: not called. */
    void (*measuring)(void *user, size_t layer, size_t layers, const char *kind);
    void *measuring_user;
    /* Workers that differ: `memory_limits` are bytes (0: none) in place of device.memory, `speeds` are relative to the
     * device that layers are measured on (1). Each list has an entry for every partition, or for every worker, replica
     * by replica; of the workers of a stage in all replicas the smallest and the slowest count. Without speeds, and
     * when time is balanced, those of a cluster's machines are measured. NULL: all workers are alike. */
    const size_t *memory_limits;
    size_t memory_limit_count;
    const double *speeds; /* 0.001 to 1000 */
    size_t speed_count;
} gp_pipeline_options;

typedef enum gp_optimizer_kind {
    GP_OPTIMIZER_ADAMW,
    GP_OPTIMIZER_ADAM,
    GP_OPTIMIZER_SGD,
    GP_OPTIMIZER_RMSPROP
} gp_optimizer_kind;
typedef enum gp_decay_kind {
    GP_LR_CONSTANT,
    GP_LR_LINEAR,      /* from lr to min_lr at the last step */
    GP_LR_COSINE,      /* Loshchilov & Hutter, arXiv 1608.03983, one half wave from lr to min_lr */
    GP_LR_STEP,        /* lr * gamma^floor((step - warmup) / every), not below min_lr */
    GP_LR_EXPONENTIAL, /* lr * gamma^((step - warmup) / every), not below min_lr */
    GP_LR_INVERSE_SQRT /* lr * sqrt(warmup / step) after the warm-up (Vaswani et al. 2017) */
} gp_decay_kind;

/* Learning rate over the steps: linear warm-up from 0 over `warmup` steps, then `kind`. */
typedef struct gp_lr_options {
    gp_decay_kind kind;
    int64_t warmup, every; /* every: 0 is 1 */
    double min_lr, gamma;  /* gamma: 0 is 0.1 */
} gp_lr_options;

/* Parameters whose names match a pattern, and how they are trained. A pattern is one of the shell (fnmatch(3); `*` also
 * stands for dots), or the beginning of names up to a dot ("layers.0" matches layers.0.weight and layers.0.bias), or
 * "head": all of the last layer that has parameters, as a rule the classifier; one that shares
 * parameters with another layer is refused. */
typedef struct gp_parameter_group {
    const char *pattern;
    bool frozen;      /* not updated; its gradient does not count in the norm */
    double lr_factor; /* of the learning rate; 0: 1 */
} gp_parameter_group;

/* All zero is the default: AdamW at a constant learning rate, no decay, no clipping. */
typedef struct gp_optimizer_options {
    size_t size; /* sizeof, or 0 */
    gp_optimizer_kind kind;
    double lr;           /* 0: 1e-3 (adam, adamw), 1e-2 (sgd, rmsprop) */
    double beta1, beta2; /* 0: 0.9, 0.999 (rmsprop, which has beta2 alone: 0.9) */
    double epsilon;      /* 0: 1e-8 */
    double weight_decay; /* not applied to biases, norms and other parameters of rank < 2 */
    double momentum;     /* of sgd and rmsprop */
    bool nesterov;       /* of sgd; needs momentum */
    double clip;         /* largest global norm of the gradient; 0: none */
    gp_lr_options schedule;
    /* rmsprop: false, the form of PyTorch, root of the second moment + epsilon; true, that of TensorFlow and of the
     * AmoebaNet paper: root of (second moment + epsilon), the second moment starts at 1. */
    bool epsilon_inside;
    /* An average of the weights is kept, average = decay * average + (1 - decay) * weight after each update, which is
     * what evaluations see. As TensorFlow's, decay grows: after n updates it is min(average, (1 + n) / (10 + n)). 0:
     * none.
     */
    double average;
    /* The learning rate of layer l of L is multiplied by layer_decay^(L - 1 - l) (Clark et al., arXiv 2003.10555); a
     * shared parameter counts where it is declared. 0: 1. */
    double layer_decay;
    /* The first group whose pattern matches counts, in addition to layer_decay. A pattern that no parameter matches is
     * an error. Copied while the trainer is created. */
    const gp_parameter_group *groups;
    size_t group_count;
} gp_optimizer_options;

/* The learning rate of step `step` (from 0) of `steps`: warm-up reaches lr at step `warmup`. Pure. */
GP_API double gp_learning_rate(const gp_lr_options *schedule, double lr, int64_t step, int64_t steps);

/* ---- plans ---- */

typedef struct gp_plan_bytes {
    size_t parameters, gradients, optimizer, stash, workspace, communication, total;
    size_t snapshot; /* the copy that checkpoints are written from; in the total where the device uses host memory */
} gp_plan_bytes;

typedef struct gp_plan_worker {
    size_t first_layer, last_layer;
    int64_t parameters;
    double seconds; /* predicted busy seconds of a step */
    gp_plan_bytes bytes;
    int replica, stage;
    int rank;      /* of the cluster; 0 */
    char host[64]; /* "" without a cluster */
    size_t limit;  /* bytes that it may use; 0: any number */
    double speed;  /* 1: as measured */
} gp_plan_worker;

typedef struct gp_plan {
    int64_t parameters;
    double bubble;         /* predicted idle share of the schedule with the stages' times */
    double bubble_formula; /* (K-1)/(M+K-1) */
    double step_seconds;   /* predicted; 0 when nothing was measured (balance by flops or parameters) */
    size_t limit;          /* the smallest of the workers, 0: none has one */
    bool fits;
    size_t worker_count; /* replicas x partitions, replica by replica */
    gp_plan_worker *workers;
    int replicas, partitions;
} gp_plan;

/* Partitions (measuring on a device when balanced by time) and plans, without allocating the model. `optimizer` may be
 * NULL. A plan over the limit is not an error: plan->fits is false. */
GP_API gp_status gp_plan_create(gp_plan **plan, const gp_model *model, const gp_pipeline_options *pipeline,
                                const gp_optimizer_options *optimizer);
GP_API void gp_plan_destroy(gp_plan *plan); /* accepts NULL */
/* As a table for people, or JSON; freed with gp_text_free. */
GP_API gp_status gp_plan_format(const gp_plan *plan, bool json, char **text);

/* ---- profiles ---- */

/* What a layer costs by itself, for the largest micro-batch. */
typedef struct gp_profile_layer {
    double forward, recompute, backward; /* seconds, medians; recompute: 0 when the mode is never */
    double flops;                        /* of forward and backward */
    int64_t parameters;                  /* declared by the layer */
} gp_profile_layer;

typedef struct gp_profile {
    int64_t micro_batch; /* samples */
    size_t layer_count;
    gp_profile_layer *layers;
} gp_profile;

/* Measures every layer alone, on a device as `pipeline` describes it (NULL: the defaults). Takes a few runs of each
 * layer. Errors as gp_plan_create. */
GP_API gp_status gp_profile_create(gp_profile **profile, const gp_model *model, const gp_pipeline_options *pipeline);
GP_API void gp_profile_destroy(gp_profile *profile); /* accepts NULL */

/* ---- the trainer ---- */

typedef struct gp_trainer gp_trainer;

/* Plans, allocates, starts the workers and initialises the parameters. `model` outlives the trainer. `optimizer` NULL:
 * a trainer that only evaluates and generates (no gradients, no optimizer state). `steps`: the length of training, for
 * the learning-rate schedule. Errors: GP_INVALID, GP_DOES_NOT_FIT (message with the table of what needs what). */
GP_API gp_status gp_trainer_create(gp_trainer **trainer, const gp_model *model, const gp_pipeline_options *pipeline,
                                   const gp_optimizer_options *optimizer, int64_t steps);
GP_API void gp_trainer_destroy(gp_trainer *trainer); /* accepts NULL */
GP_API const gp_plan *gp_trainer_plan(const gp_trainer *trainer);
GP_API int64_t gp_trainer_step_count(const gp_trainer *trainer); /* steps made so far */

typedef struct gp_step_metrics {
    int64_t step; /* 1 for the first */
    double loss;  /* mean over the mini-batch */
    double lr, gradient_norm /* before clipping */, seconds, bubble;
    int64_t examples, tokens; /* of this mini-batch; tokens: targets that count */
    bool finite;              /* false: no update was made; `fault` says where NaN or infinity began */
    const char *fault;
    double data_seconds; /* that a run waited for the mini-batch, before `seconds` began */
    const char *unit;    /* what the data of a run counts (gp_dataset_unit); NULL outside runs */
} gp_step_metrics;

/* One step on a mini-batch of host tensors, batch first (at most pipeline.batch samples). `weights` may be NULL or
 * without memory. A loss that is not finite is GP_OK with metrics->finite false. */
GP_API gp_status gp_trainer_step(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                                 const gp_tensor *weights, gp_step_metrics *metrics);
/* From here on evaluation, generation and saving see the average of the weights (true), which a trainer keeps when
 * optimizer.average is above 0, or the weights themselves (false, as after creation), which steps demand. Errors:
 * GP_INVALID without averages. gp_trainer_run evaluates the averages by itself. */
GP_API gp_status gp_trainer_show_averages(gp_trainer *trainer, bool averages);
/* Loss without dropout and gradients (at most pipeline.batch samples): adds the sum to *loss_sum and what it is divided
 * by for a mean (tokens that count, or samples) to *weight. */
GP_API gp_status gp_trainer_evaluate(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                                     const gp_tensor *weights, double *loss_sum, double *weight);
/* The last layer's output without dropout, for at most ceil(ceil(pipeline.batch / replicas) / M) samples. `outputs` is
 * the caller's, f32, of the output's shape with the samples in front. */
GP_API gp_status gp_trainer_forward(gp_trainer *trainer, const gp_tensor *inputs, gp_tensor *outputs);

/* What an evaluation of a split found. For a classifier (a model whose output is a number for each class and whose
 * target is a label) also how often it is right. */
typedef struct gp_evaluation {
    size_t size;        /* sizeof, or 0: set it before the call */
    double loss;        /* mean */
    double weight;      /* what the sum of the loss was divided by: tokens that count, or samples */
    int64_t classes;    /* of a classifier; else 0, as all that follows */
    int64_t samples;    /* with a label */
    int64_t top1, top5; /* samples whose label has the largest output, or one of the five largest */
    /* Set before the call, for a classifier: the caller's array of classes * classes counts, or NULL. Row: the label;
     * column: the prediction. Counts are added. */
    int64_t *confusion;
} gp_evaluation;

/* Classes that a model tells apart; 0: it is no classifier. */
GP_API int64_t gp_model_class_count(const gp_model *model);

/* Who follows evaluations of a split, those of gp_trainer_run too. Both functions are called in the calling thread
 * before each pass of a mini-batch through the network (data with views has a pass for each of them). */
typedef struct gp_evaluation_watch {
    size_t size;                                                  /* sizeof, or 0 */
    void (*on_progress)(void *user, int64_t done, int64_t count); /* passes made, and passes in all; may be NULL */
    /* true ends the evaluation with GP_INTERRUPTED, so that nobody waits for the end of a long one, and a run as if
     * on_step had returned false: the evaluation is then made when the run is resumed. In a cluster all processes give
     * it, or none does, and one that says true ends the evaluation of all. May be NULL. */
    bool (*should_stop)(void *user);
    void *user; /* must live until another watch, or NULL, is given */
} gp_evaluation_watch;

/* From now on; `watch` is copied; NULL: nobody follows any more. Not during an evaluation. Errors: GP_INVALID (see
 * gpipe/status.h). */
GP_API gp_status gp_trainer_watch_evaluations(gp_trainer *trainer, const gp_evaluation_watch *watch);

/* Evaluates a split of a data set (`most` > 0: at most that many windows of it), `evaluation` NULL: for nothing.
 * Errors: GP_INVALID for a split without a window. */
GP_API gp_status gp_trainer_evaluate_split(gp_trainer *trainer, const gp_dataset *dataset, gp_split split, int64_t most,
                                           gp_evaluation *evaluation);

typedef struct gp_generate_options {
    size_t size;        /* sizeof, or 0 */
    double temperature; /* 0: the likeliest token each time */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0: 1 (Holtzman et al., arXiv 1904.09751) */
    uint64_t seed;
} gp_generate_options;

/* Makes `count` tokens that follow the prompt (at least one token; of a longer one the last `context` are looked at).
 * Each is handed to `on_token` as soon as it is there; returning false stops, which is no error. The model takes
 * i32[context], gives logits [context, vocabulary] and is causal; NaN among them is GP_DIVERGED. `options` may be NULL:
 * the likeliest token each time. Errors: GP_INVALID (a prompt, model or option that is out of range), GP_OUT_OF_MEMORY.
 */
GP_API gp_status gp_trainer_generate(gp_trainer *trainer, const int32_t *prompt, int64_t prompt_count, int64_t count,
                                     const gp_generate_options *options, bool (*on_token)(void *user, int32_t token),
                                     void *user);

/* Parameters and states (moving averages) as one safetensors file (f32, plain layout, full names, no trace of the
 * partitioning), and back. Loading demands every one with its shape; the message names what is missing. */
GP_API gp_status gp_trainer_save(gp_trainer *trainer, const char *path);
GP_API gp_status gp_trainer_load(gp_trainer *trainer, const char *path);
/* The same but for the parameters and states whose names match one of `count` patterns (see gp_parameter_group): they
 * stay as they are. A pattern that matches none is GP_INVALID. */
GP_API gp_status gp_trainer_load_except(gp_trainer *trainer, const char *path, const char *const *patterns,
                                        size_t count);
/* Writes a checkpoint (gpipe/checkpoint.h) into <run>/checkpoints/step-N, N being the steps made, and waits until it is
 * on the disk. Older ones stay. Errors: GP_INVALID for a trainer without optimizer; GP_IO, also when the disk is full.
 */
GP_API gp_status gp_trainer_save_checkpoint(gp_trainer *trainer, const char *run);
/* Goes on from a checkpoint: weights, optimizer state and counters become those of `path`, a folder step-N, or a run
 * directory, whose newest whole checkpoint is taken (those that are damaged are passed over with a warning). Further
 * steps give the bits of a training that never stopped, whatever partitions, schedule or recomputation either trainer
 * has. Errors: GP_INVALID naming file and tensor when something is missing or damaged or of another model, optimizer or
 * seed; the trainer can resume from another checkpoint then, and nothing else. */
GP_API gp_status gp_trainer_resume(gp_trainer *trainer, const char *path);
/* One mini-batch's "inputs", "targets", "loss", "parameters.<name>", "gradients.<name>" as safetensors; no update. */
GP_API gp_status gp_trainer_save_gradients(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                                           const gp_tensor *weights, const char *path);

/* What the workers measured over the steps so far, worker by worker. */
typedef struct gp_worker_report {
    size_t bytes;                                      /* high-water mark of the device */
    double forward, recompute, backward, update, wait; /* seconds, mean over the steps (without the first) */
    double bubble;                                     /* idle share, mean */
    double reduce;        /* seconds in the sum of gradients over replicas, beside the others; mean */
    double exposed;       /* the part of `wait` in which nothing else was left to do than that sum; mean */
    double bytes_reduced; /* a step */
    double communication; /* the part of `wait` in which a message was awaited that had been sent already; mean */
    double blocked;       /* the part of `wait` in which all slots for what was to be sent were taken; mean */
} gp_worker_report;

/* What went one way between two workers, a step: activations to a later stage, or gradients back. Means over the steps
 * (without the first). */
typedef struct gp_link_report {
    size_t size;    /* sizeof, or 0: set it before the call */
    int from, to;   /* workers of the plan */
    bool gradients; /* false: activations */
    double messages, bytes;
    double transfer; /* seconds from sending to arrival, summed over the messages (which may overlap); within a process
                        messages are there at once */
    double exposed;  /* seconds in which the receiver, with nothing else to do, awaited a message that had been sent */
} gp_link_report;

/* reports: one entry per worker of the plan. bubble and step_seconds (may be NULL): means over the steps. */
GP_API gp_status gp_trainer_report(const gp_trainer *trainer, gp_worker_report *reports, double *bubble,
                                   double *step_seconds);
/* The links between workers, which are known after the second step. Errors: GP_INVALID for a number that is too large.
 */
GP_API size_t gp_trainer_link_count(const gp_trainer *trainer);
GP_API gp_status gp_trainer_link(const gp_trainer *trainer, size_t number, gp_link_report *report);
/* Plan and measurement side by side: a table for people, or JSON (report.json); freed with gp_text_free. */
GP_API gp_status gp_trainer_report_format(const gp_trainer *trainer, bool json, char **text);
/* The last step's actions in the Chrome trace event format. */
GP_API gp_status gp_trainer_trace(const gp_trainer *trainer, const char *path);

/* ---- a whole run ---- */

typedef struct gp_run_options {
    size_t size;              /* sizeof, or 0 */
    int64_t steps;            /* in all, those that the trainer has made included; 0: 1000 */
    int64_t eval_every;       /* 0: only at the end */
    int64_t eval_windows;     /* at most that many windows in the evaluations on the way; 0: the whole split */
    const char *out;          /* run directory, exists; NULL: nothing is written */
    int64_t checkpoint_every; /* a checkpoint is also written every so many steps; 0: only at the end */
    int64_t keep;             /* newest checkpoints kept, besides the best; 0: 2 */
    bool trace;               /* writes <out>/trace.json: the actions of the last step */
    bool skip_not_finite;     /* true: skip the update; false: stop with GP_DIVERGED */
    uint64_t seed;            /* of the data */
    /* Called after each step, in the calling thread; validation: of an evaluation after this step, NULL: there was
     * none. May be NULL. Returns false to finish early: a checkpoint is written, the run ends with GP_INTERRUPTED. */
    bool (*on_step)(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation);
    void *user;
    int64_t keep_every;   /* checkpoints of steps that this number divides stay; 0: none */
    bool forget_best;     /* true: no checkpoint for a new best validation loss */
    uint64_t shard_bytes; /* tensor bytes of a file of a checkpoint; 0: 5 GB */
    int64_t patience;     /* the run ends early, with GP_OK, when the validation loss was not better than the best in
                             the last `patience` evaluations every eval_every steps; 0: never */
    const char *configuration; /* a text for everything that must be the same when the run is resumed: its hash is kept
                                  in checkpoints and compared; NULL: nothing is compared */
} gp_run_options;

/* Whether a run on this data, with this `configuration` (as in gp_run_options), may go on from what gp_trainer_resume
 * has read; also when nothing was resumed. gp_trainer_run checks it too. Errors: GP_INVALID saying what differs. */
GP_API gp_status gp_trainer_check_resumed(const gp_trainer *trainer, const gp_dataset *dataset,
                                          const char *configuration);

/* Trains on mini-batches of pipeline.batch samples of a data set: evaluates, writes <out>/metrics.jsonl,
 * <out>/report.json and checkpoints <out>/checkpoints/step-N with the links latest and best. Those on the way are
 * written while training goes on when pipeline.snapshot made room for the copy; failing to write one is a warning, and
 * an error only at the end. After gp_trainer_resume the run goes on: metrics.jsonl keeps the lines up to its step.
 * validation (may be NULL): the last evaluation; its loss is NaN when there was none. `options` may be NULL. */
GP_API gp_status gp_trainer_run(gp_trainer *trainer, const gp_dataset *dataset, const gp_run_options *options,
                                gp_evaluation *validation);

#ifdef __cplusplus
}
#endif
#endif
