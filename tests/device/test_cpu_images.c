/* Image kernels of the CPU device made of loops, with every instruction set and number of threads, against the
 * reference device: the same bits whatever the threads, also where sums are made of several groups. Shapes of all kinds
 * are the conformance test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cpu_check.h"
#include "cpu_kernel_run.h"
#include "tensor/bf16.h"

/* Fills the expected values of the outputs from what the reference device computes. */
static void expect(kernel_case *test) {
    gp_device *device = NULL;
    gp_type types[2][GP_MAX_OPERANDS];
    void *inputs[GP_MAX_OPERANDS] = {NULL}, *outputs[GP_MAX_OPERANDS] = {NULL};
    assert_int_equal(gp_device_create_reference(&device, NULL), GP_OK);
    for (int i = 0; i < test->input_count; i++) {
        types[0][i] = test->inputs[i].type;
        inputs[i] = gp_allocate(device->class->bytes(types[0][i]));
        device->class->upload(device, inputs[i], test->inputs[i].data, types[0][i]);
    }
    gp_op_call call = {test->attributes, types[0], (size_t)test->input_count, NULL, (size_t)test->output_count};
    assert_int_equal(gp_op_class_of(test->id)->infer(&call, types[1]), GP_OK);
    for (int i = 0; i < test->output_count; i++) {
        dims shape = {types[1][i].shape.rank, {0}};
        memcpy(shape.size, types[1][i].shape.dims, sizeof types[1][i].shape.dims);
        test->outputs[i] = operand_zero(types[1][i].dtype, shape);
        outputs[i] = gp_allocate(device->class->bytes(types[1][i]));
    }
    gp_kernel_desc desc = {test->id, gp_op_class_of(test->id), test->attributes,   types[0],
                           types[1], test->input_count,        test->output_count, 0};
    gp_kernel *kernel = NULL;
    assert_int_equal(device->class->kernel_create(device, &desc, &kernel), GP_OK);
    void *workspace = gp_allocate(kernel->workspace);
    assert_int_equal(kernel->run(kernel, (const void *const *)inputs, outputs, workspace, &test->run), GP_OK);
    kernel->destroy(kernel);
    gp_free(workspace);
    for (int i = 0; i < test->output_count; i++) {
        size_t count = (size_t)operand_count(&test->outputs[i]);
        device->class->download(device, test->outputs[i].data, outputs[i], types[1][i]);
        gp_convert(test->outputs[i].values, GP_F64, test->outputs[i].data, types[1][i].dtype, count);
        gp_free(outputs[i]);
    }
    for (int i = 0; i < test->input_count; i++) {
        gp_free(inputs[i]);
    }
    gp_device_destroy(device);
}

static operand copy_of(const operand *x) {
    dims shape = {x->type.shape.rank, {0}};
    memcpy(shape.size, x->type.shape.dims, sizeof x->type.shape.dims);
    operand made = operand_zero(x->type.dtype, shape);
    memcpy(made.values, x->values, (size_t)operand_count(x) * sizeof *x->values);
    operand_set(&made);
    return made;
}

/* Keeps the outputs of a case as inputs of the next one, and frees the rest. */
static void check_and_keep(kernel_case test, operand *kept, int first) {
    expect(&test);
    for (int i = 0; kept && first + i < test.output_count; i++) {
        kept[i] = copy_of(&test.outputs[first + i]);
    }
    check_kernel(&test);
}

/* ---- batch norm ---- */

