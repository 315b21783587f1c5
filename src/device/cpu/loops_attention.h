/* Loops over blocks of attention scores: softmax with dropout, and its gradient. The products before and after them are
 * in attention.c and attention_gradient.c. */
#ifndef GP_DEVICE_CPU_LOOPS_ATTENTION_H
#define GP_DEVICE_CPU_LOOPS_ATTENTION_H

#include "device/cpu/loops_random.h"
#include "device/cpu/loops_softmax.h"

GP_INLINE int64_t columns_seen(const gp_cpu_scores *block, int64_t r) {
    return block->causal ? smaller(block->first + r + 1, block->columns) : block->columns;
}

GP_INLINE void clear(float *row, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        row[i] = 0.0f;
    }
}

/* row[i] times what dropout makes of element i of the row: 0 or the scale. Blocks of random words begin at multiples of
 * four elements, rows anywhere. */
GP_INLINE void drop_row(const gp_cpu_draw *draw, float *row, int64_t first, int64_t n) {
    uint32_t words[WORDS], threshold = draw->threshold;
    float factor = draw->scale;
    int64_t skipped = first % 4;
    uint32_t block = (uint32_t)(first / 4);
    for (int64_t i = 0; i < n; block += DRAWN, skipped = 0) {
        draw_words(draw, block, words);
        int64_t count = smaller(WORDS - skipped, n - i);
        const uint32_t *word = words + skipped;
        float *run = row + i;
        GP_SIMD
        for (int64_t l = 0; l < count; l++) {
            run[l] = word[l] >= threshold ? run[l] * factor : 0.0f;
        }
        i += count;
    }
}

/* row[i] = exp(row[i] - max); returns their sum. */
GP_INLINE float exponentials_row(float *row, int64_t n, float max) {
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float e = gp_fast_exp_negativef(row[i + l] - max);
            row[i + l] = e;
            lanes[l] += e;
        }
    }
    for (int l = 0; i + l < n; l++) {
        float e = gp_fast_exp_negativef(row[i + l] - max);
        row[i + l] = e;
        lanes[l] += e;
    }
    return lanes_sum(lanes);
}

static void attention_softmax(const gp_cpu_scores *block, float *scores, float *lse, float *inverse) {
    for (int64_t r = 0; r < block->rows; r++) {
        float *row = scores + r * block->width;
        int64_t n = columns_seen(block, r);
        float max = chunk_max(GP_F32, row, n);
        float sum = exponentials_row(row, n, max);
        lse[r] = max + gp_fast_logf(sum);
        inverse[r] = 1.0f / sum;
        if (block->draw) drop_row(block->draw, row, block->element + r * block->row_elements, n);
        clear(row, n, block->columns);
    }
}

static void attention_delta(gp_dtype dtype, const void *dy, const void *y, int64_t rows, int64_t n, int64_t width,
                            float *delta) {
    for (int64_t r = 0; r < rows; r++) {
        const void *dy_row = from(dtype, dy, r * width), *y_row = from(dtype, y, r * width);
        delta[r] = dtype == GP_F32 ? row_product(GP_F32, dy_row, y_row, n) : row_product(GP_BF16, dy_row, y_row, n);
    }
}

/* Without dropout: p = exp(score - lse), ds = p (dp - delta) scale. */
GP_INLINE void gradient_row(float *scores, float *dp, int64_t n, float lse, float delta, float scale) {
    GP_SIMD
    for (int64_t i = 0; i < n; i++) {
        float p = gp_fast_exp_negativef(scores[i] - lse); /* above 0 by rounding at most */
        dp[i] = p * (dp[i] - delta) * scale;
        scores[i] = p;
    }
}

/* The same with dropout: the random words of a run of elements are drawn once for both. */
GP_INLINE void dropped_gradient_row(const gp_cpu_draw *draw, int64_t first, float *scores, float *dp, int64_t n,
                                    float lse, float delta, float scale) {
    uint32_t words[WORDS], threshold = draw->threshold;
    float factor = draw->scale;
    int64_t skipped = first % 4;
    uint32_t block = (uint32_t)(first / 4);
    for (int64_t i = 0; i < n; block += DRAWN, skipped = 0) {
        draw_words(draw, block, words);
        int64_t count = smaller(WORDS - skipped, n - i);
        const uint32_t *word = words + skipped;
        float *score = scores + i, *gradient = dp + i;
        GP_SIMD
        for (int64_t l = 0; l < count; l++) {
            float kept = word[l] >= threshold ? factor : 0.0f;
            float p = gp_fast_exp_negativef(score[l] - lse);
            gradient[l] = p * (kept * gradient[l] - delta) * scale;
            score[l] = p * kept;
        }
        i += count;
    }
}

static void attention_gradient(const gp_cpu_scores *block, float *scores, float *dp, const float *lse,
                               const float *delta, float scale) {
    for (int64_t r = 0; r < block->rows; r++) {
        float *row = scores + r * block->width, *dp_row = dp + r * block->width;
        int64_t n = columns_seen(block, r), first = block->element + r * block->row_elements;
        if (block->draw) {
            dropped_gradient_row(block->draw, first, row, dp_row, n, lse[r], delta[r], scale);
        } else {
            gradient_row(row, dp_row, n, lse[r], delta[r], scale);
        }
        clear(row, n, block->columns);
        clear(dp_row, n, block->columns);
    }
}

#endif
