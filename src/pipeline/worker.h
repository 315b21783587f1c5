/* Inside the room: the engine's inside. The driver (the thread that calls gp_engine_ functions) fills in a command and
 * posts it; every worker runs it on its stage and reports; the driver goes on when all have.
 *
 * Who writes what: the command and everything of the engine is the driver's while no command runs and read-only while
 * one does; a worker's struct is its own while a command runs and the driver's otherwise. */
#ifndef GP_PIPELINE_WORKER_H
#define GP_PIPELINE_WORKER_H

#include "base/thread.h"
#include "pipeline/agenda.h"
#include "pipeline/engine.h"
#include "pipeline/reducer.h"
#include "pipeline/slots.h"
#include "pipeline/stage.h"
#include "pipeline/worker_save.h"
#include "world/cluster.h"
#include "world/world.h"

typedef enum gp_command_kind {
    GP_COMMAND_PLAN,     /* creates device and stage, compiles */
    GP_COMMAND_ALLOCATE, /* allocates what was planned, opens links */
    GP_COMMAND_INITIALISE,
    GP_COMMAND_WRITE,
    GP_COMMAND_READ,
    GP_COMMAND_READ_GRADIENT,
    GP_COMMAND_WRITE_STATE,
    GP_COMMAND_READ_STATE,
    GP_COMMAND_SHOW, /* averages or weights, by `averages` */
    GP_COMMAND_STEP,
    GP_COMMAND_GRADIENTS,
    GP_COMMAND_EVALUATE,
    GP_COMMAND_FORWARD,
    GP_COMMAND_LOAD,
    GP_COMMAND_SAVE,
    GP_COMMAND_SAVE_POLL,
    GP_COMMAND_POISON,
    GP_COMMAND_LEAVE
} gp_command_kind;

typedef struct gp_command {
    gp_command_kind kind;
    double begun; /* seconds */
    /* mini-batches */
    const gp_batch *batch;
    double weight;
    uint32_t step;
    bool zero_first; /* accumulators are not zero */
    bool again;      /* another view of the samples of the last evaluation */
    const gp_step_options *options;
    gp_tensor *outputs;
    /* parameters */
    uint64_t seed;
    size_t parameter; /* or state */
    const float *source;
    float *destination;
    const gp_checkpoint *checkpoint; /* to load; or */
    const gp_shards *weights;
    bool averages;
} gp_command;

/* What a replica takes of the mini-batch of a command. */
typedef struct gp_share {
    int64_t first_sample, samples;
    int micro_batches;
    int64_t *sizes, *first_samples; /* of the micro-batches; first samples count from the mini-batch's */
    const gp_agenda *agenda;        /* NULL: no samples, or a command without gradients */
} gp_share;

/* Tags: what goes forward and what comes back between two workers; groups. */
enum { GP_TAG_FORWARD, GP_TAG_GRADIENT, GP_TAG_REPLICAS, GP_TAG_STATES, GP_TAG_SHARED };

/* The first NaN or infinity that a worker has seen. */
typedef struct gp_worker_fault {
    bool found;
    int micro_batch;
    bool backward;
    int32_t layer; /* -1: the model's input */
    const char *op;
} gp_worker_fault;

/* A micro-batch between its forward and its backward. */
typedef struct gp_flight {
    bool recomputed;
    int slot; /* of the pool that `recomputed` says */
    void *stash;
    const gp_stage_size *size;
} gp_flight;

