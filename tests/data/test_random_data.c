/* Random samples: pure functions of the question, within their range, without a validation split. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpipe/data.h"

enum { SAMPLES = 6, HEIGHT = 20, WIDTH = 17, CLASSES = 5 };

static gp_random_options image_options(void) {
    return (gp_random_options){.input = {GP_F32, gp_shape_of(3, (int64_t[]){HEIGHT, WIDTH, 3})},
                               .target = {.dtype = GP_I32},
                               .target_below = CLASSES};
}

static gp_dataset *create(const gp_random_options *options) {
    gp_dataset *dataset = NULL;
    assert_int_equal(gp_dataset_create_random(&dataset, options), GP_OK);
    return dataset;
}

static void test_samples(void **state) {
    (void)state;
    gp_random_options options = image_options();
    gp_dataset *dataset = create(&options);
    gp_batch batch, part;
    assert_int_equal(gp_batch_create(&batch, dataset, SAMPLES), GP_OK);
    assert_int_equal(gp_batch_create(&part, dataset, 2), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 7, 3, 0, SAMPLES, &batch), GP_OK);
    const float *inputs = batch.inputs.data;
    const int32_t *targets = batch.targets.data;
    size_t elements = (size_t)HEIGHT * WIDTH * 3;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < SAMPLES * elements; i++) {
        sum += (double)inputs[i];
        squares += (double)inputs[i] * (double)inputs[i];
    }
    double count = (double)(SAMPLES * elements);
    assert_true(fabs(sum / count) < 5 / sqrt(count));
    assert_true(fabs(squares / count - 1) < 5 / sqrt(count));
    for (int i = 0; i < SAMPLES; i++)
        assert_in_range(targets[i], 0, CLASSES - 1);
    /* A part of the mini-batch is that part; another step, seed or sample is another one. */
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 7, 3, 4, 2, &part), GP_OK);
    assert_memory_equal(part.inputs.data, inputs + 4 * elements, 2 * elements * sizeof(float));
    assert_memory_equal(part.targets.data, targets + 4, 2 * sizeof(int32_t));
    assert_memory_not_equal(inputs, inputs + elements, elements * sizeof(float));
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 7, 4, 4, 2, &part), GP_OK);
    assert_memory_not_equal(part.inputs.data, inputs + 4 * elements, elements * sizeof(float));
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 8, 3, 4, 2, &part), GP_OK);
    assert_memory_not_equal(part.inputs.data, inputs + 4 * elements, elements * sizeof(float));
    gp_batch_destroy(&batch);
    gp_batch_destroy(&part);
    gp_dataset_destroy(dataset);
}

static void test_tokens(void **state) {
    (void)state;
    gp_random_options options = {.input = {GP_I32, gp_shape_of(1, (int64_t[]){64})},
                                 .target = {GP_I32, gp_shape_of(1, (int64_t[]){64})},
                                 .input_below = 3,
                                 .target_below = 1};
    gp_dataset *dataset = create(&options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 2), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, 0, 0, 2, &batch), GP_OK);
    int seen[3] = {0};
    for (int i = 0; i < 128; i++) {
        assert_in_range(((int32_t *)batch.inputs.data)[i], 0, 2);
        seen[((int32_t *)batch.inputs.data)[i]]++;
        assert_int_equal(((int32_t *)batch.targets.data)[i], 0);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_int_equal(gp_dataset_windows(dataset, GP_SPLIT_VALIDATION), 0);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 0);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_VALIDATION, 0, 2, &batch), GP_INVALID);
    assert_null(gp_dataset_tokenizer(dataset));
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static void test_refused(void **state) {
    (void)state;
    gp_dataset *dataset = NULL;
    gp_random_options options = image_options();
    options.target_below = 0;
    assert_int_equal(gp_dataset_create_random(&dataset, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "targets"));
    options = image_options();
    options.input.dtype = GP_BF16;
    assert_int_equal(gp_dataset_create_random(&dataset, &options), GP_INVALID);
    options = image_options();
    options.input.shape.rank = GP_MAX_RANK;
    for (int i = 0; i < GP_MAX_RANK; i++)
        options.input.shape.dims[i] = 1;
    assert_int_equal(gp_dataset_create_random(&dataset, &options), GP_INVALID);
    assert_null(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
