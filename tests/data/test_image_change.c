/* Scaling, colours, geometry: against plain formulas, and what must not change. */
#include "image_files.h"

#include <math.h>

#include "data/image/colour.h"
#include "data/image/random_augment.h"
#include "data/image/resize.h"
#include "data/image/warp.h"

static gp_pixels pixels_of(int kind, int width, int height, int channels) {
    gp_pixels pixels = {0};
    assert_int_equal(gp_pixels_resize(&pixels, width, height, channels), GP_OK);
    uint8_t *bytes = picture(kind, width, height, channels);
    memcpy(pixels.data, bytes, gp_pixels_row(&pixels) * (size_t)height);
    free(bytes);
    return pixels;
}

static gp_pixels plain(int width, int height, int channels, uint8_t value) {
    gp_pixels pixels = {0};
    assert_int_equal(gp_pixels_resize(&pixels, width, height, channels), GP_OK);
    memset(pixels.data, value, gp_pixels_row(&pixels) * (size_t)height);
    return pixels;
}

/* ---- scaling ---- */

/* The weight of input pixel `i` for the output whose middle is at `middle`. */
static double weight(int i, double middle, double reach) {
    return fmax(0, 1 - fabs((i + 0.5 - middle) / reach));
}

/* One byte of the result straight from the definition. */
static double expected(const gp_pixels *from, gp_box box, int width, int height, int x, int y, int c) {
    double across = box.width / width, down = box.height / height, sum = 0, weights = 0;
    double mx = box.x + (x + 0.5) * across, my = box.y + (y + 0.5) * down;
    for (int j = 0; j < from->height; j++) {
        double wy = weight(j, my, fmax(1, down));
        for (int i = 0; wy > 0 && i < from->width; i++) {
            double w = wy * weight(i, mx, fmax(1, across));
            sum += w * gp_pixels_at(from, i, j)[c];
            weights += w;
        }
    }
    return sum / weights;
}

static void test_resize_follows_its_definition(void **state) {
    (void)state;
    static const struct {
        gp_box box;
        int width, height;
    } cases[] = {
        {{0, 0, 37, 23}, 37, 23},         {{0, 0, 37, 23}, 16, 16}, {{0, 0, 37, 23}, 74, 50},
        {{3.25, 1.5, 20.5, 10.25}, 8, 8}, {{5, 4, 12, 9}, 12, 9},   {{5, 4, 12, 9}, 1, 1},
        {{36, 22, 1, 1}, 5, 5},           {{0, 0, 37, 23}, 36, 22}, {{0, 0, 37, 1}, 30, 2},
    };
    gp_resizer resizer = {0};
    gp_pixels to = {0};
    for (int channels = 1; channels <= 3; channels += 2) {
        gp_pixels from = pixels_of(1, 37, 23, channels);
        for (size_t i = 0; i < gp_pixels_row(&from) * 23; i++)
            from.data[i] = (uint8_t)(from.data[i] ^ (i * 37 & 127)); /* rough */
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            assert_int_equal(gp_resize(&resizer, &from, cases[n].box, cases[n].width, cases[n].height, &to), GP_OK);
            for (int y = 0; y < to.height; y++)
                for (int x = 0; x < to.width; x++)
                    for (int c = 0; c < channels; c++)
                        assert_true(fabs(gp_pixels_at(&to, x, y)[c] -
                                         expected(&from, cases[n].box, to.width, to.height, x, y, c)) < 1.6);
        }
        gp_pixels_free(&from);
    }
    gp_pixels_free(&to);
    gp_resizer_free(&resizer);
}

/* A plain image stays what it is to the last bit, at every scale and for every byte. */
static void test_resize_keeps_what_is_plain(void **state) {
    (void)state;
    gp_resizer resizer = {0};
    gp_pixels to = {0};
    for (int value = 0; value < 256; value++) {
        gp_pixels from = plain(29, 31, 3, (uint8_t)value);
        for (int side = 1; side < 70; side += 17) {
            assert_int_equal(gp_resize(&resizer, &from, (gp_box){0.3, 0.7, 28.1, 30.2}, side, side + 3, &to), GP_OK);
            for (size_t i = 0; i < gp_pixels_row(&to) * (size_t)to.height; i++)
                assert_int_equal(to.data[i], value);
        }
        gp_pixels_free(&from);
    }
    gp_pixels_free(&to);
    gp_resizer_free(&resizer);
}

