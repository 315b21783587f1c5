/* The loops of the CPU device: one table of functions for each instruction set.
 *
 * The loops are written once, in plain C (loops_elementwise.h, loops_norm.h ...), and compiled three times, by
 * loops_portable.c, loops_avx2.c and loops_avx512.c. They know nothing about threads, kernels or shapes: each works on
 * a run of elements or rows, which is what lets kernel_*.c cut the work between threads. The bits of a result depend on
 * the table, the element and the length of a row, never on where a run begins, on alignment or on the number of
 * threads: runs begin at multiples of 64 elements, and every sum has its own fixed lanes.
 *
 * Data is f32 or bf16 ("dtype" below is one of the two); bf16 is widened on load, computed in f32 and rounded to
 * nearest even on store. An output may be one of the inputs of the same dtype wherever an element of it depends on that
 * element alone, and row functions may write over the row that they read. */
#ifndef GP_DEVICE_CPU_LOOPS_H
#define GP_DEVICE_CPU_LOOPS_H

#include "device/cpu/cpu.h"

/* One operand of an elementwise loop. */
typedef struct gp_cpu_operand {
    const void *data;
    gp_dtype dtype;
    int step; /* 1: an element for each result; 0: one element for all */
} gp_cpu_operand;

/* What draws the random numbers of a run of elements of one sample (base/random.h). */
typedef struct gp_cpu_draw {
    gp_random_key key;
    uint32_t sample, step, use;
    uint32_t threshold;
    float scale; /* of what is kept */
} gp_cpu_draw;

/* gp_update with its constants in f32. */
typedef struct gp_cpu_update {
    gp_update_kind kind;
    bool momentum, nesterov, first, epsilon_inside;
    float scale;                      /* of the gradient */
    float lr;                         /* Adam: lr / correction1 */
    float keep;                       /* AdamW: 1 - lr * weight_decay */
    float weight_decay;               /* added to the gradient */
    float factor;                     /* of momentum */
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    float root;                       /* 1 / sqrt(correction2) */
    float epsilon;
} gp_cpu_update;

/* What cross-entropy does with one row. */
typedef struct gp_cpu_target {
    int64_t index;   /* of the right class */
    float smoothing; /* label smoothing s */
    float factor;    /* gradient: dloss * weight of the row */
} gp_cpu_target;

/* A block of rows of one head's scores in attention: the row r of the block is row first + r of the head. It sees
 * `columns` columns, or first + r + 1 of them when the attention is causal. In memory rows are `width` elements apart.
 */
typedef struct gp_cpu_scores {
    int64_t first, rows, columns, width;
    bool causal;
    const gp_cpu_draw *draw; /* NULL: no dropout */
    int64_t element;         /* number in the sample of the block's first row and column 0 */
    int64_t row_elements;    /* from row to row */
} gp_cpu_scores;

/* What batch norm knows of each of the `width` columns of a row; shift and slope are of its gradient. */
typedef struct gp_cpu_channels {
    int64_t width;
    const float *mean, *scale, *bias, *shift, *slope;
} gp_cpu_channels;

/* The pixels of an image that one result of pooling, or of its gradient, is made of: `rows` times `columns` of them, in
 * memory `row` and `pixel` elements apart. Each has a number, which the pooling that looks for the greatest writes
 * down: `first` for the first one, and so much more for the next in each direction. */
typedef struct gp_cpu_window {
    int64_t rows, columns, row, pixel;
    int32_t first, row_step, column_step;
    int share_step; /* sums: 1: a factor for each row and for each column, 0: one for all of them */
} gp_cpu_window;

struct gp_cpu_loops {
    const char *name; /* "portable", "avx2", "avx512" */

