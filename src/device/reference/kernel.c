/* Kernels of the reference device: which function computes which operation, and adding into an output, which works the
 * same for all of them: the function writes into the workspace, which is added afterwards. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/reference/reference.h"

typedef struct reference_kernel {
    gp_kernel kernel; /* first, so that a gp_kernel is a reference_kernel */
    gp_reference_function *function;
    void *attributes;
    int input_count, output_count;
    uint32_t accumulate;
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
} reference_kernel;

static gp_reference_function *function_of(gp_op_id id) {
    static gp_reference_function *const functions[GP_OP_COUNT] = {
        [GP_OP_LINEAR] = gp_reference_linear,
        [GP_OP_LINEAR_INPUT_GRADIENT] = gp_reference_linear_input_gradient,
        [GP_OP_LINEAR_WEIGHT_GRADIENT] = gp_reference_linear_weight_gradient,
        [GP_OP_MATMUL] = gp_reference_matmul,
        [GP_OP_ADD] = gp_reference_add,
        [GP_OP_SUB] = gp_reference_sub,
        [GP_OP_MUL] = gp_reference_mul,
        [GP_OP_DIV] = gp_reference_div,
        [GP_OP_SCALE] = gp_reference_scale,
        [GP_OP_CAST] = gp_reference_cast,
        [GP_OP_ACTIVATION] = gp_reference_activation,
        [GP_OP_ACTIVATION_GRADIENT] = gp_reference_activation_gradient,
        [GP_OP_LAYER_NORM] = gp_reference_layer_norm,
        [GP_OP_LAYER_NORM_GRADIENT] = gp_reference_layer_norm_gradient,
        [GP_OP_LAYER_NORM_WEIGHT_GRADIENT] = gp_reference_layer_norm_weight_gradient,
        [GP_OP_RMS_NORM] = gp_reference_rms_norm,
        [GP_OP_RMS_NORM_GRADIENT] = gp_reference_rms_norm_gradient,
        [GP_OP_RMS_NORM_WEIGHT_GRADIENT] = gp_reference_rms_norm_weight_gradient,
        [GP_OP_SOFTMAX] = gp_reference_softmax,
        [GP_OP_SOFTMAX_GRADIENT] = gp_reference_softmax_gradient,
        [GP_OP_ATTENTION] = gp_reference_attention,
        [GP_OP_ATTENTION_GRADIENT] = gp_reference_attention_gradient,
        [GP_OP_EMBEDDING] = gp_reference_embedding,
        [GP_OP_EMBEDDING_GRADIENT] = gp_reference_embedding_gradient,
        [GP_OP_DROPOUT] = gp_reference_dropout,
        [GP_OP_TRANSPOSE] = gp_reference_transpose,
        [GP_OP_SLICE] = gp_reference_slice,
        [GP_OP_SLICE_GRADIENT] = gp_reference_slice_gradient,
        [GP_OP_CONCATENATE] = gp_reference_concatenate,
        [GP_OP_REDUCE_TO] = gp_reference_reduce_to,
        [GP_OP_BROADCAST_TO] = gp_reference_broadcast_to,
        [GP_OP_CROSS_ENTROPY] = gp_reference_cross_entropy,
        [GP_OP_CROSS_ENTROPY_GRADIENT] = gp_reference_cross_entropy_gradient,
        [GP_OP_SQUARED_ERROR] = gp_reference_squared_error,
        [GP_OP_SQUARED_ERROR_GRADIENT] = gp_reference_squared_error_gradient,
        [GP_OP_CONVOLUTION] = gp_reference_convolution,
        [GP_OP_CONVOLUTION_INPUT_GRADIENT] = gp_reference_convolution_input_gradient,
        [GP_OP_CONVOLUTION_WEIGHT_GRADIENT] = gp_reference_convolution_weight_gradient,
        [GP_OP_MAX_POOL] = gp_reference_max_pool,
        [GP_OP_MAX_POOL_GRADIENT] = gp_reference_max_pool_gradient,
        [GP_OP_AVERAGE_POOL] = gp_reference_average_pool,
        [GP_OP_AVERAGE_POOL_GRADIENT] = gp_reference_average_pool_gradient,
        [GP_OP_GLOBAL_AVERAGE_POOL] = gp_reference_global_average_pool,
        [GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT] = gp_reference_global_average_pool_gradient,
        [GP_OP_BATCH_NORM] = gp_reference_batch_norm,
        [GP_OP_BATCH_NORM_WEIGHT_GRADIENT] = gp_reference_batch_norm_weight_gradient,
        [GP_OP_BATCH_NORM_GRADIENT] = gp_reference_batch_norm_gradient,
        [GP_OP_BATCH_NORM_INFERENCE] = gp_reference_batch_norm_inference,
        [GP_OP_BATCH_NORM_INFERENCE_GRADIENT] = gp_reference_batch_norm_inference_gradient,
        [GP_OP_PAD] = gp_reference_pad,
        [GP_OP_UPSAMPLE] = gp_reference_upsample,
        [GP_OP_UPSAMPLE_GRADIENT] = gp_reference_upsample_gradient,
        [GP_OP_DROP_PATH] = gp_reference_drop_path,
        [GP_OP_CHANNEL_SCALE] = gp_reference_channel_scale,
        [GP_OP_CHANNEL_SCALE_GRADIENT] = gp_reference_channel_scale_gradient,
        [GP_OP_ACCUMULATE] = gp_reference_cast, /* which always accumulates */
    };
    return (int)id >= 0 && id < GP_OP_COUNT ? functions[id] : NULL;
}

