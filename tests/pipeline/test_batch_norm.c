/* Batch norm over micro-batches: its moving averages follow the whole mini-batch, however it is cut and whatever is
 * computed again; and the engine keeps them apart from everything that trains. */
#include "variants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/worker.h"

static gp_layer *layer_of(const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer;
    assert_ok(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    return layer;
}

/* flatten (which changes nothing), batch norm, linear: samples of `channels` numbers, squared error. */
static gp_model *norm_between(int64_t channels, double decay) {
    gp_model *model;
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    gp_option decays = {.key = "decay", .type = GP_OPTION_NUMBER, .number = decay};
    gp_option features = {.key = "features", .type = GP_OPTION_INTEGER, .integer = channels};
    assert_ok(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, &channels)}));
    assert_ok(gp_model_set_loss(model, &loss));
    assert_ok(gp_model_add(model, layer_of("flatten", NULL, 0)));
    assert_ok(gp_model_add(model, layer_of("batch_norm", &decays, 1)));
    assert_ok(gp_model_add(model, layer_of("linear", &features, 1)));
    assert_ok(gp_model_finish(model));
    return model;
}

/* Inputs filled by the caller; targets zero. */
static gp_batch batch_of(int64_t samples, int64_t channels) {
    gp_batch batch = {0};
    gp_type type = {GP_F32, gp_shape_of(2, (int64_t[]){samples, channels})};
    assert_ok(gp_tensor_create(&batch.inputs, type));
    assert_ok(gp_tensor_create(&batch.targets, type));
    return batch;
}

static gp_engine *start(const gp_engine_options *options) {
    gp_engine *engine;
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    assert_ok(gp_engine_poison(engine));
    return engine;
}

static void make_step(gp_engine *engine, const gp_batch *batch) {
    gp_step_options step = test_step_options(0, 0);
    gp_step_result result;
    assert_ok(gp_engine_step(engine, batch, &step, &result));
    assert_true(result.finite);
}

/* ---- GPipe's way of counting: the golden case ---- */

static void check_golden(size_t stages, int replicas, gp_recompute recompute) {
    gp_model *model = norm_between(3, 0.997);
    gp_engine_options options = test_options(model, stages, 1024, 8);
    gp_batch batch = batch_of(1024, 3);
    float values[3];
    options.recompute = recompute;
    options.replicas = replicas;
    for (int i = 0; i < 512 * 3; i++)
        ((float *)batch.inputs.data)[i] = 1;
    gp_engine *engine = start(&options);
    make_step(engine, &batch);
    for (size_t s = 0; s < 2; s++) {
        double expected = s == 0 ? 0.0015 : 0.997750;
        assert_ok(gp_engine_read_state(engine, s, values));
        for (int c = 0; c < 3; c++)
            if (!(fabs((double)values[c] - expected) < 1e-6))
                fail_msg("K=%zu, D=%d, recompute %s: %s is %.9g instead of %.9g", stages, replicas,
                         gp_recompute_name(recompute), gp_model_state(model, s).name, (double)values[c], expected);
    }
    gp_engine_destroy(engine);
    test_batch_destroy(&batch);
    gp_model_destroy(model);
}

static void golden_case(void **state) {
    (void)state;
    for (size_t stages = 1; stages <= 3; stages++)
        for (int recompute = 0; recompute < 3; recompute++)
            for (int replicas = 1; replicas <= 3; replicas++)
                check_golden(stages, replicas, (gp_recompute)recompute);
}

/* ---- against all samples at once ---- */

/* Numbers whose mean is large for their spread: a difference of squares would lose all digits in f32. */
static float number(int64_t sample, int64_t channel) {
    return (float)(1000.0 * (double)(channel + 1) + 10.0 * sin((double)(3 * sample * sample + 7 * channel)));
}

