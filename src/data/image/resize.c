/* Two passes: rows first, since neighbours in memory are then weighted alike and the compiler can do many at once. */
#include "data/image/resize.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* Weights are in units of 1 / 2^14: 255 of them still fit a product of 16 bits each. */
enum { WEIGHT_BITS = 14, ONE = 1 << WEIGHT_BITS };

typedef struct gp_taps gp_taps;

static void free_taps(gp_taps *taps) {
    gp_free(taps->first);
    gp_free(taps->weights);
    *taps = (gp_taps){0};
}

void gp_resizer_free(gp_resizer *resizer) {
    free_taps(&resizer->columns);
    free_taps(&resizer->rows);
    gp_free(resizer->line);
    *resizer = (gp_resizer){0};
}

static gp_status reserve_taps(gp_taps *taps, int count, int most) {
    taps->most = most;
    if (count > taps->capacity) {
        gp_free(taps->first);
        taps->capacity = 0;
        taps->first = gp_allocate_array((size_t)count, sizeof *taps->first);
        if (!taps->first) return GP_OUT_OF_MEMORY;
        taps->capacity = count;
    }
    if (count > taps->capacity_weights / most) {
        gp_free(taps->weights);
        taps->capacity_weights = 0;
        taps->weights = gp_allocate_array((size_t)count * (size_t)most, sizeof *taps->weights);
        if (!taps->weights) return GP_OUT_OF_MEMORY;
        taps->capacity_weights = count * most;
    }
    return GP_OK;
}

/* The weights of one output pixel, whose middle lies at `middle` of the input; they add up to one exactly. */
static void weigh(int16_t *weights, int most, int first, int last, double middle, double reach) {
    double sum = 0;
    int left = ONE, largest = 0;
    for (int i = first; i < last; i++)
        sum += fmax(0, 1 - fabs((i + 0.5 - middle) / reach));
    memset(weights, 0, (size_t)most * sizeof *weights);
    for (int i = 0; i < last - first; i++) {
        double share = sum > 0 ? fmax(0, 1 - fabs((first + i + 0.5 - middle) / reach)) / sum : 1.0 / (last - first);
        weights[i] = (int16_t)floor(share * ONE + 0.5);
        left -= weights[i];
        if (weights[i] > weights[largest]) largest = i;
    }
    weights[largest] = (int16_t)(weights[largest] + left);
}

/* Which input pixels make which output pixels along one side: `from` pixels, of which `begin` to `begin + length`
 * become `to`. */
static gp_status plan_taps(gp_taps *taps, int from, double begin, double length, int to) {
    double scale = length / to, reach = scale > 1 ? scale : 1;
    int most = (int)ceil(reach) * 2 + 1;
    if (most > from) most = from;
    GP_TRY(reserve_taps(taps, to, most));
    for (int i = 0; i < to; i++) {
        double middle = begin + (i + 0.5) * scale;
        int first = (int)floor(middle - reach + 0.5), last = (int)floor(middle + reach + 0.5);
        first = first < 0 ? 0 : first >= from ? from - 1 : first;
        last = last > from ? from : last <= first ? first + 1 : last;
        if (last - first > most) last = first + most;
        /* Reading `most` pixels must stay inside: the window is moved, its weights with it. */
        int start = first + most > from ? from - most : first;
        taps->first[i] = start;
        weigh(taps->weights + (size_t)i * (size_t)most, most, start, last, middle, reach);
    }
    return GP_OK;
}

/* One row of output before its columns are scaled; only bytes `begin` to `end` of it are needed. */
static void scale_rows(const gp_pixels *from, const gp_taps *rows, int y, size_t begin, size_t end, uint8_t *line,
                       int32_t *sums) {
    size_t row = gp_pixels_row(from);
    const int16_t *weights = rows->weights + (size_t)y * (size_t)rows->most;
    const uint8_t *first = from->data + (size_t)rows->first[y] * row;
    for (size_t x = begin; x < end; x++)
        sums[x] = ONE / 2;
    for (int i = 0; i < rows->most; i++) {
        int16_t weight = weights[i];
        const uint8_t *here = first + (size_t)i * row;
        if (weight == 0) continue;
        for (size_t x = begin; x < end; x++)
            sums[x] += (int16_t)here[x] * weight;
    }
    for (size_t x = begin; x < end; x++)
        line[x] = (uint8_t)(sums[x] >> WEIGHT_BITS);
}

