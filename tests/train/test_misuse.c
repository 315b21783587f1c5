/* What a careless caller does with the public API: every mistake is a status and a sentence, never a crash, and the
 * trainer works on after those that were refused before a step began. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "gpipe/gpipe.h"

enum { CONTEXT = 6, VOCABULARY = 9, BATCH = 4 };

typedef struct fixture {
    gp_model *model;
    gp_trainer *trainer;
    gp_tensor inputs, targets;
} fixture;

static gp_tensor tensor_of(gp_dtype dtype, int rank, const int64_t *dims) {
    gp_tensor tensor;
    assert_int_equal(gp_tensor_create(&tensor, (gp_type){dtype, gp_shape_of(rank, dims)}), GP_OK);
    return tensor;
}

static void create(fixture *f, int partitions) {
    gp_gpt2_options options = {.layers = 2, .heads = 2, .width = 8, .context = CONTEXT, .vocabulary = VOCABULARY};
    gp_pipeline_options pipeline = {
        .partitions = partitions, .micro_batches = 3, .batch = BATCH, .balance = GP_BALANCE_PARAMETERS};
    gp_optimizer_options adamw = {0};
    *f = (fixture){0};
    assert_int_equal(gp_model_create_gpt2(&f->model, &options), GP_OK);
    assert_int_equal(gp_trainer_create(&f->trainer, f->model, &pipeline, &adamw, 10), GP_OK);
    f->inputs = tensor_of(GP_I32, 2, (int64_t[]){BATCH, CONTEXT});
    f->targets = tensor_of(GP_I32, 2, (int64_t[]){BATCH, CONTEXT});
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        ((int32_t *)f->inputs.data)[i] = i % VOCABULARY;
        ((int32_t *)f->targets.data)[i] = (i + 1) % VOCABULARY;
    }
}

static void destroy(fixture *f) {
    gp_tensor_destroy(&f->inputs);
    gp_tensor_destroy(&f->targets);
    gp_trainer_destroy(f->trainer);
    gp_model_destroy(f->model);
}

static void works(fixture *f) {
    gp_step_metrics metrics;
    assert_int_equal(gp_trainer_step(f->trainer, &f->inputs, &f->targets, NULL, &metrics), GP_OK);
    assert_true(metrics.finite && isfinite(metrics.loss));
}

/* Wrong dtypes, ranks, lengths and batches, to each function that takes tensors. */
static void wrong_tensors(void **state) {
    (void)state;
    fixture f;
    create(&f, 2);
    const struct {
        gp_dtype dtype;
        int rank;
        int64_t dims[3];
    } wrong[] = {{GP_F32, 2, {BATCH, CONTEXT}},
                 {GP_I64, 2, {BATCH, CONTEXT}},
                 {GP_I32, 1, {BATCH}},
                 {GP_I32, 0, {0}},
                 {GP_I32, 2, {BATCH, 1}},
                 {GP_I32, 2, {BATCH, CONTEXT + 1}},
                 {GP_I32, 3, {BATCH, CONTEXT, 1}},
                 {GP_I32, 2, {0, CONTEXT}},
                 {GP_I32, 2, {BATCH + 1, CONTEXT}},
                 {GP_I32, 2, {BATCH - 1, CONTEXT}},
                 {GP_U8, 2, {BATCH, CONTEXT}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gp_tensor tensor = tensor_of(wrong[i].dtype, wrong[i].rank, wrong[i].dims);
        gp_step_metrics metrics;
        double loss = 0, weight = 0;
        assert_int_equal(gp_trainer_step(f.trainer, &tensor, &f.targets, NULL, &metrics), GP_INVALID);
        assert_int_equal(gp_trainer_step(f.trainer, &f.inputs, &tensor, NULL, &metrics), GP_INVALID);
        assert_int_equal(gp_trainer_step(f.trainer, &f.inputs, &f.targets, &tensor, &metrics), GP_INVALID);
        assert_int_equal(gp_trainer_evaluate(f.trainer, &tensor, &f.targets, NULL, &loss, &weight), GP_INVALID);
        assert_int_equal(gp_trainer_evaluate(f.trainer, &f.inputs, &tensor, NULL, &loss, &weight), GP_INVALID);
        assert_int_equal(gp_trainer_forward(f.trainer, &f.inputs, &tensor), GP_INVALID);
        assert_int_equal(
            gp_trainer_save_gradients(f.trainer, &f.inputs, &tensor, NULL, "/nonexistent/file.safetensors"),
            GP_INVALID);
        assert_true(strlen(gp_error_message()) > 10);
        gp_tensor_destroy(&tensor);
    }
    works(&f);
    destroy(&f);
}

/* Tokens and targets outside the vocabulary, at the first and the last stage, in any place. */
static void numbers_out_of_range(void **state) {
    (void)state;
    static const int32_t bad[] = {VOCABULARY, INT32_MAX, INT32_MIN, -2};
    for (int partitions = 1; partitions <= 3; partitions += 2) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            for (int where = 0; where < 2; where++) {
                fixture f;
                gp_step_metrics metrics;
                create(&f, partitions);
                ((int32_t *)(where ? f.targets : f.inputs).data)[BATCH * CONTEXT - 1] = bad[i];
                assert_int_equal(gp_trainer_step(f.trainer, &f.inputs, &f.targets, NULL, &metrics), GP_INVALID);
                assert_true(strlen(gp_error_message()) > 10);
                destroy(&f);
            }
        }
    }
}

