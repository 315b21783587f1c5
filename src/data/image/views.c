/* Views of images that are numbers already, for evaluations that judge more than the images as they are. */
#include <string.h>

#include "data/dataset.h"

int gp_dataset_views(const gp_dataset *dataset) {
    return (dataset->mirrored ? 2 : 1) * (dataset->shift > 0 ? 3 : 1);
}

/* A row moved to the right by `move` pixels, zeros where there were none; then left and right turned round. */
static void make_row(const float *row, float *made, int64_t width, int64_t channels, int64_t move, bool mirrored) {
    size_t pixel = (size_t)channels * sizeof *row;
    for (int64_t x = 0; x < width; x++) {
        int64_t from = x - move;
        float *to = made + (mirrored ? width - 1 - x : x) * channels;
        if (from >= 0 && from < width)
            memcpy(to, row + from * channels, pixel);
        else
            memset(to, 0, pixel);
    }
}

void gp_images_view(const gp_dataset *dataset, int view, const gp_tensor *images, gp_tensor *made) {
    const int64_t *sides = images->type.shape.dims;
    int64_t height = sides[1], width = sides[2], channels = sides[3], row = width * channels;
    int shifted = view / (dataset->mirrored ? 2 : 1); /* 0: not, 1: up and left, 2: down and right */
    int64_t move = shifted == 0 ? 0 : shifted == 1 ? -dataset->shift : dataset->shift;
    const float *from = images->data;
    float *to = made->data;
    made->type = images->type;
    for (int64_t y = 0; from && to && y < sides[0] * height; y++) {
        int64_t source = y % height - move;
        if (source >= 0 && source < height)
            make_row(from + (y - move) * row, to + y * row, width, channels, move, dataset->mirrored && view % 2);
        else
            memset(to + y * row, 0, (size_t)row * sizeof *to);
    }
}
