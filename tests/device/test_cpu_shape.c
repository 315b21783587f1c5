/* The CPU device's kernels that move or sum elements: transpose, slice, concatenate, reduce_to, embedding; and a user's
 * op. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "cpu_check.h"

static const gp_dtype DTYPES[] = {GP_F32, GP_BF16};

/* Splits element i of a shape into its place along each dimension. */
static void place_of(dims shape, int64_t i, int64_t *place) {
    for (int d = shape.rank - 1; d >= 0; d--) {
        place[d] = i % shape.size[d];
        i /= shape.size[d];
    }
}

static int64_t element_at(dims shape, const int64_t *place) {
    int64_t i = 0;
    for (int d = 0; d < shape.rank; d++) {
        i = i * shape.size[d] + place[d];
    }
    return i;
}

/* ---- transpose ---- */

static void check_transpose(gp_dtype dtype, dims x, const int *order) {
    gp_transpose_attributes attributes = {{0}};
    dims y = {.rank = x.rank};
    for (int d = 0; d < x.rank; d++) {
        attributes.order[d] = order[d];
        y.size[d] = x.size[order[d]];
    }
    kernel_case test = {.id = GP_OP_TRANSPOSE, .attributes = &attributes, .input_count = 1, .output_count = 1};
    test.inputs[0] = operand_of(dtype, x, -100, 100);
    test.outputs[0] = operand_zero(dtype, y);
    for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
        int64_t to[GP_MAX_RANK], from[GP_MAX_RANK];
        place_of(y, i, to);
        for (int d = 0; d < x.rank; d++) {
            from[order[d]] = to[d];
        }
        test.outputs[0].values[i] = test.inputs[0].values[element_at(x, from)];
    }
    check_kernel(&test);
}

static void test_transpose(void **state) {
    (void)state;
    static const struct {
        dims x;
        int order[GP_MAX_RANK];
    } CASES[] = {
        {{0, {0}}, {0}},
        {{1, {7}}, {0}},
        {{2, {1, 7}}, {1, 0}},
        {{2, {33, 65}}, {1, 0}},
        {{2, {200, 211}}, {1, 0}},
        {{3, {5, 6, 7}}, {0, 1, 2}},
        {{3, {5, 6, 7}}, {2, 1, 0}},
        {{3, {5, 6, 7}}, {1, 0, 2}},
        {{3, {5, 6, 7}}, {1, 2, 0}},
        {{4, {3, 4, 50, 33}}, {0, 2, 1, 3}},
        {{4, {3, 4, 50, 33}}, {0, 1, 3, 2}},
        {{4, {3, 17, 5, 9}}, {0, 3, 1, 2}},
        {{6, {2, 3, 1, 4, 5, 2}}, {5, 0, 3, 2, 1, 4}},
        {{3, {4, 0, 3}}, {2, 0, 1}},
    };
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        check_transpose(GP_F32, CASES[c].x, CASES[c].order);
        check_transpose(GP_BF16, CASES[c].x, CASES[c].order);
        check_transpose(GP_I32, CASES[c].x, CASES[c].order);
    }
    check_transpose(GP_U8, (dims){2, {40, 50}}, (int[]){1, 0});
}

/* ---- slice, concatenate ---- */

static void check_slice(gp_dtype dtype, dims whole, int axis, int64_t begin, int64_t end, bool gradient) {
    gp_slice_attributes attributes = {axis, begin, end, whole.size[axis]};
    dims part = whole;
    part.size[axis] = end - begin;
    kernel_case test = {.id = gradient ? GP_OP_SLICE_GRADIENT : GP_OP_SLICE,
                        .attributes = &attributes,
                        .input_count = 1,
                        .output_count = 1};
    test.inputs[0] = operand_of(dtype, gradient ? part : whole, -50, 50);
    test.outputs[0] = operand_zero(dtype, gradient ? whole : part);
    for (int64_t i = 0, count = gp_shape_elements(gp_shape_of(part.rank, part.size)); i < count; i++) {
        int64_t place[GP_MAX_RANK];
        place_of(part, i, place);
        place[axis] += begin;
        int64_t in_whole = element_at(whole, place);
        test.outputs[0].values[gradient ? in_whole : i] = test.inputs[0].values[gradient ? i : in_whole];
    }
    check_kernel(&test);
}

