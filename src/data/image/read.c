/* Samples of images. Which image a sample shows, and what is done to it, follows from the sample's number in the
 * training alone; so does what takes the place of a corrupt one, as long as the files stay the same. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/images.h"
#include "data/order.h"

/* Corrupt images in a row that are replaced by the one behind. */
enum { MOST_REPLACED = 100 };

/* ---- desks ---- */

void gp_desk_destroy(gp_desk *desk) {
    gp_renderer_free(&desk->renderer);
    gp_buffer_free(&desk->file);
    gp_free(desk->other);
    gp_free(desk);
}

/* The pool behind a dataset that is otherwise constant. */
static gp_image_dataset *pool_of(const gp_image_dataset *images) {
    return (gp_image_dataset *)(uintptr_t)images;
}

static gp_desk *take_desk(const gp_image_dataset *images) {
    gp_image_dataset *pool = pool_of(images);
    pthread_mutex_lock(&pool->lock);
    gp_desk *desk = pool->desks;
    if (desk) pool->desks = desk->next;
    pthread_mutex_unlock(&pool->lock);
    if (desk) return desk;
    desk = gp_allocate(sizeof *desk);
    if (!desk) return NULL;
    desk->renderer.decoder.most_pixels = images->most_pixels;
    return desk;
}

static void return_desk(const gp_image_dataset *images, gp_desk *desk) {
    gp_image_dataset *pool = pool_of(images);
    pthread_mutex_lock(&pool->lock);
    desk->next = pool->desks;
    pool->desks = desk;
    pthread_mutex_unlock(&pool->lock);
}

/* ---- one image ---- */

typedef struct image_reader {
    const gp_image_dataset *images;
    const gp_image_split *split;
    const gp_request *request;
    gp_desk *desk;
    size_t elements; /* of a sample */
} image_reader;

/* `out` NULL: it is only found out whether the image is sound. */
static gp_status render(const image_reader *reader, size_t index, gp_draws *draws, float *out) {
    gp_stored_image image;
    gp_desk *desk = reader->desk;
    const gp_recipe *recipe = &reader->images->recipe;
    GP_TRY(gp_collection_open(reader->split->collection, reader->split->first + index, &desk->file, &image));
    if (!out) return gp_render_check(&desk->renderer, recipe, &image);
    return gp_render(&desk->renderer, recipe, &image, draws, out);
}

static const char *name_image(const image_reader *reader, size_t index, char *text, size_t size) {
    return gp_collection_describe(reader->split->collection, reader->split->first + index, text, size);
}

/* Puts the image's name in front of the reason. */
static gp_status blame(const image_reader *reader, size_t index, gp_status status) {
    char name[1024];
    return gp_error_within(status, "%s", name_image(reader, index, name, sizeof name));
}

/* Names a corrupt image the first time that it is met. */
static void note_corrupt(const image_reader *reader, size_t index) {
    char name[1024];
    if (atomic_exchange(&reader->split->corrupt[index], 1)) return;
    atomic_fetch_add(&pool_of(reader->images)->corrupt_count, 1);
    gp_log(GP_LOG_WARNING, "a corrupt image is skipped: %s: %s", name_image(reader, index, name, sizeof name),
           gp_error_message());
}

/* Renders the image, or the next one that is sound. `*index` becomes the one it was. Without `out`, nothing is looked
 * at unless a corrupt image would change the label. */
static gp_status render_sound(const image_reader *reader, size_t *index, gp_draws draws, float *out) {
    if (!out && !reader->images->skip_corrupt) return GP_OK;
    for (int i = 0; i < MOST_REPLACED; i++) {
        gp_draws own = draws;
        gp_status status = render(reader, *index, &own, out);
        if (status == GP_OK) return GP_OK;
        if (status != GP_INVALID || !reader->images->skip_corrupt) return blame(reader, *index, status);
        note_corrupt(reader, *index);
        *index = (*index + 1) % reader->split->count;
    }
    return gp_error(GP_INVALID, "%d images in a row are corrupt; the last one: %s", MOST_REPLACED, gp_error_message());
}

/* ---- samples of training ---- */

/* The number of a sample in the whole training. */
static uint64_t number_of(const image_reader *reader, int64_t sample) {
    return (uint64_t)reader->request->step * (uint64_t)reader->images->batch + (uint64_t)sample;
}

