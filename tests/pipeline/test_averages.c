/* What a step does beside the plain update: averages of the weights, frozen parameters, learning rates of one's own;
 * the same bits for every number of stages and replicas. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/support.h"

enum { SAMPLES = 5, STEPS = 4, FROZEN = 2, SLOW = 3 };

static const double DECAY = 0.75;

static gp_engine_options options_of(const gp_model *model, size_t stages, int replicas) {
    gp_engine_options options = test_options(model, stages, SAMPLES, 2);
    options.replicas = replicas;
    options.shard_optimizer = replicas > 1;
    options.average = true;
    return options;
}

static gp_engine *start(const gp_engine_options *options) {
    gp_engine *engine;
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    return engine;
}

static gp_step_result step(gp_engine *engine, const gp_model *model, uint32_t number, const gp_update *update) {
    gp_batch batch;
    gp_step_result result;
    gp_step_options options = test_step_options(number, 1.0);
    if (update) options.update = *update;
    options.average_decay = DECAY;
    test_batch_create(&batch, model, SAMPLES, number);
    assert_ok(gp_engine_step(engine, &batch, &options, &result));
    assert_true(result.finite);
    test_batch_destroy(&batch);
    return result;
}

static double evaluate(gp_engine *engine, const gp_model *model) {
    gp_batch batch;
    double loss, weight;
    test_batch_create(&batch, model, SAMPLES, 99);
    assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight));
    test_batch_destroy(&batch);
    return loss / weight;
}

/* ---- averages ---- */

