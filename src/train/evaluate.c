/* Evaluation through the same stages as training, without dropout. */
#include "base/status.h"
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

gp_status gp_trainer_evaluate_split(gp_trainer *trainer, const gp_dataset *dataset, gp_split split, int64_t most,
                                    double *loss) {
    int64_t windows = gp_dataset_windows(dataset, split), batch_size = trainer->layout.engine.batch;
    double sum = 0, weight = 0;
    gp_batch batch;
    gp_status status = GP_OK;
    if (most > 0 && most < windows) windows = most;
    if (windows < 1) return gp_error(GP_INVALID, "the split has no window to evaluate on");
    if (batch_size > windows) batch_size = windows;
    GP_TRY(gp_batch_create(&batch, dataset, batch_size));
    for (int64_t first = 0; status == GP_OK && first < windows; first += batch_size) {
        int64_t count = windows - first < batch_size ? windows - first : batch_size;
        gp_batch_resize(&batch, count);
        if (trainer->should_stop && trainer->should_stop(trainer->user))
            status = gp_error(GP_INTERRUPTED, "the evaluation was interrupted");
        if (status == GP_OK) status = gp_dataset_window(dataset, split, first, count, &batch);
        if (status == GP_OK)
            status = gp_trainer_evaluate(trainer, &batch.inputs, &batch.targets, &batch.weights, &sum, &weight);
    }
    gp_batch_destroy(&batch);
    if (status == GP_OK) *loss = weight > 0 ? sum / weight : 0;
    return status;
}
