/* Affine maps in units of 1 / 2^16 of a pixel, sharpness by a 3 x 3 mean. */
#include "data/image/warp.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

static int64_t fixed(double value) {
    return (int64_t)floor(value * 65536 + 0.5);
}

/* A pixel of the image, or the fill outside. */
static const uint8_t *pixel_or(const gp_pixels *from, int64_t x, int64_t y, const uint8_t *fill) {
    if (x < 0 || y < 0 || x >= from->width || y >= from->height) return fill;
    return gp_pixels_at(from, (int)x, (int)y);
}

/* (x, y) in units of 1 / 2^16, 0 being the middle of the first pixel; the weights have eight bits each. */
static void sample(const gp_pixels *from, int64_t x, int64_t y, const uint8_t *fill, uint8_t *out) {
    int64_t left = x >> 16, top = y >> 16;
    uint32_t right_weight = (uint32_t)(x >> 8) & 255, low_weight = (uint32_t)(y >> 8) & 255;
    uint32_t left_weight = 256 - right_weight, high_weight = 256 - low_weight;
    const uint8_t *a = pixel_or(from, left, top, fill), *b = pixel_or(from, left + 1, top, fill);
    const uint8_t *c = pixel_or(from, left, top + 1, fill), *d = pixel_or(from, left + 1, top + 1, fill);
    for (int i = 0; i < from->channels; i++) {
        uint32_t high = a[i] * left_weight + b[i] * right_weight, low = c[i] * left_weight + d[i] * right_weight;
        out[i] = (uint8_t)((high * high_weight + low * low_weight + 32768) >> 16);
    }
}

gp_status gp_warp(const gp_pixels *from, gp_affine map, const uint8_t fill[3], gp_pixels *to) {
    double middle_x = 0.5 * (from->width - 1), middle_y = 0.5 * (from->height - 1);
    int64_t xx = fixed(map.xx), xy = fixed(map.xy), yx = fixed(map.yx), yy = fixed(map.yy);
    int64_t x0 = fixed(middle_x + map.x0 - map.xx * middle_x - map.xy * middle_y);
    int64_t y0 = fixed(middle_y + map.y0 - map.yx * middle_x - map.yy * middle_y);
    GP_TRY(gp_pixels_resize(to, from->width, from->height, from->channels));
    for (int y = 0; y < to->height; y++)
        for (int x = 0; x < to->width; x++)
            sample(from, x0 + xx * x + xy * y, y0 + yx * x + yy * y, fill, gp_pixels_at(to, x, y));
    return GP_OK;
}

/* The middle counts five times as much as its neighbours. */
static int32_t blurred(const uint8_t *at, size_t row, size_t channels) {
    int32_t sum = 4 * at[0];
    for (size_t line = 0; line < 3; line++) {
        const uint8_t *first = at + line * row - row - channels;
        sum += first[0] + first[channels] + first[2 * channels];
    }
    return (sum + 6) / 13;
}

gp_status gp_sharpen(const gp_pixels *from, double factor, gp_pixels *to) {
    int32_t f = (int32_t)fixed(factor);
    size_t channels = (size_t)from->channels, row = gp_pixels_row(from);
    GP_TRY(gp_pixels_resize(to, from->width, from->height, from->channels));
    memcpy(to->data, from->data, row * (size_t)from->height);
    for (int y = 1; y + 1 < from->height; y++) {
        for (size_t x = channels; x + channels < row; x++) {
            const uint8_t *at = from->data + (size_t)y * row + x;
            int32_t plain = blurred(at, row, channels);
            to->data[(size_t)y * row + x] = gp_clamp_byte(plain + (((at[0] - plain) * f + 32768) >> 16));
        }
    }
    return GP_OK;
}
