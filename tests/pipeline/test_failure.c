/* What the engine does when something goes wrong inside a step: an error stops all workers and is told with its place,
 * a thread that ends is a lost peer, NaN is traced to the layer where it began. */
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"

static void pause_for(double seconds) {
    struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static gp_engine *create(const gp_engine_options *options) {
    gp_engine *engine;
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    return engine;
}

static gp_status step_on(gp_engine *engine, const gp_model *model, int64_t samples, uint32_t number,
                         gp_step_result *result) {
    gp_batch batch;
    gp_step_options options = test_step_options(number, 1.0);
    test_batch_create(&batch, model, samples, number);
    gp_status status = gp_engine_step(engine, &batch, &options, result);
    test_batch_destroy(&batch);
    return status;
}

/* ---- errors ---- */

/* What the hooked operation does: counts its calls by layer, and misbehaves in one layer from a certain call on. */
typedef struct behaviour {
    atomic_int calls[8];
    int slow_layer; /* takes 100 ms */
    int bad_layer, bad_call;
    enum { FAILS, EXITS, MAKES_NAN, WAITS } how;
} behaviour;

static gp_status behave(void *user, int layer, float *values, int64_t count) {
    behaviour *b = user;
    if (layer >= TEST_BACKWARD) return GP_OK;
    int call = atomic_fetch_add(&b->calls[layer], 1);
    if (layer == b->slow_layer) pause_for(0.1);
    if (layer != b->bad_layer || call != b->bad_call) return GP_OK;
    if (b->how == FAILS) return gp_error(GP_FAILED, "the operation was told to fail");
    if (b->how == EXITS) pthread_exit(NULL);
    if (b->how == WAITS) pause_for(0.2);
    if (b->how == MAKES_NAN) values[count / 2] = nanf("");
    return GP_OK;
}

/* Four stages, three micro-batches: the last one fails at once, while the third is at its second forward. */
static void a_failure_stops_all_early(void **state) {
    (void)state;
    behaviour b = {.slow_layer = 2, .bad_layer = 3, .how = FAILS};
    gp_model *model = test_hooked(4, 4);
    gp_engine_options options = test_options(model, 4, 3, 3);
    options.bounds = (size_t[]){0, 1, 2, 3, 4};
    gp_engine *engine = create(&options);
    gp_step_result result;
    test_set_hook(behave, &b);
    assert_int_equal(step_on(engine, model, 3, 0, &result), GP_FAILED);
    assert_string_equal(gp_error_message(),
                        "stage 3, micro-batch 0: layer 3 (small), hooked: the operation was told to fail");
    assert_int_equal(b.calls[2], 2);
    assert_int_equal(step_on(engine, model, 3, 0, &result), GP_FAILED); /* again the same, at once */
    assert_non_null(strstr(gp_error_message(), "stage 3, micro-batch 0"));
    gp_engine_destroy(engine);
    assert_non_null(strstr(gp_error_message(), "stage 3, micro-batch 0")); /* still there */
    test_set_hook(NULL, NULL);
    gp_model_destroy(model);
}

/* Wherever and whenever the error is, for every schedule: no hang, the place is told. */
static void failures_anywhere_are_told(void **state) {
    (void)state;
    gp_model *model = test_hooked(4, 4);
    for (int schedule = 0; schedule < 3; schedule++)
        for (int layer = 0; layer < 4; layer++)
            for (int call = 0; call < 6; call += 5) { /* the sixth is a recomputation */
                behaviour b = {.slow_layer = -1, .bad_layer = layer, .bad_call = call, .how = FAILS};
                gp_engine_options options = test_options(model, 3, 3, 3);
                char place[32];
                options.schedule = (gp_schedule_kind)schedule;
                options.recompute = GP_RECOMPUTE_ALWAYS;
                gp_engine *engine = create(&options);
                gp_step_result result;
                test_set_hook(behave, &b);
                assert_int_equal(step_on(engine, model, 3, 0, &result), GP_FAILED);
                snprintf(place, sizeof place, "layer %d (small), hooked", layer);
                assert_non_null(strstr(gp_error_message(), place));
                gp_engine_destroy(engine);
            }
    test_set_hook(NULL, NULL);
    gp_model_destroy(model);
}

static void an_ended_thread_is_a_lost_peer(void **state) {
    (void)state;
    behaviour b = {.slow_layer = -1, .bad_layer = 1, .bad_call = 1, .how = EXITS};
    gp_model *model = test_hooked(3, 4);
    gp_engine_options options = test_options(model, 3, 3, 3);
    options.bounds = (size_t[]){0, 1, 2, 3};
    gp_engine *engine = create(&options);
    gp_step_result result;
    test_set_hook(behave, &b);
    assert_int_equal(step_on(engine, model, 3, 0, &result), GP_PEER_LOST);
    assert_string_equal(gp_error_message(), "worker 1 ended unexpectedly");
    gp_engine_destroy(engine);
    test_set_hook(NULL, NULL);
    gp_model_destroy(model);
}

static void an_index_out_of_range_is_told(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 2, 4, 4);
    gp_engine *engine = create(&options);
    gp_step_options step_options = test_step_options(0, 0);
    gp_step_result result;
    gp_batch batch;
    test_batch_create(&batch, model, 4, 0);
    ((int32_t *)batch.inputs.data)[2 * 4] = 11; /* of micro-batch 2; the vocabulary is 0 to 10 */
    assert_int_equal(gp_engine_step(engine, &batch, &step_options, &result), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "stage 0, micro-batch 2: layer 0 ("));
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

