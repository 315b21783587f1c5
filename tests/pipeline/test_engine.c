/* The engine in ordinary use: every shape of pipeline and mini-batch trains, evaluates and gives outputs; memory is
 * what was planned; a step allocates nothing; nothing relies on what memory held before. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/worker.h"

static gp_engine *create(const gp_engine_options *options) {
    gp_engine *engine;
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    return engine;
}

static void step(gp_engine *engine, const gp_model *model, int64_t samples, uint32_t number, gp_step_result *result) {
    gp_batch batch;
    gp_step_options options = test_step_options(number, 1.0);
    test_batch_create(&batch, model, samples, number);
    assert_ok(gp_engine_step(engine, &batch, &options, result));
    test_batch_destroy(&batch);
}

/* ---- shapes of pipelines and mini-batches ---- */

static void assert_as_one_stage(const gp_model *model, gp_engine_options options, const int64_t *batches, int steps) {
    float *weights[2];
    size_t count = 0, stages = options.stages;
    for (int run = 0; run < 2; run++) {
        options.stages = run == 0 ? 1 : stages;
        gp_engine *engine = create(&options);
        gp_step_result result;
        for (int s = 0; s < steps; s++)
            step(engine, model, batches[s], (uint32_t)s, &result);
        weights[run] = test_read_all(engine, model, false, &count);
        gp_engine_destroy(engine);
    }
    test_assert_same(weights[0], weights[1], count, "weights");
    gp_free(weights[0]);
    gp_free(weights[1]);
}

static void every_shape_trains(void **state) {
    (void)state;
    static const int64_t mixed[] = {7, 2, 5, 1, 7};
    gp_model *model = test_skips(7, 6, (int[]){4, -1}); /* layers 2 and 5 have no parameters */
    static const gp_schedule_kind kinds[] = {GP_SCHEDULE_GPIPE, GP_SCHEDULE_1F1B, GP_SCHEDULE_NAIVE};
    for (int k = 0; k < 3; k++) {
        gp_engine_options options = test_options(model, 7, 7, 4); /* K = layers, M < K, batches smaller than M */
        options.schedule = kinds[k];
        assert_as_one_stage(model, options, mixed, 5);
        options.micro_batches = 50; /* more than the batch */
        assert_as_one_stage(model, options, mixed, 5);
        options.micro_batches = 1;
        assert_as_one_stage(model, options, mixed, 5);
    }
    gp_model_destroy(model);
}

static void a_stage_without_parameters_trains(void **state) {
    (void)state;
    static const int64_t batches[] = {4, 4};
    gp_model *model = test_skips(4, 5, (int[]){3, -1});
    gp_engine_options options = test_options(model, 3, 4, 2);
    options.bounds = (size_t[]){0, 2, 3, 4}; /* layer 2 alone */
    gp_engine *engine = create(&options);
    assert_int_equal(gp_engine_planned(engine)->worker[1].parameters, 0);
    assert_int_equal(gp_engine_planned(engine)->worker[1].bytes.parameters, 0);
    gp_engine_destroy(engine);
    options.recompute = GP_RECOMPUTE_ALWAYS;
    gp_step_result result;
    engine = create(&options);
    step(engine, model, batches[0], 0, &result);
    assert_true(result.finite);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static void a_schedule_from_a_text_runs(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0.1, false);
    gp_engine_options options = test_options(model, 2, 6, 3);
    size_t count;
    double loss, expected_loss;
    float *expected = test_train(&options, 6, 3, 1.0, &expected_loss, &count);
    gp_schedule *schedule;
    static const char *const texts[] = {
        "F0 F1 R0 B0 F2 B1 R2 B2\nF0 B0 F1 R1 B1 F2 B2\n",
        "F0 SEND_F0 F1 SEND_F1 F2 SEND_F2 RECV_B0 B0 RECV_B1 B1 RECV_B2 B2\n"
        "RECV_F0 F0 B0 SEND_B0 RECV_F1 F1 B1 SEND_B1 RECV_F2 F2 B2 SEND_B2\n",
    };
    for (size_t t = 0; t < 2; t++) {
        assert_ok(gp_schedule_parse(&schedule, texts[t]));
        options.custom = schedule;
        float *weights = test_train(&options, 6, 3, 1.0, &loss, &count);
        test_assert_same(expected, weights, count, texts[t]);
        gp_free(weights);
        gp_schedule_destroy(schedule);
    }
    gp_engine *engine;
    assert_ok(gp_schedule_parse(&schedule, "F0 F1 B0 B1\nF0 B0 F1 B1\n")); /* two micro-batches for three */
    options.custom = schedule;
    assert_int_equal(gp_engine_create(&engine, &options), GP_INVALID);
    assert_null(engine);
    gp_schedule_destroy(schedule);
    gp_free(expected);
    gp_model_destroy(model);
}

