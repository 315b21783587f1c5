/* Scaling a part of an image, without aliasing. */
#ifndef GP_DATA_IMAGE_RESIZE_H
#define GP_DATA_IMAGE_RESIZE_H

#include "data/image/pixels.h"

/* A part of an image in pixels, the first pixel being 0 to 1. */
typedef struct gp_box {
    double x, y, width, height;
} gp_box;

/* What one thread resizes with; starts zeroed. */
typedef struct gp_resizer {
    struct gp_taps {
        int *first;       /* of each output pixel: its first input pixel */
        int16_t *weights; /* of each output pixel: `most` of them, zero behind the last */
        int capacity, capacity_weights;
        int most; /* input pixels of an output pixel */
    } columns, rows;
    uint8_t *line; /* one output row before its columns are scaled */
    size_t line_capacity;
} gp_resizer;

void gp_resizer_free(gp_resizer *resizer); /* accepts a zeroed struct */

/* Scales `box`, which lies within `from`, to width x height pixels in `to` (another image). Every output pixel is the
 * mean of what it covers, weighted by a triangle twice as wide (bilinear where it becomes larger). In whole numbers:
 * the same bytes everywhere; what is scaled by one stays as it is. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_resize(gp_resizer *resizer, const gp_pixels *from, gp_box box, int width, int height, gp_pixels *to);

#endif
