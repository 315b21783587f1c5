/* Saving what an engine keeps, and loading it. Every worker writes its own tensors into files whose layout all know
 * beforehand; one worker makes the folder before and commits it afterwards. Workers agree through the world's gathering
 * between two steps, so nothing here depends on whether they are threads or processes.
 *
 * In the background: the workers copy their tensors (the only pause), then a thread for each writes while training goes
 * on. A save that fails is no failure of the engine. */
#ifndef GP_PIPELINE_SAVE_H
#define GP_PIPELINE_SAVE_H

#include "checkpoint/checkpoint.h"
#include "pipeline/engine.h"

/* The tensors of a save: what gp_files_create is called with. Owned by the engine. */
const gp_files_tensor *gp_engine_kept(const gp_engine *engine, size_t *count);

typedef struct gp_save_options {
    const gp_files *files; /* of gp_engine_kept; stays until the save has ended */
    const char *folder;    /* in which the files are written; copied */
    bool background;       /* from a copy; needs gp_engine_options.snapshot */
    /* Called in worker 0's thread before anything is written: makes the folder. */
    gp_status (*prepare)(void *user);
    /* Called in a thread of worker 0's process when everything is on the disk. `pieces`: all that was written. */
    gp_status (*commit)(void *user, gp_files_piece *pieces, size_t count);
    void *user;
} gp_save_options;

typedef enum gp_save_state {
    GP_SAVE_NONE,
    GP_SAVE_WRITING,
    GP_SAVE_COMMITTING,
    GP_SAVE_DONE,
    GP_SAVE_FAILED
} gp_save_state;

typedef struct gp_save_result {
    gp_save_state state;
    gp_status status; /* why it failed */
    char message[512];
    double pause;   /* seconds in which the steps waited for the copy, or for all of it */
    double seconds; /* from the beginning to the end */
} gp_save_result;

/* Starts a save: what is saved is the state at this call, whatever steps follow. One at a time: an earlier one must
 * have ended. Errors: those of the engine; a save that cannot start has failed (gp_engine_save_poll). */
gp_status gp_engine_save(gp_engine *engine, const gp_save_options *options);
/* How far the save is; `wait`: until it has ended. To be called between steps, by all processes alike. Errors: those of
 * the engine. */
gp_status gp_engine_save_poll(gp_engine *engine, bool wait, gp_save_result *result);
/* Gives up a save that is being written. Called by gp_engine_destroy. */
void gp_engine_save_abandon(gp_engine *engine);

/* Reads everything that the engine keeps, each worker its own tensors, whose checksums are compared. On an error the
 * engine holds a mixture: load another one, or destroy it. Errors: GP_INVALID naming file and tensor. */
gp_status gp_engine_load(gp_engine *engine, const gp_checkpoint *checkpoint);
/* Reads weights and states only, from any files that have them under the model's names. */
gp_status gp_engine_load_weights(gp_engine *engine, const gp_shards *weights);

#endif
