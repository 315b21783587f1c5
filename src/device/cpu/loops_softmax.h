/* Loops over rows of logits: softmax, cross-entropy over big vocabularies, their gradients.
 *
 * A row is read in chunks: the largest element of a chunk first, then the sum of exponentials while the chunk is in the
 * first-level cache; when a chunk raises the maximum, the sum so far is scaled down ("online softmax", Milakov &
 * Gimelshein, arXiv 1805.02867). So a row of 50,257 logits comes from memory once. */
#ifndef GP_DEVICE_CPU_LOOPS_SOFTMAX_H
#define GP_DEVICE_CPU_LOOPS_SOFTMAX_H

#include <float.h>
#include <math.h>

#include "device/cpu/loops_lanes.h"
#include "device/cpu/math.h"

typedef struct row_exponentials {
    float max;
    float sum;    /* of exp(x - max) */
    double total; /* of x, where asked for */
} row_exponentials;

/* At least -FLT_MAX, so that logits of -infinity (masked classes) have probability 0 and no NaN comes up. */
GP_INLINE float chunk_max(gp_dtype dtype, const void *x, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, -FLT_MAX);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float v = load(dtype, x, i + l);
            lanes[l] = v > lanes[l] ? v : lanes[l];
        }
    }
    for (int l = 0; i + l < n; l++) {
        float v = load(dtype, x, i + l);
        lanes[l] = v > lanes[l] ? v : lanes[l];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lanes[l] = lanes[l] > lanes[l + width] ? lanes[l] : lanes[l + width];
        }
    }
    return lanes[0];
}

GP_INLINE void chunk_exponentials(gp_dtype dtype, const void *x, int64_t n, float max, float *lanes) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            lanes[l] += gp_fast_expf(load(dtype, x, i + l) - max);
        }
    }
    for (int l = 0; i + l < n; l++) {
        lanes[l] += gp_fast_expf(load(dtype, x, i + l) - max);
    }
}

GP_INLINE float chunk_sum(gp_dtype dtype, const void *x, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            lanes[l] += load(dtype, x, i + l);
        }
    }
    for (int l = 0; i + l < n; l++) {
        lanes[l] += load(dtype, x, i + l);
    }
    return lanes_sum(lanes);
}

GP_INLINE row_exponentials exponentials_of(gp_dtype dtype, const void *x, int64_t n, bool want_total) {
    row_exponentials row = {.max = -FLT_MAX};
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    for (int64_t first = 0; first < n; first += CHUNK) {
        const void *chunk = from(dtype, x, first);
        int64_t count = smaller(CHUNK, n - first);
        float max = chunk_max(dtype, chunk, count);
        if (max > row.max) {
            float factor = gp_fast_expf(row.max - max);
            for (int l = 0; l < LANES; l++) {
                lanes[l] *= factor;
            }
            row.max = max;
        }
        chunk_exponentials(dtype, chunk, count, row.max, lanes);
        if (want_total) row.total += (double)chunk_sum(dtype, chunk, count);
    }
    row.sum = lanes_sum(lanes);
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
            store(dtype, y_row, i, gp_fast_expf(load(dtype, x_row, i) - row.max) * factor);
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
    double log_sum = (double)row.max + log((double)row.sum);
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
    float own = gp_fast_expf(load(dtype, x, target->index) - lse) - shared - (1.0f - target->smoothing);
    GP_SIMD
    for (int64_t i = 0; i < n; i++) {
        store(dtype, dx, i, (gp_fast_expf(load(dtype, x, i) - lse) - shared) * factor);
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
