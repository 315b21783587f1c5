/* What every device must do besides running kernels: memory and its limit, transfers, sums, updates. */
#include <math.h>
#include <string.h>

#include "suite.h"

static const int64_t COUNTS[] = {0, 1, 7, 64, 1000, 40001};

/* ---- memory ---- */

static void check_memory(gp_device *device) {
    size_t before = device->used;
    void *first = NULL, *second = NULL;
    assert_ok(gp_device_allocate(device, 1000, &first));
    assert_int_equal(device->used, before + 1024);
    assert_ok(gp_device_allocate(device, 64, &second));
    assert_true((uintptr_t)first % 64 == 0 && (uintptr_t)second % 64 == 0 && first != second);
    gp_type type = {GP_U8, SHAPE(1000)};
    unsigned char host[1000];
    memset(host, 7, sizeof host);
    device->class->download(device, host, first, type);
    for (size_t i = 0; i < sizeof host; i++) {
        assert_int_equal(host[i], 0);
    }
    gp_device_release(device, first, 1000);
    gp_device_release(device, second, 64);
    gp_device_release(device, NULL, 64);
    assert_int_equal(device->used, before);
    assert_true(device->high_water >= before + 1088);
}

static void check_limit(gp_device *device) {
    size_t limit = device->limit;
    void *memory = NULL, *more = NULL;
    device->limit = device->used + 1024;
    assert_ok(gp_device_allocate(device, 1000, &memory));
    assert_int_equal(gp_device_allocate(device, 1, &more), GP_DOES_NOT_FIT);
    assert_null(more);
    assert_non_null(strstr(gp_error_message(), "1 B"));
    assert_int_equal(gp_device_allocate(device, SIZE_MAX, &more), GP_DOES_NOT_FIT);
    gp_device_release(device, memory, 1000);
    assert_ok(gp_device_allocate(device, 1024, &memory));
    gp_device_release(device, memory, 1024);
    device->limit = limit;
}

static void check_failing_allocation(gp_device *device) {
    void *memory = NULL;
    size_t used = device->used;
    gp_allocation_fail_at(1);
    gp_status status = gp_device_allocate(device, 100, &memory);
    gp_allocation_fail_at(0);
    assert_int_equal(status, GP_OUT_OF_MEMORY);
    assert_int_equal(device->used, used);
}

/* ---- transfers ---- */

static void check_round_trip(gp_device *device, gp_dtype dtype, int64_t count) {
    gp_type type = {dtype, SHAPE(count)};
    size_t host_bytes = gp_type_bytes(type), bytes = device->class->bytes(type);
    assert_true(bytes >= host_bytes);
    unsigned char *there = gp_allocate(host_bytes), *back = gp_allocate(host_bytes);
    void *memory = NULL, *copy = NULL;
    assert_ok(gp_device_allocate(device, bytes, &memory));
    assert_ok(gp_device_allocate(device, bytes, &copy));
    for (int64_t i = 0; i < count; i++) {
        double value = (double)(i % 100);
        gp_convert(there + (size_t)i * gp_dtype_bytes(dtype), dtype, &value, GP_F64, 1);
    }
    device->class->upload(device, memory, there, type);
    device->class->copy(device, copy, memory, bytes);
    device->class->zero(device, memory, bytes);
    device->class->download(device, back, copy, type);
    assert_memory_equal(there, back, host_bytes);
    device->class->download(device, back, memory, type);
    for (size_t i = 0; i < host_bytes; i++) {
        assert_int_equal(back[i], 0);
    }
    gp_device_release(device, memory, bytes);
    gp_device_release(device, copy, bytes);
    gp_free(there);
    gp_free(back);
}

/* ---- f32 arrays ---- */

/* An f32 array on the device and the same numbers on the host. */
typedef struct array {
    gp_type type;
    void *memory;
    double *values;
} array;

static array array_create(gp_device *device, int64_t count, const char *name) {
    array a = {.type = {GP_F32, SHAPE(count)}, .values = gp_allocate((size_t)count * sizeof(double))};
    float *host = gp_allocate((size_t)count * sizeof *host);
    assert_true(a.values && host);
    gp_random_fill_uniform(host, count, 4, name);
    gp_convert(a.values, GP_F64, host, GP_F32, (size_t)count);
    assert_ok(gp_device_allocate(device, device->class->bytes(a.type), &a.memory));
    device->class->upload(device, a.memory, host, a.type);
    gp_free(host);
    return a;
}

