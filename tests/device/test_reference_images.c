/* Image operations of the reference device, which everything else is checked against, against what PyTorch 1.13
 * computes (tests/interop/make_images.py prints the numbers). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/status.h"
#include "program/program.h"

#define SHAPE(...) gp_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != GP_OK) fail_msg("%s: %s", #call, gp_error_message());                                            \
    } while (0)

enum { MOST_INPUTS = 5 };

/* A graph on the reference device whose inputs are filled with numbers that floating point holds exactly. */
typedef struct fixture {
    gp_graph *graph;
    gp_device *device;
    gp_placement places[MOST_INPUTS];
    double *data[MOST_INPUTS + 1];
    size_t count;
} fixture;

static int begin(void **state) {
    static fixture f;
    f = (fixture){0};
    *state = &f;
    assert_ok(gp_graph_create(&f.graph, true));
    assert_ok(gp_device_create_reference(&f.device, NULL));
    return 0;
}

static int end(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < f->count; i++)
        gp_free(f->data[i]);
    gp_graph_destroy(f->graph);
    gp_device_destroy(f->device);
    return 0;
}

static double number(int64_t i, int salt) {
    return (double)((7 * i + 3 * salt) % 11 - 5) / 4;
}

static gp_value numbers(fixture *f, gp_shape shape, int salt) {
    gp_value value = gp_graph_input(f->graph, (gp_type){GP_F32, shape});
    int64_t count = gp_shape_elements(shape);
    double *data = gp_allocate_array((size_t)count, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = number(i, salt);
    f->places[f->count] = (gp_placement){.value = value.index, .region = (int)f->count + 1};
    f->data[f->count++] = data;
    return value;
}

static gp_value image(fixture *f, int64_t n, int64_t h, int64_t w, int64_t c) {
    return numbers(f, SHAPE(n, h, w, c), 1);
}

/* Computes the value and compares it with the numbers that are expected. */
static void check(fixture *f, gp_value y, const double *expected, size_t count) {
    double results[128] = {0};
    void *regions[MOST_INPUTS + 2] = {NULL};
    gp_placement wanted = {.value = y.index, .region = (int)f->count + 1};
    gp_program_desc desc = {.graph = f->graph,
                            .device = f->device,
                            .available = f->places,
                            .available_count = f->count,
                            .wanted = &wanted,
                            .wanted_count = 1};
    gp_program *program;
    assert_ok(gp_graph_status(f->graph));
    assert_int_equal(gp_shape_elements(gp_value_type(y).shape), count);
    assert_ok(gp_program_create(&program, &desc));
    for (size_t i = 0; i < f->count; i++)
        regions[i + 1] = f->data[i];
    regions[f->count + 1] = results;
    regions[0] = gp_allocate(gp_program_workspace(program));
    assert_ok(gp_program_run(program, 0, regions, &(gp_run){0}, NULL));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(results[i] - expected[i]) < 1e-10))
            fail_msg("number %zu is %.12g instead of %.12g", i, results[i], expected[i]);
    gp_free(regions[0]);
    gp_program_destroy(program);
}

#define CHECK(f, y, ...)                                                                                               \
    check(f, y, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* ---- convolution ---- */

static void convolution(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 1, 4, 5, 2), w = numbers(f, SHAPE(2, 2, 3, 3), 2), b = numbers(f, SHAPE(2), 3);
    CHECK(f, gp_convolution(x, w, b, NULL), 0.625, 0.6875, -0.0625, -1.6875, -0.0625, 0.75, 2.6875, -5.6875, -0.0625,
          0.875, -0.0625, 3.3125);
}

static void convolution_uneven(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 1, 5, 6, 4), w = numbers(f, SHAPE(4, 2, 3, 2), 2);
    gp_convolution_options options = {.stride = {2, 3},
                                      .dilation = {1, 2},
                                      .groups = 2,
                                      .padding = GP_PADDING_EXPLICIT,
                                      .before = {1, 2},
                                      .after = {1, 2}};
    CHECK(f, gp_convolution(x, w, gp_none(), &options), -0.625, 2.5625, -1.25, 1, 2.5, -2.0625, 1.625, -2.0625, -1.5625,
          1, -1.125, 2.5625, 0.1875, -1.4375, -1.5, -1.4375, -2.125, -0.8125, 0.5625, -2.3125, 1.3125, -0.5625, 1.5625,
          -1.375, 0.4375, -1.9375, 0.875, -1.0625, 1.125, 2.625, 3.0625, 0.625, -0.5625, -0.8125, -1.125, 1.125);
}

