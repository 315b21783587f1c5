/* Products through f32 tiles: see products.h. */
#include "device/cpu/products.h"

#include <string.h>

#include "base/status.h"

/* Sides of a tile where operands are widened: 4 MiB each, so that a tile is widened, multiplied and rounded within the
 * caches, and large enough that oneDNN's packing of a tile is a small part of the work. */
enum { TILE = 1024 };

static int64_t tile_side(int64_t size, bool tiled) {
    return tiled && size > TILE ? TILE : size;
}

/* Floats from row to row of a tile in the workspace: whole cache lines, and not a power of two, which would put a
 * column into a few sets of the cache. */
static int64_t tile_width(int64_t columns) {
    return (columns + 15) / 16 * 16 + 16;
}

static size_t tile_floats(int64_t rows, int64_t columns) {
    return (size_t)rows * (size_t)tile_width(columns);
}

static size_t a_floats(const gp_cpu_product *p) {
    if (p->a == GP_F32) return 0;
    return p->transpose_a ? tile_floats(p->tile_k, p->tile_m) : tile_floats(p->tile_m, p->tile_k);
}

static size_t b_floats(const gp_cpu_product *p) {
    if (p->b == GP_F32) return 0;
    return p->transpose_b ? tile_floats(p->tile_n, p->tile_k) : tile_floats(p->tile_k, p->tile_n);
}

void gp_cpu_product_tiles_plan(gp_cpu_product *p) {
    bool a = p->a == GP_BF16, b = p->b == GP_BF16, c = p->c == GP_BF16;
    p->tile_m = tile_side(p->m, a || c);
    p->tile_n = tile_side(p->n, b || c);
    p->tile_k = tile_side(p->k, a || b);
    size_t floats = a_floats(p) + b_floats(p) + (c ? tile_floats(p->tile_m, p->tile_n) : 0);
    p->tile_workspace = floats * sizeof(float);
    p->workers = p->batch >= p->threads ? p->threads : 1;
}

/* One operand, and the tile of it that lies widened in the workspace. */
typedef struct operand {
    const void *data;
    gp_dtype dtype;
    int64_t width; /* elements from row to row in memory */
    float *buffer;
    int64_t row, column; /* of the tile in the buffer; -1: none */
} operand;

typedef struct matrix {
    const float *data;
    int64_t width;
} matrix;

/* Rows of a bf16 matrix into dense f32 ones, or back. */
static void convert_rows(const gp_cpu_loops *loops, gp_cpu_operand from, int64_t from_width, void *to,
                         gp_dtype to_dtype, int64_t to_width, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        gp_cpu_operand row = {gp_cpu_from(from.dtype, from.data, r * from_width), from.dtype, 1};
        loops->cast(row, gp_cpu_to(to_dtype, to, r * to_width), to_dtype, columns);
    }
}

static matrix operand_tile(const gp_cpu_loops *loops, operand *o, int64_t row, int64_t column, int64_t rows,
                           int64_t columns) {
    const void *first = gp_cpu_from(o->dtype, o->data, row * o->width + column);
    if (o->dtype == GP_F32) return (matrix){first, o->width};
    int64_t width = tile_width(columns);
    if (o->row != row || o->column != column) {
        convert_rows(loops, (gp_cpu_operand){first, o->dtype, 1}, o->width, o->buffer, GP_F32, width, rows, columns);
        o->row = row;
        o->column = column;
    }
    return (matrix){o->buffer, width};
}

static matrix a_tile(const gp_cpu_product *p, operand *a, int64_t i, int64_t l, int64_t m, int64_t k) {
    return p->transpose_a ? operand_tile(p->loops, a, l, i, k, m) : operand_tile(p->loops, a, i, l, m, k);
}

static matrix b_tile(const gp_cpu_product *p, operand *b, int64_t l, int64_t j, int64_t k, int64_t n) {
    return p->transpose_b ? operand_tile(p->loops, b, j, l, n, k) : operand_tile(p->loops, b, l, j, k, n);
}

static void fill_bias(float *c, int64_t width, const float *bias, int64_t m, int64_t n) {
    for (int64_t r = 0; r < m; r++) {
        memcpy(c + r * width, bias, (size_t)n * sizeof *c);
    }
}

