/* Attention of the CPU device against the textbook in double precision: whole matrices of scores, softmax by rows,
 * gradients by the chain rule. Sizes around the blocks of the kernels, both dtypes, dropout, every instruction set. */
#include "cpu_kernel_run.h"

#include <math.h>

#include "device/cpu/loops.h"

typedef struct problem {
    int64_t samples, t, heads, d;
    bool causal;
    double dropout;
    gp_dtype dtype;
    int threads;
    const char *loops; /* NULL: the best */
} problem;

enum { USE = 5, STEP = 11, FIRST_SAMPLE = 3 };
static const uint64_t SEED = 0x123456789ABCDEFu;

static gp_attention_attributes attributes_of(const problem *p) {
    return (gp_attention_attributes){
        .heads = p->heads, .causal = p->causal, .dropout = p->dropout, .scale = 1.0 / sqrt((double)p->d), .use = USE};
}

/* What dropout makes of probability (head, row, column) of a sample: a factor. */
static double kept(const problem *p, int64_t sample, int64_t head, int64_t row, int64_t column) {
    if (p->dropout == 0) return 1;
    uint32_t element = (uint32_t)((head * p->t + row) * p->t + column);
    gp_random_block block =
        gp_random_element4(gp_random_key_of(SEED), element / 4, FIRST_SAMPLE + (uint32_t)sample, STEP, USE);
    return block.word[element % 4] >= gp_random_threshold(p->dropout) ? 1 / (1 - p->dropout) : 0;
}

typedef struct textbook {
    double *y, *lse, *dqkv;
} textbook;

/* One row of one head: its output, and what it adds to the gradients. */
static void textbook_row(const problem *p, const double *qkv, const double *dy, int64_t s, int64_t h, int64_t i,
                         textbook *out) {
    int64_t c = p->heads * p->d, seen = p->causal ? i + 1 : p->t;
    const double *q = qkv + (s * p->t + i) * 3 * c + h * p->d, *base = qkv + s * p->t * 3 * c + h * p->d;
    const double *dy_row = dy + (s * p->t + i) * c + h * p->d;
    double *y = out->y + (s * p->t + i) * c + h * p->d, scale = 1 / sqrt((double)p->d), sum = 0, delta = 0;
    double *probability = gp_allocate((size_t)p->t * sizeof(double)), *dp = gp_allocate((size_t)p->t * sizeof(double));
    assert_true(probability && dp);
    for (int64_t j = 0; j < seen; j++) {
        double score = 0;
        for (int64_t e = 0; e < p->d; e++) {
            score += q[e] * base[j * 3 * c + c + e];
        }
        sum += probability[j] = exp(score * scale);
    }
    out->lse[(s * p->heads + h) * p->t + i] = log(sum);
    for (int64_t j = 0; j < seen; j++) {
        double factor = kept(p, s, h, i, j);
        probability[j] /= sum;
        for (int64_t e = 0; e < p->d; e++) {
            double value = base[j * 3 * c + 2 * c + e];
            y[e] += probability[j] * factor * value;
            dp[j] += dy_row[e] * factor * value;
            out->dqkv[(s * p->t + j) * 3 * c + 2 * c + h * p->d + e] += probability[j] * factor * dy_row[e];
        }
        delta += probability[j] * dp[j];
    }
    for (int64_t j = 0; j < seen; j++) {
        double ds = probability[j] * (dp[j] - delta) * scale;
        for (int64_t e = 0; e < p->d; e++) {
            out->dqkv[(s * p->t + i) * 3 * c + h * p->d + e] += ds * base[j * 3 * c + c + e];
            out->dqkv[(s * p->t + j) * 3 * c + c + h * p->d + e] += ds * q[e];
        }
    }
    gp_free(probability);
    gp_free(dp);
}

