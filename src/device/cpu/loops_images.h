/* Loops over the channels of pixels: pooling, convolutions of single channels, and scaling of channels. Channels are
 * worked on in strips of a few vectors, whose results stay in registers while a window is walked. */
#ifndef GP_DEVICE_CPU_LOOPS_IMAGES_H
#define GP_DEVICE_CPU_LOOPS_IMAGES_H

#include "device/cpu/loops_norm.h"
#include "device/cpu/loops_vectors.h"

enum { STRIP_VECTORS = 4, STRIP_LANES = STRIP_VECTORS * VECTOR_LANES };

/* Runs call(first channel, vectors, lanes of each) over n channels: whole strips, whole vectors, the rest. A macro,
 * because each call is inlined with constants. */
#define FOR_STRIPS(n, call)                                                                                            \
    do {                                                                                                               \
        int64_t at_ = 0;                                                                                               \
        for (; at_ + STRIP_LANES <= (n); at_ += STRIP_LANES) {                                                         \
            call(at_, STRIP_VECTORS, VECTOR_LANES);                                                                    \
        }                                                                                                              \
        for (; at_ + VECTOR_LANES <= (n); at_ += VECTOR_LANES) {                                                       \
            call(at_, 1, VECTOR_LANES);                                                                                \
        }                                                                                                              \
        if (at_ < (n)) call(at_, 1, (int)((n)-at_));                                                                   \
    } while (0)

/* ---- greatest ---- */