static void averages_follow_the_weights(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(2);
    gp_engine_options options = options_of(model, 2, 1);
    gp_engine *engine = start(&options);
    size_t count;
    float *expected = test_read_all(engine, model, false, &count);
    for (uint32_t s = 0; s < STEPS; s++) {
        step(engine, model, s, NULL);
        float *weights = test_read_all(engine, model, false, &count);
        for (size_t i = 0; i < count; i++)
            expected[i] = (float)(DECAY * (double)expected[i] + (1 - DECAY) * (double)weights[i]);
        gp_free(weights);
    }
    float *weights = test_read_all(engine, model, false, &count);
    double loss = evaluate(engine, model);
    assert_ok(gp_engine_show_averages(engine, true));
    float *averages = test_read_all(engine, model, false, &count);
    for (size_t i = 0; i < count; i++)
        if (fabsf(averages[i] - expected[i]) > 1e-6f)
            fail_msg("%zu: %g instead of %g", i, (double)averages[i], (double)expected[i]);
    double averaged = evaluate(engine, model);
    assert_true(averaged != loss);

    gp_batch batch; /* nothing may change what is shown */
    gp_step_result result;
    gp_step_options options_of_step = test_step_options(STEPS, 0);
    test_batch_create(&batch, model, SAMPLES, 1);
    assert_int_equal(gp_engine_step(engine, &batch, &options_of_step, &result), GP_INVALID);
    assert_int_equal(gp_engine_write_parameter(engine, 0, averages), GP_INVALID);
    test_batch_destroy(&batch);

    assert_ok(gp_engine_show_averages(engine, false));
    float *again = test_read_all(engine, model, false, &count);
    test_assert_same(weights, again, count, "weights after the averages were shown");
    assert_true(evaluate(engine, model) == loss);
    gp_free(again);
    gp_free(averages);
    gp_free(weights);
    gp_free(expected);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static float *train_averages(const gp_model *model, size_t stages, int replicas, gp_dtype precision, size_t *count) {
    gp_engine_options options = options_of(model, stages, replicas);
    options.precision = precision;
    gp_engine *engine = start(&options);
    for (uint32_t s = 0; s < STEPS; s++)
        step(engine, model, s, NULL);
    assert_ok(gp_engine_show_averages(engine, true));
    float *averages = test_read_all(engine, model, false, count);
    gp_engine_destroy(engine);
    return averages;
}

static void averages_are_the_same_bits(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(2);
    for (int precision = 0; precision < 2; precision++)
        for (int replicas = 1; replicas < 3; replicas++) {
            size_t count;
            float *one = train_averages(model, 1, replicas, precision ? GP_BF16 : GP_F32, &count);
            float *three = train_averages(model, 3, replicas, precision ? GP_BF16 : GP_F32, &count);
            test_assert_same(one, three, count, "averages at K=1 and K=3");
            gp_free(one);
            gp_free(three);
        }
    gp_model_destroy(model);
}

static void averages_are_refused_without(void **state) {
    (void)state;
    gp_model *model = test_gpt(1, 0, false);
    gp_engine_options options = options_of(model, 1, 1);
    options.average = false;
    gp_engine *engine = start(&options);
    assert_int_equal(gp_engine_show_averages(engine, true), GP_INVALID);
    assert_ok(gp_engine_show_averages(engine, false));
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

/* ---- factors of the learning rate ---- */

/* One step of SGD without clipping; returns the weights. */
static float *one_step(const gp_model *model, size_t stages, int replicas, const double *factors, double *norm,
                       float **before, size_t *count) {
    const gp_update sgd = {.kind = GP_UPDATE_SGD, .lr = 0.125, .first = true};
    gp_engine_options options = options_of(model, stages, replicas);
    options.optimizer = GP_UPDATE_SGD;
    options.lr_factors = factors;
    gp_engine *engine = start(&options);
    if (before) *before = test_read_all(engine, model, false, count);
    gp_batch batch;
    gp_step_result result;
    gp_step_options of_step = {.update = sgd};
    test_batch_create(&batch, model, SAMPLES, 3);
    assert_ok(gp_engine_step(engine, &batch, &of_step, &result));
    test_batch_destroy(&batch);
    *norm = result.gradient_norm;
    float *weights = test_read_all(engine, model, false, count);
    gp_engine_destroy(engine);
    return weights;
}

static void factors_scale_the_step(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    size_t parameters = gp_model_parameters(model), count, at = 0;
    double *factors = gp_allocate_array(parameters, sizeof *factors), full, part;
    float *before;
    for (size_t p = 0; p < parameters; p++)
        factors[p] = p == FROZEN ? 0 : p == SLOW ? 0.5 : 1;
    float *plain = one_step(model, 1, 1, NULL, &full, &before, &count);
    float *scaled = one_step(model, 1, 1, factors, &part, NULL, &count);
    double frozen_squares = 0;
    for (size_t p = 0; p < parameters; p++) {
        size_t elements = (size_t)gp_shape_elements(gp_model_parameter(model, p).shape);
        for (size_t i = at; i < at + elements; i++) {
            float moved = plain[i] - before[i];
            if (p == FROZEN) {
                assert_true(scaled[i] == before[i]);
                frozen_squares += pow((double)moved / 0.125, 2);
            } else if (fabsf(scaled[i] - before[i] - moved * (float)factors[p]) > 1e-6f) {
                fail_msg("parameter %zu moved by %g instead of %g", p, (double)(scaled[i] - before[i]),
                         (double)moved * factors[p]);
            }
        }
        at += elements;
    }
    assert_true(frozen_squares > 0); /* what is frozen does not count in the norm */
    assert_true(fabs(part * part + frozen_squares - full * full) <= 1e-4 * full * full);
    for (int replicas = 1; replicas < 3; replicas++) {
        double norms[2];
        float *one = one_step(model, 1, replicas, factors, &norms[0], NULL, &count);
        float *four = one_step(model, 4, replicas, factors, &norms[1], NULL, &count);
        test_assert_same(one, four, count, "weights with factors at K=1 and K=4");
        assert_true(norms[0] == norms[1]);
        gp_free(one);
        gp_free(four);
    }
    gp_free(plain);
    gp_free(scaled);
    gp_free(before);
    gp_free(factors);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_follow_the_weights),
        cmocka_unit_test(averages_are_the_same_bits),
        cmocka_unit_test(averages_are_refused_without),
        cmocka_unit_test(factors_scale_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
