/* Products of the CPU device against plain loops in double precision: both routes, both dtypes, odd sizes, several
 * tiles, threads. */
#include "cpu_kernel_run.h"

#include <math.h>

typedef struct setting {
    gp_dtype dtype;
    bool packed_route; /* as on a processor with AMX */
    bool packed;       /* parameters are handed in their forms */
    int threads;
} setting;

static const setting settings[] = {
    {GP_F32, false, false, 1},  {GP_F32, false, true, 2},  {GP_BF16, false, false, 1},
    {GP_BF16, false, false, 2}, {GP_BF16, true, false, 1}, {GP_BF16, true, true, 1},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static gp_device *device_for(const setting *s) {
    gp_device *device = NULL;
    assert_int_equal(gp_device_create_cpu(&device, &(gp_device_options){.threads = s->threads}), GP_OK);
    ((gp_cpu_device *)device)->bf16_packed = s->packed_route;
    assert_int_equal(device->class->enter(device), GP_OK);
    return device;
}

/* c[m, n] += op(a) op(b); magnitude[m, n] += |op(a)| |op(b)| */
static void multiply(const double *a, bool ta, const double *b, bool tb, double *c, double *magnitude, int64_t m,
                     int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t l = 0; l < k; l++) {
            double left = ta ? a[l * m + i] : a[i * k + l];
            for (int64_t j = 0; j < n; j++) {
                double product = left * (tb ? b[j * k + l] : b[l * n + j]);
                c[i * n + j] += product;
                magnitude[i * n + j] += fabs(product);
            }
        }
    }
}

/* f32: rounding of sums; bf16: of the result, and of packed weights to bf16. */
static void check(gp_type type, const void *data, const double *truth, const double *magnitude, const setting *s) {
    double *values = doubles(type, data);
    int64_t count = gp_shape_elements(type.shape);
    for (int64_t i = 0; i < count; i++) {
        double bound = 1e-6 * magnitude[i] + 1e-7;
        if (type.dtype == GP_BF16) bound += fabs(truth[i]) * 0x1p-8;
        if (s->packed) bound += magnitude[i] * 0x1p-8;
        if (!(fabs(values[i] - truth[i]) <= bound)) {
            fail_msg("element %lld: %.9g instead of %.9g (bound %.3g)", (long long)i, values[i], truth[i], bound);
        }
    }
    gp_free(values);
}

typedef struct operands {
    gp_type types[4]; /* two inputs, bias, output */
    void *data[4];
    double *a, *b, *truth, *magnitude;
} operands;

static operands prepare(gp_type a, gp_type b, gp_type bias, gp_type c) {
    operands o = {.types = {a, b, bias, c}};
    o.data[0] = filled(a, "a");
    o.data[1] = filled(b, "b");
    o.data[2] = bias.shape.rank >= 0 ? filled(bias, "bias") : NULL;
    o.data[3] = filled(c, "c");
    o.a = doubles(a, o.data[0]);
    o.b = doubles(b, o.data[1]);
    size_t count = (size_t)gp_shape_elements(c.shape);
    o.truth = gp_allocate(count * sizeof(double));
    o.magnitude = gp_allocate(count * sizeof(double));
    assert_true(o.truth && o.magnitude);
    return o;
}

static void finish(operands *o) {
    for (int i = 0; i < 4; i++) {
        gp_free(o->data[i]);
    }
    gp_free(o->a);
    gp_free(o->b);
    gp_free(o->truth);
    gp_free(o->magnitude);
}

static void run_and_check(operands *o, gp_op_id id, const void *attributes, int inputs, uint32_t accumulate,
                          const setting *s) {
    gp_device *device = device_for(s);
    gp_kernel_desc desc = {.id = id,
                           .attributes = attributes,
                           .inputs = o->types,
                           .outputs = &o->types[3],
                           .input_count = inputs,
                           .output_count = 1,
                           .accumulate = accumulate};
    const void *given[3] = {o->data[0], o->data[1], o->data[2]};
    kernel_run(device, &desc, given, &o->data[3], &(gp_run){0}, s->packed);
    check(o->types[3], o->data[3], o->truth, o->magnitude, s);
    gp_device_destroy(device);
}

static void linear(int64_t rows, int64_t n, int64_t k, bool bias, const setting *s) {
    operands o = prepare(TYPE(s->dtype, 1, rows, k), TYPE(GP_F32, n, k), bias ? TYPE(GP_F32, n) : ABSENT,
                         TYPE(s->dtype, 1, rows, n));
    for (int64_t i = 0; bias && i < rows * n; i++) {
        o.truth[i] = (double)((float *)o.data[2])[i % n];
        o.magnitude[i] = fabs(o.truth[i]);
    }
    multiply(o.a, false, o.b, true, o.truth, o.magnitude, rows, n, k);
    run_and_check(&o, GP_OP_LINEAR, NULL, 3, 0, s);
    finish(&o);
}

