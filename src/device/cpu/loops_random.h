/* Dropout: counted random numbers (base/random.h) drawn for many blocks of four elements at once. */
#ifndef GP_DEVICE_CPU_LOOPS_RANDOM_H
#define GP_DEVICE_CPU_LOOPS_RANDOM_H

#include "device/cpu/loops_lanes.h"

enum { DRAWN = 16, WORDS = 4 * DRAWN }; /* blocks, and elements, at a time */

/* The words of elements 4 * block .. 4 * block + WORDS - 1. */
GP_INLINE void draw_words(const gp_cpu_draw *draw, uint32_t block, uint32_t *words) {
    gp_random_key key = draw->key;
    uint32_t sample = draw->sample, step = draw->step, use = draw->use;
    GP_SIMD
    for (uint32_t l = 0; l < DRAWN; l++) {
        gp_random_block drawn = gp_random_element4(key, block + l, sample, step, use);
        words[4 * l] = drawn.word[0];
        words[4 * l + 1] = drawn.word[1];
        words[4 * l + 2] = drawn.word[2];
        words[4 * l + 3] = drawn.word[3];
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