static void check_uneven(int64_t samples, int micro_batches, size_t stages, int replicas) {
    enum { CHANNELS = 4 };
    gp_model *model = norm_between(CHANNELS, 0.0); /* the averages are the last mini-batch's */
    gp_engine_options options = test_options(model, stages, samples + 3, micro_batches);
    gp_batch batch = batch_of(samples, CHANNELS);
    options.replicas = replicas;
    float means[CHANNELS], variances[CHANNELS];
    for (int64_t i = 0; i < samples * CHANNELS; i++)
        ((float *)batch.inputs.data)[i] = number(i / CHANNELS, i % CHANNELS);
    gp_engine *engine = start(&options);
    make_step(engine, &batch);
    assert_ok(gp_engine_read_state(engine, 0, means));
    assert_ok(gp_engine_read_state(engine, 1, variances));
    for (int64_t c = 0; c < CHANNELS; c++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < samples; i++)
            mean += (double)number(i, c) / (double)samples;
        for (int64_t i = 0; i < samples; i++)
            variance += pow((double)number(i, c) - mean, 2) / (double)samples;
        if (!(fabs((double)means[c] - mean) < 1e-6 * mean) ||
            !(fabs((double)variances[c] - variance) <= 1e-4 * variance))
            fail_msg("%d samples in %d: mean %.9g instead of %.9g, variance %.9g instead of %.9g", (int)samples,
                     micro_batches, (double)means[c], mean, (double)variances[c], variance);
    }
    gp_engine_destroy(engine);
    test_batch_destroy(&batch);
    gp_model_destroy(model);
}

static void uneven_micro_batches(void **state) {
    (void)state;
    static const int64_t samples[] = {1, 2, 7, 11, 64};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int micro_batches = 1; micro_batches <= 5; micro_batches += 2)
            for (int replicas = 1; replicas <= 4; replicas++)
                check_uneven(samples[i], micro_batches, 1 + i % 3, replicas);
}

/* ---- who changes states, and who does not ---- */

static void assert_states(gp_engine *engine, float mean, float variance) {
    float values[3];
    assert_ok(gp_engine_read_state(engine, 0, values));
    assert_true(values[0] == mean && values[2] == mean);
    assert_ok(gp_engine_read_state(engine, 1, values));
    assert_true(values[0] == variance && values[2] == variance);
}

static void only_steps_change_states(void **state) {
    (void)state;
    gp_model *model = norm_between(3, 0.5);
    gp_engine_options options = test_options(model, 2, 6, 3);
    gp_batch batch;
    gp_step_result result;
    double loss, weight;
    test_batch_create(&batch, model, 6, 1);
    gp_engine *engine = start(&options);
    assert_states(engine, 0, 1);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight));
    assert_states(engine, 0, 1);
    ((float *)batch.inputs.data)[4] = NAN;
    gp_step_options step = test_step_options(0, 0);
    assert_ok(gp_engine_step(engine, &batch, &step, &result));
    assert_false(result.finite);
    assert_states(engine, 0, 1);
    assert_int_equal(gp_engine_read_state(engine, 2, &(float){0}), GP_INVALID);
    gp_engine_destroy(engine);
    test_batch_destroy(&batch);
    gp_model_destroy(model);
}

/* Evaluation normalises with the states, whatever the mini-batch: y = (x - mean) / sqrt(variance + epsilon). */
static double normalised(const gp_batch *batch, int i, const float *mean, const float *variance) {
    double x = (double)((const float *)batch->inputs.data)[i];
    return (x - (double)mean[i % 3]) / sqrt((double)variance[i % 3] + 1e-5);
}

/* The model's output for the first two samples. */
static void check_output(gp_engine *engine, const gp_batch *batch, const float *mean, const float *variance) {
    gp_tensor inputs = batch->inputs, outputs;
    inputs.type.shape.dims[0] = 2;
    assert_ok(gp_tensor_create(&outputs, inputs.type));
    assert_ok(gp_engine_forward(engine, &inputs, &outputs));
    for (int i = 0; i < 6; i++)
        assert_true(fabs((double)((float *)outputs.data)[i] - normalised(batch, i, mean, variance)) < 1e-5);
    gp_tensor_destroy(&outputs);
}

