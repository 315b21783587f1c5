/* Data parallelism: replicas share every mini-batch. With the number of replicas fixed the bits depend neither on the
 * cut, nor on the schedule, nor on whether optimizer state is sharded; across that number gradients differ by rounding
 * only. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "pipeline/worker.h"

enum { BATCH = 7, MICRO_BATCHES = 2 }; /* two replicas take 4 and 3 samples, three take 3, 2, 2 */

/* ---- same bits ---- */

typedef struct variant {
    size_t stages;
    gp_schedule_kind schedule;
    gp_recompute recompute;
    gp_granularity granularity;
    bool shard;
} variant;

static const variant variants[] = {
    {1, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_NEVER, GP_GRANULARITY_STAGE, true},
    {2, GP_SCHEDULE_1F1B, GP_RECOMPUTE_EXCEPT_LAST, GP_GRANULARITY_STAGE, false},
    {2, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_ALWAYS, GP_GRANULARITY_LAYER, true},
    {3, GP_SCHEDULE_NAIVE, GP_RECOMPUTE_ALWAYS, GP_GRANULARITY_STAGE, true},
    {3, GP_SCHEDULE_1F1B, GP_RECOMPUTE_NEVER, GP_GRANULARITY_STAGE, false},
};

static void assert_same_in_all_variants(const gp_model *model, gp_dtype precision, int replicas, int steps,
                                        double clip) {
    double loss, other_loss;
    size_t count;
    gp_engine_options options = test_options(model, 1, BATCH, MICRO_BATCHES);
    options.precision = precision;
    options.replicas = replicas;
    options.recompute = GP_RECOMPUTE_NEVER;
    float *expected = test_train(&options, BATCH, steps, clip, &loss, &count);
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        char what[96];
        options.stages = variants[v].stages;
        options.schedule = variants[v].schedule;
        options.recompute = variants[v].recompute;
        options.granularity = variants[v].granularity;
        options.shard_optimizer = variants[v].shard;
        snprintf(what, sizeof what, "%s, D=%d, variant %zu", gp_dtype_name(precision), replicas, v);
        float *weights = test_train(&options, BATCH, steps, clip, &other_loss, &count);
        test_assert_same(expected, weights, count, what);
        if (loss != other_loss) fail_msg("%s: the loss is %.17g instead of %.17g", what, other_loss, loss);
        gp_free(weights);
    }
    gp_free(expected);
}

/* Dropout, a tied head, clipping; matrices that are cut into pieces and vectors that are not. */
static void gpt_has_the_same_bits(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(3);
    for (int replicas = 2; replicas <= 3; replicas++)
        for (int precision = 0; precision < 2; precision++)
            assert_same_in_all_variants(model, precision ? GP_BF16 : GP_F32, replicas, 4, 1.0);
    gp_model_destroy(model);
    model = test_gpt(6, 0.1, false);
    assert_same_in_all_variants(model, GP_F32, 2, 20, 1.0);
    gp_model_destroy(model);
}

/* One weight, large enough to be cut, in many layers. */
static void a_shared_weight_has_the_same_bits(void **state) {
    (void)state;
    gp_model *model = test_shared(5, 70);
    assert_same_in_all_variants(model, GP_F32, 2, 4, 1.0);
    assert_same_in_all_variants(model, GP_F32, 3, 4, 0);
    gp_model_destroy(model);
}

static void skips_have_the_same_bits(void **state) {
    (void)state;
    gp_model *model = test_skips(6, 6, (int[]){1, 3, 5, -1});
    assert_same_in_all_variants(model, GP_F32, 3, 4, 0);
    gp_model_destroy(model);
}

/* ---- against one replica ---- */

static float *gradients_with(gp_engine_options options, int replicas, int64_t samples, size_t *count) {
    gp_engine *engine;
    gp_batch batch;
    gp_step_result result;
    options.replicas = replicas;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 42));
    test_batch_create(&batch, options.model, samples, 3);
    assert_ok(gp_engine_gradients(engine, &batch, 5, &result));
    float *gradients = test_read_all(engine, options.model, true, count);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    return gradients;
}

