/* The differences between oneDNN 2 and 3, hidden behind one set of functions. Memory descriptors are structs in 2 and
 * handles in 3; primitives are described by an operation descriptor in 2 and at once in 3. */
#ifndef GP_DEVICE_CPU_ONEDNN_API_H
#define GP_DEVICE_CPU_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>

#include "gpipe/tensor.h"

/* Dimensions as oneDNN declares them: arrays of DNNL_MAX_NDIMS. */
static inline void gp_dims_set(dnnl_dims_t made, int rank, const int64_t *dims) {
    for (int i = 0; i < rank && i < GP_MAX_RANK; i++) {
        made[i] = dims[i];
    }
}

/* How a convolution moves, and by which algorithm; oneDNN counts a dilation of 1 as 0. */
typedef struct gp_convolution_moves {
    dnnl_alg_kind_t algorithm;
    dnnl_dims_t strides, dilations, before, after;
} gp_convolution_moves;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t gp_memory_desc;
typedef const_dnnl_memory_desc_t gp_memory_desc_view;

static inline gp_memory_desc_view gp_memory_desc_see(const gp_memory_desc *desc) {
    return *desc;
}

static inline dnnl_status_t gp_memory_desc_strided(gp_memory_desc *desc, int rank, const int64_t *dims,
                                                   dnnl_data_type_t type, const int64_t *strides) {
    dnnl_dims_t all_dims = {0}, all_strides = {0};
    gp_dims_set(all_dims, rank, dims);
    gp_dims_set(all_strides, rank, strides);
    return dnnl_memory_desc_create_with_strides(desc, rank, all_dims, type, all_strides);
}

static inline dnnl_status_t gp_memory_desc_any(gp_memory_desc *desc, int rank, const int64_t *dims,
                                               dnnl_data_type_t type) {
    dnnl_dims_t all_dims = {0};
    gp_dims_set(all_dims, rank, dims);
    return dnnl_memory_desc_create_with_tag(desc, rank, all_dims, type, dnnl_format_tag_any);
}

/* Whether a layout is one of strides and blocks, as gp_onednn_layout_key tells them apart. */
static inline bool gp_memory_desc_is_blocked(gp_memory_desc_view view) {
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    return dnnl_memory_desc_query(view, dnnl_query_format_kind, &kind) == dnnl_success && kind == dnnl_blocked;
}

static inline void gp_memory_desc_destroy(gp_memory_desc *desc) {
    if (*desc) dnnl_memory_desc_destroy(*desc);
    *desc = NULL;
}

static inline dnnl_status_t gp_matmul_describe(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
                                               const gp_memory_desc *a, const gp_memory_desc *b,
                                               const gp_memory_desc *bias, const gp_memory_desc *c,
                                               const_dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(made, engine, *a, *b, bias ? *bias : NULL, *c, attributes);
}

/* `next`: the implementation after the one that oneDNN would choose. */
static inline dnnl_status_t gp_convolution_describe(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
                                                    const gp_memory_desc *x, const gp_memory_desc *w,
                                                    const gp_memory_desc *bias, const gp_memory_desc *y,
                                                    const gp_convolution_moves *m, const_dnnl_primitive_attr_t a,
                                                    bool next) {
    dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
        made, engine, dnnl_forward_training, m->algorithm, *x, *w, bias ? *bias : NULL, *y, m->strides, m->dilations,
        m->before, m->after, a);
    return status == dnnl_success && next ? dnnl_primitive_desc_next_impl(*made) : status;
}

static inline dnnl_status_t
gp_convolution_describe_input_gradient(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const gp_memory_desc *x,
                                       const gp_memory_desc *w, const gp_memory_desc *y, const gp_convolution_moves *m,
                                       dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t a) {
    return dnnl_convolution_backward_data_primitive_desc_create(made, engine, m->algorithm, *x, *w, *y, m->strides,
                                                                m->dilations, m->before, m->after, hint, a);
}

static inline dnnl_status_t
gp_convolution_describe_weight_gradient(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const gp_memory_desc *x,
                                        const gp_memory_desc *w, const gp_memory_desc *y, const gp_convolution_moves *m,
                                        dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t a) {
    return dnnl_convolution_backward_weights_primitive_desc_create(
        made, engine, m->algorithm, *x, *w, NULL, *y, m->strides, m->dilations, m->before, m->after, hint, a);
}

static inline dnnl_status_t gp_post_ops_add(dnnl_post_ops_t post_ops) {
    return dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef);
}

#else

typedef dnnl_memory_desc_t gp_memory_desc;
typedef const dnnl_memory_desc_t *gp_memory_desc_view;

static inline gp_memory_desc_view gp_memory_desc_see(const gp_memory_desc *desc) {
    return desc;
}

static inline dnnl_status_t gp_memory_desc_strided(gp_memory_desc *desc, int rank, const int64_t *dims,
                                                   dnnl_data_type_t type, const int64_t *strides) {
    dnnl_dims_t all_dims = {0}, all_strides = {0};
    gp_dims_set(all_dims, rank, dims);
    gp_dims_set(all_strides, rank, strides);
    return dnnl_memory_desc_init_by_strides(desc, rank, all_dims, type, all_strides);
}

