/* Loops over rows of logits: softmax, cross-entropy over big vocabularies, their gradients.
 *
 * A row is read once, in chunks. Exponentials are taken relative to a base, the largest element of the first chunk;
 * only when a later element is far above it (more than SLACK) is the base raised and the sum so far scaled down. This
 * is the online softmax (Milakov & Gimelshein, arXiv 1805.02867) with the maximum found on the way: what makes
 * exponentials safe is that no exponent is large, not that the largest is 0. */
#ifndef GP_DEVICE_CPU_LOOPS_SOFTMAX_H
#define GP_DEVICE_CPU_LOOPS_SOFTMAX_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "device/cpu/loops_lanes.h"
#include "device/cpu/loops_norm.h"
#include "device/cpu/math.h"

/* exp(x) for x <= SLACK, where nearly all calls are: cheaper than gp_fast_expf, as the result needs one scaling only.
 * Below -86 it is 0; NaN stays NaN. */
#define SLACK 20.0f

GP_INLINE float exp_below(float x) {
    int32_t n;
    float p = gp_fast_exp_reduced(x < -86.0f ? -86.0f : x, &n);
    float y = (1.0f + p) * gp_fast_power_of_two(n);
    return x < -86.0f ? 0.0f : y;
}

typedef struct row_exponentials {
    float base;
    float sum;    /* of exp(x - base) */
    double total; /* of x, where asked for */
} row_exponentials;

GP_INLINE float larger(float a, float b) {
    return a > b ? a : b;
}

GP_INLINE float lanes_max(float *lanes) {
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lanes[l] = larger(lanes[l], lanes[l + width]);
        }
    }
    return lanes[0];
}

/* At least -FLT_MAX, so that logits of -infinity (masked classes) have probability 0 and no NaN comes up. */
GP_INLINE float chunk_max(gp_dtype dtype, const void *x, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, -FLT_MAX);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            lanes[l] = larger(load(dtype, x, i + l), lanes[l]);
        }
    }
    for (int l = 0; i + l < n; l++) {
        lanes[l] = larger(load(dtype, x, i + l), lanes[l]);
    }
    return lanes_max(lanes);
}

/* Adds exp(x - base) to the lanes of sums, and keeps the largest x - base. */
GP_INLINE float chunk_exponentials(gp_dtype dtype, const void *x, int64_t n, float base, float *sums) {
    float largest[LANES];
    lanes_fill(largest, -FLT_MAX);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float d = load(dtype, x, i + l) - base;
            sums[l] += exp_below(d);
            largest[l] = larger(d, largest[l]);
        }
    }
    for (int l = 0; i + l < n; l++) {
        float d = load(dtype, x, i + l) - base;
        sums[l] += exp_below(d);
        largest[l] = larger(d, largest[l]);
    }
    return lanes_max(largest);
}

/* Adds a chunk to the row; with a new base first if an element is more than SLACK above the old one. */
GP_INLINE void add_chunk(gp_dtype dtype, const void *x, int64_t n, row_exponentials *row, float *sums) {
    float kept[LANES];
    memcpy(kept, sums, sizeof kept);
    if (!(chunk_exponentials(dtype, x, n, row->base, sums) > SLACK)) return;
    float base = chunk_max(dtype, x, n), factor = exp_below(row->base - base);
    for (int l = 0; l < LANES; l++) {
        sums[l] = kept[l] * factor;
    }
    row->base = base;
    chunk_exponentials(dtype, x, n, base, sums);
}

GP_INLINE row_exponentials exponentials_of(gp_dtype dtype, const void *x, int64_t n, bool want_total) {
    row_exponentials row = {.base = chunk_max(dtype, x, smaller(CHUNK, n))};
    float sums[LANES];
    lanes_fill(sums, 0.0f);
    for (int64_t first = 0; first < n; first += CHUNK) {
        const void *chunk = from(dtype, x, first);
        int64_t count = smaller(CHUNK, n - first);
        fetch(dtype, chunk, AHEAD);
        add_chunk(dtype, chunk, count, &row, sums);
        if (want_total) row.total += (double)row_sum(dtype, chunk, count);
    }
    row.sum = lanes_sum(sums);
    return row;
}

