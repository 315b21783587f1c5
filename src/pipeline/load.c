/* Loading: every worker looks up the tensors that it holds, compares their checksums and uploads them. What goes wrong
 * is gathered from all workers and told; it does not end the engine, which may load something else then. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

enum { BUFFER_BYTES = 1 << 20 };

/* ---- one tensor ---- */

static gp_status find_tensor(const gp_command *command, const gp_files_tensor *tensor, const gp_shards **shards,
                             size_t *index) {
    char found[96], wanted[96];
    if (command->checkpoint) {
        GP_TRY(gp_checkpoint_tensor(command->checkpoint, tensor->group, tensor->name, shards, index));
    } else {
        *shards = command->weights;
        if (!gp_shards_find(*shards, tensor->name, index))
            return gp_error(GP_INVALID, "there is no tensor %s, which the model needs", tensor->name);
    }
    gp_type type = gp_shards_type(*shards, *index);
    if (gp_shape_equal(type.shape, tensor->type.shape)) return GP_OK;
    return gp_error(GP_INVALID, "tensor %s is %s, but the model needs %s", tensor->name,
                    gp_type_format(type, found, sizeof found),
                    gp_type_format((gp_type){GP_F32, tensor->type.shape}, wanted, sizeof wanted));
}

static gp_type row(gp_dtype dtype, int64_t count) {
    return (gp_type){dtype, {.rank = 1, .dims = {count}}};
}

/* Straight from the file where it lies there as the device wants it, else through a buffer. */
static gp_status upload(gp_worker *worker, const gp_shards *shards, size_t index, const gp_kept_place *place,
                        void *buffer) {
    gp_device *device = worker->device;
    gp_dtype stored = device->class->stored;
    size_t element = gp_dtype_bytes(stored);
    const char *data = (const char *)gp_shards_data(shards, index) + (size_t)place->first * element;
    if (gp_shards_type(shards, index).dtype == stored && (uintptr_t)data % element == 0) {
        device->class->upload(device, place->memory, data, row(stored, place->count));
        return GP_OK;
    }
    const int64_t most = (int64_t)(BUFFER_BYTES / element);
    for (int64_t at = 0; at < place->count; at += most) {
        int64_t count = place->count - at < most ? place->count - at : most;
        GP_TRY(gp_shards_read(shards, index, (size_t)(place->first + at), (size_t)count, stored, buffer));
        device->class->upload(device, (char *)place->memory + (size_t)at * element, buffer, row(stored, count));
    }
    return GP_OK;
}

static gp_status load_tensor(gp_worker *worker, size_t tensor, const gp_kept_place *place, void *buffer) {
    const gp_command *command = &worker->engine->command;
    const gp_shards *shards;
    size_t index;
    GP_TRY(find_tensor(command, &worker->engine->kept.tensors[tensor], &shards, &index));
    size_t element = gp_dtype_bytes(gp_shards_type(shards, index).dtype);
    if (command->checkpoint)
        GP_TRY(gp_checkpoint_check(command->checkpoint, shards, index, (uint64_t)place->first * element,
                                   (uint64_t)place->count * element));
    return upload(worker, shards, index, place, buffer);
}

/* ---- all of a worker ---- */

static gp_status load_all(gp_worker *worker) {
    const gp_kept *kept = &worker->engine->kept;
    void *buffer = gp_allocate(BUFFER_BYTES);
    gp_status status = buffer ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t t = 0; status == GP_OK && t < kept->count; t++) {
        gp_kept_place place;
        bool wanted = worker->engine->command.checkpoint || strcmp(kept->tensors[t].group, GP_KEPT_OPTIMIZER) != 0;
        if (wanted && gp_stage_find_kept(worker->stage, &kept->sources[t], &place))
            status = load_tensor(worker, t, &place, buffer);
    }
    gp_free(buffer);
    return status == GP_OK ? gp_stage_pack(worker->stage, SIZE_MAX) : status;
}

gp_status gp_worker_load(gp_worker *worker) {
    gp_save_task *task = &worker->save.task;
    gp_save_task_begin(task);
    gp_world_doing(worker->engine->world, worker->number, "loading");
    gp_save_task_end(task, load_all(worker));
    return GP_OK;
}

/* ---- the driver ---- */

static gp_status load(gp_engine *engine, const gp_checkpoint *checkpoint, const gp_shards *weights) {
    engine->command = (gp_command){.kind = GP_COMMAND_LOAD, .checkpoint = checkpoint, .weights = weights};
    GP_TRY(gp_engine_post(engine));
    gp_status status = GP_OK;
    for (size_t w = 0; status == GP_OK && w < engine->count; w++) {
        const gp_save_task *task = &engine->workers[w].save.task;
        if (task->status != GP_OK) status = gp_error(task->status, "%s", task->message);
    }
    return gp_engine_agree(engine, status, false, NULL);
}

gp_status gp_engine_load(gp_engine *engine, const gp_checkpoint *checkpoint) {
    return load(engine, checkpoint, NULL);
}

gp_status gp_engine_load_weights(gp_engine *engine, const gp_shards *weights) {
    return load(engine, NULL, weights);
}