static void convolution_depthwise(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 1, 3, 3, 3), w = numbers(f, SHAPE(6, 1, 2, 2), 2);
    CHECK(f, gp_convolution(x, w, gp_none(), &(gp_convolution_options){.groups = 3}), -0.8125, -1.3125, 0.8125, -0.1875,
          0.4375, 0.3125, 1.8125, -1.5625, 0.4375, 0, 0.5, 0.25, -0.5, 1.375, -0.3125, 0.375, 2, -1.9375, 0.0625,
          -0.9375, -0.6875, 0.5625, -1.375, -1.3125);
}

/* TensorFlow's SAME: with an even image and stride 2 the one row and column of padding are at the end. */
static void convolution_same(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 1, 4, 4, 1), w = numbers(f, SHAPE(1, 1, 3, 3), 2);
    gp_convolution_options options = {.stride = {2, 2}, .padding = GP_PADDING_SAME};
    CHECK(f, gp_convolution(x, w, gp_none(), &options), 0.3125, 0.375, 0.5625, -0.5);
}

static void convolution_1x7(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 1, 1, 8, 1), w = numbers(f, SHAPE(1, 1, 1, 7), 2);
    gp_convolution_options options = {.padding = GP_PADDING_SAME};
    CHECK(f, gp_convolution(x, w, gp_none(), &options), -0.875, -1.5625, 3.125, -1.5625, -1.5625, 3.1875, -1.6875,
          -0.75);
}

/* ---- pooling ---- */

static const gp_pool_options overlapping = {
    .kernel = {3, 3}, .stride = {2, 2}, .padding = GP_PADDING_EXPLICIT, .before = {1, 1}, .after = {1, 1}};

static void max_pool(void **state) {
    fixture *f = *state;
    CHECK(f, gp_max_pool(image(f, 1, 5, 5, 2), &overlapping), 1.25, 1.25, 1.25, 1, 0.75, 0.75, 1.25, 1.25, 1.25, 1.25,
          1, 1, 0.75, 0.5, 1.25, 1.25, 1, 1);
}

static void max_pool_ceil(void **state) {
    fixture *f = *state;
    gp_pool_options options = {.kernel = {2, 2}, .stride = {3, 3}, .ceil = true};
    CHECK(f, gp_max_pool(image(f, 1, 5, 6, 1), &options), 1.25, 1, 0.75, 0.5);
}

static void average_pool(void **state) {
    fixture *f = *state;
    CHECK(f, gp_average_pool(image(f, 1, 5, 5, 2), &overlapping), 0.375, 0.0625, 0.125, 1.0 / 24, -0.125, -0.4375,
          1.0 / 24, -1.0 / 24, 0.25, 1.0 / 6, 0, -1.0 / 12, -0.0625, -0.375, -1.0 / 12, 7.0 / 24, 0.125, -0.1875);
}

static void average_pool_ceil(void **state) {
    fixture *f = *state;
    CHECK(f, gp_average_pool(image(f, 1, 5, 5, 1), &(gp_pool_options){.kernel = {2, 2}, .ceil = true}), -0.0625, 0,
          -0.125, 0.25, 0.3125, -0.5, -0.375, 0.375, 0.25);
}

static void global_average_pool(void **state) {
    fixture *f = *state;
    CHECK(f, gp_global_average_pool(image(f, 2, 2, 3, 2)), 0, -1.0 / 12, -1.0 / 12, 7.0 / 24);
}

/* ---- pixels ---- */

static void pixel_shift(void **state) {
    fixture *f = *state;
    CHECK(f, gp_pixel_shift(image(f, 1, 3, 3, 1), 1, 1), 1, 0, 0, 0.75, -0.25, 0, 0, 0, 0);
}

static void upsample(void **state) {
    fixture *f = *state;
    CHECK(f, gp_upsample(image(f, 1, 2, 2, 2), 2, 3), -0.5, 1.25, -0.5, 1.25, -0.5, 1.25, 0.25, -0.75, 0.25, -0.75,
          0.25, -0.75, -0.5, 1.25, -0.5, 1.25, -0.5, 1.25, 0.25, -0.75, 0.25, -0.75, 0.25, -0.75, 1, 0, 1, 0, 1, 0, -1,
          0.75, -1, 0.75, -1, 0.75, 1, 0, 1, 0, 1, 0, -1, 0.75, -1, 0.75, -1, 0.75);
}