/* Same samples, same dropout masks, every sample with the same weight however the replicas share; some may get none. */
static void replicas_change_rounding_only(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0.1, false);
    for (int64_t samples = 2; samples <= BATCH; samples += 5)
        for (int replicas = 2; replicas <= 5; replicas++) {
            size_t count;
            gp_engine_options options = test_options(model, 2, BATCH, MICRO_BATCHES);
            options.shard_optimizer = replicas % 2 == 0; /* gradients are whole all the same */
            float *one = gradients_with(options, 1, samples, &count);
            float *several = gradients_with(options, replicas, samples, &count);
            double difference = 0, norm = 0;
            for (size_t i = 0; i < count; i++) {
                difference += pow((double)one[i] - (double)several[i], 2);
                norm += pow((double)one[i], 2);
            }
            if (!(sqrt(difference) <= 1e-5 * sqrt(norm)) || norm == 0)
                fail_msg("D=%d, %d samples: relative difference %g", replicas, (int)samples, sqrt(difference / norm));
            gp_free(one);
            gp_free(several);
        }
    gp_model_destroy(model);
}

static void evaluation_and_output_are_those_of_one(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0.1, false);
    double loss[3], weight[3];
    float output[3][2 * 4 * 11];
    for (int replicas = 1; replicas <= 3; replicas++) {
        gp_engine *engine;
        gp_batch batch;
        gp_engine_options options = test_options(model, 2, 6, 1);
        options.replicas = replicas;
        options.inference = replicas == 2;
        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 42));
        test_batch_create(&batch, model, 2, 9); /* fewer than replicas */
        assert_ok(gp_engine_evaluate(engine, &batch, &loss[replicas - 1], &weight[replicas - 1]));
        gp_tensor logits = {.type = {GP_F32, gp_shape_of(3, (int64_t[]){2, 4, 11})}, .data = output[replicas - 1]};
        assert_ok(gp_engine_forward(engine, &batch.inputs, &logits));
        test_batch_destroy(&batch);
        gp_engine_destroy(engine);
    }
    for (int r = 1; r < 3; r++) {
        assert_true(fabs(loss[r] - loss[0]) < 1e-5 * loss[0]);
        assert_true(weight[r] == weight[0]);
        assert_memory_equal(output[r], output[0], sizeof output[0]);
    }
    gp_model_destroy(model);
}

/* ---- memory ---- */

/* Planned equals real is checked by test_train; here that a share is a share. */
static void sharding_saves_optimizer_state(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(3);
    gp_engine_plan whole, sharded;
    gp_engine_options options = test_options(model, 2, 8, 2);
    options.replicas = 4;
    assert_ok(gp_engine_plan_create(&whole, &options));
    options.shard_optimizer = true;
    assert_ok(gp_engine_plan_create(&sharded, &options));
    assert_int_equal(sharded.workers, 8);
    for (size_t w = 0; w < 8; w++) {
        assert_int_equal(sharded.worker[w].replica, w / 2);
        assert_int_equal(sharded.worker[w].stage, w % 2);
        size_t all = whole.worker[w].bytes.optimizer, own = sharded.worker[w].bytes.optimizer;
        assert_true(own * 3 < all && own * 4 > all);
        assert_int_equal(sharded.worker[w].bytes.gradients, whole.worker[w].bytes.gradients);
    }
    gp_engine_plan_destroy(&whole);
    gp_engine_plan_destroy(&sharded);
    gp_model_destroy(model);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(2);
    for (int shard = 0; shard < 2; shard++) {
        gp_engine *engine;
        gp_engine_options options = test_options(model, 2, BATCH, MICRO_BATCHES);
        options.replicas = 2;
        options.shard_optimizer = shard == 1;
        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 42));
        gp_batch batch;
        gp_step_result result;
        uint64_t before = 0;
        test_batch_create(&batch, model, BATCH, 3);
        for (uint32_t s = 0; s < 3; s++) {
            gp_step_options step = test_step_options(s, 1.0);
            if (s == 1) before = gp_allocation_count();
            assert_ok(gp_engine_step(engine, &batch, &step, &result));
        }
        assert_int_equal(gp_allocation_count(), before);
        assert_true(result.workers[0].bytes_reduced > 0);
        test_batch_destroy(&batch);
        gp_engine_destroy(engine);
    }
    gp_model_destroy(model);
}

