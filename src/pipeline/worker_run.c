/* A worker's list of a step. An action awaits what arrives, reserves the slots of what leaves, and lets the program
 * write straight into them: between workers nothing is copied. What arrived stays in its link slot, as part of the
 * stash, until the micro-batch's backward is done. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

/* ---- words ---- */

static void tell(const gp_worker *worker, char letter, int micro_batch) {
    char words[48];
    int length = snprintf(words, sizeof words, "%c%d of stage %zu", letter, micro_batch, worker->index);
    if (worker->engine->options.replicas > 1)
        snprintf(words + length, sizeof words - (size_t)length, ", replica %zu", worker->replica);
    gp_world_doing(worker->engine->world, worker->number, words);
}

static gp_status within(const gp_worker *worker, int micro_batch, gp_status status) {
    if (status == GP_ABORTED) return status;
    char replica[32] = "";
    if (worker->engine->options.replicas > 1) snprintf(replica, sizeof replica, "replica %zu, ", worker->replica);
    return gp_error_within(status, "%sstage %zu, micro-batch %d", replica, worker->index, micro_batch);
}

/* A program knows the number of a layer; users know it by its kind: "layer 3, linear: ..." becomes "stage 1,
 * micro-batch 0: layer 3 (transformer), linear: ...". */
static gp_status explain(const gp_worker *worker, int micro_batch, int32_t layer, gp_status status) {
    const gp_model *model = worker->engine->options.model;
    char prefix[32], name[96] = "the loss", message[1024];
    if (status == GP_OK || status == GP_ABORTED) return status;
    int length = snprintf(prefix, sizeof prefix, "layer %d", (int)layer);
    if (layer < 0 || strncmp(gp_error_message(), prefix, (size_t)length) != 0)
        return within(worker, micro_batch, status);
    if ((size_t)layer < gp_model_layer_count(model))
        snprintf(name, sizeof name, "%s (%s)", prefix, gp_model_layer_kind(model, (size_t)layer));
    snprintf(message, sizeof message, "%s", gp_error_message() + length);
    return within(worker, micro_batch, gp_error(status, "%s%s", name, message));
}

/* ---- messages ---- */

static gp_status await_forward(gp_worker *worker, int micro_batch) {
    size_t peers = worker->stage->before_count, first = (size_t)micro_batch * peers;
    for (size_t i = 0; i < peers; i++) {
        GP_TRY(gp_link_await(worker->forward_in[i], &worker->arrived[first + i], &worker->arrived_slot[first + i]));
        worker->regions[worker->stage->before[i].forward_region] = worker->arrived[first + i];
    }
    return GP_OK;
}

static void release_forward(gp_worker *worker, int micro_batch) {
    size_t peers = worker->stage->before_count, first = (size_t)micro_batch * peers;
    for (size_t i = 0; i < peers; i++)
        gp_link_release(worker->forward_in[i], worker->arrived_slot[first + i]);
}

static gp_status reserve_forward(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->after_count; i++)
        GP_TRY(gp_link_reserve(worker->forward_out[i], &worker->regions[worker->stage->after[i].forward_region]));
    return GP_OK;
}

static gp_status commit_forward(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->after_count; i++)
        GP_TRY(gp_link_commit(worker->forward_out[i], worker->stage->after[i].forward_bytes));
    return GP_OK;
}

static gp_status await_gradients(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->after_count; i++) {
        if (!worker->gradient_in[i]) continue;
        void **region = &worker->regions[worker->stage->after[i].gradient_region];
        GP_TRY(gp_link_await(worker->gradient_in[i], region, &worker->gradient_held[i]));
    }
    return GP_OK;
}

static void release_gradients(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->after_count; i++)
        if (worker->gradient_in[i]) gp_link_release(worker->gradient_in[i], worker->gradient_held[i]);
}

static gp_status reserve_gradients(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->before_count; i++)
        if (worker->gradient_out[i])
            GP_TRY(
                gp_link_reserve(worker->gradient_out[i], &worker->regions[worker->stage->before[i].gradient_region]));
    return GP_OK;
}

