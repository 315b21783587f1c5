/* Evaluation through the same stages as training, without dropout. */
#include "base/options.h"
#include "base/status.h"
#include "data/dataset.h"
#include "train/trainer.h"

gp_status gp_trainer_evaluate(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                              const gp_tensor *weights, double *loss_sum, double *weight) {
    gp_batch batch = {.inputs = *inputs, .targets = *targets};
    double loss = 0, count = 0;
    if (weights) batch.weights = *weights;
    GP_TRY(gp_engine_evaluate(trainer->engine, &batch, &loss, &count));
    *loss_sum += loss;
    *weight += count;
    return GP_OK;
}

gp_status gp_trainer_forward(gp_trainer *trainer, const gp_tensor *inputs, gp_tensor *outputs) {
    return gp_engine_forward(trainer->engine, inputs, outputs);
}

int64_t gp_model_class_count(const gp_model *model) {
    return gp_model_classes(model);
}

/* ---- a whole split ---- */

static void count_predictions(const gp_trainer *trainer, int64_t samples, gp_evaluation *sum) {
    for (int64_t s = 0; s < samples; s++) {
        const gp_prediction *found = gp_engine_prediction(trainer->engine, s);
        if (found->label < 0) continue;
        sum->samples++;
        sum->top1 += found->rank < 1;
        sum->top5 += found->rank < 5;
        if (sum->confusion) sum->confusion[found->label * sum->classes + found->predicted]++;
    }
}

/* GP_INTERRUPTED when somebody wants to stop, in any process. */
static gp_status check_stop(gp_trainer *trainer) {
    if (!trainer->should_stop) return GP_OK;
    bool stop = trainer->should_stop(trainer->user);
    GP_TRY(gp_engine_agree(trainer->engine, GP_OK, stop, &stop));
    return stop ? gp_error(GP_INTERRUPTED, "the evaluation was interrupted") : GP_OK;
}

/* The mirror images of a batch as another view; `loss` becomes the mean of both. */
static gp_status evaluate_mirrored(gp_trainer *trainer, gp_batch *batch, double *loss) {
    double mirrored, weight;
    gp_images_mirror(&batch->inputs);
    GP_TRY(gp_engine_evaluate_view(trainer->engine, batch, &mirrored, &weight));
    *loss = (*loss + mirrored) / 2;
    return GP_OK;
}

static gp_status evaluate_batch(gp_trainer *trainer, gp_batch *batch, bool mirrored, gp_evaluation *sum) {
    double loss = 0;
    GP_TRY(check_stop(trainer));
    GP_TRY(gp_trainer_evaluate(trainer, &batch->inputs, &batch->targets, &batch->weights, &loss, &sum->weight));
    if (mirrored) GP_TRY(evaluate_mirrored(trainer, batch, &loss));
    sum->loss += loss;
    if (sum->classes > 0) count_predictions(trainer, batch->inputs.type.shape.dims[0], sum);
    return GP_OK;
}

static gp_status evaluate_batches(gp_trainer *trainer, gp_loader *loader, bool mirrored, gp_evaluation *sum) {
    for (;;) {
        gp_batch *batch;
        GP_TRY(gp_engine_fail(trainer->engine, gp_loader_next(loader, &batch)));
        if (!batch) return GP_OK;
        GP_TRY(evaluate_batch(trainer, batch, mirrored, sum));
    }
}

gp_status gp_trainer_evaluate_split(gp_trainer *trainer, const gp_dataset *dataset, gp_split split, int64_t most,
                                    gp_evaluation *evaluation) {
    int64_t windows = gp_dataset_windows(dataset, split), batch = trainer->layout.engine.batch;
    gp_loader_options options = {.size = sizeof options, .split = split, .evaluation = true};
    gp_evaluation sum;
    gp_loader *loader;
    GP_TRY(gp_options_read(&sum, sizeof sum, evaluation, "gp_evaluation"));
    sum = (gp_evaluation){.size = sum.size, .confusion = sum.confusion};
    sum.classes = gp_model_classes(trainer->model);
    if (windows < 1) return gp_error(GP_INVALID, "the split has no window to evaluate on");
    options.count = most > 0 && most < windows ? most : windows;
    options.samples = batch < options.count ? batch : options.count;
    int64_t first_read, read;
    gp_engine_inputs_read(trainer->engine, options.samples, &first_read, &read);
    options.no_inputs = read == 0;
    GP_TRY(gp_engine_fail(trainer->engine, gp_loader_create(&loader, dataset, &options)));
    gp_status status = evaluate_batches(trainer, loader, dataset->mirrored, &sum);
    gp_loader_destroy(loader);
    sum.loss = sum.weight > 0 ? sum.loss / sum.weight : 0;
    if (status == GP_OK && evaluation) gp_options_write(evaluation, &sum, sizeof sum);
    return status;
}
