/* What the families of operations share: checks for shape rules, application of built-in operations for gradient rules,
 * and the classes themselves. Nobody outside this folder includes it. */
#ifndef GP_GRAPH_OPS_INTERNAL_H
#define GP_GRAPH_OPS_INTERNAL_H

#include "base/status.h"
#include "graph/graph.h"

/* ---- checks of shape rules; the name of the operation is put in front by gp_op_apply ---- */

/* The number of operands, and that the first `least` of them are not absent. */
gp_status gp_op_expect(const gp_op_call *call, size_t least, size_t most, size_t outputs);
/* "inputs f32[2,3], f32[4,5]: <what is accepted>" */
gp_status gp_op_refuse(const gp_op_call *call, const char *accepted, ...) GP_PRINTF(2, 3);

bool gp_op_present(const gp_op_call *call, size_t input);
/* Whether it is something that activations are made of: f32 or bf16. */
bool gp_type_is_activation(gp_type type);
/* f32[n] */
bool gp_type_is_vector(gp_type type, int64_t n);
/* The last dimension; 1 for a scalar. */
int64_t gp_shape_last(gp_shape shape);
/* The product of all dimensions but the last. */
int64_t gp_shape_rows(gp_shape shape);
/* Without the last `count` dimensions (at most rank). */
gp_shape gp_shape_leading(gp_shape shape, int count);
/* As NumPy does; false when they do not fit together. */
bool gp_shape_broadcast(gp_shape a, gp_shape b, gp_shape *result);
/* Whether `small` broadcasts to exactly `large`. */
bool gp_shape_fits(gp_shape small, gp_shape large);
gp_type gp_type_vector(int64_t n);

double gp_elements(gp_type type);
double gp_flops_none(const gp_op_call *call);
/* One per element of input 0. */
double gp_flops_of_input(const gp_op_call *call);

/* ---- application ---- */

/* Applies a built-in operation and returns its first output. */
gp_value gp_apply(gp_op_id id, const void *attributes, const gp_value *inputs, size_t input_count);
/* The invalid value of the same graph. */
gp_value gp_invalid_like(gp_value value);
/* Turns an axis counted from the end into 0..rank-1; -1 (and an error in the graph) when there is no such axis. */
int gp_axis_of(gp_value x, int axis, const char *op);

/* A gradient brought to the type of the operand that it belongs to: summed where that was broadcast, and in f32 where
 * it is a parameter. */
gp_value gp_gradient_as(gp_value gradient, gp_type type);

/* ---- the classes, by family ---- */

extern const gp_op_class gp_linear_class, gp_linear_input_gradient_class, gp_linear_weight_gradient_class,
    gp_matmul_class; /* products.c */
extern const gp_op_class gp_add_class, gp_sub_class, gp_mul_class, gp_div_class, gp_scale_class, gp_cast_class,
    gp_accumulate_class;                                                    /* elementwise.c */
extern const gp_op_class gp_activation_class, gp_activation_gradient_class; /* activations.c */
extern const gp_op_class gp_layer_norm_class, gp_layer_norm_gradient_class, gp_layer_norm_weight_gradient_class,
    gp_rms_norm_class, gp_rms_norm_gradient_class, gp_rms_norm_weight_gradient_class; /* norms.c */
extern const gp_op_class gp_softmax_class, gp_softmax_gradient_class, gp_attention_class,
    gp_attention_gradient_class;                                          /* attention.c */
extern const gp_op_class gp_embedding_class, gp_embedding_gradient_class; /* embedding.c */
extern const gp_op_class gp_dropout_class;                                /* dropout.c */
extern const gp_op_class gp_reshape_class, gp_alias_class, gp_transpose_class, gp_slice_class, gp_slice_gradient_class,
    gp_concatenate_class;                                           /* shape.c */
extern const gp_op_class gp_reduce_to_class, gp_broadcast_to_class; /* reduce.c */
extern const gp_op_class gp_cross_entropy_class, gp_cross_entropy_gradient_class, gp_squared_error_class,
    gp_squared_error_gradient_class; /* losses.c */
extern const gp_op_class gp_convolution_class, gp_convolution_input_gradient_class,
    gp_convolution_weight_gradient_class; /* convolution.c */
extern const gp_op_class gp_max_pool_class, gp_max_pool_gradient_class, gp_average_pool_class,
    gp_average_pool_gradient_class, gp_global_average_pool_class, gp_global_average_pool_gradient_class; /* pooling.c */
extern const gp_op_class gp_batch_norm_class, gp_batch_norm_weight_gradient_class, gp_batch_norm_gradient_class,
    gp_batch_norm_inference_class, gp_batch_norm_inference_gradient_class; /* batch_norm.c */
extern const gp_op_class gp_pad_class, gp_upsample_class, gp_upsample_gradient_class, gp_drop_path_class,
    gp_channel_scale_class, gp_channel_scale_gradient_class; /* image.c */

#endif
