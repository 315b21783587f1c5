/* Conversions: every 16-bit pattern both ways, ties, what is too large, NaN, double rounding, and saturation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "gpipe/tensor.h"
#include "tensor/bf16.h"

static void test_names(void **state) {
    (void)state;
    assert_string_equal(gp_dtype_name(GP_BF16), "bf16");
    assert_int_equal(gp_dtype_bytes(GP_F64), 8);
    assert_int_equal(gp_dtype_bytes(GP_U8), 1);
    assert_int_equal(gp_dtype_bytes((gp_dtype)77), 0);
    assert_true(gp_dtype_is_float(GP_F16));
    assert_false(gp_dtype_is_float(GP_I32));
}

/* The value of a 16-bit float by its definition: sign, exponent of `exponent_bits`, fraction. */
static double value_by_definition(uint16_t bits, int exponent_bits) {
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits & 0x7FFF) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void test_all_16_bit_patterns(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        float bf16 = gp_bf16_to_f32((uint16_t)bits), f16 = gp_f16_to_f32((uint16_t)bits);
        assert_true(same((double)bf16, value_by_definition((uint16_t)bits, 8)));
        assert_true(same((double)f16, value_by_definition((uint16_t)bits, 5)));
        if (isnan(bf16)) {
            assert_true(isnan(gp_bf16_to_f32(gp_bf16_of_f32(bf16))));
        } else {
            assert_int_equal(gp_bf16_of_f32(bf16), bits);
        }
        if (isnan(f16)) {
            assert_true(isnan(gp_f16_to_f32(gp_f16_of_f32(f16))));
        } else {
            assert_int_equal(gp_f16_of_f32(f16), bits);
        }
    }
    /* NaNs whose payload is cut off entirely stay NaNs. */
    assert_true(isnan(gp_bf16_to_f32(gp_bf16_of_f32(gp_f32_of_bits(0x7F800001u)))));
    assert_true(isnan(gp_f16_to_f32(gp_f16_of_f32(gp_f32_of_bits(0xFF800001u)))));
}

/* Between two neighbours: below the middle goes down, above it up, the middle to the even one. */
static void check_neighbours(gp_dtype dtype, int exponent_bits, uint16_t low) {
    uint16_t high = (uint16_t)(low + 1);
    double a = value_by_definition(low, exponent_bits), b = value_by_definition(high, exponent_bits);
    if (isinf(b)) b = ldexp(1, 1 << (exponent_bits - 1)); /* as if the range went on */
    double middle = a + (b - a) / 2;
    double inputs[] = {nextafter(middle, a), middle, nextafter(middle, b)};
    uint16_t expected[] = {low, low % 2 ? high : low, high}, found[3];
    gp_convert(found, dtype, inputs, GP_F64, 3);
    assert_memory_equal(found, expected, sizeof found);
    float singles[] = {(float)a, nextafterf((float)a, INFINITY), (float)middle};
    uint16_t expected_singles[] = {low, low, expected[1]};
    gp_convert(found, dtype, singles, GP_F32, 3);
    assert_memory_equal(found, expected_singles, sizeof found);
}

static void test_rounding_to_nearest_even(void **state) {
    (void)state;
    for (uint16_t low = 1; low < 0x7C00; low = (uint16_t)(low + 3))
        check_neighbours(GP_F16, 5, low);
    for (uint16_t low = 0x80; low < 0x7F80; low = (uint16_t)(low + 3))
        check_neighbours(GP_BF16, 8, low);
    check_neighbours(GP_F16, 5, 0x7BFF);
    check_neighbours(GP_BF16, 8, 0x7F7F);
}

static void test_large_and_small(void **state) {
    (void)state;
    const double inputs[] = {1e300, -1e300, 1e-300, -1e-300, 65519.99, 65520.0};
    uint16_t bf16[6], f16[6];
    gp_convert(bf16, GP_BF16, inputs, GP_F64, 6);
    gp_convert(f16, GP_F16, inputs, GP_F64, 6);
    const uint16_t bf16_expected[] = {0x7F80, 0xFF80, 0, 0x8000, 0x4780, 0x4780};
    const uint16_t f16_expected[] = {0x7C00, 0xFC00, 0, 0x8000, 0x7BFF, 0x7C00};
    assert_memory_equal(bf16, bf16_expected, sizeof bf16);
    assert_memory_equal(f16, f16_expected, sizeof f16);
}