static void input_gradient(int64_t rows, int64_t n, int64_t k, const setting *s) {
    operands o = prepare(TYPE(s->dtype, rows, n), TYPE(GP_F32, n, k), ABSENT, TYPE(s->dtype, rows, k));
    multiply(o.a, false, o.b, false, o.truth, o.magnitude, rows, k, n);
    run_and_check(&o, GP_OP_LINEAR_INPUT_GRADIENT, NULL, 2, 0, s);
    finish(&o);
}

static void weight_gradient(int64_t rows, int64_t n, int64_t k, bool accumulate, const setting *s) {
    operands o = prepare(TYPE(s->dtype, rows, n), TYPE(s->dtype, rows, k), ABSENT, TYPE(GP_F32, n, k));
    for (int64_t i = 0; accumulate && i < n * k; i++) {
        o.truth[i] = (double)((float *)o.data[3])[i];
        o.magnitude[i] = fabs(o.truth[i]);
    }
    multiply(o.a, true, o.b, false, o.truth, o.magnitude, n, k, rows);
    setting plain = *s;
    plain.packed = false; /* no weights, nothing packed */
    run_and_check(&o, GP_OP_LINEAR_WEIGHT_GRADIENT, NULL, 2, accumulate, &plain);
    finish(&o);
}

static void test_linear(void **state) {
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        linear(5, 7, 3, true, &settings[i]);
        linear(1, 33, 65, false, &settings[i]);
        linear(48, 96, 64, true, &settings[i]);
        linear(3, 1, 1, true, &settings[i]);
    }
}

static void test_input_gradient(void **state) {
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        input_gradient(5, 7, 3, &settings[i]);
        input_gradient(48, 96, 64, &settings[i]);
        input_gradient(1, 1, 9, &settings[i]);
    }
}

static void test_weight_gradient(void **state) {
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            weight_gradient(5, 7, 3, accumulate, &settings[i]);
            weight_gradient(48, 96, 64, accumulate, &settings[i]);
            weight_gradient(1, 5, 9, accumulate, &settings[i]);
        }
    }
}

/* Sides over 1024: several tiles in each direction. */
static void test_several_tiles(void **state) {
    (void)state;
    for (int i = 2; i < SETTINGS; i++) {
        linear(1030, 1100, 5, true, &settings[i]);
        linear(3, 1100, 2060, true, &settings[i]);
        input_gradient(1030, 2060, 3, &settings[i]);
        weight_gradient(2060, 3, 1040, true, &settings[i]);
    }
}

typedef struct batched {
    int rank_a, rank_b, rank_c;
    int64_t a[4], b[4], c[4]; /* leading dimensions, as they broadcast */
} batched;

static void matmul(const batched *x, bool ta, bool tb, const setting *s) {
    enum { M = 6, N = 10, K = 9 };
    gp_shape a = gp_shape_of(x->rank_a, x->a), b = gp_shape_of(x->rank_b, x->b), c = gp_shape_of(x->rank_c, x->c);
    int64_t sides[3][2] = {{ta ? K : M, ta ? M : K}, {tb ? N : K, tb ? K : N}, {M, N}};
    gp_shape *shapes[3] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        memcpy(shapes[i]->dims + shapes[i]->rank, sides[i], sizeof sides[i]);
        shapes[i]->rank += 2;
    }
    operands o = prepare((gp_type){s->dtype, a}, (gp_type){s->dtype, b}, ABSENT, (gp_type){s->dtype, c});
    int64_t batch = gp_shape_elements(c) / (M * N);
    for (int64_t i = 0; i < batch; i++) {
        int64_t at[2] = {0, 0}, rest = i, stride[2] = {1, 1};
        for (int d = 1; d <= x->rank_c; d++) { /* from the last leading dimension on */
            int64_t size = x->c[x->rank_c - d], index = rest % size;
            rest /= size;
            int64_t size_a = d <= x->rank_a ? x->a[x->rank_a - d] : 1,
                    size_b = d <= x->rank_b ? x->b[x->rank_b - d] : 1;
            at[0] += (size_a == 1 ? 0 : index) * stride[0];
            at[1] += (size_b == 1 ? 0 : index) * stride[1];
            stride[0] *= size_a;
            stride[1] *= size_b;
        }
        multiply(o.a + at[0] * M * K, ta, o.b + at[1] * K * N, tb, o.truth + i * M * N, o.magnitude + i * M * N, M, N,
                 K);
    }
    setting plain = *s;
    plain.packed = false;
    run_and_check(&o, GP_OP_MATMUL, &(gp_matmul_options){ta, tb}, 2, 0, &plain);
    finish(&o);
}