static void batch_norm(gp_dtype dtype, dims shape, bool relu) {
    gp_batch_norm_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.epsilon = 1e-3;
    attributes.relu = relu;
    dims n = {1, {shape.size[shape.rank - 1]}};
    operand x = operand_of(dtype, shape, -1, 3), dy = operand_of(dtype, shape, -1, 1);
    operand w = operand_of(GP_F32, n, -1, 1), b = operand_of(GP_F32, n, -1, 1), statistics[2], sums[2];
    check_and_keep((kernel_case){.id = GP_OP_BATCH_NORM,
                                 .attributes = &attributes,
                                 .inputs = {copy_of(&x), copy_of(&w), copy_of(&b)},
                                 .input_count = 3,
                                 .output_count = 3},
                   statistics, 1);
    const operand *all[] = {&dy, &x, &w, &b, &statistics[0], &statistics[1]};
    kernel_case gradient = {
        .id = GP_OP_BATCH_NORM_WEIGHT_GRADIENT, .attributes = &attributes, .input_count = 6, .output_count = 2};
    for (int i = 0; i < 6; i++) {
        gradient.inputs[i] = copy_of(all[i]);
    }
    check_and_keep(gradient, sums, 0);
    gradient.id = GP_OP_BATCH_NORM_GRADIENT;
    gradient.input_count = 8;
    gradient.output_count = 1;
    for (int i = 0; i < 6; i++) {
        gradient.inputs[i] = copy_of(all[i]);
    }
    gradient.inputs[6] = sums[0];
    gradient.inputs[7] = sums[1];
    check_and_keep(gradient, NULL, 0);
    operand *own[] = {&x, &dy, &w, &b, &statistics[0], &statistics[1]};
    for (int i = 0; i < 6; i++) {
        operand_free(own[i]);
    }
}

static void test_batch_norm(void **state) {
    (void)state;
    static const dims shapes[] = {
        {2, {9, 5}}, {4, {3, 31, 29, 24}}, {4, {2, 17, 16, 70}}, {3, {2, 20, 1500}}, {4, {2, 64, 65, 3}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int relu = 0; relu < 2; relu++) {
            batch_norm(GP_F32, shapes[i], relu);
            batch_norm(GP_BF16, shapes[i], relu);
        }
    }
}

/* Numbers at which instruction sets might differ. */
static const uint32_t specials[] = {
    0x7FC00000,             /* NaN */
    0xFF810000,             /* a signalling one, negative */
    0x7F800000, 0xFF800000, /* infinite */
    0x00000000, 0x80000000, /* zeros */
    0x00010000, 0x80010000, /* subnormal */
    0x7F7F0000,             /* the largest of bf16, which an offset makes infinite */
    0x3F810000, 0xBF810000,
};
enum { SPECIALS = sizeof specials / sizeof *specials, ROWS = 7, COLUMNS = 45, NUMBERS = ROWS * COLUMNS };
static const float offsets[] = {-0.0f, 9e35f, 0x1p-8f}; /* a tie where it is added to 1.0078125 */

/* y of an element by plain arithmetic, with mean 0 and deviation 1. */
static float plain(int i, bool relu) {
    float x = gp_f32_of_bits(specials[i % SPECIALS]), y = x + offsets[i % COLUMNS % 3];
    return relu && y < 0 ? 0 : y;
}

static void assert_same_number(gp_dtype dtype, const void *found, int i, float expected) {
    uint32_t bits = dtype == GP_BF16 ? ((const uint16_t *)found)[i] : ((const uint32_t *)found)[i];
    float value = dtype == GP_BF16 ? gp_bf16_to_f32((uint16_t)bits) : gp_f32_of_bits(bits);
    if (expected != expected)
        assert_true(value != value);
    else
        assert_int_equal(bits, dtype == GP_BF16 ? gp_bf16_of_f32(expected) : gp_f32_bits(expected));
}

static void run_inference(gp_device *device, gp_op_id id, gp_dtype dtype, bool relu, const void *const *inputs,
                          void *output) {
    gp_batch_norm_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.epsilon = 0.25;
    attributes.relu = relu;
    bool gradient = id != GP_OP_BATCH_NORM_INFERENCE;
    gp_type image = TYPE(dtype, ROWS, COLUMNS), channel = TYPE(GP_F32, COLUMNS);
    gp_type types[] = {image, image, channel, channel, channel, channel};
    gp_kernel_desc desc = {.id = id,
                           .op = gp_op_class_of(id),
                           .attributes = &attributes,
                           .inputs = gradient ? types : types + 1,
                           .outputs = &image,
                           .input_count = gradient ? 6 : 5,
                           .output_count = 1};
    gp_run run = {0};
    kernel_run(device, &desc, gradient ? inputs : inputs + 1, &output, &run, false);
}

