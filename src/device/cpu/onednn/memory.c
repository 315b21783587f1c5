/* What primitives of every kind have in common: attributes, running, packing into another layout, and the key of a
 * layout. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/onednn/api.h"

/* ---- attributes ---- */

static gp_status set_attributes(dnnl_primitive_attr_t attributes, dnnl_post_ops_t post_ops, bool accumulate) {
    const char *what = "attributes of a primitive";
    TRY_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), what);
    if (accumulate) {
        TRY_ONEDNN(gp_post_ops_add(post_ops), what);
        TRY_ONEDNN(dnnl_primitive_attr_set_post_ops(attributes, post_ops), what);
    }
    return GP_OK;
}

gp_status gp_onednn_attributes_create(dnnl_primitive_attr_t *attributes, bool accumulate) {
    dnnl_post_ops_t post_ops = NULL;
    *attributes = NULL;
    gp_status status = gp_onednn_status(dnnl_primitive_attr_create(attributes), "attributes");
    if (status == GP_OK) status = gp_onednn_status(dnnl_post_ops_create(&post_ops), "attributes");
    if (status == GP_OK) status = set_attributes(*attributes, post_ops, accumulate);
    if (post_ops) dnnl_post_ops_destroy(post_ops);
    if (status != GP_OK && *attributes) dnnl_primitive_attr_destroy(*attributes);
    return status;
}

/* ---- running ---- */

gp_status gp_onednn_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, const gp_onednn_argument *arguments,
                            int count, const char *what) {
    dnnl_exec_arg_t given[GP_ONEDNN_ARGUMENTS];
    int used = 0;
    for (int i = 0; i < count && i < GP_ONEDNN_ARGUMENTS; i++) {
        if (!arguments[i].memory) continue;
        void *handle;
        memcpy(&handle, &arguments[i].data, sizeof handle); /* oneDNN takes what it only reads without const */
        TRY_ONEDNN(dnnl_memory_set_data_handle(arguments[i].memory, handle), what);
        given[used++] = (dnnl_exec_arg_t){arguments[i].name, arguments[i].memory};
    }
    TRY_ONEDNN(dnnl_primitive_execute(primitive, stream, used, given), what);
    return gp_onednn_status(dnnl_stream_wait(stream), what);
}

/* ---- packing ---- */

gp_status gp_onednn_reorder_create(gp_onednn_reorder *r, dnnl_engine_t engine, gp_memory_desc_view from,
                                   gp_memory_desc_view to, bool accumulate) {
    const char *what = "copy into another layout";
    dnnl_primitive_attr_t attributes = NULL;
    GP_TRY(gp_onednn_attributes_create(&attributes, accumulate));
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&r->desc, from, engine, to, engine, attributes);
    dnnl_primitive_attr_destroy(attributes);
    TRY_ONEDNN(status, what);
    gp_memory_desc_view scratchpad = dnnl_primitive_desc_query_md(r->desc, dnnl_query_scratchpad_md, 0);
    if (dnnl_memory_desc_get_size(scratchpad) > 0)
        return gp_error(GP_INVALID, "%s: oneDNN needs memory for this layout", what);
    TRY_ONEDNN(dnnl_primitive_create(&r->primitive, r->desc), what);
    TRY_ONEDNN(dnnl_memory_create(&r->from, from, engine, DNNL_MEMORY_NONE), what);
    return gp_onednn_status(dnnl_memory_create(&r->to, to, engine, DNNL_MEMORY_NONE), what);
}

void gp_onednn_reorder_destroy(gp_onednn_reorder *r) {
    if (r->to) dnnl_memory_destroy(r->to);
    if (r->from) dnnl_memory_destroy(r->from);
    if (r->primitive) dnnl_primitive_destroy(r->primitive);
    if (r->desc) dnnl_primitive_desc_destroy(r->desc);
}

gp_status gp_onednn_reorder_run(const gp_onednn_reorder *r, dnnl_stream_t stream, const void *from, void *to) {
    gp_onednn_argument arguments[] = {{DNNL_ARG_FROM, r->from, from}, {DNNL_ARG_TO, r->to, to}};
    return gp_onednn_execute(r->primitive, stream, arguments, 2, "copy into another layout");
}

/* ---- keys ---- */

/* FNV-1a over what tells layouts apart. */
static uint64_t hash(uint64_t state, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        state = (state ^ byte[i]) * 0x100000001B3u;
    }
    return state;
}

static uint64_t layout_hash(gp_memory_desc_view view) {
    uint64_t state = 0xCBF29CE484222325u;
#if DNNL_VERSION_MAJOR >= 3
    int rank = 0, blocks = 0;
    dnnl_data_type_t type = dnnl_data_type_undef;
    const dnnl_dims_t *dims = NULL, *strides = NULL, *sizes = NULL, *indices = NULL;
    dnnl_memory_desc_query(view, dnnl_query_ndims_s32, &rank);
    dnnl_memory_desc_query(view, dnnl_query_data_type, &type);
    dnnl_memory_desc_query(view, dnnl_query_dims, &dims);
    dnnl_memory_desc_query(view, dnnl_query_strides, &strides);
    dnnl_memory_desc_query(view, dnnl_query_inner_nblks_s32, &blocks);
    dnnl_memory_desc_query(view, dnnl_query_inner_blks, &sizes);
    dnnl_memory_desc_query(view, dnnl_query_inner_idxs, &indices);
    state = hash(state, &type, sizeof type);
    state = hash(state, *dims, (size_t)rank * sizeof(dnnl_dim_t));
    state = hash(state, *strides, (size_t)rank * sizeof(dnnl_dim_t));
    state = hash(state, *sizes, (size_t)blocks * sizeof(dnnl_dim_t));
    return hash(state, *indices, (size_t)blocks * sizeof(dnnl_dim_t));
#else
    const dnnl_blocking_desc_t *blocking = &view->format_desc.blocking;
    size_t rank = (size_t)view->ndims, blocks = (size_t)blocking->inner_nblks;
    state = hash(state, &view->data_type, sizeof view->data_type);
    state = hash(state, view->dims, rank * sizeof view->dims[0]);
    state = hash(state, blocking->strides, rank * sizeof blocking->strides[0]);
    state = hash(state, blocking->inner_blks, blocks * sizeof blocking->inner_blks[0]);
    return hash(state, blocking->inner_idxs, blocks * sizeof blocking->inner_idxs[0]);
#endif
}

void gp_onednn_layout_key(gp_memory_desc_view view, char *key, size_t size) {
    snprintf(key, size, "onednn:%016" PRIx64, layout_hash(view));
}
