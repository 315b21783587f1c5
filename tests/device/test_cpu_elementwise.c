/* The CPU device's kernels that work element by element, against plain loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cpu_check.h"
#include "device/cpu/loops.h"

static const gp_dtype DTYPES[] = {GP_F32, GP_BF16};

/* ---- arithmetic with broadcasting ---- */

/* The element of an operand at a place of the result. */
static double broadcast_at(const operand *x, gp_shape shape, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = shape.rank - 1, e = x->type.shape.rank - 1; e >= 0; d--, e--) {
        int64_t size = x->type.shape.dims[e];
        at += (size == 1 ? 0 : i % shape.dims[d]) * stride;
        stride *= size;
        i /= shape.dims[d];
    }
    return x->values[at];
}

static double binary_of(gp_op_id id, double a, double b) {
    switch (id) {
    case GP_OP_ADD:
        return a + b;
    case GP_OP_SUB:
        return a - b;
    case GP_OP_MUL:
        return a * b;
    default:
        return a / b;
    }
}

static void check_binary(gp_op_id id, gp_dtype a_dtype, dims a, gp_dtype b_dtype, dims b, dims y, int in_place) {
    gp_dtype dtype = a_dtype == GP_BF16 || b_dtype == GP_BF16 ? GP_BF16 : GP_F32;
    kernel_case test = {.id = id, .input_count = 2, .output_count = 1, .in_place = in_place};
    test.inputs[0] = operand_of(a_dtype, a, -3, 3);
    test.inputs[1] = operand_of(b_dtype, b, 0.5, 2);
    test.outputs[0] = operand_zero(dtype, y);
    for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
        gp_shape shape = test.outputs[0].type.shape;
        test.outputs[0].values[i] =
            binary_of(id, broadcast_at(&test.inputs[0], shape, i), broadcast_at(&test.inputs[1], shape, i));
    }
    check_kernel(&test);
}

static void test_binary_shapes(void **state) {
    (void)state;
    static const struct {
        dims a, b, y;
    } CASES[] = {
        {{0, {0}}, {0, {0}}, {0, {0}}},
        {{1, {1}}, {1, {1}}, {1, {1}}},
        {{2, {7, 33}}, {2, {7, 33}}, {2, {7, 33}}},
        {{3, {5, 41, 301}}, {1, {301}}, {3, {5, 41, 301}}},
        {{1, {17}}, {3, {3, 4, 17}}, {3, {3, 4, 17}}},
        {{2, {9, 31}}, {0, {0}}, {2, {9, 31}}},
        {{0, {0}}, {2, {9, 31}}, {2, {9, 31}}},
        {{2, {9, 31}}, {2, {9, 1}}, {2, {9, 31}}},
        {{2, {9, 1}}, {2, {1, 31}}, {2, {9, 31}}},
        {{4, {2, 1, 3, 1}}, {3, {5, 1, 7}}, {4, {2, 5, 3, 7}}},
        {{3, {4, 1, 200}}, {3, {1, 50, 200}}, {3, {4, 50, 200}}},
        {{6, {2, 1, 2, 1, 2, 3}}, {6, {1, 3, 1, 2, 1, 3}}, {6, {2, 3, 2, 2, 2, 3}}},
        {{2, {0, 5}}, {1, {5}}, {2, {0, 5}}},
    };
    static const gp_op_id IDS[] = {GP_OP_ADD, GP_OP_SUB, GP_OP_MUL, GP_OP_DIV};
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        for (size_t o = 0; o < 4; o++) {
            for (int d = 0; d < 4; d++) {
                check_binary(IDS[o], DTYPES[d & 1], CASES[c].a, DTYPES[d >> 1], CASES[c].b, CASES[c].y, 0);
            }
        }
    }
}

