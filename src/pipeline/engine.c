/* The driver's side: checks what the caller hands in, fills in a command, posts it, gathers the results. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "pipeline/worker.h"
#include "tensor/batched.h"

/* ---- commands ---- */

static gp_status refuse_failed(const gp_engine *engine) {
    gp_failure failure;
    if (!gp_world_failed(engine->world, &failure)) return GP_OK;
    return gp_error(failure.status, "%s", failure.message);
}

gp_status gp_engine_post(gp_engine *engine) {
    GP_TRY(refuse_failed(engine));
    uint32_t seen = gp_event_now(&engine->finished);
    atomic_store(&engine->unfinished, engine->count);
    gp_event_signal(&engine->posted);
    gp_event_wait(&engine->finished, seen, -1);
    return refuse_failed(engine);
}

gp_status gp_engine_find_agenda(gp_engine *engine, int micro_batches, const gp_agenda **agenda) {
    gp_agenda **end = &engine->agendas;
    for (; *end; end = &(*end)->next) {
        *agenda = *end;
        if ((*end)->micro_batches == micro_batches) return GP_OK;
    }
    gp_agenda *made; /* behind the others: the first stays that of a whole mini-batch */
    GP_TRY(gp_agenda_create(&made, &engine->options, micro_batches));
    *agenda = *end = made;
    return GP_OK;
}

/* ---- mini-batches ---- */

static gp_status check_tensor(const char *what, const gp_tensor *tensor, gp_type sample, int64_t samples) {
    char found[160], expected[160];
    gp_type type = gp_type_with_batch(sample, samples);
    if (tensor->data && gp_type_equal(tensor->type, type)) return GP_OK;
    return gp_error(GP_INVALID, "%s are %s%s; %s is expected", what, gp_type_format(tensor->type, found, sizeof found),
                    tensor->data ? "" : " without data", gp_type_format(type, expected, sizeof expected));
}

static gp_status check_samples(const gp_tensor *inputs, int64_t most, int64_t *samples) {
    *samples = inputs->type.shape.rank > 0 ? inputs->type.shape.dims[0] : 0;
    if (*samples < 1 || *samples > most)
        return gp_error(GP_INVALID, "%" PRId64 " samples; 1 to %" PRId64 " are possible", *samples, most);
    return GP_OK;
}

static gp_status check_batch(const gp_engine *engine, const gp_batch *batch, int64_t *samples) {
    const gp_model *model = engine->options.model;
    gp_type target = gp_model_target_type(model);
    GP_TRY(check_samples(&batch->inputs, engine->options.batch, samples));
    GP_TRY(check_tensor("inputs", &batch->inputs, gp_model_input_type(model), *samples));
    GP_TRY(check_tensor("targets", &batch->targets, target, *samples));
    if (engine->options.loss_weights)
        return check_tensor("weights", &batch->weights, (gp_type){GP_F32, target.shape}, *samples);
    if (batch->weights.data) return gp_error(GP_INVALID, "weights are given to an engine that was created without");
    return GP_OK;
}

int64_t gp_engine_largest_share(const gp_engine *engine, int64_t samples) {
    return (samples - 1) / engine->options.replicas + 1;
}

/* Shares differ by at most one sample, larger ones first, as micro-batches do. */
void gp_engine_share_out(gp_engine *engine, int64_t samples, int replicas, int most_micro_batches) {
    int64_t at = 0;
    for (int r = 0; r < engine->options.replicas; r++) {
        gp_share *share = &engine->shares[r];
        share->first_sample = at;
        share->samples = r < replicas ? samples / replicas + (r < samples % replicas) : 0;
        share->micro_batches = gp_micro_batch_sizes(share->samples, most_micro_batches, share->sizes);
        share->agenda = NULL;
        for (int i = 0; i < share->micro_batches; at += share->sizes[i++])
            share->first_samples[i] = at;
    }
}

/* Starts a command about a mini-batch. */
static void begin_batch(gp_engine *engine, gp_command_kind kind, const gp_batch *batch, int64_t samples) {
    gp_engine_share_out(engine, samples, engine->options.replicas, engine->options.micro_batches);
    engine->command = (gp_command){.kind = kind, .begun = gp_seconds(), .batch = batch};
}

static gp_status find_agendas(gp_engine *engine) {
    for (int r = 0; r < engine->options.replicas; r++) {
        gp_share *share = &engine->shares[r];
        if (share->micro_batches > 0) GP_TRY(gp_engine_find_agenda(engine, share->micro_batches, &share->agenda));
    }
    return GP_OK;
}

static double weight_of(const gp_engine *engine, const gp_batch *batch, int64_t samples) {
    const gp_tensor *weights = batch->weights.data ? &batch->weights : NULL;
    return gp_model_loss_weight(engine->options.model, &batch->targets, weights, 0, samples);
}