static void array_destroy(gp_device *device, array *a) {
    gp_device_release(device, a->memory, device->class->bytes(a->type));
    gp_free(a->values);
}

/* Fails unless the device's array is the host's, relative to its norm. */
static void check_equal(gp_device *device, const array *a, double tolerance, const char *what) {
    int64_t count = gp_shape_elements(a->type.shape);
    float *host = gp_allocate((size_t)count * sizeof *host);
    assert_non_null(host);
    device->class->download(device, host, a->memory, a->type);
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)host[i] - a->values[i]) * ((double)host[i] - a->values[i]);
        norm += a->values[i] * a->values[i];
    }
    gp_free(host);
    if (!(sqrt(error) <= tolerance * sqrt(norm))) fail_msg("%s: %g away", what, sqrt(error / norm));
}

static void check_sums(gp_device *device, int64_t count) {
    array a = array_create(device, count, "a"), b = array_create(device, count, "b"),
          c = array_create(device, count, "c");
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
        squares += a.values[i] * a.values[i];
        b.values[i] = (a.values[i] + b.values[i]) + c.values[i];
    }
    double got = device->class->sum_squares(device, a.memory, count);
    assert_true(fabs(got - squares) <= 1e-12 * squares);
    assert_true(got == device->class->sum_squares(device, a.memory, count));
    device->class->ordered_sum(device, b.memory, (const void *const[]){a.memory, b.memory, c.memory}, 3, count);
    check_equal(device, &b, 1e-6, "ordered_sum");
    device->class->ordered_sum(device, c.memory, (const void *const[]){a.memory}, 1, count);
    memcpy(c.values, a.values, (size_t)count * sizeof *a.values);
    check_equal(device, &c, 0.0, "ordered_sum of one");
    array_destroy(device, &a);
    array_destroy(device, &b);
    array_destroy(device, &c);
}

static void check_moving_average(gp_device *device, int64_t count) {
    static const double DECAYS[] = {0.0, 0.997, 1.0};
    for (size_t d = 0; d < COUNT(DECAYS); d++) {
        array a = array_create(device, count, "a"), b = array_create(device, count, "b");
        for (int64_t i = 0; i < count; i++) {
            a.values[i] = DECAYS[d] * a.values[i] + (1.0 - DECAYS[d]) * b.values[i];
        }
        device->class->moving_average(device, a.memory, b.memory, DECAYS[d], count);
        check_equal(device, &a, 1e-6, "moving_average");
        array_destroy(device, &a);
        array_destroy(device, &b);
    }
}

/* Sample number s of element i: numbers around a mean that is large for their spread. */
static double sample_of(int64_t i, int64_t s) {
    return 10.0 + sin((double)(i + 7 * s));
}

/* Sets every element to the moments of samples first .. first + count - 1. */
static void moments_of(int64_t first, int64_t count, array *mean, array *variance) {
    for (int64_t i = 0; i < gp_shape_elements(mean->type.shape); i++) {
        double sum = 0.0, squares = 0.0;
        for (int64_t s = first; s < first + count; s++) {
            sum += sample_of(i, s) / (double)count;
        }
        for (int64_t s = first; s < first + count; s++) {
            squares += (sample_of(i, s) - sum) * (sample_of(i, s) - sum);
        }
        mean->values[i] = sum;
        variance->values[i] = squares / (double)count;
    }
}

static void upload_values(gp_device *device, const array *a) {
    int64_t count = gp_shape_elements(a->type.shape);
    float *host = gp_allocate((size_t)count * sizeof *host);
    assert_non_null(host);
    gp_convert(host, GP_F32, a->values, GP_F64, (size_t)count);
    device->class->upload(device, a->memory, host, a->type);
    gp_free(host);
}

