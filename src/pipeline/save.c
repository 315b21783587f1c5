/* The driver's side of saving: starts the writers, follows them, commits. */
#include "pipeline/save.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

const gp_files_tensor *gp_engine_kept(const gp_engine *engine, size_t *count) {
    *count = engine->kept.count;
    return engine->kept.tensors;
}

/* ---- ends ---- */

static void join(gp_save_task *task) {
    gp_thread_join(task->thread);
    task->thread = NULL;
}

static void join_writers(gp_engine *engine) {
    for (size_t w = 0; engine->workers && w < engine->count; w++)
        join(&engine->workers[w].save.task);
}

static void end(gp_save *save, gp_save_state state, gp_status status, const char *message) {
    save->result.state = state;
    save->result.status = status;
    save->result.seconds = gp_seconds() - save->begun;
    snprintf(save->result.message, sizeof save->result.message, "%s", message);
}

/* A worker could not write. What it said is known where it runs. */
static void fail_writing(gp_engine *engine, int failed) {
    gp_save *save = engine->save;
    const char *said = gp_status_text((gp_status)engine->workers[0].save.reports[failed].status);
    gp_status status = (gp_status)engine->workers[0].save.reports[failed].status;
    atomic_store(&save->cancelled, true);
    join_writers(engine);
    for (size_t w = 0; w < engine->count; w++)
        if (engine->workers[w].number == failed) said = engine->workers[w].save.task.message;
    end(save, GP_SAVE_FAILED, status, said);
}

void gp_engine_save_abandon(gp_engine *engine) {
    gp_save *save = engine->save;
    if (!save) return;
    atomic_store(&save->cancelled, true);
    join_writers(engine);
    join(&save->commit);
    gp_free(save->folder);
    gp_free(save);
    engine->save = NULL;
}

/* ---- the beginning ---- */

static gp_status create(gp_engine *engine, const gp_save_options *options) {
    if (engine->options.inference)
        return gp_error(GP_INVALID, "the engine was created for inference only: there is nothing to go on from");
    if (options->background && !engine->options.snapshot)
        return gp_error(GP_INVALID, "saving in the background needs memory for a copy, which was not planned");
    if (engine->save &&
        (engine->save->result.state == GP_SAVE_WRITING || engine->save->result.state == GP_SAVE_COMMITTING))
        return gp_error(GP_INVALID, "another save is still being written");
    gp_engine_save_abandon(engine);
    gp_save *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    engine->save = made;
    made->options = *options;
    made->folder = gp_copy_text(options->folder);
    made->begun = gp_seconds();
    made->result.state = GP_SAVE_WRITING;
    return made->folder ? GP_OK : GP_OUT_OF_MEMORY;
}

/* From the driver's thread, which is pinned to no core: the writers are then free to run where there is room. */
static void start_writers(gp_engine *engine) {
    for (size_t w = 0; w < engine->count; w++) {
        gp_worker_save *save = &engine->workers[w].save;
        gp_status status = gp_thread_create(&save->task.thread, gp_worker_save_write, save, 0, 0);
        if (status != GP_OK) gp_save_task_end(&save->task, status);
    }
}

gp_status gp_engine_save(gp_engine *engine, const gp_save_options *options) {
    gp_status status = create(engine, options);
    if (status != GP_OK) {
        if (status == GP_OUT_OF_MEMORY) gp_engine_save_abandon(engine);
        return status;
    }
    engine->command = (gp_command){.kind = GP_COMMAND_SAVE};
    GP_TRY(gp_engine_post(engine));
    if (engine->workers[0].save.failed >= 0) {
        fail_writing(engine, engine->workers[0].save.failed);
    } else if (options->background) {
        start_writers(engine);
    }
    engine->save->result.pause = gp_seconds() - engine->save->begun;
    return GP_OK;
}

/* ---- the progress ---- */

static void run_commit(void *argument) {
    gp_save *save = argument;
    gp_save_task_end(&save->commit, save->options.commit(save->options.user, save->pieces, save->piece_count));
}

/* Everything is on the disk: whoever has worker 0 commits it. */
static void start_commit(gp_engine *engine) {
    gp_save *save = engine->save;
    join_writers(engine);
    gp_save_task_begin(&save->commit);
    save->result.state = GP_SAVE_COMMITTING;
    if (engine->workers[0].number != 0) return;
    if (save->wait || gp_thread_create(&save->commit.thread, run_commit, save, 0, 0) != GP_OK) run_commit(save);
}

static gp_status follow(gp_engine *engine, bool wait) {
    gp_save *save = engine->save;
    save->wait = wait;
    engine->command = (gp_command){.kind = GP_COMMAND_SAVE_POLL};
    GP_TRY(gp_engine_post(engine));
    const gp_worker_save *worker = &engine->workers[0].save;
    bool committing = save->result.state == GP_SAVE_COMMITTING;
    if (worker->failed >= 0 && !committing) {
        fail_writing(engine, worker->failed);
    } else if (worker->all_ended && !committing) {
        start_commit(engine);
    } else if (worker->all_ended) {
        join(&save->commit);
        gp_status status = (gp_status)worker->reports[0].status;
        bool here = engine->workers[0].number == 0;
        end(save, status == GP_OK ? GP_SAVE_DONE : GP_SAVE_FAILED, status,
            here ? save->commit.message : gp_status_text(status));
    }
    return GP_OK;
}

static bool is_under_way(const gp_engine *engine) {
    const gp_save *save = engine->save;
    return save && (save->result.state == GP_SAVE_WRITING || save->result.state == GP_SAVE_COMMITTING);
}

gp_status gp_engine_save_poll(gp_engine *engine, bool wait, gp_save_result *result) {
    *result = (gp_save_result){0};
    if (is_under_way(engine)) GP_TRY(follow(engine, wait));
    while (wait && is_under_way(engine))
        GP_TRY(follow(engine, wait));
    if (engine->save) *result = engine->save->result;
    return GP_OK;
}