static gp_status commit_gradients(gp_worker *worker) {
    for (size_t i = 0; i < worker->stage->before_count; i++)
        if (worker->gradient_out[i])
            GP_TRY(gp_link_commit(worker->gradient_out[i], worker->stage->before[i].gradient_bytes));
    return GP_OK;
}

/* ---- binding ---- */

static void bind_micro_batch(gp_worker *worker, int micro_batch) {
    const gp_stage *stage = worker->stage;
    worker->regions[GP_REGION_STASH] = worker->flights[micro_batch].stash;
    worker->regions[GP_REGION_LOSS] =
        worker->scalars ? (char *)worker->scalars + (size_t)micro_batch * gp_worker_loss_bytes(worker) : NULL;
    for (size_t i = 0; i < stage->before_count; i++)
        worker->regions[stage->before[i].forward_region] =
            worker->arrived[(size_t)micro_batch * stage->before_count + i];
}

/* One tensor's samples of the micro-batch, from the host into the stash slot. */
static void upload(const gp_worker *worker, const gp_stage_value *value, const gp_tensor *from, int micro_batch) {
    const gp_share *share = gp_worker_share(worker);
    if (!value->there) return;
    size_t sample = gp_type_bytes(value->type) / (size_t)share->sizes[micro_batch];
    const char *data = (const char *)from->data + sample * (size_t)share->first_samples[micro_batch];
    char *to = (char *)worker->regions[GP_REGION_STASH] + value->offset;
    worker->device->class->upload(worker->device, to, data, value->type);
}

static void upload_batch(const gp_worker *worker, const gp_stage_size *size, int micro_batch) {
    const gp_batch *batch = worker->engine->command.batch;
    upload(worker, &size->inputs, &batch->inputs, micro_batch);
    upload(worker, &size->targets, &batch->targets, micro_batch);
    upload(worker, &size->weights, &batch->weights, micro_batch);
}

/* ---- running ---- */

/* Whether a fault comes before another: micro-batch, then forward before backward, then in the order of computation. */
bool gp_worker_fault_is_earlier(const gp_worker_fault *a, const gp_worker_fault *b) {
    if (a->micro_batch != b->micro_batch) return a->micro_batch < b->micro_batch;
    if (a->backward != b->backward) return !a->backward;
    return a->backward ? a->layer > b->layer : a->layer < b->layer;
}

static void note_fault(gp_worker *worker, int micro_batch, bool backward, int32_t layer, const char *op) {
    gp_worker_fault fault = {true, micro_batch, backward, layer, op};
    if (!worker->fault.found || gp_worker_fault_is_earlier(&fault, &worker->fault)) worker->fault = fault;
}

/* The share of the training that is done. */
static double progress_of(const gp_engine *engine) {
    double steps = (double)engine->options.steps;
    return steps > 0 ? fmin(1, (double)engine->command.step / steps) : 0;
}

/* Runs a segment. While checking, a fault is noted and the segment run again without looking, so that the others get
 * something to go on with and nobody waits for ever: what that spoils comes later in the order of faults. */
static gp_status run_segment(gp_worker *worker, const gp_program *program, int segment, int micro_batch, bool check) {
    const gp_engine *engine = worker->engine;
    gp_program_fault fault = {.layer = -1};
    gp_run run = {.seed = engine->options.seed,
                  .step = engine->command.step,
                  .progress = progress_of(engine),
                  .first_sample = (uint32_t)gp_worker_share(worker)->first_samples[micro_batch],
                  .check = check,
                  .step_done = worker->completing ? gp_reducer_progress : NULL,
                  .user = &worker->reducer};
    if (!program) return GP_OK;
    gp_status status = gp_program_run(program, segment, worker->regions, &run, &fault);
    if (status == GP_DIVERGED && check) {
        note_fault(worker, micro_batch, fault.backward, fault.layer, fault.op);
        run.check = false;
        status = gp_program_run(program, segment, worker->regions, &run, &fault);
    }
    if (status == GP_OK) status = worker->device->class->wait(worker->device);
    return explain(worker, micro_batch, fault.layer, status);
}

