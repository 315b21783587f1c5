/* Options of callers that were built against older and newer headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

typedef struct older {
    size_t size;
    int64_t steps;
} older;

typedef struct current {
    size_t size;
    int64_t steps;
    double rate;
} current;

typedef struct newer {
    size_t size;
    int64_t steps;
    double rate;
    int64_t added;
} newer;

static gp_status read_options(current *known, const void *options) {
    memset(known, 0xA5, sizeof *known);
    return gp_options_read(known, sizeof *known, options, "gp_things");
}

static void test_defaults(void **state) {
    (void)state;
    current known;
    assert_int_equal(read_options(&known, NULL), GP_OK);
    assert_int_equal(known.size, sizeof known);
    assert_int_equal(known.steps, 0);
    assert_true(known.rate == 0);
}

static void test_same_version(void **state) {
    (void)state;
    current known;
    for (size_t size = 0; size <= sizeof known; size += sizeof known) {
        assert_int_equal(read_options(&known, &(current){size, 7, 0.5}), GP_OK);
        assert_int_equal(known.size, sizeof known);
        assert_int_equal(known.steps, 7);
        assert_true(known.rate == 0.5);
    }
}

static void test_older_caller(void **state) {
    (void)state;
    current known;
    assert_int_equal(read_options(&known, &(older){sizeof(older), 7}), GP_OK);
    assert_int_equal(known.steps, 7);
    assert_true(known.rate == 0);
}

static void test_newer_caller(void **state) {
    (void)state;
    current known;
    assert_int_equal(read_options(&known, &(newer){sizeof(newer), 7, 0.5, 0}), GP_OK);
    assert_int_equal(known.size, sizeof known);
    assert_true(known.rate == 0.5);
    assert_int_equal(read_options(&known, &(newer){sizeof(newer), 7, 0.5, 1}), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "gp_things is 32 bytes long with fields set that this library"));
}

static void test_results(void **state) {
    (void)state;
    const current known = {sizeof known, 7, 0.5};
    current same = {0};
    gp_options_write(&same, &known, sizeof known);
    assert_int_equal(same.size, 0); /* the caller's */
    assert_int_equal(same.steps, 7);
    assert_true(same.rate == 0.5);
    struct {
        older result;
        unsigned char behind[sizeof(current)];
    } old = {{sizeof(older), 0}, {0}};
    gp_options_write(&old.result, &known, sizeof known);
    assert_int_equal(old.result.steps, 7);
    for (size_t i = 0; i < sizeof old.behind; i++)
        assert_int_equal(old.behind[i], 0);
    newer longer = {sizeof longer, 0, 0, 3};
    gp_options_write(&longer, &known, sizeof known);
    assert_int_equal(longer.steps, 7);
    assert_int_equal(longer.size, sizeof longer);
}

static void test_no_size(void **state) {
    (void)state;
    current known;
    assert_int_equal(read_options(&known, &(current){.size = 3}), GP_INVALID);
    assert_string_equal(gp_error_message(), "gp_things.size is 3; sizeof(gp_things) and 0 are accepted");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),     cmocka_unit_test(test_same_version), cmocka_unit_test(test_older_caller),
        cmocka_unit_test(test_newer_caller), cmocka_unit_test(test_results),      cmocka_unit_test(test_no_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
