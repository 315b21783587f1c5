/* Loops over columns: batch norm and its gradients. Data is streamed once, row by row, four rows at a time, so that
 * what is kept for a column is touched less often; a block of rows stays in the first-level caches while its deviations
 * from its own mean are summed, and blocks are merged as groups (Chan et al. 1979), never by E[x^2] - E[x]^2. */
#ifndef GP_DEVICE_CPU_LOOPS_BATCH_NORM_H
#define GP_DEVICE_CPU_LOOPS_BATCH_NORM_H

#include <string.h>

#include "device/cpu/loops_average.h"
#include "device/cpu/loops_norm.h"
#include "device/cpu/loops_vectors.h"

enum {
    ROWS_AHEAD = 8,        /* that are asked for before their turn */
    BLOCK_ELEMENTS = 8192, /* of a block of rows */
    FEWEST_ROWS = 8,       /* of a block, however long they are */
    MOST_ROWS = 64         /* keeps rounding errors small, however short they are */
};

/* Rows of a block: a multiple of four. */
GP_INLINE int64_t block_rows(int64_t width) {
    int64_t rows = BLOCK_ELEMENTS / width / 4 * 4;
    return rows < FEWEST_ROWS ? FEWEST_ROWS : rows > MOST_ROWS ? MOST_ROWS : rows;
}

/* A vector of columns of x from element i on. `ahead`: how many elements further on memory is asked for, 0: not at all.
 * Where several rows are read at once the processor alone does not look far enough ahead; loops that write f32 lose by
 * it (bench-images --only="batch norm"). Beyond the end of the data nothing happens. */
GP_INLINE vector stream_load(gp_dtype dtype, const void *x, int64_t i, int64_t ahead, int lanes) {
    if (ahead) GP_PREFETCH((const void *)((uintptr_t)x + (uintptr_t)(i + ahead) * (dtype == GP_BF16 ? 2 : 4)));
    return vector_load(dtype, x, i, lanes);
}

GP_INLINE void vector_add_to(float *sums, int64_t c, vector value, int lanes) {
    vector_store(GP_F32, sums, c, vector_load(GP_F32, sums, c, lanes) + value, lanes);
}

/* ---- moments ---- */

GP_INLINE void tile_deviations(gp_dtype dtype, float *tile, const float *mean, const void *x, int rows, int64_t n,
                               int columns) {
    GP_SIMD
    for (int c = 0; c < columns; c++) {
        float squares = 0.0f;
        for (int r = 0; r < rows; r++) {
            float d = load(dtype, x, r * n + c) - mean[c];
            squares += d * d;
        }
        tile[c] += squares;
    }
}

GP_INLINE void vector_sums(gp_dtype dtype, float *tile, const void *x, int rows, int64_t n, int64_t c, int lanes) {
    vector value = {0};
    for (int r = 0; r < rows; r++) {
        value += stream_load(dtype, x, r * n + c, ROWS_AHEAD * n, lanes);
    }
    vector_add_to(tile, c, value, lanes);
}

GP_INLINE void tile_sums(gp_dtype dtype, float *tile, const void *x, int rows, int64_t n, int columns) {
    int c = 0;
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        vector_sums(dtype, tile, x, rows, n, c, VECTOR_LANES);
    }
    if (c < columns) vector_sums(dtype, tile, x, rows, n, c, columns - c);
}

GP_INLINE void tile_scale(float *tile, float factor, int columns) {
    GP_SIMD
    for (int c = 0; c < columns; c++) {
        tile[c] *= factor;
    }
}

/* Mean and variance of a block of rows. */
GP_INLINE void block_moments(gp_dtype dtype, const void *x, int64_t rows, int64_t n, int columns, float *mean,
                             float *variance) {
    int64_t r = 0;
    memset(mean, 0, (size_t)columns * sizeof *mean);
    memset(variance, 0, (size_t)columns * sizeof *variance);
    for (; r + 4 <= rows; r += 4) {
        tile_sums(dtype, mean, from(dtype, x, r * n), 4, n, columns);
    }
    for (; r < rows; r++) {
        tile_sums(dtype, mean, from(dtype, x, r * n), 1, n, columns);
    }
    tile_scale(mean, 1.0f / (float)rows, columns);
    for (r = 0; r + 4 <= rows; r += 4) {
        tile_deviations(dtype, variance, mean, from(dtype, x, r * n), 4, n, columns);
    }
    for (; r < rows; r++) {
        tile_deviations(dtype, variance, mean, from(dtype, x, r * n), 1, n, columns);
    }
    tile_scale(variance, 1.0f / (float)rows, columns);
}

