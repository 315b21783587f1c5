/* Making an engine: options are checked and completed, workers are started and plan, the memory is checked, then
 * allocated. gp_engine_plan_create stops half-way. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"
#include "pipeline/schedule.h"
#include "pipeline/worker.h"

/* ---- options ---- */

enum { GP_MOST_WORKERS = 1 << 20 };

static gp_status check_options(const gp_engine_options *options) {
    size_t layers = gp_model_layer_count(options->model);
    if (options->stages < 1 || options->stages > layers)
        return gp_error(GP_INVALID, "%zu stage%s for a model of %zu layer%s: 1 to %zu are possible", options->stages,
                        gp_plural((int64_t)options->stages, "s"), layers, gp_plural((int64_t)layers, "s"), layers);
    if (options->batch < 1) return gp_error(GP_INVALID, "a mini-batch of %lld samples", (long long)options->batch);
    if (options->replicas < 0 || options->replicas > options->batch)
        return gp_error(GP_INVALID, "%d replicas share a mini-batch of %lld: 1 to %lld are possible", options->replicas,
                        (long long)options->batch, (long long)options->batch);
    if (options->replicas > GP_MOST_WORKERS || options->stages * (size_t)(options->replicas + 1) > GP_MOST_WORKERS)
        return gp_error(GP_INVALID, "%d replicas of %zu stages: at most %d workers are possible", options->replicas,
                        options->stages, GP_MOST_WORKERS);
    if (options->micro_batches < 1)
        return gp_error(GP_INVALID, "%d micro-batches: at least 1 is needed", options->micro_batches);
    if (options->micro_batches > GP_SCHEDULE_MOST_MICRO_BATCHES)
        return gp_error(GP_INVALID, "%d micro-batches: at most %d are possible", options->micro_batches,
                        GP_SCHEDULE_MOST_MICRO_BATCHES);
    if (options->precision != GP_F32 && options->precision != GP_BF16)
        return gp_error(GP_INVALID, "precision %s: f32 and bf16 are possible", gp_dtype_name(options->precision));
    for (size_t s = 0; options->bounds && s < options->stages; s++)
        if (options->bounds[s] >= options->bounds[s + 1]) return gp_error(GP_INVALID, "stage %zu has no layer", s);
    if (options->bounds && (options->bounds[0] != 0 || options->bounds[options->stages] != layers))
        return gp_error(GP_INVALID, "the stages hold layers %zu to %zu of a model of %zu layer%s", options->bounds[0],
                        options->bounds[options->stages], layers, gp_plural((int64_t)layers, "s"));
    return GP_OK;
}

static gp_status partition_by_parameters(const gp_engine *engine, size_t *bounds) {
    const gp_model *model = engine->options.model;
    size_t layers = gp_model_layer_count(model);
    double *costs = gp_allocate_array(layers, sizeof *costs);
    if (!costs) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < layers; i++)
        costs[i] = (double)gp_model_layer_parameter_count(model, i);
    gp_status status = gp_partition(costs, layers, engine->options.stages, NULL, bounds);
    gp_free(costs);
    return status;
}

static gp_status copy_schedule(const gp_schedule *schedule, gp_schedule **copy) {
    size_t total = schedule->first[schedule->stages];
    *copy = gp_schedule_allocate(schedule->stages, schedule->micro_batches, total);
    if (!*copy) return GP_OUT_OF_MEMORY;
    memcpy((*copy)->first, schedule->first, ((size_t)schedule->stages + 1) * sizeof *schedule->first);
    memcpy((*copy)->actions, schedule->actions, total * sizeof *schedule->actions);
    return GP_OK;
}

static gp_status copy_limits(gp_engine *engine, const size_t *limits) {
    size_t workers = engine->options.stages * (size_t)engine->options.replicas;
    if (!limits) return GP_OK;
    engine->limits = gp_allocate_array(workers, sizeof *engine->limits);
    if (!engine->limits) return GP_OUT_OF_MEMORY;
    memcpy(engine->limits, limits, workers * sizeof *limits);
    engine->options.limits = engine->limits;
    return GP_OK;
}

