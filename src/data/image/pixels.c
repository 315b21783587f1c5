/* Memory of images, and the way between colours and grey. */
#include "data/image/pixels.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

gp_status gp_pixels_resize(gp_pixels *pixels, int width, int height, int channels) {
    size_t bytes = (size_t)width * (size_t)height * (size_t)channels;
    if (bytes > pixels->capacity) {
        gp_free(pixels->data);
        pixels->capacity = 0;
        pixels->data = gp_allocate(bytes);
        if (!pixels->data) return GP_OUT_OF_MEMORY;
        pixels->capacity = bytes;
    }
    pixels->width = width;
    pixels->height = height;
    pixels->channels = channels;
    return GP_OK;
}

void gp_pixels_free(gp_pixels *pixels) {
    gp_free(pixels->data);
    *pixels = (gp_pixels){0};
}

gp_status gp_pixels_convert(const gp_pixels *from, int channels, gp_pixels *to) {
    GP_TRY(gp_pixels_resize(to, from->width, from->height, channels));
    size_t count = (size_t)from->width * (size_t)from->height;
    if (channels == from->channels) {
        memcpy(to->data, from->data, count * (size_t)channels);
    } else if (channels == 1) {
        for (size_t i = 0; i < count; i++)
            to->data[i] = gp_luma(from->data + 3 * i);
    } else {
        for (size_t i = 0; i < count; i++)
            to->data[3 * i] = to->data[3 * i + 1] = to->data[3 * i + 2] = from->data[i];
    }
    return GP_OK;
}
