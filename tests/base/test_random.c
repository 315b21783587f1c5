/* Philox against the known answers published with Random123, and the streams made of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"

static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        gp_random_block counter;
        gp_random_key key;
        gp_random_block answer;
    } known[] = {
        {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {{0xffffffff, 0xffffffff}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xa4093822, 0x299f31d0}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        gp_random_block block = gp_random4(known[i].key, known[i].counter);
        assert_memory_equal(&block, &known[i].answer, sizeof block);
    }
    gp_random_key key = gp_random_key_of(0x299f31d0a4093822u);
    assert_int_equal(key.word[0], 0xa4093822);
    gp_random_block block = gp_random_element4(key, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344);
    assert_memory_equal(&block, &known[2].answer, sizeof block);
}

static void test_units_and_thresholds(void **state) {
    (void)state;
    assert_true(gp_random_unit(0) == 0.0f);
    assert_true(gp_random_unit(0xFFFFFFFFu) < 1.0f);
    assert_int_equal(gp_random_threshold(0.0), 0);
    assert_int_equal(gp_random_threshold(0.5), 0x80000000u);
    assert_int_equal(gp_random_threshold(1.0), 0xFFFFFFFFu);
}

static void test_hash(void **state) {
    (void)state;
    /* Published values of 64-bit FNV-1a. */
    assert_true(gp_hash_text("") == 0xcbf29ce484222325u);
    assert_true(gp_hash_text("a") == 0xaf63dc4c8601ec8cu);
    assert_true(gp_hash_text("foobar") == 0x85944171f73967e8u);
}

enum { COUNT = 1 << 17 };

static void check_moments(const float *x, double mean, double variance) {
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    sum /= COUNT;
    /* Five standard errors; the kurtosis of either distribution is at most 3. */
    assert_true(fabs(sum - mean) < 5 * sqrt(variance / COUNT));
    assert_true(fabs(squares / COUNT - sum * sum - variance) < 5 * variance * sqrt(2.0 / COUNT));
}

static void test_fill_moments(void **state) {
    (void)state;
    float *x = gp_allocate_array(COUNT, sizeof *x);
    gp_random_fill_normal(x, COUNT, 1337, "h.0.attn.weight");
    check_moments(x, 0, 1);
    int beyond = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(isfinite(x[i]));
        beyond += fabsf(x[i]) > 1.959964f;
    }
    assert_true(fabs(beyond / (double)COUNT - 0.05) < 5 * sqrt(0.05 * 0.95 / COUNT));
    gp_random_fill_uniform(x, COUNT, 1337, "h.0.attn.weight");
    check_moments(x, 0, 1.0 / 3);
    for (int i = 0; i < COUNT; i++)
        assert_true(x[i] >= -1.0f && x[i] < 1.0f);
    /* The variance of a normal number that lies within two deviations. */
    gp_random_fill_truncated_normal(x, COUNT, 1337, "h.0.attn.weight");
    check_moments(x, 0, 0.7737413);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabsf(x[i]) <= 2);
    gp_free(x);
}

/* A number depends on seed, name and index alone: not on how many are drawn. */
static void test_fill_is_counted(void **state) {
    (void)state;
    float all[11], some[11], other[11];
    void (*fills[])(float *, int64_t, uint64_t, const char *) = {gp_random_fill_normal, gp_random_fill_uniform,
                                                                 gp_random_fill_truncated_normal};
    for (int f = 0; f < 3; f++) {
        fills[f](all, 11, 7, "a");
        for (int count = 0; count < 11; count++) {
            some[count] = 99;
            fills[f](some, count, 7, "a");
            assert_memory_equal(some, all, (size_t)count * sizeof *all);
            assert_true(some[count] == 99);
        }
        fills[f](other, 11, 8, "a");
        assert_true(other[0] != all[0] && other[10] != all[10]);
        fills[f](other, 11, 7, "b");
        assert_true(other[0] != all[0] && other[10] != all[10]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_units_and_thresholds), cmocka_unit_test(test_hash),
        cmocka_unit_test(test_fill_moments),  cmocka_unit_test(test_fill_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
