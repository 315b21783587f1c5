/* A worker's part in saving and loading: what it writes, the copy, the writing, and what all tell each other. Failures
 * to write are reported, not returned: they must not end the training. */
#include "pipeline/worker_save.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

/* ---- tasks ---- */

void gp_save_task_begin(gp_save_task *task) {
    atomic_store(&task->ended, false);
    task->status = GP_OK;
    task->message[0] = '\0';
}

void gp_save_task_end(gp_save_task *task, gp_status status) {
    task->status = status;
    if (status != GP_OK) snprintf(task->message, sizeof task->message, "%s", gp_error_message());
    atomic_store(&task->ended, true);
    gp_event_signal(&task->event);
}

void gp_save_task_wait(gp_save_task *task) {
    for (;;) {
        uint32_t seen = gp_event_now(&task->event);
        if (atomic_load(&task->ended)) return;
        gp_event_wait(&task->event, seen, -1);
    }
}

/* ---- the plan ---- */

static size_t element_bytes(const gp_worker *worker) {
    return gp_dtype_bytes(worker->device->class->stored);
}

static gp_type elements_type(const gp_worker *worker, int64_t count) {
    return (gp_type){worker->device->class->stored, {.rank = 1, .dims = {count}}};
}

gp_status gp_worker_plan_save(gp_worker *worker) {
    const gp_kept *kept = &worker->engine->kept;
    gp_worker_save *save = &worker->save;
    size_t element = element_bytes(worker);
    save->worker = worker;
    save->pieces = gp_allocate_array(kept->count, sizeof *save->pieces);
    save->sources = gp_allocate_array(kept->count, sizeof *save->sources);
    if (!save->pieces || !save->sources) return GP_OUT_OF_MEMORY;
    for (size_t t = 0; t < kept->count; t++) {
        gp_kept_place place;
        if (!gp_stage_find_kept(worker->stage, &kept->sources[t], &place) || !place.writes) continue;
        gp_files_piece *piece = &save->pieces[save->piece_count++];
        *piece = (gp_files_piece){
            .tensor = t, .first = (uint64_t)place.first * element, .bytes = (uint64_t)place.count * element};
        save->bytes += gp_align((size_t)piece->bytes);
    }
    return GP_OK;
}

gp_status gp_worker_allocate_save(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    gp_worker_save *save = &worker->save;
    size_t workers = (size_t)gp_world_workers(engine->world);
    if (engine->options.inference) return GP_OK;
    for (size_t i = 0; i < save->piece_count; i++) {
        gp_kept_place place;
        gp_stage_find_kept(worker->stage, &engine->kept.sources[save->pieces[i].tensor], &place);
        save->sources[i] = place.memory;
    }
    if (engine->options.snapshot) GP_TRY(gp_device_allocate_host(worker->device, save->bytes, &save->copy));
    save->reports = gp_allocate_array(workers, sizeof *save->reports);
    size_t *counts = gp_allocate_array(workers, sizeof *counts);
    gp_status status = save->reports && counts ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK)
        status = gp_world_all_gather(engine->world, worker->number, &save->piece_count, sizeof *counts, counts);
    for (size_t w = 0; status == GP_OK && w < workers; w++)
        if (counts[w] > save->most) save->most = counts[w];
    gp_free(counts);
    GP_TRY(status);
    save->mine = gp_allocate_array(save->most, sizeof *save->mine);
    save->all = gp_allocate_array(save->most * workers, sizeof *save->all);
    return save->mine && save->all ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_worker_release_save(gp_worker *worker) {
    gp_worker_save *save = &worker->save;
    if (worker->device) gp_device_release_host(worker->device, save->copy, save->bytes);
    void *host[] = {save->pieces, save->sources, save->reports, save->mine, save->all};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        gp_free(host[i]);
}

/* ---- writing ---- */

typedef struct device_source {
    const gp_worker *worker;
    const char *memory;
} device_source;

static gp_status read_device(void *user, size_t offset, void *buffer, size_t bytes) {
    const device_source *source = user;
    gp_device *device = source->worker->device;
    int64_t count = (int64_t)(bytes / element_bytes(source->worker));
    device->class->download(device, buffer, source->memory + offset, elements_type(source->worker, count));
    return GP_OK;
}

