/* The built-in operations: what each computes, its attributes, and which outputs its kernels can add into. This is the
 * contract that every device follows and that the conformance test of devices checks.
 *
 * x[..., n] means any leading dimensions; "rows" are the product of all dimensions but the last. Where nothing else is
 * said, outputs have the dtype of the first input, inputs of floating dtype have equal dtypes, statistics are f32. A
 * parameter operand is f32 whatever the dtype of the activations. Absent optional inputs have shape rank -1 and no
 * data. */
#ifndef GP_GRAPH_OPS_H
#define GP_GRAPH_OPS_H

#include "gpipe/graph.h"

/* id, name */
#define GP_OPS(X)                                                                                                      \
    /* x[..., k], w f32[n, k], bias f32[n]? -> y[..., n] = x w^T + bias */                                             \
    X(GP_OP_LINEAR, "linear")                                                                                          \
    /* dy[..., n], w f32[n, k] -> dx[..., k] = dy w */                                                                 \
    X(GP_OP_LINEAR_INPUT_GRADIENT, "linear_input_gradient")                                                            \
    /* dy[..., n], x[..., k] -> dw f32[n, k] = dy^T x; accumulates */                                                  \
    X(GP_OP_LINEAR_WEIGHT_GRADIENT, "linear_weight_gradient")                                                          \
    /* gp_matmul_options; a, b -> c; leading dimensions broadcast */                                                   \
    X(GP_OP_MATMUL, "matmul")                                                                                          \
    /* a, b -> result; broadcast; an f32 operand may meet a bf16 one, the result is bf16 then */                       \
    X(GP_OP_ADD, "add")                                                                                                \
    X(GP_OP_SUB, "sub")                                                                                                \
    X(GP_OP_MUL, "mul")                                                                                                \
    X(GP_OP_DIV, "div")                                                                                                \
    /* gp_scale_attributes */                                                                                          \
    X(GP_OP_SCALE, "scale")                                                                                            \
    /* gp_cast_attributes */                                                                                           \
    X(GP_OP_CAST, "cast")                                                                                              \
    /* gp_activation_attributes; x -> y */                                                                             \
    X(GP_OP_ACTIVATION, "activation")                                                                                  \
    /* the same attributes; dy, and x (relu, gelu, silu) or y (sigmoid, tanh) -> dx */                                 \
    X(GP_OP_ACTIVATION_GRADIENT, "activation_gradient")                                                                \
    /* gp_norm_attributes; x[..., n], w f32[n], b f32[n]? -> y, mean f32[rows], rstd f32[rows]; variance is biased */  \
    X(GP_OP_LAYER_NORM, "layer_norm")                                                                                  \
    /* dy, x, w, mean, rstd -> dx */                                                                                   \
    X(GP_OP_LAYER_NORM_GRADIENT, "layer_norm_gradient")                                                                \
    /* dy, x, mean, rstd -> dw f32[n], db f32[n]; both accumulate */                                                   \
    X(GP_OP_LAYER_NORM_WEIGHT_GRADIENT, "layer_norm_weight_gradient")                                                  \
    /* gp_norm_attributes; x[..., n], w f32[n] -> y, rstd f32[rows] */                                                 \
    X(GP_OP_RMS_NORM, "rms_norm")                                                                                      \
    /* dy, x, w, rstd -> dx */                                                                                         \
    X(GP_OP_RMS_NORM_GRADIENT, "rms_norm_gradient")                                                                    \
    /* dy, x, rstd -> dw f32[n]; accumulates */                                                                        \
    X(GP_OP_RMS_NORM_WEIGHT_GRADIENT, "rms_norm_weight_gradient")                                                      \
    /* over the last dimension */                                                                                      \
    X(GP_OP_SOFTMAX, "softmax")                                                                                        \
    /* dy, y -> dx */                                                                                                  \
    X(GP_OP_SOFTMAX_GRADIENT, "softmax_gradient")                                                                      \
    /* gp_attention_attributes; qkv[b, t, 3c], mask i32[b, t]? (0: no row sees this column; needs full attention; a    \
     * sample that hides all has y = 0, lse = 0) -> y[b, t, c], lse f32[b, heads, t] (log of the sum of exponentials   \
     * of the scaled scores) */                                                                                        \
    X(GP_OP_ATTENTION, "attention")                                                                                    \
    /* dy, qkv, y, lse, mask? -> dqkv */                                                                               \
    X(GP_OP_ATTENTION_GRADIENT, "attention_gradient")                                                                  \
    /* gp_cast_attributes (dtype of y); table f32[n, width], indices i32[...] -> y[..., width]; checks the indices */  \
    X(GP_OP_EMBEDDING, "embedding")                                                                                    \
    /* gp_embedding_gradient_attributes; dy[..., width], indices -> dtable f32[n, width], rows added in the order of   \
     * the indices; accumulates */                                                                                     \
    X(GP_OP_EMBEDDING_GRADIENT, "embedding_gradient")                                                                  \
    /* gp_dropout_attributes; x[batch, ...] -> y; the gradient is the same operation on dy */                          \
    X(GP_OP_DROPOUT, "dropout")                                                                                        \
    /* no kernel: the same memory under another shape (reshape) or index (alias) */                                    \
    X(GP_OP_RESHAPE, "reshape")                                                                                        \
    X(GP_OP_ALIAS, "alias")                                                                                            \
    /* gp_transpose_attributes */                                                                                      \
    X(GP_OP_TRANSPOSE, "transpose")                                                                                    \
    /* gp_slice_attributes */                                                                                          \
    X(GP_OP_SLICE, "slice")                                                                                            \
    /* gp_slice_attributes; dy -> dx with size `length` along the axis, zero outside the slice */                      \
    X(GP_OP_SLICE_GRADIENT, "slice_gradient")                                                                          \
    /* gp_concatenate_attributes; 1..8 inputs */                                                                       \
    X(GP_OP_CONCATENATE, "concatenate")                                                                                \
    /* gp_shape_attributes (shape, dtype); sums over the dimensions that are 1 or missing in the shape; accumulates */ \
    X(GP_OP_REDUCE_TO, "reduce_to")                                                                                    \
    /* gp_shape_attributes; repeats along dimensions that are 1 or missing in x */                                     \
    X(GP_OP_BROADCAST_TO, "broadcast_to")                                                                              \
    /* gp_cross_entropy_options; logits[..., n], targets i32[...], weights f32[...]? -> loss f32[] (sum), lse          \
     * f32[rows]; a target outside 0..n-1 that is not the ignored one fails with GP_INVALID */                         \
    X(GP_OP_CROSS_ENTROPY, "cross_entropy")                                                                            \
    /* the same attributes; logits, targets, weights?, lse, dloss f32[] -> dlogits */                                  \
    X(GP_OP_CROSS_ENTROPY_GRADIENT, "cross_entropy_gradient")                                                          \
    /* x[batch, ...], target -> loss f32[]: sum over samples of the mean over elements */                              \
    X(GP_OP_SQUARED_ERROR, "squared_error")                                                                            \
    /* x, target, dloss f32[] -> dx */                                                                                 \
    X(GP_OP_SQUARED_ERROR_GRADIENT, "squared_error_gradient")                                                          \
    /* ---- images: x[n, h, w, c], channels last; geometry in gp_window_attributes ---- */                             \
    /* gp_convolution_attributes; x[n, h, w, in], weight f32[out, in / groups, kh, kw], bias f32[out]?                 \
     * -> y[n, oh, ow, out] */                                                                                         \
    X(GP_OP_CONVOLUTION, "convolution")                                                                                \
    /* the same attributes; dy[n, oh, ow, out], weight -> dx[n, h, w, in] */                                           \
    X(GP_OP_CONVOLUTION_INPUT_GRADIENT, "convolution_input_gradient")                                                  \
    /* the same attributes; dy, x -> dweight f32[out, in / groups, kh, kw]; accumulates */                             \
    X(GP_OP_CONVOLUTION_WEIGHT_GRADIENT, "convolution_weight_gradient")                                                \
    /* gp_window_attributes; x -> y[n, oh, ow, c], index u8[n, oh, ow, c]: row * kw + column, in the window, of the    \
     * first greatest element of those inside the image; a NaN is greater than anything */                             \
    X(GP_OP_MAX_POOL, "max_pool")                                                                                      \
    /* the same attributes; dy, index -> dx: adds what overlapping windows pick */                                     \
    X(GP_OP_MAX_POOL_GRADIENT, "max_pool_gradient")                                                                    \
    /* gp_window_attributes; x -> y: the mean over the elements of the window that are inside the image */             \
    X(GP_OP_AVERAGE_POOL, "average_pool")                                                                              \
    /* the same attributes; dy -> dx */                                                                                \
    X(GP_OP_AVERAGE_POOL_GRADIENT, "average_pool_gradient")                                                            \
    /* x[n, h, w, c] -> y[n, c] */                                                                                     \
    X(GP_OP_GLOBAL_AVERAGE_POOL, "global_average_pool")                                                                \
    /* gp_image_attributes; dy[n, c] -> dx[n, h, w, c] */                                                              \
    X(GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, "global_average_pool_gradient")                                              \
    /* gp_batch_norm_attributes; x[..., c], w f32[c], b f32[c] -> y, mean f32[c], variance f32[c] (biased) over the    \
     * rows; y = (x - mean) / sqrt(variance + epsilon) w + b, then max(0, y) with relu */                              \
    X(GP_OP_BATCH_NORM, "batch_norm")                                                                                  \
    /* the same attributes; dy, x, w, b, mean, variance -> dw f32[c], db f32[c]; with relu, dy counts where (x - mean) \
     * / sqrt(variance + epsilon) w + b > 0, found again in f32; both accumulate. Also of batch_norm_inference */      \
    X(GP_OP_BATCH_NORM_WEIGHT_GRADIENT, "batch_norm_weight_gradient")                                                  \
    /* the same attributes; dy, x, w, b, mean, variance, dw, db -> dx = w rstd (dy - db / rows - h dw / rows), h = (x  \
     * - mean) rstd; dw and db are those of these rows alone, from the operation above */                              \
    X(GP_OP_BATCH_NORM_GRADIENT, "batch_norm_gradient")                                                                \
    /* the same attributes; x, w, b, mean f32[c], variance f32[c] (given) -> y */                                      \
    X(GP_OP_BATCH_NORM_INFERENCE, "batch_norm_inference")                                                              \
    /* the same attributes; dy, x, w, b, mean, variance -> dx = w rstd dy */                                           \
    X(GP_OP_BATCH_NORM_INFERENCE_GRADIENT, "batch_norm_inference_gradient")                                            \
    /* gp_pad_attributes; x -> y with `before` more elements at the front and `after` at the end of each dimension,    \
     * zeros; negative ones cut off */                                                                                 \
    X(GP_OP_PAD, "pad")                                                                                                \
    /* gp_upsample_attributes; x[n, h, w, c] -> y[n, h rows, w columns, c], every pixel repeated */                    \
    X(GP_OP_UPSAMPLE, "upsample")                                                                                      \
    /* the same attributes; dy -> dx: the sum over the copies of a pixel */                                            \
    X(GP_OP_UPSAMPLE_GRADIENT, "upsample_gradient")                                                                    \
    /* gp_drop_path_attributes; x[n, ...] -> y = x or 0 by sample, times 1 / (1 - p); the gradient is the same         \
     * operation on dy */                                                                                              \
    X(GP_OP_DROP_PATH, "drop_path")                                                                                    \
    /* x[n, ..., c], s[n, c] -> y = x s */                                                                             \
    X(GP_OP_CHANNEL_SCALE, "channel_scale")                                                                            \
    /* dy, x -> ds[n, c], the sum of dy x over a sample's pixels */                                                    \
    X(GP_OP_CHANNEL_SCALE_GRADIENT, "channel_scale_gradient")                                                          \
    /* inserted by programs only: x (f32 or bf16) -> y f32 += x; always accumulates */                                 \
    X(GP_OP_ACCUMULATE, "accumulate")