/* ---- numbers ---- */

/* A step down the gradient lowers the loss by what the gradient says. */
static void gradients_are_slopes(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 3, 5, 2);
    gp_engine *engine = create(&options);
    gp_batch batch;
    gp_step_result before, after;
    size_t count, at = 0;
    test_batch_create(&batch, model, 5, 1);
    assert_int_equal(gp_engine_read_gradient(engine, 0, &(float){0}), GP_INVALID);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &before));
    float *gradients = test_read_all(engine, model, true, &count);
    float *weights = test_read_all(engine, model, false, &count);
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += pow((double)gradients[i], 2);
        weights[i] -= 1e-3f * gradients[i];
    }
    assert_true(fabs(sqrt(squares) - before.gradient_norm) <= 1e-6 * before.gradient_norm);
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        assert_ok(gp_engine_write_parameter(engine, p, weights + at));
        at += (size_t)gp_shape_elements(gp_model_parameter(model, p).shape);
    }
    assert_ok(gp_engine_gradients(engine, &batch, 0, &after));
    double expected = 1e-3 * squares;
    if (!(fabs(before.loss - after.loss - expected) < 0.05 * expected))
        fail_msg("the loss falls by %g instead of %g", before.loss - after.loss, expected);
    assert_true(before.bubble >= 0 && before.bubble < 1 && before.span > 0 && before.seconds >= before.span);
    test_batch_destroy(&batch);
    gp_free(gradients);
    gp_free(weights);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

/* Gradients are zeroed between commands: asking twice gives the same, and a step is not spoilt by what was left. */
static void gradients_do_not_pile_up(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0.1, false);
    gp_engine_options options = test_options(model, 2, 4, 2);
    gp_engine *engine = create(&options), *fresh = create(&options);
    gp_batch batch;
    gp_step_result result;
    size_t count;
    test_batch_create(&batch, model, 4, 1);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    float *first = test_read_all(engine, model, true, &count);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    float *second = test_read_all(engine, model, true, &count);
    test_assert_same(first, second, count, "gradients");
    step(engine, model, 4, 0, &result);
    step(fresh, model, 4, 0, &result);
    float *weights = test_read_all(engine, model, false, &count), *others = test_read_all(fresh, model, false, &count);
    test_assert_same(weights, others, count, "weights");
    float *all[] = {first, second, weights, others};
    for (size_t i = 0; i < 4; i++)
        gp_free(all[i]);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_engine_destroy(fresh);
    gp_model_destroy(model);
}

static void inference_is_the_same_for_every_cut(void **state) {
    (void)state;
    gp_model *model = test_gpt(3, 0.1, false);
    gp_batch batch;
    test_batch_create(&batch, model, 7, 1);
    double losses[2][3], weight;
    float outputs[2][3][2 * 4 * 11];
    for (int inference = 0; inference < 2; inference++)
        for (size_t k = 0; k < 3; k++) {
            gp_engine_options options = test_options(model, 1 + 2 * k, 8, 4);
            options.inference = inference;
            gp_engine *engine = create(&options);
            gp_tensor in = {{GP_I32, gp_shape_of(2, (int64_t[]){2, 4})}, batch.inputs.data};
            gp_tensor out = {{GP_F32, gp_shape_of(3, (int64_t[]){2, 4, 11})}, outputs[inference][k]};
            assert_ok(gp_engine_evaluate(engine, &batch, &losses[inference][k], &weight));
            assert_true(weight == 28);
            assert_ok(gp_engine_forward(engine, &in, &out));
            in.type.shape.dims[0] = out.type.shape.dims[0] = 3; /* more than a micro-batch */
            assert_int_equal(gp_engine_forward(engine, &in, &out), GP_INVALID);
            in.type.shape.dims[0] = out.type.shape.dims[0] = 1; /* a size that nobody planned for */
            assert_ok(gp_engine_forward(engine, &in, &out));
            for (size_t w = 0; w < options.stages; w++)
                assert_int_equal(gp_engine_planned(engine)->worker[w].bytes.total, gp_engine_high_water(engine, w));
            gp_engine_destroy(engine);
        }
    for (int inference = 0; inference < 2; inference++)
        for (size_t k = 0; k < 3; k++) {
            assert_true(losses[inference][k] == losses[0][0]);
            test_assert_same(outputs[0][0], outputs[inference][k], 2 * 4 * 11, "outputs");
        }
    assert_true(losses[0][0] / 28 > 2 && losses[0][0] / 28 < 3); /* about log 11 */
    test_batch_destroy(&batch);
    gp_model_destroy(model);
}

