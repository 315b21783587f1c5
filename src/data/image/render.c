/* A sample passes through bytes until the very last step, which makes numbers of them: shifting, turning round and
 * cutting out happen there on the way, and what has no pixel of the image is the mean colour, which is zero. */
#include "data/image/render.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/colour.h"
#include "data/image/random_augment.h"

void gp_renderer_free(gp_renderer *renderer) {
    gp_decoder_free(&renderer->decoder);
    gp_resizer_free(&renderer->resizer);
    gp_pixels_free(&renderer->decoded);
    gp_pixels_free(&renderer->sample);
    gp_pixels_free(&renderer->other);
}

/* ---- which part of the image ---- */

/* The largest box from the middle that has the sample's shape; `enlarged` times smaller in each direction. */
static gp_box middle_box(const gp_recipe *recipe, int width, int height, double enlarged) {
    double across = width / (recipe->width * enlarged), down = height / (recipe->height * enlarged);
    double scale = across < down ? across : down;
    bool copied = fabs(scale - 1) < 1e-9; /* pixel by pixel: from whole ones on */
    if (copied) scale = 1;
    gp_box box = {.width = recipe->width * scale, .height = recipe->height * scale};
    box.x = 0.5 * (width - box.width);
    box.y = 0.5 * (height - box.height);
    return copied ? (gp_box){floor(box.x), floor(box.y), box.width, box.height} : box;
}

/* A box of random area and shape (Szegedy et al.); after ten that do not fit, the middle in the nearest shape. */
static gp_box random_box(const gp_recipe *recipe, int width, int height, gp_draws *draws) {
    const gp_augmentation *how = &recipe->augmentation;
    double low = log(how->ratio[0]), high = log(how->ratio[1]);
    for (int attempt = 0; attempt < 10; attempt++) {
        double area = (double)width * height * gp_draw_between(draws, how->scale[0], how->scale[1]);
        double ratio = exp(gp_draw_between(draws, low, high));
        int across = (int)floor(sqrt(area * ratio) + 0.5), down = (int)floor(sqrt(area / ratio) + 0.5);
        if (across < 1 || down < 1 || across > width || down > height) continue;
        return (gp_box){.x = gp_draw_below(draws, width - across + 1),
                        .y = gp_draw_below(draws, height - down + 1),
                        .width = across,
                        .height = down};
    }
    double ratio = (double)width / height, across = width, down = height;
    if (ratio < how->ratio[0]) down = fmax(1, floor(width / how->ratio[0] + 0.5));
    if (ratio > how->ratio[1]) across = fmax(1, floor(height * how->ratio[1] + 0.5));
    return (gp_box){.x = floor((width - across) / 2), .y = floor((height - down) / 2), .width = across, .height = down};
}

static gp_box choose_box(const gp_recipe *recipe, int width, int height, gp_draws *draws) {
    if (!draws) return middle_box(recipe, width, height, recipe->enlarged);
    if (recipe->augmentation.crop == GP_CROP_RESIZED) return random_box(recipe, width, height, draws);
    return middle_box(recipe, width, height, 1);
}

/* ---- decoding ---- */

static gp_status open_plain(gp_renderer *renderer, const gp_stored_image *image, int channels, gp_pixels **whole) {
    gp_pixels *decoded = &renderer->decoded;
    size_t count = (size_t)image->width * (size_t)image->height, planes = (size_t)image->channels;
    GP_TRY(gp_pixels_resize(decoded, image->width, image->height, image->channels));
    for (size_t c = 0; c < planes; c++)
        for (size_t i = 0; i < count; i++)
            decoded->data[i * planes + c] = image->bytes[c * count + i];
    *whole = decoded;
    if (channels == image->channels) return GP_OK;
    *whole = &renderer->decoder.scratch;
    return gp_pixels_convert(decoded, channels, *whole);
}

/* How many times smaller a JPEG may be decoded so that the box still has every pixel of the sample. */
static int choose_shrink(const gp_recipe *recipe, const gp_image_header *header, gp_box box) {
    int shrink = 1;
    if (header->kind != GP_IMAGE_JPEG) return 1;
    while (shrink < 8 && box.width / (2 * shrink) >= recipe->width && box.height / (2 * shrink) >= recipe->height)
        shrink *= 2;
    return shrink;
}

/* The box of the smaller image; sizes were rounded up. */
static gp_box shrink_box(gp_box box, const gp_image_header *header, const gp_pixels *decoded) {
    double across = (double)decoded->width / header->width, down = (double)decoded->height / header->height;
    return (gp_box){.x = box.x * across, .y = box.y * down, .width = box.width * across, .height = box.height * down};
}

/* The part that was chosen, in the sample's size. */
static gp_status cut_out(gp_renderer *renderer, const gp_recipe *recipe, const gp_stored_image *image,
                         gp_draws *draws) {
    gp_pixels *whole = &renderer->decoded;
    gp_box box;
    if (image->plain) {
        GP_TRY(open_plain(renderer, image, recipe->channels, &whole));
        box = choose_box(recipe, image->width, image->height, draws);
    } else {
        gp_image_header header;
        GP_TRY(gp_decode_header(&renderer->decoder, image->bytes, image->size, &header));
        box = choose_box(recipe, header.width, header.height, draws);
        int shrink = choose_shrink(recipe, &header, box);
        GP_TRY(gp_decode(&renderer->decoder, image->bytes, image->size, &header, shrink, recipe->channels, whole));
        box = shrink_box(box, &header, whole);
    }
    return gp_resize(&renderer->resizer, whole, box, recipe->width, recipe->height, &renderer->sample);
}

