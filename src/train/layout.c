/* How a model is laid over workers: checks of the options, the costs that are balanced, the partition. */
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "gpipe/words.h"
#include "train/grid.h"
#include "train/plan.h"

static gp_status fill_engine_options(gp_engine_options *engine, const gp_model *model,
                                     const gp_pipeline_options *pipeline, const gp_optimizer_options *optimizer) {
    int64_t layers = (int64_t)gp_model_layer_count(model);
    int64_t partitions, replicas;
    int64_t micro_batches = pipeline->micro_batches == 0 ? 1 : pipeline->micro_batches;
    int64_t batch = pipeline->batch == 0 ? 1 : pipeline->batch;
    GP_TRY(gp_grid_resolve(pipeline, &partitions, &replicas));
    if (partitions < 1)
        return gp_error(GP_INVALID, "pipeline.partitions is %lld; at least 1 is needed", (long long)partitions);
    if (partitions > layers)
        return gp_error(GP_INVALID, "pipeline.partitions is %lld, but the model has only %lld layer%s",
                        (long long)partitions, (long long)layers, gp_plural(layers, "s"));
    if (micro_batches < 1)
        return gp_error(GP_INVALID, "pipeline.micro_batches is %lld; at least 1 is needed", (long long)micro_batches);
    if (batch < 1) return gp_error(GP_INVALID, "train.batch is %lld; at least 1 is needed", (long long)batch);
    if (replicas < 1)
        return gp_error(GP_INVALID, "pipeline.replicas is %lld; at least 1 is needed", (long long)replicas);
    if (replicas > batch)
        return gp_error(GP_INVALID,
                        "pipeline.replicas is %lld, but train.batch has only %lld sample%s for them to share",
                        (long long)replicas, (long long)batch, gp_plural(batch, "s"));
    if (pipeline->precision != GP_F32 && pipeline->precision != GP_BF16)
        return gp_error(GP_INVALID, "device.precision is %s; f32 and bf16 are accepted",
                        gp_dtype_name(pipeline->precision));
    if (!(pipeline->report_after >= 0))
        return gp_error(GP_INVALID, "pipeline.report_after is %g seconds; 0 (30 seconds) or more is accepted",
                        pipeline->report_after);
    if ((unsigned)pipeline->balance > GP_BALANCE_PARAMETERS)
        return gp_error(GP_INVALID, "pipeline.balance is %d; time (0), flops (1) and parameters (2) are accepted",
                        (int)pipeline->balance);
    int64_t share = (batch - 1) / replicas + 1; /* the largest of a replica */
    *engine = (gp_engine_options){
        .model = model,
        .stages = (size_t)partitions,
        .replicas = (int)replicas,
        .cluster = pipeline->cluster,
        .shard_optimizer = pipeline->shard_optimizer,
        .batch = batch,
        .micro_batches = (int)(micro_batches < share ? micro_batches : share),
        .schedule = pipeline->schedule,
        .recompute = pipeline->recompute,
        .granularity = pipeline->recompute_by_layer ? GP_GRANULARITY_LAYER : GP_GRANULARITY_STAGE,
        .precision = pipeline->precision,
        .device = pipeline->device,
        .inference = optimizer == NULL,
        .predictions = gp_model_classes(model) > 0,
        .loss_weights = pipeline->loss_weights,
        .optimizer = optimizer ? gp_optimizer_update_kind(optimizer) : GP_UPDATE_SGD,
        .momentum = optimizer ? optimizer->momentum : 0,
        .average = optimizer && optimizer->average > 0,
        .report_after = pipeline->report_after,
        .seed = pipeline->seed,
        .snapshot = pipeline->snapshot && optimizer != NULL,
        .measuring = pipeline->measuring,
        .measuring_user = pipeline->measuring_user,
    };
    return GP_OK;
}

static gp_status bounds_by_hand(gp_layout *layout, const size_t *stage_layers, size_t layers) {
    size_t at = 0;
    for (size_t s = 0; s < layout->engine.stages; s++) {
        if (stage_layers[s] < 1) return gp_error(GP_INVALID, "pipeline.stages: stage %zu has no layer", s);
        layout->bounds[s] = at;
        at += stage_layers[s];
    }
    layout->bounds[layout->engine.stages] = at;
    if (at == layers) return GP_OK;
    return gp_error(GP_INVALID, "pipeline.stages: the stages hold %zu layer%s together, but the model has %zu", at,
                    gp_plural((int64_t)at, "s"), layers);
}