static size_t index_of(const image_reader *reader, uint64_t number) {
    const gp_image_dataset *images = reader->images;
    uint64_t count = reader->split->count, epoch = number / count, place = number % count;
    if (images->sampling == GP_SAMPLING_SEQUENTIAL) return place;
    return gp_order_at(count, (uint64_t)images->window, reader->request->seed ^ images->order_use, epoch, place);
}

/* In the first epoch by chance, then in every other one. */
static bool is_turned(const image_reader *reader, size_t index, uint64_t epoch) {
    gp_draws draws = gp_draws_of(reader->request->seed ^ reader->images->turn_use, index);
    return (gp_draw(&draws) ^ epoch) & 1;
}

static gp_status make_sample(const image_reader *reader, int64_t sample, float *out, int32_t *label) {
    uint64_t number = number_of(reader, sample);
    size_t index = index_of(reader, number);
    gp_draws draws = gp_draws_of(reader->request->seed ^ reader->images->draws_use, number);
    if (reader->images->recipe.augmentation.alternate)
        draws.turned = is_turned(reader, index, number / reader->split->count);
    GP_TRY(render_sound(reader, &index, draws, out));
    *label = reader->split->collection->items[reader->split->first + index].label;
    return GP_OK;
}

/* ---- mixup ---- */

/* Gamma(shape, 1) (Marsaglia & Tsang, "A simple method for generating gamma variables", 2000). */
static double draw_gamma(gp_draws *draws, double shape) {
    double small = shape < 1 ? pow(gp_draw_between(draws, 0x1p-33, 1), 1 / shape) : 1;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double radius = sqrt(-2 * log(gp_draw_between(draws, 0x1p-33, 1)));
        double x = radius * cos(6.283185307179586 * gp_draw_between(draws, 0, 1)), v = 1 + c * x;
        double u = gp_draw_between(draws, 0x1p-33, 1);
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) return d * v * small;
    }
}

/* The share of a sample's own image, in units of 1 / 2^16, so that it and the rest are exact and add up to one. */
static float own_share(const image_reader *reader, int64_t sample) {
    gp_draws draws = gp_draws_of(reader->request->seed ^ reader->images->mixup_use, number_of(reader, sample));
    double alpha = reader->images->recipe.augmentation.mixup;
    double a = draw_gamma(&draws, alpha), b = draw_gamma(&draws, alpha);
    double share = a + b > 0 ? a / (a + b) : gp_draw(&draws) & 1;
    return (float)(floor(share * 65536 + 0.5) / 65536);
}

static void mix(float *own, const float *other, float share, size_t count) {
    for (size_t i = 0; own && i < count; i++)
        own[i] = share * own[i] + (1 - share) * other[i];
}

static void mix_pair(float *a, float *b, float share_a, float share_b, size_t count) {
    for (size_t i = 0; a && i < count; i++) {
        float x = a[i], y = b[i];
        a[i] = share_a * x + (1 - share_a) * y;
        b[i] = share_b * y + (1 - share_b) * x;
    }
}

/* ---- the batch ---- */

static float *input_at(const image_reader *reader, const gp_batch *batch, int64_t i) {
    return batch->inputs.data ? (float *)batch->inputs.data + (size_t)i * reader->elements : NULL;
}

static void set_target(const gp_batch *batch, int64_t i, int32_t label) {
    if (batch->targets.data) ((int32_t *)batch->targets.data)[i] = label;
}

static void set_mixed_target(const gp_batch *batch, int64_t i, int32_t own, int32_t other, float share) {
    if (!batch->targets.data) return;
    set_target(batch, 2 * i, own);
    set_target(batch, 2 * i + 1, other);
    ((float *)batch->weights.data)[2 * i] = share;
    ((float *)batch->weights.data)[2 * i + 1] = 1 - share;
}

/* One sample, mixed with its neighbour in the mini-batch, which is asked for by somebody else (or is not there: then
 * with itself). */
static gp_status make_half(const image_reader *reader, const gp_batch *batch, int64_t i, int64_t sample) {
    float *out = input_at(reader, batch, i), share = own_share(reader, sample);
    gp_desk *desk = reader->desk;
    int64_t neighbour = sample ^ 1;
    int32_t own, other;
    if (out && !desk->other) {
        desk->other = gp_allocate_array(reader->elements, sizeof *desk->other);
        if (!desk->other) return GP_OUT_OF_MEMORY;
    }
    if (neighbour >= reader->images->batch) neighbour = sample;
    GP_TRY(make_sample(reader, sample, out, &own));
    GP_TRY(make_sample(reader, neighbour, out ? desk->other : NULL, &other));
    mix(out, desk->other, share, reader->elements);
    set_mixed_target(batch, i, own, other, share);
    return GP_OK;
}