typedef enum gp_op_id {
#define GP_OP_ENUM(id, name) id,
    GP_OPS(GP_OP_ENUM)
#undef GP_OP_ENUM
        GP_OP_CUSTOM,
    GP_OP_COUNT
} gp_op_id;

typedef struct gp_scale_attributes {
    double factor;
} gp_scale_attributes;

typedef struct gp_cast_attributes {
    gp_dtype dtype;
} gp_cast_attributes;

typedef enum gp_activation_kind { GP_RELU, GP_GELU_TANH, GP_GELU_ERF, GP_SILU, GP_SIGMOID, GP_TANH } gp_activation_kind;

typedef struct gp_activation_attributes {
    gp_activation_kind kind;
} gp_activation_attributes;

typedef struct gp_norm_attributes {
    double epsilon;
} gp_norm_attributes;

/* Dropout of probabilities: element (head * t + row) * t + column of its sample; see base/random.h. */
typedef struct gp_attention_attributes {
    int64_t heads;
    bool causal;
    double dropout; /* 0 when the graph is built for inference */
    double scale;   /* resolved, never 0 */
    uint32_t use;
} gp_attention_attributes;

typedef struct gp_embedding_gradient_attributes {
    int64_t rows;
} gp_embedding_gradient_attributes;

/* Element e of a sample is counted within the sample (all dimensions but the first); see base/random.h. */
typedef struct gp_dropout_attributes {
    double p;
    uint32_t use;
} gp_dropout_attributes;