/* All targets ignored: nothing to learn from, which is no division by zero. */
static void all_targets_ignored(void **state) {
    (void)state;
    fixture f;
    gp_step_metrics metrics;
    create(&f, 2);
    for (int i = 0; i < BATCH * CONTEXT; i++)
        ((int32_t *)f.targets.data)[i] = GP_IGNORED_TARGET;
    gp_status status = gp_trainer_step(f.trainer, &f.inputs, &f.targets, NULL, &metrics);
    assert_true(status == GP_OK || status == GP_INVALID);
    if (status == GP_OK) assert_true(metrics.tokens == 0 && !isnan(metrics.loss));
    destroy(&f);
}

static bool count_tokens(void *user, int32_t token) {
    assert_in_range(token, 0, VOCABULARY - 1);
    ++*(int *)user;
    return true;
}

static void generation(void **state) {
    (void)state;
    fixture f;
    create(&f, 2);
    int32_t prompt[5 * CONTEXT] = {0};
    int count = 0;
    gp_generate_options options = {0};
    assert_int_equal(gp_trainer_generate(f.trainer, prompt, 5 * CONTEXT, 3, NULL, count_tokens, &count), GP_OK);
    assert_int_equal(count, 3);
    assert_int_equal(gp_trainer_generate(f.trainer, prompt, 0, 3, NULL, count_tokens, &count), GP_INVALID);
    assert_int_equal(gp_trainer_generate(f.trainer, prompt, 1, -1, NULL, count_tokens, &count), GP_INVALID);
    const gp_generate_options wrong[] = {{.temperature = -1}, {.temperature = NAN}, {.top_k = -1},
                                         {.top_p = 2},        {.top_p = NAN},       {.top_p = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gp_trainer_generate(f.trainer, prompt, 1, 1, &wrong[i], count_tokens, &count), GP_INVALID);
    prompt[0] = VOCABULARY;
    assert_int_equal(gp_trainer_generate(f.trainer, prompt, 1, 1, &options, count_tokens, &count), GP_INVALID);
    assert_int_equal(count, 3);
    destroy(&f);
}

/* Options that are NULL or nonsense, and destroying what was never made. */
static void options_and_life(void **state) {
    (void)state;
    gp_trainer_destroy(NULL);
    gp_plan_destroy(NULL);
    gp_profile_destroy(NULL);
    gp_model_destroy(NULL);
    gp_schedule_destroy(NULL);
    gp_dataset_destroy(NULL);
    gp_tokenizer_destroy(NULL);
    gp_safetensors_close(NULL);
    gp_text_free(NULL);
    gp_gpt2_options small = {.layers = 1, .heads = 1, .width = 4, .context = 2, .vocabulary = 3};
    gp_model *model = NULL, *unfinished = NULL;
    gp_trainer *trainer = NULL;
    gp_plan *plan = NULL;
    assert_int_equal(gp_model_create_gpt2(&model, &small), GP_OK);
    assert_int_equal(gp_trainer_create(&trainer, model, NULL, NULL, 0), GP_OK);
    gp_trainer_destroy(trainer);
    assert_int_equal(gp_plan_create(&plan, model, NULL, NULL), GP_OK);
    gp_plan_destroy(plan);
    assert_int_equal(gp_model_create(&unfinished, (gp_type){GP_I32, gp_shape_of(1, (int64_t[]){2})}), GP_OK);
    assert_int_equal(gp_trainer_create(&trainer, unfinished, NULL, NULL, 1), GP_INVALID);
    assert_null(trainer);
    assert_int_equal(gp_model_finish(unfinished), GP_INVALID);
    gp_model_destroy(unfinished);
    const gp_pipeline_options wrong[] = {{.device = {.type = (gp_device_type)77}},
                                         {.schedule = (gp_schedule_kind)9},
                                         {.recompute = (gp_recompute)9},
                                         {.balance = (gp_balance)9},
                                         {.precision = (gp_dtype)99},
                                         {.device = {.threads = -1}},
                                         {.batch = INT64_MAX},
                                         {.report_after = NAN}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gp_status status = gp_trainer_create(&trainer, model, &wrong[i], NULL, 1);
        if (status != GP_INVALID && status != GP_DOES_NOT_FIT) fail_msg("case %zu: %d", i, (int)status);
        assert_null(trainer);
    }
    gp_model_destroy(model);
}

/* A trainer that only evaluates refuses to train. */
static void training_without_optimizer(void **state) {
    (void)state;
    fixture f;
    gp_step_metrics metrics;
    create(&f, 2);
    gp_trainer_destroy(f.trainer);
    gp_pipeline_options pipeline = {.partitions = 2, .batch = BATCH, .balance = GP_BALANCE_PARAMETERS};
    assert_int_equal(gp_trainer_create(&f.trainer, f.model, &pipeline, NULL, 10), GP_OK);
    assert_int_equal(gp_trainer_step(f.trainer, &f.inputs, &f.targets, NULL, &metrics), GP_INVALID);
    assert_int_equal(gp_trainer_save_gradients(f.trainer, &f.inputs, &f.targets, NULL, "/nonexistent/x"), GP_INVALID);
    destroy(&f);
}

/* ---- several trainers ---- */

static void *train_some(void *user) {
    fixture f;
    gp_step_metrics metrics = {0};
    create(&f, 2);
    for (int i = 0; i < 4; i++)
        if (gp_trainer_step(f.trainer, &f.inputs, &f.targets, NULL, &metrics) != GP_OK) metrics.loss = NAN;
    destroy(&f);
    *(double *)user = metrics.loss;
    return NULL;
}

/* Two trainers at once, from threads of their own, and many one after the other: the same numbers. */
static void many_trainers(void **state) {
    (void)state;
    double losses[2], alone;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_some, &losses[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 5; i++) {
        train_some(&alone);
        assert_true(alone == losses[0] && alone == losses[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_tensors),       cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(all_targets_ignored), cmocka_unit_test(generation),
        cmocka_unit_test(options_and_life),    cmocka_unit_test(training_without_optimizer),
        cmocka_unit_test(many_trainers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