static double largest_error(gp_type type, const void *data, const double *truth) {
    double *values = doubles(type, data), worst = 0;
    for (int64_t i = 0; i < gp_shape_elements(type.shape); i++) {
        double error = fabs(values[i] - truth[i]) / (1 + fabs(truth[i]));
        if (!(error <= worst)) worst = error; /* NaN counts */
    }
    gp_free(values);
    return worst;
}

typedef struct tensors {
    gp_type qkv_type, y_type, lse_type;
    void *qkv, *dy, *y, *lse, *dqkv;
} tensors;

static tensors tensors_of(const problem *p) {
    int64_t c = p->heads * p->d;
    tensors t = {.qkv_type = TYPE(p->dtype, p->samples, p->t, 3 * c),
                 .y_type = TYPE(p->dtype, p->samples, p->t, c),
                 .lse_type = TYPE(GP_F32, p->samples, p->heads, p->t)};
    t.qkv = filled(t.qkv_type, "qkv");
    t.dy = filled(t.y_type, "dy");
    t.y = filled(t.y_type, "nothing");
    t.lse = filled(t.lse_type, "nothing");
    t.dqkv = filled(t.qkv_type, "nothing");
    return t;
}

static void tensors_free(tensors *t) {
    gp_free(t->qkv);
    gp_free(t->dy);
    gp_free(t->y);
    gp_free(t->lse);
    gp_free(t->dqkv);
}

static void run_kernels(const problem *p, const tensors *t) {
    gp_device *device = NULL;
    assert_int_equal(gp_device_create_cpu(&device, &(gp_device_options){.threads = p->threads}), GP_OK);
    assert_int_equal(device->class->enter(device), GP_OK);
    if (p->loops) ((gp_cpu_device *)device)->loops = gp_cpu_loops_table(p->loops);
    gp_attention_attributes attributes = attributes_of(p);
    gp_run run = {.seed = SEED, .step = STEP, .first_sample = FIRST_SAMPLE};
    gp_type outputs[] = {t->y_type, t->lse_type};
    gp_type inputs[] = {t->y_type, t->qkv_type, t->y_type, t->lse_type};
    gp_kernel_desc forward = {.id = GP_OP_ATTENTION,
                              .attributes = &attributes,
                              .inputs = &t->qkv_type,
                              .outputs = outputs,
                              .input_count = 1,
                              .output_count = 2};
    gp_kernel_desc backward = {.id = GP_OP_ATTENTION_GRADIENT,
                               .attributes = &attributes,
                               .inputs = inputs,
                               .outputs = &t->qkv_type,
                               .input_count = 4,
                               .output_count = 1};
    kernel_run(device, &forward, (const void *[]){t->qkv}, (void *[]){t->y, t->lse}, &run, false);
    kernel_run(device, &backward, (const void *[]){t->dy, t->qkv, t->y, t->lse}, (void *[]){t->dqkv}, &run, false);
    gp_device_destroy(device);
}

static void check(const problem *p) {
    tensors t = tensors_of(p);
    run_kernels(p, &t);
    double *qkv = doubles(t.qkv_type, t.qkv), *dy = doubles(t.y_type, t.dy);
    textbook truth = {gp_allocate((size_t)gp_shape_elements(t.y_type.shape) * sizeof(double)),
                      gp_allocate((size_t)gp_shape_elements(t.lse_type.shape) * sizeof(double)),
                      gp_allocate((size_t)gp_shape_elements(t.qkv_type.shape) * sizeof(double))};
    assert_true(truth.y && truth.lse && truth.dqkv);
    for (int64_t s = 0; s < p->samples; s++) {
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t i = 0; i < p->t; i++) {
                textbook_row(p, qkv, dy, s, h, i, &truth);
            }
        }
    }
    double bound = p->dtype == GP_F32 ? 2e-6 : 0x1p-7;
    double y = largest_error(t.y_type, t.y, truth.y), lse = largest_error(t.lse_type, t.lse, truth.lse);
    double dqkv = largest_error(t.qkv_type, t.dqkv, truth.dqkv);
    if (!(y <= bound && lse <= 2e-6 && dqkv <= bound)) {
        fail_msg("%lld x %lld, %lld heads of %lld, %s%s: errors y %.3g, lse %.3g, dqkv %.3g", (long long)p->samples,
                 (long long)p->t, (long long)p->heads, (long long)p->d, p->causal ? "causal" : "full",
                 p->dropout > 0 ? ", dropout" : "", y, lse, dqkv);
    }
    gp_free(qkv);
    gp_free(dy);
    gp_free(truth.y);
    gp_free(truth.lse);
    gp_free(truth.dqkv);
    tensors_free(&t);
}

