/* What evaluations tell of a classifier: checked against the model's outputs, for stages, replicas, uneven
 * micro-batches and labels that do not count. */
#include "base/memory.h"
#include "pipeline/support.h"

enum { SAMPLES = 7, IGNORED = 3 };

static int32_t count_larger(const float *logits, int64_t classes, int32_t label) {
    int32_t larger = 0;
    for (int64_t c = 0; c < classes; c++)
        larger += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
    return larger;
}

/* Sample by sample through gp_engine_forward. */
static void expect(gp_engine *engine, const gp_model *model, const gp_batch *batch, gp_prediction *expected) {
    int64_t classes = gp_model_classes(model), pixels = gp_shape_elements(gp_model_input_type(model).shape);
    float *logits = gp_allocate_array((size_t)classes, sizeof *logits);
    assert_non_null(logits);
    for (int s = 0; s < SAMPLES; s++) {
        gp_tensor input = batch->inputs, output = {{GP_F32, {2, {1, classes}}}, logits};
        input.type.shape.dims[0] = 1;
        input.data = (float *)batch->inputs.data + s * pixels;
        assert_ok(gp_engine_forward(engine, &input, &output));
        int32_t label = ((const int32_t *)batch->targets.data)[s];
        expected[s] = (gp_prediction){.label = label};
        for (int32_t c = 0; c < classes; c++)
            if (count_larger(logits, classes, c) == 0) expected[s].predicted = c;
        if (label >= 0) expected[s].rank = count_larger(logits, classes, label);
    }
    gp_free(logits);
}

static void check(const gp_model *model, size_t stages, int replicas, int micro_batches, gp_dtype precision,
                  gp_device_type device) {
    gp_prediction expected[SAMPLES];
    double loss, weight;
    gp_batch batch;
    gp_engine *engine;
    gp_engine_options options = test_options(model, stages, SAMPLES + 1, micro_batches);
    options.replicas = replicas;
    options.predictions = true;
    options.device.type = device;
    options.precision = precision;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 5));
    test_batch_create(&batch, model, SAMPLES, 3);
    ((int32_t *)batch.targets.data)[IGNORED] = -1;
    expect(engine, model, &batch, expected);
    for (int again = 0; again < 2; again++) {
        assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight));
        assert_true(weight == SAMPLES - 1);
        for (int s = 0; s < SAMPLES; s++) {
            const gp_prediction *found = gp_engine_prediction(engine, s);
            assert_int_equal(found->label, expected[s].label);
            assert_int_equal(found->predicted, expected[s].predicted);
            assert_int_equal(found->rank, expected[s].rank);
        }
    }
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
}

static void predictions_are_those_of_the_outputs(void **state) {
    (void)state;
    gp_model *model = test_images(2, 0.2);
    assert_true(gp_model_classes(model) > 1);
    for (size_t stages = 1; stages <= 3; stages++)
        for (int replicas = 1; replicas <= 2; replicas++) {
            check(model, stages, replicas, 1, GP_F32, GP_DEVICE_REFERENCE);
            check(model, stages, replicas, 3, GP_F32, GP_DEVICE_REFERENCE);
            check(model, stages, replicas, 3, GP_BF16, GP_DEVICE_REFERENCE);
        }
    gp_model_destroy(model);
}

/* Of two views: by the sum of the outputs for both; an evaluation afterwards knows nothing of them. */
static void views_are_summed(void **state) {
    (void)state;
    gp_model *model = test_images(2, 0.2);
    int64_t classes = gp_model_classes(model);
    float *logits = gp_allocate_array((size_t)(2 * classes), sizeof *logits);
    assert_non_null(logits);
    for (int replicas = 1; replicas <= 2; replicas++) {
        gp_batch views[2];
        double loss[3], weight;
        gp_engine *engine;
        gp_engine_options options = test_options(model, 2, SAMPLES, 3);
        options.replicas = replicas;
        options.predictions = true;
        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 5));
        for (uint32_t v = 0; v < 2; v++)
            test_batch_create(&views[v], model, SAMPLES, 3 + v);
        assert_ok(gp_engine_evaluate(engine, &views[0], &loss[0], &weight));
        gp_batch second = views[1];
        second.targets = views[0].targets;
        assert_ok(gp_engine_evaluate_view(engine, &second, &loss[1], &weight));
        assert_true(weight == SAMPLES && loss[0] != loss[1]);
        gp_prediction found[SAMPLES];
        for (int s = 0; s < SAMPLES; s++)
            found[s] = *gp_engine_prediction(engine, s);
        for (int s = 0; s < SAMPLES; s++) {
            int64_t pixels = gp_shape_elements(gp_model_input_type(model).shape);
            for (int v = 0; v < 2; v++) {
                gp_tensor input = views[v].inputs, output = {{GP_F32, {2, {1, classes}}}, logits + v * classes};
                input.type.shape.dims[0] = 1;
                input.data = (float *)views[v].inputs.data + s * pixels;
                assert_ok(gp_engine_forward(engine, &input, &output));
            }
            for (int64_t c = 0; c < classes; c++)
                logits[c] += logits[classes + c];
            assert_int_equal(count_larger(logits, classes, found[s].predicted), 0);
            assert_int_equal(count_larger(logits, classes, found[s].label), found[s].rank);
        }
        assert_ok(gp_engine_evaluate(engine, &views[0], &loss[2], &weight));
        assert_true(loss[2] == loss[0]);
        for (int v = 0; v < 2; v++)
            test_batch_destroy(&views[v]);
        gp_engine_destroy(engine);
    }
    gp_free(logits);
    gp_model_destroy(model);
}

static void others_are_no_classifiers(void **state) {
    (void)state;
    gp_model *gpt = test_gpt(1, 0, false), *skips = test_skips(4, 4, (int[]){2, -1});
    gp_engine_options options = test_options(gpt, 1, 2, 1);
    gp_engine *engine;
    assert_int_equal(gp_model_classes(gpt), 0);
    assert_int_equal(gp_model_classes(skips), 0);
    assert_ok(gp_engine_create(&engine, &options));
    assert_null(gp_engine_prediction(engine, 0));
    gp_engine_destroy(engine);
    gp_model_destroy(gpt);
    gp_model_destroy(skips);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_those_of_the_outputs),
        cmocka_unit_test(views_are_summed),
        cmocka_unit_test(others_are_no_classifiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