static void check_specials(gp_device *device, const char *table) {
    (void)table;
    float w[COLUMNS], b[COLUMNS], mean[COLUMNS] = {0}, variance[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        w[c] = 1;
        b[c] = offsets[c % 3];
        variance[c] = 0.75f;
    }
    for (int kind = 0; kind < 4; kind++) {
        gp_dtype dtype = kind % 2 ? GP_BF16 : GP_F32;
        bool relu = kind / 2;
        float numbers[NUMBERS], ones[NUMBERS];
        char x[NUMBERS * 4], dy[NUMBERS * 4], y[NUMBERS * 4];
        for (int i = 0; i < NUMBERS; i++) {
            numbers[i] = gp_f32_of_bits(specials[i % SPECIALS]);
            ones[i] = 1;
        }
        gp_convert(x, dtype, numbers, GP_F32, NUMBERS);
        gp_convert(dy, dtype, ones, GP_F32, NUMBERS);
        const void *inputs[] = {dy, x, w, b, mean, variance};
        run_inference(device, GP_OP_BATCH_NORM_INFERENCE, dtype, relu, inputs, y);
        for (int i = 0; i < NUMBERS; i++)
            assert_same_number(dtype, y, i, plain(i, relu));
        run_inference(device, GP_OP_BATCH_NORM_INFERENCE_GRADIENT, dtype, relu, inputs, y);
        for (int i = 0; i < NUMBERS; i++)
            if (numbers[i] - numbers[i] == 0) assert_same_number(dtype, y, i, !relu || plain(i, false) > 0 ? 1 : 0);
    }
}

static void test_special_numbers(void **state) {
    (void)state;
    for_each_device(check_specials);
}

/* ---- pooling ---- */

static void pool(gp_dtype dtype, int64_t n, int64_t side, int64_t channels) {
    gp_window_attributes window = {.kernel = {3, 2},
                                   .stride = {2, 1},
                                   .dilation = {1, 1},
                                   .before = {1, 0},
                                   .after = {1, 1},
                                   .image = {side, side + 1}};
    operand x = operand_of(dtype, (dims){4, {n, side, side + 1, channels}}, -2, 2), made[2];
    operand dy = operand_of(dtype, (dims){4, {n, (side - 1) / 2 + 1, side + 1, channels}}, -1, 1);
    kernel_case test = {.attributes = &window, .input_count = 1, .output_count = 1};
    test.id = GP_OP_MAX_POOL;
    test.output_count = 2;
    test.inputs[0] = copy_of(&x);
    check_and_keep(test, made, 0);
    test.output_count = 1;
    test.id = GP_OP_AVERAGE_POOL;
    test.inputs[0] = copy_of(&x);
    check_and_keep(test, NULL, 0);
    test.id = GP_OP_GLOBAL_AVERAGE_POOL;
    test.attributes = NULL;
    test.inputs[0] = x;
    check_and_keep(test, NULL, 0);
    test.id = GP_OP_AVERAGE_POOL_GRADIENT;
    test.attributes = &window;
    test.inputs[0] = copy_of(&dy);
    check_and_keep(test, NULL, 0);
    test.id = GP_OP_MAX_POOL_GRADIENT;
    test.inputs[0] = dy;
    test.inputs[1] = made[1];
    test.input_count = 2;
    check_and_keep(test, NULL, 0);
    operand_free(&made[0]);
}

static void test_pool(void **state) {
    (void)state;
    static const int64_t channels[] = {1, 16, 65, 200};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        pool(GP_F32, 3, 7, channels[i]);
        pool(GP_BF16, 2, 18, channels[i]);
    }
}

