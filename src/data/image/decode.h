/* JPEG and PNG files in memory to pixels. Files are not trusted: what they claim is checked against limits before
 * anything is allocated. All forms of both formats come out as grey or colours of 8 bits. */
#ifndef GP_DATA_IMAGE_DECODE_H
#define GP_DATA_IMAGE_DECODE_H

#include "data/image/pixels.h"

/* What one thread decodes with; starts zeroed. */
typedef struct gp_decoder {
    void *jpeg;          /* tjhandle */
    gp_pixels scratch;   /* CMYK, colours that become grey */
    int64_t most_pixels; /* larger images are refused */
} gp_decoder;

void gp_decoder_free(gp_decoder *decoder); /* accepts a zeroed struct */

typedef enum gp_image_kind { GP_IMAGE_JPEG, GP_IMAGE_PNG } gp_image_kind;

typedef struct gp_image_header {
    gp_image_kind kind;
    int width, height;
    int colours; /* TJCS_... of a JPEG */
} gp_image_header;

/* Looks at the beginning. Errors (messages do not name the file): GP_INVALID when it is neither format, damaged, has
 * more pixels than the limit or fewer bytes than that many pixels can have; GP_OUT_OF_MEMORY. */
gp_status gp_decode_header(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_image_header *header);

/* Decodes into `pixels` of 1 or 3 channels. A JPEG may be made smaller on the way, 1, 2, 4 or 8 times in each direction
 * (`shrink`; sizes are rounded up), which saves most of the work; for a PNG it must be 1. Errors: GP_INVALID for a file
 * that is damaged or ends early; GP_OUT_OF_MEMORY. */
gp_status gp_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header, int shrink,
                    int channels, gp_pixels *pixels);

/* The two formats, for decode.c. */
gp_status gp_jpeg_header(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_image_header *header);
gp_status gp_jpeg_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header,
                         int shrink, int channels, gp_pixels *pixels);
gp_status gp_png_header(const uint8_t *bytes, size_t size, gp_image_header *header);
gp_status gp_png_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header,
                        int channels, gp_pixels *pixels);
void gp_jpeg_free(gp_decoder *decoder);

#endif