/* ---- cutting ---- */

/* Every element of every parameter is in one bucket and in one piece of it. */
static void buckets_cover_everything_once(void **state) {
    (void)state;
    gp_model *models[2] = {test_wide_gpt(3), test_shared(5, 70)};
    for (int m = 0; m < 2; m++)
        for (int replicas = 2; replicas <= 5; replicas++) {
            gp_device *device;
            gp_stage *stage;
            gp_buckets buckets;
            size_t layers = gp_model_layer_count(models[m]), bounds[2] = {0, layers}, element;
            assert_ok(gp_device_create(&device, &(gp_device_options){0}));
            gp_stage_options options = {.model = models[m], .device = device, .bounds = bounds, .stages = 1};
            assert_ok(gp_stage_create(&stage, &options));
            element = device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
            assert_ok(gp_buckets_create(&buckets, stage, replicas, element));
            int *covered = gp_allocate_array(stage->bytes.weights / element, sizeof *covered);
            for (size_t b = 0; b < buckets.count; b++)
                for (int r = 0; r < replicas; r++)
                    for (int64_t i = 0; i < buckets.list[b].pieces[r].count; i++)
                        covered[buckets.list[b].pieces[r].first + i]++;
            for (size_t p = 0; p < stage->parameter_count; p++)
                for (int64_t i = 0; i < stage->parameters[p].elements; i++)
                    assert_int_equal(covered[stage->parameters[p].offset / element + (size_t)i], 1);
            gp_free(covered);
            gp_buckets_destroy(&buckets);
            gp_stage_destroy(stage);
            gp_device_destroy(device);
        }
    gp_model_destroy(models[0]);
    gp_model_destroy(models[1]);
}

/* ---- overlap ---- */

typedef struct observer {
    gp_engine *engine;
    _Atomic int seen; /* replicas in which something was summed while the first layer had not begun its backward */
} observer;

/* In the last backward of layer 0 the gradients of the layers behind it must be on their way: waits for the first. */
static gp_status expect_a_sum(void *user, int layer, float *values, int64_t count) {
    observer *watch = user;
    (void)values, (void)count;
    if (layer != TEST_BACKWARD) return GP_OK;
    double limit = gp_seconds() + 20;
    for (size_t w = 0; w < watch->engine->count; w++) {
        const gp_reducer *reducer = &watch->engine->workers[w].reducer;
        while (atomic_load(&reducer->summed) == 0)
            if (gp_seconds() > limit) return gp_error(GP_FAILED, "nothing was summed while backward was running");
    }
    atomic_fetch_add(&watch->seen, 1);
    return GP_OK;
}

static void sums_run_beside_backward(void **state) {
    (void)state;
    gp_model *model = test_hooked(4, 70);
    gp_engine_options options = test_options(model, 1, 2, 1);
    observer watch = {0};
    options.replicas = 2;
    assert_ok(gp_engine_create(&watch.engine, &options));
    assert_ok(gp_engine_initialise(watch.engine, 42));
    gp_step_options step = test_step_options(0, 1.0);
    gp_step_result result;
    gp_batch batch;
    test_batch_create(&batch, model, 2, 0);
    test_set_hook(expect_a_sum, &watch);
    assert_ok(gp_engine_step(watch.engine, &batch, &step, &result));
    test_set_hook(NULL, NULL);
    assert_int_equal(watch.seen, 2);
    test_batch_destroy(&batch);
    gp_engine_destroy(watch.engine);
    gp_model_destroy(model);
}

/* ---- when something is wrong ---- */

typedef struct culprit {
    _Atomic int calls;
    int bad_call;
    bool fails;
} culprit;

