/* Attention: creation, what both directions share, and the forward kernel. How it works is in attention.h. */
#include "device/cpu/attention.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* From this length on each key is read so often that copying them next to each other pays: in the tensor every row of a
 * head lies on another page of memory. */
enum { DENSE_T = 512 };

/* ---- one head ---- */

int64_t gp_cpu_attention_offset(const gp_cpu_head *h, int parts, int part, int64_t first) {
    const gp_cpu_attention *a = h->attention;
    return (h->sample * a->t + first) * parts * a->width + part * a->width + h->head * a->head_width;
}

gp_cpu_matrix gp_cpu_attention_rows(const gp_cpu_head *h, const void *tensor, int parts, int part, int64_t first,
                                    int64_t rows, float *buffer) {
    const gp_cpu_attention *a = h->attention;
    const void *place = gp_cpu_from(a->dtype, tensor, gp_cpu_attention_offset(h, parts, part, first));
    if (!a->dense) return (gp_cpu_matrix){place, parts * a->width};
    for (int64_t r = 0; r < rows; r++) {
        gp_cpu_operand row = {gp_cpu_from(a->dtype, place, r * parts * a->width), a->dtype, 1};
        a->loops->cast(row, buffer + r * a->head_width, GP_F32, a->head_width);
    }
    return (gp_cpu_matrix){buffer, a->head_width};
}

void gp_cpu_attention_store(const gp_cpu_head *h, float *rows, const float *factors, void *tensor, int parts, int part,
                            int64_t first, int64_t count) {
    const gp_cpu_attention *a = h->attention;
    void *place = gp_cpu_to(a->dtype, tensor, gp_cpu_attention_offset(h, parts, part, first));
    for (int64_t r = 0; r < count; r++) {
        float *row = rows + r * a->head_width;
        void *to = gp_cpu_to(a->dtype, place, r * parts * a->width);
        void *scaled = a->dtype == GP_F32 ? to : row;
        a->loops->scale(GP_F32, row, scaled, factors ? factors[r] : 1.0f, a->head_width);
        if (a->dtype != GP_F32) a->loops->cast((gp_cpu_operand){row, GP_F32, 1}, to, a->dtype, a->head_width);
    }
}

gp_cpu_scores gp_cpu_attention_block(const gp_cpu_head *h, int64_t first, gp_cpu_draw *draw) {
    const gp_cpu_attention *a = h->attention;
    int64_t rows = a->t - first < ATTENTION_ROWS ? a->t - first : ATTENTION_ROWS;
    if (a->threshold) {
        *draw = (gp_cpu_draw){.key = gp_random_key_of(h->run->seed),
                              .sample = h->run->first_sample + (uint32_t)h->sample,
                              .step = h->run->step,
                              .use = a->use,
                              .threshold = a->threshold,
                              .scale = a->keep_scale};
    }
    return (gp_cpu_scores){.first = first,
                           .rows = rows,
                           .columns = a->causal ? first + rows : h->columns,
                           .width = a->scores_width,
                           .causal = a->causal,
                           .draw = a->threshold ? draw : NULL,
                           .element = (h->head * a->t + first) * a->t,
                           .row_elements = a->t};
}

void gp_cpu_attention_hide(const gp_cpu_head *h, const gp_cpu_scores *block, float *scores) {
    if (!h->mask) return;
    for (int64_t r = 0; r < block->rows; r++) {
        float *row = scores + r * block->width;
        for (int64_t i = 0; i < block->columns; i++) {
            row[i] = h->mask[i] ? row[i] : -INFINITY;
        }
    }
}

/* ---- all heads ---- */

/* Padding at the end, the usual case, costs nothing: its columns are not computed. A mask with holes before its last
 * column is kept for gp_cpu_attention_hide. */
static void look_at_mask(gp_cpu_head *h) {
    const gp_cpu_attention *a = h->attention;
    h->columns = a->t;
    if (a->mask_input < 0) return;
    const int32_t *mask = (const int32_t *)h->inputs[a->mask_input] + h->sample * a->t;
    while (h->columns > 0 && mask[h->columns - 1] == 0) {
        h->columns--;
    }
    for (int64_t i = 0; i < h->columns && !h->mask; i++) {
        if (mask[i] == 0) h->mask = mask;
    }
}

