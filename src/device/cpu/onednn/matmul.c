/* Products as oneDNN primitives: bf16 where the processor has AMX. The scratchpad is the caller's, weights may be in
 * oneDNN's own blocked layout, so that its fastest kernel runs without repacking them in every call. */
#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/onednn/api.h"
#include "device/cpu/onednn/onednn.h"

typedef enum argument { A, B, BIAS, C, SCRATCHPAD, ARGUMENTS } argument;

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
    gp_onednn_reorder pack;
};

static dnnl_status_t describe_plain(gp_memory_desc *made, int rank, const int64_t *dims, gp_dtype dtype,
                                    bool transposed) {
    int64_t strides[GP_MAX_RANK], stride = dims[rank - 2] * dims[rank - 1];
    for (int i = rank - 3; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
    strides[rank - 2] = transposed ? 1 : dims[rank - 1];
    strides[rank - 1] = transposed ? dims[rank - 2] : 1;
    return gp_memory_desc_strided(made, rank, dims, gp_onednn_type(dtype), strides);
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
        TRY_ONEDNN(gp_memory_desc_any(&m->given[B], d->rank, d->b, gp_onednn_type(d->b_dtype)), what);
        TRY_ONEDNN(describe_plain(&m->plain, d->rank, d->b, GP_F32, d->transpose_b), what);
    } else {
        TRY_ONEDNN(describe_plain(&m->given[B], d->rank, d->b, d->b_dtype, d->transpose_b), what);
    }
    if (d->bias) TRY_ONEDNN(describe_bias(&m->given[BIAS], d->rank, d->c[d->rank - 1]), what);
    return GP_OK;
}

static gp_status create_primitive(gp_onednn_matmul *m, const gp_matmul_desc *d) {
    dnnl_primitive_attr_t attributes = NULL;
    GP_TRY(gp_onednn_attributes_create(&attributes, d->accumulate));
    dnnl_status_t status = gp_matmul_describe(&m->desc, m->engine, &m->given[A], &m->given[B],
                                              d->bias ? &m->given[BIAS] : NULL, &m->given[C], attributes);
    dnnl_primitive_attr_destroy(attributes);
    TRY_ONEDNN(status, "product");
    return gp_onednn_status(dnnl_primitive_create(&m->primitive, m->desc), "product");
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

static gp_status set_up(gp_onednn_matmul *m, const gp_matmul_desc *d) {
    TRY_ONEDNN(gp_onednn_engine(&m->engine), "engine");
    TRY_ONEDNN(dnnl_stream_create(&m->stream, m->engine, dnnl_stream_default_flags), "stream");
    GP_TRY(describe_operands(m, d));
    GP_TRY(create_primitive(m, d));
    GP_TRY(create_memory(m, d->bias));
    gp_memory_desc_view packed = dnnl_primitive_desc_query_md(m->desc, dnnl_query_weights_md, 0);
    return d->packed ? gp_onednn_reorder_create(&m->pack, m->engine, gp_memory_desc_see(&m->plain), packed, false)
                     : GP_OK;
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
    gp_onednn_reorder_destroy(&m->pack);
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
    gp_onednn_argument arguments[ARGUMENTS] = {{DNNL_ARG_SRC, m->memory[A], a},
                                               {DNNL_ARG_WEIGHTS, m->memory[B], b},
                                               {DNNL_ARG_BIAS, m->memory[BIAS], bias},
                                               {DNNL_ARG_DST, m->memory[C], c},
                                               {DNNL_ARG_SCRATCHPAD, m->memory[SCRATCHPAD], workspace}};
    return gp_onednn_execute(m->primitive, m->stream, arguments, ARGUMENTS, "product");
}

size_t gp_onednn_matmul_packed_bytes(const gp_onednn_matmul *m) {
    return m->packed_bytes;
}

void gp_onednn_matmul_packed_key(const gp_onednn_matmul *m, char *key, size_t size) {
    gp_memory_desc_view view = dnnl_primitive_desc_query_md(m->desc, dnnl_query_weights_md, 0);
    gp_onednn_layout_key(view, key, size);
}

gp_status gp_onednn_matmul_pack(const gp_onednn_matmul *m, const float *plain, void *packed) {
    return gp_onednn_reorder_run(&m->pack, m->stream, plain, packed);
}
