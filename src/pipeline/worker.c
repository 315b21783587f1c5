/* A worker's thread: waits for commands, runs them, reports. However the thread ends, the driver hears of it. */
#include "pipeline/worker.h"

#include <pthread.h>
#include <stdio.h>

#include "base/status.h"

/* ---- commands ---- */

/* Where parameters are read: in the first replica, tied ones at the first holder. */
static size_t owned_index(const gp_worker *worker) {
    size_t index = gp_stage_find_parameter(worker->stage, worker->engine->command.parameter);
    bool owned = index != SIZE_MAX && worker->replica == 0 && worker->stage->parameters[index].owner == worker->index;
    return owned ? index : SIZE_MAX;
}

static gp_status write_parameter(gp_worker *worker) {
    size_t index = gp_stage_find_parameter(worker->stage, worker->engine->command.parameter);
    return index == SIZE_MAX ? GP_OK : gp_stage_write(worker->stage, index, worker->engine->command.source);
}

static gp_status read_parameter(gp_worker *worker, bool gradient) {
    size_t index = owned_index(worker);
    if (index == SIZE_MAX) return GP_OK;
    float *values = worker->engine->command.destination;
    if (gradient) {
        gp_stage_read_gradient(worker->stage, index, values);
    } else {
        gp_stage_read(worker->stage, index, values);
    }
    return GP_OK;
}

static gp_status train(gp_worker *worker) {
    GP_TRY(gp_worker_train(worker, false));
    return gp_worker_finish(worker);
}

static gp_status run_command(gp_worker *worker) {
    const gp_command *command = &worker->engine->command;
    switch (command->kind) {
    case GP_COMMAND_PLAN:
        return gp_worker_prepare(worker);
    case GP_COMMAND_ALLOCATE:
        return gp_worker_allocate(worker);
    case GP_COMMAND_INITIALISE:
        GP_TRY(gp_stage_initialise_states(worker->stage, command->seed));
        return gp_stage_initialise(worker->stage, command->seed);
    case GP_COMMAND_WRITE:
        return write_parameter(worker);
    case GP_COMMAND_READ:
        return read_parameter(worker, false);
    case GP_COMMAND_READ_GRADIENT:
        return read_parameter(worker, true);
    case GP_COMMAND_WRITE_STATE:
        if (gp_stage_holds_state(worker->stage, command->parameter))
            gp_stage_write_state(worker->stage, command->parameter, command->source);
        return GP_OK;
    case GP_COMMAND_READ_STATE:
        if (worker->replica == 0 && gp_stage_holds_state(worker->stage, command->parameter))
            gp_stage_read_state(worker->stage, command->parameter, command->destination);
        return GP_OK;
    case GP_COMMAND_SHOW:
        return gp_stage_show_averages(worker->stage, command->averages);
    case GP_COMMAND_STEP:
    case GP_COMMAND_GRADIENTS:
        return train(worker);
    case GP_COMMAND_EVALUATE:
        return gp_worker_evaluate(worker);
    case GP_COMMAND_FORWARD:
        return gp_worker_forward(worker);
    case GP_COMMAND_LOAD:
        return gp_worker_load(worker);
    case GP_COMMAND_SAVE:
        return gp_worker_save_begin(worker);
    case GP_COMMAND_SAVE_POLL:
        return gp_worker_save_poll(worker);
    case GP_COMMAND_POISON:
        gp_worker_poison(worker);
        return GP_OK;
    case GP_COMMAND_LEAVE:
        break;
    }
    return GP_OK;
}

/* ---- the thread ---- */

static void report_done(gp_engine *engine) {
    if (atomic_fetch_sub(&engine->unfinished, 1) == 1) gp_event_signal(&engine->finished);
}

/* Runs when the thread ends inside a command, for instance because a user's operation called pthread_exit. */
static void ended_unexpectedly(void *argument) {
    gp_worker *worker = argument;
    char message[64];
    snprintf(message, sizeof message, "worker %d ended unexpectedly", worker->number);
    gp_world_fail(worker->engine->world, worker->number, GP_PEER_LOST, message);
    gp_reducer_settle(&worker->reducer);
    report_done(worker->engine);
}

static void serve(gp_worker *worker) {
    gp_engine *engine = worker->engine;
    gp_command_kind kind;
    uint32_t seen = 0;
    do {
        gp_event_wait(&engine->posted, seen++, -1);
        kind = engine->command.kind;
        gp_status status = run_command(worker);
        if (status != GP_OK && status != GP_ABORTED)
            gp_world_fail(engine->world, worker->number, status, gp_error_message());
        gp_reducer_settle(&worker->reducer);
        gp_world_doing(engine->world, worker->number, "idle");
        report_done(engine);
    } while (kind != GP_COMMAND_LEAVE);
}

void gp_worker_main(void *argument) {
    pthread_cleanup_push(ended_unexpectedly, argument);
    serve(argument);
    pthread_cleanup_pop(0);
}

void gp_worker_destroy(gp_worker *worker) {
    gp_worker_release(worker);
    gp_stage_destroy(worker->stage);
    gp_device_destroy(worker->device);
}
