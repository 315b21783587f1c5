/* An image in memory: bytes, row by row, the channels of a pixel side by side. */
#ifndef GP_DATA_IMAGE_PIXELS_H
#define GP_DATA_IMAGE_PIXELS_H

#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

/* Starts zeroed; keeps its memory from one image to the next. */
typedef struct gp_pixels {
    uint8_t *data;
    size_t capacity;
    int width, height, channels; /* 1: grey, 3: red, green, blue */
} gp_pixels;

/* Gives it a size; what was in it is lost. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_pixels_resize(gp_pixels *pixels, int width, int height, int channels);
/* Accepts a zeroed struct. */
void gp_pixels_free(gp_pixels *pixels);

static inline size_t gp_pixels_row(const gp_pixels *pixels) {
    return (size_t)pixels->width * (size_t)pixels->channels;
}

static inline uint8_t *gp_pixels_at(const gp_pixels *pixels, int x, int y) {
    return pixels->data + ((size_t)y * (size_t)pixels->width + (size_t)x) * (size_t)pixels->channels;
}

/* Brightness by ITU-R BT.601 with weights that add up to one, so that grey stays what it is. */
static inline uint8_t gp_luma(const uint8_t *rgb) {
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

static inline uint8_t gp_clamp_byte(int32_t value) {
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* Colours to grey, or grey to colours, in `to`. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_pixels_convert(const gp_pixels *from, int channels, gp_pixels *to);

#endif