/* Columns j.. and rows i.. of C, summed over k in tiles. `c` is an f32 tile of that size. */
static gp_status tile_run(const gp_cpu_product *p, operand *a, operand *b, const float *bias, float *c, int64_t width,
                          int64_t i, int64_t j) {
    int64_t m = p->m - i < p->tile_m ? p->m - i : p->tile_m, n = p->n - j < p->tile_n ? p->n - j : p->tile_n;
    if (bias) fill_bias(c, width, bias + j, m, n);
    bool adding = p->accumulate || bias;
    for (int64_t l = 0; l < p->k; l += p->tile_k) {
        int64_t k = p->k - l < p->tile_k ? p->k - l : p->tile_k;
        matrix at = a_tile(p, a, i, l, m, k), bt = b_tile(p, b, l, j, k, n);
        gp_sgemm gemm = {p->transpose_a, p->transpose_b, m,     n,    k,
                         at.width,       bt.width,       width, 1.0f, adding ? 1.0f : 0.0f};
        GP_TRY(gp_onednn_sgemm(&gemm, at.data, bt.data, c));
        adding = true;
    }
    return GP_OK;
}

/* One product of the batch. */
static gp_status matrix_run(const gp_cpu_product *p, const void *a, const void *b, const float *bias, void *c,
                            float *buffer) {
    operand oa = {a, p->a, p->transpose_a ? p->m : p->k, buffer, -1, -1};
    buffer += a_floats(p);
    operand ob = {b, p->b, p->transpose_b ? p->k : p->n, buffer, -1, -1};
    buffer += b_floats(p);
    for (int64_t i = 0; i < p->m; i += p->tile_m) {
        int64_t m = p->m - i < p->tile_m ? p->m - i : p->tile_m;
        for (int64_t j = 0; j < p->n; j += p->tile_n) {
            int64_t n = p->n - j < p->tile_n ? p->n - j : p->tile_n;
            void *place = gp_cpu_to(p->c, c, i * p->n + j);
            if (p->c == GP_F32) {
                GP_TRY(tile_run(p, &oa, &ob, bias, place, p->n, i, j));
                continue;
            }
            int64_t width = tile_width(n);
            GP_TRY(tile_run(p, &oa, &ob, bias, buffer, width, i, j));
            convert_rows(p->loops, (gp_cpu_operand){buffer, GP_F32, 1}, width, place, p->c, p->n, m, n);
        }
    }
    return GP_OK;
}

/* Where the operands of product i of the batch begin, in matrices. */
static void batch_offsets(const gp_cpu_walk *walk, int64_t i, int64_t offsets[2]) {
    offsets[0] = offsets[1] = 0;
    for (int d = walk->rank - 1; d >= 0; d--) {
        int64_t at = i % walk->dims[d];
        i /= walk->dims[d];
        offsets[0] += at * walk->strides[0][d];
        offsets[1] += at * walk->strides[1][d];
    }
}

typedef struct batch_work {
    const gp_cpu_product *product;
    const void *a, *b;
    const float *bias;
    void *c;
    float *buffer;
    _Atomic int status; /* of the last that failed */
} batch_work;

/* Workers begin..end-1, each with its own run of the batch and its own tiles. */
static void batch_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    batch_work *work = call->workspace;
    const gp_cpu_product *p = work->product;
    for (int64_t w = begin; w < end; w++) {
        float *buffer = work->buffer + (size_t)w * (p->tile_workspace / sizeof(float));
        for (int64_t i = p->batch * w / p->workers; i < p->batch * (w + 1) / p->workers; i++) {
            int64_t at[2];
            batch_offsets(&p->walk, i, at);
            gp_status status = matrix_run(p, gp_cpu_from(p->a, work->a, at[0] * p->m * p->k),
                                          gp_cpu_from(p->b, work->b, at[1] * p->k * p->n), work->bias,
                                          gp_cpu_to(p->c, work->c, i * p->m * p->n), buffer);
            if (status != GP_OK) work->status = (int)status;
        }
    }
}

gp_status gp_cpu_product_tiles_run(const gp_cpu_product *p, const void *a, const void *b, const float *bias, void *c,
                                   void *workspace) {
    if (p->batch == 1) return matrix_run(p, a, b, bias, c, workspace);
    batch_work work = {.product = p, .a = a, .b = b, .bias = bias, .c = c, .buffer = workspace};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(p->workers, p->workers, 1, &call, batch_part);
    gp_status status = (gp_status)work.status;
    return status == GP_OK ? GP_OK : gp_error(status, "a batch of matrix products failed: %s", gp_status_text(status));
}
