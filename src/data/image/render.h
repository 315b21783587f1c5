/* From the bytes of a file to a sample: decode, cut out, augment, normalise. */
#ifndef GP_DATA_IMAGE_RENDER_H
#define GP_DATA_IMAGE_RENDER_H

#include "data/image/decode.h"
#include "data/image/draws.h"
#include "data/image/resize.h"
#include "gpipe/images.h"

/* How samples are made; constant. */
typedef struct gp_recipe {
    int width, height, channels;
    gp_augmentation augmentation; /* defaults filled in */
    double enlarged;              /* evaluation: how much larger than the sample the whole becomes, 1 or more */
    float *scale, *shift;         /* of every byte of a row: byte * scale + shift */
    uint8_t mean[3];              /* the mean colour */
} gp_recipe;

/* Checks the options and fills in their defaults. Errors: GP_INVALID naming the option; GP_OUT_OF_MEMORY. */
gp_status gp_recipe_create(gp_recipe *recipe, const gp_image_options *options);
void gp_recipe_free(gp_recipe *recipe); /* accepts a zeroed struct */

/* What one thread renders with; starts zeroed but for decoder.most_pixels. */
typedef struct gp_renderer {
    gp_decoder decoder;
    gp_resizer resizer;
    gp_pixels decoded, sample, other;
} gp_renderer;

void gp_renderer_free(gp_renderer *renderer); /* accepts a zeroed struct */

/* One image as it is stored: a file's bytes, or plain bytes of a known size. */
typedef struct gp_stored_image {
    const uint8_t *bytes;
    size_t size;
    bool plain; /* channel after channel, each width x height */
    int width, height, channels;
} gp_stored_image;

/* Writes f32[height, width, channels]. `draws` NULL: for evaluation; otherwise for training. Errors: GP_INVALID for
 * what cannot be decoded (the message does not name the file); GP_OUT_OF_MEMORY. */
gp_status gp_render(gp_renderer *renderer, const gp_recipe *recipe, const gp_stored_image *image, gp_draws *draws,
                    float *out);

/* Whether it can be decoded: what gp_render says without making a sample. */
gp_status gp_render_check(gp_renderer *renderer, const gp_recipe *recipe, const gp_stored_image *image);

#endif
