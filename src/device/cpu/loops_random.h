/* Dropout: counted random numbers (base/random.h) drawn for many blocks of four elements at once. */
#ifndef GP_DEVICE_CPU_LOOPS_RANDOM_H
#define GP_DEVICE_CPU_LOOPS_RANDOM_H

#include "device/cpu/loops_lanes.h"

/* Counters in vectors of 64-bit lanes, one block in a lane, computing what gp_random4 does: each word of a block sits
 * in the low half of a lane of its own vector, so that a round is two multiplications of 32 by 32 bits, two shifts and
 * four exclusive ors. Compilers do not find the multiplication by themselves (they emulate one of 64 bits), hence the
 * intrinsics; the rest is the same everywhere. */
#if defined(__AVX512F__)
#include <immintrin.h>
enum { LANE_BYTES = 64 };
#elif defined(__AVX2__)
#include <immintrin.h>
enum { LANE_BYTES = 32 };
#elif defined(__SSE2__)
#include <emmintrin.h>
enum { LANE_BYTES = 16 };
#else
enum { LANE_BYTES = 16 };
#endif

#define GP_VECTOR(bytes) __attribute__((vector_size(bytes)))

typedef uint64_t counters GP_VECTOR(LANE_BYTES);

enum {
    BLOCKS_AT_ONCE = LANE_BYTES / 8,
    DRAWN = 32, /* blocks drawn by one call: several vectors, because each waits for its own multiplications */
    WORDS = 4 * DRAWN
};

GP_INLINE counters counters_of(uint32_t value) {
    return (counters){0} + value;
}

/* Products of the low halves. */
GP_INLINE counters product_of(counters a, counters b) {
#if defined(__AVX512F__)
    return (counters)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (counters)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (counters)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

/* gp_random_element4 for BLOCKS_AT_ONCE blocks; halves[2 l] holds words 0 and 1 of block l, halves[2 l + 1] words 2, 3.
 */
GP_INLINE void draw_blocks(const gp_cpu_draw *draw, uint32_t block, uint64_t *halves) {
    counters c0 = counters_of(0), c1 = counters_of(draw->sample), c2 = counters_of(draw->step),
             c3 = counters_of(draw->use);
    uint32_t k0 = draw->key.word[0], k1 = draw->key.word[1];
    for (uint32_t l = 0; l < BLOCKS_AT_ONCE; l++) {
        c0[l] = block + l;
    }
    for (int round = 0; round < 10; round++) {
        counters p0 = product_of(c0, counters_of(0xD2511F53u));
        counters p1 = product_of(c2, counters_of(0xCD9E8D57u));
        c0 = (p1 >> 32) ^ c1 ^ counters_of(k0);
        c2 = (p0 >> 32) ^ c3 ^ counters_of(k1);
        c1 = p1;
        c3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    counters low = (c0 & 0xFFFFFFFFu) | c1 << 32, high = (c2 & 0xFFFFFFFFu) | c3 << 32;
    for (int l = 0; l < BLOCKS_AT_ONCE; l++) {
        halves[2 * l] = low[l];
        halves[2 * l + 1] = high[l];
    }
}

/* The words of elements 4 * block .. 4 * block + WORDS - 1. */
GP_INLINE void draw_words(const gp_cpu_draw *draw, uint32_t block, uint32_t *words) {
    uint64_t halves[2 * DRAWN];
    for (uint32_t first = 0; first < DRAWN; first += BLOCKS_AT_ONCE) {
        draw_blocks(draw, block + first, halves + 2 * first);
    }
    GP_SIMD
    for (int i = 0; i < 2 * DRAWN; i++) {
        words[2 * i] = (uint32_t)halves[i];
        words[2 * i + 1] = (uint32_t)(halves[i] >> 32);
    }
}

GP_INLINE void dropout_run(const gp_cpu_draw *draw, gp_dtype dtype, const void *x, void *y, int64_t first,
                           int64_t count) {
    uint32_t threshold = draw->threshold, words[WORDS];
    float factor = draw->scale;
    for (int64_t begin = 0; begin < count; begin += WORDS) {
        draw_words(draw, (uint32_t)((first + begin) / 4), words);
        int64_t n = smaller(WORDS, count - begin);
        const void *x_run = from(dtype, x, begin);
        void *y_run = to(dtype, y, begin);
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            float kept = load(dtype, x_run, i) * factor;
            store(dtype, y_run, i, words[i] >= threshold ? kept : 0.0f);
        }
    }
}

static void dropout(const gp_cpu_draw *draw, gp_dtype dtype, const void *x, void *y, int64_t first, int64_t count) {
    if (dtype == GP_F32) {
        dropout_run(draw, GP_F32, x, y, first, count);
    } else {
        dropout_run(draw, GP_BF16, x, y, first, count);
    }
}

#endif
