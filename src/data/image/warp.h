/* Changes of geometry and sharpness: from one image into another of the same size. */
#ifndef GP_DATA_IMAGE_WARP_H
#define GP_DATA_IMAGE_WARP_H

#include "data/image/pixels.h"

/* Where a pixel of the result comes from, measured from the middle of the image: (xx * x + xy * y + x0, ...). */
typedef struct gp_affine {
    double xx, xy, x0, yx, yy, y0;
} gp_affine;

/* Bilinear; what comes from outside has the bytes of `fill` (one for each channel). Errors: GP_OUT_OF_MEMORY. */
gp_status gp_warp(const gp_pixels *from, gp_affine map, const uint8_t fill[3], gp_pixels *to);

/* Between a blurred image (factor 0) and the image (1), or beyond it. The border stays. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_sharpen(const gp_pixels *from, double factor, gp_pixels *to);

#endif