typedef struct gp_worker {
    struct gp_engine *engine;
    int number;     /* in the world */
    size_t index;   /* of its stage */
    size_t replica; /* its share of a mini-batch is engine->shares[replica] */
    gp_thread *thread;
    gp_device *device;
    gp_stage *stage;

    /* planned */
    int recomputed_slots, kept_slots;
    int *forward_slots;  /* of the link from each peer before */
    int *gradient_slots; /* of the link from each peer after; 0: none */
    gp_worker_bytes bytes;

    /* allocated */
    void *stash, *communication, *scalars;
    size_t stash_bytes, communication_bytes, scalars_bytes;
    /* staging of sums over replicas, over holders, memory for merging states: behind the links' slots */
    size_t reduce_bytes, sum_bytes, merge_bytes;
    gp_reducer reducer;
    bool completing; /* the last backward is running */
    gp_group *merge_group;
    void *merge_slots;        /* merged moments, per replica */
    gp_piece *replica_pieces; /* scratch: per replica */
    gp_group **shared;        /* per parameter of the stage: its holders in this replica; NULL: one holder */
    gp_slots recomputed, kept;
    gp_link **forward_in, **gradient_out; /* per peer before */
    gp_link **forward_out, **gradient_in; /* per peer after */
    int *gradient_held;                   /* per peer after: slot being read */
    gp_flight *flights;                   /* per micro-batch */
    void **arrived;                       /* [micro-batch * peers before + peer]: message */
    int *arrived_slot;
    void **regions;
    size_t region_count;
    double *mine, *gathered; /* what goes through gp_world_all_gather */
    float *losses;           /* per micro-batch, on the host */
    void **contributions;    /* scratch: accumulators of one parameter */
    gp_piece *pieces;        /* scratch: of one parameter's holders */
    void *host;              /* scratch of the last stage's output */
    size_t host_bytes;
    /* with gp_engine_options.predictions: of this worker's samples; of all workers, as many each; of last stages, the
     * outputs for this worker's samples, summed over views, and one micro-batch's */
    gp_prediction *predicted, *predictions;
    float *logits, *view;

    /* results of the last command */
    double loss, norm;
    bool finite;
    size_t not_finite_parameter; /* SIZE_MAX: none */
    gp_worker_fault fault;
    gp_worker_times times;
    gp_link_times *links; /* that this worker receives from */
    size_t link_count;
    double first_action, last_backward; /* seconds on the clock */
    gp_trace_entry *trace;
    size_t trace_count, trace_capacity;

    gp_worker_save save;
} gp_worker;

/* What the processes of a world tell each other about their workers: when planning, after a step, when something was
 * not finite. */
typedef struct gp_worker_row {
    gp_worker_times times;
    double first_action, last_backward; /* on the world's clock */
    size_t high_water;
    struct {
        bool found, backward;
        int micro_batch;
        int32_t layer;
        char op[32]; /* "": none */
        size_t not_finite_parameter;
    } fault;
    size_t link_count;
    gp_link_times links[]; /* engine->links_most */
} gp_worker_row;

typedef struct gp_trace_row {
    gp_trace_entry *entries;
    size_t count;
} gp_trace_row;

struct gp_engine {
    gp_engine_options options; /* resolved: bounds and custom are the engine's own */
    size_t *bounds;
    size_t *limits; /* as options.limits; NULL */
    gp_schedule *custom;
    gp_world *world;
    gp_worker *workers; /* of this process */
    size_t count;       /* of them */
    size_t first;       /* number of the first */
    size_t total;       /* replicas x stages */
    size_t started;     /* threads */
    gp_engine_plan plan;
    gp_agenda *agendas;
    gp_share *shares;  /* per replica */
    int64_t *numbers;  /* memory of the shares' arrays */
    size_t owned_most; /* parameters owned by one worker, at most */
    size_t links_most; /* links into one worker, at most */
    char *rows;        /* gp_worker_row per worker of the world, row_bytes each */
    size_t row_bytes;
    gp_worker_times *times; /* the same */
    gp_link_times *links;   /* links_most for each */
    gp_trace_row *traces;   /* the same, of all processes; NULL: not gathered */
    bool dirty;             /* accumulators hold gradients */
    gp_kept kept;           /* what checkpoints hold */
    gp_save *save;          /* the last one; NULL: none */
    bool shows_averages;

    gp_command command;
    gp_event posted;   /* counts commands */
    gp_event finished; /* counts commands that all workers have run */
    _Atomic size_t unfinished;
};

/* engine_create.c */
/* Everything up to and including the plan. */
gp_status gp_engine_begin(gp_engine **engine, const gp_engine_options *options);