/* Of one tile of columns; `rest` columns have one row more. */
GP_INLINE void tile_moments(gp_dtype dtype, const void *x, int64_t rows, int64_t n, int columns, int rest, float *mean,
                            float *variance) {
    float block_mean[TILE], block_variance[TILE];
    int64_t step = block_rows(n);
    memset(mean, 0, (size_t)columns * sizeof *mean);
    memset(variance, 0, (size_t)columns * sizeof *variance);
    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = smaller(step, rows - first);
        block_moments(dtype, from(dtype, x, first * n), count, n, columns, block_mean, block_variance);
        merge_moments(mean, variance, block_mean, block_variance, (float)count / (float)(first + count), columns);
    }
    if (rest > 0) {
        block_moments(dtype, from(dtype, x, rows * n), 1, n, rest, block_mean, block_variance);
        merge_moments(mean, variance, block_mean, block_variance, 1.0f / (float)(rows + 1), rest);
    }
}

GP_INLINE void batch_moments_run(gp_dtype dtype, const void *x, int64_t count, int64_t n, float *mean,
                                 float *variance) {
    int64_t rows = count / n, rest = count % n;
    for (int64_t first = 0; first < n; first += TILE) {
        int columns = (int)smaller(TILE, n - first);
        int more = rest > first ? (int)smaller(columns, rest - first) : 0;
        tile_moments(dtype, from(dtype, x, first), rows, n, columns, more, mean + first, variance + first);
    }
}

static void batch_moments(gp_dtype dtype, const void *x, int64_t count, int64_t n, float *mean, float *variance) {
    if (dtype == GP_F32) {
        batch_moments_run(GP_F32, x, count, n, mean, variance);
    } else {
        batch_moments_run(GP_BF16, x, count, n, mean, variance);
    }
}

/* ---- the result ---- */

/* What a vector of columns needs. */
typedef struct channels_vector {
    vector mean, scale, bias, shift, slope;
} channels_vector;

GP_INLINE channels_vector channels_load(const gp_cpu_channels *channels, bool gradient, int64_t c, int lanes) {
    channels_vector v = {.mean = vector_load(GP_F32, channels->mean, c, lanes),
                         .scale = vector_load(GP_F32, channels->scale, c, lanes),
                         .bias = vector_load(GP_F32, channels->bias, c, lanes)};
    if (gradient) v.shift = vector_load(GP_F32, channels->shift, c, lanes);
    if (gradient) v.slope = vector_load(GP_F32, channels->slope, c, lanes);
    return v;
}

/* The gradients ask for this too, by the same operations, so that both see the same sign. */
GP_INLINE vector normalised(const channels_vector *channels, vector x) {
    return (x - channels->mean) * channels->scale + channels->bias;
}

GP_INLINE vector batch_norm_vector(gp_dtype dtype, bool relu, const channels_vector *channels, const void *x, int64_t i,
                                   int64_t ahead, int lanes) {
    vector value = normalised(channels, stream_load(dtype, x, i, ahead, lanes));
    return relu ? vector_rectify(value) : value;
}

GP_INLINE void batch_norm_columns(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *x, void *y,
                                  int rows, int64_t n, int64_t c, int lanes) {
    channels_vector v = channels_load(channels, false, c, lanes);
    for (int r = 0; r < rows; r++) {
        int64_t i = r * n + c;
        vector_store(dtype, y, i, batch_norm_vector(dtype, relu, &v, x, i, 0, lanes), lanes);
    }
}

/* Columns that are rounded together. */
enum { PAIR = 2 * VECTOR_LANES };

GP_INLINE void batch_norm_rows(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *x, void *y,
                               int rows, int64_t n, int64_t columns) {
    int64_t c = 0, ahead = dtype == GP_BF16 ? ROWS_AHEAD * n : 0;
    for (; c + PAIR <= columns; c += PAIR) {
        channels_vector first = channels_load(channels, false, c, VECTOR_LANES);
        channels_vector second = channels_load(channels, false, c + VECTOR_LANES, VECTOR_LANES);
        for (int r = 0; r < rows; r++) {
            int64_t i = r * n + c;
            vector_store_pair(dtype, y, i, batch_norm_vector(dtype, relu, &first, x, i, ahead, VECTOR_LANES),
                              batch_norm_vector(dtype, relu, &second, x, i + VECTOR_LANES, ahead, VECTOR_LANES));
        }
    }
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        batch_norm_columns(dtype, relu, channels, x, y, rows, n, c, VECTOR_LANES);
    }
    if (c < columns) batch_norm_columns(dtype, relu, channels, x, y, rows, n, c, (int)(columns - c));
}