static inline dnnl_status_t gp_memory_desc_any(gp_memory_desc *desc, int rank, const int64_t *dims,
                                               dnnl_data_type_t type) {
    dnnl_dims_t all_dims = {0};
    gp_dims_set(all_dims, rank, dims);
    return dnnl_memory_desc_init_by_tag(desc, rank, all_dims, type, dnnl_format_tag_any);
}

static inline bool gp_memory_desc_is_blocked(gp_memory_desc_view view) {
    return view->format_kind == dnnl_blocked;
}

static inline void gp_memory_desc_destroy(gp_memory_desc *desc) {
    (void)desc;
}

static inline dnnl_status_t gp_matmul_describe(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
                                               const gp_memory_desc *a, const gp_memory_desc *b,
                                               const gp_memory_desc *bias, const gp_memory_desc *c,
                                               const_dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_matmul_desc_init(&operation, a, b, bias, c);
    return status == dnnl_success ? dnnl_primitive_desc_create(made, &operation, attributes, engine, NULL) : status;
}

static inline dnnl_status_t gp_convolution_describe(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
                                                    const gp_memory_desc *x, const gp_memory_desc *w,
                                                    const gp_memory_desc *bias, const gp_memory_desc *y,
                                                    const gp_convolution_moves *m, const_dnnl_primitive_attr_t a,
                                                    bool next) {
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_iterator_t iterator;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_training, m->algorithm, x, w, bias, y, m->strides, m->dilations, m->before, m->after);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_desc_iterator_create(&iterator, &operation, a, engine, NULL);
    if (status != dnnl_success) return status;
    if (next) status = dnnl_primitive_desc_iterator_next(iterator);
    if (status == dnnl_success) *made = dnnl_primitive_desc_iterator_fetch(iterator);
    dnnl_primitive_desc_iterator_destroy(iterator);
    return status;
}

static inline dnnl_status_t
gp_convolution_describe_input_gradient(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const gp_memory_desc *x,
                                       const gp_memory_desc *w, const gp_memory_desc *y, const gp_convolution_moves *m,
                                       dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t a) {
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, m->algorithm, x, w, y, m->strides, m->dilations, m->before, m->after);
    return status == dnnl_success ? dnnl_primitive_desc_create(made, &operation, a, engine, hint) : status;
}

static inline dnnl_status_t
gp_convolution_describe_weight_gradient(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const gp_memory_desc *x,
                                        const gp_memory_desc *w, const gp_memory_desc *y, const gp_convolution_moves *m,
                                        dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t a) {
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, m->algorithm, x, w, NULL, y, m->strides, m->dilations, m->before, m->after);
    return status == dnnl_success ? dnnl_primitive_desc_create(made, &operation, a, engine, hint) : status;
}

static inline dnnl_status_t gp_post_ops_add(dnnl_post_ops_t post_ops) {
    return dnnl_post_ops_append_sum(post_ops, 1.0f);
}

#endif

/* Creates an engine, and before the first one what all of them share. */
dnnl_status_t gp_onednn_engine(dnnl_engine_t *engine);
/* A gp_status for a oneDNN one, with a sentence that begins with `what`. */
gp_status gp_onednn_status(dnnl_status_t status, const char *what);
#define TRY_ONEDNN(call, what) GP_TRY(gp_onednn_status(call, what))

static inline dnnl_data_type_t gp_onednn_type(gp_dtype dtype) {
    return dtype == GP_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* ---- what primitives of every kind have in common: memory.c ---- */

/* Scratchpad by the caller; `accumulate`: results are added to what is there. */
gp_status gp_onednn_attributes_create(dnnl_primitive_attr_t *attributes, bool accumulate);

/* An operand of one run; it is left out when `memory` is NULL. */
typedef struct gp_onednn_argument {
    int name; /* DNNL_ARG_... */
    dnnl_memory_t memory;
    const void *data;
} gp_onednn_argument;

enum { GP_ONEDNN_ARGUMENTS = 8 };

/* Runs a primitive on at most GP_ONEDNN_ARGUMENTS operands and waits for it. */
gp_status gp_onednn_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, const gp_onednn_argument *arguments,
                            int count, const char *what);

/* A copy from one layout and dtype into another. One that was never made is all NULL. */
typedef struct gp_onednn_reorder {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t from, to;
} gp_onednn_reorder;

gp_status gp_onednn_reorder_create(gp_onednn_reorder *reorder, dnnl_engine_t engine, gp_memory_desc_view from,
                                   gp_memory_desc_view to, bool accumulate);
void gp_onednn_reorder_destroy(gp_onednn_reorder *reorder);
gp_status gp_onednn_reorder_run(const gp_onednn_reorder *reorder, dnnl_stream_t stream, const void *from, void *to);

/* A text that is equal for equal layouts of equal dtype. */
void gp_onednn_layout_key(gp_memory_desc_view view, char *key, size_t size);

#endif