static void test_sizes(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 63, 64, 65, 130, 193};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int causal = 0; causal < 2; causal++) {
            check(&(problem){2, lengths[i], 2, 8, causal, 0, GP_F32, 1, NULL});
            check(&(problem){1, lengths[i], 1, 33, causal, 0.3, GP_F32, 1, NULL});
        }
    }
}

static void test_bf16(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        check(&(problem){2, 65, 3, 16, causal, 0, GP_BF16, 1, NULL});
        check(&(problem){1, 130, 2, 5, causal, 0.2, GP_BF16, 2, NULL});
    }
}

/* Long enough that heads are copied out of their tensor. */
static void test_long(void **state) {
    (void)state;
    check(&(problem){1, 520, 2, 8, true, 0.1, GP_F32, 1, NULL});
    check(&(problem){1, 513, 1, 9, false, 0, GP_F32, 1, NULL});
}

static void test_instruction_sets(void **state) {
    (void)state;
    static const char *const names[] = {"portable", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!gp_cpu_loops_table(names[i])) continue;
        check(&(problem){1, 77, 2, 16, true, 0.25, GP_F32, 1, names[i]});
        check(&(problem){1, 77, 2, 16, false, 0, GP_BF16, 1, names[i]});
    }
}

/* Scores so large that exponentials without the maximum taken off would overflow. */
static void test_large_scores(void **state) {
    (void)state;
    problem p = {1, 70, 1, 4, true, 0, GP_F32, 1, NULL};
    tensors t = tensors_of(&p);
    float *qkv = t.qkv;
    for (int64_t i = 0; i < gp_shape_elements(t.qkv_type.shape); i++) {
        qkv[i] *= 1000.0f;
    }
    run_kernels(&p, &t);
    for (int64_t i = 0; i < gp_shape_elements(t.y_type.shape); i++) {
        assert_true(fabsf(((float *)t.y)[i]) <= 1000.5f);
    }
    for (int64_t i = 0; i < gp_shape_elements(t.qkv_type.shape); i++) {
        assert_true(isfinite(((float *)t.dqkv)[i]));
    }
    tensors_free(&t);
}

/* Whatever the number of threads, and whatever the other samples of the micro-batch. */
static void test_same_bits(void **state) {
    (void)state;
    problem one = {3, 100, 2, 16, true, 0.1, GP_F32, 1, NULL}, two = one;
    two.threads = 2;
    tensors a = tensors_of(&one), b = tensors_of(&two);
    run_kernels(&one, &a);
    run_kernels(&two, &b);
    assert_memory_equal(a.y, b.y, gp_type_bytes(a.y_type));
    assert_memory_equal(a.lse, b.lse, gp_type_bytes(a.lse_type));
    assert_memory_equal(a.dqkv, b.dqkv, gp_type_bytes(a.qkv_type));
    problem alone = one;
    alone.samples = 1; /* the first sample has the same number in the mini-batch */
    tensors c = tensors_of(&alone);
    run_kernels(&alone, &c);
    assert_memory_equal(c.y, a.y, gp_type_bytes(c.y_type));
    assert_memory_equal(c.dqkv, a.dqkv, gp_type_bytes(c.qkv_type));
    tensors_free(&a);
    tensors_free(&b);
    tensors_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_bf16),         cmocka_unit_test(test_instruction_sets),
        cmocka_unit_test(test_long),  cmocka_unit_test(test_large_scores), cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
