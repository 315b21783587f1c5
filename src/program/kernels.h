/* The kernels of a program. Equal calls (same operation, attributes and types, as in layers that repeat) share one
 * kernel: creating them is what planning spends its time on. */
#ifndef GP_PROGRAM_KERNELS_H
#define GP_PROGRAM_KERNELS_H

#include "device/device.h"

typedef struct gp_kernels {
    gp_kernel **kernels;
    size_t count, capacity;
    struct gp_kernels_index *index; /* only while planning */
} gp_kernels;

/* The kernel for `desc`, made if there is none yet; owned by `kernels`. parameters: bit i: input i is a parameter whose
 * form may be chosen, which makes a difference when the kernel is packed. */
gp_status gp_kernels_get(gp_kernels *kernels, gp_device *device, const gp_kernel_desc *desc, uint32_t parameters,
                         gp_kernel **kernel);
/* Frees what only planning needs. */
void gp_kernels_seal(gp_kernels *kernels);
void gp_kernels_destroy(gp_kernels *kernels); /* accepts a zeroed struct */

#endif
