/* Loops that sum: rows, columns, squares, differences, several arrays in order; and the search for NaN and infinity.
 *
 * Long sums are made of chunks: f32 lanes within a chunk, double over the chunks. */
#ifndef GP_DEVICE_CPU_LOOPS_SUM_H
#define GP_DEVICE_CPU_LOOPS_SUM_H

#include <string.h>

#include "device/cpu/loops_lanes.h"
#include "device/cpu/loops_norm.h"

GP_INLINE double sum_chunks(gp_dtype dtype, const void *x, int64_t n) {
    double total = 0.0;
    for (int64_t first = 0; first < n; first += CHUNK) {
        total += (double)row_sum(dtype, from(dtype, x, first), smaller(CHUNK, n - first));
    }
    return total;
}

static double sum(gp_dtype dtype, const void *x, int64_t n) {
    return dtype == GP_F32 ? sum_chunks(GP_F32, x, n) : sum_chunks(GP_BF16, x, n);
}

/* In double from the first square on: the square of an f32 is exact, and a large gradient does not overflow. */
static double sum_squares(const float *x, int64_t count) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            lanes[l] += (double)x[i + l] * (double)x[i + l];
        }
    }
    for (int l = 0; i + l < count; l++) {
        lanes[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lanes[l] += lanes[l + width];
        }
    }
    return lanes[0];
}

/* ---- columns ---- */

enum { STRIP = 256 }; /* columns that are summed at a time */

GP_INLINE void column_tile_add(gp_dtype dtype, float *tile, const void *x, int rows, int64_t n, int columns) {
    GP_SIMD
    for (int c = 0; c < columns; c++) {
        float value = 0.0f;
        for (int r = 0; r < rows; r++) {
            value += load(dtype, x, r * n + c);
        }
        tile[c] += value;
    }
}

GP_INLINE void column_tile_sum(gp_dtype dtype, float *total, const void *x, int64_t rows, int64_t n, int columns) {
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int64_t end = smaller(first + BLOCK, rows), r = first;
        float block[STRIP] = {0};
        for (; r + 4 <= end; r += 4) {
            column_tile_add(dtype, block, from(dtype, x, r * n), 4, n, columns);
        }
        for (; r < end; r++) {
            column_tile_add(dtype, block, from(dtype, x, r * n), 1, n, columns);
        }
        GP_SIMD
        for (int c = 0; c < columns; c++) {
            total[c] += block[c];
        }
    }
}

GP_INLINE void column_sum_tiles(gp_dtype dtype, const void *x, int64_t rows, int64_t n, int64_t begin, int64_t end,
                                void *y, gp_dtype ydtype, bool add) {
    for (int64_t first = begin; first < end; first += STRIP) {
        int columns = (int)smaller(STRIP, end - first);
        float total[STRIP] = {0};
        column_tile_sum(dtype, total, from(dtype, x, first), rows, n, columns);
        for (int c = 0; c < columns; c++) {
            float old = add ? load(ydtype, y, first + c) : 0.0f;
            store(ydtype, y, first + c, old + total[c]);
        }
    }
}

static void column_sum(gp_dtype dtype, const void *x, int64_t rows, int64_t n, int64_t begin, int64_t end, void *y,
                       gp_dtype ydtype, bool add) {
    if (dtype == GP_F32) {
        column_sum_tiles(GP_F32, x, rows, n, begin, end, y, ydtype, add);
    } else {
        column_sum_tiles(GP_BF16, x, rows, n, begin, end, y, ydtype, add);
    }
}

/* ---- squared error ---- */

GP_INLINE float difference_squares(gp_dtype dtype, const void *x, const void *target, int64_t n) {
    float lanes[LANES];
    lanes_fill(lanes, 0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        GP_SIMD
        for (int l = 0; l < LANES; l++) {
            float d = load(dtype, x, i + l) - load(dtype, target, i + l);
            lanes[l] += d * d;
        }
    }
    for (int l = 0; i + l < n; l++) {
        float d = load(dtype, x, i + l) - load(dtype, target, i + l);
        lanes[l] += d * d;
    }
    return lanes_sum(lanes);
}

static double squared_error(gp_dtype dtype, const void *x, const void *target, int64_t n) {
    double total = 0.0;
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t count = smaller(CHUNK, n - first);
        total +=
            (double)(dtype == GP_F32
                         ? difference_squares(GP_F32, from(GP_F32, x, first), from(GP_F32, target, first), count)
                         : difference_squares(GP_BF16, from(GP_BF16, x, first), from(GP_BF16, target, first), count));
    }
    return total;
}

GP_INLINE void squared_error_gradient_run(gp_dtype dtype, const void *x, const void *target, void *dx, float factor,
                                          int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        store(dtype, dx, i, (load(dtype, x, i) - load(dtype, target, i)) * factor);
    }
}

static void squared_error_gradient(gp_dtype dtype, const void *x, const void *target, void *dx, float factor,
                                   int64_t count) {
    if (dtype == GP_F32) {
        squared_error_gradient_run(GP_F32, x, target, dx, factor, count);
    } else {
        squared_error_gradient_run(GP_BF16, x, target, dx, factor, count);
    }
}

/* ---- arrays ---- */

static void ordered_sum(float *y, const void *const *sources, int source_count, int64_t begin, int64_t count) {
    for (int64_t first = begin; first < begin + count; first += CHUNK) {
        int64_t n = smaller(CHUNK, begin + count - first);
        float total[CHUNK]; /* y may be a source that comes later */
        memcpy(total, (const float *)sources[0] + first, (size_t)n * sizeof *total);
        for (int s = 1; s + 1 < source_count; s++) {
            const float *source = (const float *)sources[s] + first;
            GP_SIMD
            for (int64_t i = 0; i < n; i++) {
                total[i] += source[i];
            }
        }
        const float *last = source_count > 1 ? (const float *)sources[source_count - 1] + first : NULL;
        GP_SIMD
        for (int64_t i = 0; i < n; i++) {
            y[first + i] = last ? total[i] + last[i] : total[i];
        }
    }
}

/* An exponent of all ones is NaN or infinity. A chunk at a time, so that the first bad one ends the search. */
GP_INLINE bool chunk_finite(gp_dtype dtype, const void *x, int64_t n) {
    uint32_t bad = 0;
    _Pragma("omp simd reduction(| : bad)") for (int64_t i = 0; i < n; i++) {
        uint32_t bits = gp_f32_bits(load(dtype, x, i));
        bad |= (bits & 0x7F800000u) == 0x7F800000u ? 1u : 0u;
    }
    return bad == 0;
}

static bool all_finite(gp_dtype dtype, const void *x, int64_t count) {
    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t n = smaller(CHUNK, count - first);
        bool finite = dtype == GP_F32 ? chunk_finite(GP_F32, from(GP_F32, x, first), n)
                                      : chunk_finite(GP_BF16, from(GP_BF16, x, first), n);
        if (!finite) return false;
    }
    return true;
}

#endif
