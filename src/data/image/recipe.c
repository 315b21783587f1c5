/* The options of images, checked, with their defaults filled in. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/render.h"

/* A side of a sample, and what one sample may take: more is a slip of the keyboard. */
enum { MOST_SIDE = 16384, MOST_SAMPLE_BYTES = 1 << 30 };

static gp_status check_shape(const gp_image_options *options) {
    if (options->channels != 1 && options->channels != 3)
        return gp_error(GP_INVALID,
                        "images of %" PRId64 " channels cannot be made: 1 (grey) or 3 (colours) are accepted",
                        options->channels);
    if (options->height < 1 || options->width < 1 || options->height > MOST_SIDE || options->width > MOST_SIDE ||
        options->height * options->width * options->channels > MOST_SAMPLE_BYTES / (int64_t)sizeof(float))
        return gp_error(GP_INVALID,
                        "samples of %" PRId64 " x %" PRId64 " pixels are asked for: sides of 1 to %d, and at "
                        "most 1 GiB a sample, are accepted",
                        options->width, options->height, MOST_SIDE);
    return GP_OK;
}

static gp_status check_range(const char *name, double value, double low, double high) {
    if (value >= low && value <= high) return GP_OK;
    return gp_error(GP_INVALID, "%s is %g: %g to %g is accepted", name, value, low, high);
}

static gp_status check_pair(const char *name, double pair[2], double low, double high, double least, double most) {
    if (pair[0] == 0 && pair[1] == 0) {
        pair[0] = low;
        pair[1] = high;
    }
    if (pair[0] > 0 && pair[0] <= pair[1] && pair[0] >= least && pair[1] <= most) return GP_OK;
    return gp_error(GP_INVALID, "%s is %g to %g: two numbers from %g to %g, the smaller one first, are accepted", name,
                    pair[0], pair[1], least, most);
}

static gp_status check_augmentation(gp_augmentation *how, int64_t shorter) {
    if ((int)how->crop < 0 || how->crop > GP_CROP_RESIZED)
        return gp_error(GP_INVALID, "there is no crop of kind %d", (int)how->crop);
    if (how->alternate && !how->flip) return gp_error(GP_INVALID, "alternate says how to flip: it needs flip too");
    if (how->crop == GP_CROP_PAD && how->pad == 0) how->pad = shorter < 8 ? 1 : shorter / 8;
    GP_TRY(check_range("pad", (double)how->pad, 0, (double)shorter));
    GP_TRY(check_pair("scale", how->scale, 0.08, 1, 1e-4, 1));
    GP_TRY(check_pair("ratio", how->ratio, 3.0 / 4, 4.0 / 3, 1e-2, 1e2));
    GP_TRY(check_range("operations", (double)how->operations, 0, 100));
    GP_TRY(check_range("magnitude", how->magnitude, 0, 30));
    GP_TRY(check_range("brightness", how->brightness, 0, 1));
    GP_TRY(check_range("contrast", how->contrast, 0, 1));
    GP_TRY(check_range("saturation", how->saturation, 0, 1));
    GP_TRY(check_range("hue", how->hue, 0, 0.5));
    GP_TRY(check_range("cutout", (double)how->cutout, 0, MOST_SIDE));
    return check_range("mixup", how->mixup, 0, 100);
}

static gp_status check_evaluation(gp_recipe *recipe, const gp_image_options *options) {
    int shorter = recipe->height < recipe->width ? recipe->height : recipe->width;
    if (options->shift < 0 || options->shift >= shorter)
        return gp_error(GP_INVALID, "shift is %" PRId64 ": 0 to %d (less than the sample's shorter side) is accepted",
                        options->shift, shorter - 1);
    if (options->resize != 0 && (options->resize < shorter || options->resize > MOST_SIDE))
        return gp_error(GP_INVALID, "resize is %" PRId64 ": %d (the sample's shorter side) to %d is accepted",
                        options->resize, shorter, MOST_SIDE);
    double usual = recipe->augmentation.crop == GP_CROP_RESIZED ? 8.0 / 7 : 1;
    recipe->enlarged = options->resize == 0 ? usual : (double)options->resize / shorter;
    return GP_OK;
}

/* Mean and deviation of one channel. */
static gp_status channel_numbers(const gp_image_options *options, int channel, double *mean, double *deviation) {
    static const double usual_mean[3] = {0.485, 0.456, 0.406}, usual_deviation[3] = {0.229, 0.224, 0.225};
    bool no_mean = options->mean[0] == 0 && options->mean[1] == 0 && options->mean[2] == 0;
    bool no_deviation = options->deviation[0] == 0 && options->deviation[1] == 0 && options->deviation[2] == 0;
    bool grey = options->channels == 1;
    *mean = options->mean[channel];
    *deviation = options->deviation[channel];
    if (no_mean && no_deviation) {
        *mean = grey ? 0.5 : usual_mean[channel];
        *deviation = grey ? 0.25 : usual_deviation[channel];
    }
    if (!(fabs(*mean) <= 1e6)) return gp_error(GP_INVALID, "a mean of %g cannot be taken away", *mean);
    if (!(*deviation > 0 && *deviation <= 1e6))
        return gp_error(GP_INVALID, "a deviation of %g cannot be divided by: above 0 is accepted", *deviation);
    return GP_OK;
}

static gp_status fill_rows(gp_recipe *recipe, const gp_image_options *options) {
    size_t channels = (size_t)recipe->channels, row = (size_t)recipe->width * channels;
    recipe->scale = gp_allocate_array(row, sizeof *recipe->scale);
    recipe->shift = gp_allocate_array(row, sizeof *recipe->shift);
    if (!recipe->scale || !recipe->shift) return GP_OUT_OF_MEMORY;
    for (size_t c = 0; c < channels; c++) {
        double mean, deviation;
        GP_TRY(channel_numbers(options, (int)c, &mean, &deviation));
        recipe->mean[c] = (uint8_t)fmin(255, fmax(0, floor(mean * 255 + 0.5)));
        for (size_t i = c; i < row; i += channels) {
            recipe->scale[i] = (float)(1 / (255 * deviation));
            recipe->shift[i] = (float)(-mean / deviation);
        }
    }
    return GP_OK;
}

gp_status gp_recipe_create(gp_recipe *recipe, const gp_image_options *options) {
    *recipe = (gp_recipe){0};
    GP_TRY(check_shape(options));
    recipe->width = (int)options->width;
    recipe->height = (int)options->height;
    recipe->channels = (int)options->channels;
    recipe->augmentation = options->augmentation;
    GP_TRY(
        check_augmentation(&recipe->augmentation, options->width < options->height ? options->width : options->height));
    GP_TRY(check_evaluation(recipe, options));
    gp_status status = fill_rows(recipe, options);
    if (status != GP_OK) gp_recipe_free(recipe);
    return status;
}

void gp_recipe_free(gp_recipe *recipe) {
    gp_free(recipe->scale);
    gp_free(recipe->shift);
    recipe->scale = recipe->shift = NULL;
}
