/* The promise of the project: with M fixed, the bits of every weight after any number of steps depend neither on the
 * number of partitions, nor on the schedule, nor on what is recomputed. And across M gradients differ by rounding only.
 */
#include "variants.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"

enum { BATCH = 5, MICRO_BATCHES = 3 }; /* micro-batches of 2, 2 and 1 */

static void assert_all_variants(const gp_model *model, gp_dtype precision, const size_t *partitions,
                                size_t partition_count, int steps, double clip) {
    gp_engine_options options = test_options(model, 1, BATCH, MICRO_BATCHES);
    options.precision = precision;
    test_all_variants(&options, partitions, partition_count, steps, clip);
}

static const size_t partitions[] = {1, 2, 3, 5};

static void gpt_in_f32(void **state) {
    (void)state;
    gp_model *model = test_gpt(6, 0.1, false);
    assert_all_variants(model, GP_F32, partitions, 4, 20, 1.0);
    gp_model_destroy(model);
}

static void gpt_in_bf16(void **state) {
    (void)state;
    gp_model *model = test_gpt(6, 0.1, false);
    assert_all_variants(model, GP_BF16, partitions, 4, 20, 1.0);
    gp_model_destroy(model);
}

/* The mask goes from the first stage straight to every other. */
static void bert_with_padding(void **state) {
    (void)state;
    gp_model *model = test_bert(4, 0.1);
    assert_all_variants(model, GP_F32, partitions, 4, 6, 1.0);
    assert_all_variants(model, GP_BF16, partitions, 4, 6, 1.0);
    gp_model_destroy(model);
}

/* A skip that three layers of three stages take, and one layer of the stage that made it; without clipping. */
static void skips_over_stages(void **state) {
    (void)state;
    static const size_t cuts[] = {1, 2, 3, 4, 8};
    gp_model *model = test_skips(8, 6, (int[]){1, 3, 5, 6, -1});
    assert_all_variants(model, GP_F32, cuts, 5, 4, 0);
    assert_all_variants(model, GP_BF16, cuts, 5, 4, 0);
    gp_model_destroy(model);
}

/* Five layers share one weight: the sum of its gradients has one order, whoever holds the uses. */
static void one_weight_in_many_stages(void **state) {
    (void)state;
    static const size_t cuts[] = {1, 2, 3, 5, 7};
    gp_model *model = test_shared(7, 40); /* enough elements for every holder to add a part */
    assert_all_variants(model, GP_F32, cuts, 5, 4, 1.0);
    gp_model_destroy(model);
}

/* Wide enough for packed weights. Smaller mini-batches come in between: for their sizes nothing was planned. */
static float *train_unevenly(const gp_model *model, gp_dtype precision, size_t stages, gp_recompute recompute,
                             size_t *count) {
    static const int64_t sizes[] = {8, 3, 8, 1, 5};
    gp_engine_options options = test_options(model, stages, 8, 2);
    gp_engine *engine;
    gp_step_result result;
    options.precision = precision;
    options.recompute = recompute;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 42));
    for (uint32_t s = 0; s < 5; s++) {
        gp_batch batch;
        gp_step_options step = test_step_options(s, 1.0);
        test_batch_create(&batch, model, sizes[s], s);
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        assert_true(result.finite);
        test_batch_destroy(&batch);
    }
    float *weights = test_read_all(engine, model, false, count);
    gp_engine_destroy(engine);
    return weights;
}

static void packed_weights_and_uneven_batches(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(3);
    for (int precision = 0; precision < 2; precision++) {
        gp_dtype dtype = precision ? GP_BF16 : GP_F32;
        size_t count;
        float *expected = train_unevenly(model, dtype, 1, GP_RECOMPUTE_NEVER, &count);
        for (size_t stages = 1; stages <= 3; stages++) {
            float *weights = train_unevenly(model, dtype, stages, GP_RECOMPUTE_EXCEPT_LAST, &count);
            test_assert_same(expected, weights, count, precision ? "wide, bf16" : "wide, f32");
            gp_free(weights);
        }
        gp_free(expected);
    }
    gp_model_destroy(model);
}

/* ---- across M ---- */

static float *gradients_with(const gp_model *model, size_t stages, int micro_batches, size_t *count) {
    gp_engine *engine;
    gp_batch batch;
    gp_step_result result;
    gp_engine_options options = test_options(model, stages, 8, micro_batches);
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 42));
    test_batch_create(&batch, model, 8, 3);
    assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
    float *gradients = test_read_all(engine, model, true, count);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    return gradients;
}

static void micro_batches_change_rounding_only(void **state) {
    (void)state;
    static const int numbers[] = {2, 3, 8};
    gp_model *model = test_gpt(6, 0.1, false);
    size_t count;
    float *one = gradients_with(model, 1, 1, &count);
    for (size_t n = 0; n < 3; n++) {
        float *other = gradients_with(model, 2, numbers[n], &count);
        double difference = 0, norm = 0;
        for (size_t i = 0; i < count; i++) {
            difference += pow((double)one[i] - (double)other[i], 2);
            norm += pow((double)one[i], 2);
        }
        if (!(sqrt(difference) <= 1e-5 * sqrt(norm)) || norm == 0)
            fail_msg("M=%d: relative difference %g", numbers[n], sqrt(difference / norm));
        gp_free(other);
    }
    gp_free(one);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_in_f32),
        cmocka_unit_test(gpt_in_bf16),
        cmocka_unit_test(bert_with_padding),
        cmocka_unit_test(skips_over_stages),
        cmocka_unit_test(one_weight_in_many_stages),
        cmocka_unit_test(packed_weights_and_uneven_batches),
        cmocka_unit_test(micro_batches_change_rounding_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
