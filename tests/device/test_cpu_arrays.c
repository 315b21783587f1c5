/* What the CPU device does with whole arrays: optimizer updates, sums of squares, ordered sums, the search for NaN; and
 * its memory. Against the formulas in double, with each instruction set and with several threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cpu_check.h"

enum { COUNT = 50021, STEPS = 4 };

/* ---- updates ---- */

static gp_update current; /* what check_update is run with */

typedef struct state_arrays {
    operand w, g, m, v;
} state_arrays;

/* One step of the formulas in gp_update's comment. */
static void expected_step(const gp_update *u, state_arrays *s) {
    for (int64_t i = 0; i < COUNT; i++) {
        double *w = &s->w.values[i], *m = &s->m.values[i], *v = &s->v.values[i];
        double g = u->gradient_scale * s->g.values[i];
        if (u->kind != GP_UPDATE_ADAMW) g += u->weight_decay * *w;
        if (u->kind == GP_UPDATE_SGD) {
            *m = u->first ? g : u->momentum * *m + g;
            *w -= u->lr * (u->momentum == 0 ? g : u->nesterov ? g + u->momentum * *m : *m);
            continue;
        }
        if (u->kind == GP_UPDATE_ADAMW) *w -= u->lr * u->weight_decay * *w;
        *m = u->beta1 * *m + (1 - u->beta1) * g;
        *v = u->beta2 * *v + (1 - u->beta2) * g * g;
        *w -= u->lr * (*m / u->correction1) / (sqrt(*v / u->correction2) + u->epsilon);
    }
}

static void assert_close(const operand *array, double accepted) {
    double *got = gp_allocate_array(COUNT, sizeof *got);
    gp_convert(got, GP_F64, array->data, GP_F32, COUNT);
    double error = distance(got, array->values, COUNT);
    if (!(error <= accepted)) fail_msg("update of kind %d is %g off", (int)current.kind, error);
    gp_free(got);
}

static void check_update(gp_device *device, const char *table) {
    (void)table;
    dims shape = {1, {COUNT}};
    state_arrays s = {operand_of(GP_F32, shape, -1, 1), operand_of(GP_F32, shape, -1, 1), operand_zero(GP_F32, shape),
                      operand_zero(GP_F32, shape)};
    int states = current.kind != GP_UPDATE_SGD ? 2 : current.momentum != 0 ? 1 : 0;
    for (int step = 1; step <= STEPS; step++) {
        gp_update u = current;
        u.first = step == 1;
        u.correction1 = 1 - pow(u.beta1, step);
        u.correction2 = 1 - pow(u.beta2, step);
        if (step > 1) gp_convert(s.g.data, GP_F32, s.g.values, GP_F64, COUNT);
        expected_step(&u, &s);
        device->class->update(device, &u, s.w.data, s.g.data, states > 0 ? s.m.data : NULL,
                              states > 1 ? s.v.data : NULL, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            assert_true(((const float *)s.g.data)[i] == 0.0f);
        }
    }
    assert_close(&s.w, 2e-6);
    if (states > 0) assert_close(&s.m, 2e-6);
    if (states > 1) assert_close(&s.v, 2e-6);
    operand_free(&s.w);
    operand_free(&s.g);
    operand_free(&s.m);
    operand_free(&s.v);
}

static void test_updates(void **state) {
    (void)state;
    static const gp_update UPDATES[] = {
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .gradient_scale = 0.5},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .weight_decay = 0.1, .gradient_scale = 1},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .momentum = 0.9, .gradient_scale = 0.5},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1, .gradient_scale = 1},
        {.kind = GP_UPDATE_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .gradient_scale = 0.5},
        {.kind = GP_UPDATE_ADAM,
         .lr = 0.01,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-8,
         .weight_decay = 0.1,
         .gradient_scale = 1},
        {.kind = GP_UPDATE_ADAMW,
         .lr = 0.01,
         .beta1 = 0.9,
         .beta2 = 0.95,
         .epsilon = 1e-8,
         .weight_decay = 0.1,
         .gradient_scale = 0.25},
    };
    for (size_t i = 0; i < sizeof UPDATES / sizeof *UPDATES; i++) {
        current = UPDATES[i];
        for_each_device(check_update);
    }
}