static gp_status make_pair(const image_reader *reader, const gp_batch *batch, int64_t i, int64_t sample) {
    float *a = input_at(reader, batch, i), *b = input_at(reader, batch, i + 1);
    float share_a = own_share(reader, sample), share_b = own_share(reader, sample + 1);
    int32_t label_a, label_b;
    GP_TRY(make_sample(reader, sample, a, &label_a));
    GP_TRY(make_sample(reader, sample + 1, b, &label_b));
    mix_pair(a, b, share_a, share_b, reader->elements);
    set_mixed_target(batch, i, label_a, label_b, share_a);
    set_mixed_target(batch, i + 1, label_b, label_a, share_b);
    return GP_OK;
}

static gp_status make_mixed(const image_reader *reader, const gp_batch *batch) {
    const gp_request *request = reader->request;
    for (int64_t i = 0; i < request->count; i++) {
        int64_t sample = request->first + i;
        if (sample % 2 == 1 || i + 1 == request->count) {
            GP_TRY(make_half(reader, batch, i, sample));
        } else {
            GP_TRY(make_pair(reader, batch, i++, sample));
        }
    }
    return GP_OK;
}

static gp_status make_samples(const image_reader *reader, const gp_batch *batch) {
    const gp_request *request = reader->request;
    if (reader->images->dataset.weighted) return make_mixed(reader, batch);
    for (int64_t i = 0; i < request->count; i++) {
        int32_t label;
        GP_TRY(make_sample(reader, request->first + i, input_at(reader, batch, i), &label));
        set_target(batch, i, label);
    }
    return GP_OK;
}

/* ---- evaluation ---- */

/* `*label` becomes the one that the loss ignores for an image that is not there or is corrupt and skipped. */
static gp_status make_window(const image_reader *reader, int64_t window, float *out, int32_t *label) {
    *label = GP_IGNORED_TARGET;
    bool there = window < (int64_t)reader->split->count;
    bool looked_at = out || reader->images->skip_corrupt;
    gp_status status = there && looked_at ? render(reader, (size_t)window, NULL, out) : GP_OK;
    if (status != GP_OK && (status != GP_INVALID || !reader->images->skip_corrupt))
        return blame(reader, (size_t)window, status);
    if (status != GP_OK) note_corrupt(reader, (size_t)window);
    if (there && status == GP_OK) {
        *label = reader->split->collection->items[reader->split->first + (size_t)window].label;
        return GP_OK;
    }
    for (size_t i = 0; out && i < reader->elements; i++)
        out[i] = 0;
    return GP_OK;
}

static gp_status make_windows(const image_reader *reader, const gp_batch *batch) {
    const gp_request *request = reader->request;
    for (int64_t i = 0; i < request->count; i++) {
        int32_t label;
        GP_TRY(make_window(reader, request->first + i, input_at(reader, batch, i), &label));
        if (reader->images->dataset.weighted) {
            set_mixed_target(batch, i, label, label, 1);
        } else {
            set_target(batch, i, label);
        }
    }
    return GP_OK;
}

/* ---- requests ---- */

static gp_status check_request(const image_reader *reader) {
    const gp_request *request = reader->request;
    int64_t batch = reader->images->batch, last = request->first + request->count;
    if (request->evaluation || request->count == 0) return GP_OK;
    if (reader->split->count == 0)
        return gp_error(GP_INVALID, "there are no images for %s",
                        request->split == GP_SPLIT_TRAIN ? "training" : "validation");
    if (last > batch)
        return gp_error(GP_INVALID, "sample %" PRId64 " is more than a mini-batch of %" PRId64 " has", last - 1, batch);
    if (request->step > (INT64_MAX - last) / batch)
        return gp_error(GP_INVALID, "step %" PRId64 " is too large for batches of %" PRId64, request->step, batch);
    return GP_OK;
}

gp_status gp_images_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const gp_image_dataset *images = (const gp_image_dataset *)dataset;
    image_reader reader = {.images = images,
                           .split = &images->splits[request->split == GP_SPLIT_VALIDATION],
                           .request = request,
                           .elements = (size_t)gp_shape_elements(dataset->input_type.shape)};
    GP_TRY(check_request(&reader));
    reader.desk = take_desk(images);
    if (!reader.desk) return GP_OUT_OF_MEMORY;
    gp_status status = request->evaluation ? make_windows(&reader, batch) : make_samples(&reader, batch);
    return_desk(images, reader.desk);
    return status;
}
