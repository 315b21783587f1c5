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
    if (!gp_world_failed(engine->world, NULL)) return GP_OK;
    gp_world_settle(engine->world);
    gp_world_failed(engine->world, &failure);
    return gp_error(failure.status, "%s", failure.message);
}

gp_status gp_engine_checked(const gp_engine *engine, gp_status status) {
    return status == GP_ABORTED ? refuse_failed(engine) : status;
}

/* What the worker that holds stage `stage` of the first replica has written goes to the other processes. */
static gp_status share(gp_engine *engine, size_t stage, void *data, size_t bytes) {
    return gp_engine_checked(engine, gp_world_share(engine->world, (int)stage, data, bytes));
}

/* The stage that holds a layer. */
static size_t stage_of(const gp_engine *engine, size_t layer) {
    size_t stage = 0;
    while (stage + 1 < engine->options.stages && engine->bounds[stage + 1] <= layer)
        stage++;
    return stage;
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

/* Shares follow one another and differ by one sample at most, as gp_engine_share_out makes them. */
void gp_engine_inputs_read(const gp_engine *engine, int64_t samples, int64_t *first, int64_t *count) {
    int64_t replicas = engine->options.replicas, each = samples / replicas, more = samples % replicas, end = 0;
    *first = samples;
    for (size_t number = engine->first; number < engine->first + engine->count; number++) {
        int64_t r = (int64_t)(number / engine->options.stages);
        if (number % engine->options.stages != 0) continue;
        int64_t begin = r * each + (r < more ? r : more);
        if (begin < *first) *first = begin;
        end = begin + each + (r < more);
    }
    *count = end > *first ? end - *first : 0;
    if (*count == 0) *first = 0;
}

static gp_status check_batch(const gp_engine *engine, const gp_batch *batch, int64_t *samples) {
    const gp_model *model = engine->options.model;
    gp_type target = gp_model_target_type(model);
    int64_t first, read;
    GP_TRY(check_samples(&batch->inputs, engine->options.batch, samples));
    gp_engine_inputs_read(engine, *samples, &first, &read);
    if (read > 0 || batch->inputs.data)
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
    GP_TRY(gp_engine_gather_result(engine, result));
    engine->dirty = result->finite && kind == GP_COMMAND_GRADIENTS;
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

static gp_status evaluate(gp_engine *engine, const gp_batch *batch, bool again, double *loss, double *weight) {
    int64_t samples;
    GP_TRY(check_batch(engine, batch, &samples));
    begin_batch(engine, GP_COMMAND_EVALUATE, batch, samples);
    engine->command.again = again;
    GP_TRY(gp_engine_post(engine));
    *loss = engine->workers[0].loss;
    *weight = weight_of(engine, batch, samples);
    return GP_OK;
}

gp_status gp_engine_evaluate(gp_engine *engine, const gp_batch *batch, double *loss, double *weight) {
    return evaluate(engine, batch, false, loss, weight);
}

gp_status gp_engine_evaluate_view(gp_engine *engine, const gp_batch *batch, double *loss, double *weight) {
    return evaluate(engine, batch, true, loss, weight);
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
    GP_TRY(gp_engine_post(engine));
    return share(engine, engine->options.stages - 1, outputs->data, gp_type_bytes(outputs->type));
}

/* ---- parameters ---- */

static gp_status begin_parameter(gp_engine *engine, gp_command_kind kind, size_t parameter) {
    size_t count = gp_model_parameters(engine->options.model);
    if (parameter >= count) return gp_error(GP_INVALID, "parameter %zu of a model that has %zu", parameter, count);
    engine->command = (gp_command){.kind = kind, .parameter = parameter};
    return GP_OK;
}

/* Reads through the first stage that holds the parameter. */
static gp_status read_parameter(gp_engine *engine, gp_command_kind kind, size_t parameter, float *values) {
    const gp_parameter_use *uses;
    size_t count = gp_model_uses(engine->options.model, &uses), use = 0;
    GP_TRY(begin_parameter(engine, kind, parameter));
    engine->command.destination = values;
    GP_TRY(gp_engine_post(engine));
    while (use < count && uses[use].parameter != parameter)
        use++;
    if (use == count) return GP_OK;
    size_t elements = (size_t)gp_shape_elements(gp_model_parameter(engine->options.model, parameter).shape);
    return share(engine, stage_of(engine, (size_t)uses[use].layer), values, elements * sizeof *values);
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
    return read_parameter(engine, GP_COMMAND_READ, parameter, values);
}

gp_status gp_engine_read_gradient(gp_engine *engine, size_t parameter, float *values) {
    if (!engine->dirty) return gp_error(GP_INVALID, "there are no gradients: gp_engine_gradients leaves some");
    return read_parameter(engine, GP_COMMAND_READ_GRADIENT, parameter, values);
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
    GP_TRY(gp_engine_post(engine));
    gp_state_info info = gp_model_state(engine->options.model, state);
    return share(engine, stage_of(engine, info.layer), values, (size_t)gp_shape_elements(info.shape) * sizeof *values);
}

gp_status gp_engine_poison(gp_engine *engine) {
    engine->command = (gp_command){.kind = GP_COMMAND_POISON};
    return gp_engine_post(engine);
}

/* ---- what is known ---- */

const gp_engine_plan *gp_engine_planned(const gp_engine *engine) {
    return &engine->plan;
}

/* The worker with a number, when it is in this process; NULL. */
static const gp_worker *local_worker(const gp_engine *engine, size_t number) {
    bool here = number >= engine->first && number - engine->first < engine->count;
    return here ? &engine->workers[number - engine->first] : NULL;
}

size_t gp_engine_high_water(const gp_engine *engine, size_t number) {
    const gp_worker *worker = local_worker(engine, number);
    if (worker) return worker->device->high_water;
    return number < engine->total ? gp_engine_row(engine, number)->high_water : 0;
}

const gp_trace_entry *gp_engine_trace(const gp_engine *engine, size_t number, size_t *count) {
    const gp_worker *worker = local_worker(engine, number);
    if (engine->traces && number < engine->total) {
        *count = engine->traces[number].count;
        return engine->traces[number].entries;
    }
    *count = worker ? worker->trace_count : 0;
    return worker ? worker->trace : NULL;
}