GP_INLINE void max_strip(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index,
                         int vectors, int lanes) {
    vector best[STRIP_VECTORS];
    vector_i32 picks[STRIP_VECTORS];
    for (int v = 0; v < vectors; v++) {
        best[v] = vector_load(dtype, x, v * VECTOR_LANES, lanes);
        picks[v] = (vector_i32){0} + window->first;
    }
    for (int64_t r = 0; r < window->rows; r++) {
        for (int64_t k = 0; k < window->columns; k++) {
            const void *pixel = from(dtype, x, r * window->row + k * window->pixel);
            vector_i32 pick =
                (vector_i32){0} + (window->first + (int32_t)(r * window->row_step + k * window->column_step));
            for (int v = 0; v < vectors; v++) {
                vector value = vector_load(dtype, pixel, v * VECTOR_LANES, lanes);
                vector_i32 better = ~(value <= best[v]) & (best[v] == best[v]); /* greater, or the first NaN */
                best[v] = (vector)choose(better, (vector_i32)value, (vector_i32)best[v]);
                picks[v] = choose(better, pick, picks[v]);
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        vector_store(dtype, y, v * VECTOR_LANES, best[v], lanes);
        vector_store_u8(index + v * VECTOR_LANES, picks[v], lanes);
    }
}

GP_INLINE void max_pool_run(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index,
                            int64_t n) {
#define CALL(c, vectors, lanes)                                                                                        \
    max_strip(dtype, window, from(dtype, x, c), to(dtype, y, c), index + (c), vectors, lanes)
    FOR_STRIPS(n, CALL);
#undef CALL
}

static void max_pool(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index, int64_t n) {
    if (dtype == GP_F32) {
        max_pool_run(GP_F32, window, x, y, index, n);
    } else {
        max_pool_run(GP_BF16, window, x, y, index, n);
    }
}

GP_INLINE void max_gradient_strip(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                                  void *dx, int vectors, int lanes) {
    vector sums[STRIP_VECTORS] = {{0}};
    for (int64_t r = 0; r < window->rows; r++) {
        for (int64_t k = 0; k < window->columns; k++) {
            int64_t place = r * window->row + k * window->pixel;
            vector_i32 pick =
                (vector_i32){0} + (window->first + (int32_t)(r * window->row_step + k * window->column_step));
            for (int v = 0; v < vectors; v++) {
                vector_i32 value = (vector_i32)vector_load(dtype, dy, place + v * VECTOR_LANES, lanes);
                vector_i32 picked = vector_load_u8(index + place + v * VECTOR_LANES, lanes) == pick;
                sums[v] += (vector)(picked & value);
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        vector_store(dtype, dx, v * VECTOR_LANES, sums[v], lanes);
    }
}

GP_INLINE void max_pool_gradient_run(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                                     void *dx, int64_t n) {
#define CALL(c, vectors, lanes)                                                                                        \
    max_gradient_strip(dtype, window, from(dtype, dy, c), index + (c), to(dtype, dx, c), vectors, lanes)
    FOR_STRIPS(n, CALL);
#undef CALL
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
                         const float *column_shares, void *y, int vectors, int lanes) {
    vector sums[STRIP_VECTORS] = {{0}};
    for (int64_t r = 0; r < window->rows; r++) {
        vector row[STRIP_VECTORS] = {{0}};
        for (int64_t k = 0; k < window->columns; k++) {
            const void *pixel = from(dtype, x, r * window->row + k * window->pixel);
            for (int v = 0; v < vectors; v++) {
                row[v] += vector_load(dtype, pixel, v * VECTOR_LANES, lanes) * column_shares[k * window->share_step];
            }
        }
        for (int v = 0; v < vectors; v++) {
            sums[v] += row[v] * row_shares[r * window->share_step];
        }
    }
    for (int v = 0; v < vectors; v++) {
        vector_store(dtype, y, v * VECTOR_LANES, sums[v], lanes);
    }
}

GP_INLINE void window_sum_run(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                              const float *column_shares, void *y, int64_t n) {
#define CALL(c, vectors, lanes)                                                                                        \
    sum_strip(dtype, window, from(dtype, x, c), row_shares, column_shares, to(dtype, y, c), vectors, lanes)
    FOR_STRIPS(n, CALL);
#undef CALL
}

static void window_sum(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                       const float *column_shares, void *y, int64_t n) {
    if (dtype == GP_F32) {
        window_sum_run(GP_F32, window, x, row_shares, column_shares, y, n);
    } else {
        window_sum_run(GP_BF16, window, x, row_shares, column_shares, y, n);
    }
}

/* ---- convolutions of single channels ---- */

GP_INLINE void depthwise_strip(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *weights,
                               const float *bias, void *y, int64_t n, int vectors, int lanes) {
    vector sums[STRIP_VECTORS] = {{0}};
    for (int v = 0; v < vectors && bias; v++) {
        sums[v] = vector_load(GP_F32, bias, v * VECTOR_LANES, lanes);
    }
    for (int64_t r = 0; r < window->rows; r++) {
        for (int64_t k = 0; k < window->columns; k++) {
            const void *pixel = from(dtype, x, r * window->row + k * window->pixel);
            const float *weight = weights + (window->first + r * window->row_step + k * window->column_step) * n;
            for (int v = 0; v < vectors; v++) {
                sums[v] += vector_load(dtype, pixel, v * VECTOR_LANES, lanes) *
                           vector_load(GP_F32, weight, v * VECTOR_LANES, lanes);
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        vector_store(dtype, y, v * VECTOR_LANES, sums[v], lanes);
    }
}

GP_INLINE void depthwise_run(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *weights,
                             const float *bias, void *y, int64_t n) {
#define CALL(c, vectors, lanes)                                                                                        \
    depthwise_strip(dtype, window, from(dtype, x, c), weights + (c), bias ? bias + (c) : NULL, to(dtype, y, c), n,     \
                    vectors, lanes)
    FOR_STRIPS(n, CALL);
#undef CALL
}

static void depthwise(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *weights,
                      const float *bias, void *y, int64_t n) {
    if (dtype == GP_F32) {
        depthwise_run(GP_F32, window, x, weights, bias, y, n);
    } else {
        depthwise_run(GP_BF16, window, x, weights, bias, y, n);
    }
}

GP_INLINE void dot_strip(gp_dtype dtype, const void *a, int64_t a_step, const void *b, int64_t b_step, int64_t count,
                         float *sums, int vectors, int lanes) {
    vector found[STRIP_VECTORS] = {{0}};
    for (int64_t i = 0; i < count; i++) {
        for (int v = 0; v < vectors; v++) {
            found[v] += vector_load(dtype, a, i * a_step + v * VECTOR_LANES, lanes) *
                        vector_load(dtype, b, i * b_step + v * VECTOR_LANES, lanes);
        }
    }
    for (int v = 0; v < vectors; v++) {
        found[v] += vector_load(GP_F32, sums, v * VECTOR_LANES, lanes);
        vector_store(GP_F32, sums, v * VECTOR_LANES, found[v], lanes);
    }
}

GP_INLINE void channel_dot_run(gp_dtype dtype, const void *a, int64_t a_step, const void *b, int64_t b_step,
                               int64_t count, float *sums, int64_t n) {
#define CALL(c, vectors, lanes)                                                                                        \
    dot_strip(dtype, from(dtype, a, c), a_step, from(dtype, b, c), b_step, count, sums + (c), vectors, lanes)
    FOR_STRIPS(n, CALL);
#undef CALL
}

static void channel_dot(gp_dtype dtype, const void *a, int64_t a_step, const void *b, int64_t b_step, int64_t count,
                        float *sums, int64_t n) {
    if (dtype == GP_F32) {
        channel_dot_run(GP_F32, a, a_step, b, b_step, count, sums, n);
    } else {
        channel_dot_run(GP_BF16, a, a_step, b, b_step, count, sums, n);
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

#endif