/* The same bits whatever the number of threads. */
static void test_update_threads(void **state) {
    (void)state;
    gp_update update = {.kind = GP_UPDATE_ADAMW,
                        .lr = 0.01,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .weight_decay = 0.1,
                        .correction1 = 0.1,
                        .correction2 = 0.05,
                        .gradient_scale = 1};
    operand w = operand_of(GP_F32, (dims){1, {COUNT}}, -1, 1), g = operand_of(GP_F32, (dims){1, {COUNT}}, -1, 1);
    size_t bytes = gp_type_bytes(w.type);
    void *results[2];
    for (int t = 0; t < 2; t++) {
        gp_device *device = device_with(NULL, t ? 3 : 1);
        void *gradient = gp_allocate(bytes), *m = gp_allocate(bytes), *v = gp_allocate(bytes);
        results[t] = gp_allocate(bytes);
        memcpy(results[t], w.data, bytes);
        memcpy(gradient, g.data, bytes);
        device->class->update(device, &update, results[t], gradient, m, v, COUNT);
        gp_free(gradient);
        gp_free(m);
        gp_free(v);
        device->class->destroy(device);
    }
    assert_memory_equal(results[0], results[1], bytes);
    gp_free(results[0]);
    gp_free(results[1]);
    operand_free(&w);
    operand_free(&g);
}

/* ---- sums ---- */

static void check_sum_squares(gp_device *device, const char *table) {
    static const int64_t COUNTS[] = {0, 1, 31, 1025, 16384, 16385, COUNT};
    operand x = operand_of(GP_F32, (dims){1, {COUNT}}, -1, 1);
    gp_device *single = device_with(table, 1);
    for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++) {
        double want = 0;
        for (int64_t i = 0; i < COUNTS[c]; i++) {
            want += x.values[i] * x.values[i];
        }
        double got = device->class->sum_squares(device, x.data, COUNTS[c]);
        assert_true(fabs(got - want) <= 1e-6 * want);
        assert_true(got == single->class->sum_squares(single, x.data, COUNTS[c]));
    }
    single->class->destroy(single);
    operand_free(&x);
}

static void test_sum_squares(void **state) {
    (void)state;
    for_each_device(check_sum_squares);
}

/* In order, also where the destination is one of the sources. */
static void check_ordered_sum(gp_device *device, const char *table) {
    (void)table;
    for (int place = -1; place < 3; place++) {
        operand sources[3], result = operand_zero(GP_F32, (dims){1, {COUNT}});
        float *want = gp_allocate_array(COUNT, sizeof *want);
        const void *data[3];
        for (int s = 0; s < 3; s++) {
            sources[s] = operand_of(GP_F32, (dims){1, {COUNT}}, -1, 1);
            data[s] = sources[s].data;
            for (int64_t i = 0; i < COUNT; i++) {
                float value = ((const float *)sources[s].data)[i];
                want[i] = s == 0 ? value : want[i] + value;
            }
        }
        void *destination = place < 0 ? result.data : sources[place].data;
        device->class->ordered_sum(device, destination, data, 3, COUNT);
        assert_memory_equal(destination, want, COUNT * sizeof *want);
        for (int s = 0; s < 3; s++) {
            operand_free(&sources[s]);
        }
        operand_free(&result);
        gp_free(want);
    }
}

static void test_ordered_sum(void **state) {
    (void)state;
    for_each_device(check_ordered_sum);
}

