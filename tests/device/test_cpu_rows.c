/* The CPU device's kernels over rows, against plain loops in double: norms, softmax, losses and their gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cpu_check.h"

static const gp_dtype DTYPES[] = {GP_F32, GP_BF16};

typedef struct extent {
    int64_t rows, columns;
} extent;

/* Below, at and above the lanes of a sum and its chunks; enough for several threads. */
static const extent SIZES[] = {{1, 1}, {3, 2}, {5, 31}, {4, 32}, {7, 33}, {131, 257}, {2, 1024}, {33, 1500}};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static dims shape_of(extent size) {
    return (dims){2, {size.rows, size.columns}};
}

/* ---- norms ---- */

static const double EPSILON = 1e-5;

/* Mean (0 for RMS norm) and 1 / standard deviation of a row. */
static void statistics(const double *x, int64_t n, bool centred, double *mean, double *rstd) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
    }
    *mean = centred ? sum / (double)n : 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (x[i] - *mean) * (x[i] - *mean);
    }
    *rstd = 1 / sqrt(squares / (double)n + EPSILON);
}

static void check_norm(gp_dtype dtype, extent size, bool centred, bool bias) {
    gp_norm_attributes attributes = {EPSILON};
    int64_t n = size.columns;
    kernel_case test = {.id = centred ? GP_OP_LAYER_NORM : GP_OP_RMS_NORM, .attributes = &attributes};
    test.input_count = centred ? 3 : 2;
    test.inputs[0] = operand_of(dtype, shape_of(size), -1, 3);
    test.inputs[1] = operand_of(GP_F32, (dims){1, {n}}, 0.5, 1.5);
    test.inputs[2] = bias ? operand_of(GP_F32, (dims){1, {n}}, -1, 1) : operand_none();
    test.output_count = centred ? 3 : 2;
    test.outputs[0] = operand_zero(dtype, shape_of(size));
    for (int o = 1; o < test.output_count; o++) {
        test.outputs[o] = operand_zero(GP_F32, (dims){1, {size.rows}});
    }
    for (int64_t r = 0; r < size.rows; r++) {
        double mean, rstd;
        statistics(test.inputs[0].values + r * n, n, centred, &mean, &rstd);
        if (centred) test.outputs[1].values[r] = mean;
        test.outputs[centred ? 2 : 1].values[r] = rstd;
        for (int64_t i = 0; i < n; i++) {
            test.outputs[0].values[r * n + i] =
                (test.inputs[0].values[r * n + i] - mean) * rstd * test.inputs[1].values[i] +
                (bias ? test.inputs[2].values[i] : 0);
        }
    }
    check_kernel(&test);
}

static void test_norms(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            if (SIZES[s].columns > 1) check_norm(DTYPES[d], SIZES[s], true, s % 2);
            check_norm(DTYPES[d], SIZES[s], false, false);
        }
    }
}

/* dy, x, then (w,) mean and rstd. */
static void norm_gradient_inputs(kernel_case *test, gp_dtype dtype, extent size, bool centred, bool weight) {
    int64_t n = size.columns;
    test->inputs[test->input_count++] = operand_of(dtype, shape_of(size), -1, 1);
    test->inputs[test->input_count++] = operand_of(dtype, shape_of(size), -1, 3);
    if (weight) test->inputs[test->input_count++] = operand_of(GP_F32, (dims){1, {n}}, 0.5, 1.5);
    operand mean = operand_zero(GP_F32, (dims){1, {size.rows}}), rstd = operand_zero(GP_F32, (dims){1, {size.rows}});
    for (int64_t r = 0; r < size.rows; r++) {
        statistics(test->inputs[1].values + r * n, n, centred, &mean.values[r], &rstd.values[r]);
    }
    operand_set(&mean);
    operand_set(&rstd);
    if (centred) {
        test->inputs[test->input_count++] = mean;
    } else {
        operand_free(&mean);
    }
    test->inputs[test->input_count++] = rstd;
}

