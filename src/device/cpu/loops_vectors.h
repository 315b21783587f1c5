/* Vectors as wide as the instruction set's registers, for loops whose results must stay in registers while an inner
 * loop of unknown length runs: compilers keep variables there, but not arrays. Loads and stores are of f32 or bf16, of
 * whole vectors or of the first lanes of one. */
#ifndef GP_DEVICE_CPU_LOOPS_VECTORS_H
#define GP_DEVICE_CPU_LOOPS_VECTORS_H

#include <string.h>

#include "device/cpu/loops_lanes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define GP_VECTOR_BYTES 64
#elif defined(__AVX__)
#define GP_VECTOR_BYTES 32
#else
#define GP_VECTOR_BYTES 16
#endif

typedef float vector __attribute__((vector_size(GP_VECTOR_BYTES)));
typedef int32_t vector_i32 __attribute__((vector_size(GP_VECTOR_BYTES)));
typedef uint32_t vector_u32 __attribute__((vector_size(GP_VECTOR_BYTES)));
typedef uint16_t vector_u16 __attribute__((vector_size(GP_VECTOR_BYTES / 2)));
typedef uint8_t vector_u8 __attribute__((vector_size(GP_VECTOR_BYTES / 4)));

enum { VECTOR_LANES = GP_VECTOR_BYTES / 4 };

/* a where the mask is set, else b. */
GP_INLINE vector_i32 choose(vector_i32 mask, vector_i32 a, vector_i32 b) {
    return (mask & a) | (~mask & b);
}

/* Widening, and narrowing of numbers that fit: one instruction each, which compilers do not find by themselves. */
GP_INLINE vector_u32 widen_u16(vector_u16 value) {
#if defined(__AVX512F__)
    return (vector_u32)_mm512_cvtepu16_epi32((__m256i)value);
#elif defined(__AVX2__)
    return (vector_u32)_mm256_cvtepu16_epi32((__m128i)value);
#else
    return __builtin_convertvector(value, vector_u32);
#endif
}

GP_INLINE vector_u16 narrow_u16(vector_u32 value) {
#if defined(__AVX512F__)
    return (vector_u16)_mm512_cvtepi32_epi16((__m512i)value);
#else
    return __builtin_convertvector(value, vector_u16);
#endif
}

GP_INLINE vector_i32 widen_u8(vector_u8 value) {
#if defined(__AVX512F__)
    return (vector_i32)_mm512_cvtepu8_epi32((__m128i)value);
#elif defined(__AVX2__)
    long long bytes;
    memcpy(&bytes, &value, sizeof bytes);
    return (vector_i32)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes));
#else
    return __builtin_convertvector(value, vector_i32);
#endif
}

/* `lanes`: how many are there; the others are 0. */
GP_INLINE vector vector_load(gp_dtype dtype, const void *data, int64_t i, int lanes) {
    const void *place = from(dtype, data, i);
    if (dtype == GP_BF16) {
        vector_u16 halves = {0};
        memcpy(&halves, place, (size_t)lanes * sizeof(uint16_t));
        return (vector)(widen_u16(halves) << 16);
    }
    vector value = {0};
    memcpy(&value, place, (size_t)lanes * sizeof(float));
    return value;
}

/* As gp_bf16_of_f32, whose result is the upper half of each lane. */
GP_INLINE vector_u32 round_upper(vector value) {
    vector_u32 bits = (vector_u32)value, rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
#if defined(__AVX512F__)
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
    return (vector_u32)_mm512_mask_or_epi32((__m512i)rounded, nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
#else
    return (vector_u32)choose(value != value, (vector_i32)(bits | 0x400000u), (vector_i32)rounded);
#endif
}

GP_INLINE vector_u16 vector_round(vector value) {
    return narrow_u16(round_upper(value) >> 16);
}

/* 0 where the value is negative. NaN and -0 stay: the processor's maximum is its second operand there. */
GP_INLINE vector vector_rectify(vector value) {
#if defined(__AVX512F__)
    return (vector)_mm512_max_ps(_mm512_setzero_ps(), (__m512)value);
#elif defined(__AVX2__)
    return (vector)_mm256_max_ps(_mm256_setzero_ps(), (__m256)value);
#else
    return (vector)(~(value < 0.0f) & (vector_i32)value);
#endif
}

/* The value where the other one is positive, else 0. */
GP_INLINE vector vector_where_positive(vector other, vector value) {
#if defined(__AVX512F__)
    __mmask16 positive = _mm512_cmp_ps_mask((__m512)other, _mm512_setzero_ps(), _CMP_GT_OQ);
    return (vector)_mm512_maskz_mov_ps(positive, (__m512)value);
#else
    return (vector)((other > 0.0f) & (vector_i32)value);
#endif
}

GP_INLINE void vector_store(gp_dtype dtype, void *data, int64_t i, vector value, int lanes) {
    void *place = to(dtype, data, i);
    if (dtype == GP_BF16) {
        vector_u16 halves = vector_round(value);
        memcpy(place, &halves, (size_t)lanes * sizeof(uint16_t));
    } else {
        memcpy(place, &value, (size_t)lanes * sizeof(float));
    }
}

/* Two whole vectors, one after the other: one instruction brings the halves of rounded ones together. */
GP_INLINE void vector_store_pair(gp_dtype dtype, void *data, int64_t i, vector first, vector second) {
#if defined(__AVX512BW__)
    if (dtype == GP_BF16) {
        static const uint16_t upper[] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                         33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
        __m512i halves = _mm512_permutex2var_epi16((__m512i)round_upper(first), _mm512_loadu_si512(upper),
                                                   (__m512i)round_upper(second));
        _mm512_storeu_si512(to(dtype, data, i), halves);
        return;
    }
#endif
    vector_store(dtype, data, i, first, VECTOR_LANES);
    vector_store(dtype, data, i + VECTOR_LANES, second, VECTOR_LANES);
}

GP_INLINE vector_i32 vector_load_u8(const uint8_t *data, int lanes) {
    vector_u8 bytes = {0};
    memcpy(&bytes, data, (size_t)lanes);
    return widen_u8(bytes);
}

GP_INLINE void vector_store_u8(uint8_t *data, vector_i32 value, int lanes) {
    vector_u8 bytes = __builtin_convertvector(value, vector_u8);
    memcpy(data, &bytes, (size_t)lanes);
}

#endif