static int waits_reported;
static char first_report[512];

static void count_reports(void *user, gp_log_level level, const char *message) {
    (void)user;
    if (level == GP_LOG_WARNING && strstr(message, "has waited") && waits_reported++ == 0)
        snprintf(first_report, sizeof first_report, "%s", message);
}

static void long_waits_are_reported(void **state) {
    (void)state;
    behaviour b = {.slow_layer = -1, .bad_layer = 0, .bad_call = 0, .how = WAITS};
    gp_model *model = test_hooked(2, 4);
    gp_engine_options options = test_options(model, 2, 2, 2);
    options.report_after = 0.05;
    gp_log_set(count_reports, NULL, GP_LOG_WARNING);
    gp_engine *engine = create(&options);
    gp_step_result result;
    test_set_hook(behave, &b);
    assert_ok(step_on(engine, model, 2, 0, &result));
    gp_engine_destroy(engine);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    test_set_hook(NULL, NULL);
    assert_true(waits_reported >= 1);
    assert_non_null(strstr(first_report, "worker 1 (F0 of stage 1) has waited"));
    assert_non_null(strstr(first_report, "for a message from worker 0 (F0 of stage 0)"));
    gp_model_destroy(model);
}

/* ---- how often layers run ---- */

static void recomputations_are_as_many_as_asked_for(void **state) {
    (void)state;
    static const struct {
        gp_recompute mode;
        int forwards; /* of two micro-batches, with recomputations */
    } cases[] = {{GP_RECOMPUTE_ALWAYS, 4}, {GP_RECOMPUTE_EXCEPT_LAST, 3}, {GP_RECOMPUTE_NEVER, 2}};
    gp_model *model = test_hooked(4, 4);
    for (size_t c = 0; c < 3; c++)
        for (int granularity = 0; granularity < 2; granularity++) {
            behaviour b = {.slow_layer = -1, .bad_layer = -1};
            gp_engine_options options = test_options(model, 2, 2, 2);
            options.recompute = cases[c].mode;
            options.granularity = (gp_granularity)granularity;
            gp_engine *engine = create(&options);
            gp_step_result result;
            gp_batch batch;
            double loss, weight;
            test_set_hook(behave, &b);
            assert_ok(step_on(engine, model, 2, 0, &result));
            for (int layer = 0; layer < 4; layer++) {
                assert_int_equal(b.calls[layer], cases[c].forwards);
                b.calls[layer] = 0;
            }
            test_batch_create(&batch, model, 2, 0);
            assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight));
            for (int layer = 0; layer < 4; layer++)
                assert_int_equal(b.calls[layer], 2);
            test_batch_destroy(&batch);
            gp_engine_destroy(engine);
        }
    test_set_hook(NULL, NULL);
    gp_model_destroy(model);
}

/* ---- NaN ---- */

static gp_status make_nan(void *user, int layer, float *values, int64_t count) {
    if (layer == *(int *)user) values[count / 2] = nanf("");
    return GP_OK;
}

/* A NaN made by `layer` (of the hook) in every micro-batch is found, nothing is updated, and training goes on as if the
 * step had not been. */