    /* -- element by element -- */
    /* y = a op b (GP_OP_ADD .. GP_OP_DIV); y is bf16 when an operand is. At most one step is 0 unless count is 1. */
    void (*binary)(gp_op_id op, gp_cpu_operand a, gp_cpu_operand b, void *y, int64_t count);
    void (*scale)(gp_dtype dtype, const void *x, void *y, float factor, int64_t count);
    void (*cast)(gp_cpu_operand x, void *y, gp_dtype dtype, int64_t count);
    void (*activation)(gp_activation_kind kind, gp_dtype dtype, const void *x, void *y, int64_t count);
    /* v: x or y, as the kind wants it (graph/ops.h) */
    void (*activation_gradient)(gp_activation_kind kind, gp_dtype dtype, const void *dy, const void *v, void *dx,
                                int64_t count);
    void (*accumulate)(gp_dtype dtype, const void *x, float *y, int64_t count); /* y += x */
    /* `first` (a multiple of 64) is the number of the run's first element in its sample. */
    void (*dropout)(const gp_cpu_draw *draw, gp_dtype dtype, const void *x, void *y, int64_t first, int64_t count);

    /* -- rows of n elements -- */
    void (*layer_norm)(gp_dtype dtype, const void *x, const float *w, const float *b, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t n, float epsilon);
    void (*layer_norm_gradient)(gp_dtype dtype, const void *dy, const void *x, const float *w, const float *mean,
                                const float *rstd, void *dx, int64_t rows, int64_t n);
    void (*rms_norm)(gp_dtype dtype, const void *x, const float *w, void *y, float *rstd, int64_t rows, int64_t n,
                     float epsilon);
    void (*rms_norm_gradient)(gp_dtype dtype, const void *dy, const void *x, const float *w, const float *rstd,
                              void *dx, int64_t rows, int64_t n);
    /* Columns begin..end-1 of dw = sum over rows of dy * (x - mean) * rstd, and of db = sum of dy (db and mean both
     * NULL for RMS norm). With `accumulate` bit 0 (dw) and bit 1 (db) the sum is added to what is there. */
    void (*norm_weight_gradient)(gp_dtype dtype, const void *dy, const void *x, const float *mean, const float *rstd,
                                 float *dw, float *db, int64_t rows, int64_t n, int64_t begin, int64_t end,
                                 uint32_t accumulate);
    void (*softmax)(gp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n);
    void (*softmax_gradient)(gp_dtype dtype, const void *dy, const void *y, void *dx, int64_t rows, int64_t n);

    /* -- attention -- columns that a row does not see become 0. */
    /* Scores become exp(score - max), after dropout; lse: log of the sum of exponentials; inverse: 1 / sum of
     * exp(score - max). */
    void (*attention_softmax)(const gp_cpu_scores *block, float *scores, float *lse, float *inverse);
    /* delta[r] = sum of dy * y over row r of n elements; rows are `width` elements apart. */
    void (*attention_delta)(gp_dtype dtype, const void *dy, const void *y, int64_t rows, int64_t n, int64_t width,
                            float *delta);
    /* Scores become probabilities after dropout; dp (gradients of those) becomes scale * the gradients of the scores.
     */
    void (*attention_gradient)(const gp_cpu_scores *block, float *scores, float *dp, const float *lse,
                               const float *delta, float scale);

    /* -- losses -- */
    /* One row: returns its loss, stores the log of the sum of exponentials. */
    double (*cross_entropy)(const gp_cpu_target *target, gp_dtype dtype, const void *x, int64_t n, float *lse);
    void (*cross_entropy_gradient)(const gp_cpu_target *target, gp_dtype dtype, const void *x, float lse, void *dx,
                                   int64_t n);
    double (*squared_error)(gp_dtype dtype, const void *x, const void *target, int64_t n); /* sum of squares */
    /* dx = factor * (x - target) */
    void (*squared_error_gradient)(gp_dtype dtype, const void *x, const void *target, void *dx, float factor,
                                   int64_t count);