GP_INLINE void batch_norm_run(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *x, void *y,
                              int64_t count) {
    int64_t n = channels->width, rows = count / n, r = 0;
    for (; r + 4 <= rows; r += 4) {
        batch_norm_rows(dtype, relu, channels, from(dtype, x, r * n), to(dtype, y, r * n), 4, n, n);
    }
    for (; r <= rows; r++) {
        int64_t columns = r < rows ? n : count % n;
        batch_norm_rows(dtype, relu, channels, from(dtype, x, r * n), to(dtype, y, r * n), 1, n, columns);
    }
}

static void batch_norm(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *x, void *y,
                       int64_t count) {
    if (dtype == GP_F32) {
        (relu ? batch_norm_run(GP_F32, true, channels, x, y, count)
              : batch_norm_run(GP_F32, false, channels, x, y, count));
    } else {
        (relu ? batch_norm_run(GP_BF16, true, channels, x, y, count)
              : batch_norm_run(GP_BF16, false, channels, x, y, count));
    }
}

/* ---- gradients ---- */

/* dy, or 0 where the rectifier has cut. */
GP_INLINE vector passed(bool relu, const channels_vector *channels, vector dy, vector x) {
    return relu ? vector_where_positive(normalised(channels, x), dy) : dy;
}

typedef struct sums_tile {
    float products[TILE], sums[TILE];
} sums_tile;

GP_INLINE void sums_vector_add(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, sums_tile *tile,
                               const void *dy, const void *x, int rows, int64_t n, int c, int lanes) {
    channels_vector v = channels_load(channels, false, c, lanes);
    vector products = {0}, sums = {0};
    for (int r = 0; r < rows; r++) {
        vector value = stream_load(dtype, x, r * n + c, ROWS_AHEAD * n, lanes);
        vector g = passed(relu, &v, stream_load(dtype, dy, r * n + c, ROWS_AHEAD * n, lanes), value);
        products += g * (value - v.mean);
        sums += g;
    }
    vector_add_to(tile->products, c, products, lanes);
    vector_add_to(tile->sums, c, sums, lanes);
}

GP_INLINE void sums_tile_add(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, sums_tile *tile,
                             const void *dy, const void *x, int rows, int64_t n, int columns) {
    int c = 0;
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        sums_vector_add(dtype, relu, channels, tile, dy, x, rows, n, c, VECTOR_LANES);
    }
    if (c < columns) sums_vector_add(dtype, relu, channels, tile, dy, x, rows, n, c, columns - c);
}

GP_INLINE void sums_tile_run(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy, const void *x,
                             int64_t rows, int columns, int rest, float *products, float *sums) {
    int64_t n = channels->width, step = block_rows(n);
    sums_tile total = {{0}, {0}};
    for (int64_t first = 0; first <= rows; first += step) {
        int64_t end = smaller(first + step, rows), r = first;
        sums_tile block = {{0}, {0}};
        for (; r + 4 <= end; r += 4) {
            sums_tile_add(dtype, relu, channels, &block, from(dtype, dy, r * n), from(dtype, x, r * n), 4, n, columns);
        }
        for (; r < end; r++) {
            sums_tile_add(dtype, relu, channels, &block, from(dtype, dy, r * n), from(dtype, x, r * n), 1, n, columns);
        }
        GP_SIMD
        for (int c = 0; c < columns; c++) {
            total.products[c] += block.products[c];
            total.sums[c] += block.sums[c];
        }
    }
    if (rest > 0) {
        sums_tile_add(dtype, relu, channels, &total, from(dtype, dy, rows * n), from(dtype, x, rows * n), 1, n, rest);
    }
    memcpy(products, total.products, (size_t)columns * sizeof *products);
    memcpy(sums, total.sums, (size_t)columns * sizeof *sums);
}