static void assert_traced(size_t stages, int layer, const char *fault) {
    gp_model *model = test_hooked(6, 4);
    gp_engine_options options = test_options(model, stages, 3, 3);
    gp_engine *engine = create(&options), *fresh = create(&options);
    gp_step_result result;
    size_t count;
    float *before = test_read_all(engine, model, false, &count);
    test_set_hook(make_nan, &layer);
    assert_ok(step_on(engine, model, 3, 0, &result));
    test_set_hook(NULL, NULL);
    assert_false(result.finite);
    assert_string_equal(result.fault, fault);
    float *after = test_read_all(engine, model, false, &count);
    test_assert_same(before, after, count, "weights after a step that was not finite");
    assert_ok(step_on(engine, model, 3, 1, &result));
    assert_true(result.finite);
    assert_ok(step_on(fresh, model, 3, 1, &result));
    float *next = test_read_all(engine, model, false, &count);
    float *expected = test_read_all(fresh, model, false, &count);
    test_assert_same(expected, next, count, "weights after the next step");
    float *all[] = {before, after, next, expected};
    for (size_t i = 0; i < 4; i++)
        gp_free(all[i]);
    gp_engine_destroy(engine);
    gp_engine_destroy(fresh);
    gp_model_destroy(model);
}

static void nan_is_traced_to_its_layer(void **state) {
    (void)state;
    for (size_t stages = 1; stages <= 3; stages++) {
        assert_traced(stages, 3, "layer 3 (small), forward of hooked, micro-batch 0");
        assert_traced(stages, 3 + TEST_BACKWARD, "layer 3 (small), backward of hooked_back, micro-batch 0");
    }
}

/* An infinite weight, a target that is too far away, an input that is none. */
static void faults_are_told_with_direction(void **state) {
    (void)state;
    gp_model *model = test_hooked(6, 4);
    gp_engine_options options = test_options(model, 3, 4, 2);
    gp_step_result result;
    size_t parameters = gp_model_parameters(model);
    float weight[16];
    for (size_t p = 0; p < parameters; p++) {
        gp_parameter_info info = gp_model_parameter(model, p);
        if (strcmp(info.name, "layers.4.weight") != 0) continue;
        gp_engine *engine = create(&options);
        assert_ok(gp_engine_read_parameter(engine, p, weight));
        weight[7] = INFINITY;
        assert_ok(gp_engine_write_parameter(engine, p, weight));
        assert_ok(step_on(engine, model, 4, 0, &result));
        assert_false(result.finite);
        assert_string_equal(result.fault, "layer 4 (small), forward of linear, micro-batch 0");
        gp_engine_destroy(engine);
    }
    gp_engine *engine = create(&options);
    gp_batch batch;
    gp_step_options step_options = test_step_options(0, 0);
    test_batch_create(&batch, model, 4, 0);
    float *targets = batch.targets.data;
    for (int i = 0; i < 16; i++)
        targets[i] = i == 9 ? 3e38f : 0;
    assert_ok(gp_engine_step(engine, &batch, &step_options, &result));
    assert_false(result.finite);
    assert_string_equal(result.fault, "the loss, forward of squared_error, micro-batch 1");
    for (int i = 0; i < 16; i++)
        targets[i] = 0;
    ((float *)batch.inputs.data)[0] = nanf("");
    assert_ok(gp_engine_step(engine, &batch, &step_options, &result));
    assert_string_equal(result.fault, "the inputs, micro-batch 0");
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

/* ---- memory that runs out on the host ---- */

static void every_failing_allocation_is_reported(void **state) {
    (void)state;
    gp_model *model = test_hooked(3, 4);
    gp_engine_options options = test_options(model, 2, 2, 2);
    gp_engine *engine;
    gp_status status = GP_OUT_OF_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != GP_OK; n += n < 200 ? 1 : 23) {
        gp_allocation_fail_at(n);
        status = gp_engine_create(&engine, &options);
        gp_allocation_fail_at(0);
        failures += status != GP_OK;
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        assert_true((engine == NULL) == (status != GP_OK));
        gp_engine_destroy(engine);
    }
    assert_true(failures > 50);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_stops_all_early),
        cmocka_unit_test(failures_anywhere_are_told),
        cmocka_unit_test(an_ended_thread_is_a_lost_peer),
        cmocka_unit_test(an_index_out_of_range_is_told),
        cmocka_unit_test(long_waits_are_reported),
        cmocka_unit_test(recomputations_are_as_many_as_asked_for),
        cmocka_unit_test(nan_is_traced_to_its_layer),
        cmocka_unit_test(faults_are_told_with_direction),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
