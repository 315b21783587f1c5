/* All forms of JPEG and PNG give the picture; what is damaged, hostile or something else is refused with a reason and
 * without memory for what it claims. */
#include "image_files.h"

#include "base/memory.h"
#include "data/image/decode.h"

static gp_decoder decoder_of(int64_t most_pixels) {
    return (gp_decoder){.most_pixels = most_pixels};
}

static void decode_ok(image_file file, int shrink, int channels, gp_pixels *pixels) {
    gp_decoder decoder = decoder_of(1 << 26);
    gp_image_header header;
    gp_status status = gp_decode_header(&decoder, file.bytes, file.size, &header);
    if (status == GP_OK) status = gp_decode(&decoder, file.bytes, file.size, &header, shrink, channels, pixels);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    assert_int_equal(pixels->width, (header.width + shrink - 1) / shrink);
    assert_int_equal(pixels->channels, channels);
    gp_decoder_free(&decoder);
    free(file.bytes);
}

/* Refused with this reason, by an error of GP_INVALID, whether at the header or later. */
static void decode_bad(const void *bytes, size_t size, int64_t most_pixels, const char *reason) {
    gp_decoder decoder = decoder_of(most_pixels);
    gp_image_header header;
    gp_pixels pixels = {0};
    /* A copy of the very size, so that reading past the end is seen by sanitizers. */
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    gp_status status = gp_decode_header(&decoder, copy, size, &header);
    if (status == GP_OK) status = gp_decode(&decoder, copy, size, &header, 1, 3, &pixels);
    assert_int_equal(status, GP_INVALID);
    assert_message_has(gp_error_message(), reason);
    gp_pixels_free(&pixels);
    gp_decoder_free(&decoder);
    free(copy);
}

/* Mean distance to the test picture. */
static double distance(const gp_pixels *pixels, int kind) {
    double sum = 0;
    size_t count = gp_pixels_row(pixels) * (size_t)pixels->height;
    for (int y = 0; y < pixels->height; y++)
        for (int x = 0; x < pixels->width; x++)
            for (int c = 0; c < pixels->channels; c++)
                sum += abs(gp_pixels_at(pixels, x, y)[c] - picture_byte(kind, x, y, c, pixels->width, pixels->height));
    return sum / (double)count;
}

static void test_jpeg_forms(void **state) {
    (void)state;
    static const int samplings[] = {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411};
    gp_pixels pixels = {0};
    uint8_t *picture_pixels = picture(1, 61, 47, 3);
    for (size_t s = 0; s < sizeof samplings / sizeof *samplings; s++) {
        for (int flags = 0; flags <= TJFLAG_PROGRESSIVE; flags += TJFLAG_PROGRESSIVE) {
            decode_ok(jpeg_of(picture_pixels, 61, 47, TJPF_RGB, samplings[s], flags), 1, 3, &pixels);
            assert_true(distance(&pixels, 1) < 4);
        }
    }
    decode_ok(jpeg_of(picture_pixels, 61, 47, TJPF_RGB, TJSAMP_GRAY, 0), 1, 3, &pixels);
    for (int i = 0; i < 61 * 47; i++)
        assert_true(pixels.data[3 * i] == pixels.data[3 * i + 1] && pixels.data[3 * i] == pixels.data[3 * i + 2]);
    free(picture_pixels);
    gp_pixels_free(&pixels);
}

/* Grey from colours is their brightness, from grey itself. */
static void test_grey(void **state) {
    (void)state;
    gp_pixels pixels = {0};
    uint8_t *colours = picture(0, 40, 30, 3);
    for (int form = 0; form < 3; form++) {
        image_file file = form == 0   ? jpeg_of(colours, 40, 30, TJPF_RGB, TJSAMP_444, 0)
                          : form == 1 ? jpeg_of(colours, 40, 30, TJPF_RGB, TJSAMP_GRAY, 0)
                                      : png_of(colours, 40 * 30 * 3, 40, 30, SPNG_COLOR_TYPE_TRUECOLOR, 8, NULL, false);
        decode_ok(file, 1, 1, &pixels);
        for (int i = 0; i < 40 * 30; i++)
            assert_true(abs(pixels.data[i] - gp_luma(colours + 3 * i)) <= 3);
    }
    for (int grey = 0; grey < 256; grey++)
        assert_int_equal(gp_luma((uint8_t[]){(uint8_t)grey, (uint8_t)grey, (uint8_t)grey}), grey);
    free(colours);
    gp_pixels_free(&pixels);
}

