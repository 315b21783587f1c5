/* Loops over the channels of pixels: pooling, and scaling of channels. Channels are worked on in strips whose results
 * stay in registers or the first-level cache while a window is walked. */
#ifndef GP_DEVICE_CPU_LOOPS_IMAGES_H
#define GP_DEVICE_CPU_LOOPS_IMAGES_H

#include "device/cpu/loops_lanes.h"
#include "device/cpu/loops_norm.h"

enum { CHANNELS = 64 }; /* of a strip */

/* ---- greatest ---- */

GP_INLINE void max_strip(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index,
                         int channels) {
    float best[CHANNELS];
    int32_t picks[CHANNELS];
    for (int c = 0; c < channels; c++) {
        best[c] = load(dtype, x, c);
        picks[c] = window->first;
    }
    for (int64_t r = 0; r < window->rows; r++) {
        for (int64_t k = 0; k < window->columns; k++) {
            const void *pixel = from(dtype, x, r * window->row + k * window->pixel);
            int32_t pick = window->first + (int32_t)r * window->row_step + (int32_t)k * window->column_step;
            GP_SIMD
            for (int c = 0; c < channels; c++) {
                float value = load(dtype, pixel, c);
                int better = (value > best[c]) | ((value != value) & (best[c] == best[c]));
                best[c] = better ? value : best[c];
                picks[c] = better ? pick : picks[c];
            }
        }
    }
    for (int c = 0; c < channels; c++) {
        store(dtype, y, c, best[c]);
        index[c] = (uint8_t)picks[c];
    }
}

GP_INLINE void max_pool_run(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index,
                            int64_t n) {
    int64_t c = 0;
    for (; c + CHANNELS <= n; c += CHANNELS) {
        max_strip(dtype, window, from(dtype, x, c), to(dtype, y, c), index + c, CHANNELS);
    }
    if (c < n) max_strip(dtype, window, from(dtype, x, c), to(dtype, y, c), index + c, (int)(n - c));
}

static void max_pool(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index, int64_t n) {
    if (dtype == GP_F32) {
        max_pool_run(GP_F32, window, x, y, index, n);
    } else {
        max_pool_run(GP_BF16, window, x, y, index, n);
    }
}

GP_INLINE void max_gradient_strip(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                                  void *dx, int channels) {
    float sums[CHANNELS] = {0};
    for (int64_t r = 0; r < window->rows; r++) {
        for (int64_t k = 0; k < window->columns; k++) {
            int64_t place = r * window->row + k * window->pixel;
            const void *pixel = from(dtype, dy, place);
            const uint8_t *picks = index + place;
            int32_t pick = window->first + (int32_t)r * window->row_step + (int32_t)k * window->column_step;
            GP_SIMD
            for (int c = 0; c < channels; c++) {
                float value = load(dtype, pixel, c);
                sums[c] += picks[c] == pick ? value : 0.0f;
            }
        }
    }
    for (int c = 0; c < channels; c++) {
        store(dtype, dx, c, sums[c]);
    }
}

GP_INLINE void max_pool_gradient_run(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                                     void *dx, int64_t n) {
    int64_t c = 0;
    for (; c + CHANNELS <= n; c += CHANNELS) {
        max_gradient_strip(dtype, window, from(dtype, dy, c), index + c, to(dtype, dx, c), CHANNELS);
    }
    if (c < n) max_gradient_strip(dtype, window, from(dtype, dy, c), index + c, to(dtype, dx, c), (int)(n - c));
}

static void max_pool_gradient(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                              void *dx, int64_t n) {
    if (dtype == GP_F32) {
        max_pool_gradient_run(GP_F32, window, dy, index, dx, n);
    } else {
        max_pool_gradient_run(GP_BF16, window, dy, index, dx, n);
    }
}

/* ---- sums; a row is summed first, so that sums over whole images stay exact ---- */

