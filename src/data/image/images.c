/* The dataset of images: from options to lists of what is there. */
#include "data/image/images.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "data/order.h"

static gp_image_dataset *images_of(gp_dataset *dataset) {
    return (gp_image_dataset *)dataset;
}

static void images_destroy(gp_dataset *dataset) {
    gp_image_dataset *images = images_of(dataset);
    while (images->desks) {
        gp_desk *desk = images->desks;
        images->desks = desk->next;
        gp_desk_destroy(desk);
    }
    pthread_mutex_destroy(&images->lock);
    for (int split = 0; split < 2; split++)
        gp_free((void *)(uintptr_t)images->splits[split].corrupt);
    gp_collection_free(&images->train);
    gp_collection_free(&images->validation);
    gp_classes_destroy(images->classes);
    gp_recipe_free(&images->recipe);
    gp_free(images);
}

static int64_t images_count(const gp_dataset *dataset, gp_split split) {
    return (int64_t)((const gp_image_dataset *)dataset)->splits[split == GP_SPLIT_VALIDATION].count;
}

static const gp_dataset_class images_class = {
    .name = "images",
    .unit = "images",
    .slow = true,
    .destroy = images_destroy,
    .count = images_count,
    .windows = images_count,
    .read = gp_images_read,
};

static bool is_images(const gp_dataset *dataset) {
    return dataset->table == &images_class;
}

int64_t gp_dataset_corrupt(const gp_dataset *dataset) {
    return is_images(dataset) ? atomic_load(&((const gp_image_dataset *)dataset)->corrupt_count) : 0;
}

/* ---- options ---- */

static gp_status check_options(const gp_image_options *options) {
    if (!options->images && !(options->validation && options->classes))
        return gp_error(GP_INVALID, "no images were given: a path or a pattern is needed");
    if (options->validation && options->validation_share != 0)
        return gp_error(GP_INVALID, "the validation images are both a path and a share: one of them is accepted");
    if (!(options->validation_share >= 0 && options->validation_share < 1))
        return gp_error(GP_INVALID, "the validation share is %g: at least 0 and less than 1 is accepted",
                        options->validation_share);
    if (options->batch < 1 || options->batch > UINT32_MAX)
        return gp_error(GP_INVALID, "a mini-batch of %" PRId64 " samples: 1 to %" PRIu32 " are accepted",
                        options->batch, UINT32_MAX);
    if (options->threads < 0 || options->threads > 256)
        return gp_error(GP_INVALID, "%d threads cannot load: 0 to 256 are accepted", options->threads);
    if (options->window < 0) return gp_error(GP_INVALID, "a window of %" PRId64 " images cannot be", options->window);
    if (options->most_pixels < 0)
        return gp_error(GP_INVALID, "a limit of %" PRId64 " pixels cannot be", options->most_pixels);
    if (options->sampling != GP_SAMPLING_RANDOM && options->sampling != GP_SAMPLING_SEQUENTIAL)
        return gp_error(GP_INVALID, "there is no sampling of kind %d", (int)options->sampling);
    if ((int)options->format < 0 || options->format > GP_IMAGES_IDX)
        return gp_error(GP_INVALID, "there is no format of images of number %d", (int)options->format);
    return GP_OK;
}

static void take_options(gp_image_dataset *images, const gp_image_options *options) {
    images->skip_corrupt = options->skip_corrupt;
    images->sampling = options->sampling;
    images->window = options->window;
    images->batch = options->batch;
    images->most_pixels = options->most_pixels > 0 ? options->most_pixels : (int64_t)1 << 26;
    images->order_use = gp_hash_text("gpipe data images order");
    images->draws_use = gp_hash_text("gpipe data images augmentation");
    images->turn_use = gp_hash_text("gpipe data images alternate");
    images->mixup_use = gp_hash_text("gpipe data images mixup");
}

/* ---- splits ---- */

/* How many of the first `count` images go to validation. */
static size_t share_of(size_t count, double share) {
    return (size_t)((double)count * share);
}

/* Marks the images of validation: of each class its share, chosen by a fixed permutation, so that it is always the same
 * ones. What a class has too little of goes on to the next one. */
static gp_status mark_validation(const gp_collection *collection, size_t classes, double share, bool *marks) {
    size_t *sizes = gp_allocate_array(classes + 1, sizeof *sizes), *seen = gp_allocate_array(classes, sizeof *seen);
    gp_status status = sizes && seen ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i < collection->count; i++)
        sizes[collection->items[i].label + 1]++;
    for (size_t c = 0; status == GP_OK && c < classes; c++)
        sizes[c + 1] += sizes[c]; /* images of the classes before */
    for (size_t i = 0; status == GP_OK && i < collection->count; i++) {
        size_t class = (size_t)collection->items[i].label;
        size_t wanted = share_of(sizes[class + 1], share) - share_of(sizes[class], share);
        gp_permutation order =
            gp_permutation_of(sizes[class + 1] - sizes[class], gp_hash_text("gpipe validation"), class);
        marks[i] = gp_permutation_at(&order, seen[class]++) < wanted;
    }
    gp_free(sizes);
    gp_free(seen);
    return status;
}

