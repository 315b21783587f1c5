/* A whole run: steps, evaluations on the way, checkpoints, the report at the end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "checkpoint/checksum.h"
#include "train/grid.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/saver.h"
#include "train/trainer.h"

#define SHARD_BYTES UINT64_C(5000000000)

typedef struct run_state {
    gp_trainer *trainer;
    const gp_dataset *dataset;
    const gp_run_options *options;
    gp_run_directory *directory; /* NULL: nothing is written */
    gp_saver *saver;
    gp_loader *loader;
    int64_t steps;
    gp_evaluation validation; /* the last one; its loss is NaN when there was none */
    bool has_validation;      /* one after this step */
    bool is_best;             /* the evaluation of this step is the best so far */
    bool more;                /* nobody wants to finish early */
    bool stale;               /* patience is at its end */
} run_state;

/* ---- evaluation ---- */

/* Of the average of the weights, where one is kept. */
static gp_status evaluate_shown(run_state *run, int64_t windows) {
    bool averages = run->trainer->optimizer.average > 0;
    if (averages) GP_TRY(gp_trainer_show_averages(run->trainer, true));
    gp_status status =
        gp_trainer_evaluate_split(run->trainer, run->dataset, GP_SPLIT_VALIDATION, windows, &run->validation);
    if (averages && (status == GP_OK || status == GP_INTERRUPTED))
        GP_TRY(gp_trainer_show_averages(run->trainer, false));
    return status;
}

/* Steps decide, not a counter, so that a resumed run stops where an uninterrupted one does. */
static bool is_stale(const run_state *run) {
    const gp_run_options *options = run->options;
    if (options->patience < 1 || options->eval_every < 1 || run->trainer->best_step < 0) return false;
    return (run->trainer->step - run->trainer->best_step) / options->eval_every >= options->patience;
}

/* Interrupted, it is left for the run that goes on from the checkpoint. */
static gp_status evaluate(run_state *run, bool last) {
    gp_trainer *trainer = run->trainer;
    run->has_validation = false;
    if (gp_dataset_windows(run->dataset, GP_SPLIT_VALIDATION) < 1) return GP_OK;
    gp_status status = evaluate_shown(run, last ? 0 : run->options->eval_windows);
    trainer->evaluation_pending = status == GP_INTERRUPTED;
    if (trainer->evaluation_pending) run->more = false;
    if (status != GP_OK) return trainer->evaluation_pending ? GP_OK : status;
    run->has_validation = true;
    run->is_best = run->validation.loss < trainer->best;
    if (run->is_best) {
        trainer->best = run->validation.loss;
        trainer->best_step = trainer->step;
    }
    run->stale = is_stale(run);
    return GP_OK;
}

/* ---- checkpoints ---- */

static uint64_t checksum_of(const char *configuration) {
    return configuration ? gp_checksum_of(configuration, strlen(configuration)) : 0;
}

static gp_status write_checkpoint(run_state *run, bool last) {
    gp_checkpoint_state state = gp_trainer_state(run->trainer);
    state.training_count = gp_dataset_count(run->dataset, GP_SPLIT_TRAIN);
    state.validation_count = gp_dataset_count(run->dataset, GP_SPLIT_VALIDATION);
    state.configuration = checksum_of(run->options->configuration);
    return gp_saver_save(run->saver, &state, last);
}

/* Saves when the step is due: at the end, every checkpoint_every steps, and at a new best. */
static gp_status save(run_state *run, bool last) {
    int64_t every = run->options->checkpoint_every;
    bool best = run->is_best && !run->options->forget_best;
    if (!run->saver) return GP_OK;
    if (last || best || (every > 0 && run->trainer->step % every == 0)) return write_checkpoint(run, last);
    return gp_saver_poll(run->saver, false);
}

/* ---- steps ---- */

static gp_status check_finite(const run_state *run, const gp_step_metrics *metrics) {
    if (metrics->finite) return GP_OK;
    if (run->options->skip_not_finite) {
        gp_log(GP_LOG_WARNING, "step %" PRId64 ": %s; the update is skipped", metrics->step, metrics->fault);
        return GP_OK;
    }
    return gp_error(GP_DIVERGED, "step %" PRId64 " diverged: %s", metrics->step, metrics->fault);
}