gp_status gp_render_check(gp_renderer *renderer, const gp_recipe *recipe, const gp_stored_image *image) {
    gp_image_header header;
    if (image->plain) return GP_OK;
    GP_TRY(gp_decode_header(&renderer->decoder, image->bytes, image->size, &header));
    return gp_decode(&renderer->decoder, image->bytes, image->size, &header, header.kind == GP_IMAGE_JPEG ? 8 : 1,
                     recipe->channels, &renderer->decoded);
}

/* ---- colours ---- */

static double factor_of(double most, gp_draws *draws) {
    return gp_draw_between(draws, most < 1 ? 1 - most : 0, 1 + most);
}

static void jitter(gp_pixels *pixels, const gp_augmentation *how, gp_draws *draws) {
    if (how->brightness > 0) gp_brighten(pixels, factor_of(how->brightness, draws));
    if (how->contrast > 0) gp_contrast(pixels, factor_of(how->contrast, draws));
    if (how->saturation > 0) gp_saturate(pixels, factor_of(how->saturation, draws));
    if (how->hue > 0) gp_turn_hue(pixels, gp_draw_between(draws, -how->hue, how->hue));
}

/* ---- numbers ---- */

/* How the bytes of the image come to lie in the sample. */
typedef struct placement {
    int dx, dy;                                       /* the sample's pixel (x, y) is the image's (x + dx, y + dy) */
    bool flip;                                        /* the image's columns are counted from the right */
    int hole_left, hole_right, hole_top, hole_bottom; /* the mean colour; ends are outside */
} placement;

static void turn_row(const uint8_t *from, int width, int channels, uint8_t *to) {
    for (int x = 0; x < width; x++)
        for (int c = 0; c < channels; c++)
            to[x * channels + c] = from[(width - 1 - x) * channels + c];
}

/* One row: zeros where the image does not reach or the hole is. */
static void write_row(const gp_recipe *recipe, const placement *place, const uint8_t *row, int y, float *out) {
    size_t channels = (size_t)recipe->channels;
    int first = place->dx < 0 ? -place->dx : 0;
    int last = place->dx > 0 ? recipe->width - place->dx : recipe->width;
    size_t begin = (size_t)first * channels, end = (size_t)last * channels;
    const uint8_t *from = row + (size_t)(first + place->dx) * channels;
    memset(out, 0, begin * sizeof *out);
    for (size_t i = begin; i < end; i++)
        out[i] = (float)from[i - begin] * recipe->scale[i] + recipe->shift[i];
    memset(out + end, 0, ((size_t)recipe->width * channels - end) * sizeof *out);
    if (y < place->hole_top || y >= place->hole_bottom) return;
    size_t hole = (size_t)(place->hole_right - place->hole_left) * channels;
    memset(out + (size_t)place->hole_left * channels, 0, hole * sizeof *out);
}

static void write_sample(const gp_recipe *recipe, const placement *place, const gp_pixels *sample, uint8_t *turned,
                         float *out) {
    size_t row = gp_pixels_row(sample);
    for (int y = 0; y < recipe->height; y++, out += row) {
        int from = y + place->dy;
        if (from < 0 || from >= recipe->height) {
            memset(out, 0, row * sizeof *out);
            continue;
        }
        const uint8_t *bytes = gp_pixels_at(sample, 0, from);
        if (place->flip) turn_row(bytes, recipe->width, recipe->channels, turned);
        write_row(recipe, place, place->flip ? turned : bytes, y, out);
    }
}

static void clip(int middle, int64_t side, int most, int *begin, int *end) {
    int64_t first = middle - side / 2, last = first + side;
    *begin = first < 0 ? 0 : (int)first;
    *end = last > most ? most : (int)last;
}

static placement choose_placement(const gp_recipe *recipe, gp_draws *draws) {
    const gp_augmentation *how = &recipe->augmentation;
    placement place = {0};
    if (!draws) return place;
    if (how->crop == GP_CROP_PAD) {
        place.dx = gp_draw_below(draws, (int)(2 * how->pad + 1)) - (int)how->pad;
        place.dy = gp_draw_below(draws, (int)(2 * how->pad + 1)) - (int)how->pad;
    }
    if (how->flip) place.flip = gp_draw(draws) & 1; /* also with alternate, so that the draws behind it are the same */
    if (how->alternate) place.flip = draws->turned;
    if (how->cutout > 0) {
        int x = gp_draw_below(draws, recipe->width), y = gp_draw_below(draws, recipe->height);
        clip(x, how->cutout, recipe->width, &place.hole_left, &place.hole_right);
        clip(y, how->cutout, recipe->height, &place.hole_top, &place.hole_bottom);
    }
    return place;
}

gp_status gp_render(gp_renderer *renderer, const gp_recipe *recipe, const gp_stored_image *image, gp_draws *draws,
                    float *out) {
    const gp_augmentation *how = &recipe->augmentation;
    gp_pixels *sample = &renderer->sample, *other = &renderer->other;
    GP_TRY(cut_out(renderer, recipe, image, draws));
    placement place = choose_placement(recipe, draws);
    if (draws) {
        if (how->operations > 0)
            GP_TRY(gp_random_augment(how->operations, how->magnitude / 30, draws, recipe->mean, sample, other));
        jitter(sample, how, draws);
    }
    if (place.flip) GP_TRY(gp_pixels_resize(other, recipe->width, 1, recipe->channels));
    write_sample(recipe, &place, sample, other->data, out);
    return GP_OK;
}