static gp_status write_pieces(gp_worker_save *save, gp_files_part *part) {
    const gp_save *engine_save = save->worker->engine->save;
    const char *copy = save->copy;
    bool background = engine_save->options.background;
    for (size_t i = 0; i < save->piece_count; i++) {
        device_source source = {save->worker, save->sources[i]};
        GP_TRY(gp_files_part_write(part, &save->pieces[i], background ? copy : NULL, read_device, &source,
                                   &engine_save->cancelled));
        if (background) copy += gp_align((size_t)save->pieces[i].bytes);
    }
    return gp_files_part_finish(part);
}

void gp_worker_save_write(void *argument) {
    gp_worker_save *save = argument;
    const gp_save *engine_save = save->worker->engine->save;
    gp_files_part *part = NULL;
    gp_status status = gp_files_part_create(&part, engine_save->options.files, engine_save->folder);
    if (status == GP_OK) status = write_pieces(save, part);
    gp_files_part_destroy(part);
    gp_save_task_end(&save->task, status);
}

/* ---- agreeing ---- */

static gp_status gather_reports(gp_worker *worker, bool ended, gp_status status) {
    gp_worker_save *save = &worker->save;
    gp_save_report mine = {ended, (int32_t)status};
    GP_TRY(gp_world_all_gather(worker->engine->world, worker->number, &mine, sizeof mine, save->reports));
    save->all_ended = true;
    save->failed = -1;
    for (int w = gp_world_workers(worker->engine->world); w-- > 0;) {
        save->all_ended = save->all_ended && save->reports[w].ended;
        if (save->reports[w].status != GP_OK) save->failed = w;
    }
    return GP_OK;
}

/* Everything that was written, in the process that commits. */
static gp_status gather_pieces(gp_worker *worker) {
    gp_worker_save *save = &worker->save;
    gp_save *engine_save = worker->engine->save;
    size_t workers = (size_t)gp_world_workers(worker->engine->world), count = 0;
    for (size_t i = 0; i < save->most; i++)
        save->mine[i] = i < save->piece_count ? save->pieces[i] : (gp_files_piece){.tensor = SIZE_MAX};
    GP_TRY(gp_world_all_gather(worker->engine->world, worker->number, save->mine, save->most * sizeof *save->mine,
                               save->all));
    if (worker->number != 0) return GP_OK;
    for (size_t i = 0; i < save->most * workers; i++)
        if (save->all[i].tensor != SIZE_MAX) save->all[count++] = save->all[i];
    engine_save->pieces = save->all;
    engine_save->piece_count = count;
    return GP_OK;
}

static void copy_from_device(gp_worker *worker) {
    gp_worker_save *save = &worker->save;
    gp_device *device = worker->device;
    char *copy = save->copy;
    for (size_t i = 0; i < save->piece_count; i++) {
        int64_t count = (int64_t)((size_t)save->pieces[i].bytes / element_bytes(worker));
        device->class->download(device, copy, save->sources[i], elements_type(worker, count));
        copy += gp_align((size_t)save->pieces[i].bytes);
    }
}

gp_status gp_worker_save_begin(gp_worker *worker) {
    gp_worker_save *save = &worker->save;
    const gp_save_options *options = &worker->engine->save->options;
    gp_world_doing(worker->engine->world, worker->number, "the copy for a checkpoint");
    gp_save_task_begin(&save->task);
    gp_status status = worker->number == 0 && options->prepare ? options->prepare(options->user) : GP_OK;
    if (status != GP_OK) gp_save_task_end(&save->task, status);
    GP_TRY(gather_reports(worker, status != GP_OK, status));
    if (save->failed >= 0) return GP_OK;
    if (options->background) {
        copy_from_device(worker);
    } else {
        gp_worker_save_write(save);
    }
    return GP_OK;
}

gp_status gp_worker_save_poll(gp_worker *worker) {
    gp_worker_save *save = &worker->save;
    gp_save *engine_save = worker->engine->save;
    bool committing = engine_save->result.state == GP_SAVE_COMMITTING;
    gp_save_task *task = committing ? &engine_save->commit : &save->task;
    gp_world_doing(worker->engine->world, worker->number, "the writing of a checkpoint");
    if (committing && worker->number != 0) return gather_reports(worker, true, GP_OK);
    if (engine_save->wait) gp_save_task_wait(task);
    bool ended = atomic_load(&task->ended);
    GP_TRY(gather_reports(worker, ended, ended ? task->status : GP_OK));
    return !committing && save->all_ended && save->failed < 0 ? gather_pieces(worker) : GP_OK;
}
