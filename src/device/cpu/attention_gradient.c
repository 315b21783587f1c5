/* The gradient of attention, with probabilities computed again. With P the probabilities after dropout, dP = dy V^T
 * after dropout, D the sum of dy * y over a row: dV = P^T dy, dS = P (dP - D), dQ = scale dS K, dK = scale dS^T Q.
 *
 * Blocks of rows are taken from the last to the first. The last one sees all columns and writes the gradients of keys
 * and values, the others add to them: nothing needs to be zeroed, and the order of additions is fixed. */
#include "device/cpu/attention.h"

#include <string.h>

#include "base/status.h"

/* Where one head's numbers lie in the workspace; unless the attention is dense, everything from `query` on lies in the
 * tensors themselves. */
typedef struct buffers {
    float *scores, *dp, *delta;
    float *query, *dy, *dquery;             /* of a block */
    float *keys, *values, *dkeys, *dvalues; /* of a head */
} buffers;

static buffers buffers_in(const gp_cpu_attention *a, float *workspace) {
    int64_t block = ATTENTION_ROWS * a->head_width, head = a->t * a->head_width;
    buffers b = {.scores = workspace};
    b.dp = b.scores + ATTENTION_ROWS * a->scores_width;
    b.delta = b.dp + ATTENTION_ROWS * a->scores_width;
    b.query = b.delta + ATTENTION_ROWS;
    b.dy = b.query + block;
    b.dquery = b.dy + block;
    b.keys = b.dquery + block;
    b.values = b.keys + head;
    b.dkeys = b.values + head;
    b.dvalues = b.dkeys + head;
    return b;
}

/* Where gradients are summed. */
typedef struct target {
    float *data;
    int64_t width;
} target;

static target target_of(const gp_cpu_head *h, int part, int64_t first, float *buffer) {
    const gp_cpu_attention *a = h->attention;
    if (a->dense) return (target){buffer, a->head_width};
    return (target){(float *)h->outputs[0] + gp_cpu_attention_offset(h, 3, part, first), 3 * a->width};
}

/* The keys and values of a head, and where their gradients go. */
typedef struct sides {
    gp_cpu_matrix k, v;
    target dk, dv;
} sides;

static gp_status block_run(const gp_cpu_head *h, const buffers *b, const sides *s, int64_t first, bool adding) {
    const gp_cpu_attention *a = h->attention;
    gp_cpu_draw draw;
    gp_cpu_scores block = gp_cpu_attention_block(h, first, &draw);
    int64_t d = a->head_width, rows = block.rows, columns = block.columns, width = block.width;
    const float *lse = (const float *)h->inputs[3] + (h->sample * a->heads + h->head) * a->t + first;
    gp_cpu_matrix q = gp_cpu_attention_rows(h, h->inputs[1], 3, 0, first, rows, b->query);
    gp_cpu_matrix dy = gp_cpu_attention_rows(h, h->inputs[0], 1, 0, first, rows, b->dy);
    int64_t row = gp_cpu_attention_offset(h, 1, 0, first);
    a->loops->attention_delta(a->dtype, gp_cpu_from(a->dtype, h->inputs[0], row),
                              gp_cpu_from(a->dtype, h->inputs[2], row), rows, d, a->width, b->delta);

    gp_sgemm score = {false, true, rows, columns, d, q.width, s->k.width, width, a->scale, 0.0f};
    GP_TRY(gp_onednn_sgemm(&score, q.data, s->k.data, b->scores));
    gp_cpu_attention_hide(h, &block, b->scores);
    gp_sgemm dprobability = {false, true, rows, columns, d, dy.width, s->v.width, width, 1.0f, 0.0f};
    GP_TRY(gp_onednn_sgemm(&dprobability, dy.data, s->v.data, b->dp));
    a->loops->attention_gradient(&block, b->scores, b->dp, lse, b->delta, a->scale);

    float beta = adding ? 1.0f : 0.0f;
    gp_sgemm dvalue = {true, false, columns, d, rows, width, dy.width, s->dv.width, 1.0f, beta};
    GP_TRY(gp_onednn_sgemm(&dvalue, b->scores, dy.data, s->dv.data));
    gp_sgemm dkey = {true, false, columns, d, rows, width, q.width, s->dk.width, 1.0f, beta};
    GP_TRY(gp_onednn_sgemm(&dkey, b->dp, q.data, s->dk.data));
    target dq = target_of(h, 0, first, b->dquery);
    gp_sgemm dquery = {false, false, rows, d, columns, width, s->k.width, dq.width, 1.0f, 0.0f};
    GP_TRY(gp_onednn_sgemm(&dquery, b->dp, s->k.data, dq.data));
    if (a->dense) gp_cpu_attention_store(h, b->dquery, NULL, h->outputs[0], 3, 0, first, rows);
    return GP_OK;
}

/* Keys and values behind the last column that anybody sees have no gradient, and no product writes it. */
static void clear_masked(const gp_cpu_head *h, const target *gradient) {
    for (int64_t r = h->columns; r < h->attention->t; r++) {
        memset(gradient->data + r * gradient->width, 0, (size_t)h->attention->head_width * sizeof(float));
    }
}

static gp_status gradient_head(const gp_cpu_head *h, float *workspace) {
    const gp_cpu_attention *a = h->attention;
    buffers b = buffers_in(a, workspace);
    sides s = {.k = gp_cpu_attention_rows(h, h->inputs[1], 3, 1, 0, a->t, b.keys),
               .v = gp_cpu_attention_rows(h, h->inputs[1], 3, 2, 0, a->t, b.values),
               .dk = target_of(h, 1, 0, b.dkeys),
               .dv = target_of(h, 2, 0, b.dvalues)};
    if (h->columns == 0) {
        for (int part = 0; part < 3; part++)
            gp_cpu_attention_clear(h, h->outputs[0], 3, part);
        return GP_OK;
    }
    clear_masked(h, &s.dk);
    clear_masked(h, &s.dv);
    int64_t last = (a->t - 1) / ATTENTION_ROWS * ATTENTION_ROWS;
    for (int64_t first = last; first >= 0; first -= ATTENTION_ROWS) {
        GP_TRY(block_run(h, &b, &s, first, first != last));
    }
    if (a->dense) {
        gp_cpu_attention_store(h, b.dkeys, NULL, h->outputs[0], 3, 1, 0, a->t);
        gp_cpu_attention_store(h, b.dvalues, NULL, h->outputs[0], 3, 2, 0, a->t);
    }
    return GP_OK;
}

static gp_status run_gradient(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                              const gp_run *run) {
    const gp_cpu_attention *a = (const gp_cpu_attention *)kernel;
    return gp_cpu_attention_heads(a, run, inputs, outputs, workspace, gradient_head);
}

void gp_cpu_attention_setup_gradient(gp_cpu_attention *a) {
    int64_t d = a->head_width, floats = ATTENTION_ROWS * (2 * a->scores_width + 1);
    if (a->dense) floats += (3 * ATTENTION_ROWS + 4 * a->t) * d;
    a->worker_workspace = ((size_t)floats + 15) & ~(size_t)15;
    a->kernel.run = run_gradient;
}