/* ---- steps ---- */

static gp_status refuse_averages(const gp_engine *engine) {
    if (!engine->shows_averages) return GP_OK;
    return gp_error(GP_INVALID, "the averages of the weights are shown: nothing may change them");
}

static void find_fault(const gp_engine *engine, gp_step_result *result) {
    const gp_worker_fault *first = NULL;
    const gp_worker *workers = engine->workers;
    const gp_model *model = engine->options.model;
    for (size_t w = 0; w < engine->count; w++)
        if (workers[w].fault.found && (!first || gp_worker_fault_is_earlier(&workers[w].fault, first)))
            first = &workers[w].fault;
    char *text = result->fault;
    size_t size = sizeof result->fault;
    if (!first) {
        snprintf(text, size, "the sum over the mini-batch");
        for (size_t w = engine->count; w-- > 0;)
            if (workers[w].not_finite_parameter != SIZE_MAX)
                snprintf(text, size, "the gradient of %s, summed over the mini-batch",
                         gp_model_parameter(model, workers[w].not_finite_parameter).name);
    } else if (first->layer < 0) {
        snprintf(text, size, "the inputs, micro-batch %d", first->micro_batch);
    } else {
        bool in_loss = (size_t)first->layer >= gp_model_layer_count(model);
        char layer[96] = "the loss";
        if (!in_loss)
            snprintf(layer, sizeof layer, "layer %d (%s)", (int)first->layer,
                     gp_model_layer_kind(model, (size_t)first->layer));
        snprintf(text, size, "%s, %s of %s, micro-batch %d", layer, first->backward ? "backward" : "forward",
                 first->op ? first->op : "an operation", first->micro_batch);
    }
}

static void gather_times(gp_engine *engine, double ended, gp_step_result *result) {
    double first = 0, last = 0, busy = 0;
    for (size_t w = 0; w < engine->count; w++) {
        const gp_worker *worker = &engine->workers[w];
        gp_worker_times *times = &engine->times[w];
        *times = worker->times;
        double computed = times->forward + times->recompute + times->backward;
        times->reduce = worker->reducer.seconds;
        times->bytes_reduced = worker->reducer.bytes;
        times->wait = fmax(0, ended - engine->command.begun - computed - times->update);
        busy += computed;
        if (worker->first_action > 0 && (first == 0 || worker->first_action < first)) first = worker->first_action;
        if (worker->last_backward > last) last = worker->last_backward;
    }
    result->seconds = ended - engine->command.begun;
    result->span = last - first;
    result->bubble = result->span > 0 ? fmax(0, 1 - busy / ((double)engine->count * result->span)) : 0;
    result->workers = engine->times;
}

static gp_status run_step(gp_engine *engine, gp_command_kind kind, const gp_batch *batch, uint32_t step,
                          const gp_step_options *options, gp_step_result *result) {
    int64_t samples;
    *result = (gp_step_result){0};
    if (engine->options.inference) return gp_error(GP_INVALID, "the engine was created for inference only");
    GP_TRY(refuse_averages(engine));
    GP_TRY(check_batch(engine, batch, &samples));
    begin_batch(engine, kind, batch, samples);
    GP_TRY(find_agendas(engine));
    engine->command.step = step;
    engine->command.options = options;
    engine->command.weight = weight_of(engine, batch, samples);
    engine->command.zero_first = engine->dirty;
    engine->dirty = true;
    GP_TRY(gp_engine_post(engine));
    const gp_worker *worker = &engine->workers[0];
    result->weight = engine->command.weight;
    result->loss = result->weight > 0 ? worker->loss / result->weight : 0;
    result->gradient_norm = worker->norm;
    result->finite = worker->finite;
    if (!result->finite) find_fault(engine, result);
    engine->dirty = result->finite && kind == GP_COMMAND_GRADIENTS;
    gather_times(engine, gp_seconds(), result);
    return GP_OK;
}

gp_status gp_engine_step(gp_engine *engine, const gp_batch *batch, const gp_step_options *options,
                         gp_step_result *result) {
    if (options->update.kind != engine->options.optimizer)
        return gp_error(GP_INVALID, "the update is of another optimizer than the engine was created for");
    return run_step(engine, GP_COMMAND_STEP, batch, options->step, options, result);
}

gp_status gp_engine_gradients(gp_engine *engine, const gp_batch *batch, uint32_t step, gp_step_result *result) {
    return run_step(engine, GP_COMMAND_GRADIENTS, batch, step, NULL, result);
}

/* ---- inference ---- */

gp_status gp_engine_evaluate(gp_engine *engine, const gp_batch *batch, double *loss, double *weight) {
    int64_t samples;
    GP_TRY(check_batch(engine, batch, &samples));
    begin_batch(engine, GP_COMMAND_EVALUATE, batch, samples);
    GP_TRY(gp_engine_post(engine));
    *loss = engine->workers[0].loss;
    *weight = weight_of(engine, batch, samples);
    return GP_OK;
}