/* Puts the images of validation behind those of training; both keep their order. */
static gp_status split_off(gp_collection *collection, size_t classes, double share, size_t *train) {
    size_t count = collection->count, at[2] = {0, 0};
    bool *marks = gp_allocate_array(count, sizeof *marks);
    gp_image_item *sorted = gp_allocate_array(count, sizeof *sorted);
    gp_status status = marks && sorted ? mark_validation(collection, classes, share, marks) : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i < count; i++)
        at[1] += !marks[i];
    *train = at[1];
    for (size_t i = 0; status == GP_OK && i < count; i++)
        sorted[at[marks[i]]++] = collection->items[i];
    gp_free(marks);
    if (status != GP_OK) {
        gp_free(sorted);
        return status;
    }
    gp_free(collection->items);
    collection->items = sorted;
    collection->capacity = count;
    return GP_OK;
}

static gp_status set_split(gp_image_dataset *images, gp_split which, const gp_collection *collection, size_t first,
                           size_t count) {
    gp_image_split *split = &images->splits[which];
    *split = (gp_image_split){.collection = collection, .first = first, .count = count};
    split->corrupt = gp_allocate_array(count, sizeof *split->corrupt);
    return split->corrupt ? GP_OK : GP_OUT_OF_MEMORY;
}

/* Before the labels are settled. */
static gp_status check_classes(const gp_collection *collection, const char *path) {
    int32_t label = collection->items[0].label;
    const char *name = "";
    for (size_t i = 1; i < collection->count; i++)
        if (collection->items[i].label != label) return GP_OK;
    for (size_t i = 0; i < collection->class_count; i++)
        if (collection->classes[i].number == label) name = gp_collection_text(collection, collection->classes[i].name);
    return gp_error(GP_INVALID, "'%s' has images of one class only, '%s': a classifier needs two or more", path, name);
}

static gp_status open_train(gp_image_dataset *images, const gp_image_options *options) {
    gp_collection *train = &images->train;
    size_t count;
    if (!options->images) return GP_OK;
    GP_TRY(gp_collect(train, options->images, options->format, options->labels));
    if (!images->classes) {
        GP_TRY(check_classes(train, options->images));
        GP_TRY(gp_collection_list_classes(train, &images->classes));
    }
    GP_TRY(gp_collection_settle(train, images->classes, "the images"));
    count = train->count;
    if (options->validation_share > 0) {
        GP_TRY(split_off(train, gp_classes_count(images->classes), options->validation_share, &count));
        if (count == train->count)
            return gp_error(GP_INVALID, "the %zu images of '%s' are too few: a validation share of %g leaves none",
                            count, options->images, options->validation_share);
        GP_TRY(set_split(images, GP_SPLIT_VALIDATION, train, count, train->count - count));
    }
    return set_split(images, GP_SPLIT_TRAIN, train, 0, count);
}

/* Classes that validation has no image of: not wrong, but seldom meant. */
static gp_status warn_of_missing(const gp_image_dataset *images, const char *path) {
    size_t count = gp_classes_count(images->classes), missing = 0, example = 0;
    bool *seen = gp_allocate_array(count, sizeof *seen);
    if (!seen) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < images->validation.count; i++)
        seen[images->validation.items[i].label] = true;
    for (size_t c = count; c-- > 0;) {
        if (seen[c]) continue;
        missing++;
        example = c;
    }
    gp_free(seen);
    if (missing > 0)
        gp_log(GP_LOG_WARNING, "the validation images '%s' have none of %zu of the %zu classes, for instance '%s'",
               path, missing, count, gp_classes_name(images->classes, example));
    return GP_OK;
}

static gp_status open_validation(gp_image_dataset *images, const gp_image_options *options) {
    gp_collection *validation = &images->validation;
    if (!options->validation) return GP_OK;
    GP_TRY(gp_collect(validation, options->validation, options->format, options->validation_labels));
    GP_TRY(gp_collection_settle(validation, images->classes, "the validation images"));
    GP_TRY(warn_of_missing(images, options->validation));
    return set_split(images, GP_SPLIT_VALIDATION, validation, 0, validation->count);
}

static gp_status copy_classes(gp_image_dataset *images, const gp_classes *classes) {
    size_t count = classes ? gp_classes_count(classes) : 0;
    if (!classes) return GP_OK;
    const char **names = gp_allocate_array(count, sizeof *names);
    if (!names) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = gp_classes_name(classes, i);
    gp_status status = gp_classes_create(&images->classes, names, count);
    gp_free(names);
    return status;
}

/* ---- creation ---- */

static gp_status build(gp_image_dataset *images, const gp_image_options *options) {
    bool mixes = options->augmentation.mixup > 0;
    GP_TRY(check_options(options));
    GP_TRY(gp_recipe_create(&images->recipe, options));
    take_options(images, options);
    images->dataset.input_type =
        (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){options->height, options->width, options->channels})};
    images->dataset.target_type = (gp_type){GP_I32, mixes ? gp_shape_of(1, (int64_t[]){2}) : (gp_shape){0}};
    images->dataset.weighted = mixes;
    images->dataset.threads = options->threads;
    images->dataset.mirrored = options->mirror;
    images->dataset.shift = options->shift;
    GP_TRY(copy_classes(images, options->classes));
    GP_TRY(open_train(images, options));
    images->dataset.classes = images->classes;
    return open_validation(images, options);
}

gp_status gp_dataset_create_images(gp_dataset **dataset, const gp_image_options *options) {
    gp_image_options known;
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a dataset of images needs options: at least images and a size");
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_image_options"));
    gp_image_dataset *images = gp_allocate(sizeof *images);
    if (!images) return GP_OUT_OF_MEMORY;
    images->dataset.table = &images_class;
    pthread_mutex_init(&images->lock, NULL);
    gp_status status = build(images, &known);
    if (status != GP_OK) {
        gp_dataset_destroy(&images->dataset);
        return status;
    }
    *dataset = &images->dataset;
    return GP_OK;
}
