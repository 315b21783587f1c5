/* The end of a step: gradients of shared parameters are added up in the order of their uses (and then, by the reducer,
 * over replicas), the global norm is summed in the order of parameters, gradients are clipped and every parameter is
 * updated. Nothing here depends on where the
 * cuts are: every holder of a shared parameter gets the same sum and makes the same update. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

/* ---- shared parameters ---- */

enum { LOCAL_SOURCES = 64 };

static size_t element_bytes(const gp_worker *worker) {
    return worker->device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
}

/* Counts its own time: the sum over holders waits for the others in between. */
static void sum_on_device(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
    gp_worker *worker = user;
    double begun = gp_seconds();
    worker->device->class->ordered_sum(worker->device, destination, sources, source_count, count);
    worker->times.update += gp_seconds() - begun;
}

/* Adds the further uses to the first, in order; in portions, which changes nothing about the order. */
static void sum_local(gp_worker *worker, const gp_stage_parameter *parameter) {
    void *sum = gp_stage_accumulator(worker->stage, parameter, 0);
    for (size_t use = 1; use <= parameter->extra_count;) {
        const void *sources[LOCAL_SOURCES] = {sum};
        int count = 1;
        while (count < LOCAL_SOURCES && use <= parameter->extra_count)
            sources[count++] = gp_stage_accumulator(worker->stage, parameter, use++);
        sum_on_device(worker, sum, sources, count, parameter->elements);
    }
}

/* The group of a shared parameter's holders in this replica; members is scratch of holder_count numbers. */
static gp_group_options describe_holders(const gp_worker *worker, const gp_stage_parameter *parameter, int *members) {
    int first = (int)(worker->replica * worker->engine->options.stages);
    for (int i = 0; i < parameter->holder_count; i++)
        members[i] = first + parameter->holders[i];
    int64_t most = gp_bucket_piece_elements(parameter->holder_count),
            all = gp_piece_of(parameter->elements, 0, 1).count;
    return (gp_group_options){.members = members,
                              .member_count = parameter->holder_count,
                              .tag = GP_TAG_SHARED + (int)parameter->parameter,
                              .lane = GP_LANE_COMPUTE,
                              .contributions = parameter->use_count,
                              .piece_bytes = (size_t)(all < most ? all : most) * element_bytes(worker)};
}

static int most_holders(const gp_stage *stage) {
    int most = 1;
    for (size_t p = 0; p < stage->parameter_count; p++)
        if (stage->parameters[p].holder_count > most) most = stage->parameters[p].holder_count;
    return most;
}

gp_status gp_worker_plan_sums(gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    int *members = gp_allocate_array((size_t)most_holders(stage), sizeof *members);
    if (!members) return GP_OUT_OF_MEMORY;
    worker->sum_bytes = 0;
    for (size_t p = 0; p < stage->parameter_count && !stage->options.inference; p++) {
        if (stage->parameters[p].holder_count < 2) continue;
        gp_group_options options = describe_holders(worker, &stage->parameters[p], members);
        size_t bytes = gp_align(gp_group_staging_bytes(worker->engine->world, worker->number, &options));
        if (bytes > worker->sum_bytes) worker->sum_bytes = bytes; /* one after the other */
    }
    gp_free(members);
    return GP_OK;
}

gp_status gp_worker_open_sums(gp_worker *worker, void *staging) {
    const gp_stage *stage = worker->stage;
    int most = most_holders(stage);
    int *members = gp_allocate_array((size_t)most, sizeof *members);
    worker->pieces = gp_allocate_array((size_t)most, sizeof *worker->pieces);
    worker->shared = gp_allocate_array(stage->parameter_count, sizeof(gp_group *));
    gp_status status = members && worker->pieces && worker->shared ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t p = 0; status == GP_OK && p < stage->parameter_count && !stage->options.inference; p++) {
        if (stage->parameters[p].holder_count < 2) continue;
        gp_group_options options = describe_holders(worker, &stage->parameters[p], members);
        options.staging = staging;
        status = gp_group_open(worker->engine->world, worker->number, &options, &worker->shared[p]);
    }
    gp_free(members);
    return status;
}