void gp_cpu_attention_clear(const gp_cpu_head *h, void *tensor, int parts, int part) {
    const gp_cpu_attention *a = h->attention;
    for (int64_t r = 0; r < a->t; r++) {
        void *row = gp_cpu_to(a->dtype, tensor, gp_cpu_attention_offset(h, parts, part, r));
        memset(row, 0, (size_t)a->head_width * gp_dtype_bytes(a->dtype));
    }
}

typedef struct heads_work {
    const gp_cpu_attention *attention;
    const gp_run *run;
    const void *const *inputs;
    void *const *outputs;
    float *workspace;
    gp_cpu_head_run *head_run;
    _Atomic int status; /* of the last that failed */
} heads_work;

static void heads_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    heads_work *work = call->workspace;
    const gp_cpu_attention *a = work->attention;
    int64_t count = a->samples * a->heads;
    for (int64_t w = begin; w < end; w++) {
        float *workspace = work->workspace + (size_t)w * a->worker_workspace;
        for (int64_t i = count * w / a->workers; i < count * (w + 1) / a->workers; i++) {
            gp_cpu_head head = {a, i / a->heads, i % a->heads, work->run, work->inputs, work->outputs, NULL, 0};
            look_at_mask(&head);
            gp_status status = work->head_run(&head, workspace);
            if (status != GP_OK) atomic_store(&work->status, (int)status);
        }
    }
}

gp_status gp_cpu_attention_heads(const gp_cpu_attention *a, const gp_run *run, const void *const *inputs,
                                 void *const *outputs, void *workspace, gp_cpu_head_run *head_run) {
    heads_work work = {
        .attention = a, .run = run, .inputs = inputs, .outputs = outputs, .workspace = workspace, .head_run = head_run};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(a->workers, a->workers, 1, &call, heads_part);
    gp_status status = (gp_status)atomic_load(&work.status);
    return status == GP_OK ? GP_OK : gp_error(status, "a product of attention failed: %s", gp_status_text(status));
}

/* ---- forward ---- */

/* Workspace: scores, a tile of the result, 1 / sums; if dense the block's query, and the head's keys and values. */
static gp_status forward_head(const gp_cpu_head *h, float *workspace) {
    const gp_cpu_attention *a = h->attention;
    int64_t d = a->head_width;
    float *scores = workspace, *tile = scores + ATTENTION_ROWS * a->scores_width, *inverse = tile + ATTENTION_ROWS * d;
    float *query = inverse + ATTENTION_ROWS, *keys = query + ATTENTION_ROWS * d, *values = keys + a->t * d;
    const void *qkv = h->inputs[0];
    gp_cpu_matrix k = gp_cpu_attention_rows(h, qkv, 3, 1, 0, a->t, keys);
    gp_cpu_matrix v = gp_cpu_attention_rows(h, qkv, 3, 2, 0, a->t, values);
    float *lse = (float *)h->outputs[1] + (h->sample * a->heads + h->head) * a->t;
    if (h->columns == 0) {
        gp_cpu_attention_clear(h, h->outputs[0], 1, 0);
        memset(lse, 0, (size_t)a->t * sizeof *lse);
        return GP_OK;
    }
    for (int64_t first = 0; first < a->t; first += ATTENTION_ROWS) {
        gp_cpu_draw draw;
        gp_cpu_scores block = gp_cpu_attention_block(h, first, &draw);
        gp_cpu_matrix q = gp_cpu_attention_rows(h, qkv, 3, 0, first, block.rows, query);
        gp_sgemm score = {false, true, block.rows, block.columns, d, q.width, k.width, block.width, a->scale, 0.0f};
        GP_TRY(gp_onednn_sgemm(&score, q.data, k.data, scores));
        gp_cpu_attention_hide(h, &block, scores);
        a->loops->attention_softmax(&block, scores, lse + first, inverse);
        gp_sgemm mix = {false, false, block.rows, d, block.columns, block.width, v.width, d, 1.0f, 0.0f};
        GP_TRY(gp_onednn_sgemm(&mix, scores, v.data, tile));
        gp_cpu_attention_store(h, tile, inverse, h->outputs[0], 1, 0, first, block.rows);
    }
    return GP_OK;
}

