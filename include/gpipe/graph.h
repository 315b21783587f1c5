/* Values and operations: how a layer's forward is written.
 *
 * A gp_value is the symbolic result of an operation; nothing is computed while a graph is built. Building cannot fail
 * line by line: an operation whose shapes do not fit returns an invalid value, an operation on an invalid value is
 * invalid too, the first error is kept in the graph and is reported once, when the layer is added (with the layer's
 * name, the operation and the shapes).
 *
 * Dimension 0 of every activation is the batch (the samples of a micro-batch). Element types: activations are f32 or
 * bf16 ("compute dtype"), indices are i32, parameters are f32 whatever the compute dtype: a device keeps copies of them
 * in the form that its kernels want. A graph is used by one thread at a time. */
#ifndef GPIPE_GRAPH_H
#define GPIPE_GRAPH_H

#include "gpipe/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gp_graph gp_graph;

/* A value of a graph; copied freely. index < 0: invalid. */
typedef struct gp_value {
    gp_graph *graph;
    int32_t index;
} gp_value;

GP_API bool gp_value_valid(gp_value value);
/* The type of a value; a scalar of f32 for an invalid one. */
GP_API gp_type gp_value_type(gp_value value);

/* ---- products ---- */

/* x[..., in] times weight[out, in] transposed, plus bias[out] (may be an invalid value made by gp_none()):
 * y[..., out]. Weight and bias are f32 (parameters); y has x's dtype. */
GP_API gp_value gp_linear(gp_value x, gp_value weight, gp_value bias);

typedef struct gp_matmul_options {
    bool transpose_a, transpose_b; /* swap the last two dimensions before the product */
} gp_matmul_options;

/* Batched matrix product a[..., n, k] b[..., k, m] -> [..., n, m]. Leading dimensions broadcast as in NumPy; both rank
 * >= 2, same dtype. `options` may be NULL. */
GP_API gp_value gp_matmul(gp_value a, gp_value b, const gp_matmul_options *options);

/* ---- element by element; shapes broadcast as in NumPy; dtypes are equal, except that an f32 operand (a parameter) may
 * meet a bf16 one: the result is bf16 ---- */
GP_API gp_value gp_add(gp_value a, gp_value b);
GP_API gp_value gp_sub(gp_value a, gp_value b);
GP_API gp_value gp_mul(gp_value a, gp_value b);
GP_API gp_value gp_div(gp_value a, gp_value b);
/* x * factor */
GP_API gp_value gp_scale(gp_value x, double factor);
/* x[..., n] + bias[n] */
GP_API gp_value gp_bias(gp_value x, gp_value bias);
/* Converts to another floating dtype. */
GP_API gp_value gp_cast(gp_value x, gp_dtype dtype);

/* ---- activations ---- */
GP_API gp_value gp_relu(gp_value x);
GP_API gp_value gp_gelu_tanh(gp_value x); /* Hendrycks & Gimpel, arXiv 1606.08415, tanh form (GPT-2's) */
GP_API gp_value gp_gelu_erf(gp_value x);  /* the exact form */
GP_API gp_value gp_silu(gp_value x);
GP_API gp_value gp_sigmoid(gp_value x);
GP_API gp_value gp_tanh(gp_value x);

/* ---- normalisation and softmax, over the last dimension; statistics in f32 ---- */
/* Ba et al., arXiv 1607.06450; weight[n], bias[n] f32; bias may be gp_none(). */
GP_API gp_value gp_layer_norm(gp_value x, gp_value weight, gp_value bias, double epsilon);
/* Zhang & Sennrich, arXiv 1910.07467 */
GP_API gp_value gp_rms_norm(gp_value x, gp_value weight, double epsilon);
GP_API gp_value gp_softmax(gp_value x);

