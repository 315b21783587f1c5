/* Saving the whole trainer and going on from it. */
#include "train/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "pipeline/save.h"
#include "train/saver.h"
#include "train/trainer.h"

/* ---- saving ---- */

static const char *schedule_name(gp_decay_kind kind) {
    switch (kind) {
    case GP_LR_LINEAR:
        return "linear";
    case GP_LR_COSINE:
        return "cosine";
    case GP_LR_STEP:
        return "step";
    case GP_LR_EXPONENTIAL:
        return "exponential";
    case GP_LR_INVERSE_SQRT:
        return "inverse_sqrt";
    case GP_LR_CONSTANT:
        break;
    }
    return "constant";
}

gp_checkpoint_state gp_trainer_state(const gp_trainer *trainer) {
    const gp_optimizer_options *optimizer = &trainer->optimizer;
    gp_checkpoint_state state = {
        .step = trainer->step,
        .updates = trainer->updates,
        .samples = trainer->samples,
        .steps = trainer->steps,
        .seed = trainer->layout.engine.seed,
        .lr = optimizer->lr,
        .next_lr = gp_learning_rate(&optimizer->schedule, optimizer->lr, trainer->step, trainer->steps),
        .best_step = trainer->best_step,
        .best = trainer->best,
        .evaluation_pending = trainer->evaluation_pending,
    };
    snprintf(state.schedule, sizeof state.schedule, "%s", schedule_name(optimizer->schedule.kind));
    return state;
}

gp_status gp_trainer_save_checkpoint(gp_trainer *trainer, const char *run) {
    gp_saver *saver = NULL;
    gp_checkpoint_state state = gp_trainer_state(trainer);
    if (trainer->inference)
        return gp_error(GP_INVALID, "this trainer was made without an optimizer: there is nothing to go on from");
    char *checkpoints = gp_format_text("%s/checkpoints", run);
    gp_saver_options options = {.checkpoints = checkpoints, .metrics = -1};
    gp_status status = checkpoints ? gp_saver_create(&saver, trainer, &options) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = gp_saver_save(saver, &state, true);
    gp_saver_destroy(saver);
    gp_free(checkpoints);
    return status;
}

/* ---- resuming ---- */

static gp_status check_state(const gp_trainer *trainer, const gp_checkpoint_state *state) {
    uint64_t seed = trainer->layout.engine.seed;
    if (state->seed == seed) return GP_OK;
    return gp_error(GP_INVALID, "the checkpoint was made with seed %" PRIu64 ", but this training has %" PRIu64,
                    state->seed, seed);
}

static void take_state(gp_trainer *trainer, const gp_checkpoint_state *state) {
    trainer->step = state->step;
    trainer->updates = state->updates;
    trainer->samples = state->samples;
    trainer->best = state->best;
    trainer->best_step = state->best_step;
    trainer->evaluation_pending = state->evaluation_pending;
    trainer->training_count = state->training_count;
    trainer->validation_count = state->validation_count;
    trainer->configuration = state->configuration;
}

static gp_status resume_from(gp_trainer *trainer, const char *folder) {
    gp_checkpoint *checkpoint = NULL;
    gp_status status = gp_checkpoint_open(&checkpoint, folder);
    if (status == GP_OK) status = check_state(trainer, gp_checkpoint_state_of(checkpoint));
    status = gp_engine_agree(trainer->engine, status, false, NULL);
    if (status == GP_OK) status = gp_engine_load(trainer->engine, checkpoint);
    if (status == GP_OK) take_state(trainer, gp_checkpoint_state_of(checkpoint));
    gp_checkpoint_close(checkpoint);
    return gp_error_within(status, "%s", folder);
}

/* The newest whole checkpoint of a run. Tensors are read once: what is damaged shows while it is loaded. */
static gp_status resume_newest(gp_trainer *trainer, const char *checkpoints) {
    int64_t *steps;
    size_t count;
    bool resumed = false;
    GP_TRY(gp_catalog_list(checkpoints, &steps, &count));
    gp_status status = count > 0 ? GP_OK : gp_error(GP_INVALID, "there is no checkpoint in %s", checkpoints);
    for (size_t i = 0; i < count && !resumed; i++) {
        char *folder = gp_format_text("%s/step-%" PRId64, checkpoints, steps[i]);
        status = folder ? resume_from(trainer, folder) : GP_OUT_OF_MEMORY;
        gp_free(folder);
        resumed = status != GP_INVALID;
        if (!resumed && i + 1 < count) gp_log(GP_LOG_WARNING, "a checkpoint is passed over: %s", gp_error_message());
    }
    gp_free(steps);
    return status;
}

gp_status gp_trainer_resume(gp_trainer *trainer, const char *path) {
    if (trainer->inference)
        return gp_error(GP_INVALID, "this trainer was made without an optimizer: gp_trainer_load reads weights");
    char *checkpoints = gp_format_text("%s/checkpoints", path);
    if (!checkpoints) return GP_OUT_OF_MEMORY;
    gp_status status = gp_is_folder(checkpoints) ? resume_newest(trainer, checkpoints) : resume_from(trainer, path);
    gp_free(checkpoints);
    return status;
}