static void test_matmul(void **state) {
    (void)state;
    static const batched cases[] = {
        {0, 0, 0, {0}, {0}, {0}},          {2, 2, 2, {2, 3}, {2, 3}, {2, 3}},
        {2, 2, 2, {2, 1}, {1, 3}, {2, 3}}, {1, 3, 3, {3}, {2, 2, 1}, {2, 2, 3}},
        {2, 0, 2, {2, 5}, {0}, {2, 5}},    {0, 1, 1, {0}, {5}, {5}},
    };
    for (int i = 0; i < SETTINGS; i++) {
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            for (int t = 0; t < 4; t++) {
                matmul(&cases[c], t & 1, t & 2, &settings[i]);
            }
        }
    }
}

/* The same bits wherever the operands lie. */
static void test_same_bits(void **state) {
    (void)state;
    enum { ROWS = 37, N = 65, K = 129, SHIFT = 16 /* 64 bytes, as memory of devices is aligned */ };
    gp_type x = TYPE(GP_F32, ROWS, K), w = TYPE(GP_F32, N, K), y = TYPE(GP_F32, ROWS, N);
    gp_device *device = device_for(&settings[0]);
    float *values = filled(x, "x"), *weight = filled(w, "w"), *first = filled(y, "y"), *result = filled(y, "y");
    float *room = gp_allocate((ROWS * K + 8 * SHIFT) * sizeof *room);
    assert_non_null(room);
    gp_type inputs[] = {x, w, ABSENT};
    gp_kernel_desc desc = {.id = GP_OP_LINEAR, .inputs = inputs, .outputs = &y, .input_count = 3, .output_count = 1};
    for (size_t shift = 0; shift < 8; shift++) {
        float *place = room + shift * SHIFT;
        memcpy(place, values, gp_type_bytes(x));
        const void *given[] = {place, weight, NULL};
        kernel_run(device, &desc, given, (void *[]){shift ? result : first}, &(gp_run){0}, false);
        if (shift) assert_memory_equal(result, first, gp_type_bytes(y));
    }
    gp_free(room);
    gp_free(values);
    gp_free(weight);
    gp_free(first);
    gp_free(result);
    gp_device_destroy(device);
}

/* The route of processors with AMX is taken where it is asked for, and equal layouts have equal keys. */
static void test_forms(void **state) {
    (void)state;
    gp_type w = TYPE(GP_F32, 96, 64), x = TYPE(GP_BF16, 32, 64), y = TYPE(GP_BF16, 32, 96);
    gp_type forward[] = {x, w, ABSENT}, backward[] = {y, w};
    gp_kernel_desc descs[] = {
        {.id = GP_OP_LINEAR, .inputs = forward, .outputs = &y, .input_count = 3, .output_count = 1},
        {.id = GP_OP_LINEAR, .inputs = forward, .outputs = &y, .input_count = 3, .output_count = 1},
        {.id = GP_OP_LINEAR_INPUT_GRADIENT, .inputs = backward, .outputs = &x, .input_count = 2, .output_count = 1},
    };
    gp_kernel *kernels[3];
    gp_device *device = device_for(&(setting){GP_BF16, true, true, 1});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(device->class->kernel_create(device, &descs[i], &kernels[i]), GP_OK);
        assert_non_null(kernels[i]->forms[1]);
        assert_null(kernels[i]->forms[0]);
        assert_true(kernels[i]->forms[1]->bytes >= 96 * 64 * 2);
    }
    assert_string_equal(kernels[0]->forms[1]->key, kernels[1]->forms[1]->key);
    assert_string_not_equal(kernels[0]->forms[1]->key, kernels[2]->forms[1]->key);
    for (int i = 0; i < 3; i++) {
        kernels[i]->destroy(kernels[i]);
    }
    gp_device_destroy(device);
}

static void test_wrong_types(void **state) {
    (void)state;
    gp_device *device = device_for(&settings[0]);
    gp_type inputs[] = {TYPE(GP_F32, 4, 8), TYPE(GP_F32, 5, 9), ABSENT}, output = TYPE(GP_F32, 4, 5);
    gp_kernel_desc desc = {
        .id = GP_OP_LINEAR, .inputs = inputs, .outputs = &output, .input_count = 3, .output_count = 1};
    gp_kernel *kernel = NULL;
    assert_int_equal(device->class->kernel_create(device, &desc, &kernel), GP_INVALID);
    assert_null(kernel);
    assert_non_null(strstr(gp_error_message(), "linear"));
    inputs[0].dtype = GP_I32;
    assert_int_equal(device->class->kernel_create(device, &desc, &kernel), GP_INVALID);
    gp_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),          cmocka_unit_test(test_input_gradient),
        cmocka_unit_test(test_weight_gradient), cmocka_unit_test(test_several_tiles),
        cmocka_unit_test(test_matmul),          cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_forms),           cmocka_unit_test(test_wrong_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
