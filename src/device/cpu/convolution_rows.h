/* The gradient of a convolution's weights as products of gathered rows: see convolution_rows.c. */
#ifndef GP_DEVICE_CPU_CONVOLUTION_ROWS_H
#define GP_DEVICE_CPU_CONVOLUTION_ROWS_H

#include "device/cpu/cpu.h"

/* Whether this route is the faster one for x, y and weights[out, in / groups, height, width] of the gradient of the
 * weights. */
bool gp_cpu_convolution_prefers_rows(const gp_cpu_device *device, gp_type x, gp_type y, gp_type weights,
                                     const gp_convolution_attributes *attributes);

/* Of a description GP_OP_CONVOLUTION_WEIGHT_GRADIENT with one group that has been checked. */
gp_status gp_cpu_convolution_rows_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);

#endif