static void check_norm_gradient(gp_dtype dtype, extent size, bool centred, int in_place) {
    kernel_case test = {
        .id = centred ? GP_OP_LAYER_NORM_GRADIENT : GP_OP_RMS_NORM_GRADIENT, .output_count = 1, .in_place = in_place};
    norm_gradient_inputs(&test, dtype, size, centred, true);
    test.outputs[0] = operand_zero(dtype, shape_of(size));
    int64_t n = size.columns;
    const double *w = test.inputs[2].values, *rstd = test.inputs[centred ? 4 : 3].values;
    for (int64_t r = 0; r < size.rows; r++) {
        const double *dy = test.inputs[0].values + r * n, *x = test.inputs[1].values + r * n;
        double mean = centred ? test.inputs[3].values[r] : 0, g = 0, gh = 0;
        for (int64_t i = 0; i < n; i++) {
            g += centred ? dy[i] * w[i] / (double)n : 0;
            gh += dy[i] * w[i] * (x[i] - mean) * rstd[r] / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            test.outputs[0].values[r * n + i] = rstd[r] * (dy[i] * w[i] - g - (x[i] - mean) * rstd[r] * gh);
        }
    }
    check_kernel(&test);
}

static void test_norm_gradients(void **state) {
    (void)state;
    for (int s = 2; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            check_norm_gradient(DTYPES[d], SIZES[s], true, s % 3);
            check_norm_gradient(DTYPES[d], SIZES[s], false, 0);
        }
    }
}

static void check_weight_gradient(gp_dtype dtype, extent size, bool centred, uint32_t accumulate) {
    int64_t n = size.columns;
    kernel_case test = {.id = centred ? GP_OP_LAYER_NORM_WEIGHT_GRADIENT : GP_OP_RMS_NORM_WEIGHT_GRADIENT,
                        .output_count = centred ? 2 : 1,
                        .accumulate = accumulate};
    norm_gradient_inputs(&test, dtype, size, centred, false);
    for (int o = 0; o < test.output_count; o++) {
        test.outputs[o] = operand_of(GP_F32, (dims){1, {n}}, -1, 1);
        for (int64_t i = 0; i < n; i++) {
            double sum = accumulate >> o & 1u ? test.outputs[o].values[i] : 0;
            for (int64_t r = 0; r < size.rows; r++) {
                double mean = centred ? test.inputs[2].values[r] : 0;
                double h = (test.inputs[1].values[r * n + i] - mean) * test.inputs[centred ? 3 : 2].values[r];
                sum += test.inputs[0].values[r * n + i] * (o == 0 ? h : 1);
            }
            test.outputs[o].values[i] = sum;
        }
    }
    check_kernel(&test);
}

static void test_norm_weight_gradients(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            if (SIZES[s].columns > 1) check_weight_gradient(DTYPES[d], SIZES[s], true, (uint32_t)s % 4);
            check_weight_gradient(DTYPES[d], SIZES[s], false, (uint32_t)s % 2);
        }
    }
}

/* ---- softmax ---- */

/* log(sum(exp(x))) */
static double log_sum(const double *x, int64_t n) {
    double max = x[0], sum = 0;
    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, x[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(x[i] - max);
    }
    return max + log(sum);
}

/* What softmax makes of input 0. */
static void expect_softmax(kernel_case *test, int64_t n) {
    for (int64_t row = 0; row < operand_count(&test->outputs[0]); row += n) {
        const double *x = test->inputs[0].values + row;
        double lse = log_sum(x, n);
        for (int64_t i = 0; i < n; i++)
            test->outputs[0].values[row + i] = exp(x[i] - lse);
    }
}

static void test_softmax(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            kernel_case test = {.id = GP_OP_SOFTMAX, .input_count = 1, .output_count = 1, .in_place = s % 2};
            test.inputs[0] = operand_of(DTYPES[d], shape_of(SIZES[s]), -30, 30);
            test.outputs[0] = operand_zero(DTYPES[d], shape_of(SIZES[s]));
            expect_softmax(&test, SIZES[s].columns);
            check_kernel(&test);
        }
    }
}

static void test_softmax_gradient(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            int64_t n = SIZES[s].columns;
            kernel_case test = {.id = GP_OP_SOFTMAX_GRADIENT, .input_count = 2, .output_count = 1, .in_place = s % 3};
            test.inputs[0] = operand_of(DTYPES[d], shape_of(SIZES[s]), -1, 1);
            test.inputs[1] = operand_of(DTYPES[d], shape_of(SIZES[s]), 0, 2.0 / (double)(n + 1));
            test.outputs[0] = operand_zero(DTYPES[d], shape_of(SIZES[s]));
            for (int64_t row = 0; row < operand_count(&test.outputs[0]); row += n) {
                double dot = 0;
                for (int64_t i = row; i < row + n; i++)
                    dot += test.inputs[0].values[i] * test.inputs[1].values[i];
                for (int64_t i = row; i < row + n; i++)
                    test.outputs[0].values[i] = test.inputs[1].values[i] * (test.inputs[0].values[i] - dot);
            }
            check_kernel(&test);
        }
    }
}

