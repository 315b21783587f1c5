/* The table of built-in operations: from an id to its class and back. */
#include "graph/ops/ops_internal.h"

static const gp_op_class *const classes[GP_OP_CUSTOM] = {
    [GP_OP_LINEAR] = &gp_linear_class,
    [GP_OP_LINEAR_INPUT_GRADIENT] = &gp_linear_input_gradient_class,
    [GP_OP_LINEAR_WEIGHT_GRADIENT] = &gp_linear_weight_gradient_class,
    [GP_OP_MATMUL] = &gp_matmul_class,
    [GP_OP_ADD] = &gp_add_class,
    [GP_OP_SUB] = &gp_sub_class,
    [GP_OP_MUL] = &gp_mul_class,
    [GP_OP_DIV] = &gp_div_class,
    [GP_OP_SCALE] = &gp_scale_class,
    [GP_OP_CAST] = &gp_cast_class,
    [GP_OP_ACTIVATION] = &gp_activation_class,
    [GP_OP_ACTIVATION_GRADIENT] = &gp_activation_gradient_class,
    [GP_OP_LAYER_NORM] = &gp_layer_norm_class,
    [GP_OP_LAYER_NORM_GRADIENT] = &gp_layer_norm_gradient_class,
    [GP_OP_LAYER_NORM_WEIGHT_GRADIENT] = &gp_layer_norm_weight_gradient_class,
    [GP_OP_RMS_NORM] = &gp_rms_norm_class,
    [GP_OP_RMS_NORM_GRADIENT] = &gp_rms_norm_gradient_class,
    [GP_OP_RMS_NORM_WEIGHT_GRADIENT] = &gp_rms_norm_weight_gradient_class,
    [GP_OP_SOFTMAX] = &gp_softmax_class,
    [GP_OP_SOFTMAX_GRADIENT] = &gp_softmax_gradient_class,
    [GP_OP_ATTENTION] = &gp_attention_class,
    [GP_OP_ATTENTION_GRADIENT] = &gp_attention_gradient_class,
    [GP_OP_EMBEDDING] = &gp_embedding_class,
    [GP_OP_EMBEDDING_GRADIENT] = &gp_embedding_gradient_class,
    [GP_OP_DROPOUT] = &gp_dropout_class,
    [GP_OP_RESHAPE] = &gp_reshape_class,
    [GP_OP_ALIAS] = &gp_alias_class,
    [GP_OP_TRANSPOSE] = &gp_transpose_class,
    [GP_OP_SLICE] = &gp_slice_class,
    [GP_OP_SLICE_GRADIENT] = &gp_slice_gradient_class,
    [GP_OP_CONCATENATE] = &gp_concatenate_class,
    [GP_OP_REDUCE_TO] = &gp_reduce_to_class,
    [GP_OP_BROADCAST_TO] = &gp_broadcast_to_class,
    [GP_OP_CROSS_ENTROPY] = &gp_cross_entropy_class,
    [GP_OP_CROSS_ENTROPY_GRADIENT] = &gp_cross_entropy_gradient_class,
    [GP_OP_SQUARED_ERROR] = &gp_squared_error_class,
    [GP_OP_SQUARED_ERROR_GRADIENT] = &gp_squared_error_gradient_class,
    [GP_OP_CONVOLUTION] = &gp_convolution_class,
    [GP_OP_CONVOLUTION_INPUT_GRADIENT] = &gp_convolution_input_gradient_class,
    [GP_OP_CONVOLUTION_WEIGHT_GRADIENT] = &gp_convolution_weight_gradient_class,
    [GP_OP_MAX_POOL] = &gp_max_pool_class,
    [GP_OP_MAX_POOL_GRADIENT] = &gp_max_pool_gradient_class,
    [GP_OP_AVERAGE_POOL] = &gp_average_pool_class,
    [GP_OP_AVERAGE_POOL_GRADIENT] = &gp_average_pool_gradient_class,
    [GP_OP_GLOBAL_AVERAGE_POOL] = &gp_global_average_pool_class,
    [GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT] = &gp_global_average_pool_gradient_class,
    [GP_OP_BATCH_NORM] = &gp_batch_norm_class,
    [GP_OP_BATCH_NORM_WEIGHT_GRADIENT] = &gp_batch_norm_weight_gradient_class,
    [GP_OP_BATCH_NORM_GRADIENT] = &gp_batch_norm_gradient_class,
    [GP_OP_BATCH_NORM_INFERENCE] = &gp_batch_norm_inference_class,
    [GP_OP_BATCH_NORM_INFERENCE_GRADIENT] = &gp_batch_norm_inference_gradient_class,
    [GP_OP_PAD] = &gp_pad_class,
    [GP_OP_UPSAMPLE] = &gp_upsample_class,
    [GP_OP_UPSAMPLE_GRADIENT] = &gp_upsample_gradient_class,
    [GP_OP_DROP_PATH] = &gp_drop_path_class,
    [GP_OP_CHANNEL_SCALE] = &gp_channel_scale_class,
    [GP_OP_CHANNEL_SCALE_GRADIENT] = &gp_channel_scale_gradient_class,
    [GP_OP_ACCUMULATE] = &gp_accumulate_class,
};

const gp_op_class *gp_op_class_of(gp_op_id id) {
    return (unsigned)id < GP_OP_CUSTOM ? classes[id] : NULL;
}

gp_op_id gp_op_id_of(const gp_op_class *op) {
    for (int id = 0; id < GP_OP_CUSTOM; id++) {
        if (classes[id] == op) return (gp_op_id)id;
    }
    return GP_OP_CUSTOM;
}

const char *gp_op_name(gp_op_id id) {
    static const char *const names[GP_OP_COUNT] = {
#define OP_NAME(identifier, name) [identifier] = name,
        GP_OPS(OP_NAME)
#undef OP_NAME
            [GP_OP_CUSTOM] = "custom",
    };
    return (unsigned)id < GP_OP_COUNT ? names[id] : "unknown";
}

uint32_t gp_op_accumulates(gp_op_id id) {
    switch (id) {
    case GP_OP_LINEAR_WEIGHT_GRADIENT:
    case GP_OP_RMS_NORM_WEIGHT_GRADIENT:
    case GP_OP_EMBEDDING_GRADIENT:
    case GP_OP_REDUCE_TO:
    case GP_OP_CONVOLUTION_WEIGHT_GRADIENT:
    case GP_OP_ACCUMULATE:
        return 1;
    case GP_OP_LAYER_NORM_WEIGHT_GRADIENT:
    case GP_OP_BATCH_NORM_WEIGHT_GRADIENT:
        return 3;
    default:
        return 0;
    }
}
