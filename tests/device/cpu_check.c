#include "cpu_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/cpu/loops.h"

static const char *const TABLES[] = {"portable", "avx2", "avx512"};
static const int THREADS[] = {1, 3};
enum { GUARD = 64 };

/* ---- operands ---- */

static double next_unit(void) {
    static uint64_t state = 0x9E3779B97F4A7C15u; /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

int64_t operand_count(const operand *x) {
    return gp_shape_elements(x->type.shape);
}

operand operand_zero(gp_dtype dtype, dims shape) {
    operand made = {.type = {dtype, gp_shape_of(shape.rank, shape.size)}};
    made.data = gp_allocate(gp_type_bytes(made.type) + GUARD);
    made.values = gp_allocate_array((size_t)operand_count(&made) + 1, sizeof(double));
    assert_non_null(made.data);
    assert_non_null(made.values);
    return made;
}

void operand_set(operand *x) {
    size_t count = (size_t)operand_count(x);
    gp_convert(x->data, x->type.dtype, x->values, GP_F64, count);
    gp_convert(x->values, GP_F64, x->data, x->type.dtype, count);
}

operand operand_of(gp_dtype dtype, dims shape, double low, double high) {
    operand made = operand_zero(dtype, shape);
    for (int64_t i = 0; i < operand_count(&made); i++) {
        double value = low + (high - low) * next_unit();
        made.values[i] = gp_dtype_is_float(dtype) ? value : floor(value);
    }
    operand_set(&made);
    return made;
}

operand operand_none(void) {
    return (operand){.type = {GP_F32, {.rank = -1}}};
}

void operand_free(operand *x) {
    gp_free(x->data);
    gp_free(x->values);
    x->data = x->values = NULL;
}

void free_case(kernel_case *test) {
    for (int i = 0; i < test->input_count; i++) {
        operand_free(&test->inputs[i]);
    }
    for (int i = 0; i < test->output_count; i++) {
        operand_free(&test->outputs[i]);
    }
}

/* ---- devices ---- */

gp_device *device_with(const char *table, int threads) {
    const gp_cpu_loops *loops = gp_cpu_loops_table(table);
    if (!loops) return NULL;
    gp_device_options options = {.threads = threads};
    gp_device *device = NULL;
    assert_int_equal(gp_device_create_cpu(&device, &options), GP_OK);
    ((gp_cpu_device *)device)->loops = loops;
    assert_int_equal(device->class->enter(device), GP_OK);
    return device;
}

void for_each_device(void (*check)(gp_device *device, const char *table)) {
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++) {
        for (size_t n = 0; n < sizeof THREADS / sizeof *THREADS; n++) {
            gp_device *device = device_with(TABLES[t], THREADS[n]);
            if (!device) continue;
            check(device, TABLES[t]);
            device->class->destroy(device);
        }
    }
}

double distance(const double *got, const double *want, int64_t count) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

/* ---- running a case ---- */

typedef struct outcome {
    unsigned char *bytes[GP_MAX_OPERANDS];
} outcome;

static gp_status run_case(const kernel_case *test, gp_device *device, outcome *result) {
    gp_type types[2][GP_MAX_OPERANDS];
    const void *inputs[GP_MAX_OPERANDS];
    void *outputs[GP_MAX_OPERANDS];
    for (int i = 0; i < test->input_count; i++) {
        types[0][i] = test->inputs[i].type;
        inputs[i] = test->inputs[i].data;
    }
    for (int i = 0; i < test->output_count; i++) {
        types[1][i] = test->outputs[i].type;
        outputs[i] = result->bytes[i];
    }
    if (test->in_place) inputs[test->in_place - 1] = result->bytes[0];
    gp_kernel_desc desc = {test->id,           test->op ? test->op : gp_op_class_of(test->id),
                           test->attributes,   types[0],
                           types[1],           test->input_count,
                           test->output_count, test->accumulate};
    gp_kernel *kernel = NULL;
    gp_status status = device->class->kernel_create(device, &desc, &kernel);
    if (status != GP_OK) return status;
    void *workspace = gp_allocate(kernel->workspace);
    memset(workspace, 0xA5, kernel->workspace);
    status = kernel->run(kernel, inputs, outputs, workspace, &test->run);
    gp_free(workspace);
    kernel->destroy(kernel);
    return status;
}

/* Outputs start as what is accumulated into, as the input that is overwritten, or as rubbish; a guard follows. */
static void result_prepare(const kernel_case *test, outcome *result) {
    for (int i = 0; i < test->output_count; i++) {
        const operand *output = &test->outputs[i];
        size_t bytes = gp_type_bytes(output->type);
        result->bytes[i] = gp_allocate(bytes + GUARD);
        assert_non_null(result->bytes[i]);
        memset(result->bytes[i], 0xA5, bytes + GUARD);
        if (test->accumulate >> i & 1u) memcpy(result->bytes[i], output->data, bytes);
        if (i == 0 && test->in_place) {
            memcpy(result->bytes[i], test->inputs[test->in_place - 1].data, bytes);
        }
    }
}

static void result_free(const kernel_case *test, outcome *result) {
    for (int i = 0; i < test->output_count; i++) {
        gp_free(result->bytes[i]);
    }
}

static void compare(const kernel_case *test, const outcome *result, const char *table, int threads) {
    for (int i = 0; i < test->output_count; i++) {
        const operand *output = &test->outputs[i];
        size_t bytes = gp_type_bytes(output->type), count = (size_t)operand_count(output);
        for (size_t g = 0; g < GUARD; g++) {
            assert_int_equal(result->bytes[i][bytes + g], 0xA5);
        }
        double *got = gp_allocate_array(count + 1, sizeof *got);
        gp_convert(got, GP_F64, result->bytes[i], output->type.dtype, count);
        double error = distance(got, output->values, (int64_t)count);
        double accepted = output->type.dtype == GP_F32 ? 1e-5 : 4e-3;
        if (!(error <= accepted)) {
            char text[80];
            fail_msg("%s, output %d %s: %g off (table %s, %d threads)",
                     test->op ? test->op->name : gp_op_name(test->id), i,
                     gp_type_format(output->type, text, sizeof text), error, table, threads);
        }
        gp_free(got);
    }
}

void check_kernel(kernel_case *test) {
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++) {
        outcome first = {{0}};
        for (size_t n = 0; n < sizeof THREADS / sizeof *THREADS; n++) {
            gp_device *device = device_with(TABLES[t], THREADS[n]);
            if (!device) continue;
            outcome now = {{0}};
            result_prepare(test, &now);
            gp_status status = run_case(test, device, &now);
            if (status != GP_OK) fail_msg("%s", gp_error_message());
            compare(test, &now, TABLES[t], THREADS[n]);
            for (int i = 0; n > 0 && i < test->output_count; i++) {
                assert_memory_equal(now.bytes[i], first.bytes[i], gp_type_bytes(test->outputs[i].type));
            }
            if (n == 0) {
                first = now;
            } else {
                result_free(test, &now);
            }
            device->class->destroy(device);
        }
        result_free(test, &first);
    }
    free_case(test);
}

gp_status kernel_status(kernel_case *test) {
    gp_device *device = device_with(NULL, 1);
    outcome result = {{0}};
    result_prepare(test, &result);
    gp_status status = run_case(test, device, &result);
    result_free(test, &result);
    device->class->destroy(device);
    return status;
}
