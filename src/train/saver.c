/* One save at a time. The engine writes the tensors; what is done before and after in the folder of checkpoints is
 * here, in whichever thread the engine calls it. A full disk, or any other failure to write, leaves the older
 * checkpoints as they are and training running. */
#include "train/saver.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "checkpoint/state.h"
#include "pipeline/save.h"
#include "train/trainer.h"

struct gp_saver {
    gp_trainer *trainer;
    char *checkpoints;
    gp_saver_options options;
    gp_files files;
    /* of the save that is under way; not changed meanwhile */
    bool saving;
    gp_checkpoint_state state;
    char *folder;   /* in which it is written */
    int64_t newest; /* written last; -1: none */
    int64_t best;   /* what the link `best` stands for; -1: there is none */
};

/* Of this run, up to where it stands; -1: none. */
static int64_t newest_of(const char *checkpoints, int64_t step) {
    int64_t *steps, newest = -1;
    size_t count;
    if (gp_catalog_list(checkpoints, &steps, &count) != GP_OK) return -1;
    for (size_t i = 0; i < count && newest < 0; i++)
        if (steps[i] <= step) newest = steps[i];
    gp_free(steps);
    return newest;
}

gp_status gp_saver_create(gp_saver **saver, gp_trainer *trainer, const gp_saver_options *options) {
    size_t count;
    const gp_files_tensor *tensors = gp_engine_kept(trainer->engine, &count);
    *saver = NULL;
    gp_saver *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->trainer = trainer;
    made->options = *options;
    made->best = options->best ? trainer->best_step : -1;
    made->checkpoints = gp_copy_text(options->checkpoints);
    gp_status status = made->checkpoints ? gp_catalog_create(made->checkpoints) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) made->newest = newest_of(made->checkpoints, trainer->step);
    if (status == GP_OK) status = gp_files_create(&made->files, tensors, count, options->shard_bytes);
    if (status != GP_OK) {
        gp_saver_destroy(made);
        return status;
    }
    *saver = made;
    return GP_OK;
}

/* Only where checkpoints are committed: elsewhere nobody knows whether one is just getting its name. */
static void clean(const gp_saver *saver) {
    if (gp_trainer_writes(saver->trainer)) gp_catalog_clean(saver->checkpoints);
}

void gp_saver_destroy(gp_saver *saver) {
    if (!saver) return;
    if (saver->saving) {
        gp_engine_save_abandon(saver->trainer->engine);
        clean(saver);
    }
    gp_files_destroy(&saver->files);
    gp_free(saver->folder);
    gp_free(saver->checkpoints);
    gp_free(saver);
}

/* ---- in the folder ---- */

static gp_status prepare(void *user) {
    gp_saver *saver = user;
    char *folder;
    GP_TRY(gp_catalog_begin(saver->checkpoints, saver->state.step, saver->files.bytes, &folder));
    gp_free(folder);
    return GP_OK;
}

static bool is_best(const gp_saver *saver) {
    return saver->options.best && saver->state.best_step == saver->state.step;
}

static gp_status commit(void *user, gp_files_piece *pieces, size_t count) {
    gp_saver *saver = user;
    int64_t step = saver->state.step;
    if (saver->options.metrics >= 0) fdatasync(saver->options.metrics); /* what was measured up to here goes with it */
    GP_TRY(gp_files_write_indices(&saver->files, saver->folder));
    GP_TRY(gp_state_write(saver->folder, &saver->state, &saver->files, pieces, count));
    GP_TRY(gp_catalog_commit(saver->checkpoints, step, saver->folder));
    GP_TRY(gp_catalog_link(saver->checkpoints, GP_CATALOG_LATEST, step));
    if (is_best(saver)) GP_TRY(gp_catalog_link(saver->checkpoints, GP_CATALOG_BEST, step));
    if (is_best(saver)) saver->best = step;
    gp_catalog_policy policy = {
        .keep = saver->options.keep, .keep_every = saver->options.keep_every, .latest = step, .best = saver->best};
    gp_catalog_clean(saver->checkpoints);
    if (policy.keep > 0) gp_catalog_prune(saver->checkpoints, &policy);
    return GP_OK;
}

/* ---- the end of a save ---- */

static void warn(const gp_saver *saver, const gp_save_result *result) {
    char newest[64] = "there is no earlier one of this run";
    if (saver->newest >= 0) snprintf(newest, sizeof newest, "the newest is step-%" PRId64, saver->newest);
    gp_log(GP_LOG_WARNING, "the checkpoint of step %" PRId64 " was NOT written: %s; training goes on, %s",
           saver->state.step, result->message, newest);
}

/* `last`: a failure is the caller's. */
static gp_status end(gp_saver *saver, const gp_save_result *result, bool last) {
    gp_save_counts *counts = &saver->trainer->saves;
    saver->saving = false;
    counts->pause += result->pause;
    counts->seconds += result->seconds;
    if (result->state == GP_SAVE_DONE) {
        counts->written++;
        counts->bytes = saver->files.bytes;
        saver->newest = saver->state.step;
        gp_log(GP_LOG_DEBUG, "the checkpoint of step %" PRId64 " is written: %.3f s, of which training waited %.3f s",
               saver->state.step, result->seconds, result->pause);
        return GP_OK;
    }
    counts->failed++;
    clean(saver);
    if (last)
        return gp_error(result->status, "the checkpoint of step %" PRId64 " was not written: %s", saver->state.step,
                        result->message);
    warn(saver, result);
    return GP_OK;
}

static gp_status follow(gp_saver *saver, bool wait, bool last) {
    gp_save_result result;
    if (!saver->saving) return GP_OK;
    double begun = gp_seconds();
    GP_TRY(gp_engine_save_poll(saver->trainer->engine, wait, &result));
    if (wait) saver->trainer->saves.pause += gp_seconds() - begun;
    bool ended = result.state == GP_SAVE_DONE || result.state == GP_SAVE_FAILED;
    return ended ? end(saver, &result, last) : GP_OK;
}

gp_status gp_saver_poll(gp_saver *saver, bool wait) {
    return follow(saver, wait, false);
}

/* ---- the beginning ---- */

static gp_status begin(gp_saver *saver, const gp_checkpoint_state *state, bool background) {
    saver->state = *state;
    gp_free(saver->folder);
    saver->folder = gp_format_text("%s/.step-%" PRId64 ".new", saver->checkpoints, state->step);
    if (!saver->folder) return GP_OUT_OF_MEMORY;
    gp_save_options options = {.files = &saver->files,
                               .folder = saver->folder,
                               .background = background,
                               .prepare = prepare,
                               .commit = commit,
                               .user = saver};
    saver->saving = true;
    return gp_engine_save(saver->trainer->engine, &options);
}

gp_status gp_saver_save(gp_saver *saver, const gp_checkpoint_state *state, bool last) {
    const uint64_t large = UINT64_C(256) << 20;
    char size[16];
    GP_TRY(gp_saver_poll(saver, true));
    bool background = !last && saver->options.background && saver->trainer->layout.engine.snapshot;
    if (!background && saver->files.bytes >= large)
        gp_log(GP_LOG_INFO, "writing the checkpoint of step %" PRId64 ": %s", state->step,
               gp_bytes_format(saver->files.bytes, size, sizeof size));
    GP_TRY(begin(saver, state, background));
    return background ? GP_OK : follow(saver, true, last);
}