static void note_time(gp_worker *worker, gp_action action, double begun, double *sum) {
    double now = gp_seconds();
    *sum += now - begun;
    if (worker->first_action == 0) worker->first_action = begun;
    if (action.kind == GP_BACKWARD) worker->last_backward = now;
    if (worker->trace_count == worker->trace_capacity) return;
    double zero = worker->engine->command.begun;
    worker->trace[worker->trace_count++] = (gp_trace_entry){action, begun - zero, now - zero};
}

static void check_inputs(gp_worker *worker, const gp_stage_size *size, int micro_batch) {
    gp_device *device = worker->device;
    if (!size->inputs.there) return;
    const char *data = (const char *)worker->regions[GP_REGION_STASH] + size->inputs.offset;
    if (!device->class->all_finite(device, data, size->inputs.type)) note_fault(worker, micro_batch, false, -1, NULL);
}

static gp_status take_off(gp_worker *worker, int micro_batch) {
    gp_flight *flight = &worker->flights[micro_batch];
    gp_slots *slots = flight->recomputed ? &worker->recomputed : &worker->kept;
    GP_TRY(gp_slots_take(slots, &flight->slot));
    flight->stash = gp_slots_memory(slots, flight->slot);
    return GP_OK;
}

static gp_status run_forward(gp_worker *worker, gp_action action, bool check) {
    int i = action.micro_batch;
    gp_flight *flight = &worker->flights[i];
    tell(worker, 'F', i);
    GP_TRY(await_forward(worker, i));
    GP_TRY(within(worker, i, take_off(worker, i)));
    bind_micro_batch(worker, i);
    GP_TRY(reserve_forward(worker));
    double begun = gp_seconds();
    upload_batch(worker, flight->size, i);
    if (check) check_inputs(worker, flight->size, i);
    gp_stage_program which = flight->recomputed ? GP_STAGE_FORWARD_RECOMPUTED : GP_STAGE_FORWARD_KEPT;
    GP_TRY(run_segment(worker, flight->size->programs[which], 0, i, check));
    gp_stage_merge_statistics(worker->stage, flight->size->samples);
    note_time(worker, action, begun, &worker->times.forward);
    return commit_forward(worker);
}

static gp_status run_recompute(gp_worker *worker, gp_action action, bool check) {
    int i = action.micro_batch;
    const gp_program *program = worker->flights[i].size->programs[GP_STAGE_BACKWARD_RECOMPUTED];
    tell(worker, 'R', i);
    bind_micro_batch(worker, i);
    double begun = gp_seconds();
    if (program && gp_program_segments(program) > 1) GP_TRY(run_segment(worker, program, 0, i, check));
    note_time(worker, action, begun, &worker->times.recompute);
    return GP_OK;
}

static void fill_gaps(const gp_worker *worker, const gp_stage_size *size) {
    for (size_t g = 0; g < size->gap_count; g++) {
        char *memory = (char *)worker->regions[size->gaps[g].region] + size->gaps[g].offset;
        worker->device->class->zero(worker->device, memory, size->gaps[g].bytes);
    }
}

static gp_status run_backward(gp_worker *worker, gp_action action, bool check) {
    int i = action.micro_batch;
    const gp_flight *flight = &worker->flights[i];
    gp_stage_program which = flight->recomputed ? GP_STAGE_BACKWARD_RECOMPUTED : GP_STAGE_BACKWARD_KEPT;
    const gp_program *program = flight->size->programs[which];
    tell(worker, 'B', i);
    bind_micro_batch(worker, i);
    GP_TRY(await_gradients(worker));
    GP_TRY(reserve_gradients(worker));
    double begun = gp_seconds();
    if (worker->completing) gp_reducer_expect(&worker->reducer, program);
    int last_segment = program ? gp_program_segments(program) - 1 : 0;
    GP_TRY(run_segment(worker, program, last_segment, i, check));
    fill_gaps(worker, flight->size);
    note_time(worker, action, begun, &worker->times.backward);
    GP_TRY(commit_gradients(worker));
    release_gradients(worker);
    release_forward(worker, i);
    gp_slots_give(flight->recomputed ? &worker->recomputed : &worker->kept, flight->slot);
    return GP_OK;
}

