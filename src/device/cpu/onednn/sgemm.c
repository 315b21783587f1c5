/* oneDNN's version and abilities, its f32 product on plain matrices, and the translation of its errors. sgemm is the
 * fastest way to an f32 product on plain layouts (`bench-kernels`); the primitives are for everything else. */
#include "device/cpu/onednn/onednn.h"

#include <pthread.h>
#include <stdio.h>

#include "device/cpu/onednn/api.h"

static char version_text[48];
static pthread_once_t version_once = PTHREAD_ONCE_INIT;

static void version_write(void) {
    const dnnl_version_t *version = dnnl_version();
    snprintf(version_text, sizeof version_text, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

const char *gp_onednn_version(void) {
    pthread_once(&version_once, version_write);
    return version_text;
}

/* Levels hold the bits of those below them. */
static bool has_level(unsigned wanted) {
    return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

bool gp_onednn_has_amx(void) {
    return has_level(dnnl_cpu_isa_avx512_core_amx);
}

bool gp_onednn_has_winograd(void) {
    return DNNL_VERSION_MAJOR < 3 && has_level(dnnl_cpu_isa_avx512_core);
}

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void cache_create(void) {
    int capacity;
    (void)dnnl_get_primitive_cache_capacity(&capacity);
}

/* oneDNN creates its cache of primitives when it is first used. That is safe from several threads, but by means that a
 * thread sanitizer does not see inside of a library; so it happens here, once. */
dnnl_status_t gp_onednn_engine(dnnl_engine_t *engine) {
    pthread_once(&cache_once, cache_create);
    return dnnl_engine_create(engine, dnnl_cpu, 0);
}

gp_status gp_onednn_status(dnnl_status_t status, const char *what) {
    switch (status) {
    case dnnl_success:
        return GP_OK;
    case dnnl_out_of_memory:
        return gp_error(GP_OUT_OF_MEMORY, "%s: oneDNN found no memory", what);
    case dnnl_invalid_arguments:
        return gp_error(GP_INVALID, "%s: oneDNN rejects the arguments", what);
    case dnnl_unimplemented:
        return gp_error(GP_INVALID, "%s: oneDNN has no such kernel on this processor", what);
    default:
        return gp_error(GP_FAILED, "%s: oneDNN failed with status %d", what, (int)status);
    }
}

gp_status gp_onednn_sgemm(const gp_sgemm *p, const float *a, const float *b, float *c) {
    dnnl_status_t status = dnnl_sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', p->m, p->n, p->k,
                                      p->alpha, a, p->lda, b, p->ldb, p->beta, c, p->ldc);
    return gp_onednn_status(status, "f32 product");
}