static void scale_colours(const uint8_t *line, const gp_taps *columns, int width, uint8_t *out) {
    const int16_t *weights = columns->weights;
    for (int x = 0; x < width; x++, weights += columns->most, out += 3) {
        const uint8_t *here = line + (size_t)columns->first[x] * 3;
        int32_t red = ONE / 2, green = ONE / 2, blue = ONE / 2;
        for (int i = 0; i < columns->most; i++) {
            red += here[3 * i] * weights[i];
            green += here[3 * i + 1] * weights[i];
            blue += here[3 * i + 2] * weights[i];
        }
        out[0] = (uint8_t)(red >> WEIGHT_BITS);
        out[1] = (uint8_t)(green >> WEIGHT_BITS);
        out[2] = (uint8_t)(blue >> WEIGHT_BITS);
    }
}

static void scale_grey(const uint8_t *line, const gp_taps *columns, int width, uint8_t *out) {
    const int16_t *weights = columns->weights;
    for (int x = 0; x < width; x++, weights += columns->most) {
        const uint8_t *here = line + columns->first[x];
        int32_t sum = ONE / 2;
        for (int i = 0; i < columns->most; i++)
            sum += here[i] * weights[i];
        out[x] = (uint8_t)(sum >> WEIGHT_BITS);
    }
}

/* A row of bytes and a row of sums. */
static gp_status reserve_line(gp_resizer *resizer, size_t row) {
    size_t bytes = row * (sizeof(int32_t) + 1);
    if (bytes <= resizer->line_capacity) return GP_OK;
    gp_free(resizer->line);
    resizer->line_capacity = 0;
    resizer->line = gp_allocate(bytes);
    if (!resizer->line) return GP_OUT_OF_MEMORY;
    resizer->line_capacity = bytes;
    return GP_OK;
}

/* The part of the image that is looked at: only its columns are scaled. */
static void copy_box(const gp_pixels *from, int x, int y, gp_pixels *to) {
    for (int line = 0; line < to->height; line++)
        memcpy(gp_pixels_at(to, 0, line), gp_pixels_at(from, x, y + line), gp_pixels_row(to));
}

static bool is_whole(gp_box box, int width, int height) {
    return box.width == width && box.height == height && box.x == floor(box.x) && box.y == floor(box.y);
}

gp_status gp_resize(gp_resizer *resizer, const gp_pixels *from, gp_box box, int width, int height, gp_pixels *to) {
    size_t row = gp_pixels_row(from);
    GP_TRY(gp_pixels_resize(to, width, height, from->channels));
    if (is_whole(box, width, height)) {
        copy_box(from, (int)box.x, (int)box.y, to);
        return GP_OK;
    }
    GP_TRY(plan_taps(&resizer->columns, from->width, box.x, box.width, width));
    GP_TRY(plan_taps(&resizer->rows, from->height, box.y, box.height, height));
    GP_TRY(reserve_line(resizer, row));
    int32_t *sums = (int32_t *)(void *)resizer->line;
    uint8_t *line = resizer->line + row * sizeof *sums;
    const gp_taps *columns = &resizer->columns;
    size_t begin = (size_t)columns->first[0] * (size_t)from->channels;
    size_t end = (size_t)(columns->first[width - 1] + columns->most) * (size_t)from->channels;
    for (int y = 0; y < height; y++) {
        scale_rows(from, &resizer->rows, y, begin, end, line, sums);
        if (from->channels == 3) {
            scale_colours(line, columns, width, gp_pixels_at(to, 0, y));
        } else {
            scale_grey(line, columns, width, gp_pixels_at(to, 0, y));
        }
    }
    return GP_OK;
}