/* Classes masked by -infinity: probability 0, also where a whole chunk is masked; no NaN. */
static void test_softmax_masked(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        kernel_case test = {.id = GP_OP_SOFTMAX, .input_count = 1, .output_count = 1};
        test.inputs[0] = operand_of(DTYPES[d], (dims){2, {3, 2500}}, -3, 3);
        test.outputs[0] = operand_zero(DTYPES[d], (dims){2, {3, 2500}});
        for (int64_t i = 0; i < 7500; i++) {
            if (i % 2500 < 1100 || i % 7 == 0) test.inputs[0].values[i] = -(double)INFINITY;
        }
        operand_set(&test.inputs[0]);
        expect_softmax(&test, 2500);
        check_kernel(&test);
    }
}

/* ---- cross-entropy ---- */

typedef struct entropy_case {
    extent size;
    double smoothing;
    bool weights, ignored;
    double low, high; /* logits */
} entropy_case;

static const entropy_case ENTROPY[] = {
    {{1, 1}, 0, false, false, -1, 1},         {{5, 3}, 0, true, false, -2, 2},
    {{7, 33}, 0.1, false, false, -9, 9},      {{40, 1000}, 0, false, true, -20, 20},
    {{17, 2049}, 0.2, true, true, -5, 60},    {{3, 50257}, 0, false, false, -8, 8},
    {{3, 50257}, 0.1, true, true, -300, 300},
};
enum { ENTROPY_COUNT = sizeof ENTROPY / sizeof *ENTROPY };

static gp_cross_entropy_options entropy_options(const entropy_case *which) {
    return (gp_cross_entropy_options){
        .label_smoothing = which->smoothing, .has_ignored = which->ignored, .ignored = -100};
}

/* Logits, targets, weights. */
static void entropy_inputs(kernel_case *test, gp_dtype dtype, const entropy_case *which) {
    extent size = which->size;
    test->inputs[0] = operand_of(dtype, shape_of(size), which->low, which->high);
    test->inputs[1] = operand_of(GP_I32, (dims){1, {size.rows}}, 0, (double)size.columns);
    test->inputs[2] = which->weights ? operand_of(GP_F32, (dims){1, {size.rows}}, 0, 2) : operand_none();
    for (int64_t r = 1; which->ignored && r < size.rows; r += 3) {
        test->inputs[1].values[r] = -100;
    }
    operand_set(&test->inputs[1]);
    test->input_count = 3;
}

static void check_cross_entropy(gp_dtype dtype, const entropy_case *which) {
    gp_cross_entropy_options options = entropy_options(which);
    kernel_case test = {.id = GP_OP_CROSS_ENTROPY, .attributes = &options, .output_count = 2};
    entropy_inputs(&test, dtype, which);
    int64_t n = which->size.columns;
    test.outputs[0] = operand_zero(GP_F32, (dims){0, {0}});
    test.outputs[1] = operand_zero(GP_F32, (dims){1, {which->size.rows}});
    for (int64_t r = 0; r < which->size.rows; r++) {
        int64_t target = (int64_t)test.inputs[1].values[r];
        if (target == -100) continue;
        const double *row = test.inputs[0].values + r * n;
        double lse = log_sum(row, n), mean = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += row[i] / (double)n;
        }
        double loss = lse - (1 - which->smoothing) * row[target] - which->smoothing * mean;
        test.outputs[0].values[0] += loss * (which->weights ? test.inputs[2].values[r] : 1);
        test.outputs[1].values[r] = lse;
    }
    check_kernel(&test);
}

static void test_cross_entropy(void **state) {
    (void)state;
    for (int c = 0; c < ENTROPY_COUNT; c++) {
        check_cross_entropy(GP_F32, &ENTROPY[c]);
        check_cross_entropy(GP_BF16, &ENTROPY[c]);
    }
}