/* CMYK as the world stores it: inverted. */
static void test_ink(void **state) {
    (void)state;
    gp_pixels pixels = {0};
    uint8_t ink[16 * 16 * 4];
    for (int i = 0; i < 16 * 16; i++)
        memcpy(ink + (size_t)4 * (size_t)i, (uint8_t[]){200, 100, 50, 204}, 4);
    for (int flags = 0; flags <= TJFLAG_PROGRESSIVE; flags += TJFLAG_PROGRESSIVE) {
        for (int channels = 1; channels <= 3; channels += 2) {
            decode_ok(jpeg_of(ink, 16, 16, TJPF_CMYK, TJSAMP_444, flags), 1, channels, &pixels);
            uint8_t expected[3] = {160, 80, 40}; /* 200 * 204 / 255 and so on */
            if (channels == 1) expected[0] = gp_luma(expected);
            for (int c = 0; c < channels; c++)
                assert_true(abs(gp_pixels_at(&pixels, 7, 9)[c] - expected[c]) <= 3);
        }
    }
    gp_pixels_free(&pixels);
}

static void test_shrinking(void **state) {
    (void)state;
    gp_pixels pixels = {0};
    for (int shrink = 1; shrink <= 8; shrink *= 2) {
        decode_ok(jpeg_picture(2, 203, 101), shrink, 3, &pixels);
        assert_int_equal(pixels.height, (101 + shrink - 1) / shrink);
        assert_true(distance(&pixels, 2) < 4);
        decode_ok(jpeg_picture(2, 203, 101), shrink, 1, &pixels);
    }
    gp_pixels_free(&pixels);
}

static void check_png(image_file file, int kind, double most) {
    gp_pixels pixels = {0};
    decode_ok(file, 1, 3, &pixels);
    assert_true(distance(&pixels, kind) <= most);
    gp_pixels_free(&pixels);
}

static void test_png_forms(void **state) {
    (void)state;
    enum { W = 23, H = 17, N = W * H };
    uint8_t *colours = picture(1, W, H, 3), alpha[4 * N], deep[6 * N], indices[N];
    struct spng_plte palette = {.n_entries = 256};
    for (int i = 0; i < N; i++) {
        memcpy(alpha + (size_t)4 * (size_t)i, colours + (size_t)3 * (size_t)i, 3);
        alpha[4 * i + 3] = (uint8_t)i;
        indices[i] = (uint8_t)(i % 256);
        for (int c = 0; c < 3; c++) {
            uint16_t value = (uint16_t)(colours[3 * i + c] * 257);
            memcpy(deep + 6 * i + 2 * c, &value, 2);
        }
    }
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        check_png(png_of(colours, 3 * N, W, H, SPNG_COLOR_TYPE_TRUECOLOR, 8, NULL, interlaced), 1, 0);
        check_png(png_of(alpha, 4 * N, W, H, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, NULL, interlaced), 1, 0);
        check_png(png_of(deep, 6 * N, W, H, SPNG_COLOR_TYPE_TRUECOLOR, 16, NULL, interlaced), 1, 0);
    }
    gp_pixels pixels = {0};
    for (int i = 0; i < 256; i++)
        palette.entries[i] = (struct spng_plte_entry){.red = (uint8_t)i, .green = (uint8_t)(255 - i), .blue = 7};
    decode_ok(png_of(indices, N, W, H, SPNG_COLOR_TYPE_INDEXED, 8, &palette, false), 1, 3, &pixels);
    for (int i = 0; i < N; i++)
        assert_memory_equal(pixels.data + (size_t)3 * (size_t)i, ((uint8_t[]){(uint8_t)i, (uint8_t)(255 - i % 256), 7}),
                            3);
    decode_ok(png_of(indices, N, W, H, SPNG_COLOR_TYPE_GRAYSCALE, 8, NULL, false), 1, 1, &pixels);
    assert_memory_equal(pixels.data, indices, N);
    decode_ok(png_of(indices, 3 * H, W, H, SPNG_COLOR_TYPE_GRAYSCALE, 1, NULL, false), 1, 3, &pixels);
    for (int i = 0; i < 3 * N; i++)
        assert_true(pixels.data[i] == 0 || pixels.data[i] == 255);
    free(colours);
    gp_pixels_free(&pixels);
}