/* ---- attention and embedding ---- */
typedef struct gp_attention_options {
    int heads;      /* divides the width */
    bool full;      /* false: causal, position i sees positions <= i; true: every position sees all */
    double dropout; /* on the probabilities; counted random numbers, only in training */
    double scale;   /* 0: 1/sqrt(width of a head) */
} gp_attention_options;

/* Multi-head attention, fused: qkv[batch, time, 3 * width] (query, key, value side by side, each split into heads) ->
 * [batch, time, width]. Vaswani et al., arXiv 1706.03762. */
GP_API gp_value gp_attention(gp_value qkv, const gp_attention_options *options);
/* The same for sequences with padding: mask i32[batch, time], and no position sees one where it is 0. Needs full
 * attention. A sample without any other position gives 0. `mask` may be gp_none(). */
GP_API gp_value gp_attention_masked(gp_value qkv, gp_value mask, const gp_attention_options *options);

/* Rows of table[n, width] (f32) picked by indices (i32, any shape) -> [indices..., width] of `dtype`. An index outside
 * 0..n-1 makes the running kernel fail with GP_INVALID. */
GP_API gp_value gp_embedding(gp_value table, gp_value indices, gp_dtype dtype);

/* Inverted dropout (Srivastava et al. 2014): zero with probability p, else x / (1 - p). The mask comes from counted
 * random numbers keyed by (seed, step, sample of the mini-batch, layer, use): the same whatever the partitioning, the
 * number of micro-batches and recomputation. The identity when p is 0 or the graph is built for inference. */
GP_API gp_value gp_dropout(gp_value x, double p);

/* ---- shape ---- */
/* Same elements in the same order, another shape; one dimension may be -1. */
GP_API gp_value gp_reshape(gp_value x, gp_shape shape);
/* Dimensions in another order: result dimension i is x's dimension order[i]. `order` has rank entries. */
GP_API gp_value gp_transpose(gp_value x, const int *order);
/* Elements begin..end-1 along `axis` (negative: from the last). */
GP_API gp_value gp_slice(gp_value x, int axis, int64_t begin, int64_t end);
/* 1 to GP_MAX_OPERANDS values that agree in all but the size along `axis`, one behind the other. */
GP_API gp_value gp_concatenate(const gp_value *values, size_t count, int axis);
/* Sum or mean along `axis` (kept as dimension 1 when `keep`). */
GP_API gp_value gp_sum(gp_value x, int axis, bool keep);
GP_API gp_value gp_mean(gp_value x, int axis, bool keep);

/* ---- images: x[batch, height, width, channels], channels last. Pairs are {along the height, along the width} ---- */

/* What lies around an image while a window moves over it. */
typedef enum gp_padding {
    GP_PADDING_VALID,   /* nothing: windows stay inside */
    GP_PADDING_SAME,    /* TensorFlow's SAME: ceil(size / stride) windows; an odd rest goes to the end (bottom, right).
                         * For stride 1 and odd kernels that is kernel / 2 on both sides, as elsewhere; for stride 2 it
                         * differs from PyTorch's padding = kernel / 2, which is GP_PADDING_EXPLICIT {k / 2, k / 2} */
    GP_PADDING_EXPLICIT /* `before` (top, left) and `after` (bottom, right) */
} gp_padding;

typedef struct gp_convolution_options {
    int64_t stride[2], dilation[2]; /* 0: 1 */
    int64_t groups;                 /* 0: 1; divides input and output channels; input channels: depthwise */
    gp_padding padding;
    int64_t before[2], after[2]; /* with GP_PADDING_EXPLICIT: 0 or more */
} gp_convolution_options;

/* Convolution (the cross-correlation of deep learning): x[n, h, w, in], weight[out, in / groups, kh, kw] in PyTorch's
 * order of dimensions (f32, a parameter; what files of others hold), bias[out] or gp_none() -> y[n, oh, ow, out] with
 * oh = (h + before + after - ((kh - 1) dilation + 1)) / stride + 1, rounded down. Padding is zeros. `options` may be
 * NULL. */
