/* Loops over rows: layer norm, RMS norm and their gradients. A row is short enough to stay in the first-level cache, so
 * the passes over it cost little: mean first, then the variance around it (stable), then the result. */
#ifndef GP_DEVICE_CPU_LOOPS_NORM_H
#define GP_DEVICE_CPU_LOOPS_NORM_H

#include <math.h>

#include "device/cpu/loops_lanes.h"

enum {
    TILE = 1024, /* columns that are summed at a time */
    BLOCK = 64   /* rows whose sum is made before it is added to the total: keeps rounding errors small */
};

GP_INLINE float row_sum(gp_dtype dtype, const void *x, int64_t n) {
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

GP_INLINE float row_squares(gp_dtype dtype, const void *x, float mean, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float d = load(dtype, x, i + l) - mean;
            lanes[l] += d * d;
        }
    }
    for (int l = 0; i + l < n; l++) {
        float d = load(dtype, x, i + l) - mean;
        lanes[l] += d * d;
    }
    return lanes_sum(lanes);
}

GP_INLINE void layer_norm_row(gp_dtype dtype, const void *x, const float *w, const float *b, void *y, float mean,
                              float rstd, int64_t n) {
    if (b) {
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            store(dtype, y, i, (load(dtype, x, i) - mean) * rstd * w[i] + b[i]);
        }
    } else {
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            store(dtype, y, i, (load(dtype, x, i) - mean) * rstd * w[i]);
        }
    }
}

GP_INLINE void layer_norm_rows(gp_dtype dtype, const void *x, const float *w, const float *b, void *y, float *mean,
                               float *rstd, int64_t rows, int64_t n, float epsilon) {
    for (int64_t r = 0; r < rows; r++) {
        const void *row = from(dtype, x, r * n);
        float m = row_sum(dtype, row, n) / (float)n;
        float s = 1.0f / sqrtf(row_squares(dtype, row, m, n) / (float)n + epsilon);
        layer_norm_row(dtype, row, w, b, to(dtype, y, r * n), m, s, n);
        mean[r] = m;
        rstd[r] = s;
    }
}

static void layer_norm(gp_dtype dtype, const void *x, const float *w, const float *b, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t n, float epsilon) {
    if (dtype == GP_F32) {
        layer_norm_rows(GP_F32, x, w, b, y, mean, rstd, rows, n, epsilon);
    } else {
        layer_norm_rows(GP_BF16, x, w, b, y, mean, rstd, rows, n, epsilon);
    }
}

GP_INLINE void rms_norm_rows(gp_dtype dtype, const void *x, const float *w, void *y, float *rstd, int64_t rows,
                             int64_t n, float epsilon) {
    for (int64_t r = 0; r < rows; r++) {
        const void *row = from(dtype, x, r * n);
        float s = 1.0f / sqrtf(row_squares(dtype, row, 0.0f, n) / (float)n + epsilon);
        layer_norm_row(dtype, row, w, NULL, to(dtype, y, r * n), 0.0f, s, n);
        rstd[r] = s;
    }
}

static void rms_norm(gp_dtype dtype, const void *x, const float *w, void *y, float *rstd, int64_t rows, int64_t n,
                     float epsilon) {
    if (dtype == GP_F32) {
        rms_norm_rows(GP_F32, x, w, y, rstd, rows, n, epsilon);
    } else {
        rms_norm_rows(GP_BF16, x, w, y, rstd, rows, n, epsilon);
    }
}

/* ---- gradient of the input ---- */

/* With g = dy w and h = (x - mean) rstd: the means of g and of g h over the row. */
GP_INLINE void norm_row_means(gp_dtype dtype, const void *dy, const void *x, const float *w, float mean, float rstd,
                              int64_t n, float *mean_g, float *mean_gh) {
    float g_lanes[LANES], gh_lanes[LANES];
    lanes_fill(g_lanes, 0.0f);
    lanes_fill(gh_lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float g = load(dtype, dy, i + l) * w[i + l];
            g_lanes[l] += g;
            gh_lanes[l] += g * (load(dtype, x, i + l) - mean);
        }
    }
    for (int l = 0; i + l < n; l++) {
        float g = load(dtype, dy, i + l) * w[i + l];
        g_lanes[l] += g;
        gh_lanes[l] += g * (load(dtype, x, i + l) - mean);
    }
    *mean_g = lanes_sum(g_lanes) / (float)n;
    *mean_gh = lanes_sum(gh_lanes) * rstd / (float)n;
}

/* dx = rstd (g - mean_g - h mean_gh) */
GP_INLINE void norm_row_gradient(gp_dtype dtype, const void *dy, const void *x, const float *w, float mean, float rstd,
                                 float mean_g, float mean_gh, void *dx, int64_t n) {
    GP_SIMD
    for (int64_t i = 0; i < n; i++) {
        float h = (load(dtype, x, i) - mean) * rstd;
        store(dtype, dx, i, (load(dtype, dy, i) * w[i] - mean_g - h * mean_gh) * rstd);
    }
}

