/* Mirror images of samples that are numbers already, for evaluations that look at both. */
#include "data/dataset.h"

static void swap_pixels(float *left, float *right, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) {
        float kept = left[c];
        left[c] = right[c];
        right[c] = kept;
    }
}

void gp_images_mirror(gp_tensor *images) {
    const int64_t *sides = images->type.shape.dims;
    int64_t rows = sides[0] * sides[1], width = sides[2], channels = sides[3];
    float *row = images->data;
    for (int64_t y = 0; row && y < rows; y++, row += width * channels)
        for (int64_t x = 0; x < width / 2; x++)
            swap_pixels(row + x * channels, row + (width - 1 - x) * channels, channels);
}