static void test_binary_in_place(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        check_binary(GP_OP_ADD, DTYPES[d], (dims){2, {70, 301}}, DTYPES[d], (dims){2, {70, 301}}, (dims){2, {70, 301}},
                     1);
        check_binary(GP_OP_DIV, DTYPES[d], (dims){2, {7, 301}}, DTYPES[d], (dims){2, {7, 301}}, (dims){2, {7, 301}}, 2);
        check_binary(GP_OP_SUB, DTYPES[d], (dims){2, {7, 301}}, GP_F32, (dims){1, {301}}, (dims){2, {7, 301}}, 1);
    }
}

/* ---- one operand ---- */

static void test_scale(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        gp_scale_attributes attributes = {-0.37};
        kernel_case test = {.id = GP_OP_SCALE, .attributes = &attributes, .input_count = 1, .output_count = 1};
        test.inputs[0] = operand_of(DTYPES[d], (dims){2, {41, 1001}}, -2, 2);
        test.outputs[0] = operand_zero(DTYPES[d], (dims){2, {41, 1001}});
        for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
            test.outputs[0].values[i] = test.inputs[0].values[i] * attributes.factor;
        }
        check_kernel(&test);
    }
}

static void check_same_values(gp_op_id id, gp_dtype from, gp_dtype to, dims x, dims y) {
    gp_cast_attributes cast = {to};
    gp_shape_attributes shape = {gp_shape_of(y.rank, y.size), to};
    kernel_case test = {.id = id, .input_count = 1, .output_count = 1};
    test.attributes = id == GP_OP_CAST ? (const void *)&cast : (const void *)&shape;
    test.inputs[0] = operand_of(from, x, -100, 100);
    test.outputs[0] = operand_zero(to, y);
    for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
        test.outputs[0].values[i] = broadcast_at(&test.inputs[0], test.outputs[0].type.shape, i);
    }
    check_kernel(&test);
}

static void test_cast_and_broadcast(void **state) {
    (void)state;
    for (int from = 0; from < 2; from++) {
        for (int to = 0; to < 2; to++) {
            check_same_values(GP_OP_CAST, DTYPES[from], DTYPES[to], (dims){1, {40003}}, (dims){1, {40003}});
            check_same_values(GP_OP_BROADCAST_TO, DTYPES[from], DTYPES[to], (dims){0, {0}}, (dims){2, {3, 21}});
            check_same_values(GP_OP_BROADCAST_TO, DTYPES[from], DTYPES[to], (dims){2, {9, 1}}, (dims){3, {4, 9, 33}});
            check_same_values(GP_OP_BROADCAST_TO, DTYPES[from], DTYPES[to], (dims){1, {33}}, (dims){3, {40, 19, 33}});
        }
    }
    check_same_values(GP_OP_CAST, GP_F32, GP_F16, (dims){1, {77}}, (dims){1, {77}});
}

static void test_accumulate(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        kernel_case test = {.id = GP_OP_ACCUMULATE, .input_count = 1, .output_count = 1, .accumulate = 1};
        test.inputs[0] = operand_of(DTYPES[d], (dims){2, {41, 1001}}, -2, 2);
        test.outputs[0] = operand_of(GP_F32, (dims){2, {41, 1001}}, -2, 2);
        for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
            test.outputs[0].values[i] += test.inputs[0].values[i];
        }
        check_kernel(&test);
    }
}

/* ---- activations ---- */

static double activation_of(gp_activation_kind kind, double x) {
    switch (kind) {
    case GP_RELU:
        return x > 0 ? x : 0;
    case GP_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GP_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case GP_SILU:
        return x / (1 + exp(-x));
    case GP_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return tanh(x);
    }
}

/* By central differences in double, which are exact to 1e-10. */
static double slope_of(gp_activation_kind kind, double x) {
    double h = 1e-5;
    if (kind == GP_RELU) return x > 0 ? 1 : 0;
    return (activation_of(kind, x + h) - activation_of(kind, x - h)) / (2 * h);
}

