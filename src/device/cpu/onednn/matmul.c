/* Products as oneDNN primitives: bf16 where the processor has AMX. The scratchpad is the caller's, weights may be in
 * oneDNN's own blocked layout, so that its fastest kernel runs without repacking them in every call. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/onednn/api.h"
#include "device/cpu/onednn/onednn.h"

typedef enum argument { A, B, BIAS, C, SCRATCHPAD, ARGUMENTS } argument;

static const int argument_names[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                              DNNL_ARG_SCRATCHPAD};

struct gp_onednn_matmul {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    gp_memory_desc given[ARGUMENTS]; /* as described to oneDNN */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[ARGUMENTS]; /* NULL where there is no such argument */
    size_t workspace, packed_bytes;
    /* packing of B */
    gp_memory_desc plain;
    dnnl_primitive_desc_t pack_desc;
    dnnl_primitive_t pack;
    dnnl_memory_t pack_from, pack_to;
};

#define TRY_ONEDNN(call, what) GP_TRY(gp_onednn_status(call, what))

static dnnl_data_type_t type_of(gp_dtype dtype) {
    return dtype == GP_BF16 ? dnnl_bf16 : dnnl_f32;
}

static dnnl_status_t describe_plain(gp_memory_desc *made, int rank, const int64_t *dims, gp_dtype dtype,
                                    bool transposed) {
    int64_t strides[GP_MAX_RANK], stride = dims[rank - 2] * dims[rank - 1];
    for (int i = rank - 3; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
    strides[rank - 2] = transposed ? 1 : dims[rank - 1];
    strides[rank - 1] = transposed ? dims[rank - 2] : 1;
    return gp_memory_desc_strided(made, rank, dims, type_of(dtype), strides);
}

static dnnl_status_t describe_bias(gp_memory_desc *made, int rank, int64_t n) {
    int64_t dims[GP_MAX_RANK], strides[GP_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = i == rank - 1 ? n : 1;
        strides[i] = i == rank - 1 ? 1 : n;
    }
    return gp_memory_desc_strided(made, rank, dims, dnnl_f32, strides);
}

static gp_status describe_operands(gp_onednn_matmul *m, const gp_matmul_desc *d) {
    const char *what = "describing a product";
    TRY_ONEDNN(describe_plain(&m->given[A], d->rank, d->a, d->a_dtype, d->transpose_a), what);
    TRY_ONEDNN(describe_plain(&m->given[C], d->rank, d->c, d->c_dtype, false), what);
    if (d->packed) {
        TRY_ONEDNN(gp_memory_desc_any(&m->given[B], d->rank, d->b, type_of(d->b_dtype)), what);
        TRY_ONEDNN(describe_plain(&m->plain, d->rank, d->b, GP_F32, d->transpose_b), what);
    } else {
        TRY_ONEDNN(describe_plain(&m->given[B], d->rank, d->b, d->b_dtype, d->transpose_b), what);
    }
    if (d->bias) TRY_ONEDNN(describe_bias(&m->given[BIAS], d->rank, d->c[d->rank - 1]), what);
    return GP_OK;
}

static gp_status set_attributes(dnnl_primitive_attr_t attributes, dnnl_post_ops_t post_ops, bool accumulate) {
    const char *what = "attributes of a product";
    TRY_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), what);
    if (accumulate) {
        TRY_ONEDNN(gp_post_ops_add(post_ops), what);
        TRY_ONEDNN(dnnl_primitive_attr_set_post_ops(attributes, post_ops), what);
    }
    return GP_OK;
}

static gp_status create_primitive(gp_onednn_matmul *m, const gp_matmul_desc *d) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t post_ops = NULL;
    gp_status status = gp_onednn_status(dnnl_primitive_attr_create(&attributes), "attributes");
    if (status == GP_OK) status = gp_onednn_status(dnnl_post_ops_create(&post_ops), "attributes");
    if (status == GP_OK) status = set_attributes(attributes, post_ops, d->accumulate);
    if (status == GP_OK) {
        status = gp_onednn_status(gp_matmul_describe(&m->desc, m->engine, &m->given[A], &m->given[B],
                                                     d->bias ? &m->given[BIAS] : NULL, &m->given[C], attributes),
                                  "product");
    }
    if (status == GP_OK) status = gp_onednn_status(dnnl_primitive_create(&m->primitive, m->desc), "product");
    if (post_ops) dnnl_post_ops_destroy(post_ops);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return status;
}

static gp_status create_memory(gp_onednn_matmul *m, bool bias) {
    static const dnnl_query_t queries[ARGUMENTS] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_weights_md,
                                                    dnnl_query_dst_md, dnnl_query_scratchpad_md};
    for (int i = 0; i < ARGUMENTS; i++) {
        if (i == BIAS && !bias) continue;
        gp_memory_desc_view view = dnnl_primitive_desc_query_md(m->desc, queries[i], i == BIAS);
        TRY_ONEDNN(dnnl_memory_create(&m->memory[i], view, m->engine, DNNL_MEMORY_NONE), "operand of a product");
        if (i == SCRATCHPAD) m->workspace = dnnl_memory_desc_get_size(view);
        if (i == B) m->packed_bytes = dnnl_memory_desc_get_size(view);
    }
    return GP_OK;
}

