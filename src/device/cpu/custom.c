/* A user's own operation: its kernel computes in f32 on the host, so bf16 operands are converted around it, in the
 * kernel's workspace. */
#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/kernel.h"

typedef struct custom_kernel {
    gp_kernel kernel; /* first */
    const gp_op_class *op;
    void *attributes;
    int input_count, output_count;
    /* The types that the user's kernel sees, the dtypes in memory, and where the converted tensor lies in the workspace
     * (SIZE_MAX: it is not converted). */
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_dtype input_dtypes[GP_MAX_OPERANDS], output_dtypes[GP_MAX_OPERANDS];
    size_t input_offsets[GP_MAX_OPERANDS], output_offsets[GP_MAX_OPERANDS];
} custom_kernel;

static size_t elements_of(gp_type type) {
    return (size_t)gp_shape_elements(type.shape);
}

static gp_status custom_run(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                            const gp_run *run) {
    (void)run;
    const custom_kernel *kernel = (const custom_kernel *)base;
    const void *seen_inputs[GP_MAX_OPERANDS];
    void *seen_outputs[GP_MAX_OPERANDS];
    for (int i = 0; i < kernel->input_count; i++) {
        seen_inputs[i] = inputs[i];
        if (kernel->input_offsets[i] == SIZE_MAX) continue;
        void *converted = (char *)workspace + kernel->input_offsets[i];
        gp_convert(converted, GP_F32, inputs[i], kernel->input_dtypes[i], elements_of(kernel->inputs[i]));
        seen_inputs[i] = converted;
    }
    for (int i = 0; i < kernel->output_count; i++) {
        bool converted = kernel->output_offsets[i] != SIZE_MAX;
        seen_outputs[i] = converted ? (char *)workspace + kernel->output_offsets[i] : outputs[i];
    }
    gp_op_call call = {kernel->attributes, kernel->inputs, (size_t)kernel->input_count, kernel->outputs,
                       (size_t)kernel->output_count};
    gp_op_data data = {seen_inputs, seen_outputs};
    GP_TRY(kernel->op->kernel(&call, &data));
    for (int i = 0; i < kernel->output_count; i++) {
        if (kernel->output_offsets[i] == SIZE_MAX) continue;
        gp_convert(outputs[i], kernel->output_dtypes[i], seen_outputs[i], GP_F32, elements_of(kernel->outputs[i]));
    }
    return GP_OK;
}

static void custom_destroy(gp_kernel *base) {
    custom_kernel *kernel = (custom_kernel *)base;
    if (!kernel) return;
    gp_free(kernel->attributes);
    gp_free(kernel);
}

/* The type that the user's kernel sees; takes room in the workspace where that is another one than in memory. */
static gp_type seen_type(gp_type type, gp_dtype *dtype, size_t *offset, size_t *workspace) {
    *dtype = type.dtype;
    *offset = SIZE_MAX;
    if (!gp_cpu_is_present(type) || !gp_dtype_is_float(type.dtype) || type.dtype == GP_F32) return type;
    type.dtype = GP_F32;
    *offset = gp_workspace_take(workspace, gp_type_bytes(type));
    return type;
}

gp_status gp_cpu_custom_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    (void)device;
    if (!desc->op->kernel) {
        return gp_error(GP_INVALID, "the operation %s has no kernel: its class must set `kernel`", desc->op->name);
    }
    custom_kernel *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->kernel.run = custom_run;
    made->kernel.destroy = custom_destroy;
    made->op = desc->op;
    gp_status status = gp_kernel_copy_attributes(desc, &made->attributes);
    if (status != GP_OK) {
        custom_destroy(&made->kernel);
        return status;
    }
    made->input_count = desc->input_count;
    made->output_count = desc->output_count;
    for (int i = 0; i < desc->input_count; i++) {
        made->inputs[i] =
            seen_type(desc->inputs[i], &made->input_dtypes[i], &made->input_offsets[i], &made->kernel.workspace);
    }
    for (int i = 0; i < desc->output_count; i++) {
        made->outputs[i] =
            seen_type(desc->outputs[i], &made->output_dtypes[i], &made->output_offsets[i], &made->kernel.workspace);
    }
    *kernel = &made->kernel;
    return GP_OK;
}