/* Evaluation between steps neither hangs nor changes what training does. */
static void evaluation_between_steps_changes_nothing(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0.1, false);
    gp_engine_options options = test_options(model, 3, 5, 2);
    gp_engine *plain = create(&options), *evaluated = create(&options);
    gp_step_result result;
    gp_batch batch;
    double loss, weight;
    size_t count;
    test_batch_create(&batch, model, 3, 99);
    for (uint32_t s = 0; s < 4; s++) {
        step(plain, model, 5, s, &result);
        assert_ok(gp_engine_evaluate(evaluated, &batch, &loss, &weight));
        step(evaluated, model, 5, s, &result);
    }
    float *a = test_read_all(plain, model, false, &count), *b = test_read_all(evaluated, model, false, &count);
    test_assert_same(a, b, count, "weights");
    gp_free(a);
    gp_free(b);
    test_batch_destroy(&batch);
    gp_engine_destroy(plain);
    gp_engine_destroy(evaluated);
    gp_model_destroy(model);
}

/* Per-token weights of 1 and 0 do what leaving tokens out does; the weight is their sum. */
static void token_weights_weigh(void **state) {
    (void)state;
    gp_model *model = test_gpt(1, 0, false);
    gp_engine_options options = test_options(model, 2, 4, 3);
    options.loss_weights = true;
    gp_engine *engine = create(&options);
    gp_batch batch;
    gp_step_result result, doubled;
    test_batch_create(&batch, model, 4, 1);
    assert_int_equal(gp_engine_gradients(engine, &batch, 0, &result), GP_INVALID); /* no weights */
    assert_ok(gp_tensor_create(&batch.weights, (gp_type){GP_F32, batch.targets.type.shape}));
    float *weights = batch.weights.data;
    for (int i = 0; i < 16; i++)
        weights[i] = i < 5 ? 1 : 0; /* the third micro-batch weighs nothing */
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    assert_true(result.weight == 5);
    for (int i = 0; i < 16; i++)
        weights[i] *= 2;
    assert_ok(gp_engine_gradients(engine, &batch, 0, &doubled));
    assert_true(doubled.weight == 10 && fabs(doubled.loss - result.loss) < 1e-6 * result.loss);
    assert_true(fabs(doubled.gradient_norm - result.gradient_norm) < 1e-5 * result.gradient_norm);
    memset(weights, 0, 16 * sizeof *weights);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    assert_true(result.weight == 0 && result.loss == 0 && result.gradient_norm == 0 && result.finite);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static void bad_batches_are_refused(void **state) {
    (void)state;
    gp_model *model = test_gpt(1, 0, false);
    gp_engine_options options = test_options(model, 2, 4, 2);
    gp_engine *engine = create(&options);
    gp_step_options step_options = test_step_options(0, 0);
    gp_step_result result;
    gp_batch batch;
    test_batch_create(&batch, model, 5, 1);
    assert_int_equal(gp_engine_step(engine, &batch, &step_options, &result), GP_INVALID); /* 5 samples for 4 */
    batch.inputs.type.shape.dims[0] = 4;
    assert_int_equal(gp_engine_step(engine, &batch, &step_options, &result), GP_INVALID); /* 5 targets for 4 */
    batch.targets.type.shape.dims[0] = 4;
    batch.inputs.type.dtype = GP_F32;
    assert_int_equal(gp_engine_step(engine, &batch, &step_options, &result), GP_INVALID);
    batch.inputs.type.dtype = GP_I32;
    assert_ok(gp_engine_step(engine, &batch, &step_options, &result)); /* none of that was a failure */
    step_options.update.kind = GP_UPDATE_SGD;
    assert_int_equal(gp_engine_step(engine, &batch, &step_options, &result), GP_INVALID);
    assert_int_equal(gp_engine_read_parameter(engine, 1000, &(float){0}), GP_INVALID);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    gp_model *model = test_gpt(1, 0, false);
    gp_engine *engine;
    gp_engine_options good = test_options(model, 2, 4, 2), bad = good;
    bad.stages = 5; /* of 4 layers */
    assert_int_equal(gp_engine_create(&engine, &bad), GP_INVALID);
    bad = good;
    bad.batch = 0;
    assert_int_equal(gp_engine_create(&engine, &bad), GP_INVALID);
    bad = good;
    bad.micro_batches = 0;
    assert_int_equal(gp_engine_create(&engine, &bad), GP_INVALID);
    bad = good;
    bad.bounds = (size_t[]){0, 4, 4};
    assert_int_equal(gp_engine_create(&engine, &bad), GP_INVALID);
    bad.bounds = (size_t[]){0, 1, 3};
    assert_int_equal(gp_engine_create(&engine, &bad), GP_INVALID);
    assert_null(engine);
    gp_engine_destroy(NULL);
    gp_model_destroy(model);
}

/* ---- memory ---- */

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 2, 4, 2);
    gp_engine_plan plan;
    gp_engine *engine;
    assert_ok(gp_engine_plan_create(&plan, &options));
    size_t most = plan.worker[0].bytes.total, least = plan.worker[1].bytes.total;
    if (least > most) {
        most = plan.worker[1].bytes.total;
        least = plan.worker[0].bytes.total;
    }
    assert_true(least < most);
    size_t needed[] = {plan.worker[0].bytes.total, plan.worker[1].bytes.total};
    for (size_t w = 0; w < 2; w++) {
        const gp_worker_bytes *b = &plan.worker[w].bytes;
        assert_int_equal(b->total,
                         b->parameters + b->gradients + b->optimizer + b->stash + b->workspace + b->communication);
    }
    gp_engine_plan_destroy(&plan);
    options.device.memory = most;
    assert_ok(gp_engine_create(&engine, &options));
    gp_engine_destroy(engine);
    options.device.memory = most - 1;
    assert_int_equal(gp_engine_create(&engine, &options), GP_DOES_NOT_FIT);
    assert_non_null(strstr(gp_error_message(), "1 of 2 workers needs more than device.memory"));
    assert_non_null(strstr(gp_error_message(), "stash"));
    /* A limit for each worker takes the place of the one for all. */
    options.limits = needed;
    assert_ok(gp_engine_create(&engine, &options));
    gp_engine_destroy(engine);
    needed[1] = 0;
    assert_ok(gp_engine_create(&engine, &options));
    gp_engine_destroy(engine);
    needed[0]--;
    assert_int_equal(gp_engine_create(&engine, &options), GP_DOES_NOT_FIT);
    assert_non_null(strstr(gp_error_message(), "1 of 2 workers needs more than device.memory of the worker"));
    assert_non_null(strstr(gp_error_message(), ": worker 0 needs "));
    gp_model_destroy(model);
}