GP_API gp_value gp_convolution(gp_value x, gp_value weight, gp_value bias, const gp_convolution_options *options);

typedef struct gp_pool_options {
    int64_t kernel[2]; /* required; at most 256 elements for the maximum */
    int64_t stride[2]; /* 0: the kernel's size */
    gp_padding padding;
    int64_t before[2], after[2]; /* with GP_PADDING_EXPLICIT; each less than the kernel */
    bool ceil;                   /* a last window that begins inside the image (or the padding before it) but ends
                                  * behind it counts too (PyTorch's ceil_mode) */
} gp_pool_options;

/* The greatest element of each window, channel by channel; padding never counts. x[n, h, w, c] -> y[n, oh, ow, c]. The
 * gradient goes to the first greatest element, row by row. */
GP_API gp_value gp_max_pool(gp_value x, const gp_pool_options *options);
/* The mean of the elements of each window that lie inside the image: padding does not count (PyTorch's
 * count_include_pad = False, and TensorFlow's way). */
GP_API gp_value gp_average_pool(gp_value x, const gp_pool_options *options);
/* The mean over all pixels: x[n, h, w, c] -> y[n, c]. */
GP_API gp_value gp_global_average_pool(gp_value x);

typedef struct gp_batch_norm_options {
    double epsilon; /* added to the variance */
    bool relu;      /* y = max(0, y) in the same pass: a rectifier of its own costs more memory traffic */
} gp_batch_norm_options;

/* Batch norm (Ioffe & Szegedy, arXiv 1502.03167) in its training form, over all dimensions but the last: x[..., c],
 * weight[c] and bias[c] f32 -> y. Statistics are those of the micro-batch; the variance is the biased one (divided by
 * the number of rows). `mean` and `variance` (f32[c], may be NULL) receive them as values without gradient, for a
 * layer's moving averages (gp_layer_statistics). */
GP_API gp_value gp_batch_norm(gp_value x, gp_value weight, gp_value bias, const gp_batch_norm_options *options,
                              gp_value *mean, gp_value *variance);
/* The form of evaluation: the same with a given mean[c] and variance[c] (f32; they get no gradient). */
GP_API gp_value gp_batch_norm_inference(gp_value x, gp_value weight, gp_value bias, gp_value mean, gp_value variance,
                                        const gp_batch_norm_options *options);

/* Zeros around: dimension i grows by before[i] at its front and after[i] at its end (rank entries each, those of
 * dimension 0, the batch, are 0); negative numbers cut off. */
GP_API gp_value gp_pad(gp_value x, const int64_t *before, const int64_t *after);
/* x[n, h, w, c] moved up by `rows` and left by `columns` pixels (negative: down and right), zeros where nothing comes
 * from: y[n, i, j, c] = x[n, i + rows, j + columns, c]. */
GP_API gp_value gp_pixel_shift(gp_value x, int64_t rows, int64_t columns);
/* Each pixel repeated rows x columns times (nearest neighbour). */
GP_API gp_value gp_upsample(gp_value x, int64_t rows, int64_t columns);

/* Drop-path (Larsson et al., arXiv 1605.07648; stochastic depth, Huang et al., arXiv 1603.09382): a whole sample of x
 * becomes zero with probability p, else x / (1 - p). Counted random numbers, as in gp_dropout. `scheduled`: the
 * probability grows linearly over the training, p * step / steps (Zoph et al., arXiv 1707.07012), and is 0 in the first
 * step. The identity when p is 0 or the graph is built for inference. */
GP_API gp_value gp_drop_path(gp_value x, double p, bool scheduled);
/* x[n, ..., c] times scale[n, c], every pixel of a sample alike (squeeze-and-excitation, Hu et al., arXiv 1709.01507).
 */
GP_API gp_value gp_channel_scale(gp_value x, gp_value scale);

/* ---- losses: the SUM over the micro-batch as an f32 scalar; the engine divides by the weight of the whole mini-batch,
 * so that the loss is its mean however it was split ---- */