GP_INLINE void layer_norm_gradient_rows(gp_dtype dtype, const void *dy, const void *x, const float *w,
                                        const float *mean, const float *rstd, void *dx, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        const void *dy_row = from(dtype, dy, r * n), *x_row = from(dtype, x, r * n);
        float m = mean ? mean[r] : 0.0f, mean_g, mean_gh;
        norm_row_means(dtype, dy_row, x_row, w, m, rstd[r], n, &mean_g, &mean_gh);
        if (!mean) mean_g = 0.0f; /* RMS norm does not subtract a mean, so none flows back */
        norm_row_gradient(dtype, dy_row, x_row, w, m, rstd[r], mean_g, mean_gh, to(dtype, dx, r * n), n);
    }
}

static void layer_norm_gradient(gp_dtype dtype, const void *dy, const void *x, const float *w, const float *mean,
                                const float *rstd, void *dx, int64_t rows, int64_t n) {
    if (dtype == GP_F32) {
        layer_norm_gradient_rows(GP_F32, dy, x, w, mean, rstd, dx, rows, n);
    } else {
        layer_norm_gradient_rows(GP_BF16, dy, x, w, mean, rstd, dx, rows, n);
    }
}

static void rms_norm_gradient(gp_dtype dtype, const void *dy, const void *x, const float *w, const float *rstd,
                              void *dx, int64_t rows, int64_t n) {
    layer_norm_gradient(dtype, dy, x, w, NULL, rstd, dx, rows, n);
}

/* ---- gradient of the weights: sums over rows, column by column ---- */

typedef struct norm_tile {
    float dw[TILE], db[TILE];
} norm_tile;

/* Adds four rows (or one) to the tile; the rows are added up first, so that the tile is touched less often. */
GP_INLINE void norm_tile_add(gp_dtype dtype, norm_tile *tile, const void *dy, const void *x, const float *mean,
                             const float *rstd, int rows, int64_t n, int columns) {
    float m[4] = {0}, s[4];
    for (int r = 0; r < rows; r++) {
        m[r] = mean ? mean[r] : 0.0f;
        s[r] = rstd[r];
    }
    GP_SIMD
    for (int c = 0; c < columns; c++) {
        float dw = 0.0f, db = 0.0f;
        for (int r = 0; r < rows; r++) {
            float g = load(dtype, dy, r * n + c);
            dw += g * ((load(dtype, x, r * n + c) - m[r]) * s[r]);
            db += g;
        }
        tile->dw[c] += dw;
        tile->db[c] += db;
    }
}

GP_INLINE void norm_tile_sum(gp_dtype dtype, norm_tile *total, const void *dy, const void *x, const float *mean,
                             const float *rstd, int64_t rows, int64_t n, int columns) {
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int64_t end = smaller(first + BLOCK, rows), r = first;
        norm_tile block = {{0}, {0}};
        for (; r + 4 <= end; r += 4) {
            norm_tile_add(dtype, &block, from(dtype, dy, r * n), from(dtype, x, r * n), mean ? mean + r : NULL,
                          rstd + r, 4, n, columns);
        }
        for (; r < end; r++) {
            norm_tile_add(dtype, &block, from(dtype, dy, r * n), from(dtype, x, r * n), mean ? mean + r : NULL,
                          rstd + r, 1, n, columns);
        }
        GP_SIMD
        for (int c = 0; c < columns; c++) {
            total->dw[c] += block.dw[c];
            total->db[c] += block.db[c];
        }
    }
}

GP_INLINE void norm_weight_gradient_tiles(gp_dtype dtype, const void *dy, const void *x, const float *mean,
                                          const float *rstd, float *dw, float *db, int64_t rows, int64_t n,
                                          int64_t begin, int64_t end, uint32_t accumulate_bits) {
    for (int64_t first = begin; first < end; first += TILE) {
        int columns = (int)smaller(TILE, end - first);
        norm_tile total = {{0}, {0}};
        norm_tile_sum(dtype, &total, from(dtype, dy, first), from(dtype, x, first), mean, rstd, rows, n, columns);
        for (int c = 0; c < columns; c++) {
            dw[first + c] = (accumulate_bits & 1u ? dw[first + c] : 0.0f) + total.dw[c];
        }
        for (int c = 0; db && c < columns; c++) {
            db[first + c] = (accumulate_bits & 2u ? db[first + c] : 0.0f) + total.db[c];
        }
    }
}

static void norm_weight_gradient(gp_dtype dtype, const void *dy, const void *x, const float *mean, const float *rstd,
                                 float *dw, float *db, int64_t rows, int64_t n, int64_t begin, int64_t end,
                                 uint32_t accumulate_bits) {
    if (dtype == GP_F32) {
        norm_weight_gradient_tiles(GP_F32, dy, x, mean, rstd, dw, db, rows, n, begin, end, accumulate_bits);
    } else {
        norm_weight_gradient_tiles(GP_BF16, dy, x, mean, rstd, dw, db, rows, n, begin, end, accumulate_bits);
    }
}

#endif