/* Planning takes time in proportion to the layers: a hundred times as many do not run into the test's limit. */
static void deep_models_are_planned(void **state) {
    (void)state;
    gp_model *model = test_gpt(3000, 0, true);
    gp_engine_options options = test_options(model, 2, 2, 2);
    gp_engine_plan plan;
    assert_ok(gp_engine_plan_create(&plan, &options));
    assert_int_equal(plan.workers, 2);
    assert_true(plan.worker[0].bytes.parameters > 0);
    gp_engine_plan_destroy(&plan);
    gp_model_destroy(model);
}

/* Recomputation is there to save memory. */
static void recomputation_saves_memory(void **state) {
    (void)state;
    gp_model *model = test_gpt(6, 0, false);
    gp_engine_options options = test_options(model, 2, 16, 8);
    size_t total[3];
    static const gp_recompute modes[] = {GP_RECOMPUTE_NEVER, GP_RECOMPUTE_EXCEPT_LAST, GP_RECOMPUTE_ALWAYS};
    for (int m = 0; m < 3; m++) {
        gp_engine_plan plan;
        options.recompute = modes[m];
        assert_ok(gp_engine_plan_create(&plan, &options));
        total[m] = plan.worker[0].bytes.stash;
        gp_engine_plan_destroy(&plan);
    }
    assert_true(total[0] > 4 * total[1] && total[1] > total[2]);
    gp_model_destroy(model);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0.1, false);
    gp_engine_options options = test_options(model, 3, 5, 3);
    gp_engine *engine = create(&options);
    gp_batch batch;
    gp_step_result result;
    test_batch_create(&batch, model, 5, 1);
    uint64_t before = 0;
    for (uint32_t s = 0; s < 4; s++) {
        gp_step_options step_options = test_step_options(s, 1.0);
        if (s == 1) before = gp_allocation_count();
        assert_ok(gp_engine_step(engine, &batch, &step_options, &result));
    }
    assert_int_equal(gp_allocation_count(), before);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static void garbage_is_never_used(void **state) {
    (void)state;
    gp_model *models[] = {test_gpt(2, 0.1, false), test_skips(6, 5, (int[]){2, 4, -1})};
    for (int m = 0; m < 2; m++)
        for (int recompute = 0; recompute < 3; recompute++) {
            gp_engine_options options = test_options(models[m], 3, 5, 3);
            options.recompute = (gp_recompute)recompute;
            gp_engine *clean = create(&options), *poisoned = create(&options);
            gp_step_result result;
            gp_batch batch;
            double loss, other_loss, weight;
            size_t count;
            test_batch_create(&batch, models[m], 4, 9);
            for (uint32_t s = 0; s < 3; s++) {
                step(clean, models[m], 5, s, &result);
                assert_ok(gp_engine_poison(poisoned));
                step(poisoned, models[m], 5, s, &result);
                assert_true(result.finite);
                assert_ok(gp_engine_evaluate(clean, &batch, &loss, &weight));
                assert_ok(gp_engine_poison(poisoned));
                assert_ok(gp_engine_evaluate(poisoned, &batch, &other_loss, &weight));
                assert_true(loss == other_loss);
            }
            float *a = test_read_all(clean, models[m], false, &count);
            float *b = test_read_all(poisoned, models[m], false, &count);
            test_assert_same(a, b, count, "weights");
            gp_free(a);
            gp_free(b);
            test_batch_destroy(&batch);
            gp_engine_destroy(clean);
            gp_engine_destroy(poisoned);
        }
    gp_model_destroy(models[0]);
    gp_model_destroy(models[1]);
}