/* Writes the line of metrics, tells the caller, and learns whether to go on: all processes do, or none does. */
static gp_status tell_step(run_state *run, const gp_step_metrics *metrics) {
    const gp_run_options *options = run->options;
    const gp_evaluation *validation = run->has_validation ? &run->validation : NULL;
    gp_status status = GP_OK;
    if (run->directory) status = gp_run_directory_metrics(run->directory, run->trainer, metrics, validation);
    if (options->on_step) run->more = options->on_step(options->user, metrics, validation) && run->more;
    bool stop = !run->more;
    GP_TRY(gp_engine_agree(run->trainer->engine, status, stop, &stop));
    run->more = !stop;
    return GP_OK;
}

static gp_status one_step(run_state *run, int64_t index) {
    gp_step_metrics metrics = {0};
    gp_batch *batch;
    double waited = gp_loader_waited(run->loader);
    GP_TRY(gp_engine_fail(run->trainer->engine, gp_loader_next(run->loader, &batch)));
    GP_TRY(gp_trainer_step(run->trainer, &batch->inputs, &batch->targets, &batch->weights, &metrics));
    metrics.data_seconds = gp_loader_waited(run->loader) - waited;
    metrics.unit = gp_dataset_unit(run->dataset);
    int64_t every = run->options->eval_every;
    bool last = index + 1 == run->steps;
    gp_status finite = check_finite(run, &metrics);
    run->has_validation = run->is_best = false;
    if (finite == GP_OK && (last || (every > 0 && metrics.step % every == 0))) GP_TRY(evaluate(run, last));
    GP_TRY(tell_step(run, &metrics));
    if (finite != GP_OK) return check_finite(run, &metrics);
    return save(run, last || run->stale || !run->more);
}

/* What was being written is whole, and from before. */
static gp_status finish_diverged(run_state *run) {
    char message[512];
    snprintf(message, sizeof message, "%s", gp_error_message());
    if (run->saver) GP_TRY(gp_saver_poll(run->saver, true));
    return gp_error(GP_DIVERGED, "%s", message);
}

static gp_status report(run_state *run) {
    gp_status status = GP_OK;
    if (run->options->trace) GP_TRY(gp_engine_gather_traces(run->trainer->engine));
    if (run->directory) status = gp_run_directory_report(run->directory, run->trainer, run->options->trace);
    return gp_engine_agree(run->trainer->engine, status, false, NULL);
}

static gp_status loop(run_state *run) {
    gp_status status = GP_OK;
    for (int64_t index = run->trainer->step; status == GP_OK && run->more && !run->stale && index < run->steps; index++)
        status = one_step(run, index);
    if (status == GP_DIVERGED) return finish_diverged(run);
    if (status == GP_OK && run->stale && run->trainer->step < run->steps)
        gp_log(GP_LOG_INFO, "step %" PRId64 ": no better validation loss than at step %" PRId64 ": the run ends early",
               run->trainer->step, run->trainer->best_step);
    GP_TRY(status);
    GP_TRY(report(run));
    return run->more ? GP_OK
                     : gp_error(GP_INTERRUPTED, "interrupted after step %" PRId64 "%s", run->trainer->step,
                                run->saver ? "; the checkpoint is written" : "");
}

/* ---- the beginning ---- */

/* What a checkpoint was made with must still be so. */
gp_status gp_trainer_check_resumed(const gp_trainer *trainer, const gp_dataset *dataset, const char *configuration) {
    int64_t training = gp_dataset_count(dataset, GP_SPLIT_TRAIN);
    int64_t validation = gp_dataset_count(dataset, GP_SPLIT_VALIDATION);
    uint64_t checksum = checksum_of(configuration);
    if (trainer->training_count < 0) return GP_OK; /* nothing was resumed */
    if (trainer->training_count > 0 && (training != trainer->training_count || validation != trainer->validation_count))
        return gp_error(GP_INVALID,
                        "the data has %" PRId64 " %s for training and %" PRId64
                        " for validation, but the checkpoint was made with %" PRId64 " and %" PRId64,
                        training, gp_dataset_unit(dataset), validation, trainer->training_count,
                        trainer->validation_count);
    if (checksum != 0 && trainer->configuration != 0 && checksum != trainer->configuration)
        return gp_error(GP_INVALID, "the checkpoint was made with another configuration");
    return GP_OK;
}