/* ---- colours ---- */

static void check_bytes(const gp_pixels *pixels, const uint8_t *expected_bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pixels->data[i], expected_bytes[i]);
}

static gp_pixels row_of(const uint8_t *bytes, int width, int channels) {
    gp_pixels pixels = plain(width, 1, channels, 0);
    memcpy(pixels.data, bytes, (size_t)width * (size_t)channels);
    return pixels;
}

static void test_factors(void **state) {
    (void)state;
    static const uint8_t bytes[] = {10, 20, 30, 100, 150, 200};
    for (int which = 0; which < 3; which++) {
        void (*change)(gp_pixels *, double) = which == 0 ? gp_brighten : which == 1 ? gp_contrast : gp_saturate;
        gp_pixels pixels = row_of(bytes, 2, 3);
        change(&pixels, 1);
        check_bytes(&pixels, bytes, 6);
        gp_pixels_free(&pixels);
    }
    gp_pixels pixels = row_of(bytes, 2, 3);
    gp_brighten(&pixels, 1.5);
    check_bytes(&pixels, (const uint8_t[]){15, 30, 45, 150, 225, 255}, 6);
    gp_pixels_free(&pixels);
    pixels = row_of(bytes, 2, 3);
    gp_saturate(&pixels, 0);
    for (int p = 0; p < 2; p++) {
        uint8_t grey = gp_luma(bytes + 3 * p);
        check_bytes(&(gp_pixels){.data = pixels.data + 3 * p}, (const uint8_t[]){grey, grey, grey}, 3);
    }
    gp_contrast(&pixels, 0);
    int mean = (gp_luma(bytes) + gp_luma(bytes + 3) + 1) / 2;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pixels.data[i], mean);
    gp_pixels_free(&pixels);
}

static void test_hue(void **state) {
    (void)state;
    static const uint8_t bytes[] = {200, 30, 100, 77, 77, 77};
    gp_pixels pixels = row_of(bytes, 2, 3);
    gp_turn_hue(&pixels, 1.0 / 3); /* red takes green's place, and so on */
    check_bytes(&pixels, (const uint8_t[]){100, 200, 30, 77, 77, 77}, 6);
    gp_turn_hue(&pixels, -1.0 / 3);
    check_bytes(&pixels, bytes, 6);
    gp_pixels_free(&pixels);
}

static void test_tables(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0, 50, 127, 128, 200, 255};
    gp_pixels pixels = row_of(bytes, 6, 1);
    gp_posterize(&pixels, 4);
    check_bytes(&pixels, (const uint8_t[]){0, 48, 112, 128, 192, 240}, 6);
    gp_posterize(&pixels, 8);
    check_bytes(&pixels, (const uint8_t[]){0, 48, 112, 128, 192, 240}, 6);
    gp_pixels_free(&pixels);
    pixels = row_of(bytes, 6, 1);
    gp_solarize(&pixels, 128);
    check_bytes(&pixels, (const uint8_t[]){0, 50, 127, 127, 55, 0}, 6);
    gp_pixels_free(&pixels);
    pixels = row_of((const uint8_t[]){100, 110, 120, 150}, 4, 1);
    gp_stretch_contrast(&pixels);
    check_bytes(&pixels, (const uint8_t[]){0, 51, 102, 255}, 4);
    gp_pixels_free(&pixels);
}

/* Equalized, the bytes of a dark image spread over the whole range, in their order. */
static void test_equalize(void **state) {
    (void)state;
    gp_pixels pixels = plain(64, 64, 1, 0);
    for (int i = 0; i < 64 * 64; i++)
        pixels.data[i] = (uint8_t)(i % 40);
    gp_equalize(&pixels);
    for (int i = 1; i < 40; i++)
        assert_true(pixels.data[i] > pixels.data[i - 1]);
    assert_int_equal(pixels.data[0], 0);
    assert_int_equal(pixels.data[39], 255);
    gp_pixels_free(&pixels);
    pixels = plain(20, 20, 3, 99);
    gp_equalize(&pixels);
    gp_stretch_contrast(&pixels);
    for (int i = 0; i < 1200; i++)
        assert_int_equal(pixels.data[i], 99);
    gp_pixels_free(&pixels);
}

/* ---- geometry ---- */