typedef struct gp_transpose_attributes {
    int order[GP_MAX_RANK];
} gp_transpose_attributes;

typedef struct gp_slice_attributes {
    int axis; /* 0..rank-1 */
    int64_t begin, end;
    int64_t length; /* of the axis before the slice */
} gp_slice_attributes;

typedef struct gp_concatenate_attributes {
    int axis;
} gp_concatenate_attributes;

typedef struct gp_shape_attributes {
    gp_shape shape;
    gp_dtype dtype; /* of the result */
} gp_shape_attributes;

/* How a window moves over an image, everything resolved; [0] is along the height, [1] along the width. Window (i, j)
 * has element (r, s) at row i stride - before + r dilation; what lies outside the image is padding (0 in a convolution,
 * not there in pooling). None of the fields is negative. There are (image + before + after - extent) / stride + 1
 * windows along each axis, rounded down, with extent = (kernel - 1) dilation + 1. */
typedef struct gp_window_attributes {
    int64_t kernel[2], stride[2], dilation[2]; /* dilation is 1 in pooling */
    int64_t before[2], after[2];
    int64_t image[2]; /* height and width of x: what a gradient cannot tell from dy */
} gp_window_attributes;

typedef struct gp_convolution_attributes {
    gp_window_attributes window;
    int64_t groups; /* output channels o of group g = o / (out / groups) see input channels of group g alone */
} gp_convolution_attributes;

typedef struct gp_image_attributes {
    int64_t height, width;
} gp_image_attributes;

typedef struct gp_batch_norm_attributes {
    double epsilon;
    bool relu;
} gp_batch_norm_attributes;

typedef struct gp_pad_attributes {
    int64_t before[GP_MAX_RANK], after[GP_MAX_RANK];
} gp_pad_attributes;

typedef struct gp_upsample_attributes {
    int64_t rows, columns;
} gp_upsample_attributes;

/* The word of a sample is that of its element 0; see base/random.h. The rate of this run is p, or p times the share of
 * the training that is done (gp_run.progress) when it is scheduled. */
typedef struct gp_drop_path_attributes {
    double p;
    uint32_t use;
    bool scheduled;
} gp_drop_path_attributes;

/* The class of a built-in operation (infer, gradient, flops, in_place; no kernel: devices have those). */
const gp_op_class *gp_op_class_of(gp_op_id id);
/* The id of a class; GP_OP_CUSTOM when it is not a built-in one. */
gp_op_id gp_op_id_of(const gp_op_class *op);
const char *gp_op_name(gp_op_id id);
/* Bit i: kernels can add into output i (see the table above). */
uint32_t gp_op_accumulates(gp_op_id id);

#endif
