/* RandAugment (Cubuk, Zoph, Shlens & Le, arXiv 1909.13719). */
#ifndef GP_DATA_IMAGE_RANDOM_AUGMENT_H
#define GP_DATA_IMAGE_RANDOM_AUGMENT_H

#include "data/image/draws.h"
#include "data/image/pixels.h"

enum { GP_RANDOM_OPERATIONS = 14 };

/* Applies operation `number`, 0 to 13, as strong as `level`, 0 to 1, in the direction that is drawn, to `pixels`;
 * `other` is memory that changes places with it when need be. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_random_operation(int number, double level, gp_draws *draws, const uint8_t fill[3], gp_pixels *pixels,
                              gp_pixels *other);

/* `count` of them, drawn with replacement. */
gp_status gp_random_augment(int64_t count, double level, gp_draws *draws, const uint8_t fill[3], gp_pixels *pixels,
                            gp_pixels *other);

#endif