GP_INLINE void sum_strip(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                         const float *column_shares, void *y, int channels) {
    float sums[CHANNELS] = {0};
    for (int64_t r = 0; r < window->rows; r++) {
        float row[CHANNELS] = {0}, share = row_shares[r * window->share_step];
        for (int64_t k = 0; k < window->columns; k++) {
            const void *pixel = from(dtype, x, r * window->row + k * window->pixel);
            float factor = column_shares[k * window->share_step];
            GP_SIMD
            for (int c = 0; c < channels; c++) {
                row[c] += load(dtype, pixel, c) * factor;
            }
        }
        GP_SIMD
        for (int c = 0; c < channels; c++) {
            sums[c] += row[c] * share;
        }
    }
    for (int c = 0; c < channels; c++) {
        store(dtype, y, c, sums[c]);
    }
}

GP_INLINE void window_sum_run(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                              const float *column_shares, void *y, int64_t n) {
    int64_t c = 0;
    for (; c + CHANNELS <= n; c += CHANNELS) {
        sum_strip(dtype, window, from(dtype, x, c), row_shares, column_shares, to(dtype, y, c), CHANNELS);
    }
    if (c < n) sum_strip(dtype, window, from(dtype, x, c), row_shares, column_shares, to(dtype, y, c), (int)(n - c));
}

static void window_sum(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                       const float *column_shares, void *y, int64_t n) {
    if (dtype == GP_F32) {
        window_sum_run(GP_F32, window, x, row_shares, column_shares, y, n);
    } else {
        window_sum_run(GP_BF16, window, x, row_shares, column_shares, y, n);
    }
}

/* ---- channels of rows ---- */

GP_INLINE void channel_scale_run(gp_dtype dtype, const void *x, const void *s, void *y, int64_t rows, int64_t n) {
    for (int64_t first = 0; first < n; first += CHUNK) {
        float scales[CHUNK];
        int64_t columns = smaller(CHUNK, n - first);
        for (int64_t c = 0; c < columns; c++) {
            scales[c] = load(dtype, s, first + c);
        }
        for (int64_t r = 0; r < rows; r++) {
            const void *row = from(dtype, x, r * n + first);
            void *result = to(dtype, y, r * n + first);
            GP_SIMD
            for (int64_t c = 0; c < columns; c++) {
                store(dtype, result, c, load(dtype, row, c) * scales[c]);
            }
        }
    }
}

static void channel_scale(gp_dtype dtype, const void *x, const void *s, void *y, int64_t rows, int64_t n) {
    if (dtype == GP_F32) {
        channel_scale_run(GP_F32, x, s, y, rows, n);
    } else {
        channel_scale_run(GP_BF16, x, s, y, rows, n);
    }
}

GP_INLINE void dot_rows(gp_dtype dtype, float *sums, const void *a, const void *b, int rows, int64_t n, int columns) {
    GP_SIMD
    for (int c = 0; c < columns; c++) {
        float value = 0.0f;
        for (int r = 0; r < rows; r++) {
            value += load(dtype, a, r * n + c) * load(dtype, b, r * n + c);
        }
        sums[c] += value;
    }
}

GP_INLINE void channel_dot_run(gp_dtype dtype, const void *a, const void *b, void *y, int64_t rows, int64_t n) {
    for (int64_t first = 0; first < n; first += CHUNK) {
        float totals[CHUNK] = {0};
        int columns = (int)smaller(CHUNK, n - first);
        for (int64_t begin = 0; begin < rows; begin += BLOCK) {
            float sums[CHUNK] = {0};
            int64_t end = smaller(begin + BLOCK, rows), r = begin;
            for (; r + 4 <= end; r += 4) {
                dot_rows(dtype, sums, from(dtype, a, r * n + first), from(dtype, b, r * n + first), 4, n, columns);
            }
            for (; r < end; r++) {
                dot_rows(dtype, sums, from(dtype, a, r * n + first), from(dtype, b, r * n + first), 1, n, columns);
            }
            GP_SIMD
            for (int c = 0; c < columns; c++) {
                totals[c] += sums[c];
            }
        }
        for (int c = 0; c < columns; c++) {
            store(dtype, y, first + c, totals[c]);
        }
    }
}

static void channel_dot(gp_dtype dtype, const void *a, const void *b, void *y, int64_t rows, int64_t n) {
    if (dtype == GP_F32) {
        channel_dot_run(GP_F32, a, b, y, rows, n);
    } else {
        channel_dot_run(GP_BF16, a, b, y, rows, n);
    }
}

#endif
