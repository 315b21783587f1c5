/* Kernels made of loops: what their files (kernel_*.c) share.
 *
 * A kernel is a number of items (elements, rows, columns) and a function that does a part of them; gp_cpu_for cuts the
 * items between threads. Results do not depend on the cut: a part computes each of its items whole, in its own order.
 */
#ifndef GP_DEVICE_CPU_KERNEL_H
#define GP_DEVICE_CPU_KERNEL_H

#include "device/cpu/loops.h"

typedef struct gp_cpu_kernel gp_cpu_kernel;

/* One run of a kernel, as its part function sees it. */
typedef struct gp_cpu_call {
    const gp_cpu_kernel *kernel;
    const void *const *inputs;
    void *const *outputs;
    void *workspace;
    const gp_run *run;
} gp_cpu_call;

typedef void gp_cpu_part(const gp_cpu_call *call, int64_t begin, int64_t end);

/* How operands are walked along a contiguous result: dimensions that can be are merged, at least one remains. */
typedef struct gp_cpu_walk {
    int rank;
    int64_t dims[GP_MAX_RANK];
    int64_t strides[2][GP_MAX_RANK]; /* of up to two operands, in elements; 0 along repeated dimensions */
} gp_cpu_walk;

typedef union gp_cpu_attributes {
    gp_scale_attributes scale;
    gp_activation_attributes activation;
    gp_norm_attributes norm;
    gp_dropout_attributes dropout;
    gp_transpose_attributes transpose;
    gp_slice_attributes slice;
    gp_concatenate_attributes concatenate;
    gp_cross_entropy_options cross_entropy;
    gp_window_attributes window;
    gp_convolution_attributes convolution;
    gp_image_attributes image;
    gp_batch_norm_attributes batch_norm;
    gp_pad_attributes pad;
    gp_upsample_attributes upsample;
    gp_drop_path_attributes drop_path;
} gp_cpu_attributes;

struct gp_cpu_kernel {
    gp_kernel kernel; /* first, so that a gp_kernel is a gp_cpu_kernel */
    const gp_cpu_loops *loops;
    int threads;
    gp_op_id id;
    int input_count, output_count;
    gp_type inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS];
    gp_cpu_attributes attributes;
    uint32_t accumulate;

    gp_cpu_part *part;
    gp_status (*check)(const gp_cpu_call *call); /* of the data, and what prepares the parts; NULL: none */
    void (*finish)(const gp_cpu_call *call);     /* after the parts, in this thread; NULL: none */
    int64_t items, grain;                        /* a part begins at a multiple of grain */
    int64_t rows, columns;                       /* of what the part works on; which, says the kernel's file */
    union {
        gp_cpu_walk walk;
        struct {
            int64_t outer, sum;
            gp_cpu_walk kept, summed;
        } reduce;
        struct {
            int64_t width, group_rows, groups;
        } batch;
        struct {
            int64_t small[2];   /* height and width of the image that windows make of the large one */
            int64_t entries[2]; /* rows and columns of which windows are looked up */
        } window;
    } plan;
};

/* Cuts `count` items into parts of whole grains and does them, in this thread or in up to `threads`. */
void gp_cpu_for(int threads, int64_t count, int64_t grain, const gp_cpu_call *call, gp_cpu_part *part);

/* A kernel that copies the description and runs `part` over `items`. Elements, rows: the items that the work is cut
 * into are given by the caller afterwards. */
gp_status gp_cpu_kernel_create(const gp_cpu_device *device, const gp_kernel_desc *desc, gp_cpu_kernel **kernel);
/* Sets part, items and a grain that makes a part worth a thread: `cost` is the number of elements behind one item. */
void gp_cpu_kernel_cut(gp_cpu_kernel *kernel, gp_cpu_part *part, int64_t items, int64_t cost);
/* The same where an item is a column: parts begin at multiples of 64 columns. */
void gp_cpu_kernel_cut_columns(gp_cpu_kernel *kernel, gp_cpu_part *part, int64_t columns, int64_t cost);

/* Checks of a description; GP_INVALID with a sentence that names operation and types. */
gp_status gp_cpu_check(bool fits, const gp_kernel_desc *desc);
bool gp_cpu_is_float(gp_type type); /* f32 or bf16 */
bool gp_cpu_is_present(gp_type type);

/* The address of element i of data of a dtype. */
const void *gp_cpu_from(gp_dtype dtype, const void *data, int64_t i);
void *gp_cpu_to(gp_dtype dtype, void *data, int64_t i);

/* The last dimension; 1 for a scalar. And the number of rows of that length. */
int64_t gp_cpu_columns(gp_shape shape);
int64_t gp_cpu_rows(gp_shape shape);

/* Merged dimensions of `shape` with the strides of one or two operands whose shapes broadcast to it. */
void gp_cpu_walk_set(gp_cpu_walk *walk, gp_shape shape, const gp_shape *operands, int operand_count);

/* A place in a walk: a row of the innermost dimension. */
typedef struct gp_cpu_cursor {
    int64_t index[GP_MAX_RANK];
    int64_t offset[2]; /* of the operands, at the row's start */
} gp_cpu_cursor;

void gp_cpu_cursor_set(gp_cpu_cursor *cursor, const gp_cpu_walk *walk, int64_t row);
void gp_cpu_cursor_next(gp_cpu_cursor *cursor, const gp_cpu_walk *walk);

/* Creators by family, each in its file; they fill a kernel made by gp_cpu_kernel_create. */
typedef gp_status gp_cpu_setup(gp_cpu_kernel *kernel, const gp_kernel_desc *desc);
gp_cpu_setup gp_cpu_setup_binary, gp_cpu_setup_scale, gp_cpu_setup_cast, gp_cpu_setup_activation,
    gp_cpu_setup_activation_gradient, gp_cpu_setup_dropout, gp_cpu_setup_broadcast, gp_cpu_setup_accumulate;
gp_cpu_setup gp_cpu_setup_layer_norm, gp_cpu_setup_layer_norm_gradient, gp_cpu_setup_layer_norm_weight_gradient,
    gp_cpu_setup_rms_norm, gp_cpu_setup_rms_norm_gradient, gp_cpu_setup_rms_norm_weight_gradient, gp_cpu_setup_softmax,
    gp_cpu_setup_softmax_gradient;
gp_cpu_setup gp_cpu_setup_embedding, gp_cpu_setup_embedding_gradient;
gp_cpu_setup gp_cpu_setup_transpose, gp_cpu_setup_slice, gp_cpu_setup_slice_gradient, gp_cpu_setup_concatenate;
gp_cpu_setup gp_cpu_setup_reduce;
gp_cpu_setup gp_cpu_setup_batch_norm, gp_cpu_setup_max_pool, gp_cpu_setup_max_pool_gradient, gp_cpu_setup_window_sum,
    gp_cpu_setup_window_spread;
gp_cpu_setup gp_cpu_setup_depthwise; /* of a convolution that has been checked */
gp_cpu_setup gp_cpu_setup_pad, gp_cpu_setup_upsample, gp_cpu_setup_drop_path, gp_cpu_setup_channel_scale,
    gp_cpu_setup_channel_scale_gradient;
gp_cpu_setup gp_cpu_setup_cross_entropy, gp_cpu_setup_cross_entropy_gradient, gp_cpu_setup_squared_error,
    gp_cpu_setup_squared_error_gradient;

#endif