/* Copies the options with everything that they point to but the model. */
static gp_status resolve(gp_engine *engine, const gp_engine_options *options) {
    GP_TRY(check_options(options));
    engine->options = *options;
    if (options->replicas == 0) engine->options.replicas = 1;
    int64_t share = gp_engine_largest_share(engine, options->batch);
    if (options->micro_batches > share) engine->options.micro_batches = (int)share;
    engine->bounds = gp_allocate_array(options->stages + 1, sizeof *engine->bounds);
    if (!engine->bounds) return GP_OUT_OF_MEMORY;
    if (options->bounds) {
        memcpy(engine->bounds, options->bounds, (options->stages + 1) * sizeof *engine->bounds);
    } else {
        GP_TRY(partition_by_parameters(engine, engine->bounds));
    }
    engine->options.bounds = engine->bounds;
    GP_TRY(copy_limits(engine, options->limits));
    if (options->device.threads < 1) engine->options.device.threads = 1;
    if (!options->custom) return GP_OK;
    gp_status status = copy_schedule(options->custom, &engine->custom);
    engine->options.custom = engine->custom;
    return status;
}

/* ---- workers ---- */

static gp_status start_workers(gp_engine *engine) {
    size_t stages = engine->options.stages;
    int cores = engine->options.device.threads;
    int first_core = 0;
    gp_world_options world = {.report_after = engine->options.report_after, .threads = cores};
    if (engine->options.cluster) {
        GP_TRY(gp_world_create_cluster(&engine->world, engine->options.cluster, (int)engine->total, &world));
        first_core = gp_cluster_first_core(engine->options.cluster) * cores * gp_world_local_workers(engine->world);
    } else {
        GP_TRY(gp_world_create_threads(&engine->world, (int)engine->total, &world));
    }
    engine->first = (size_t)gp_world_first_local(engine->world);
    engine->count = (size_t)gp_world_local_workers(engine->world);
    engine->workers = gp_allocate_array(engine->count, sizeof *engine->workers);
    if (!engine->workers) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < engine->count; w++) {
        engine->workers[w].engine = engine;
        engine->workers[w].number = (int)(engine->first + w);
        engine->workers[w].index = (engine->first + w) % stages;
        engine->workers[w].replica = (engine->first + w) / stages;
    }
    for (; engine->started < engine->count; engine->started++) {
        gp_worker *worker = &engine->workers[engine->started];
        GP_TRY(gp_thread_create(&worker->thread, gp_worker_main, worker, first_core + (int)engine->started * cores,
                                cores));
    }
    return GP_OK;
}

static gp_status allocate_shares(gp_engine *engine) {
    size_t replicas = (size_t)engine->options.replicas, micro_batches = (size_t)engine->options.micro_batches;
    engine->shares = gp_allocate_array(replicas, sizeof *engine->shares);
    engine->numbers = gp_allocate_array(2 * replicas * micro_batches, sizeof *engine->numbers);
    if (!engine->shares || !engine->numbers) return GP_OUT_OF_MEMORY;
    for (size_t r = 0; r < replicas; r++) {
        engine->shares[r].sizes = engine->numbers + 2 * r * micro_batches;
        engine->shares[r].first_samples = engine->shares[r].sizes + micro_batches;
    }
    return GP_OK;
}

/* Only a schedule from a file can have another order than the micro-batches'. */
static void warn_of_order(const gp_engine *engine) {
    const gp_schedule *schedule = engine->agendas->schedule;
    const gp_moments *moments;
    if (!gp_schedule_backward_in_order(schedule))
        gp_log(GP_LOG_WARNING, "the schedule runs backward passes in another order than the micro-batches': its "
                               "results differ from other schedules' by rounding");
    if (gp_model_moments(engine->options.model, &moments) > 0 && !gp_schedule_forward_in_order(schedule))
        gp_log(GP_LOG_WARNING, "the schedule runs forward passes in another order than the micro-batches': moving "
                               "averages differ from other schedules' by rounding");
}