static gp_status run_forward(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                             const gp_run *run) {
    const gp_cpu_attention *a = (const gp_cpu_attention *)kernel;
    return gp_cpu_attention_heads(a, run, inputs, outputs, workspace, forward_head);
}

void gp_cpu_attention_setup_forward(gp_cpu_attention *a) {
    int64_t d = a->head_width, floats = ATTENTION_ROWS * (a->scores_width + d + 1);
    if (a->dense) floats += (ATTENTION_ROWS + 2 * a->t) * d;
    a->worker_workspace = ((size_t)floats + 15) & ~(size_t)15;
    a->kernel.run = run_forward;
}

/* ---- creation ---- */

static void destroy(gp_kernel *kernel) {
    gp_free(kernel);
}

static bool has_shape(gp_type type, gp_dtype dtype, int64_t a, int64_t b, int64_t c) {
    return type.dtype == dtype && gp_shape_equal(type.shape, gp_shape_of(3, (int64_t[]){a, b, c}));
}

static gp_status check(const gp_cpu_attention *a, const gp_kernel_desc *d) {
    bool forward = d->id == GP_OP_ATTENTION;
    gp_type qkv = d->inputs[forward ? 0 : 1], y = forward ? d->outputs[0] : d->inputs[2];
    gp_type lse = forward ? d->outputs[1] : d->inputs[3];
    bool fits = gp_cpu_is_float(qkv) && has_shape(qkv, qkv.dtype, a->samples, a->t, 3 * a->width) &&
                has_shape(y, qkv.dtype, a->samples, a->t, a->width) &&
                has_shape(lse, GP_F32, a->samples, a->heads, a->t) && a->head_width * a->heads == a->width;
    if (a->mask_input >= 0) {
        gp_type mask = {GP_I32, gp_shape_of(2, (int64_t[]){a->samples, a->t})};
        fits = fits && !a->causal && gp_type_equal(d->inputs[a->mask_input], mask);
    }
    if (!forward) fits = fits && gp_type_equal(d->inputs[0], y) && gp_type_equal(d->outputs[0], qkv);
    return gp_cpu_check(fits, d);
}

static gp_status set_up(gp_cpu_attention *a, const gp_cpu_device *device, const gp_kernel_desc *desc) {
    const gp_attention_attributes *attributes = desc->attributes;
    gp_type qkv = desc->inputs[desc->id == GP_OP_ATTENTION ? 0 : 1];
    GP_TRY(gp_cpu_check(attributes && attributes->heads > 0 && qkv.shape.rank == 3, desc));
    a->kernel.destroy = destroy;
    a->loops = device->loops;
    a->dtype = qkv.dtype;
    a->samples = qkv.shape.dims[0];
    a->t = qkv.shape.dims[1];
    a->width = qkv.shape.dims[2] / 3;
    a->heads = attributes->heads;
    a->head_width = a->width / a->heads;
    a->causal = attributes->causal;
    a->mask_input = desc->id == GP_OP_ATTENTION ? 1 : 4;
    if (a->mask_input >= desc->input_count || !gp_cpu_is_present(desc->inputs[a->mask_input])) a->mask_input = -1;
    GP_TRY(check(a, desc));
    a->scale = (float)attributes->scale;
    a->use = attributes->use;
    a->threshold = gp_random_threshold(attributes->dropout);
    a->keep_scale = (float)(1.0 / (1.0 - attributes->dropout));
    a->dense = a->dtype != GP_F32 || a->t >= DENSE_T;
    /* whole vectors, and not a power of two, which would put all rows into the same few sets of the cache */
    a->scores_width = (a->t + 15) / 16 * 16 + 16;
    int64_t count = a->samples * a->heads;
    a->workers = count < device->device.threads ? (int)count : device->device.threads;
    if (desc->id == GP_OP_ATTENTION) {
        gp_cpu_attention_setup_forward(a);
    } else {
        gp_cpu_attention_setup_gradient(a);
    }
    a->kernel.workspace = a->worker_workspace * sizeof(float) * (size_t)a->workers;
    return GP_OK;
}

gp_status gp_cpu_attention_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_cpu_attention *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = set_up(made, device, desc);
    if (status != GP_OK) {
        gp_free(made);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}
