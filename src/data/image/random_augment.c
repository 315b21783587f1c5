/* The paper's 14 operations; how strong each one becomes follows the published implementation's ranges. */
#include "data/image/random_augment.h"

#include <math.h>

#include "base/status.h"
#include "data/image/colour.h"
#include "data/image/warp.h"

enum operation {
    IDENTITY,
    STRETCH_CONTRAST,
    EQUALIZE,
    ROTATE,
    SOLARIZE,
    POSTERIZE,
    SATURATION,
    CONTRAST,
    BRIGHTNESS,
    SHARPNESS,
    SHEAR_X,
    SHEAR_Y,
    SHIFT_X,
    SHIFT_Y
};

/* At full strength: degrees, pixels a pixel, shares of the side, distance of a factor from one. */
static const double most_degrees = 30, most_shear = 0.3, most_shift = 150.0 / 331.0, most_factor = 0.9;

static void swap(gp_pixels *a, gp_pixels *b) {
    gp_pixels kept = *a;
    *a = *b;
    *b = kept;
}

static gp_affine affine_of(int operation, double level, const gp_pixels *pixels) {
    gp_affine map = {.xx = 1, .yy = 1};
    double angle = level * most_degrees * 3.14159265358979323846 / 180;
    switch (operation) {
    case ROTATE:
        return (gp_affine){.xx = cos(angle), .xy = -sin(angle), .yx = sin(angle), .yy = cos(angle)};
    case SHEAR_X:
        map.xy = level * most_shear;
        break;
    case SHEAR_Y:
        map.yx = level * most_shear;
        break;
    case SHIFT_X:
        map.x0 = floor(level * most_shift * pixels->width + 0.5);
        break;
    default:
        map.y0 = floor(level * most_shift * pixels->height + 0.5);
        break;
    }
    return map;
}

/* Operations that have a direction: `level` is -1 to 1. */
static gp_status apply_directed(int operation, double level, const uint8_t fill[3], gp_pixels *pixels,
                                gp_pixels *other) {
    double factor = 1 + level * most_factor;
    switch (operation) {
    case SATURATION:
        gp_saturate(pixels, factor);
        return GP_OK;
    case CONTRAST:
        gp_contrast(pixels, factor);
        return GP_OK;
    case BRIGHTNESS:
        gp_brighten(pixels, factor);
        return GP_OK;
    case SHARPNESS:
        GP_TRY(gp_sharpen(pixels, factor, other));
        break;
    default:
        GP_TRY(gp_warp(pixels, affine_of(operation, level, pixels), fill, other));
        break;
    }
    swap(pixels, other);
    return GP_OK;
}

gp_status gp_random_operation(int number, double level, gp_draws *draws, const uint8_t fill[3], gp_pixels *pixels,
                              gp_pixels *other) {
    double direction = gp_draw(draws) & 1 ? -1 : 1;
    switch ((enum operation)number) {
    case IDENTITY:
        return GP_OK;
    case STRETCH_CONTRAST:
        gp_stretch_contrast(pixels);
        return GP_OK;
    case EQUALIZE:
        gp_equalize(pixels);
        return GP_OK;
    case SOLARIZE:
        gp_solarize(pixels, 255 - (int)(level * 255));
        return GP_OK;
    case POSTERIZE:
        gp_posterize(pixels, 8 - (int)floor(level * 4 + 0.5));
        return GP_OK;
    case ROTATE:
    case SATURATION:
    case CONTRAST:
    case BRIGHTNESS:
    case SHARPNESS:
    case SHEAR_X:
    case SHEAR_Y:
    case SHIFT_X:
    case SHIFT_Y:
        return apply_directed(number, direction * level, fill, pixels, other);
    }
    return gp_error(GP_INVALID, "there is no operation %d", number);
}

gp_status gp_random_augment(int64_t count, double level, gp_draws *draws, const uint8_t fill[3], gp_pixels *pixels,
                            gp_pixels *other) {
    for (int64_t i = 0; i < count; i++) {
        int number = gp_draw_below(draws, GP_RANDOM_OPERATIONS);
        GP_TRY(gp_random_operation(number, level, draws, fill, pixels, other));
    }
    return GP_OK;
}