/* The moments of groups of samples, merged one after the other, are those of all samples. */
static void check_merge_moments(gp_device *device, int64_t count) {
    static const int64_t WEIGHTS[] = {3, 1, 2, 2};
    array mean = array_create(device, count, "old"), variance = array_create(device, count, "older");
    int64_t total = 0;
    for (size_t g = 0; g < COUNT(WEIGHTS); g++) {
        array m = array_create(device, count, "m"), v = array_create(device, count, "v");
        moments_of(total, WEIGHTS[g], &m, &v);
        upload_values(device, &m);
        upload_values(device, &v);
        device->class->merge_moments(device, mean.memory, variance.memory, (double)total, m.memory, v.memory,
                                     (double)WEIGHTS[g], count);
        total += WEIGHTS[g];
        array_destroy(device, &m);
        array_destroy(device, &v);
    }
    moments_of(0, total, &mean, &variance);
    check_equal(device, &mean, 1e-6, "mean of merge_moments");
    check_equal(device, &variance, 3e-6, "variance of merge_moments");
    array_destroy(device, &mean);
    array_destroy(device, &variance);
}

/* Squares that f32 cannot hold. */
static void check_large_squares(gp_device *device) {
    float host[100];
    for (size_t i = 0; i < COUNT(host); i++) {
        host[i] = i % 2 ? 1e-30f : 3e30f;
    }
    gp_type type = {GP_F32, SHAPE(COUNT(host))};
    void *memory = NULL;
    assert_ok(gp_device_allocate(device, device->class->bytes(type), &memory));
    device->class->upload(device, memory, host, type);
    double want = 50.0 * (double)3e30f * (double)3e30f;
    assert_true(fabs(device->class->sum_squares(device, memory, COUNT(host)) - want) <= 1e-12 * want);
    device->class->zero(device, memory, device->class->bytes(type));
    host[0] = 1e-30f;
    device->class->upload(device, memory, host, (gp_type){GP_F32, SHAPE(1)});
    want = (double)1e-30f * (double)1e-30f;
    assert_true(fabs(device->class->sum_squares(device, memory, COUNT(host)) - want) <= 1e-12 * want);
    gp_device_release(device, memory, device->class->bytes(type));
}