static void test_float_to_integer(void **state) {
    (void)state;
    const double inputs[] = {0.5, 1.5, 2.5, -0.5, -1.5, 255.5, 3e9, -3e9, 1e30, -1e30, (double)NAN, (double)INFINITY};
    enum { N = sizeof inputs / sizeof inputs[0] };
    int32_t i32[N];
    int64_t i64[N];
    uint8_t u8[N];
    gp_convert(i32, GP_I32, inputs, GP_F64, N);
    gp_convert(i64, GP_I64, inputs, GP_F64, N);
    gp_convert(u8, GP_U8, inputs, GP_F64, N);
    const int32_t i32_expected[] = {0, 2, 2, 0, -2, 256, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, INT32_MAX};
    const int64_t i64_expected[] = {0, 2, 2, 0, -2, 256, 3000000000, -3000000000, INT64_MAX, INT64_MIN, 0, INT64_MAX};
    const uint8_t u8_expected[] = {0, 2, 2, 0, 0, 255, 255, 0, 255, 0, 0, 255};
    assert_memory_equal(i32, i32_expected, sizeof i32);
    assert_memory_equal(i64, i64_expected, sizeof i64);
    assert_memory_equal(u8, u8_expected, sizeof u8);
}

static void test_integers(void **state) {
    (void)state;
    const int64_t inputs[] = {0, -1, 255, 256, INT32_MAX + 1LL, INT32_MIN - 1LL, INT64_MAX, INT64_MIN};
    int32_t i32[8];
    uint8_t u8[8];
    gp_convert(i32, GP_I32, inputs, GP_I64, 8);
    gp_convert(u8, GP_U8, inputs, GP_I64, 8);
    const int32_t i32_expected[] = {0, -1, 255, 256, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
    const uint8_t u8_expected[] = {0, 0, 255, 255, 255, 0, 255, 0};
    assert_memory_equal(i32, i32_expected, sizeof i32);
    assert_memory_equal(u8, u8_expected, sizeof u8);
    int64_t back[8];
    gp_convert(back, GP_I64, i32_expected, GP_I32, 8);
    assert_true(back[4] == INT32_MAX && back[5] == INT32_MIN);
}

/* Rounding an i64 first to f64 and then to less would round twice; the processor's own conversion to f32 does not. */
static void test_integer_to_float(void **state) {
    (void)state;
    gp_random_key key = gp_random_key_of(5);
    for (uint32_t i = 0; i < 20000; i++) {
        gp_random_block r = gp_random4(key, (gp_random_block){{i, 0, 0, 0}});
        /* Patterns near a tie of f32: a 25-bit number, far to the left, and a little more or less. */
        int shift = 30 + (int)(r.word[2] % 8);
        int64_t value = (int64_t)((uint64_t)(((r.word[0] | 1u) & 0xFFFFFFu) | 0x1000000u) << shift);
        value += (int64_t)(r.word[3] % 3) - 1;
        if (r.word[2] & 0x100) value = -value;
        float found, expected = (float)value;
        gp_convert(&found, GP_F32, &value, GP_I64, 1);
        assert_true(found == expected);
    }
    const int64_t tie_and_one = (1LL << 62) + (1LL << 54) + 1, tie = (1LL << 62) + (1LL << 54);
    uint16_t up, even;
    gp_convert(&up, GP_BF16, &tie_and_one, GP_I64, 1);
    gp_convert(&even, GP_BF16, &tie, GP_I64, 1);
    assert_int_equal(even, 0x5E80);
    assert_int_equal(up, 0x5E81);
    const int64_t ends[] = {INT64_MAX, INT64_MIN};
    float singles[2];
    gp_convert(singles, GP_F32, ends, GP_I64, 2);
    assert_true(singles[0] == 0x1p63f && singles[1] == -0x1p63f);
}

/* Every pair of dtypes, over several blocks: small whole numbers survive any journey. */
static void test_every_pair(void **state) {
    (void)state;
    enum { N = 1000 };
    int32_t *start = gp_allocate_array(N, 4), *end = gp_allocate_array(N, 4);
    void *first = gp_allocate_array(N, 8), *second = gp_allocate_array(N, 8);
    for (int i = 0; i < N; i++)
        start[i] = i % 251;
    for (int from = 0; from < GP_DTYPE_COUNT; from++) {
        for (int to = 0; to < GP_DTYPE_COUNT; to++) {
            memset(end, 0xFF, N * sizeof *end);
            gp_convert(first, (gp_dtype)from, start, GP_I32, N);
            gp_convert(second, (gp_dtype)to, first, (gp_dtype)from, N);
            gp_convert(end, GP_I32, second, (gp_dtype)to, N);
            assert_memory_equal(end, start, N * sizeof *end);
        }
    }
    gp_free(start);
    gp_free(end);
    gp_free(first);
    gp_free(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_all_16_bit_patterns),
        cmocka_unit_test(test_rounding_to_nearest_even),
        cmocka_unit_test(test_large_and_small),
        cmocka_unit_test(test_float_to_integer),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_integer_to_float),
        cmocka_unit_test(test_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
