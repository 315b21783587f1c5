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

static inline dnnl_status_t gp_post_ops_add(dnnl_post_ops_t post_ops) {
    return dnnl_post_ops_append_sum(post_ops, 1.0f);
}

#endif

/* A gp_status for a oneDNN one, with a sentence that begins with `what`. */
gp_status gp_onednn_status(dnnl_status_t status, const char *what);

#endif
