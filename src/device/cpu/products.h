/* What the files of matrix products share: the kernel, and how it runs through f32 tiles.
 *
 * Every product is C[m, n] = op(A) op(B), once or for each element of a batch. There are two routes.
 * Tiles: oneDNN's sgemm. f32 operands are read where they lie; bf16 ones are widened, tile by tile, into the workspace,
 * and a bf16 result is rounded from an f32 tile there. This is the route of f32, and of bf16 on processors without AMX,
 * whose bf16 instructions are slower than f32 (`bench-kernels`). Primitive: oneDNN's matmul on bf16 operands, for AMX;
 * weights are packed once after every update (gp_form). */
#ifndef GP_DEVICE_CPU_PRODUCTS_H
#define GP_DEVICE_CPU_PRODUCTS_H

#include "device/cpu/kernel.h"
#include "device/cpu/onednn/onednn.h"

typedef struct gp_cpu_product {
    gp_kernel kernel; /* first, so that a gp_kernel is a gp_cpu_product */
    const gp_cpu_loops *loops;
    int threads;

    bool transpose_a, transpose_b, bias, accumulate;
    gp_dtype a, b, c;
    int64_t m, n, k;

    int64_t batch;    /* products; their results lie one behind the other */
    gp_cpu_walk walk; /* over the batch, of A and B, in matrices */

    int64_t tile_m, tile_n, tile_k;
    int workers;           /* threads that have products of the batch of their own */
    size_t tile_workspace; /* bytes of one of them */

    gp_onednn_matmul *matmul; /* NULL: tiles only */
    int packed_input;         /* operand that the primitive wants packed, or -1 */
    gp_form form;
} gp_cpu_product;

/* Sets the sizes of tiles and their workspace from the other members. */
void gp_cpu_product_tiles_plan(gp_cpu_product *product);
gp_status gp_cpu_product_tiles_run(const gp_cpu_product *product, const void *a, const void *b, const float *bias,
                                   void *c, void *workspace);

#endif