static void check_finite(gp_device *device, gp_dtype dtype, int64_t count) {
    static const double BAD[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    gp_type type = {dtype, SHAPE(count)};
    unsigned char *host = gp_allocate(gp_type_bytes(type));
    void *memory = NULL;
    assert_non_null(host);
    assert_ok(gp_device_allocate(device, device->class->bytes(type), &memory));
    device->class->upload(device, memory, host, type);
    assert_true(device->class->all_finite(device, memory, type));
    for (size_t b = 0; b < COUNT(BAD) && gp_dtype_is_float(dtype); b++) {
        for (int64_t at = 0; at<count; at += count> 100 ? count / 3 : 1) {
            unsigned char *element = host + (size_t)at * gp_dtype_bytes(dtype);
            gp_convert(element, dtype, &BAD[b], GP_F64, 1);
            device->class->upload(device, memory, host, type);
            assert_false(device->class->all_finite(device, memory, type));
            memset(element, 0, gp_dtype_bytes(dtype));
        }
    }
    gp_device_release(device, memory, device->class->bytes(type));
    gp_free(host);
}

/* ---- updates ---- */

/* One element by the formulas of device.h. */
static void update_one(const gp_update *u, double *w, double *g, double *m, double *v) {
    double gradient = u->gradient_scale * *g;
    if (u->kind == GP_UPDATE_ADAMW) {
        *w -= u->lr * u->weight_decay * *w;
    } else {
        gradient += u->weight_decay * *w;
    }
    *g = 0.0;
    if (u->kind == GP_UPDATE_SGD) {
        double step = gradient;
        if (m) *m = u->first ? gradient : u->momentum * *m + gradient;
        if (m) step = u->nesterov ? gradient + u->momentum * *m : *m;
        *w -= u->lr * step;
        return;
    }
    if (u->kind == GP_UPDATE_RMSPROP) {
        *m = u->beta2 * (u->epsilon_inside && u->first ? 1.0 : *m) + (1.0 - u->beta2) * gradient * gradient;
        double root = u->epsilon_inside ? sqrt(*m + u->epsilon) : sqrt(*m) + u->epsilon;
        double step = gradient / root * (u->epsilon_inside ? u->lr : 1.0);
        if (v) step = *v = u->momentum * *v + step;
        *w -= step * (u->epsilon_inside ? 1.0 : u->lr);
        return;
    }
    *m = u->beta1 * *m + (1.0 - u->beta1) * gradient;
    *v = u->beta2 * *v + (1.0 - u->beta2) * gradient * gradient;
    *w -= u->lr * (*m / u->correction1) / (sqrt(*v / u->correction2) + u->epsilon);
}

static void check_update(gp_device *device, gp_update u, int64_t count) {
    array w = array_create(device, count, "w"), m = array_create(device, count, "m"),
          v = array_create(device, count, "v");
    int states = gp_update_states(u.kind, u.momentum);
    for (int64_t i = 0; i < count; i++) {
        m.values[i] = v.values[i] = 0.0;
    }
    device->class->zero(device, m.memory, device->class->bytes(m.type));
    device->class->zero(device, v.memory, device->class->bytes(v.type));
    for (int step = 1; step <= 5; step++) {
        array g = array_create(device, count, step % 2 ? "g1" : "g2");
        u.first = step == 1;
        u.correction1 = 1.0 - pow(u.beta1, step);
        u.correction2 = 1.0 - pow(u.beta2, step);
        device->class->update(device, &u, w.memory, g.memory, states > 0 ? m.memory : NULL,
                              states > 1 ? v.memory : NULL, count);
        for (int64_t i = 0; i < count; i++) {
            update_one(&u, &w.values[i], &g.values[i], states > 0 ? &m.values[i] : NULL,
                       states > 1 ? &v.values[i] : NULL);
        }
        check_equal(device, &g, 0.0, "gradient after an update");
        array_destroy(device, &g);
    }
    check_equal(device, &w, 1e-6, "weight after updates");
    check_equal(device, &m, 1e-6, "first moment");
    check_equal(device, &v, 1e-6, "second moment");
    array_destroy(device, &w);
    array_destroy(device, &m);
    array_destroy(device, &v);
}

static void check_updates(gp_device *device, int64_t count) {
    static const gp_update UPDATES[] = {
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .gradient_scale = 1.0},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .weight_decay = 0.1, .gradient_scale = 0.5},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .gradient_scale = 0.5},
        {.kind = GP_UPDATE_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .gradient_scale = 2.0},
        {.kind = GP_UPDATE_RMSPROP,
         .lr = 0.01,
         .beta2 = 0.9,
         .epsilon = 0.1,
         .weight_decay = 0.1,
         .gradient_scale = 0.5},
        {.kind = GP_UPDATE_RMSPROP, .lr = 0.01, .beta2 = 0.9, .epsilon = 0.1, .momentum = 0.9, .gradient_scale = 1.0},
        {.kind = GP_UPDATE_RMSPROP,
         .lr = 0.01,
         .beta2 = 0.9,
         .epsilon = 0.1,
         .gradient_scale = 1.0,
         .epsilon_inside = true},
        {.kind = GP_UPDATE_RMSPROP,
         .lr = 0.01,
         .beta2 = 0.9,
         .epsilon = 0.1,
         .momentum = 0.9,
         .weight_decay = 0.1,
         .gradient_scale = 0.5,
         .epsilon_inside = true},
        {.kind = GP_UPDATE_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .gradient_scale = 1.0},
        {.kind = GP_UPDATE_ADAM,
         .lr = 0.01,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-6,
         .weight_decay = 0.1,
         .gradient_scale = 0.3},
        {.kind = GP_UPDATE_ADAMW,
         .lr = 0.01,
         .beta1 = 0.8,
         .beta2 = 0.95,
         .epsilon = 1e-8,
         .weight_decay = 0.1,
         .gradient_scale = 0.3},
    };
    for (size_t i = 0; i < COUNT(UPDATES); i++) {
        check_update(device, UPDATES[i], count);
    }
}

void check_arrays(gp_device *device) {
    static const gp_dtype DTYPES[] = {GP_F32, GP_BF16, GP_F16, GP_F64, GP_I32, GP_I64, GP_U8};
    assert_ok(device->class->enter(device));
    check_memory(device);
    check_limit(device);
    check_failing_allocation(device);
    check_large_squares(device);
    for (size_t c = 0; c < COUNT(COUNTS); c++) {
        for (size_t d = 0; d < COUNT(DTYPES); d++) {
            check_round_trip(device, DTYPES[d], COUNTS[c]);
            check_finite(device, DTYPES[d], COUNTS[c]);
        }
        check_sums(device, COUNTS[c]);
        check_moving_average(device, COUNTS[c]);
        check_merge_moments(device, COUNTS[c]);
        check_updates(device, COUNTS[c]);
    }
}