/* Cut anywhere, a file is refused or (where only the very end is missing) gives the picture. */
static void test_truncated(void **state) {
    (void)state;
    image_file files[] = {jpeg_picture(0, 64, 48), png_picture(0, 64, 48)};
    for (int f = 0; f < 2; f++) {
        for (size_t size = 0; size + 2 < files[f].size; size += size < 700 ? 7 : 61) {
            gp_decoder decoder = decoder_of(1 << 26);
            gp_image_header header;
            gp_pixels pixels = {0};
            uint8_t *copy = malloc(size ? size : 1);
            assert_non_null(copy);
            memcpy(copy, files[f].bytes, size);
            gp_status status = gp_decode_header(&decoder, copy, size, &header);
            if (status == GP_OK) status = gp_decode(&decoder, copy, size, &header, 1, 3, &pixels);
            assert_int_equal(status, f == 1 && size + 13 >= files[f].size ? status : GP_INVALID);
            gp_pixels_free(&pixels);
            gp_decoder_free(&decoder);
            free(copy);
        }
        decode_bad(files[f].bytes, files[f].size / 2, 1 << 26, "damaged: ");
        free(files[f].bytes);
    }
}

/* With a decoder that has seen other files already. */
static gp_status decode_next(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_pixels *pixels) {
    gp_image_header header;
    gp_status status = gp_decode_header(decoder, bytes, size, &header);
    return status == GP_OK ? gp_decode(decoder, bytes, size, &header, 1, 3, pixels) : status;
}

static size_t without_tables(const image_file *file, uint8_t *to) {
    size_t made = 2, at = 2;
    memcpy(to, file->bytes, 2);
    while (file->bytes[at + 1] != 0xDA) {
        size_t length = 2 + (size_t)(file->bytes[at + 2] << 8 | file->bytes[at + 3]);
        bool table = file->bytes[at + 1] == 0xC4;
        if (!table) memcpy(to + made, file->bytes + at, length);
        made += table ? 0 : length;
        at += length;
    }
    memcpy(to + made, file->bytes + at, file->size - at);
    return made + file->size - at;
}

/* What a file shows does not depend on the files before it: damaged ones, and ones with tables of their own. */
static void test_no_file_touches_the_next(void **state) {
    (void)state;
    uint8_t *bytes = picture(1, 64, 48, 3);
    image_file damaged = jpeg_picture(0, 64, 48),
               other = jpeg_of(bytes, 64, 48, TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE);
    gp_decoder decoder = decoder_of(1 << 26), fresh = decoder_of(1 << 26);
    gp_pixels pixels = {0}, expected = {0};
    for (size_t size = 0; size + 2 < damaged.size; size += 3) {
        assert_int_equal(decode_next(&decoder, damaged.bytes, size, &pixels), GP_INVALID);
        assert_int_equal(decode_next(&decoder, damaged.bytes, damaged.size, &pixels), GP_OK);
        assert_true(distance(&pixels, 0) < 12);
    }
    uint8_t *stripped = malloc(damaged.size);
    assert_non_null(stripped);
    size_t size = without_tables(&damaged, stripped);
    assert_true(size < damaged.size);
    gp_status alone = decode_next(&fresh, stripped, size, &expected);
    assert_int_equal(decode_next(&decoder, other.bytes, other.size, &pixels), GP_OK);
    assert_int_equal(decode_next(&decoder, stripped, size, &pixels), alone);
    if (alone == GP_OK) assert_memory_equal(pixels.data, expected.data, gp_pixels_row(&pixels) * 48);
    gp_decoder_free(&decoder);
    gp_decoder_free(&fresh);
    gp_pixels_free(&pixels);
    gp_pixels_free(&expected);
    free(stripped);
    free(bytes);
    free(damaged.bytes);
    free(other.bytes);
}

/* Any byte changed: refused or decoded, never anything else (sanitizers watch). */
static void test_changed_bytes(void **state) {
    (void)state;
    image_file files[] = {jpeg_picture(1, 24, 16), png_picture(1, 24, 16)};
    gp_decoder decoder = decoder_of(1 << 20);
    gp_pixels pixels = {0};
    for (int f = 0; f < 2; f++) {
        for (size_t at = 0; at < files[f].size; at++) {
            gp_image_header header;
            uint8_t kept = files[f].bytes[at];
            files[f].bytes[at] = (uint8_t)(kept + 1 + 85 * (at % 3));
            gp_status status = gp_decode_header(&decoder, files[f].bytes, files[f].size, &header);
            if (status == GP_OK) status = gp_decode(&decoder, files[f].bytes, files[f].size, &header, 1, 3, &pixels);
            assert_true(status == GP_OK || status == GP_INVALID);
            files[f].bytes[at] = kept;
        }
        free(files[f].bytes);
    }
    gp_pixels_free(&pixels);
    gp_decoder_free(&decoder);
}

static void test_other_files(void **state) {
    (void)state;
    decode_bad("", 0, 1 << 26, "the file is empty");
    decode_bad("this is a text", 14, 1 << 26, "neither a JPEG nor a PNG");
    decode_bad("GIF89a..........", 16, 1 << 26, "neither a JPEG nor a PNG");
    decode_bad("\xFF\xD8\xFF", 3, 1 << 26, "the JPEG is damaged");
    decode_bad("\x89PNG\r\n\x1A\n", 8, 1 << 26, "the PNG is damaged");
}