/* engine.c */
/* Posts the command and waits for all workers. Errors: the first worker's failure, as this thread's message. */
gp_status gp_engine_post(gp_engine *engine);
/* The failure behind GP_ABORTED; other statuses as they are. */
gp_status gp_engine_checked(const gp_engine *engine, gp_status status);
/* engine_result.c */
gp_status gp_engine_allocate_rows(gp_engine *engine); /* links_most is known */
gp_worker_row *gp_engine_row(const gp_engine *engine, size_t worker);
/* engine_together.c */
void gp_engine_free_traces(gp_engine *engine);
/* engine_result.c: fills in the result of a step that all workers have made. */
gp_status gp_engine_gather_result(gp_engine *engine, gp_step_result *result);
/* Fills all memory whose contents nothing may rely on between steps (workspace, stash, links) with NaN: for tests. */
gp_status gp_engine_poison(gp_engine *engine);
/* Samples of the largest share of a mini-batch. */
int64_t gp_engine_largest_share(const gp_engine *engine, int64_t samples);
/* Splits samples over the first `replicas` replicas, each share over micro-batches. */
void gp_engine_share_out(gp_engine *engine, int64_t samples, int replicas, int most_micro_batches);
/* The agenda of a step of M micro-batches, created when first asked for. */
gp_status gp_engine_find_agenda(gp_engine *engine, int micro_batches, const gp_agenda **agenda);

/* plan.c */
/* From prepared stages to bytes: slots of stash and links, sums by kind. */
gp_status gp_engine_plan_memory(gp_engine *engine);
/* Bytes that a worker may use; 0: any number. */
size_t gp_engine_limit(const gp_engine *engine, size_t worker);
/* GP_DOES_NOT_FIT with the table of what needs what when a worker is over device.memory. */
gp_status gp_engine_check_limit(const gp_engine *engine);
size_t gp_worker_loss_bytes(const gp_worker *worker); /* of a loss cell */

/* worker.c */
void gp_worker_main(void *worker);
void gp_worker_destroy(gp_worker *worker); /* its thread has ended */

/* worker_memory.c */
gp_status gp_worker_prepare(gp_worker *worker);
gp_status gp_worker_allocate(gp_worker *worker);
const gp_share *gp_worker_share(const gp_worker *worker);
/* Bytes of a slot for messages from or to another stage; of staging memory for those that leave the process. */
size_t gp_worker_slot_bytes(const gp_worker *worker, size_t stage, size_t message_bytes);
size_t gp_worker_staging_bytes(const gp_worker *worker);
/* Regions that are the same for a whole command. */
gp_status gp_worker_bind(gp_worker *worker);
void gp_worker_poison(gp_worker *worker);
void gp_worker_release(gp_worker *worker);

/* worker_links.c: the links that this worker receives from; what they carried since the last call becomes that of the
 * step. */
gp_status gp_worker_list_links(gp_worker *worker);
void gp_worker_take_links(gp_worker *worker);

/* worker_run.c */
/* Runs the worker's list; with `check` looking for NaN and infinity. */
gp_status gp_worker_train(gp_worker *worker, bool check);
gp_status gp_worker_evaluate(gp_worker *worker);
gp_status gp_worker_forward(gp_worker *worker);
bool gp_worker_fault_is_earlier(const gp_worker_fault *a, const gp_worker_fault *b);

/* reducer.c: opens a group of the workers of this stage in all replicas. */
gp_status gp_worker_open_replicas(gp_worker *worker, int tag, gp_lane lane, size_t piece_bytes, void *staging,
                                  gp_group **group);

/* worker_states.c: planned, opened, and before states make their step. */
size_t gp_worker_merge_bytes(const gp_worker *worker);
gp_status gp_worker_open_merge(gp_worker *worker, void *memory);
gp_status gp_worker_merge_states(gp_worker *worker);

/* worker_update.c */
/* Staging of the sums of shared parameters: plans worker->sum_bytes, opens the groups. */
gp_status gp_worker_plan_sums(gp_worker *worker);
gp_status gp_worker_open_sums(gp_worker *worker, void *staging);
/* The loss of an evaluation, over all replicas. */
gp_status gp_worker_gather_loss(gp_worker *worker);
/* The model's output of a micro-batch of so many samples as it lies behind the workspace; the last stage's. */
gp_status gp_worker_download_output(gp_worker *worker, int64_t samples, float *to);

/* worker_predict.c: all nothing without gp_engine_options.predictions */
gp_status gp_worker_allocate_predictions(gp_worker *worker);
void gp_worker_release_predictions(gp_worker *worker);
/* Looks at the output of a micro-batch that was just evaluated; the last stage's. */
gp_status gp_worker_predict(gp_worker *worker, int micro_batch);
gp_status gp_worker_gather_predictions(gp_worker *worker);
/* After the last backward: sums of shared parameters, norm; clipping and update when the command is a step. */
gp_status gp_worker_finish(gp_worker *worker);

#endif