GP_INLINE void batch_norm_sums_run(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy,
                                   const void *x, int64_t count, float *products, float *sums) {
    int64_t n = channels->width, rows = count / n, rest = count % n;
    for (int64_t first = 0; first < n; first += TILE) {
        int columns = (int)smaller(TILE, n - first);
        int more = rest > first ? (int)smaller(columns, rest - first) : 0;
        gp_cpu_channels tile = {n, channels->mean + first, channels->scale + first, channels->bias + first, NULL, NULL};
        sums_tile_run(dtype, relu, &tile, from(dtype, dy, first), from(dtype, x, first), rows, columns, more,
                      products + first, sums + first);
    }
}

static void batch_norm_sums(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy, const void *x,
                            int64_t count, float *products, float *sums) {
    if (dtype == GP_F32) {
        (relu ? batch_norm_sums_run(GP_F32, true, channels, dy, x, count, products, sums)
              : batch_norm_sums_run(GP_F32, false, channels, dy, x, count, products, sums));
    } else {
        (relu ? batch_norm_sums_run(GP_BF16, true, channels, dy, x, count, products, sums)
              : batch_norm_sums_run(GP_BF16, false, channels, dy, x, count, products, sums));
    }
}

GP_INLINE vector gradient_vector(gp_dtype dtype, bool relu, const channels_vector *channels, const void *dy,
                                 const void *x, int64_t i, int64_t ahead, int lanes) {
    vector value = stream_load(dtype, x, i, ahead, lanes);
    vector g = passed(relu, channels, stream_load(dtype, dy, i, ahead, lanes), value);
    return (g - channels->shift - (value - channels->mean) * channels->slope) * channels->scale;
}

GP_INLINE void gradient_columns(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy,
                                const void *x, void *dx, int rows, int64_t n, int64_t c, int lanes) {
    channels_vector v = channels_load(channels, true, c, lanes);
    for (int r = 0; r < rows; r++) {
        int64_t i = r * n + c;
        vector_store(dtype, dx, i, gradient_vector(dtype, relu, &v, dy, x, i, 0, lanes), lanes);
    }
}

GP_INLINE void gradient_rows(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy, const void *x,
                             void *dx, int rows, int64_t n, int64_t columns) {
    int64_t c = 0, ahead = dtype == GP_BF16 ? ROWS_AHEAD * n : 0;
    for (; c + PAIR <= columns; c += PAIR) {
        channels_vector first = channels_load(channels, true, c, VECTOR_LANES);
        channels_vector second = channels_load(channels, true, c + VECTOR_LANES, VECTOR_LANES);
        for (int r = 0; r < rows; r++) {
            int64_t i = r * n + c, j = i + VECTOR_LANES;
            vector_store_pair(dtype, dx, i, gradient_vector(dtype, relu, &first, dy, x, i, ahead, VECTOR_LANES),
                              gradient_vector(dtype, relu, &second, dy, x, j, ahead, VECTOR_LANES));
        }
    }
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        gradient_columns(dtype, relu, channels, dy, x, dx, rows, n, c, VECTOR_LANES);
    }
    if (c < columns) gradient_columns(dtype, relu, channels, dy, x, dx, rows, n, c, (int)(columns - c));
}

GP_INLINE void batch_norm_gradient_run(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy,
                                       const void *x, void *dx, int64_t count) {
    int64_t n = channels->width, rows = count / n, r = 0;
    for (; r + 4 <= rows; r += 4) {
        gradient_rows(dtype, relu, channels, from(dtype, dy, r * n), from(dtype, x, r * n), to(dtype, dx, r * n), 4, n,
                      n);
    }
    for (; r <= rows; r++) {
        gradient_rows(dtype, relu, channels, from(dtype, dy, r * n), from(dtype, x, r * n), to(dtype, dx, r * n), 1, n,
                      r < rows ? n : count % n);
    }
}

static void batch_norm_gradient(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy,
                                const void *x, void *dx, int64_t count) {
    if (dtype == GP_F32) {
        (relu ? batch_norm_gradient_run(GP_F32, true, channels, dy, x, dx, count)
              : batch_norm_gradient_run(GP_F32, false, channels, dy, x, dx, count));
    } else {
        (relu ? batch_norm_gradient_run(GP_BF16, true, channels, dy, x, dx, count)
              : batch_norm_gradient_run(GP_BF16, false, channels, dy, x, dx, count));
    }
}

#endif
