/* A folder of small images of three classes, and datasets of it. */
#ifndef GP_TESTS_IMAGE_FOLDER_H
#define GP_TESTS_IMAGE_FOLDER_H

#include "image_files.h"

#include "gpipe/images.h"

/* `count` images of class c0, c1, ... below `root`, each plainly of one brightness: 10 + 3 times its number in all. */
static inline void write_plain_folder(temporary *t, const char *root, int classes, int count, int width, int height) {
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < count; i++) {
            char name[128];
            uint8_t *pixels = malloc((size_t)width * (size_t)height);
            assert_non_null(pixels);
            memset(pixels, 10 + 3 * (c * count + i), (size_t)width * (size_t)height);
            snprintf(name, sizeof name, "%s/c%d/%02d.png", root, c, i);
            write_image(t, name,
                        png_of(pixels, (size_t)width * (size_t)height, width, height, SPNG_COLOR_TYPE_GRAYSCALE, 8,
                               NULL, false));
            free(pixels);
        }
    }
}

/* The same brightness as a sample shows it when mean is 0 and deviation 1. */
static inline int brightness_of(float value) {
    return (int)(value * 255.0f + 0.5f);
}

static inline gp_image_options options_of(const char *path, int64_t side, int64_t batch) {
    return (gp_image_options){
        .images = path, .height = side, .width = side, .channels = 3, .deviation = {1, 1, 1}, .batch = batch};
}

static inline gp_dataset *open_images(const gp_image_options *options) {
    gp_dataset *dataset;
    gp_status status = gp_dataset_create_images(&dataset, options);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    return dataset;
}

static inline void refuse_images(const gp_image_options *options, const char *reason) {
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_images(&dataset, options), GP_INVALID);
    assert_message_has(gp_error_message(), reason);
    assert_null(dataset);
}

#endif