static void test_warp(void **state) {
    (void)state;
    static const uint8_t fill[3] = {1, 2, 3};
    gp_pixels from = pixels_of(2, 9, 7, 3), to = {0};
    assert_int_equal(gp_warp(&from, (gp_affine){.xx = 1, .yy = 1}, fill, &to), GP_OK);
    assert_memory_equal(to.data, from.data, 9 * 7 * 3);
    assert_int_equal(gp_warp(&from, (gp_affine){.xx = 1, .yy = 1, .x0 = 2, .y0 = -1}, fill, &to), GP_OK);
    assert_memory_equal(gp_pixels_at(&to, 3, 4), gp_pixels_at(&from, 5, 3), 3);
    assert_memory_equal(gp_pixels_at(&to, 8, 4), fill, 3);
    assert_memory_equal(gp_pixels_at(&to, 0, 0), fill, 3);
    /* Half a turn around the middle. */
    assert_int_equal(gp_warp(&from, (gp_affine){.xx = -1, .yy = -1}, fill, &to), GP_OK);
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < 9; x++)
            assert_memory_equal(gp_pixels_at(&to, x, y), gp_pixels_at(&from, 8 - x, 6 - y), 3);
    gp_pixels_free(&from);
    gp_pixels_free(&to);
}

static void test_sharpen(void **state) {
    (void)state;
    gp_pixels from = plain(5, 5, 1, 13), to = {0};
    *gp_pixels_at(&from, 2, 2) = 26;
    assert_int_equal(gp_sharpen(&from, 1, &to), GP_OK);
    assert_memory_equal(to.data, from.data, 25);
    assert_int_equal(gp_sharpen(&from, 0, &to), GP_OK);
    assert_int_equal(*gp_pixels_at(&to, 2, 2), 18); /* (5 * 26 + 8 * 13) / 13 */
    assert_int_equal(*gp_pixels_at(&to, 1, 2), 14);
    assert_int_equal(*gp_pixels_at(&to, 0, 2), 13);
    gp_pixels_free(&from);
    gp_pixels_free(&to);
}

/* Every operation runs at every strength, keeps the shape, and is a function of its draws. */
static void test_random_operations(void **state) {
    (void)state;
    static const uint8_t fill[3] = {124, 116, 104};
    for (int channels = 1; channels <= 3; channels += 2) {
        for (int number = 0; number < GP_RANDOM_OPERATIONS; number++) {
            for (int level = 0; level <= 10; level += 5) {
                gp_pixels a = pixels_of(1, 16, 12, channels), b = pixels_of(1, 16, 12, channels), other = {0};
                gp_draws one = gp_draws_of(1, 2), two = gp_draws_of(1, 2);
                assert_int_equal(gp_random_operation(number, level / 10.0, &one, fill, &a, &other), GP_OK);
                assert_int_equal(gp_random_operation(number, level / 10.0, &two, fill, &b, &other), GP_OK);
                assert_true(a.width == 16 && a.height == 12 && a.channels == channels);
                assert_memory_equal(a.data, b.data, (size_t)16 * 12 * (size_t)channels);
                gp_pixels_free(&a);
                gp_pixels_free(&b);
                gp_pixels_free(&other);
            }
        }
    }
    gp_pixels pixels = plain(1, 1, 3, 9), other = {0};
    gp_draws draws = gp_draws_of(3, 4);
    assert_int_equal(gp_random_augment(100, 1, &draws, fill, &pixels, &other), GP_OK);
    assert_int_equal(gp_random_operation(14, 1, &draws, fill, &pixels, &other), GP_INVALID);
    gp_pixels_free(&pixels);
    gp_pixels_free(&other);
}

/* ---- draws ---- */

static void test_draws(void **state) {
    (void)state;
    gp_draws a = gp_draws_of(5, 77), b = gp_draws_of(5, 78), c = gp_draws_of(5, 77ULL | 1ULL << 40);
    int counts[6] = {0}, same = 0;
    double sum = 0;
    for (int i = 0; i < 6000; i++) {
        counts[gp_draw_below(&a, 6)]++;
        sum += gp_draw_between(&b, -1, 3);
        same += gp_draw(&c) == gp_draw(&a);
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(counts[i], 850, 1150);
    assert_true(fabs(sum / 6000 - 1) < 0.08);
    assert_int_equal(same, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_follows_its_definition),
        cmocka_unit_test(test_resize_keeps_what_is_plain),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_hue),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_equalize),
        cmocka_unit_test(test_warp),
        cmocka_unit_test(test_sharpen),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
