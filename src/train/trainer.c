/* The trainer: creation and the single step. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "train/grid.h"

static gp_status start(gp_trainer *trainer, const gp_pipeline_options *pipeline) {
    const gp_optimizer_options *optimizer = trainer->inference ? NULL : &trainer->optimizer;
    GP_TRY(gp_grid_compare(trainer->model, pipeline, optimizer, trainer->steps));
    GP_TRY(gp_layout_create(&trainer->layout, trainer->model, pipeline, optimizer));
    trainer->layout.engine.steps = trainer->steps;
    GP_TRY(gp_plan_from_layout(&trainer->plan, &trainer->layout));
    trainer->sums = gp_allocate_array(trainer->plan->worker_count, sizeof *trainer->sums);
    if (!trainer->sums) return GP_OUT_OF_MEMORY;
    GP_TRY(gp_engine_create(&trainer->engine, &trainer->layout.engine));
    GP_TRY(gp_traffic_create(&trainer->traffic, trainer->engine));
    return gp_engine_initialise(trainer->engine, trainer->layout.engine.seed);
}

gp_status gp_trainer_create(gp_trainer **trainer, const gp_model *model, const gp_pipeline_options *pipeline,
                            const gp_optimizer_options *optimizer, int64_t steps) {
    gp_trainer *made;
    gp_status status = GP_OK;
    *trainer = NULL;
    made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->model = model;
    made->steps = steps;
    made->inference = optimizer == NULL;
    made->best = INFINITY;
    made->best_step = -1;
    made->training_count = made->validation_count = -1;
    if (optimizer) status = gp_optimizer_resolve(optimizer, &made->optimizer);
    if (status == GP_OK) status = start(made, pipeline);
    if (status != GP_OK) {
        gp_trainer_destroy(made);
        return status;
    }
    *trainer = made;
    return GP_OK;
}

void gp_trainer_destroy(gp_trainer *trainer) {
    if (!trainer) return;
    gp_engine_destroy(trainer->engine);
    gp_plan_destroy(trainer->plan);
    gp_layout_destroy(&trainer->layout);
    gp_free(trainer->sums);
    gp_traffic_destroy(&trainer->traffic);
    gp_free(trainer);
}

bool gp_trainer_writes(const gp_trainer *trainer) {
    const gp_cluster *cluster = trainer->layout.engine.cluster;
    return !cluster || gp_cluster_rank(cluster) == 0;
}

const gp_plan *gp_trainer_plan(const gp_trainer *trainer) {
    return trainer->plan;
}

int64_t gp_trainer_step_count(const gp_trainer *trainer) {
    return trainer->step;
}

gp_status gp_trainer_show_averages(gp_trainer *trainer, bool averages) {
    return gp_engine_show_averages(trainer->engine, averages);
}

static void add_measurement(gp_trainer *trainer, const gp_step_result *result) {
    gp_traffic_add(&trainer->traffic, result, trainer->step > 0);
    if (trainer->step == 0) return;
    trainer->measured_steps++;
    trainer->bubble_sum += result->bubble;
    trainer->seconds_sum += result->seconds;
    for (size_t w = 0; w < trainer->plan->worker_count; w++) {
        const gp_worker_times *times = &result->workers[w];
        gp_worker_report *sum = &trainer->sums[w];
        double busy = times->forward + times->recompute + times->backward;
        sum->forward += times->forward;
        sum->recompute += times->recompute;
        sum->backward += times->backward;
        sum->update += times->update;
        sum->wait += times->wait;
        sum->reduce += times->reduce;
        sum->exposed += times->exposed;
        sum->bytes_reduced += times->bytes_reduced;
        sum->communication += times->communication;
        sum->blocked += times->blocked;
        sum->bubble += result->span > 0 ? 1 - busy / result->span : 0;
    }
}

static void fill_metrics(gp_trainer *trainer, const gp_step_result *result, double lr, const gp_batch *batch,
                         gp_step_metrics *metrics) {
    memcpy(trainer->fault, result->fault, sizeof trainer->fault);
    *metrics = (gp_step_metrics){
        .step = trainer->step,
        .loss = result->loss,
        .lr = lr,
        .gradient_norm = result->gradient_norm,
        .seconds = result->seconds,
        .bubble = result->bubble,
        .examples = batch->inputs.type.shape.dims[0],
        .tokens = (int64_t)result->weight,
        .finite = result->finite,
        .fault = result->finite ? "" : trainer->fault,
    };
}

gp_status gp_trainer_step(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                          const gp_tensor *weights, gp_step_metrics *metrics) {
    if (trainer->inference) return gp_error(GP_INVALID, "this trainer was made without an optimizer: it cannot train");
    double lr = gp_learning_rate(&trainer->optimizer.schedule, trainer->optimizer.lr, trainer->step, trainer->steps);
    gp_batch batch = {.inputs = *inputs, .targets = *targets};
    if (weights) batch.weights = *weights;
    gp_step_options options = {
        .step = (uint32_t)trainer->step,
        .update = gp_optimizer_update(&trainer->optimizer, trainer->updates, lr),
        .weight_decay = trainer->optimizer.weight_decay,
        .clip = trainer->optimizer.clip,
        .average_decay = gp_optimizer_average_decay(&trainer->optimizer, trainer->updates),
    };
    gp_step_result result = {0};
    GP_TRY(gp_engine_step(trainer->engine, &batch, &options, &result));
    add_measurement(trainer, &result);
    trainer->step++;
    trainer->samples += inputs->type.shape.dims[0];
    if (result.finite) trainer->updates++;
    fill_metrics(trainer, &result, lr, &batch, metrics);
    return GP_OK;
}
