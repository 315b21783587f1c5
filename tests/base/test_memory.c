/* Allocation: aligned, zeroed, counted, refusing what cannot be, failing on request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

static void test_aligned_and_zeroed(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = gp_allocate(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(memory[j], 0);
        memset(memory, 0xAB, sizes[i]); /* so that the next round would see what is not zeroed */
        gp_free(memory);
    }
    gp_free(NULL);
}

static void test_refuses_the_impossible(void **state) {
    (void)state;
    assert_null(gp_allocate(SIZE_MAX));
    assert_non_null(strstr(gp_error_message(), "no memory"));
    assert_null(gp_allocate_array(SIZE_MAX / 2, 3));
    assert_non_null(strstr(gp_error_message(), "no memory"));
    void *nothing = gp_allocate_array(0, 8);
    assert_non_null(nothing);
    gp_free(nothing);
}

static void test_grow(void **state) {
    (void)state;
    int *array = gp_grow_array(NULL, 0, 3, sizeof *array);
    assert_non_null(array);
    for (int i = 0; i < 3; i++)
        array[i] = i + 1;
    array = gp_grow_array(array, 3, 100, sizeof *array);
    for (int i = 0; i < 100; i++)
        assert_int_equal(array[i], i < 3 ? i + 1 : 0);
    gp_allocation_fail_at(1);
    assert_null(gp_grow_array(array, 100, 200, sizeof *array));
    assert_int_equal(array[2], 3);
    gp_free(array);
}

static void test_count_and_failure(void **state) {
    (void)state;
    uint64_t before = gp_allocation_count();
    gp_allocation_fail_at(2);
    void *first = gp_allocate(8), *second = gp_allocate(8), *third = gp_allocate(8);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(gp_allocation_count() - before, 3);
    gp_allocation_fail_at(1);
    gp_allocation_fail_at(0);
    void *fourth = gp_allocate(8);
    assert_non_null(fourth);
    gp_free(first);
    gp_free(third);
    gp_free(fourth);
}

static void test_texts(void **state) {
    (void)state;
    char *copy = gp_copy_text("wte.weight");
    char *text = gp_format_text("%s[%d]", copy, 42);
    assert_string_equal(copy, "wte.weight");
    assert_string_equal(text, "wte.weight[42]");
    gp_free(copy);
    gp_free(text);
    gp_allocation_fail_at(1);
    assert_null(gp_format_text("%d", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_and_zeroed),
        cmocka_unit_test(test_refuses_the_impossible),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_count_and_failure),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