/* A PNG that says how large it is, with a right checksum, and has nothing behind that. */
static image_file png_claiming(uint32_t width, uint32_t height) {
    image_file file = png_picture(0, 4, 4);
    for (int i = 0; i < 4; i++) {
        file.bytes[16 + i] = (uint8_t)(width >> (24 - 8 * i));
        file.bytes[20 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    uint32_t crc = 0xFFFFFFFFu;
    for (int i = 12; i < 29; i++) {
        crc ^= file.bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        file.bytes[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    return file;
}

/* The size that a JPEG's frame header gives. */
static image_file jpeg_claiming(uint32_t width, uint32_t height) {
    image_file file = jpeg_picture(0, 8, 8);
    for (size_t i = 0; i + 9 < file.size; i++) {
        if (file.bytes[i] != 0xFF || file.bytes[i + 1] != 0xC0) continue;
        file.bytes[i + 5] = (uint8_t)(height >> 8);
        file.bytes[i + 6] = (uint8_t)height;
        file.bytes[i + 7] = (uint8_t)(width >> 8);
        file.bytes[i + 8] = (uint8_t)width;
        break;
    }
    return file;
}

static void refuse_claim(image_file file, const char *reason) {
    decode_bad(file.bytes, file.size, 1 << 26, reason);
    free(file.bytes);
}

static void test_limits(void **state) {
    (void)state;
    gp_pixels pixels = {0};
    refuse_claim(png_claiming(0x7FFFFFFF, 0x7FFFFFFF), "the PNG is damaged");
    refuse_claim(png_claiming(100000, 10), "sides of at most 65535");
    refuse_claim(png_claiming(65535, 65535), "65535 x 65535 pixels: at most 67108864 are accepted");
    refuse_claim(png_claiming(8000, 8000), "claims to have 8000 x 8000 pixels, which cannot be in its ");
    refuse_claim(jpeg_claiming(20000, 20000), "20000 x 20000 pixels: at most 67108864");
    refuse_claim(jpeg_claiming(8000, 8000), "cannot be in its ");
    refuse_claim(png_claiming(0, 10), "the PNG is damaged");
    /* Wide, but within the limit. */
    decode_ok(jpeg_picture(0, 20000, 8), 1, 3, &pixels);
    assert_int_equal(pixels.width, 20000);
    decode_ok(png_picture(0, 20000, 8), 1, 3, &pixels);
    /* A bomb: nearly nothing that unpacks to more than is accepted. */
    uint8_t *zeros = calloc(4000 * 4000, 1);
    assert_non_null(zeros);
    image_file bomb = png_of(zeros, 4000 * 4000, 4000, 4000, SPNG_COLOR_TYPE_GRAYSCALE, 8, NULL, false);
    free(zeros);
    assert_true(bomb.size < 100000);
    uint64_t before = gp_allocation_count();
    decode_bad(bomb.bytes, bomb.size, 1000000, "4000 x 4000 pixels: at most 1000000");
    assert_int_equal(gp_allocation_count(), before);
    free(bomb.bytes);
    decode_ok(png_picture(0, 1, 1), 1, 3, &pixels);
    decode_ok(jpeg_picture(0, 1, 1), 1, 3, &pixels);
    assert_int_equal(pixels.height, 1);
    gp_pixels_free(&pixels);
}

/* Bytes between the parts of a JPEG are no damage; a file that has them and ends early is damaged all the same. */
static void test_harmless_bytes(void **state) {
    (void)state;
    image_file file = jpeg_picture(0, 64, 48);
    uint8_t *padded = malloc(file.size + 5);
    size_t at = 0;
    assert_non_null(padded);
    while (!(file.bytes[at] == 0xFF && file.bytes[at + 1] == 0xC4)) /* before the tables */
        at++;
    memcpy(padded, file.bytes, at);
    memcpy(padded + at, "nothi", 5);
    memcpy(padded + at + 5, file.bytes + at, file.size - at);
    decode_bad(padded, file.size / 2, 1 << 26, "damaged");
    gp_pixels pixels = {0};
    decode_ok((image_file){padded, file.size + 5}, 1, 3, &pixels);
    assert_true(distance(&pixels, 0) < 2);
    gp_pixels_free(&pixels);
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jpeg_forms),
        cmocka_unit_test(test_grey),
        cmocka_unit_test(test_ink),
        cmocka_unit_test(test_shrinking),
        cmocka_unit_test(test_png_forms),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_no_file_touches_the_next),
        cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_harmless_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
