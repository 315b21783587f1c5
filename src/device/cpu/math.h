/* exp, expm1, tanh, erf, log in f32 that a compiler turns into vector code: no branches, no tables, no calls.
 *
 * Written without fused multiply-adds in mind and correct with them: results may differ in the last bit between
 * instruction sets, never between runs on one. Each is within 2 units in the last place (log, exp, expm1) or 3 (tanh,
 * erf) of the true value over the whole range, with the C library's values at NaN, infinity and zero. tests/device/
 * test_cpu_math.c walks the range. Polynomials interpolate at Chebyshev nodes.
 *
 * `#include "device/cpu/math.h"`, after which <math.h> is still the system's. */
#ifndef GP_DEVICE_CPU_MATH_H
#define GP_DEVICE_CPU_MATH_H

#include <stdint.h>

#include "tensor/bf16.h"

/* x = n ln 2 + r with |r| <= ln 2 / 2: expm1(r), and n as an integer. |x| < 2^16; NaN gives NaN and any n. */
static inline float gp_fast_exp_reduced(float x, int32_t *n) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which then sits in the low bits */
    float shifted = x * 1.44269504088896341f + magic;
    *n = (int32_t)(gp_f32_bits(shifted) - 0x4B400000u);
    float whole = shifted - magic;
    float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f; /* the first constant has 15 bits: exact */
    float p = 1.3926326e-3f;
    p = p * r + 8.3632928e-3f;
    p = p * r + 4.1666554e-2f;
    p = p * r + 1.6666576e-1f;
    p = p * r + 0.5f;
    return r + r * r * p;
}

/* 2^n for -126 <= n <= 127. */
static inline float gp_fast_power_of_two(int32_t n) {
    return gp_f32_of_bits((uint32_t)(n + 127) << 23);
}

static inline float gp_fast_expf(float x) {
    int32_t n;
    x = x > 89.0f ? 89.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float p = gp_fast_exp_reduced(x, &n);
    n = n > 256 ? 256 : n; /* NaN leaves anything in n */
    n = n < -200 ? -200 : n;
    int32_t half = n >> 1; /* in two steps, so that results below 2^-126 and above 2^127 round as they should */
    return (1.0f + p) * gp_fast_power_of_two(half) * gp_fast_power_of_two(n - half);
}

/* exp(x) for x <= 0 (and up to 88), as softmax needs it, in two thirds of the time: results below 2^-126 are 0. */
static inline float gp_fast_exp_negativef(float x) {
    const float magic = 12582912.0f; /* as above; its own bits vanish in the shift below */
    x = x < -88.0f ? -88.0f : x;     /* n = -127, and a scale of 0 */
    float shifted = x * 1.44269504088896341f + magic;
    float whole = shifted - magic;
    float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
    float p = 1.3926326e-3f;
    p = p * r + 8.3632928e-3f;
    p = p * r + 4.1666554e-2f;
    p = p * r + 1.6666576e-1f;
    p = p * r + 0.5f;
    return (1.0f + (r + r * r * p)) * gp_f32_of_bits((gp_f32_bits(shifted) << 23) + 0x3F800000u);
}

/* exp(x) - 1 without cancellation, for -87 <= x <= 87. */
static inline float gp_fast_expm1f(float x) {
    int32_t n;
    float p = gp_fast_exp_reduced(x, &n);
    n = n > 126 ? 126 : n;
    n = n < -126 ? -126 : n;
    float scale = gp_fast_power_of_two(n);
    return scale * p + (scale - 1.0f);
}

static inline float gp_fast_tanhf(float x) {
    uint32_t sign = gp_f32_bits(x) & 0x80000000u;
    float t = gp_f32_of_bits(gp_f32_bits(x) & 0x7FFFFFFFu);
    t = t > 10.0f ? 10.0f : t; /* 1 - tanh(10) is 4e-9 */
    float e = gp_fast_expm1f(2.0f * t);
    float y = e / (e + 2.0f);
    return gp_f32_of_bits(gp_f32_bits(y) | sign);
}

/* 1 - exp(-q(|x|)) with q = -log(erfc), which is close to linear near 0. */
static inline float gp_fast_erff(float x) {
    uint32_t sign = gp_f32_bits(x) & 0x80000000u;
    float t = gp_f32_of_bits(gp_f32_bits(x) & 0x7FFFFFFFu);
    t = t > 4.0f ? 4.0f : t; /* erfc(4) is 1.5e-8 */
    float q = -1.0139773e-7f;
    q = q * t + 2.5587651e-6f;
    q = q * t - 2.8743582e-5f;
    q = q * t + 1.8809218e-4f;
    q = q * t - 7.7187975e-4f;
    q = q * t + 1.8230307e-3f;
    q = q * t - 2.5815040e-4f;
    q = q * t - 1.9121386e-2f;
    q = q * t + 1.0277336e-1f;
    q = q * t + 6.3661957e-1f;
    /* 2 / sqrt(pi) in two parts: its rounding would be seen in every small result */
    float y = -gp_fast_expm1f(-(t * 1.1283791f + t * (t * q + 6.4e-8f)));
    return gp_f32_of_bits((gp_f32_bits(y) & 0x7FFFFFFFu) | sign);
}

static inline float gp_fast_logf(float x) {
    float tiny = x < 0x1p-126f ? 1.0f : 0.0f; /* subnormal numbers are scaled into the normal range first */
    float scaled = tiny != 0.0f ? x * 0x1p23f : x;
    uint32_t bits = gp_f32_bits(scaled);
    int32_t exponent = (int32_t)(bits - 0x3F3504F3u) >> 23; /* mantissa in sqrt(1/2) .. sqrt(2) */
    float f = gp_f32_of_bits(bits - ((uint32_t)exponent << 23)) - 1.0f;
    float n = (float)exponent - 23.0f * tiny;
    float p = 6.9716115e-2f;
    p = p * f - 1.1479734e-1f;
    p = p * f + 1.1685420e-1f;
    p = p * f - 1.2425687e-1f;
    p = p * f + 1.4249058e-1f;
    p = p * f - 1.6667802e-1f;
    p = p * f + 2.0000716e-1f;
    p = p * f - 2.4999997e-1f;
    p = p * f + 3.3333331e-1f;
    float low = n * -2.12194440e-4f + (f * f * f * p - 0.5f * (f * f)); /* ln 2 = 0.693359375 - 2.12194440e-4 */
    float y = n * 0.693359375f + (f + low);
    y = x > 3.40282347e+38f ? x : y;
    y = x == 0.0f ? -gp_f32_of_bits(0x7F800000u) : y;
    y = x < 0.0f ? gp_f32_of_bits(0x7FC00000u) : y;
    return x != x ? x : y;
}

#endif
