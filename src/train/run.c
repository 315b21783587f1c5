/* A whole run: steps, evaluations on the way, checkpoints, the report at the end. */
#include <math.h>

#include "base/options.h"
#include "base/status.h"
#include "train/run_directory.h"
#include "train/trainer.h"

typedef struct run_state {
    gp_trainer *trainer;
    const gp_dataset *dataset;
    const gp_run_options *options;
    gp_run_directory *directory; /* NULL: nothing is written */
    gp_batch batch;
    int64_t steps;
    double validation, best;
    bool has_validation;
} run_state;

/* Of the average of the weights, where one is kept. */
static gp_status evaluate(run_state *run, bool last) {
    bool averages = run->trainer->optimizer.average > 0;
    run->has_validation = false;
    if (gp_dataset_windows(run->dataset, GP_SPLIT_VALIDATION) < 1) return GP_OK;
    if (averages) GP_TRY(gp_trainer_show_averages(run->trainer, true));
    GP_TRY(gp_trainer_evaluate_split(run->trainer, run->dataset, GP_SPLIT_VALIDATION,
                                     last ? 0 : run->options->eval_windows, &run->validation));
    run->has_validation = true;
    return averages ? gp_trainer_show_averages(run->trainer, false) : GP_OK;
}

/* Saves when the step is due: at the end, every checkpoint_every steps, and at a new best. */
static gp_status save(run_state *run, int64_t step, bool last) {
    int64_t every = run->options->checkpoint_every;
    bool best = run->has_validation && run->validation < run->best;
    if (best) run->best = run->validation;
    if (!run->directory || !(last || best || (every > 0 && step % every == 0))) return GP_OK;
    return gp_run_directory_save(run->directory, run->trainer, step, best);
}

static gp_status check_finite(const run_state *run, const gp_step_metrics *metrics) {
    if (metrics->finite) return GP_OK;
    if (run->options->skip_not_finite) {
        gp_log(GP_LOG_WARNING, "step %lld: %s; the update is skipped", (long long)metrics->step, metrics->fault);
        return GP_OK;
    }
    return gp_error(GP_DIVERGED, "step %lld diverged: %s", (long long)metrics->step, metrics->fault);
}

/* One step with all that follows it. `*more` becomes false when the callback wants to finish early. */
static gp_status one_step(run_state *run, int64_t index, bool *more) {
    int64_t samples = run->batch.inputs.type.shape.dims[0];
    gp_step_metrics metrics = {0};
    GP_TRY(gp_dataset_sample(run->dataset, GP_SPLIT_TRAIN, run->options->seed, index, 0, samples, &run->batch));
    GP_TRY(gp_trainer_step(run->trainer, &run->batch.inputs, &run->batch.targets, &run->batch.weights, &metrics));
    int64_t every = run->options->eval_every;
    bool last = index + 1 == run->steps;
    gp_status finite = check_finite(run, &metrics);
    run->has_validation = false;
    if (finite == GP_OK && (last || (every > 0 && metrics.step % every == 0))) GP_TRY(evaluate(run, last));
    if (run->directory)
        GP_TRY(gp_run_directory_metrics(run->directory, &metrics, run->has_validation, run->validation));
    if (run->options->on_step)
        *more = run->options->on_step(run->options->user, &metrics, run->has_validation, run->validation);
    if (finite != GP_OK) return check_finite(run, &metrics);
    return save(run, metrics.step, last || !*more);
}

static gp_status loop(run_state *run) {
    bool more = true;
    for (int64_t index = gp_trainer_step_count(run->trainer); more && index < run->steps; index++) {
        GP_TRY(one_step(run, index, &more));
    }
    if (run->directory) GP_TRY(gp_run_directory_report(run->directory, run->trainer, run->options->trace));
    return more ? GP_OK
                : gp_error(GP_INTERRUPTED, "interrupted after step %lld; the weights are written",
                           (long long)gp_trainer_step_count(run->trainer));
}

gp_status gp_trainer_run(gp_trainer *trainer, const gp_dataset *dataset, const gp_run_options *options,
                         double *validation) {
    gp_run_options known;
    gp_status status = gp_options_read(&known, sizeof known, options, "gp_run_options");
    run_state run = {.trainer = trainer, .dataset = dataset, .options = &known, .best = INFINITY};
    run.steps = run.options->steps > 0 ? run.options->steps : 1000;
    run.validation = NAN;
    if (status == GP_OK && run.options->out)
        status = gp_run_directory_open(&run.directory, run.options->out, run.options->keep);
    if (status == GP_OK) status = gp_batch_create(&run.batch, dataset, trainer->layout.engine.batch);
    if (status == GP_OK) status = loop(&run);
    gp_batch_destroy(&run.batch);
    gp_run_directory_close(run.directory);
    if (validation) *validation = run.validation;
    return status;
}