static gp_status create_pack(gp_onednn_matmul *m) {
    const char *what = "packing of weights";
    gp_memory_desc_view from = gp_memory_desc_see(&m->plain);
    gp_memory_desc_view to = dnnl_primitive_desc_query_md(m->desc, dnnl_query_weights_md, 0);
    TRY_ONEDNN(dnnl_reorder_primitive_desc_create(&m->pack_desc, from, m->engine, to, m->engine, NULL), what);
    TRY_ONEDNN(dnnl_primitive_create(&m->pack, m->pack_desc), what);
    TRY_ONEDNN(dnnl_memory_create(&m->pack_from, from, m->engine, DNNL_MEMORY_NONE), what);
    TRY_ONEDNN(dnnl_memory_create(&m->pack_to, to, m->engine, DNNL_MEMORY_NONE), what);
    return GP_OK;
}

static gp_status set_up(gp_onednn_matmul *m, const gp_matmul_desc *d) {
    TRY_ONEDNN(dnnl_engine_create(&m->engine, dnnl_cpu, 0), "engine");
    TRY_ONEDNN(dnnl_stream_create(&m->stream, m->engine, dnnl_stream_default_flags), "stream");
    GP_TRY(describe_operands(m, d));
    GP_TRY(create_primitive(m, d));
    GP_TRY(create_memory(m, d->bias));
    return d->packed ? create_pack(m) : GP_OK;
}

gp_status gp_onednn_matmul_create(gp_onednn_matmul **matmul, const gp_matmul_desc *desc) {
    gp_onednn_matmul *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = set_up(made, desc);
    if (status != GP_OK) {
        gp_onednn_matmul_destroy(made);
        return status;
    }
    *matmul = made;
    return GP_OK;
}

void gp_onednn_matmul_destroy(gp_onednn_matmul *m) {
    if (!m) return;
    if (m->pack_to) dnnl_memory_destroy(m->pack_to);
    if (m->pack_from) dnnl_memory_destroy(m->pack_from);
    if (m->pack) dnnl_primitive_destroy(m->pack);
    if (m->pack_desc) dnnl_primitive_desc_destroy(m->pack_desc);
    for (int i = 0; i < ARGUMENTS; i++) {
        if (m->memory[i]) dnnl_memory_destroy(m->memory[i]);
        gp_memory_desc_destroy(&m->given[i]);
    }
    gp_memory_desc_destroy(&m->plain);
    if (m->primitive) dnnl_primitive_destroy(m->primitive);
    if (m->desc) dnnl_primitive_desc_destroy(m->desc);
    if (m->stream) dnnl_stream_destroy(m->stream);
    if (m->engine) dnnl_engine_destroy(m->engine);
    gp_free(m);
}

size_t gp_onednn_matmul_workspace(const gp_onednn_matmul *m) {
    return m->workspace;
}

gp_status gp_onednn_matmul_run(const gp_onednn_matmul *m, const void *a, const void *b, const float *bias, void *c,
                               void *workspace) {
    const void *data[ARGUMENTS] = {a, b, bias, c, workspace};
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count = 0;
    for (int i = 0; i < ARGUMENTS; i++) {
        if (!m->memory[i]) continue;
        void *handle;
        memcpy(&handle, &data[i], sizeof handle); /* oneDNN takes what it only reads without const */
        TRY_ONEDNN(dnnl_memory_set_data_handle(m->memory[i], handle), "operand of a product");
        arguments[count++] = (dnnl_exec_arg_t){argument_names[i], m->memory[i]};
    }
    TRY_ONEDNN(dnnl_primitive_execute(m->primitive, m->stream, count, arguments), "product");
    return gp_onednn_status(dnnl_stream_wait(m->stream), "product");
}

size_t gp_onednn_matmul_packed_bytes(const gp_onednn_matmul *m) {
    return m->packed_bytes;
}

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

void gp_onednn_matmul_packed_key(const gp_onednn_matmul *m, char *key, size_t size) {
    gp_memory_desc_view view = dnnl_primitive_desc_query_md(m->desc, dnnl_query_weights_md, 0);
    snprintf(key, size, "onednn:%016" PRIx64, layout_hash(view));
}

gp_status gp_onednn_matmul_pack(const gp_onednn_matmul *m, const float *plain, void *packed) {
    void *from;
    memcpy(&from, &plain, sizeof from);
    TRY_ONEDNN(dnnl_memory_set_data_handle(m->pack_from, from), "packing of weights");
    TRY_ONEDNN(dnnl_memory_set_data_handle(m->pack_to, packed), "packing of weights");
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, m->pack_from}, {DNNL_ARG_TO, m->pack_to}};
    TRY_ONEDNN(dnnl_primitive_execute(m->pack, m->stream, 2, arguments), "packing of weights");
    return gp_onednn_status(dnnl_stream_wait(m->stream), "packing of weights");
}