/* Seconds, FLOPs or parameters of each layer. `times` (one entry a layer) is filled when measuring. */
static gp_status layer_costs(gp_layout *layout, gp_balance balance, gp_stage_times *times, double *costs) {
    const gp_model *model = layout->engine.model;
    size_t layers = gp_model_layer_count(model);
    if (balance == GP_BALANCE_TIME) {
        gp_status status = gp_engine_profile(&layout->engine, times);
        GP_TRY(gp_grid_share_times(layout, status, times));
        for (size_t i = 0; i < layers; i++) {
            costs[i] = times[i].forward + times[i].recompute + times[i].backward;
        }
        return GP_OK;
    }
    for (size_t i = 0; i < layers; i++) {
        costs[i] = balance == GP_BALANCE_FLOPS ? gp_model_layer_flops(model, i)
                                               : (double)gp_model_layer_parameter_count(model, i);
    }
    return GP_OK;
}

static gp_status sum_stage_times(gp_layout *layout, const gp_stage_times *times) {
    layout->times = gp_allocate_array(layout->engine.stages, sizeof *layout->times);
    if (!layout->times) return GP_OUT_OF_MEMORY;
    for (size_t s = 0; s < layout->engine.stages; s++) {
        for (size_t i = layout->bounds[s]; i < layout->bounds[s + 1]; i++) {
            layout->times[s].forward += times[i].forward;
            layout->times[s].recompute += times[i].recompute;
            layout->times[s].backward += times[i].backward;
        }
    }
    return GP_OK;
}

static gp_status choose_bounds(gp_layout *layout, const gp_pipeline_options *pipeline) {
    size_t layers = gp_model_layer_count(layout->engine.model), stages = layout->engine.stages;
    gp_status status = GP_OUT_OF_MEMORY;
    double *costs = gp_allocate_array(layers, sizeof *costs), *speeds = NULL;
    gp_stage_times *times = gp_allocate_array(layers, sizeof *times);
    if (!costs || !times) goto done;
    status = layer_costs(layout, pipeline->balance, times, costs);
    if (status == GP_OK) status = gp_layout_stage_speeds(layout, &speeds);
    if (status != GP_OK) goto done;
    if (pipeline->stage_layers) {
        status = bounds_by_hand(layout, pipeline->stage_layers, layers);
    } else {
        gp_partition_options options = {.cut_costs = pipeline->cut_costs, .speeds = speeds};
        status = gp_partition(costs, layers, stages, &options, layout->bounds);
        if (status == GP_OK && stages > 1 && !gp_layout_fits(layout))
            status = gp_layout_fit_memory(layout, costs, pipeline->cut_costs);
    }
    if (status == GP_OK && pipeline->balance == GP_BALANCE_TIME) status = sum_stage_times(layout, times);
done:
    gp_free(costs);
    gp_free(times);
    gp_free(speeds);
    return status;
}

gp_status gp_layout_create(gp_layout *layout, const gp_model *model, const gp_pipeline_options *pipeline,
                           const gp_optimizer_options *optimizer) {
    gp_pipeline_options known;
    gp_status status;
    memset(layout, 0, sizeof *layout);
    GP_TRY(gp_options_read(&known, sizeof known, pipeline, "gp_pipeline_options"));
    GP_TRY(fill_engine_options(&layout->engine, model, &known, optimizer));
    if (known.schedule_text) {
        GP_TRY(gp_schedule_parse(&layout->custom, known.schedule_text));
        layout->engine.custom = layout->custom;
    }
    status = optimizer ? gp_optimizer_factors(optimizer, model, &layout->lr_factors) : GP_OK;
    layout->engine.lr_factors = layout->lr_factors;
    layout->bounds = gp_allocate_array(layout->engine.stages + 1, sizeof *layout->bounds);
    layout->engine.bounds = layout->bounds;
    if (status == GP_OK) status = gp_layout_read_workers(layout, &known);
    if (status == GP_OK) status = layout->bounds ? choose_bounds(layout, &known) : GP_OUT_OF_MEMORY;
    if (status != GP_OK) gp_layout_destroy(layout);
    return status;
}

void gp_layout_destroy(gp_layout *layout) {
    gp_free(layout->bounds);
    gp_free(layout->times);
    gp_free(layout->lr_factors);
    gp_free(layout->limits);
    gp_free(layout->speeds);
    gp_schedule_destroy(layout->custom);
    memset(layout, 0, sizeof *layout);
}
