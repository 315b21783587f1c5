/* What every file of loops is made of: loading and storing of f32 and bf16, and sums over fixed lanes.
 *
 * The functions are inlined with a constant dtype, so that each call becomes one vector loop. A sum is kept in LANES
 * partial sums, element i in lane i % LANES, which are folded in halves at the end: compilers keep the lanes in
 * registers, and the order of additions is the same for every instruction set, alignment and compiler. */
#ifndef GP_DEVICE_CPU_LOOPS_LANES_H
#define GP_DEVICE_CPU_LOOPS_LANES_H

#include "tensor/bf16.h"

#define GP_INLINE            static inline __attribute__((always_inline))
#define GP_SIMD              _Pragma("omp simd")
#define GP_PREFETCH(address) __builtin_prefetch(address, 0, 2)

enum {
    LANES = 32,
    CHUNK = 1024,     /* elements that are worked on while they are in the first-level cache; a multiple of LANES */
    AHEAD = 2 * CHUNK /* how far before its use memory is asked for */
};

GP_INLINE float load(gp_dtype dtype, const void *data, int64_t i) {
    return dtype == GP_BF16 ? gp_bf16_to_f32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

GP_INLINE void store(gp_dtype dtype, void *data, int64_t i, float value) {
    if (dtype == GP_BF16) {
        ((uint16_t *)data)[i] = gp_bf16_of_f32(value);
    } else {
        ((float *)data)[i] = value;
    }
}

/* The address of element i. */
GP_INLINE const void *from(gp_dtype dtype, const void *data, int64_t i) {
    return dtype == GP_BF16 ? (const void *)((const uint16_t *)data + i) : (const void *)((const float *)data + i);
}

GP_INLINE void *to(gp_dtype dtype, void *data, int64_t i) {
    return dtype == GP_BF16 ? (void *)((uint16_t *)data + i) : (void *)((float *)data + i);
}

GP_INLINE int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Asks for the CHUNK elements that lie `ahead` elements further on. Heavy loops keep so many instructions in flight for
 * each line of memory that the processor alone does not look far enough ahead. Beyond the end of the data nothing
 * happens. */
GP_INLINE void fetch(gp_dtype dtype, const void *data, int64_t ahead) {
    uintptr_t first = (uintptr_t)data + (uintptr_t)ahead * (dtype == GP_BF16 ? 2 : 4);
    for (uintptr_t line = 0; line < CHUNK * (dtype == GP_BF16 ? 2u : 4u); line += 64) {
        GP_PREFETCH((const void *)(first + line));
    }
}

GP_INLINE void lanes_fill(float *lanes, float value) {
    for (int l = 0; l < LANES; l++) {
        lanes[l] = value;
    }
}

/* Folds the lanes, which are lost. */
GP_INLINE float lanes_sum(float *lanes) {
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lanes[l] += lanes[l + width];
        }
    }
    return lanes[0];
}

#endif