/* In portions of as much as each holder's staging takes. */
static gp_status sum_over_holders(gp_worker *worker, size_t index) {
    const gp_stage_parameter *parameter = &worker->stage->parameters[index];
    int holders = parameter->holder_count;
    size_t uses = parameter->extra_count + 1;
    int64_t portion = gp_bucket_piece_elements(holders) * holders;
    for (size_t use = 0; use < uses; use++)
        worker->contributions[use] = gp_stage_accumulator(worker->stage, parameter, use);
    gp_group_sum_part part = {.contributions = worker->contributions,
                              .contribution_count = (int)uses,
                              .destination = worker->contributions[0],
                              .pieces = worker->pieces,
                              .element = element_bytes(worker),
                              .sum = sum_on_device,
                              .user = worker};
    for (int64_t at = 0; at < parameter->elements; at += portion) {
        int64_t left = parameter->elements - at;
        for (int i = 0; i < holders; i++) {
            worker->pieces[i] = gp_piece_of(left < portion ? left : portion, i, holders);
            worker->pieces[i].first += at;
        }
        GP_TRY(gp_group_sum(worker->shared[index], &part));
    }
    return GP_OK;
}

/* In the order of the model's parameters, which is the same at all holders. */
static gp_status sum_shared(gp_worker *worker) {
    for (size_t p = 0; p < worker->stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &worker->stage->parameters[p];
        if (parameter->holder_count > 1) {
            GP_TRY(sum_over_holders(worker, p));
        } else if (parameter->extra_count > 0) {
            sum_local(worker, parameter);
        }
    }
    return GP_OK;
}

/* ---- loss and norm ---- */

/* The sum over the pieces of a parameter: each replica adds the squares of its own. */
static double sum_squares(gp_worker *worker, const gp_stage_parameter *parameter) {
    gp_piece piece = gp_parameter_piece(parameter->elements, (int)worker->replica, worker->engine->options.replicas);
    const char *gradient = gp_stage_accumulator(worker->stage, parameter, 0);
    if (piece.count < 1 || parameter->lr_factor <= 0) return 0; /* 0: frozen */
    double squares = worker->device->class->sum_squares(
        worker->device, gradient + (size_t)piece.first * element_bytes(worker), piece.count);
    if (!isfinite(squares) && worker->not_finite_parameter == SIZE_MAX)
        worker->not_finite_parameter = parameter->parameter;
    return squares;
}

/* Adds up what all workers gave: first stage by stage (owners hold ascending runs of the model's parameters, so that
 * this goes through the parameters), and for each parameter replica by replica. */
static double add_gathered(const gp_worker *worker, size_t entries) {
    const gp_engine *engine = worker->engine;
    size_t stages = engine->options.stages;
    double sum = 0;
    for (size_t s = 0; s < stages; s++)
        for (size_t i = 1; i < entries; i++)
            for (size_t r = 0; r < (size_t)engine->options.replicas; r++)
                sum += worker->gathered[(r * stages + s) * entries + i];
    return sum;
}

/* The loss of the last stages, replica by replica; `entries` numbers were gathered from each worker, the loss first. */
static double add_losses(const gp_worker *worker, size_t entries) {
    size_t stages = worker->engine->options.stages;
    double sum = 0;
    for (size_t r = 0; r < (size_t)worker->engine->options.replicas; r++)
        sum += worker->gathered[(r * stages + stages - 1) * entries];
    return sum;
}

gp_status gp_worker_gather_loss(gp_worker *worker) {
    GP_TRY(gp_world_all_gather(worker->engine->world, worker->number, &worker->loss, sizeof(double), worker->gathered));
    worker->loss = add_losses(worker, 1);
    return GP_OK;
}

/* Gathers the loss and the sums of squares of all parameters, each once from its owner's stage. */
static gp_status gather_norm(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    const gp_stage *stage = worker->stage;
    size_t entries = engine->owned_most + 1, owned = 1;
    double begun = gp_seconds();
    memset(worker->mine, 0, entries * sizeof(double));
    worker->mine[0] = worker->loss;
    for (size_t p = 0; p < stage->parameter_count; p++)
        if (stage->parameters[p].owner == worker->index)
            worker->mine[owned++] = sum_squares(worker, &stage->parameters[p]);
    worker->times.update += gp_seconds() - begun;
    GP_TRY(
        gp_world_all_gather(engine->world, worker->number, worker->mine, entries * sizeof(double), worker->gathered));
    worker->loss = add_losses(worker, entries);
    worker->norm = sqrt(add_gathered(worker, entries));
    worker->finite = isfinite(worker->loss) && isfinite(worker->norm);
    return GP_OK;
}

/* ---- the end of a step ---- */

/* As PyTorch's clip_grad_norm_. */
static double clip_scale(double clip, double norm) {
    double scale = clip > 0 ? clip / (norm + 1e-6) : 1;
    return scale < 1 ? scale : 1;
}

