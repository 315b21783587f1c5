/* The vector math of the CPU device against the C library in double precision, over the whole range of f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "device/cpu/math.h"

enum { STRIDE = 3571 }; /* prime: all exponents, varied mantissas */

/* Error of y in units in the last place of the true value. */
static double units(float y, double truth) {
    if (isnan(truth)) return isnan(y) ? 0 : INFINITY;
    if (fabs(truth) >= 0x1.ffffffp127) return isinf(y) && (y > 0) == (truth > 0) ? 0 : INFINITY;
    if (truth == 0) return y == 0 ? 0 : INFINITY;
    if (!isfinite(y)) return INFINITY;
    int exponent = ilogb(truth) < -126 ? -126 : ilogb(truth);
    return fabs((double)y - truth) / ldexp(1.0, exponent - 23);
}

typedef struct walk {
    const char *name;
    float (*fast)(float);
    double (*exact)(double);
    double bound, low, high;
} walk;

static void check(const walk *w) {
    double worst = 0;
    float where = 0;
    for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += STRIDE) {
        float x = gp_f32_of_bits((uint32_t)bits);
        if (x < w->low || x > w->high) continue;
        double error = units(w->fast(x), w->exact((double)x));
        if (error > worst) {
            worst = error;
            where = x;
        }
    }
    printf("%s: at most %.3f units, at %.9g\n", w->name, worst, (double)where);
    assert_true(worst <= w->bound);
}

static void test_exp(void **state) {
    (void)state;
    check(&(walk){"exp", gp_fast_expf, exp, 2, -INFINITY, INFINITY});
    assert_true(gp_fast_expf(0.0f) == 1.0f);
    assert_true(gp_fast_expf(-INFINITY) == 0.0f);
    assert_true(isinf(gp_fast_expf(INFINITY)));
    assert_true(isinf(gp_fast_expf(88.73f)));
    assert_true(isfinite(gp_fast_expf(88.72f)));
    assert_true(gp_fast_expf(-104.0f) == 0.0f);
    assert_true(isnan(gp_fast_expf(NAN)));
}

/* Below 2^-126 it is 0, or the smallest normal number. */
static void test_exp_negative(void **state) {
    (void)state;
    check(&(walk){"exp_negative", gp_fast_exp_negativef, exp, 2, -87.3f, 87});
    assert_true(gp_fast_exp_negativef(0.0f) == 1.0f);
    assert_true(gp_fast_exp_negativef(-88.0f) == 0.0f);
    assert_true(gp_fast_exp_negativef(-INFINITY) == 0.0f);
    assert_true(isnan(gp_fast_exp_negativef(NAN)));
    for (float x = -87.3f; x > -88.1f; x -= 0.001f) {
        assert_true(fabs((double)gp_fast_exp_negativef(x) - exp((double)x)) <= 0x1p-126);
    }
}

static void test_expm1(void **state) {
    (void)state;
    check(&(walk){"expm1", gp_fast_expm1f, expm1, 2, -87, 87});
}

static void test_tanh(void **state) {
    (void)state;
    check(&(walk){"tanh", gp_fast_tanhf, tanh, 3, -INFINITY, INFINITY});
    assert_true(gp_fast_tanhf(INFINITY) == 1.0f);
    assert_true(gp_fast_tanhf(-INFINITY) == -1.0f);
    assert_true(signbit(gp_fast_tanhf(-0.0f)));
    assert_true(isnan(gp_fast_tanhf(NAN)));
}

static void test_erf(void **state) {
    (void)state;
    check(&(walk){"erf", gp_fast_erff, erf, 3, -INFINITY, INFINITY});
    assert_true(gp_fast_erff(INFINITY) == 1.0f);
    assert_true(gp_fast_erff(-INFINITY) == -1.0f);
    assert_true(isnan(gp_fast_erff(NAN)));
}

static void test_log(void **state) {
    (void)state;
    check(&(walk){"log", gp_fast_logf, log, 2, 0x1p-149, INFINITY});
    assert_true(gp_fast_logf(1.0f) == 0.0f);
    assert_true(gp_fast_logf(0.0f) == -INFINITY);
    assert_true(gp_fast_logf(INFINITY) == INFINITY);
    assert_true(isnan(gp_fast_logf(-1.0f)));
    assert_true(isnan(gp_fast_logf(NAN)));
}

/* The walk above skips close neighbours: dense runs where a reduction changes its mind. */
static void test_dense(void **state) {
    (void)state;
    static const float centres[] = {0.34657359f, 1.0f, 0.70710678f, 1.41421356f, -0.34657359f, 10.0f, 4.0f, -87.33654f};
    for (size_t c = 0; c < sizeof centres / sizeof centres[0]; c++) {
        for (uint32_t i = 0; i < 4000; i++) {
            float x = gp_f32_of_bits(gp_f32_bits(centres[c]) + i - 2000);
            assert_true(units(gp_fast_expf(x), exp((double)x)) <= 2);
            assert_true(units(gp_fast_tanhf(x), tanh((double)x)) <= 3);
            assert_true(units(gp_fast_erff(x), erf((double)x)) <= 3);
            if (x > 0) assert_true(units(gp_fast_logf(x), log((double)x)) <= 2);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),   cmocka_unit_test(test_exp_negative), cmocka_unit_test(test_expm1),
        cmocka_unit_test(test_tanh),  cmocka_unit_test(test_erf),          cmocka_unit_test(test_log),
        cmocka_unit_test(test_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