/* ---- commands ---- */

static uint32_t training_programs(bool recomputed) {
    return recomputed ? 1u << GP_STAGE_FORWARD_RECOMPUTED | 1u << GP_STAGE_BACKWARD_RECOMPUTED
                      : 1u << GP_STAGE_FORWARD_KEPT | 1u << GP_STAGE_BACKWARD_KEPT;
}

static gp_status board(gp_worker *worker) {
    const gp_share *share = gp_worker_share(worker);
    for (int i = 0; i < share->micro_batches; i++) {
        gp_flight *flight = &worker->flights[i];
        flight->recomputed =
            share->agenda->recomputed[worker->index * (size_t)share->agenda->micro_batches + (size_t)i];
        GP_TRY(gp_stage_prepare(worker->stage, share->sizes[i], training_programs(flight->recomputed)));
        flight->size = gp_stage_find_size(worker->stage, share->sizes[i]);
    }
    return GP_OK;
}

static void begin(gp_worker *worker) {
    gp_worker_take_links(worker); /* of evaluations */
    worker->times = (gp_worker_times){0};
    worker->first_action = worker->last_backward = 0;
    worker->trace_count = 0;
    worker->fault.found = false;
    worker->not_finite_parameter = SIZE_MAX;
}

static void set_loss_gradient(gp_worker *worker) {
    double weight = worker->engine->command.weight;
    float scale = weight > 0 ? (float)(1.0 / weight) : 0;
    if (worker->stage->is_last)
        worker->device->class->upload(worker->device, worker->regions[GP_REGION_LOSS_GRADIENT], &scale,
                                      (gp_type){.dtype = GP_F32});
}

static double sum_losses(gp_worker *worker) {
    double sum = 0;
    gp_device *device = worker->device;
    if (!worker->stage->is_last) return 0;
    for (int i = 0; i < gp_worker_share(worker)->micro_batches; i++) {
        const char *cell = (const char *)worker->scalars + (size_t)i * gp_worker_loss_bytes(worker);
        device->class->download(device, &worker->losses[i], cell, (gp_type){.dtype = GP_F32});
        sum += (double)worker->losses[i];
    }
    return sum;
}

/* The worker's list; `last`: number of the last backward, which completes the gradients. */
static const gp_action *list_actions(const gp_worker *worker, size_t *count, size_t *last) {
    const gp_agenda *agenda = gp_worker_share(worker)->agenda;
    *count = *last = 0;
    if (!agenda) return NULL;
    const gp_action *actions = gp_schedule_actions(agenda->schedule, (int)worker->index, count);
    for (size_t a = 0; a < *count; a++)
        if (actions[a].kind == GP_BACKWARD) *last = a;
    return actions;
}

gp_status gp_worker_train(gp_worker *worker, bool check) {
    const gp_command *command = &worker->engine->command;
    size_t count, last;
    const gp_action *actions = list_actions(worker, &count, &last);
    if (!check) begin(worker);
    if (!check) gp_reducer_begin(worker, command->kind == GP_COMMAND_STEP && worker->stage->options.shard_optimizer);
    GP_TRY(board(worker));
    GP_TRY(gp_worker_bind(worker));
    if (command->zero_first || check) gp_stage_zero_gradients(worker->stage);
    set_loss_gradient(worker);
    gp_stage_begin_statistics(worker->stage);
    for (size_t a = 0; a < count; a++) {
        if (gp_world_failed(worker->engine->world, NULL)) return GP_ABORTED;
        if (actions[a].kind == GP_FORWARD) {
            GP_TRY(run_forward(worker, actions[a], check));
        } else if (actions[a].kind == GP_RECOMPUTE) {
            GP_TRY(run_recompute(worker, actions[a], check));
        } else {
            worker->completing = a == last && !check && worker->reducer.group;
            GP_TRY(run_backward(worker, actions[a], check));
        }
    }
    worker->completing = false;
    if (!check) gp_reducer_ready(&worker->reducer, false);
    if (!check) gp_worker_take_links(worker);
    if (!check) worker->loss = sum_losses(worker);
    return GP_OK;
}