/* ---- softmax ---- */

GP_INLINE void softmax_rows(gp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        const void *x_row = from(dtype, x, r * n);
        void *y_row = to(dtype, y, r * n);
        row_exponentials row = exponentials_of(dtype, x_row, n, false);
        float factor = 1.0f / row.sum;
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            store(dtype, y_row, i, exp_below(load(dtype, x_row, i) - row.base) * factor);
        }
    }
}

static void softmax(gp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n) {
    if (dtype == GP_F32) {
        softmax_rows(GP_F32, x, y, rows, n);
    } else {
        softmax_rows(GP_BF16, x, y, rows, n);
    }
}

GP_INLINE float row_product(gp_dtype dtype, const void *a, const void *b, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            lanes[l] += load(dtype, a, i + l) * load(dtype, b, i + l);
        }
    }
    for (int l = 0; i + l < n; l++) {
        lanes[l] += load(dtype, a, i + l) * load(dtype, b, i + l);
    }
    return lanes_sum(lanes);
}

GP_INLINE void softmax_gradient_rows(gp_dtype dtype, const void *dy, const void *y, void *dx, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        const void *dy_row = from(dtype, dy, r * n), *y_row = from(dtype, y, r * n);
        void *dx_row = to(dtype, dx, r * n);
        float mean = row_product(dtype, dy_row, y_row, n);
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            store(dtype, dx_row, i, load(dtype, y_row, i) * (load(dtype, dy_row, i) - mean));
        }
    }
}

static void softmax_gradient(gp_dtype dtype, const void *dy, const void *y, void *dx, int64_t rows, int64_t n) {
    if (dtype == GP_F32) {
        softmax_gradient_rows(GP_F32, dy, y, dx, rows, n);
    } else {
        softmax_gradient_rows(GP_BF16, dy, y, dx, rows, n);
    }
}

/* ---- cross-entropy: lse - (1 - s) x[target] - s mean(x) ---- */

GP_INLINE double cross_entropy_row(const gp_cpu_target *target, gp_dtype dtype, const void *x, int64_t n, float *lse) {
    bool smooth = target->smoothing != 0.0f;
    row_exponentials row = smooth ? exponentials_of(dtype, x, n, true) : exponentials_of(dtype, x, n, false);
    double log_sum = (double)row.base + log((double)row.sum);
    *lse = (float)log_sum;
    double s = (double)target->smoothing, picked = (double)load(dtype, x, target->index);
    return smooth ? log_sum - (1.0 - s) * picked - s * (row.total / (double)n) : log_sum - picked;
}

static double cross_entropy(const gp_cpu_target *target, gp_dtype dtype, const void *x, int64_t n, float *lse) {
    return dtype == GP_F32 ? cross_entropy_row(target, GP_F32, x, n, lse)
                           : cross_entropy_row(target, GP_BF16, x, n, lse);
}

/* dx = factor (softmax(x) - s / n - (1 - s) [i is the target]). The target's element is taken before the row is
 * overwritten. */
GP_INLINE void cross_entropy_gradient_row(const gp_cpu_target *target, gp_dtype dtype, const void *x, float lse,
                                          void *dx, int64_t n) {
    float factor = target->factor, shared = target->smoothing / (float)n;
    float own = exp_below(load(dtype, x, target->index) - lse) - shared - (1.0f - target->smoothing);
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t end = smaller(first + CHUNK, n);
        fetch(dtype, from(dtype, x, first), AHEAD);
        GP_SIMD
        for (int64_t i = first; i < end; i++) {
            store(dtype, dx, i, (exp_below(load(dtype, x, i) - lse) - shared) * factor);
        }
    }
    store(dtype, dx, target->index, own * factor);
}

static void cross_entropy_gradient(const gp_cpu_target *target, gp_dtype dtype, const void *x, float lse, void *dx,
                                   int64_t n) {
    if (dtype == GP_F32) {
        cross_entropy_gradient_row(target, GP_F32, x, lse, dx, n);
    } else {
        cross_entropy_gradient_row(target, GP_BF16, x, lse, dx, n);
    }
}

#endif