static void check_cross_entropy_gradient(gp_dtype dtype, const entropy_case *which, int in_place) {
    gp_cross_entropy_options options = entropy_options(which);
    kernel_case test = {
        .id = GP_OP_CROSS_ENTROPY_GRADIENT, .attributes = &options, .output_count = 1, .in_place = in_place};
    entropy_inputs(&test, dtype, which);
    int64_t n = which->size.columns;
    test.input_count = 5;
    test.inputs[3] = operand_zero(GP_F32, (dims){1, {which->size.rows}});
    test.inputs[4] = operand_of(GP_F32, (dims){0, {0}}, 0.5, 2);
    test.outputs[0] = operand_zero(dtype, shape_of(which->size));
    for (int64_t r = 0; r < which->size.rows; r++) {
        int64_t target = (int64_t)test.inputs[1].values[r];
        if (target == -100) continue;
        const double *row = test.inputs[0].values + r * n;
        double lse = log_sum(row, n);
        double factor = test.inputs[4].values[0] * (which->weights ? test.inputs[2].values[r] : 1);
        test.inputs[3].values[r] = lse;
        for (int64_t i = 0; i < n; i++) {
            double wanted = which->smoothing / (double)n + (i == target ? 1 - which->smoothing : 0);
            test.outputs[0].values[r * n + i] = factor * (exp(row[i] - lse) - wanted);
        }
    }
    operand_set(&test.inputs[3]);
    check_kernel(&test);
}

static void test_cross_entropy_gradient(void **state) {
    (void)state;
    for (int c = 1; c < ENTROPY_COUNT; c++) {
        check_cross_entropy_gradient(GP_F32, &ENTROPY[c], c % 2);
        check_cross_entropy_gradient(GP_BF16, &ENTROPY[c], c % 2);
    }
}

static void test_cross_entropy_targets(void **state) {
    (void)state;
    static const double BAD[] = {-1, 5, -100};
    for (int b = 0; b < 3; b++) {
        gp_cross_entropy_options options = {0};
        kernel_case test = {.id = GP_OP_CROSS_ENTROPY, .attributes = &options, .input_count = 3, .output_count = 2};
        test.inputs[0] = operand_of(GP_F32, (dims){2, {3, 5}}, -1, 1);
        test.inputs[1] = operand_of(GP_I32, (dims){1, {3}}, 0, 5);
        test.inputs[1].values[2] = BAD[b];
        operand_set(&test.inputs[1]);
        test.inputs[2] = operand_none();
        test.outputs[0] = operand_zero(GP_F32, (dims){0, {0}});
        test.outputs[1] = operand_zero(GP_F32, (dims){1, {3}});
        assert_int_equal(kernel_status(&test), GP_INVALID);
        free_case(&test);
    }
    assert_string_equal(gp_error_message(), "target -100 at position 2 is outside the classes: 0 to 4 are accepted");
}

/* ---- squared error ---- */

static void test_squared_error(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            kernel_case test = {.id = GP_OP_SQUARED_ERROR, .input_count = 2, .output_count = 1};
            test.inputs[0] = operand_of(DTYPES[d], shape_of(SIZES[s]), -1, 1);
            test.inputs[1] = operand_of(DTYPES[d], shape_of(SIZES[s]), -1, 1);
            test.outputs[0] = operand_zero(GP_F32, (dims){0, {0}});
            for (int64_t i = 0; i < operand_count(&test.inputs[0]); i++) {
                double difference = test.inputs[0].values[i] - test.inputs[1].values[i];
                test.outputs[0].values[0] += difference * difference / (double)SIZES[s].columns;
            }
            check_kernel(&test);
        }
    }
}

static void test_squared_error_gradient(void **state) {
    (void)state;
    for (int s = 0; s < SIZE_COUNT; s++) {
        for (int d = 0; d < 2; d++) {
            kernel_case test = {.id = GP_OP_SQUARED_ERROR_GRADIENT, .input_count = 3, .output_count = 1};
            test.inputs[0] = operand_of(DTYPES[d], shape_of(SIZES[s]), -1, 1);
            test.inputs[1] = operand_of(DTYPES[d], shape_of(SIZES[s]), -1, 1);
            test.inputs[2] = operand_of(GP_F32, (dims){0, {0}}, 0.5, 2);
            test.outputs[0] = operand_zero(DTYPES[d], shape_of(SIZES[s]));
            for (int64_t i = 0; i < operand_count(&test.inputs[0]); i++) {
                test.outputs[0].values[i] = 2 * test.inputs[2].values[0] / (double)SIZES[s].columns *
                                            (test.inputs[0].values[i] - test.inputs[1].values[i]);
            }
            test.in_place = s % 3;
            check_kernel(&test);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_norm_gradients),
        cmocka_unit_test(test_norm_weight_gradients),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_gradient),
        cmocka_unit_test(test_softmax_masked),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_cross_entropy_gradient),
        cmocka_unit_test(test_cross_entropy_targets),
        cmocka_unit_test(test_squared_error),
        cmocka_unit_test(test_squared_error_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