/* Averages over time and of groups, with every instruction set. */
static void check_averages(gp_device *device, const char *table) {
    operand a[4];
    double error = 0.0;
    for (int i = 0; i < 4; i++) {
        a[i] = operand_of(GP_F32, (dims){1, {COUNT}}, 0.5, 1.0);
    }
    device->class->moving_average(device, a[0].data, a[1].data, 0.9, COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        double want = 0.9 * a[0].values[i] + 0.1 * a[1].values[i];
        error = fmax(error, fabs((double)((const float *)a[0].data)[i] - want));
        a[0].values[i] = (double)((const float *)a[0].data)[i];
    }
    device->class->merge_moments(device, a[0].data, a[2].data, 6, a[1].data, a[3].data, 2, COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        double delta = a[1].values[i] - a[0].values[i];
        double mean = (6 * a[0].values[i] + 2 * a[1].values[i]) / 8;
        double variance = (6 * a[2].values[i] + 2 * a[3].values[i] + delta * delta * 6 * 2 / 8) / 8;
        error = fmax(error, fabs((double)((const float *)a[0].data)[i] - mean));
        error = fmax(error, fabs((double)((const float *)a[2].data)[i] - variance));
    }
    if (!(error < 3e-7)) fail_msg("%s: averages are %g away", table, error);
    for (int i = 0; i < 4; i++) {
        operand_free(&a[i]);
    }
}

static void test_averages(void **state) {
    (void)state;
    for_each_device(check_averages);
}

/* ---- NaN and infinity ---- */

static void check_all_finite(gp_device *device, const char *table) {
    (void)table;
    static const gp_dtype DTYPES[] = {GP_F32, GP_BF16, GP_F16, GP_F64};
    static const double BAD[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const int64_t PLACES[] = {0, 63, 1024, 2998, 2999};
    for (int d = 0; d < 4; d++) {
        operand x = operand_of(DTYPES[d], (dims){1, {3000}}, -1000, 1000);
        assert_true(device->class->all_finite(device, x.data, x.type));
        for (int b = 0; b < 3; b++) {
            for (int p = 0; p < 5; p++) {
                double old = x.values[PLACES[p]];
                x.values[PLACES[p]] = BAD[b];
                operand_set(&x);
                assert_false(device->class->all_finite(device, x.data, x.type));
                x.values[PLACES[p]] = old;
                operand_set(&x);
            }
        }
        operand_free(&x);
    }
    int32_t integers[2] = {-1, 0x7FFFFFFF};
    assert_true(device->class->all_finite(device, integers, (gp_type){GP_I32, gp_shape_of(1, (int64_t[]){2})}));
}

static void test_all_finite(void **state) {
    (void)state;
    for_each_device(check_all_finite);
}

/* ---- memory and the device itself ---- */

static void test_memory(void **state) {
    (void)state;
    gp_device *device = device_with(NULL, 1);
    gp_type type = {GP_BF16, gp_shape_of(2, (int64_t[]){3, 5})};
    assert_int_equal(device->class->bytes(type), 30);
    static const size_t SIZES[] = {1, 4096, (size_t)5 << 20};
    for (int i = 0; i < 3; i++) {
        unsigned char *memory = device->class->allocate(device, SIZES[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t b = 0; b<SIZES[i]; b += SIZES[i]> 4096 ? 511 : 1) {
            assert_int_equal(memory[b], 0);
        }
        device->class->release(device, memory, SIZES[i]);
    }
    uint16_t source[15], back[15] = {0};
    for (int i = 0; i < 15; i++) {
        source[i] = (uint16_t)(i * 77);
    }
    void *memory = device->class->allocate(device, 30);
    device->class->upload(device, memory, source, type);
    device->class->download(device, back, memory, type);
    assert_memory_equal(source, back, 30);
    device->class->zero(device, memory, 30);
    device->class->download(device, back, memory, type);
    assert_int_equal(back[14], 0);
    device->class->release(device, memory, 30);
    device->class->destroy(device);
}

static void test_create(void **state) {
    (void)state;
    gp_device *device = NULL;
    gp_device_options options = {.threads = -2};
    assert_int_equal(gp_device_create_cpu(&device, &options), GP_INVALID);
    assert_null(device);
    gp_allocation_fail_at(1);
    assert_int_equal(gp_device_create_cpu(&device, NULL), GP_OUT_OF_MEMORY);
    assert_int_equal(gp_device_create_cpu(&device, NULL), GP_OK);
    assert_int_equal(device->threads, 1);
    assert_string_equal(device->class->name, "cpu");
    device->class->destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates),     cmocka_unit_test(test_update_threads), cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_ordered_sum), cmocka_unit_test(test_averages),       cmocka_unit_test(test_all_finite),
        cmocka_unit_test(test_memory),      cmocka_unit_test(test_create),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
