/* All that the library asks of oneDNN: f32 products on plain matrices, and products of any other kind as primitives.
 *
 * oneDNN 2.6 and 3.x differ in how things are described; nothing outside this folder sees either. Objects belong to one
 * worker. Nothing here allocates while it runs, except oneDNN itself inside its sgemm (packing buffers). */
#ifndef GP_DEVICE_CPU_ONEDNN_ONEDNN_H
#define GP_DEVICE_CPU_ONEDNN_ONEDNN_H

#include "device/device.h"

/* "oneDNN 2.6.3", of the library that is running. Written once, lives for ever. Thread-safe. */
const char *gp_onednn_version(void);
/* Whether oneDNN multiplies bf16 on AMX here. Thread-safe. */
bool gp_onednn_has_amx(void);
/* Whether oneDNN has Winograd's algorithm here: 2.x with AVX-512. Thread-safe. */
bool gp_onednn_has_winograd(void);

/* C[m, n] = op(A)[m, k] op(B)[k, n] + beta C, all row-major. lda, ldb, ldc: elements from one row in memory to the
 * next. */
typedef struct gp_sgemm {
    bool transpose_a, transpose_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
} gp_sgemm;

gp_status gp_onednn_sgemm(const gp_sgemm *product, const float *a, const float *b, float *c);

/* A product as a primitive: C[..., m, n] = A[..., m, k] B[..., k, n] + bias[n], of f32 and bf16 in any mixture that
 * oneDNN has. Leading dimensions of A and B may be 1 where C's are not. */
typedef struct gp_matmul_desc {
    int rank; /* of all three */
    int64_t a[GP_MAX_RANK], b[GP_MAX_RANK], c[GP_MAX_RANK];
    bool transpose_a, transpose_b; /* in memory the last two dimensions are swapped */
    gp_dtype a_dtype, b_dtype, c_dtype;
    bool bias;       /* f32[n] */
    bool accumulate; /* add to what is in C */
    bool packed;     /* B in the layout that oneDNN likes best, made by gp_matmul_pack; B has rank 2 then */
} gp_matmul_desc;

typedef struct gp_onednn_matmul gp_onednn_matmul;

/* Errors: GP_INVALID (oneDNN has no such product), GP_OUT_OF_MEMORY. */
gp_status gp_onednn_matmul_create(gp_onednn_matmul **matmul, const gp_matmul_desc *desc);
void gp_onednn_matmul_destroy(gp_onednn_matmul *matmul); /* accepts NULL */
/* Bytes that running scribbles on. */
size_t gp_onednn_matmul_workspace(const gp_onednn_matmul *matmul);
/* bias is NULL when there is none. */
gp_status gp_onednn_matmul_run(const gp_onednn_matmul *matmul, const void *a, const void *b, const float *bias, void *c,
                               void *workspace);
/* For `packed` ones: bytes of B, a text that is equal for equal layouts, and the packing of B from plain f32. */
size_t gp_onednn_matmul_packed_bytes(const gp_onednn_matmul *matmul);
void gp_onednn_matmul_packed_key(const gp_onednn_matmul *matmul, char *key, size_t size);
gp_status gp_onednn_matmul_pack(const gp_onednn_matmul *matmul, const float *plain, void *packed);

/* A convolution as a primitive, or one of its gradients, on channels-last images x[n, h, w, in] and y[n, oh, ow, out]
 * of one dtype. Weights, and their gradient, are in the layout that oneDNN likes best for this direction: packed from
 * plain f32[out, in / groups, kh, kw], and unpacked by adding to it. */
typedef enum gp_convolution_direction {
    GP_CONVOLUTION_FORWARD,         /* x, weights, bias -> y */
    GP_CONVOLUTION_INPUT_GRADIENT,  /* dy, weights -> dx */
    GP_CONVOLUTION_WEIGHT_GRADIENT, /* dy, x -> dweights, f32 */
} gp_convolution_direction;

typedef struct gp_convolution_desc {
    gp_convolution_direction direction;
    gp_convolution_attributes attributes;
    gp_shape x, y;
    gp_dtype dtype;
    bool bias;     /* f32[out]; forward only */
    bool winograd; /* by Winograd's algorithm (arXiv 1509.09308): f32, 3x3, fewer multiplications, larger errors */
} gp_convolution_desc;

typedef struct gp_onednn_convolution gp_onednn_convolution;

/* Errors: GP_INVALID (oneDNN has no such convolution), GP_OUT_OF_MEMORY. The number of threads is the calling thread's
 * of OpenMP, and must be the same when it runs. */
gp_status gp_onednn_convolution_create(gp_onednn_convolution **convolution, const gp_convolution_desc *desc);
void gp_onednn_convolution_destroy(gp_onednn_convolution *convolution); /* accepts NULL */
/* Bytes that running scribbles on. */
size_t gp_onednn_convolution_workspace(const gp_onednn_convolution *convolution);
/* Inputs and output are those of the direction, weights packed; inputs[2] is read when there is a bias. `counted`: of a
 * Winograd gradient of weights, so many of the first samples are left out of the sum; else 0. */
gp_status gp_onednn_convolution_run(const gp_onednn_convolution *convolution, const void *const *inputs, void *output,
                                    int64_t counted, void *workspace);
/* Bytes of packed weights, and a text that is equal for equal layouts. */
size_t gp_onednn_convolution_packed_bytes(const gp_onednn_convolution *convolution);
void gp_onednn_convolution_packed_key(const gp_onednn_convolution *convolution, char *key, size_t size);
/* Of weights; for the gradient of weights. */
gp_status gp_onednn_convolution_pack(const gp_onednn_convolution *convolution, const float *plain, void *packed);
gp_status gp_onednn_convolution_add_unpacked(const gp_onednn_convolution *convolution, const void *packed,
                                             float *plain);

#endif
