/* Attention of the reference device: scores, softmax, dropout and the weighted sum of values, one row at a time, and
 * the gradient from the formulas. Probabilities are computed from the row's logarithm of the sum of exponentials. */
#include <math.h>
#include <string.h>

#include "device/reference/reference.h"

/* One head of one sample. `qkv` points at the sample; a row of it is 3 * width long. */
typedef struct head {
    const gp_attention_attributes *attributes;
    const gp_run *run;
    const double *qkv;
    const int32_t *mask; /* of the sample: 0 where nobody looks; NULL: none */
    int64_t sample, number, time, width, size;
} head;

static const double *part(const head *h, int which, int64_t row) {
    return h->qkv + row * 3 * h->width + which * h->width + h->number * h->size;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double score(const head *h, int64_t row, int64_t column) {
    return h->attributes->scale * dot(part(h, 0, row), part(h, 1, column), h->size);
}

/* Columns before which a row sees what is not masked. */
static int64_t seen(const head *h, int64_t row) {
    return h->attributes->causal ? row + 1 : h->time;
}

static bool masked(const head *h, int64_t column) {
    return h->mask && h->mask[column] == 0;
}

static double keep(const head *h, int64_t row, int64_t column) {
    if (h->attributes->dropout <= 0.0) return 1.0;
    int64_t element = (h->number * h->time + row) * h->time + column;
    return gp_reference_keep(h->run, h->attributes->dropout, h->attributes->use, h->sample, element);
}

static head head_of(const gp_reference_call *call, int qkv_input, int mask_input, int64_t sample, int64_t number) {
    const gp_attention_attributes *attributes = call->attributes;
    gp_shape shape = call->input_types[qkv_input].shape;
    int64_t time = shape.dims[1], width = shape.dims[2] / 3;
    bool masks = mask_input < call->input_count && gp_reference_present(call->input_types[mask_input]);
    return (head){attributes,
                  call->run,
                  gp_reference_in(call, qkv_input) + sample * time * 3 * width,
                  masks ? (const int32_t *)call->inputs[mask_input] + sample * time : NULL,
                  sample,
                  number,
                  time,
                  width,
                  width / attributes->heads};
}

static double log_sum(const head *h, int64_t row) {
    double largest = -(double)INFINITY, sum = 0.0;
    for (int64_t j = 0; j < seen(h, row); j++) {
        if (!masked(h, j)) largest = fmax(largest, score(h, row, j));
    }
    for (int64_t j = 0; j < seen(h, row); j++) {
        if (!masked(h, j)) sum += exp(score(h, row, j) - largest);
    }
    /* cppcheck-suppress invalidFunctionArg ; the largest one has added 1 */
    return sum > 0.0 ? largest + log(sum) : 0.0; /* 0: everything is masked */
}

static void forward_row(const head *h, int64_t row, double lse, double *y) {
    memset(y, 0, (size_t)h->size * sizeof *y);
    for (int64_t j = 0; j < seen(h, row); j++) {
        if (masked(h, j)) continue;
        double p = exp(score(h, row, j) - lse) * keep(h, row, j);
        for (int64_t i = 0; i < h->size; i++) {
            y[i] += p * part(h, 2, j)[i];
        }
    }
}

gp_status gp_reference_attention(const gp_reference_call *call) {
    const gp_attention_attributes *attributes = call->attributes;
    for (int64_t s = 0; s < call->input_types[0].shape.dims[0]; s++) {
        for (int64_t n = 0; n < attributes->heads; n++) {
            head h = head_of(call, 0, 1, s, n);
            for (int64_t r = 0; r < h.time; r++) {
                double lse = log_sum(&h, r);
                gp_reference_out(call, 1)[(s * attributes->heads + n) * h.time + r] = lse;
                forward_row(&h, r, lse, gp_reference_out(call, 0) + (s * h.time + r) * h.width + n * h.size);
            }
        }
    }
    return GP_OK;
}

/* With P the probabilities and K what dropout multiplies them with: dV += P K dy; dP = K dy V; the score's gradient is
 * P (dP - sum(P dP)), and that sum is dy . y. */
static void backward_row(const head *h, int64_t row, double lse, const double *dy, const double *y, double *dqkv) {
    double sum = dot(dy, y, h->size);
    double *dq = dqkv + row * 3 * h->width + h->number * h->size;
    for (int64_t j = 0; j < seen(h, row); j++) {
        if (masked(h, j)) continue;
        double *dk = dqkv + j * 3 * h->width + h->width + h->number * h->size, *dv = dk + h->width;
        double p = exp(score(h, row, j) - lse), k = keep(h, row, j);
        double ds = p * (k * dot(dy, part(h, 2, j), h->size) - sum) * h->attributes->scale;
        for (int64_t i = 0; i < h->size; i++) {
            dv[i] += p * k * dy[i];
            dq[i] += ds * part(h, 1, j)[i];
            dk[i] += ds * part(h, 0, row)[i];
        }
    }
}

gp_status gp_reference_attention_gradient(const gp_reference_call *call) {
    const gp_attention_attributes *attributes = call->attributes;
    gp_shape shape = call->output_types[0].shape;
    memset(call->outputs[0], 0, gp_reference_bytes(call->output_types[0]));
    for (int64_t s = 0; s < shape.dims[0]; s++) {
        double *dqkv = gp_reference_out(call, 0) + s * shape.dims[1] * shape.dims[2];
        for (int64_t n = 0; n < attributes->heads; n++) {
            head h = head_of(call, 1, 4, s, n);
            for (int64_t r = 0; r < h.time; r++) {
                int64_t at = (s * h.time + r) * h.width + n * h.size;
                double lse = gp_reference_in(call, 3)[(s * attributes->heads + n) * h.time + r];
                backward_row(&h, r, lse, gp_reference_in(call, 0) + at, gp_reference_in(call, 2) + at, dqkv);
            }
        }
    }
    return GP_OK;
}