typedef struct gp_cross_entropy_options {
    double label_smoothing; /* Szegedy et al., arXiv 1512.00567: (1 - s) on the target, s / classes on all */
    bool has_ignored;       /* rows whose target is `ignored` count nothing */
    int32_t ignored;
} gp_cross_entropy_options;

/* logits[..., classes], targets i32[...], weights f32[...] (gp_none(): all 1) -> scalar. Softmax and logarithm fused.
 */
GP_API gp_value gp_cross_entropy(gp_value logits, gp_value targets, gp_value weights,
                                 const gp_cross_entropy_options *options);
/* Sum over samples of the mean over a sample's elements of (x - target)^2. x and target: same shape, batch first. */
GP_API gp_value gp_squared_error(gp_value x, gp_value target);

/* No value: for optional operands. */
GP_API gp_value gp_none(void);

/* ---- a user's own operation ---- */

/* What an operation is asked about or given at one call. All pointers belong to the caller and live for the call. */
typedef struct gp_op_call {
    const void *attributes; /* the operation's own, as given to gp_op_apply */
    const gp_type *inputs;
    size_t input_count;
    const gp_type *outputs; /* NULL while the outputs are being inferred */
    size_t output_count;
} gp_op_call;

/* Memory of one kernel call on the host. Tensors are contiguous. The data of an absent optional input is NULL. */
typedef struct gp_op_data {
    const void *const *inputs;
    void *const *outputs;
} gp_op_data;

/* Handed to a gradient rule: the node's values and the gradients of its outputs. */
typedef struct gp_op_gradient {
    const void *attributes;
    const gp_value *inputs;
    size_t input_count;
    const gp_value *outputs;
    size_t output_count;
    const gp_value *output_gradients; /* invalid where nothing depends on that output */
    gp_value *input_gradients;        /* to fill; preset to gp_none(): no gradient */
    const bool *wanted;               /* per input: whether its gradient is needed at all */
} gp_op_gradient;

/* A class of operations: a constant that outlives every graph that uses it. */
typedef struct gp_op_class {
    size_t size; /* sizeof(gp_op_class) */
    const char *name;
    size_t attributes_size; /* copied into the graph when the operation is applied */

    /* Required. Checks the inputs and fills `outputs` (output_count of `call` entries). Pure. Errors: GP_INVALID
     * through gp_error(). */
    gp_status (*infer)(const gp_op_call *call, gp_type *outputs);

    /* Optional: without it the operation cannot be differentiated. Writes further operations into the same graph. */
    gp_status (*gradient)(const gp_op_gradient *gradient);

    /* Required for a user's operation: computes the outputs in f32 (floating dtypes other than f32 are converted around
     * it). Must be deterministic and thread-safe. An error stops the step and is reported with stage, micro-batch and
     * layer. */
    gp_status (*kernel)(const gp_op_call *call, const gp_op_data *data);

    /* Optional: the same in double precision, for the reference device (where floating data is f64); without it that
     * device converts to f32 and calls `kernel`. */
    gp_status (*reference)(const gp_op_call *call, const gp_op_data *data);

    /* Optional: floating-point operations of one call; default: one per output element. */
    double (*flops)(const gp_op_call *call);

    /* Bit i: output 0 may be written over input i (same bytes), as the kernel reads an element before it writes it. */
    uint32_t in_place;
} gp_op_class;

enum { GP_MAX_OPERANDS = 8 };

/* Applies a class of operations. `attributes` (may be NULL when attributes_size is 0) is copied. At most
 * GP_MAX_OPERANDS inputs and outputs. `outputs` receives output_count values, all invalid on error. */
GP_API void gp_op_apply(const gp_op_class *op, const void *attributes, const gp_value *inputs, size_t input_count,
                        gp_value *outputs, size_t output_count);

#ifdef __cplusplus
}
#endif
#endif
