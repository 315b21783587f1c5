/* Inside the CPU device: what its files offer each other.
 *
 * Two kinds of kernels: products (oneDNN and attention, products.c and attention.c) and loops (elementwise, norms,
 * softmax, losses, embedding, updates: loops_*.c). The loops are written once in plain C that vectorises, compiled
 * three times (portable, AVX2, AVX-512), and chosen at run time through a table of functions. */
#ifndef GP_DEVICE_CPU_CPU_H
#define GP_DEVICE_CPU_CPU_H

#include "device/device.h"

typedef struct gp_cpu_loops gp_cpu_loops; /* the table of one instruction set, cpu/loops.h */

typedef struct gp_cpu_device {
    gp_device device;
    const gp_cpu_loops *loops;
    bool bf16_packed; /* bf16 products run from packed weights (AMX) */
} gp_cpu_device;

/* Kernel creators by family; GP_INVALID with a sentence for types they do not know. */
gp_status gp_cpu_product_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
/* Whether bf16 products should run from packed weights on this processor. */
bool gp_cpu_products_packed(void);
gp_status gp_cpu_convolution_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
gp_status gp_cpu_attention_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
gp_status gp_cpu_loop_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
gp_status gp_cpu_custom_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);

#endif
