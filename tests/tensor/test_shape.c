/* Shapes, types and host tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "gpipe/tensor.h"

static gp_type type_of(gp_dtype dtype, int rank, const int64_t *dims) {
    return (gp_type){.dtype = dtype, .shape = gp_shape_of(rank, dims)};
}

static void test_elements_and_bytes(void **state) {
    (void)state;
    gp_shape shape = gp_shape_of(3, (int64_t[]){4, 256, 768});
    assert_int_equal(gp_shape_elements(shape), 4 * 256 * 768);
    assert_int_equal(gp_shape_elements(gp_shape_of(0, NULL)), 1);
    assert_int_equal(gp_shape_elements(gp_shape_of(2, (int64_t[]){5, 0})), 0);
    assert_int_equal(gp_type_bytes((gp_type){GP_BF16, shape}), 2 * 4 * 256 * 768);
    assert_true(gp_shape_equal(shape, gp_shape_of(3, (int64_t[]){4, 256, 768})));
    assert_false(gp_shape_equal(shape, gp_shape_of(2, (int64_t[]){4, 256})));
    assert_false(gp_shape_equal(shape, gp_shape_of(3, (int64_t[]){4, 256, 769})));
    assert_false(gp_type_equal((gp_type){GP_F32, shape}, (gp_type){GP_BF16, shape}));
    assert_true(gp_type_equal((gp_type){GP_F32, shape}, (gp_type){GP_F32, shape}));
}

static void test_check(void **state) {
    (void)state;
    assert_int_equal(gp_shape_check(gp_shape_of(0, NULL)), GP_OK);
    assert_int_equal(gp_shape_check(gp_shape_of(2, (int64_t[]){0, 3})), GP_OK);
    assert_int_equal(gp_shape_check(gp_shape_of(1, (int64_t[]){INT64_MAX / 8})), GP_OK);
    assert_int_equal(gp_shape_check(gp_shape_of(1, (int64_t[]){INT64_MAX / 8 + 1})), GP_INVALID);
    assert_int_equal(gp_shape_check(gp_shape_of(2, (int64_t[]){1LL << 31, 1LL << 31})), GP_INVALID);
    assert_int_equal(gp_shape_check(gp_shape_of(3, (int64_t[]){0, 1LL << 40, 1LL << 40})), GP_INVALID);
    assert_int_equal(gp_shape_check(gp_shape_of(1, (int64_t[]){-1})), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "-1"));
    assert_int_equal(gp_shape_check((gp_shape){.rank = GP_MAX_RANK + 1}), GP_INVALID);
    assert_int_equal(gp_shape_check((gp_shape){.rank = -1}), GP_INVALID);
}

static void test_format(void **state) {
    (void)state;
    char text[64];
    assert_string_equal(gp_type_format(type_of(GP_F32, 3, (int64_t[]){4, 256, 768}), text, sizeof text),
                        "f32[4,256,768]");
    assert_string_equal(gp_type_format(type_of(GP_I32, 0, NULL), text, sizeof text), "i32[]");
    assert_string_equal(gp_type_format(type_of(GP_F32, 3, (int64_t[]){4, 256, 768}), text, 6), "f32[4");
    char longest[200];
    const int64_t least[] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    gp_type_format(type_of(GP_BF16, 6, least), longest, sizeof longest);
    assert_int_equal(strlen(longest), 4 + 2 + 6 * 20 + 5);
}

static void test_tensor(void **state) {
    (void)state;
    gp_tensor tensor;
    assert_int_equal(gp_tensor_create(&tensor, type_of(GP_F32, 2, (int64_t[]){3, 5})), GP_OK);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    for (int i = 0; i < 15; i++)
        assert_true(((float *)tensor.data)[i] == 0.0f);
    gp_tensor_destroy(&tensor);
    assert_null(tensor.data);
    gp_tensor_destroy(&tensor);
    gp_tensor_destroy(NULL);
    assert_int_equal(gp_tensor_create(&tensor, type_of(GP_F32, 1, (int64_t[]){-5})), GP_INVALID);
    assert_null(tensor.data);
    assert_int_equal(gp_tensor_create(&tensor, type_of((gp_dtype)55, 0, NULL)), GP_INVALID);
    gp_allocation_fail_at(1);
    assert_int_equal(gp_tensor_create(&tensor, type_of(GP_F32, 0, NULL)), GP_OUT_OF_MEMORY);
    assert_null(tensor.data);
    gp_tensor_destroy(&tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_and_bytes),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
