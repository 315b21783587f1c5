/* Devices: what computes and holds memory, as a user chooses it and as `gpipe doctor` describes it. */
#ifndef GPIPE_DEVICE_H
#define GPIPE_DEVICE_H

#include "gpipe/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gp_device_type {
    GP_DEVICE_CPU,      /* a set of cores: oneDNN and own kernels */
    GP_DEVICE_REFERENCE /* plain loops in double precision: slow, for checking */
} gp_device_type;

/* One worker's device. All zero is the default: the CPU, one thread, no limit. */
typedef struct gp_device_options {
    size_t size; /* sizeof, or 0 */
    gp_device_type type;
    size_t memory; /* limit in bytes; 0: none */
    int threads;   /* 0: 1 */
} gp_device_options;

/* What the machine offers and what gpipe makes of it. */
typedef struct gp_machine {
    char processor[128]; /* model name */
    int cores;           /* that this process may use */
    size_t memory;       /* bytes of the machine (or of its control group) */
    bool avx2, avx512, avx512_bf16, amx_bf16;
    const char *kernels;    /* own kernels chosen: "avx512", "avx2" or "portable" */
    const char *products;   /* library of matrix products, with version: "oneDNN 2.6.3" */
    const char *bf16_route; /* how bf16 products run: "AMX", "AVX-512 BF16 (slower than f32)", "emulated (slow)" */
} gp_machine;

/* Describes this machine. `machine` is filled; strings live for ever. Thread-safe. */
GP_API gp_status gp_machine_describe(gp_machine *machine);

typedef struct gp_machine_speed {
    double peak_f32;    /* FLOP/s of fused multiply-adds from registers, one core */
    double product_f32; /* FLOP/s of a 1024 x 768 x 3072 product, one core */
    double product_bf16;
    double copy; /* bytes/s read + written by one core, larger than the caches */
} gp_machine_speed;

/* Measures for about `seconds` seconds (0: 1) on the calling thread. */
GP_API gp_status gp_machine_measure(gp_machine_speed *speed, double seconds);

#ifdef __cplusplus
}
#endif
#endif