static void test_slices(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        for (int d = 0; d < 2; d++) {
            check_slice(DTYPES[d], (dims){1, {9}}, 0, 2, 5, gradient);
            check_slice(DTYPES[d], (dims){3, {40, 33, 70}}, 0, 7, 40, gradient);
            check_slice(DTYPES[d], (dims){3, {40, 33, 70}}, 1, 0, 32, gradient);
            check_slice(DTYPES[d], (dims){3, {40, 33, 70}}, 2, 69, 70, gradient);
            check_slice(DTYPES[d], (dims){2, {4, 6}}, 1, 0, 6, gradient);
        }
    }
    check_slice(GP_I32, (dims){2, {8, 65}}, 1, 0, 64, false);
}

static void check_concatenate(gp_dtype dtype, dims shape, int axis, int count) {
    gp_concatenate_attributes attributes = {axis};
    kernel_case test = {.id = GP_OP_CONCATENATE, .attributes = &attributes, .input_count = count, .output_count = 1};
    dims whole = shape;
    whole.size[axis] = 0;
    for (int i = 0; i < count; i++) {
        dims part = shape;
        part.size[axis] += i;
        test.inputs[i] = operand_of(dtype, part, -50, 50);
        whole.size[axis] += part.size[axis];
    }
    test.outputs[0] = operand_zero(dtype, whole);
    for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
        int64_t place[GP_MAX_RANK];
        place_of(whole, i, place);
        int from = 0;
        dims part = shape;
        while (place[axis] >= part.size[axis]) {
            place[axis] -= part.size[axis]++;
            from++;
        }
        test.outputs[0].values[i] = test.inputs[from].values[element_at(part, place)];
    }
    check_kernel(&test);
}

static void test_concatenate(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        check_concatenate(DTYPES[d], (dims){1, {3}}, 0, 8);
        check_concatenate(DTYPES[d], (dims){3, {30, 4, 50}}, 0, 2);
        check_concatenate(DTYPES[d], (dims){3, {30, 4, 50}}, 1, 3);
        check_concatenate(DTYPES[d], (dims){3, {30, 4, 50}}, 2, 1);
    }
}

/* ---- reduce_to ---- */

static void check_reduce(gp_dtype from, gp_dtype to, dims x, dims y, bool accumulate) {
    gp_shape_attributes attributes = {gp_shape_of(y.rank, y.size), to};
    kernel_case test = {.id = GP_OP_REDUCE_TO,
                        .attributes = &attributes,
                        .input_count = 1,
                        .output_count = 1,
                        .accumulate = accumulate};
    test.inputs[0] = operand_of(from, x, -1, 3);
    test.outputs[0] = operand_of(to, y, -1, 1);
    for (int64_t i = 0; !accumulate && i < operand_count(&test.outputs[0]); i++) {
        test.outputs[0].values[i] = 0;
    }
    for (int64_t i = 0; i < operand_count(&test.inputs[0]); i++) {
        int64_t place[GP_MAX_RANK], at[GP_MAX_RANK] = {0};
        place_of(x, i, place);
        for (int d = 0; d < y.rank; d++) {
            at[d] = y.size[d] == 1 ? 0 : place[d + x.rank - y.rank];
        }
        test.outputs[0].values[element_at(y, at)] += test.inputs[0].values[i];
    }
    check_kernel(&test);
}