static void test_activations(void **state) {
    (void)state;
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        for (int d = 0; d < 2; d++) {
            gp_activation_attributes attributes = {(gp_activation_kind)kind};
            kernel_case test = {.id = GP_OP_ACTIVATION, .attributes = &attributes, .input_count = 1, .output_count = 1};
            test.inputs[0] = operand_of(DTYPES[d], (dims){2, {37, 1001}}, -9, 9);
            test.outputs[0] = operand_zero(DTYPES[d], (dims){2, {37, 1001}});
            for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
                test.outputs[0].values[i] = activation_of(attributes.kind, test.inputs[0].values[i]);
            }
            test.in_place = d;
            check_kernel(&test);
        }
    }
}

static void test_activation_gradients(void **state) {
    (void)state;
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        for (int d = 0; d < 2; d++) {
            gp_activation_attributes attributes = {(gp_activation_kind)kind};
            kernel_case test = {
                .id = GP_OP_ACTIVATION_GRADIENT, .attributes = &attributes, .input_count = 2, .output_count = 1};
            test.inputs[0] = operand_of(DTYPES[d], (dims){1, {20011}}, -1, 1);
            test.inputs[1] = operand_of(DTYPES[d], (dims){1, {20011}}, kind >= GP_SIGMOID ? 0.01 : -7,
                                        kind >= GP_SIGMOID ? 0.99 : 7);
            test.outputs[0] = operand_zero(DTYPES[d], (dims){1, {20011}});
            for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
                double v = test.inputs[1].values[i], slope = slope_of(attributes.kind, v);
                if (kind == GP_SIGMOID) slope = v * (1 - v);
                if (kind == GP_TANH) slope = 1 - v * v;
                test.outputs[0].values[i] = test.inputs[0].values[i] * slope;
            }
            check_kernel(&test);
        }
    }
}

/* Where functions saturate: no NaN from infinities that cancel, and NaN is handed on. */
static void check_extremes(gp_device *device, const char *table) {
    (void)table;
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        float x[5] = {-1e30f, -200.0f, 200.0f, 1e30f, NAN}, y[5];
        gp_activation_attributes attributes = {(gp_activation_kind)kind};
        gp_type type = {GP_F32, gp_shape_of(1, (int64_t[]){5})};
        gp_kernel_desc desc = {GP_OP_ACTIVATION, gp_op_class_of(GP_OP_ACTIVATION), &attributes, &type, &type, 1, 1, 0};
        gp_kernel *kernel = NULL;
        assert_int_equal(device->class->kernel_create(device, &desc, &kernel), GP_OK);
        const void *inputs[1] = {x};
        void *outputs[1] = {y};
        gp_run run = {0};
        assert_int_equal(kernel->run(kernel, inputs, outputs, NULL, &run), GP_OK);
        for (int i = 0; i < 4; i++) {
            double want = activation_of(attributes.kind, (double)x[i]);
            assert_true(fabs((double)y[i] - want) <= 1e-6 * (1 + fabs(want)));
        }
        assert_true(isnan(y[4]));
        kernel->destroy(kernel);
    }
}

static void test_activation_extremes(void **state) {
    (void)state;
    for_each_device(check_extremes);
}

/* The bits of an element do not depend on where it lies in a run: alone (the scalar end of a loop) it comes out as in
 * the middle of many. That is what lets work be cut anywhere. */
static void check_positions(gp_device *device, const char *table) {
    enum { COUNT = 333 };
    (void)table;
    const gp_cpu_loops *loops = ((const gp_cpu_device *)device)->loops;
    operand x = operand_of(GP_F32, (dims){1, {COUNT}}, -8, 8), dy = operand_of(GP_F32, (dims){1, {COUNT}}, -1, 1);
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        float y[COUNT], dx[COUNT], alone;
        loops->activation((gp_activation_kind)kind, GP_F32, x.data, y, COUNT);
        loops->activation_gradient((gp_activation_kind)kind, GP_F32, dy.data, x.data, dx, COUNT);
        for (int i = 0; i < COUNT; i++) {
            const float *v = (const float *)x.data + i;
            loops->activation((gp_activation_kind)kind, GP_F32, v, &alone, 1);
            assert_memory_equal(&alone, &y[i], sizeof alone);
            loops->activation_gradient((gp_activation_kind)kind, GP_F32, (const float *)dy.data + i, v, &alone, 1);
            assert_memory_equal(&alone, &dx[i], sizeof alone);
        }
    }
    operand_free(&x);
    operand_free(&dy);
}