    /* -- sums -- */
    double (*sum)(gp_dtype dtype, const void *x, int64_t n);
    /* Columns begin..end-1 of y = sum over `rows` rows of n elements; y of `ydtype`, added to when `accumulate`. */
    void (*column_sum)(gp_dtype dtype, const void *x, int64_t rows, int64_t n, int64_t begin, int64_t end, void *y,
                       gp_dtype ydtype, bool accumulate);
    double (*sum_squares)(const float *x, int64_t count);
    /* y = sources[0] + sources[1] + ..., from element `begin` on; y may be a source. */
    void (*ordered_sum)(float *y, const void *const *sources, int source_count, int64_t begin, int64_t count);
    bool (*all_finite)(gp_dtype dtype, const void *x, int64_t count);

    /* -- batch norm: `count` elements that begin a row, the last row may be a part of one -- */
    /* Mean and biased variance of each of n columns; 0 where a column has no element. */
    void (*batch_moments)(gp_dtype dtype, const void *x, int64_t count, int64_t n, float *mean, float *variance);
    /* y = (x - mean) scale + bias, rectified with relu. */
    void (*batch_norm)(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *x, void *y,
                       int64_t count);
    /* The sums over the rows of dy (x - mean) and of dy, which counts where y > 0 with relu. */
    void (*batch_norm_sums)(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy, const void *x,
                            int64_t count, float *products, float *sums);
    /* dx = (dy - shift - (x - mean) slope) scale, the same of dy. */
    void (*batch_norm_gradient)(gp_dtype dtype, bool relu, const gp_cpu_channels *channels, const void *dy,
                                const void *x, void *dx, int64_t count);

    /* -- pixels of n channels -- */
    /* The greatest (a NaN is greater than anything) and the number of the first one that is. */
    void (*max_pool)(gp_dtype dtype, const gp_cpu_window *window, const void *x, void *y, uint8_t *index, int64_t n);
    /* The sum of the pixels whose number in `index` (beside dy) is the window's. */
    void (*max_pool_gradient)(gp_dtype dtype, const gp_cpu_window *window, const void *dy, const uint8_t *index,
                              void *dx, int64_t n);
    /* The sum of the pixels, each times the factor of its row and the factor of its column. */
    void (*window_sum)(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *row_shares,
                       const float *column_shares, void *y, int64_t n);
    /* y = bias + the sum of the pixels, each times the weights with its number, of weights[.., n]; bias NULL: none. */
    void (*depthwise)(gp_dtype dtype, const gp_cpu_window *window, const void *x, const float *weights,
                      const float *bias, void *y, int64_t n);
    /* sums[n] += the sum of a b over `count` pixels, whose steps are in elements. */
    void (*channel_dot)(gp_dtype dtype, const void *a, int64_t a_step, const void *b, int64_t b_step, int64_t count,
                        float *sums, int64_t n);
    /* y[rows, n] = x[rows, n] s[n] */
    void (*channel_scale)(gp_dtype dtype, const void *x, const void *s, void *y, int64_t rows, int64_t n);

    /* -- averages -- */
    /* average += rest * (value - average) */
    void (*moving_average)(float *average, const float *value, float rest, int64_t count);
    /* Two groups become one, of which the other group is `share`. */
    void (*merge_moments)(float *mean, float *variance, const float *other_mean, const float *other_variance,
                          float share, int64_t count);

    /* -- measuring -- */
    /* Rounds of independent multiply-adds in registers; `flops` receives how many operations they were. The result
     * means nothing, but has to be used. */
    float (*peak)(int64_t rounds, double *flops);

    /* -- optimizers -- m, v may be NULL where the kind keeps none; the gradient is zeroed. */
    void (*update)(const gp_cpu_update *update, float *w, float *g, float *m, float *v, int64_t count);
};

extern const gp_cpu_loops gp_cpu_loops_portable;
#if defined(__x86_64__)
extern const gp_cpu_loops gp_cpu_loops_avx2, gp_cpu_loops_avx512;
#endif

/* The table called `name`; NULL: the best one that this processor can run. Returns NULL for a table that is not built
 * or that the processor cannot run. */
const gp_cpu_loops *gp_cpu_loops_table(const char *name);

#endif