/* ---- batch norm ---- */

static void batch_norm(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 2, 2, 2, 3), w = numbers(f, SHAPE(3), 4), b = numbers(f, SHAPE(3), 5), mean, variance;
    gp_value y = gp_batch_norm(x, w, b, &(gp_batch_norm_options){.epsilon = 1e-3}, &mean, &variance);
    CHECK(f, mean, 0, 0.375, -0.28125);
    CHECK(f, variance, 0.84375, 0.328125, 0.5537109375);
    CHECK(f, y, 0.294008773844, -0.10609783922, 0.321677728694, 0.566013160766, -0.432927028014, 0.405594091662,
          0.838017547689, -0.759756216809, 0.489510454629, 1.11002193461, -1.0865854056, 0.573426817597, -1.61002193461,
          -1.4134145944, 0.657343180564, -1.33801754769, -1.74024378319, 0.741259543532, -1.06601316077, -2.06707297199,
          0.825175906499, -0.794008773844, -2.39390216078, -0.0139877231759);
}

static void batch_norm_inference(void **state) {
    fixture *f = *state;
    gp_value x = image(f, 2, 2, 2, 3), w = numbers(f, SHAPE(3), 4), b = numbers(f, SHAPE(3), 5);
    gp_value mean = numbers(f, SHAPE(3), 6), variance = numbers(f, SHAPE(3), 7);
    for (int i = 0; i < 3; i++)
        f->data[4][i] = fabs(f->data[4][i]) + 0.5;
    CHECK(f, gp_batch_norm_inference(x, w, b, mean, variance, &(gp_batch_norm_options){1e-3, true}), 0.505713058838,
          0.264535102893, 0.723517408661, 0.694641323548, 0.0481729453371, 0.779396760826, 0.883569588257, 0,
          0.835276112991, 1.07249785297, 0, 0.891155465156, 0, 0, 0.947034817322, 0, 0, 1.00291416949, 0, 0,
          1.05879352165, 0, 0, 0.5);
}

/* ---- what drops ---- */

/* Samples become zero or are scaled as a whole; the share that is dropped grows with the training, and is that of p. */
static void drop_path(void **state) {
    fixture *f = *state;
    enum { SAMPLES = 4000 };
    gp_drop_path_attributes attributes = {.p = 0.5, .use = 3, .scheduled = true};
    gp_type type = {GP_F32, SHAPE(SAMPLES, 2)};
    gp_kernel_desc desc = {.id = GP_OP_DROP_PATH,
                           .attributes = &attributes,
                           .op = gp_op_class_of(GP_OP_DROP_PATH),
                           .inputs = &type,
                           .outputs = &type,
                           .input_count = 1,
                           .output_count = 1};
    gp_kernel *kernel;
    static double x[SAMPLES * 2], y[SAMPLES * 2];
    for (int i = 0; i < SAMPLES * 2; i++)
        x[i] = 1;
    assert_ok(f->device->class->kernel_create(f->device, &desc, &kernel));
    for (int tenths = 0; tenths <= 10; tenths += 5) {
        double p = 0.05 * tenths, dropped = 0;
        const void *inputs[] = {x};
        void *outputs[] = {y};
        assert_ok(kernel->run(kernel, inputs, outputs, NULL, &(gp_run){.seed = 1, .progress = 0.1 * tenths}));
        for (int i = 0; i < SAMPLES; i++) {
            assert_true(y[2 * i] == y[2 * i + 1]);
            assert_true(y[2 * i] == 0 || fabs(y[2 * i] - 1 / (1 - p)) < 1e-12);
            dropped += y[2 * i] == 0;
        }
        assert_true(fabs(dropped / SAMPLES - p) < 0.03);
    }
    kernel->destroy(kernel);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(convolution),         TEST(convolution_uneven),   TEST(convolution_depthwise),
        TEST(convolution_same),    TEST(convolution_1x7),      TEST(max_pool),
        TEST(max_pool_ceil),       TEST(average_pool),         TEST(average_pool_ceil),
        TEST(global_average_pool), TEST(pixel_shift),          TEST(upsample),
        TEST(batch_norm),          TEST(batch_norm_inference), TEST(drop_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