/* The evaluation that a signal cut short, before the steps go on as if nothing had been. */
static gp_status catch_up(run_state *run) {
    gp_trainer *trainer = run->trainer;
    if (!trainer->evaluation_pending || !run->saver) return GP_OK;
    run->is_best = false;
    GP_TRY(evaluate(run, trainer->step >= run->steps));
    if (!run->has_validation) return GP_OK;
    gp_log(GP_LOG_INFO, "step %" PRId64 ": the evaluation that was interrupted: validation loss %.4f", trainer->step,
           run->validation.loss);
    gp_status status = run->directory ? gp_run_directory_amend(run->directory, &run->validation) : GP_OK;
    GP_TRY(gp_engine_agree(trainer->engine, status, false, NULL));
    /* In a run that has made its steps no later checkpoint would say that nothing is pending. */
    bool best = run->is_best && !run->options->forget_best;
    return best || trainer->step >= run->steps ? write_checkpoint(run, true) : GP_OK;
}

static gp_status open_out(run_state *run) {
    const gp_run_options *options = run->options;
    if (!options->out) return GP_OK;
    gp_status opened = GP_OK;
    if (gp_trainer_writes(run->trainer))
        opened = gp_run_directory_open(&run->directory, options->out, run->trainer->step);
    GP_TRY(gp_engine_agree(run->trainer->engine, opened, false, NULL));
    char *checkpoints = gp_format_text("%s/checkpoints", options->out);
    if (!checkpoints) return GP_OUT_OF_MEMORY;
    gp_saver_options saver = {.checkpoints = checkpoints,
                              .keep = options->keep > 0 ? options->keep : 2,
                              .keep_every = options->keep_every,
                              .best = !options->forget_best,
                              .background = true,
                              .shard_bytes = options->shard_bytes ? options->shard_bytes : SHARD_BYTES,
                              .metrics = run->directory ? gp_run_directory_descriptor(run->directory) : -1};
    gp_status status = gp_saver_create(&run->saver, run->trainer, &saver);
    gp_free(checkpoints);
    return gp_engine_agree(run->trainer->engine, status, false, NULL);
}

/* From the step that comes next: which samples it has is a function of its number. */
static gp_status open_loader(run_state *run) {
    int64_t first = run->trainer->step, batch = run->trainer->layout.engine.batch;
    gp_loader_options options = {.size = sizeof options,
                                 .split = GP_SPLIT_TRAIN,
                                 .seed = run->options->seed,
                                 .first = first,
                                 .count = run->steps > first ? run->steps - first : 0,
                                 .samples = batch};
    gp_engine_inputs_read(run->trainer->engine, batch, &options.inputs_first, &options.inputs_count);
    options.no_inputs = options.inputs_count == 0;
    gp_status status = gp_loader_create(&run->loader, run->dataset, &options);
    return gp_engine_agree(run->trainer->engine, status, false, NULL);
}

static gp_status run_all(run_state *run) {
    GP_TRY(gp_grid_compare_data(run->trainer->layout.engine.cluster, run->dataset));
    gp_status resumed = gp_trainer_check_resumed(run->trainer, run->dataset, run->options->configuration);
    GP_TRY(gp_engine_agree(run->trainer->engine, resumed, false, NULL));
    GP_TRY(open_out(run));
    GP_TRY(open_loader(run));
    if (run->trainer->training_count >= 0) run->stale = is_stale(run); /* it had ended early */
    GP_TRY(catch_up(run));
    return loop(run);
}

gp_status gp_trainer_run(gp_trainer *trainer, const gp_dataset *dataset, const gp_run_options *options,
                         gp_evaluation *validation) {
    gp_run_options known;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_run_options"));
    run_state run = {
        .trainer = trainer, .dataset = dataset, .options = &known, .validation = {.loss = NAN}, .more = true};
    run.steps = known.steps > 0 ? known.steps : 1000;
    gp_status status = run_all(&run);
    gp_loader_destroy(run.loader);
    gp_saver_destroy(run.saver);
    gp_run_directory_close(run.directory);
    run.validation.confusion = NULL;
    if (validation) gp_options_write(validation, &run.validation, sizeof run.validation);
    return status;
}