static gp_status misbehave(void *user, int layer, float *values, int64_t count) {
    culprit *b = user;
    if (layer != 1 || atomic_fetch_add(&b->calls, 1) != b->bad_call) return GP_OK;
    if (b->fails) return gp_error(GP_FAILED, "the operation was told to fail");
    values[count / 2] = nanf("");
    return GP_OK;
}

static void a_failure_names_the_replica(void **state) {
    (void)state;
    gp_model *model = test_hooked(3, 4);
    for (int call = 0; call < 4; call++) {
        culprit b = {.bad_call = call, .fails = true};
        gp_engine *engine;
        gp_step_result result;
        gp_step_options step = test_step_options(0, 1.0);
        gp_batch batch;
        gp_engine_options options = test_options(model, 2, 4, 2);
        options.replicas = 2;
        options.recompute = GP_RECOMPUTE_NEVER;
        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 42));
        test_batch_create(&batch, model, 4, 0);
        test_set_hook(misbehave, &b);
        assert_int_equal(gp_engine_step(engine, &batch, &step, &result), GP_FAILED);
        assert_non_null(strstr(gp_error_message(), "replica "));
        assert_non_null(strstr(gp_error_message(), "layer 1 (small), hooked: the operation was told to fail"));
        gp_engine_destroy(engine);
        test_set_hook(NULL, NULL);
        test_batch_destroy(&batch);
    }
    gp_model_destroy(model);
}

/* NaN in one replica: no replica updates, and the next step goes on with the same weights everywhere. */
static void nan_in_one_replica_skips_the_update_in_all(void **state) {
    (void)state;
    gp_model *model = test_hooked(3, 70);
    for (int shard = 0; shard < 2; shard++) {
        culprit b = {.bad_call = 0};
        gp_engine *engine;
        gp_step_result result;
        gp_batch batch;
        size_t count;
        gp_engine_options options = test_options(model, 2, 3, 2);
        options.replicas = 2;
        options.shard_optimizer = shard == 1;
        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 42));
        float *before = test_read_all(engine, model, false, &count);
        test_batch_create(&batch, model, 3, 0);
        test_set_hook(misbehave, &b);
        gp_step_options step = test_step_options(0, 1.0);
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        test_set_hook(NULL, NULL);
        assert_false(result.finite);
        float *after = test_read_all(engine, model, false, &count);
        test_assert_same(before, after, count, "weights after a step that is not finite");
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        assert_true(result.finite);
        float *next = test_read_all(engine, model, false, &count);
        gp_engine_destroy(engine);

        assert_ok(gp_engine_create(&engine, &options));
        assert_ok(gp_engine_initialise(engine, 42));
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        float *expected = test_read_all(engine, model, false, &count);
        test_assert_same(expected, next, count, "the step after it");
        gp_engine_destroy(engine);
        test_batch_destroy(&batch);
        float *all[] = {before, after, next, expected};
        for (size_t i = 0; i < 4; i++)
            gp_free(all[i]);
    }
    gp_model_destroy(model);
}

static void bad_numbers_are_refused(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine *engine;
    gp_engine_options options = test_options(model, 1, 3, 1);
    options.replicas = 4;
    assert_int_equal(gp_engine_create(&engine, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "4 replicas share a mini-batch of 3"));
    options.replicas = -1;
    assert_int_equal(gp_engine_create(&engine, &options), GP_INVALID);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_has_the_same_bits),
        cmocka_unit_test(a_shared_weight_has_the_same_bits),
        cmocka_unit_test(skips_have_the_same_bits),
        cmocka_unit_test(replicas_change_rounding_only),
        cmocka_unit_test(evaluation_and_output_are_those_of_one),
        cmocka_unit_test(sharding_saves_optimizer_state),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(buckets_cover_everything_once),
        cmocka_unit_test(sums_run_beside_backward),
        cmocka_unit_test(a_failure_names_the_replica),
        cmocka_unit_test(nan_in_one_replica_skips_the_update_in_all),
        cmocka_unit_test(bad_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