static void test_reduce(void **state) {
    (void)state;
    static const struct {
        dims x, y;
    } CASES[] = {
        {{0, {0}}, {0, {0}}},
        {{1, {70001}}, {0, {0}}},
        {{2, {131, 257}}, {1, {257}}},
        {{3, {4, 70, 512}}, {1, {512}}},
        {{2, {3, 1}}, {1, {1}}},
        {{2, {50, 777}}, {2, {50, 1}}},
        {{3, {5, 40, 100}}, {3, {5, 1, 100}}},
        {{3, {5, 40, 100}}, {3, {1, 40, 100}}},
        {{2, {40, 1000}}, {2, {40, 1000}}},
        {{4, {3, 5, 7, 9}}, {3, {5, 1, 9}}},
        {{4, {30, 5, 17, 9}}, {4, {1, 5, 1, 9}}},
        {{5, {3, 4, 3, 4, 3}}, {5, {3, 1, 3, 1, 3}}},
        {{6, {2, 3, 2, 3, 2, 3}}, {6, {1, 3, 1, 3, 1, 3}}},
        {{6, {2, 3, 2, 3, 2, 3}}, {6, {2, 1, 2, 1, 2, 1}}},
        {{4, {2, 5, 6, 7}}, {4, {1, 5, 1, 1}}},
    };
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        for (int d = 0; d < 4; d++) {
            check_reduce(DTYPES[d & 1], DTYPES[d >> 1], CASES[c].x, CASES[c].y, c % 2);
            check_reduce(DTYPES[d & 1], DTYPES[d >> 1], CASES[c].x, CASES[c].y, d % 2);
        }
    }
}

/* ---- embedding ---- */

static void test_embedding(void **state) {
    (void)state;
    static const int64_t WIDTHS[] = {1, 33, 300};
    for (int w = 0; w < 3; w++) {
        for (int d = 0; d < 2; d++) {
            int64_t width = WIDTHS[w];
            gp_cast_attributes attributes = {DTYPES[d]};
            kernel_case test = {.id = GP_OP_EMBEDDING, .attributes = &attributes, .input_count = 2, .output_count = 1};
            test.inputs[0] = operand_of(GP_F32, (dims){2, {11, width}}, -1, 1);
            test.inputs[1] = operand_of(GP_I32, (dims){2, {7, 19}}, 0, 11);
            test.outputs[0] = operand_zero(DTYPES[d], (dims){3, {7, 19, width}});
            for (int64_t i = 0; i < operand_count(&test.outputs[0]); i++) {
                int64_t row = (int64_t)test.inputs[1].values[i / width];
                test.outputs[0].values[i] = test.inputs[0].values[row * width + i % width];
            }
            check_kernel(&test);
        }
    }
}

static void check_embedding_gradient(gp_dtype dtype, int64_t width, bool accumulate) {
    gp_embedding_gradient_attributes attributes = {11};
    kernel_case test = {.id = GP_OP_EMBEDDING_GRADIENT,
                        .attributes = &attributes,
                        .input_count = 2,
                        .output_count = 1,
                        .accumulate = accumulate};
    test.inputs[0] = operand_of(dtype, (dims){3, {7, 19, width}}, -1, 1);
    test.inputs[1] = operand_of(GP_I32, (dims){2, {7, 19}}, 0, 10); /* row 10 is never used */
    test.outputs[0] = operand_of(GP_F32, (dims){2, {11, width}}, -1, 1);
    for (int64_t i = 0; !accumulate && i < operand_count(&test.outputs[0]); i++) {
        test.outputs[0].values[i] = 0;
    }
    for (int64_t i = 0; i < operand_count(&test.inputs[0]); i++) {
        int64_t row = (int64_t)test.inputs[1].values[i / width];
        test.outputs[0].values[row * width + i % width] += test.inputs[0].values[i];
    }
    check_kernel(&test);
}

static void test_embedding_gradient(void **state) {
    (void)state;
    static const int64_t WIDTHS[] = {1, 33, 300};
    for (int w = 0; w < 3; w++) {
        for (int d = 0; d < 4; d++) {
            check_embedding_gradient(DTYPES[d & 1], WIDTHS[w], d >> 1);
        }
    }
}