/* One micro-batch without gradients; the stash is not kept, so that all use the same. */
static gp_status run_inference(gp_worker *worker, int micro_batch, gp_stage_program which) {
    const gp_stage_size *size = gp_stage_find_size(worker->stage, gp_worker_share(worker)->sizes[micro_batch]);
    tell(worker, 'F', micro_batch);
    GP_TRY(await_forward(worker, micro_batch));
    worker->flights[micro_batch].stash = worker->stash;
    bind_micro_batch(worker, micro_batch);
    GP_TRY(reserve_forward(worker));
    double begun = gp_seconds();
    if (which == GP_STAGE_EVALUATE) {
        upload_batch(worker, size, micro_batch);
    } else {
        upload(worker, &size->inputs, &worker->engine->command.batch->inputs, micro_batch);
    }
    GP_TRY(run_segment(worker, size->programs[which], 0, micro_batch, false));
    if (which == GP_STAGE_EVALUATE && worker->predictions && worker->stage->is_last)
        GP_TRY(gp_worker_predict(worker, micro_batch));
    gp_action action = {GP_FORWARD, (int)worker->index, micro_batch};
    note_time(worker, action, begun, &worker->times.forward);
    GP_TRY(commit_forward(worker));
    release_forward(worker, micro_batch);
    return GP_OK;
}

static gp_status run_all_inference(gp_worker *worker, gp_stage_program which) {
    const gp_share *share = gp_worker_share(worker);
    begin(worker);
    for (int i = 0; i < share->micro_batches; i++)
        GP_TRY(gp_stage_prepare(worker->stage, share->sizes[i], 1u << which));
    GP_TRY(gp_worker_bind(worker));
    for (int i = 0; i < share->micro_batches; i++) {
        if (gp_world_failed(worker->engine->world, NULL)) return GP_ABORTED;
        GP_TRY(run_inference(worker, i, which));
    }
    return GP_OK;
}

gp_status gp_worker_evaluate(gp_worker *worker) {
    GP_TRY(run_all_inference(worker, GP_STAGE_EVALUATE));
    worker->loss = sum_losses(worker);
    GP_TRY(gp_worker_gather_loss(worker));
    return worker->predictions ? gp_worker_gather_predictions(worker) : GP_OK;
}

gp_status gp_worker_download_output(gp_worker *worker, int64_t samples, float *to) {
    const gp_stage_value *output = &gp_stage_find_size(worker->stage, samples)->output;
    size_t count = (size_t)gp_shape_elements(output->type.shape), bytes = gp_type_bytes(output->type);
    if (bytes > worker->host_bytes) {
        void *grown = gp_grow_array(worker->host, 0, 1, bytes);
        if (!grown) return GP_OUT_OF_MEMORY;
        worker->host = grown;
        worker->host_bytes = bytes;
    }
    worker->device->class->download(worker->device, worker->host, worker->regions[GP_REGION_OUTPUT], output->type);
    gp_convert(to, GP_F32, worker->host, output->type.dtype, count);
    return GP_OK;
}

gp_status gp_worker_forward(gp_worker *worker) {
    GP_TRY(run_all_inference(worker, GP_STAGE_OUTPUT));
    if (!worker->stage->is_last || worker->replica != 0) return GP_OK;
    return gp_worker_download_output(worker, gp_worker_share(worker)->sizes[0], worker->engine->command.outputs->data);
}