static gp_status begin(gp_engine *engine, const gp_engine_options *options) {
    GP_TRY(resolve(engine, options));
    engine->total = engine->options.stages * (size_t)engine->options.replicas;
    GP_TRY(allocate_shares(engine));
    gp_engine_share_out(engine, engine->options.batch, engine->options.replicas, engine->options.micro_batches);
    if (!engine->options.inference) {
        for (int r = 0; r < engine->options.replicas; r++)
            GP_TRY(gp_engine_find_agenda(engine, engine->shares[r].micro_batches, &engine->shares[r].agenda));
        warn_of_order(engine);
    }
    GP_TRY(start_workers(engine));
    engine->command = (gp_command){.kind = GP_COMMAND_PLAN};
    GP_TRY(gp_engine_post(engine));
    GP_TRY(gp_kept_create(&engine->kept, &engine->options, engine->workers[0].device->class->stored));
    return gp_engine_plan_memory(engine);
}

gp_status gp_engine_begin(gp_engine **engine, const gp_engine_options *options) {
    *engine = NULL;
    gp_engine *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = begin(made, options);
    if (status != GP_OK) {
        gp_engine_destroy(made);
        return status;
    }
    *engine = made;
    return GP_OK;
}

gp_status gp_engine_create(gp_engine **engine, const gp_engine_options *options) {
    gp_engine *made;
    *engine = NULL;
    GP_TRY(gp_engine_begin(&made, options));
    gp_status status = gp_engine_check_limit(made);
    if (status == GP_OK) {
        made->command = (gp_command){.kind = GP_COMMAND_ALLOCATE};
        status = gp_engine_post(made);
    }
    if (status != GP_OK) {
        gp_engine_destroy(made);
        return status;
    }
    *engine = made;
    return GP_OK;
}

/* ---- the end ---- */

static void end_workers(gp_engine *engine) {
    engine->command = (gp_command){.kind = GP_COMMAND_LEAVE};
    atomic_store(&engine->unfinished, SIZE_MAX); /* nobody waits for this one: threads are joined */
    gp_event_signal(&engine->posted);
    for (size_t w = 0; w < engine->started; w++)
        gp_thread_join(engine->workers[w].thread);
    for (size_t w = 0; engine->workers && w < engine->count; w++)
        gp_reducer_destroy(&engine->workers[w].reducer); /* it has a thread too */
}

/* After the world: until it is gone, other ranks' messages may arrive in the workers' memory. */
static void destroy_workers(gp_engine *engine) {
    for (size_t w = 0; engine->workers && w < engine->count; w++)
        gp_worker_destroy(&engine->workers[w]);
}

void gp_engine_destroy(gp_engine *engine) {
    if (!engine) return;
    char message[2048];
    memcpy(message, gp_error_message(), strnlen(gp_error_message(), sizeof message - 1) + 1);
    message[sizeof message - 1] = '\0';
    gp_engine_save_abandon(engine);
    end_workers(engine);
    gp_world_destroy(engine->world);
    destroy_workers(engine);
    while (engine->agendas) {
        gp_agenda *next = engine->agendas->next;
        gp_agenda_destroy(engine->agendas);
        engine->agendas = next;
    }
    gp_engine_plan_destroy(&engine->plan);
    gp_schedule_destroy(engine->custom);
    gp_kept_destroy(&engine->kept);
    gp_free(engine->bounds);
    gp_free(engine->limits);
    gp_free(engine->shares);
    gp_free(engine->numbers);
    gp_free(engine->workers);
    gp_free(engine->times);
    gp_free(engine->links);
    gp_free(engine->rows);
    gp_engine_free_traces(engine);
    gp_free(engine);
    gp_error_message_set(message); /* what went wrong before is what the caller wants to know */
}