static void test_embedding_indices(void **state) {
    (void)state;
    static const double BAD[] = {-1, 4};
    for (int b = 0; b < 2; b++) {
        gp_cast_attributes attributes = {GP_F32};
        kernel_case test = {.id = GP_OP_EMBEDDING, .attributes = &attributes, .input_count = 2, .output_count = 1};
        test.inputs[0] = operand_of(GP_F32, (dims){2, {4, 3}}, -1, 1);
        test.inputs[1] = operand_zero(GP_I32, (dims){1, {2}});
        test.inputs[1].values[1] = BAD[b];
        operand_set(&test.inputs[1]);
        test.outputs[0] = operand_zero(GP_F32, (dims){2, {2, 3}});
        assert_int_equal(kernel_status(&test), GP_INVALID);
        free_case(&test);
    }
    assert_string_equal(gp_error_message(),
                        "index 4 at position 1 is outside the embedding table: 0 to 3 are accepted");
}

/* ---- a user's operation: y = x * attribute + shift, of f32 in its kernel ---- */

static gp_status affine_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status affine_kernel(const gp_op_call *call, const gp_op_data *data) {
    if (call->inputs[0].dtype != GP_F32 || call->outputs[0].dtype != GP_F32) {
        return gp_error(GP_FAILED, "a user's kernel was given something else than f32");
    }
    const float *x = data->inputs[0];
    const int32_t *shift = data->inputs[1];
    float *y = data->outputs[0];
    if (shift[0] < 0) return gp_error(GP_FAILED, "a negative shift");
    if (data->inputs[2]) return gp_error(GP_FAILED, "an absent input has data");
    for (int64_t i = 0; i < gp_shape_elements(call->inputs[0].shape); i++) {
        y[i] = x[i] * *(const float *)call->attributes + (float)shift[0];
    }
    return GP_OK;
}

static const gp_op_class AFFINE = {.size = sizeof AFFINE,
                                   .name = "affine",
                                   .attributes_size = sizeof(float),
                                   .infer = affine_infer,
                                   .kernel = affine_kernel};

static kernel_case affine_case(gp_dtype dtype, float *factor, double shift) {
    kernel_case test = {.id = GP_OP_CUSTOM, .op = &AFFINE, .attributes = factor, .input_count = 3, .output_count = 1};
    test.inputs[0] = operand_of(dtype, (dims){2, {3, 21}}, -1, 1);
    test.inputs[1] = operand_zero(GP_I32, (dims){0, {0}});
    test.inputs[1].values[0] = shift;
    operand_set(&test.inputs[1]);
    test.inputs[2] = operand_none();
    test.outputs[0] = operand_zero(dtype, (dims){2, {3, 21}});
    for (int64_t i = 0; i < 63; i++) {
        test.outputs[0].values[i] = test.inputs[0].values[i] * (double)*factor + shift;
    }
    return test;
}

static void test_custom(void **state) {
    (void)state;
    float factor = 2.5f;
    for (int d = 0; d < 2; d++) {
        kernel_case test = affine_case(DTYPES[d], &factor, 3);
        check_kernel(&test);
    }
    kernel_case failing = affine_case(GP_F32, &factor, -3);
    assert_int_equal(kernel_status(&failing), GP_FAILED);
    assert_string_equal(gp_error_message(), "a negative shift");
    free_case(&failing);
}

static void test_custom_without_kernel(void **state) {
    (void)state;
    gp_op_class empty = AFFINE;
    empty.kernel = NULL;
    float factor = 1;
    kernel_case test = affine_case(GP_F32, &factor, 1);
    test.op = &empty;
    assert_int_equal(kernel_status(&test), GP_INVALID);
    free_case(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_embedding_gradient),
        cmocka_unit_test(test_embedding_indices),
        cmocka_unit_test(test_custom),
        cmocka_unit_test(test_custom_without_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