static void test_positions(void **state) {
    (void)state;
    for_each_device(check_positions);
}

/* ---- dropout ---- */

static void check_dropout(gp_dtype dtype, dims shape, double p) {
    gp_dropout_attributes attributes = {p, 3 * 256 + 2};
    kernel_case test = {.id = GP_OP_DROPOUT, .attributes = &attributes, .input_count = 1, .output_count = 1};
    test.run = (gp_run){.seed = 0x123456789ABCDEFu, .step = 17, .first_sample = 5};
    test.inputs[0] = operand_of(dtype, shape, -2, 2);
    test.outputs[0] = operand_zero(dtype, shape);
    int64_t count = operand_count(&test.inputs[0]), sample = count / shape.size[0], kept = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t e = (uint32_t)(i % sample), s = 5 + (uint32_t)(i / sample);
        gp_random_block drawn = gp_random_element4(gp_random_key_of(test.run.seed), e / 4, s, 17, attributes.use);
        bool keep = drawn.word[e % 4] >= gp_random_threshold(p);
        kept += keep;
        test.outputs[0].values[i] = keep ? test.inputs[0].values[i] / (1 - p) : 0;
    }
    if (count > 10000) assert_true(fabs((double)kept / (double)count - (1 - p)) < 0.02);
    check_kernel(&test);
}

static void test_dropout(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        check_dropout(DTYPES[d], (dims){1, {3}}, 0.5);
        check_dropout(DTYPES[d], (dims){2, {5, 7}}, 0.25);
        check_dropout(DTYPES[d], (dims){3, {3, 11, 1001}}, 0.1);
        check_dropout(DTYPES[d], (dims){2, {7, 8192}}, 0.9);
    }
}

/* What is dropped is zero even where it is infinite. */
static void test_dropout_of_infinity(void **state) {
    (void)state;
    gp_dropout_attributes attributes = {0.5, 0};
    kernel_case test = {.id = GP_OP_DROPOUT, .attributes = &attributes, .input_count = 1, .output_count = 1};
    test.inputs[0] = operand_zero(GP_F32, (dims){2, {1, 64}});
    test.outputs[0] = operand_zero(GP_F32, (dims){2, {1, 64}});
    for (uint32_t i = 0; i < 64; i++) {
        gp_random_block drawn = gp_random_element4(gp_random_key_of(0), i / 4, 0, 0, 0);
        bool keep = drawn.word[i % 4] >= gp_random_threshold(0.5);
        test.inputs[0].values[i] = keep ? 1 : (double)INFINITY;
        test.outputs[0].values[i] = keep ? 2 : 0;
    }
    operand_set(&test.inputs[0]);
    check_kernel(&test);
}

static void test_wrong_types(void **state) {
    (void)state;
    kernel_case test = {.id = GP_OP_ADD, .input_count = 2, .output_count = 1};
    test.inputs[0] = operand_of(GP_I32, (dims){1, {4}}, 0, 9);
    test.inputs[1] = operand_of(GP_F32, (dims){1, {4}}, 0, 9);
    test.outputs[0] = operand_zero(GP_F32, (dims){1, {4}});
    assert_int_equal(kernel_status(&test), GP_INVALID);
    assert_string_equal(gp_error_message(), "the CPU device has no kernel for add of (i32[4], f32[4])");
    free_case(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary_shapes),
        cmocka_unit_test(test_binary_in_place),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_cast_and_broadcast),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_activation_gradients),
        cmocka_unit_test(test_activation_extremes),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_of_infinity),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
