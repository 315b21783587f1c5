/* Factors are in units of 1 / 2^16. What maps bytes to bytes goes through a table. */
#include "data/image/colour.h"

#include <math.h>

static size_t byte_count(const gp_pixels *pixels) {
    return gp_pixels_row(pixels) * (size_t)pixels->height;
}

static int32_t fixed(double value) {
    return (int32_t)floor(value * 65536 + 0.5);
}

static uint8_t blend(int32_t plain, int32_t value, int32_t factor) {
    return gp_clamp_byte(plain + (((value - plain) * factor + 32768) >> 16));
}

static void map_bytes(gp_pixels *pixels, int channel, int step, const uint8_t table[256]) {
    size_t count = byte_count(pixels);
    for (size_t i = (size_t)channel; i < count; i += (size_t)step)
        pixels->data[i] = table[pixels->data[i]];
}

static void blend_with(gp_pixels *pixels, int32_t plain, double factor) {
    uint8_t table[256];
    int32_t f = fixed(factor);
    for (int32_t i = 0; i < 256; i++)
        table[i] = blend(plain, i, f);
    map_bytes(pixels, 0, 1, table);
}

void gp_brighten(gp_pixels *pixels, double factor) {
    blend_with(pixels, 0, factor);
}

void gp_contrast(gp_pixels *pixels, double factor) {
    size_t count = (size_t)pixels->width * (size_t)pixels->height;
    uint64_t sum = 0;
    if (count == 0) return;
    for (size_t i = 0; i < count; i++)
        sum += pixels->channels == 3 ? gp_luma(pixels->data + 3 * i) : pixels->data[i];
    blend_with(pixels, (int32_t)((sum + count / 2) / count), factor);
}

void gp_saturate(gp_pixels *pixels, double factor) {
    int32_t f = fixed(factor);
    size_t count = byte_count(pixels);
    if (pixels->channels != 3) return;
    for (size_t i = 0; i < count; i += 3) {
        int32_t grey = gp_luma(pixels->data + i);
        for (size_t c = 0; c < 3; c++)
            pixels->data[i + c] = blend(grey, pixels->data[i + c], f);
    }
}

/* Rodrigues' formula for the axis (1, 1, 1). Each row of the matrix adds up to one: greys stay. */
void gp_turn_hue(gp_pixels *pixels, double turn) {
    static const double cross[3][3] = {{0, -1, 1}, {1, 0, -1}, {-1, 1, 0}};
    double angle = turn * 2 * 3.14159265358979323846, c = cos(angle), s = sin(angle) / sqrt(3.0);
    int32_t matrix[3][3];
    if (pixels->channels != 3) return;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            matrix[i][j] = fixed((i == j ? c : 0) + (1 - c) / 3 + s * cross[i][j]);
    size_t count = byte_count(pixels);
    for (size_t p = 0; p < count; p += 3) {
        uint8_t *pixel = pixels->data + p;
        int32_t red = pixel[0], green = pixel[1], blue = pixel[2];
        for (int i = 0; i < 3; i++) {
            int32_t sum = matrix[i][0] * red + matrix[i][1] * green + matrix[i][2] * blue;
            pixel[i] = gp_clamp_byte((sum + 32768) >> 16);
        }
    }
}

void gp_posterize(gp_pixels *pixels, int bits) {
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & (0xFF00 >> bits));
    map_bytes(pixels, 0, 1, table);
}

void gp_solarize(gp_pixels *pixels, int threshold) {
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i >= threshold ? 255 - i : i);
    map_bytes(pixels, 0, 1, table);
}

static void count_bytes(const gp_pixels *pixels, int channel, uint32_t counts[256]) {
    size_t count = byte_count(pixels);
    for (int i = 0; i < 256; i++)
        counts[i] = 0;
    for (size_t i = (size_t)channel; i < count; i += (size_t)pixels->channels)
        counts[pixels->data[i]]++;
}

void gp_stretch_contrast(gp_pixels *pixels) {
    for (int channel = 0; channel < pixels->channels; channel++) {
        uint32_t counts[256];
        uint8_t table[256];
        int low = 0, high = 255;
        count_bytes(pixels, channel, counts);
        while (low < 255 && counts[low] == 0)
            low++;
        while (high > 0 && counts[high] == 0)
            high--;
        if (low >= high) continue;
        for (int i = 0; i < 256; i++)
            table[i] = gp_clamp_byte(((i - low) * 510 + (high - low)) / (2 * (high - low)));
        map_bytes(pixels, channel, pixels->channels, table);
    }
}

/* A byte goes to the share of the bytes below it; the highest ones are not counted, so that a plain image stays. */
void gp_equalize(gp_pixels *pixels) {
    for (int channel = 0; channel < pixels->channels; channel++) {
        uint32_t counts[256], sum = 0, below = 0;
        uint8_t table[256];
        int high = 255;
        count_bytes(pixels, channel, counts);
        while (high > 0 && counts[high] == 0)
            high--;
        for (int i = 0; i < high; i++)
            sum += counts[i];
        if (sum == 0) continue;
        for (int i = 0; i < 256; i++) {
            table[i] = (uint8_t)(((uint64_t)below * 255 + sum / 2) / sum);
            if (i < high) below += counts[i];
        }
        map_bytes(pixels, channel, pixels->channels, table);
    }
}
