/* A user's own operation on the reference device: its double-precision form where it has one, else its f32 kernel with
 * conversions around it, in the kernel's workspace. */
#include "base/memory.h"
#include "base/status.h"
#include "device/reference/reference.h"

typedef struct custom_kernel {
    gp_kernel kernel; /* first */
    const gp_op_class *op;
    void *attributes;
    int input_count, output_count;
    bool narrow; /* runs op->kernel, in f32 */
    /* As the user's function sees them: floating dtypes are f64 or f32. */
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
} custom_kernel;

static bool converted(const custom_kernel *kernel, gp_type type) {
    return kernel->narrow && gp_reference_present(type) && gp_dtype_is_float(type.dtype);
}

static size_t padded_bytes(gp_type type) {
    return (gp_type_bytes(type) + 63) / 64 * 64;
}

static gp_status custom_run(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                            const gp_run *run) {
    (void)run;
    const custom_kernel *kernel = (const custom_kernel *)base;
    const void *seen_inputs[GP_MAX_OPERANDS] = {0};
    void *seen_outputs[GP_MAX_OPERANDS] = {0};
    char *next = workspace;
    for (int i = 0; i < kernel->input_count; i++) {
        gp_type type = kernel->inputs[i];
        seen_inputs[i] = inputs[i];
        if (!converted(kernel, type)) continue;
        gp_convert(next, GP_F32, inputs[i], GP_F64, (size_t)gp_shape_elements(type.shape));
        seen_inputs[i] = next;
        next += padded_bytes(type);
    }
    for (int i = 0; i < kernel->output_count; i++) {
        bool is_converted = converted(kernel, kernel->outputs[i]);
        seen_outputs[i] = is_converted ? next : outputs[i];
        if (is_converted) next += padded_bytes(kernel->outputs[i]);
    }
    gp_op_call call = {kernel->attributes, kernel->inputs, (size_t)kernel->input_count, kernel->outputs,
                       (size_t)kernel->output_count};
    gp_op_data data = {seen_inputs, seen_outputs};
    GP_TRY((kernel->narrow ? kernel->op->kernel : kernel->op->reference)(&call, &data));
    for (int i = 0; i < kernel->output_count; i++) {
        gp_type type = kernel->outputs[i];
        if (!converted(kernel, type)) continue;
        gp_convert(outputs[i], GP_F64, seen_outputs[i], GP_F32, (size_t)gp_shape_elements(type.shape));
    }
    return GP_OK;
}

static void custom_destroy(gp_kernel *base) {
    custom_kernel *kernel = (custom_kernel *)base;
    if (!kernel) return;
    gp_free(kernel->attributes);
    gp_free(kernel);
}

static gp_type seen_type(custom_kernel *kernel, gp_type type) {
    if (gp_reference_present(type) && gp_dtype_is_float(type.dtype)) type.dtype = kernel->narrow ? GP_F32 : GP_F64;
    if (converted(kernel, type)) kernel->kernel.workspace += padded_bytes(type);
    return type;
}

gp_status gp_reference_custom_create(const gp_kernel_desc *desc, gp_kernel **kernel) {
    if (!desc->op->kernel && !desc->op->reference) {
        return gp_error(GP_INVALID, "the operation %s has no kernel: its class must set `kernel`", desc->op->name);
    }
    custom_kernel *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->kernel.run = custom_run;
    made->kernel.destroy = custom_destroy;
    made->op = desc->op;
    made->narrow = !desc->op->reference;
    made->input_count = desc->input_count;
    made->output_count = desc->output_count;
    for (int i = 0; i < desc->input_count; i++) {
        made->inputs[i] = seen_type(made, desc->inputs[i]);
    }
    for (int i = 0; i < desc->output_count; i++) {
        made->outputs[i] = seen_type(made, desc->outputs[i]);
    }
    gp_status status = gp_kernel_copy_attributes(desc, &made->attributes);
    if (status != GP_OK) {
        custom_destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}
