/* Small images and archives, made by the libraries' own encoders. */
#ifndef GP_TESTS_IMAGE_FILES_H
#define GP_TESTS_IMAGE_FILES_H

#include "temporary.h"

#include <archive.h>
#include <archive_entry.h>
#include <spng.h>
#include <turbojpeg.h>

/* A file in memory. */
typedef struct image_file {
    uint8_t *bytes;
    size_t size;
} image_file;

/* The byte of a test picture: smooth, another one for each `kind`, so that a JPEG stays near to it. */
static inline uint8_t picture_byte(int kind, int x, int y, int channel, int width, int height) {
    int across = 160 * x / (width > 1 ? width - 1 : 1), down = 60 * y / (height > 1 ? height - 1 : 1);
    return (uint8_t)(20 + (channel == kind % 3 ? across : 160 - across) + down);
}

static inline uint8_t *picture(int kind, int width, int height, int channels) {
    uint8_t *pixels = malloc((size_t)width * (size_t)height * (size_t)channels);
    assert_non_null(pixels);
    for (int y = 0, i = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                pixels[i++] = picture_byte(kind, x, y, c, width, height);
    return pixels;
}

/* `format`: TJPF_RGB, TJPF_GRAY, TJPF_CMYK, of the pixels; `flags`: for instance TJFLAG_PROGRESSIVE. */
static inline image_file jpeg_of(const uint8_t *pixels, int width, int height, int format, int sampling, int flags) {
    tjhandle handle = tjInitCompress();
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    assert_non_null(handle);
    assert_int_equal(tjCompress2(handle, pixels, width, 0, height, format, &bytes, &size, sampling, 95, flags), 0);
    image_file file = {malloc(size), size};
    assert_non_null(file.bytes);
    memcpy(file.bytes, bytes, size);
    tjFree(bytes);
    tjDestroy(handle);
    return file;
}

static inline image_file jpeg_picture(int kind, int width, int height) {
    uint8_t *pixels = picture(kind, width, height, 3);
    image_file file = jpeg_of(pixels, width, height, TJPF_RGB, TJSAMP_444, 0);
    free(pixels);
    return file;
}

/* `type`: SPNG_COLOR_TYPE_...; samples as PNG stores them. `palette` may be NULL. */
static inline image_file png_of(const void *samples, size_t bytes, int width, int height, int type, int depth,
                                const struct spng_plte *palette, bool interlaced) {
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr header = {.width = (uint32_t)width,
                               .height = (uint32_t)height,
                               .bit_depth = (uint8_t)depth,
                               .color_type = (uint8_t)type,
                               .interlace_method = interlaced};
    image_file file;
    int error;
    assert_non_null(context);
    assert_int_equal(spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(context, &header), 0);
    if (palette) {
        struct spng_plte copy = *palette;
        assert_int_equal(spng_set_plte(context, &copy), 0);
    }
    assert_int_equal(spng_encode_image(context, samples, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    file.bytes = spng_get_png_buffer(context, &file.size, &error);
    assert_non_null(file.bytes);
    spng_ctx_free(context);
    return file;
}

static inline image_file png_picture(int kind, int width, int height) {
    uint8_t *pixels = picture(kind, width, height, 3);
    image_file file =
        png_of(pixels, (size_t)width * (size_t)height * 3, width, height, SPNG_COLOR_TYPE_TRUECOLOR, 8, NULL, false);
    free(pixels);
    return file;
}

static inline const char *write_image(temporary *t, const char *name, image_file file) {
    const char *path = temporary_write(t, name, file.bytes, file.size);
    free(file.bytes);
    return path;
}

/* An archive being written: `filter` ARCHIVE_FILTER_NONE, _GZIP, ... */
static inline struct archive *tar_create(const char *path, int filter) {
    struct archive *tar = archive_write_new();
    assert_non_null(tar);
    assert_int_equal(archive_write_add_filter(tar, filter), ARCHIVE_OK);
    assert_int_equal(archive_write_set_format_pax_restricted(tar), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(tar, path), ARCHIVE_OK);
    return tar;
}

static inline void tar_add(struct archive *tar, const char *name, const void *bytes, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    assert_true(archive_write_header(tar, entry) >= ARCHIVE_WARN);
    assert_int_equal(archive_write_data(tar, bytes, size), (la_ssize_t)size);
    archive_entry_free(entry);
}

static inline void tar_add_image(struct archive *tar, const char *name, image_file file) {
    tar_add(tar, name, file.bytes, file.size);
    free(file.bytes);
}

static inline void tar_close(struct archive *tar) {
    assert_int_equal(archive_write_close(tar), ARCHIVE_OK);
    archive_write_free(tar);
}

#endif