/* ---- depthwise convolutions: those that are loops, bf16 and the gradients of dilated ones ---- */

static void depthwise(gp_dtype dtype, int64_t channels, int64_t stride, int64_t dilation, bool forward) {
    gp_convolution_attributes a;
    memset(&a, 0, sizeof a);
    a.groups = channels;
    a.window = (gp_window_attributes){.kernel = {3, 2},
                                      .stride = {stride, 1},
                                      .dilation = {dilation, dilation},
                                      .before = {dilation, 0},
                                      .after = {dilation, 1},
                                      .image = {11, 9}};
    dims x = {4, {2, 11, 9, channels}}, w = {4, {channels, 1, 3, 2}};
    dims y = {4, {2, 10 / stride + 1, 10 - dilation, channels}};
    kernel_case test = {.attributes = &a, .input_count = 3, .output_count = 1};
    if (forward) {
        test.id = GP_OP_CONVOLUTION;
        test.inputs[0] = operand_of(dtype, x, -1, 1);
        test.inputs[1] = operand_of(GP_F32, w, -1, 1);
        test.inputs[2] = operand_of(GP_F32, (dims){1, {channels}}, -1, 1);
        check_and_keep(test, NULL, 0);
    }
    test.input_count = 2;
    test.id = GP_OP_CONVOLUTION_INPUT_GRADIENT;
    test.inputs[0] = operand_of(dtype, y, -1, 1);
    test.inputs[1] = operand_of(GP_F32, w, -1, 1);
    check_and_keep(test, NULL, 0);
    test.id = GP_OP_CONVOLUTION_WEIGHT_GRADIENT;
    test.inputs[0] = operand_of(dtype, y, -1, 1);
    test.inputs[1] = operand_of(dtype, x, -1, 1);
    check_and_keep(test, NULL, 0);
}

static void test_depthwise(void **state) {
    (void)state;
    static const int64_t channels[] = {2, 16, 33, 200};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        for (int64_t stride = 1; stride < 4; stride++) {
            depthwise(GP_BF16, channels[i], stride, 1, true);
            depthwise(GP_BF16, channels[i], stride, 2, true);
            depthwise(GP_F32, channels[i], stride, 2, false);
            depthwise(GP_F32, channels[i], stride, 3, false);
        }
    }
}

/* ---- the rest ---- */

static void channels(gp_dtype dtype, dims x, int64_t n) {
    dims s = {2, {x.size[0], n}};
    check_and_keep((kernel_case){.id = GP_OP_CHANNEL_SCALE,
                                 .inputs = {operand_of(dtype, x, -1, 1), operand_of(dtype, s, -1, 1)},
                                 .input_count = 2,
                                 .output_count = 1},
                   NULL, 0);
    check_and_keep((kernel_case){.id = GP_OP_CHANNEL_SCALE_GRADIENT,
                                 .inputs = {operand_of(dtype, x, -1, 1), operand_of(dtype, x, -1, 1)},
                                 .input_count = 2,
                                 .output_count = 1},
                   NULL, 0);
    gp_drop_path_attributes path;
    memset(&path, 0, sizeof path);
    path.p = 0.5;
    path.use = 3;
    check_and_keep((kernel_case){.id = GP_OP_DROP_PATH,
                                 .attributes = &path,
                                 .inputs = {operand_of(dtype, x, -1, 1)},
                                 .input_count = 1,
                                 .output_count = 1,
                                 .run = {.seed = 5, .step = 2}},
                   NULL, 0);
}

static void test_channels(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        gp_dtype dtype = i ? GP_BF16 : GP_F32;
        channels(dtype, (dims){4, {3, 9, 8, 33}}, 33);
        channels(dtype, (dims){4, {5, 20, 21, 64}}, 64);
        channels(dtype, (dims){3, {2, 3, 1030}}, 1030);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm), cmocka_unit_test(test_special_numbers), cmocka_unit_test(test_pool),
        cmocka_unit_test(test_depthwise),  cmocka_unit_test(test_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
