/* Inside the reference device: plain loops in double precision, one function per operation, straight from the formulas.
 * It is what the other devices and the gradient rules are checked against, so it is written to be read, not to be fast.
 *
 * Elements of every floating dtype are kept as doubles and nothing is rounded to the dtype: a bf16 value is what it
 * would be with infinite care. Integers are kept as they are. */
#ifndef GP_DEVICE_REFERENCE_REFERENCE_H
#define GP_DEVICE_REFERENCE_REFERENCE_H

#include "device/device.h"

typedef struct gp_reference_call {
    const void *attributes;
    const gp_type *input_types, *output_types;
    const void *const *inputs;
    void *const *outputs;
    int input_count;
    const gp_run *run;
} gp_reference_call;

/* Computes the outputs of one operation, overwriting them; where the class of the operation allows that output 0 lies
 * over an input, an element is read before it is written. */
typedef gp_status gp_reference_function(const gp_reference_call *call);

gp_status gp_reference_kernel_create(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
gp_status gp_reference_custom_create(const gp_kernel_desc *desc, gp_kernel **kernel);
void gp_reference_update(gp_device *device, const gp_update *update, void *weight, void *gradient, void *m, void *v,
                         int64_t count);

/* Bytes of a tensor on this device: 8 per element of a floating dtype. */
size_t gp_reference_bytes(gp_type type);

/* Operands as the functions use them. */
const double *gp_reference_in(const gp_reference_call *call, int input);
double *gp_reference_out(const gp_reference_call *call, int output);
bool gp_reference_present(gp_type type);
/* The last dimension (1 for a scalar), and the product of the others. */
int64_t gp_reference_columns(gp_shape shape);
int64_t gp_reference_rows(gp_shape shape);
/* Where in an operand of shape `operand`, which broadcasts to `shape`, lies element `index` of `shape`. */
int64_t gp_reference_source(gp_shape shape, gp_shape operand, int64_t index);
/* What dropout of probability p multiplies element e of a sample of the micro-batch with: 0 or 1 / (1 - p). */
double gp_reference_keep(const gp_run *run, double p, uint32_t use, int64_t sample, int64_t element);

gp_reference_function gp_reference_linear, gp_reference_linear_input_gradient, gp_reference_linear_weight_gradient,
    gp_reference_matmul;
gp_reference_function gp_reference_add, gp_reference_sub, gp_reference_mul, gp_reference_div, gp_reference_scale,
    gp_reference_cast, gp_reference_activation, gp_reference_activation_gradient, gp_reference_dropout;
gp_reference_function gp_reference_layer_norm, gp_reference_layer_norm_gradient,
    gp_reference_layer_norm_weight_gradient, gp_reference_rms_norm, gp_reference_rms_norm_gradient,
    gp_reference_rms_norm_weight_gradient, gp_reference_softmax, gp_reference_softmax_gradient;
gp_reference_function gp_reference_attention, gp_reference_attention_gradient;
gp_reference_function gp_reference_embedding, gp_reference_embedding_gradient;
gp_reference_function gp_reference_transpose, gp_reference_slice, gp_reference_slice_gradient, gp_reference_concatenate,
    gp_reference_reduce_to, gp_reference_broadcast_to;
gp_reference_function gp_reference_cross_entropy, gp_reference_cross_entropy_gradient, gp_reference_squared_error,
    gp_reference_squared_error_gradient;
gp_reference_function gp_reference_convolution, gp_reference_convolution_input_gradient,
    gp_reference_convolution_weight_gradient;
gp_reference_function gp_reference_max_pool, gp_reference_max_pool_gradient, gp_reference_average_pool,
    gp_reference_average_pool_gradient, gp_reference_global_average_pool, gp_reference_global_average_pool_gradient;
gp_reference_function gp_reference_batch_norm, gp_reference_batch_norm_weight_gradient,
    gp_reference_batch_norm_gradient, gp_reference_batch_norm_inference, gp_reference_batch_norm_inference_gradient;
gp_reference_function gp_reference_pad, gp_reference_upsample, gp_reference_upsample_gradient, gp_reference_drop_path,
    gp_reference_channel_scale, gp_reference_channel_scale_gradient;

#endif
