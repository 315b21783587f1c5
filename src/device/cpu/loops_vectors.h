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

/* As gp_bf16_of_f32. */
GP_INLINE vector_u16 vector_round(vector value) {
    vector_u32 bits = (vector_u32)value;
    vector_u32 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    vector_i32 nan = (vector_i32)(bits & 0x7FFFFFFFu) > 0x7F800000;
    return narrow_u16((vector_u32)choose(nan, (vector_i32)quiet, (vector_i32)rounded));
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
