/* The nearest known word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static void test_distances(void **state) {
    (void)state;
    assert_int_equal(gp_edit_distance("", ""), 0);
    assert_int_equal(gp_edit_distance("", "abc"), 3);
    assert_int_equal(gp_edit_distance("abc", ""), 3);
    assert_int_equal(gp_edit_distance("linear", "linear"), 0);
    assert_int_equal(gp_edit_distance("Linear", "linear"), 0);
    assert_int_equal(gp_edit_distance("liner", "linear"), 1);
    assert_int_equal(gp_edit_distance("lienar", "linear"), 1); /* a swap */
    assert_int_equal(gp_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(gp_edit_distance("ca", "abc"), 3); /* swapped letters are not edited again */
}

static void test_long_words(void **state) {
    (void)state;
    char a[200], b[200];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    assert_int_equal(gp_edit_distance(a, b), 63);
    assert_int_equal(gp_edit_distance(a, "a"), 62);
}

static void test_nearest(void **state) {
    (void)state;
    const char *words[] = {"features", "bias", "init", "tie"};
    gp_nearest nearest = {0};
    assert_null(nearest.word);
    for (size_t i = 0; i < 4; i++)
        gp_nearest_consider(&nearest, "baes", words[i]);
    assert_string_equal(nearest.word, "bias");
    assert_int_equal(nearest.distance, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