static void evaluation_uses_states(void **state) {
    (void)state;
    static const float mean[] = {1, -2, 0.5f}, variance[] = {4, 0.25f, 1};
    static const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, zeros[3] = {0};
    gp_model *model = norm_between(3, 0.5);
    for (size_t stages = 1; stages <= 3; stages++) {
        gp_engine_options options = test_options(model, stages, 4, 2);
        options.inference = stages == 3;
        gp_batch batch;
        double loss, weight, expected = 0;
        gp_engine *engine = start(&options);
        test_batch_create(&batch, model, 4, 3);
        assert_ok(gp_engine_write_parameter(engine, 2, identity));
        assert_ok(gp_engine_write_parameter(engine, 3, zeros));
        assert_ok(gp_engine_write_state(engine, 0, mean));
        assert_ok(gp_engine_write_state(engine, 1, variance));
        for (int i = 0; i < 12; i++) {
            double error = normalised(&batch, i, mean, variance) - (double)((float *)batch.targets.data)[i];
            expected += error * error / 3;
        }
        assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight));
        if (!(fabs(loss - expected) < 1e-5 * expected)) fail_msg("loss %.9g instead of %.9g", loss, expected);
        check_output(engine, &batch, mean, variance);
        gp_engine_destroy(engine);
        test_batch_destroy(&batch);
    }
    gp_model_destroy(model);
}

/* ---- gradients ---- */

/* Copies samples first .. first + count - 1. */
static gp_batch part_of(const gp_batch *batch, int64_t first, int64_t count) {
    const gp_tensor *from[] = {&batch->inputs, &batch->targets};
    gp_batch part = {0};
    gp_tensor *to[] = {&part.inputs, &part.targets};
    for (int i = 0; i < 2; i++) {
        size_t sample = gp_type_bytes(from[i]->type) / (size_t)from[i]->type.shape.dims[0];
        gp_type type = from[i]->type;
        type.shape.dims[0] = count;
        assert_ok(gp_tensor_create(to[i], type));
        memcpy(to[i]->data, (const char *)from[i]->data + (size_t)first * sample, (size_t)count * sample);
    }
    return part;
}

static float *gradients_of(const gp_model *model, const gp_batch *batch, size_t stages, int micro_batches,
                           size_t *count) {
    int64_t samples = batch->inputs.type.shape.dims[0];
    gp_engine_options options = test_options(model, stages, samples, micro_batches);
    gp_engine *engine = start(&options);
    gp_step_result result;
    assert_ok(gp_engine_gradients(engine, batch, 0, &result));
    float *gradients = test_read_all(engine, model, true, count);
    gp_engine_destroy(engine);
    return gradients;
}

/* A micro-batch is normalised by itself: the gradient of the mean over 3 and 2 samples is made of those of each. */
static void gradients_are_those_of_micro_batches(void **state) {
    (void)state;
    gp_model *model = test_images(3, 0);
    gp_batch all;
    size_t count;
    double error = 0, norm = 0;
    test_batch_create(&all, model, 5, 1);
    gp_batch first = part_of(&all, 0, 3), second = part_of(&all, 3, 2);
    float *whole = gradients_of(model, &all, 3, 2, &count), *a = gradients_of(model, &first, 1, 1, &count);
    float *b = gradients_of(model, &second, 2, 1, &count);
    for (size_t i = 0; i < count; i++) {
        double expected = 0.6 * (double)a[i] + 0.4 * (double)b[i];
        error += pow((double)whole[i] - expected, 2);
        norm += expected * expected;
    }
    if (!(sqrt(error / norm) < 1e-5)) fail_msg("gradients are %g away", sqrt(error / norm));
    gp_free(whole);
    gp_free(a);
    gp_free(b);
    test_batch_destroy(&all);
    test_batch_destroy(&first);
    test_batch_destroy(&second);
    gp_model_destroy(model);
}

/* ---- the same bits ---- */

static void same_bits(void **state) {
    (void)state;
    static const size_t partitions[] = {1, 2, 3};
    gp_model *model = test_images(3, 0.3);
    for (int precision = 0; precision < 2; precision++) {
        gp_engine_options options = test_options(model, 1, 5, 3);
        options.precision = precision ? GP_BF16 : GP_F32;
        options.steps = 6;
        test_all_variants(&options, partitions, 3, 4, 1.0);
    }
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_case),
                                       cmocka_unit_test(uneven_micro_batches),
                                       cmocka_unit_test(only_steps_change_states),
                                       cmocka_unit_test(evaluation_uses_states),
                                       cmocka_unit_test(gradients_are_those_of_micro_batches),
                                       cmocka_unit_test(same_bits)};
    int failed = cmocka_run_group_tests_name("device of GPIPE_TEST_DEVICE, or the CPU", tests, NULL, NULL);
    if (getenv("GPIPE_TEST_DEVICE")) return failed;
    setenv("GPIPE_TEST_DEVICE", "reference", 0);
    return failed + cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