gp_status gp_engine_forward(gp_engine *engine, const gp_tensor *inputs, gp_tensor *outputs) {
    const gp_model *model = engine->options.model;
    gp_type output = gp_model_output_type(model);
    int64_t samples, largest = gp_engine_largest_share(engine, engine->options.batch);
    largest = (largest - 1) / engine->options.micro_batches + 1;
    output.dtype = GP_F32;
    GP_TRY(check_samples(inputs, largest, &samples));
    GP_TRY(check_tensor("inputs", inputs, gp_model_input_type(model), samples));
    GP_TRY(check_tensor("outputs", outputs, output, samples));
    gp_batch batch = {.inputs = *inputs};
    gp_engine_share_out(engine, samples, 1, 1); /* one replica does it */
    engine->command = (gp_command){.kind = GP_COMMAND_FORWARD, .begun = gp_seconds(), .batch = &batch};
    engine->command.outputs = outputs;
    return gp_engine_post(engine);
}

/* ---- parameters ---- */

static gp_status begin_parameter(gp_engine *engine, gp_command_kind kind, size_t parameter) {
    size_t count = gp_model_parameters(engine->options.model);
    if (parameter >= count) return gp_error(GP_INVALID, "parameter %zu of a model that has %zu", parameter, count);
    engine->command = (gp_command){.kind = kind, .parameter = parameter};
    return GP_OK;
}

gp_status gp_engine_initialise(gp_engine *engine, uint64_t seed) {
    engine->command = (gp_command){.kind = GP_COMMAND_INITIALISE, .seed = seed};
    return gp_engine_post(engine);
}

gp_status gp_engine_write_parameter(gp_engine *engine, size_t parameter, const float *values) {
    GP_TRY(refuse_averages(engine));
    GP_TRY(begin_parameter(engine, GP_COMMAND_WRITE, parameter));
    engine->command.source = values;
    return gp_engine_post(engine);
}

gp_status gp_engine_read_parameter(gp_engine *engine, size_t parameter, float *values) {
    GP_TRY(begin_parameter(engine, GP_COMMAND_READ, parameter));
    engine->command.destination = values;
    return gp_engine_post(engine);
}

gp_status gp_engine_read_gradient(gp_engine *engine, size_t parameter, float *values) {
    if (!engine->dirty) return gp_error(GP_INVALID, "there are no gradients: gp_engine_gradients leaves some");
    GP_TRY(begin_parameter(engine, GP_COMMAND_READ_GRADIENT, parameter));
    engine->command.destination = values;
    return gp_engine_post(engine);
}

gp_status gp_engine_show_averages(gp_engine *engine, bool averages) {
    if (averages == engine->shows_averages) return GP_OK;
    if (averages && (!engine->options.average || engine->options.inference))
        return gp_error(GP_INVALID, "the engine was created without averages of the weights");
    engine->command = (gp_command){.kind = GP_COMMAND_SHOW, .averages = averages};
    engine->shows_averages = averages;
    return gp_engine_post(engine);
}

static gp_status begin_state(gp_engine *engine, gp_command_kind kind, size_t state) {
    size_t count = gp_model_states(engine->options.model);
    if (state >= count) return gp_error(GP_INVALID, "state %zu of a model that has %zu", state, count);
    engine->command = (gp_command){.kind = kind, .parameter = state};
    return GP_OK;
}

gp_status gp_engine_write_state(gp_engine *engine, size_t state, const float *values) {
    GP_TRY(begin_state(engine, GP_COMMAND_WRITE_STATE, state));
    engine->command.source = values;
    return gp_engine_post(engine);
}

gp_status gp_engine_read_state(gp_engine *engine, size_t state, float *values) {
    GP_TRY(begin_state(engine, GP_COMMAND_READ_STATE, state));
    engine->command.destination = values;
    return gp_engine_post(engine);
}

gp_status gp_engine_poison(gp_engine *engine) {
    engine->command = (gp_command){.kind = GP_COMMAND_POISON};
    return gp_engine_post(engine);
}

/* ---- what is known ---- */

const gp_engine_plan *gp_engine_planned(const gp_engine *engine) {
    return &engine->plan;
}

size_t gp_engine_high_water(const gp_engine *engine, size_t worker) {
    return worker < engine->count ? engine->workers[worker].device->high_water : 0;
}

const gp_trace_entry *gp_engine_trace(const gp_engine *engine, size_t worker, size_t *count) {
    bool there = worker < engine->count;
    *count = there ? engine->workers[worker].trace_count : 0;
    return there ? engine->workers[worker].trace : NULL;
}