/* What this worker updates of a bucket: its piece, or all when the bucket is not cut. The other pieces' gradients,
 * which nobody updates here, are zeroed. */
static void update_bucket(gp_worker *worker, const gp_bucket *bucket, const gp_update *update, double weight_decay) {
    gp_stage *stage = worker->stage;
    size_t element = element_bytes(worker);
    for (size_t p = bucket->first_parameter; p < bucket->end_parameter; p++) {
        const gp_stage_parameter *parameter = &stage->parameters[p];
        gp_piece piece = {0, parameter->elements};
        if (bucket->cut) {
            piece = bucket->pieces[worker->replica];
            piece.first -= (int64_t)(parameter->offset / element);
        }
        gp_stage_update_piece(stage, p, piece.first, piece.count, update, weight_decay);
    }
    for (size_t r = 0; bucket->cut && r < (size_t)worker->engine->options.replicas; r++) {
        gp_piece piece = bucket->pieces[r];
        char *gradients = (char *)stage->gradients + (size_t)piece.first * element;
        if (r != worker->replica && piece.count > 0)
            worker->device->class->zero(worker->device, gradients, (size_t)piece.count * element);
    }
}

/* Every replica updates its pieces and shares them out. */
static gp_status update_pieces(gp_worker *worker, const gp_update *update, double weight_decay) {
    const gp_buckets *buckets = &worker->reducer.buckets;
    for (size_t b = 0; b < buckets->count; b++) {
        update_bucket(worker, &buckets->list[b], update, weight_decay);
        GP_TRY(worker->device->class->wait(worker->device));
        gp_reducer_updated(&worker->reducer, b + 1);
    }
    gp_stage_zero_further(worker->stage);
    double begun = gp_seconds();
    GP_TRY(gp_reducer_await_shares(&worker->reducer));
    worker->times.exposed += gp_seconds() - begun;
    GP_TRY(gp_stage_pack(worker->stage, SIZE_MAX));
    return worker->device->class->wait(worker->device);
}

static gp_status update(gp_worker *worker) {
    const gp_step_options *options = worker->engine->command.options;
    gp_update update = options->update;
    update.gradient_scale = clip_scale(options->clip, worker->norm);
    gp_world_doing(worker->engine->world, worker->number, "the update");
    double begun = gp_seconds(), exposed = worker->times.exposed;
    gp_status status = worker->reducer.group && worker->stage->options.shard_optimizer
                           ? update_pieces(worker, &update, options->weight_decay)
                           : gp_stage_update(worker->stage, &update, options->weight_decay);
    if (status == GP_OK && worker->stage->options.average)
        gp_stage_update_averages(worker->stage, options->average_decay);
    worker->times.update += gp_seconds() - begun - (worker->times.exposed - exposed);
    return status;
}

static gp_status update_states(gp_worker *worker) {
    GP_TRY(gp_worker_merge_states(worker));
    double begun = gp_seconds();
    gp_stage_update_states(worker->stage);
    worker->times.update += gp_seconds() - begun;
    return GP_OK;
}

/* Every worker has seen that something is not finite: the step is run again looking for where it began. */
static gp_status diagnose(gp_worker *worker) {
    gp_worker_times times = worker->times;
    double last_backward = worker->last_backward;
    gp_reducer_updated(&worker->reducer, worker->reducer.buckets.count); /* shares out what all have */
    gp_reducer_settle(&worker->reducer);
    GP_TRY(gp_worker_train(worker, true));
    worker->times = times; /* of the step itself */
    worker->last_backward = last_backward;
    gp_stage_zero_gradients(worker->stage);
    return GP_OK;
}

/* What is left of the sum over replicas when the worker has nothing else to do. */
static gp_status await_reduction(gp_worker *worker) {
    double begun = gp_seconds();
    gp_reducer_ready(&worker->reducer, true);
    GP_TRY(gp_reducer_await_sums(&worker->reducer));
    if (worker->reducer.group) worker->times.exposed += gp_seconds() - begun;
    return GP_OK;
}

gp_status gp_worker_finish(gp_worker *worker) {
    const gp_command *command = &worker->engine->command;
    gp_world_doing(worker->engine->world, worker->number, "the sum of gradients");
    GP_TRY(sum_shared(worker));
    GP_TRY(await_reduction(worker));
    GP_TRY(gather_norm(worker));
    if (!worker->finite) return diagnose(worker);
    if (command->kind != GP_COMMAND_STEP) return GP_OK;
    GP_TRY(update_states(worker));
    return update(worker);
}