/* ---- what is told about a step ---- */

static void the_trace_is_the_schedule(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 2, 4, 4);
    options.schedule = GP_SCHEDULE_1F1B;
    gp_engine *engine = create(&options);
    gp_step_result result;
    gp_schedule *schedule;
    assert_ok(gp_schedule_create(&schedule, GP_SCHEDULE_1F1B, 2, 4, GP_RECOMPUTE_EXCEPT_LAST));
    step(engine, model, 4, 0, &result);
    for (int w = 0; w < 2; w++) {
        size_t count, traced;
        const gp_action *actions = gp_schedule_actions(schedule, w, &count);
        const gp_trace_entry *trace = gp_engine_trace(engine, (size_t)w, &traced);
        assert_int_equal(count, traced);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(actions[i].kind, trace[i].action.kind);
            assert_int_equal(actions[i].micro_batch, trace[i].action.micro_batch);
            assert_true(trace[i].start >= (i ? trace[i - 1].end : 0) && trace[i].end >= trace[i].start);
            assert_true(trace[i].end <= result.seconds);
        }
    }
    size_t none;
    assert_null(gp_engine_trace(engine, 2, &none));
    gp_schedule_destroy(schedule);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static void layers_are_profiled(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0, false);
    gp_engine_options options = test_options(model, 2, 8, 2);
    gp_stage_times times[7];
    assert_ok(gp_engine_profile(&options, times));
    for (int i = 0; i < 7; i++)
        assert_true(times[i].forward > 0 && times[i].backward > 0 && times[i].recompute >= 0);
    assert_true(times[1].recompute > 0 && times[2].forward == times[1].forward);
    options.recompute = GP_RECOMPUTE_NEVER;
    assert_ok(gp_engine_profile(&options, times));
    assert_true(times[1].recompute == 0 && times[1].forward > 0 && times[1].backward > 0);
    gp_model_destroy(model);
}

/* Equal layers must tie, wherever their masks come from; and the profile's masks hide nothing, which would be cheap. */
static void blocks_with_masks_tie(void **state) {
    (void)state;
    gp_model *model = test_bert(4, 0);
    gp_engine_options options = test_options(model, 1, 4, 2);
    gp_stage_times times[9];
    assert_true(gp_model_layer_count(model) <= 9);
    assert_ok(gp_engine_profile(&options, times));
    for (int i = 2; i <= 4; i++) {
        assert_true(times[i].forward == times[1].forward && times[i].forward > 0);
        assert_true(times[i].backward == times[1].backward && times[i].backward > 0);
    }
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_trains),
        cmocka_unit_test(a_stage_without_parameters_trains),
        cmocka_unit_test(a_schedule_from_a_text_runs),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(gradients_do_not_pile_up),
        cmocka_unit_test(inference_is_the_same_for_every_cut),
        cmocka_unit_test(evaluation_between_steps_changes_nothing),
        cmocka_unit_test(token_weights_weigh),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(deep_models_are_planned),
        cmocka_unit_test(recomputation_saves_memory),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(garbage_is_never_used),
        cmocka_unit_test(the_trace_is_the_schedule),
        cmocka_unit_test(layers_are_profiled),
        cmocka_unit_test(blocks_with_masks_tie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
