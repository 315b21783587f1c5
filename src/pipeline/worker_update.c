/* The end of a step: gradients of shared parameters are added up in the order of their uses, the global norm is summed
 * in the order of parameters, gradients are clipped and every parameter is updated. Nothing here depends on where the
 * cuts are: every holder of a shared parameter gets the same sum and makes the same update. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "pipeline/worker.h"

/* ---- shared parameters ---- */

enum { LOCAL_SOURCES = 64 };

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

static gp_status sum_over_holders(gp_worker *worker, const gp_stage_parameter *parameter) {
    size_t uses = parameter->extra_count + 1;
    void **contributions = worker->contributions;
    for (size_t use = 0; use < uses; use++)
        contributions[use] = gp_stage_accumulator(worker->stage, parameter, use);
    gp_ordered_sum part = {.members = parameter->holders,
                           .member_count = parameter->holder_count,
                           .contributions = contributions,
                           .contribution_count = (int)uses,
                           .destination = contributions[0],
                           .count = parameter->elements,
                           .element = worker->device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}}),
                           .sum = sum_on_device,
                           .user = worker};
    return gp_world_ordered_sum(worker->engine->world, (int)worker->index, &part);
}

/* In the order of the model's parameters, which is the same at all holders. */
static gp_status sum_shared(gp_worker *worker) {
    for (size_t p = 0; p < worker->stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &worker->stage->parameters[p];
        if (parameter->holder_count > 1) {
            GP_TRY(sum_over_holders(worker, parameter));
        } else if (parameter->extra_count > 0) {
            sum_local(worker, parameter);
        }
    }
    return GP_OK;
}

/* ---- loss and norm ---- */

/* Gathers the loss and the sums of squares of all parameters, each once from its owner. Owners hold ascending runs of
 * the model's parameters, so that going through the workers goes through the parameters. */
static gp_status gather_norm(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    const gp_stage *stage = worker->stage;
    gp_device *device = worker->device;
    size_t entries = engine->owned_most + 1, owned = 1;
    double begun = gp_seconds();
    memset(worker->mine, 0, entries * sizeof(double));
    worker->mine[0] = worker->loss;
    for (size_t p = 0; p < stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &stage->parameters[p];
        if (parameter->owner != worker->index) continue;
        const void *gradient = gp_stage_accumulator(stage, parameter, 0);
        double squares = device->class->sum_squares(device, gradient, parameter->elements);
        if (!isfinite(squares) && worker->not_finite_parameter == SIZE_MAX)
            worker->not_finite_parameter = parameter->parameter;
        worker->mine[owned++] = squares;
    }
    worker->times.update += gp_seconds() - begun;
    GP_TRY(gp_world_all_gather(engine->world, (int)worker->index, worker->mine, entries * sizeof(double),
                               worker->gathered));
    double sum = 0;
    for (size_t w = 0; w < engine->options.stages; w++)
        for (size_t i = 1; i < entries; i++)
            sum += worker->gathered[w * entries + i];
    worker->loss = worker->gathered[(engine->options.stages - 1) * entries];
    worker->norm = sqrt(sum);
    worker->finite = isfinite(worker->loss) && isfinite(worker->norm);
    return GP_OK;
}

/* ---- the end of a step ---- */

/* As PyTorch's clip_grad_norm_. */
static double clip_scale(double clip, double norm) {
    double scale = clip > 0 ? clip / (norm + 1e-6) : 1;
    return scale < 1 ? scale : 1;
}

static gp_status update(gp_worker *worker) {
    const gp_step_options *options = worker->engine->command.options;
    gp_update update = options->update;
    update.gradient_scale = clip_scale(options->clip, worker->norm);
    gp_world_doing(worker->engine->world, (int)worker->index, "the update");
    return gp_stage_update(worker->stage, &update, options->weight_decay);
}

/* The moments of this worker's samples, merged over its micro-batches, are final here (gp_stage_statistic_block,
 * gp_stage.samples_merged): whoever shares the mini-batch with other workers merges theirs into these first, in an
 * order that is the same for all, with the device's merge_moments. */
static void update_states(gp_worker *worker) {
    gp_stage_update_states(worker->stage);
}

/* Every worker has seen that something is not finite: the step is run again looking for where it began. */
static gp_status diagnose(gp_worker *worker) {
    gp_worker_times times = worker->times;
    double last_backward = worker->last_backward;
    GP_TRY(gp_worker_train(worker, true));
    worker->times = times; /* of the step itself */
    worker->last_backward = last_backward;
    gp_stage_zero_gradients(worker->stage);
    return GP_OK;
}

gp_status gp_worker_finish(gp_worker *worker) {
    const gp_command *command = &worker->engine->command;
    gp_worker_times *times = &worker->times;
    gp_world_doing(worker->engine->world, (int)worker->index, "the sum of gradients");
    GP_TRY(sum_shared(worker));
    GP_TRY(gather_norm(worker));
    if (!worker->finite) return diagnose(worker);
    if (command->kind != GP_COMMAND_STEP) return GP_OK;
    double begun = gp_seconds();
    update_states(worker);
    GP_TRY(update(worker));
    times->update += gp_seconds() - begun;
    return GP_OK;
}
