/* Changes of colour, in place. All in whole numbers. */
#ifndef GP_DATA_IMAGE_COLOUR_H
#define GP_DATA_IMAGE_COLOUR_H

#include "data/image/pixels.h"

/* Between something plain (factor 0) and the image (1), or beyond it: black; the mean grey; its own greys. */
void gp_brighten(gp_pixels *pixels, double factor);
void gp_contrast(gp_pixels *pixels, double factor);
void gp_saturate(gp_pixels *pixels, double factor);

/* Turns the colours by `turn` of a full circle around the axis of greys: a third turns red into green. */
void gp_turn_hue(gp_pixels *pixels, double turn);

/* Bytes of `bits` bits: the lower ones become zero. */
void gp_posterize(gp_pixels *pixels, int bits);
/* Inverts bytes from `threshold` on. */
void gp_solarize(gp_pixels *pixels, int threshold);
/* Stretches each channel over the whole range. */
void gp_stretch_contrast(gp_pixels *pixels);
/* Makes each channel's values equally frequent. */
void gp_equalize(gp_pixels *pixels);

#endif