static size_t padded_bytes(gp_type type) {
    return (gp_reference_bytes(type) + 63) / 64 * 64;
}

static bool accumulates(const reference_kernel *kernel, int output) {
    return kernel->accumulate >> output & 1u;
}

static gp_status reference_run(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                               const gp_run *run) {
    const reference_kernel *kernel = (const reference_kernel *)base;
    void *written[GP_MAX_OPERANDS] = {0};
    char *next = workspace;
    for (int i = 0; i < kernel->output_count; i++) {
        written[i] = accumulates(kernel, i) ? next : outputs[i];
        if (accumulates(kernel, i)) next += padded_bytes(kernel->outputs[i]);
    }
    gp_reference_call call = {
        kernel->attributes, kernel->inputs, kernel->outputs, inputs, written, kernel->input_count, run};
    GP_TRY(kernel->function(&call));
    for (int i = 0; i < kernel->output_count; i++) {
        if (!accumulates(kernel, i)) continue;
        double *total = outputs[i];
        const double *added = written[i];
        int64_t count = gp_shape_elements(kernel->outputs[i].shape);
        for (int64_t e = 0; e < count; e++) {
            total[e] += added[e];
        }
    }
    return GP_OK;
}

static void reference_kernel_destroy(gp_kernel *base) {
    reference_kernel *kernel = (reference_kernel *)base;
    if (!kernel) return;
    gp_free(kernel->attributes);
    gp_free(kernel);
}

gp_status gp_reference_kernel_create(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    (void)device;
    *kernel = NULL;
    if (desc->id == GP_OP_CUSTOM) return gp_reference_custom_create(desc, kernel);
    gp_reference_function *function = function_of(desc->id);
    if (!function) return gp_error(GP_INVALID, "the reference device has no kernel for %s", gp_op_name(desc->id));
    reference_kernel *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->kernel.run = reference_run;
    made->kernel.destroy = reference_kernel_destroy;
    made->function = function;
    made->input_count = desc->input_count;
    made->output_count = desc->output_count;
    made->accumulate = desc->id == GP_OP_ACCUMULATE ? 1u : desc->accumulate;
    memcpy(made->inputs, desc->inputs, (size_t)desc->input_count * sizeof *desc->inputs);
    memcpy(made->outputs, desc->outputs, (size_t)desc->output_count * sizeof *desc->outputs);
    for (int i = 0; i < made->output_count; i++) {
        if (accumulates(made, i)) made->kernel.workspace += padded_bytes(made->outputs[i]);
    }
    gp_status status = gp_kernel_copy_attributes(desc, &made->attributes);
    if (status != GP_OK) {
        reference_kernel_destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}

/* ---- what the functions share ---- */

const double *gp_reference_in(const gp_reference_call *call, int input) {
    return call->inputs[input];
}

double *gp_reference_out(const gp_reference_call *call, int output) {
    return call->outputs[output];
}

bool gp_reference_present(gp_type type) {
    return type.shape.rank >= 0;
}

int64_t gp_reference_columns(gp_shape shape) {
    return shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
}

int64_t gp_reference_rows(gp_shape shape) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank; i++) {
        rows *= shape.dims[i];
    }
    return rows;
}

int64_t gp_reference_source(gp_shape shape, gp_shape operand, int64_t index) {
    int64_t offset = 0, stride = 1;
    for (int i = shape.rank - 1, j = operand.rank - 1; j >= 0; i--, j--) {
        int64_t position = index % shape.dims[i];
        index /= shape.dims[i];
        if (operand.dims[j] != 1) offset += position * stride;
        stride *= operand.dims[j];
    }
    return offset;
}

double gp_reference_keep(const gp_run *run, double p, uint32_t use, int64_t sample, int64_t element) {
    gp_random_key key = gp_random_key_of(run->seed);
    gp_random_block block =
        gp_random_element4(key, (uint32_t)(element / 4), run->first_sample + (uint32_t)sample, run->step, use);
    return block.word[element % 4] >= gp_random_threshold(p) ? 1.0 / (1.0 - p) : 0.0;
}
