/* Operands of cases, and what the reference device makes of them. */
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t elements(const operand *x) {
    return gp_shape_elements(x->type.shape);
}

static operand owned(suite *s, gp_type type) {
    assert_true(s->owned_count < MOST_OPERANDS);
    operand x = {type, gp_allocate((size_t)gp_shape_elements(type.shape) * sizeof(double))};
    assert_non_null(x.values);
    s->owned[s->owned_count++] = x.values;
    return x;
}

operand uniform(suite *s, gp_dtype dtype, gp_shape shape, double low, double high) {
    operand x = owned(s, (gp_type){dtype, shape});
    int64_t count = elements(&x);
    char name[32];
    snprintf(name, sizeof name, "operand %u", (unsigned)s->drawn++);
    float *drawn = gp_allocate((size_t)count * sizeof *drawn);
    assert_non_null(drawn);
    gp_random_fill_uniform(drawn, count, 9, name);
    for (int64_t i = 0; i < count; i++) {
        double value = low + (high - low) * ((double)drawn[i] + 1.0) / 2.0;
        unsigned char narrow[8];
        gp_convert(narrow, dtype, &value, GP_F64, 1);
        gp_convert(&x.values[i], GP_F64, narrow, dtype, 1);
    }
    gp_free(drawn);
    return x;
}

operand activation(suite *s, gp_shape shape) {
    return uniform(s, s->dtype, shape, -1.0, 1.0);
}

operand parameter(suite *s, gp_shape shape) {
    return uniform(s, GP_F32, shape, -1.0, 1.0);
}

operand integers(suite *s, gp_shape shape, int low, int high) {
    operand x = uniform(s, GP_F64, shape, low, high);
    x.type.dtype = GP_I32;
    for (int64_t i = 0; i < elements(&x); i++) {
        x.values[i] = floor(x.values[i]);
        if (x.values[i] > high - 1) x.values[i] = high - 1;
    }
    return x;
}

operand absent(void) {
    return (operand){{GP_F32, {.rank = -1}}, NULL};
}

int output_count_of(gp_op_id id) {
    switch (id) {
    case GP_OP_LAYER_NORM:
    case GP_OP_BATCH_NORM:
        return 3;
    case GP_OP_LAYER_NORM_WEIGHT_GRADIENT:
    case GP_OP_BATCH_NORM_WEIGHT_GRADIENT:
    case GP_OP_MAX_POOL:
    case GP_OP_RMS_NORM:
    case GP_OP_ATTENTION:
    case GP_OP_CROSS_ENTROPY:
        return 2;
    default:
        return 1;
    }
}

/* Device memory that holds an operand. */
static void *on_device(gp_device *device, const operand *x) {
    if (!x->values) return NULL;
    void *memory = NULL, *host = gp_allocate(gp_type_bytes(x->type));
    assert_non_null(host);
    gp_convert(host, x->type.dtype, x->values, GP_F64, (size_t)elements(x));
    assert_ok(gp_device_allocate(device, device->class->bytes(x->type), &memory));
    device->class->upload(device, memory, host, x->type);
    gp_free(host);
    return memory;
}

static void run_plainly(suite *s, const gp_kernel_desc *desc, const operand *inputs, void *const *outputs) {
    gp_device *device = s->reference;
    gp_kernel *kernel = NULL;
    const void *given[GP_MAX_OPERANDS] = {NULL};
    void *memory[GP_MAX_OPERANDS] = {NULL};
    for (int i = 0; i < desc->input_count; i++) {
        given[i] = memory[i] = on_device(device, &inputs[i]);
    }
    assert_ok(device->class->kernel_create(device, desc, &kernel));
    void *workspace = gp_allocate(kernel->workspace);
    assert_non_null(workspace);
    gp_run how = {.seed = 77, .step = 5, .first_sample = 6, .progress = 0.75};
    assert_ok(kernel->run(kernel, given, outputs, workspace, &how));
    kernel->destroy(kernel);
    gp_free(workspace);
    for (int i = 0; i < desc->input_count; i++) {
        size_t bytes = inputs[i].values ? device->class->bytes(inputs[i].type) : 0;
        gp_device_release(device, memory[i], bytes);
    }
}

void compute(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count, operand *outputs,
             int output_count) {
    gp_type input_types[GP_MAX_OPERANDS], output_types[GP_MAX_OPERANDS];
    void *memory[GP_MAX_OPERANDS];
    for (int i = 0; i < input_count; i++) {
        input_types[i] = inputs[i].type;
    }
    gp_op_call call = {attributes, input_types, (size_t)input_count, NULL, (size_t)output_count};
    assert_ok(gp_op_class_of(id)->infer(&call, output_types));
    for (int i = 0; i < output_count; i++) {
        outputs[i] = owned(s, output_types[i]);
        assert_ok(gp_device_allocate(s->reference, s->reference->class->bytes(output_types[i]), &memory[i]));
    }
    gp_kernel_desc desc = {id, gp_op_class_of(id), attributes, input_types, output_types, input_count, output_count, 0};
    run_plainly(s, &desc, inputs, memory);
    for (int i = 0; i < output_count; i++) {
        size_t count = (size_t)elements(&outputs[i]);
        unsigned char *host = gp_allocate(gp_type_bytes(output_types[i]));
        assert_non_null(host);
        s->reference->class->download(s->reference, host, memory[i], output_types[i]);
        gp_convert(outputs[i].values, GP_F64, host, output_types[i].dtype, count);
        gp_free(host);
        gp_device_release(s->reference, memory[i], s->reference->class->bytes(output_types[i]));
    }
}
