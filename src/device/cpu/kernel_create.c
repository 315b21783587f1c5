/* Which setup makes the kernel of which operation. */
#include "base/status.h"
#include "device/cpu/kernel.h"

static gp_cpu_setup *setup_of(gp_op_id id) {
    switch (id) {
    case GP_OP_ADD:
    case GP_OP_SUB:
    case GP_OP_MUL:
    case GP_OP_DIV:
        return gp_cpu_setup_binary;
    case GP_OP_SCALE:
        return gp_cpu_setup_scale;
    case GP_OP_CAST:
        return gp_cpu_setup_cast;
    case GP_OP_ACTIVATION:
        return gp_cpu_setup_activation;
    case GP_OP_ACTIVATION_GRADIENT:
        return gp_cpu_setup_activation_gradient;
    case GP_OP_LAYER_NORM:
        return gp_cpu_setup_layer_norm;
    case GP_OP_LAYER_NORM_GRADIENT:
        return gp_cpu_setup_layer_norm_gradient;
    case GP_OP_LAYER_NORM_WEIGHT_GRADIENT:
        return gp_cpu_setup_layer_norm_weight_gradient;
    case GP_OP_RMS_NORM:
        return gp_cpu_setup_rms_norm;
    case GP_OP_RMS_NORM_GRADIENT:
        return gp_cpu_setup_rms_norm_gradient;
    case GP_OP_RMS_NORM_WEIGHT_GRADIENT:
        return gp_cpu_setup_rms_norm_weight_gradient;
    case GP_OP_SOFTMAX:
        return gp_cpu_setup_softmax;
    case GP_OP_SOFTMAX_GRADIENT:
        return gp_cpu_setup_softmax_gradient;
    case GP_OP_EMBEDDING:
        return gp_cpu_setup_embedding;
    case GP_OP_EMBEDDING_GRADIENT:
        return gp_cpu_setup_embedding_gradient;
    case GP_OP_DROPOUT:
        return gp_cpu_setup_dropout;
    case GP_OP_TRANSPOSE:
        return gp_cpu_setup_transpose;
    case GP_OP_SLICE:
        return gp_cpu_setup_slice;
    case GP_OP_SLICE_GRADIENT:
        return gp_cpu_setup_slice_gradient;
    case GP_OP_CONCATENATE:
        return gp_cpu_setup_concatenate;
    case GP_OP_REDUCE_TO:
        return gp_cpu_setup_reduce;
    case GP_OP_BROADCAST_TO:
        return gp_cpu_setup_broadcast;
    case GP_OP_CROSS_ENTROPY:
        return gp_cpu_setup_cross_entropy;
    case GP_OP_CROSS_ENTROPY_GRADIENT:
        return gp_cpu_setup_cross_entropy_gradient;
    case GP_OP_SQUARED_ERROR:
        return gp_cpu_setup_squared_error;
    case GP_OP_SQUARED_ERROR_GRADIENT:
        return gp_cpu_setup_squared_error_gradient;
    case GP_OP_BATCH_NORM:
    case GP_OP_BATCH_NORM_WEIGHT_GRADIENT:
    case GP_OP_BATCH_NORM_GRADIENT:
    case GP_OP_BATCH_NORM_INFERENCE:
    case GP_OP_BATCH_NORM_INFERENCE_GRADIENT:
        return gp_cpu_setup_batch_norm;
    case GP_OP_MAX_POOL:
        return gp_cpu_setup_max_pool;
    case GP_OP_MAX_POOL_GRADIENT:
        return gp_cpu_setup_max_pool_gradient;
    case GP_OP_AVERAGE_POOL:
    case GP_OP_GLOBAL_AVERAGE_POOL:
    case GP_OP_UPSAMPLE_GRADIENT:
        return gp_cpu_setup_window_sum;
    case GP_OP_AVERAGE_POOL_GRADIENT:
    case GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT:
        return gp_cpu_setup_window_spread;
    case GP_OP_PAD:
        return gp_cpu_setup_pad;
    case GP_OP_UPSAMPLE:
        return gp_cpu_setup_upsample;
    case GP_OP_DROP_PATH:
        return gp_cpu_setup_drop_path;
    case GP_OP_CHANNEL_SCALE:
        return gp_cpu_setup_channel_scale;
    case GP_OP_CHANNEL_SCALE_GRADIENT:
        return gp_cpu_setup_channel_scale_gradient;
    case GP_OP_ACCUMULATE:
        return gp_cpu_setup_accumulate;
    default:
        return NULL;
    }
}

gp_status gp_cpu_loop_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_cpu_setup *setup = setup_of(desc->id);
    if (!setup) return gp_cpu_check(false, desc);
    gp_cpu_kernel *made = NULL;
    GP_TRY(gp_cpu_kernel_create(device, desc, &made));
    gp_status status = setup(made, desc);
    if (status != GP_OK) {
        made->kernel.destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}
