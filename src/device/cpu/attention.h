/* What the forward and the backward kernel of attention share.
 *
 * Both work on blocks of rows of one head (Dao et al., arXiv 2205.14135): a block's scores against all columns that it
 * sees, at most ATTENTION_ROWS x t numbers, stay in the second-level cache between the products around them; nothing of
 * size t x t ever is in memory. Blocks end at the diagonal when the attention is causal. The backward kernel computes
 * the probabilities again from the saved logarithm of the sum of exponentials. Products are oneDNN's sgemm, reading
 * rows where they lie or, where that pays, from a dense copy of the head; bf16 operands are widened into one. A head is
 * computed whole by one thread, so that bits do not depend on their number. */
#ifndef GP_DEVICE_CPU_ATTENTION_H
#define GP_DEVICE_CPU_ATTENTION_H

#include "device/cpu/kernel.h"
#include "device/cpu/onednn/onednn.h"

enum { ATTENTION_ROWS = 64 };

typedef struct gp_cpu_attention {
    gp_kernel kernel; /* first, so that a gp_kernel is a gp_cpu_attention */
    const gp_cpu_loops *loops;
    gp_dtype dtype;
    int64_t samples, t, width, heads, head_width;
    bool causal;
    bool dense; /* a head's operands are copied (bf16: widened) into the workspace, its gradients out of it */
    float scale;
    uint32_t use, threshold; /* of dropout; a threshold of 0: none */
    float keep_scale;
    int64_t scores_width;    /* floats from row to row of a block of scores */
    int mask_input;          /* -1: none */
    int workers;             /* threads that have heads of their own */
    size_t worker_workspace; /* floats of one of them */
} gp_cpu_attention;

/* One head of one sample. */
typedef struct gp_cpu_head {
    const gp_cpu_attention *attention;
    int64_t sample, head;
    const gp_run *run;
    const void *const *inputs;
    void *const *outputs;
    const int32_t *mask; /* of the sample; NULL: every column below `columns` is seen */
    int64_t columns;     /* behind which everything is masked */
} gp_cpu_head;

/* Rows of f32, `width` elements apart. */
typedef struct gp_cpu_matrix {
    const float *data;
    int64_t width;
} gp_cpu_matrix;

typedef gp_status gp_cpu_head_run(const gp_cpu_head *head, float *workspace);

/* Runs all heads of all samples, each once. */
gp_status gp_cpu_attention_heads(const gp_cpu_attention *attention, const gp_run *run, const void *const *inputs,
                                 void *const *outputs, void *workspace, gp_cpu_head_run *head_run);

/* Rows first.. of a head in a tensor [samples, t, width * parts]: part 0 is the query, 1 the key, 2 the value. Copied
 * into `buffer` (rows * head_width floats) when the attention is dense. */
gp_cpu_matrix gp_cpu_attention_rows(const gp_cpu_head *head, const void *tensor, int parts, int part, int64_t first,
                                    int64_t rows, float *buffer);
/* The number of the first element of these rows in the tensor. */
int64_t gp_cpu_attention_offset(const gp_cpu_head *head, int parts, int part, int64_t first);
/* Dense f32 rows times factors[r] (NULL: 1) to their place in the dtype of the activations. The rows are lost. */
void gp_cpu_attention_store(const gp_cpu_head *head, float *rows, const float *factors, void *tensor, int parts,
                            int part, int64_t first, int64_t count);
/* The description of a block of scores; `draw` is filled and used when there is dropout. */
gp_cpu_scores gp_cpu_attention_block(const gp_cpu_head *head, int64_t first, gp_cpu_draw *draw);

/* Zeros the rows of a head in a tensor. */
void gp_cpu_attention_clear(const gp_cpu_head *head, void *tensor, int parts, int part);
/* Scores of columns that the mask hides become -infinity, whose exponential is 0. */
void gp_cpu_attention_hide(const gp_cpu_head *head, const gp_cpu_scores *block, float *scores);

/* Sets run, workspace: each kernel in its file. */
void gp_cpu_attention_setup_forward(gp_cpu_attention *attention);
void gp_cpu_attention_setup_gradient(gp_cpu_attention *attention);

#endif
