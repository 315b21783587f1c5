/* The dataset of images: what epochs hold, what is done to samples, splits, classes, corrupt files. */
#include "image_folder.h"

#include <math.h>

enum { COUNT = 24, SIDE = 8 };

static temporary *make_folder(void **state) {
    temporary *t = *state;
    write_plain_folder(t, "data", 3, COUNT / 3, SIDE, SIDE);
    return t;
}

static float first_value(const gp_batch *batch, int64_t i) {
    int64_t elements = gp_shape_elements(batch->inputs.type.shape) / batch->inputs.type.shape.dims[0];
    return ((const float *)batch->inputs.data)[i * elements];
}

/* The number of the image that a sample shows. */
static int shown(const gp_batch *batch, int64_t i) {
    return (brightness_of(first_value(batch, i)) - 10) / 3;
}

static int32_t target(const gp_batch *batch, int64_t i) {
    return ((const int32_t *)batch->targets.data)[i];
}

/* ---- epochs ---- */

/* Batches that do not divide the epoch: every epoch has every image once, with its class. */
static void test_epochs(void **state) {
    temporary *t = make_folder(state);
    for (int way = 0; way < 3; way++) {
        enum { BATCH = 5, EPOCHS = 3 };
        gp_image_options options = options_of(temporary_path(t, "data"), SIDE, BATCH);
        options.sampling = way == 2 ? GP_SAMPLING_SEQUENTIAL : GP_SAMPLING_RANDOM;
        options.window = way == 1 ? 6 : 0;
        gp_dataset *dataset = open_images(&options);
        assert_string_equal(gp_dataset_unit(dataset), "images");
        assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), COUNT);
        assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 0);
        gp_batch batch;
        int order[EPOCHS * COUNT], seen[COUNT] = {0};
        assert_int_equal(gp_batch_create(&batch, dataset, BATCH), GP_OK);
        for (int n = 0; n < EPOCHS * COUNT; n++) {
            if (n % BATCH == 0)
                assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 3, n / BATCH, 0, BATCH, &batch), GP_OK);
            order[n] = shown(&batch, n % BATCH);
            assert_in_range(order[n], 0, COUNT - 1);
            assert_int_equal(target(&batch, n % BATCH), order[n] / (COUNT / 3));
            assert_int_equal(seen[order[n]]++, n / COUNT);
            if (way == 2) assert_int_equal(order[n], n % COUNT);
        }
        if (way != 2) assert_true(memcmp(order, order + COUNT, COUNT * sizeof *order) != 0);
        gp_batch_destroy(&batch);
        gp_dataset_destroy(dataset);
    }
}

static void test_evaluation(void **state) {
    temporary *t = make_folder(state);
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 4);
    options.augmentation =
        (gp_augmentation){.crop = GP_CROP_PAD, .flip = true, .cutout = 4, .operations = 3, .magnitude = 30};
    gp_dataset *dataset = open_images(&options);
    gp_batch batch;
    assert_int_equal(gp_dataset_windows(dataset, GP_SPLIT_TRAIN), COUNT);
    assert_int_equal(gp_batch_create(&batch, dataset, COUNT + 2), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, COUNT + 2, &batch), GP_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(shown(&batch, i), i);
        assert_int_equal(target(&batch, i), i / (COUNT / 3));
    }
    for (int i = COUNT; i < COUNT + 2; i++) {
        assert_true(first_value(&batch, i) == 0);
        assert_int_equal(target(&batch, i), GP_IGNORED_TARGET);
    }
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* ---- splits and classes ---- */

/* A share of every class, always the same images, and none in both splits. */
static void test_validation_share(void **state) {
    temporary *t = make_folder(state);
    static const double shares[] = {0.25, 0.1, 0.5};
    for (size_t s = 0; s < 3; s++) {
        gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
        options.validation_share = shares[s];
        gp_dataset *dataset = open_images(&options);
        int64_t held = gp_dataset_count(dataset, GP_SPLIT_VALIDATION);
        assert_int_equal(held, (int64_t)(COUNT * shares[s]));
        assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), COUNT - held);
        bool seen[COUNT] = {false};
        int of_class[3] = {0};
        gp_batch batch;
        assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
        for (int split = 0; split < 2; split++) {
            for (int64_t i = 0; i < gp_dataset_count(dataset, (gp_split)split); i++) {
                assert_int_equal(gp_dataset_window(dataset, (gp_split)split, i, 1, &batch), GP_OK);
                assert_false(seen[shown(&batch, 0)]);
                seen[shown(&batch, 0)] = true;
                if (split) of_class[target(&batch, 0)]++;
            }
        }
        for (int c = 0; c < 3; c++)
            assert_true(fabs(of_class[c] - COUNT / 3 * shares[s]) < 1);
        gp_batch_destroy(&batch);
        gp_dataset_destroy(dataset);
    }
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
    options.validation_share = 0.01;
    refuse_images(&options, "a validation share of 0.01 leaves none");
}

static void test_validation_folder(void **state) {
    temporary *t = make_folder(state);
    write_plain_folder(t, "val", 2, 3, SIDE, SIDE);
    write_plain_folder(t, "more", 4, 1, SIDE, SIDE);
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 2);
    options.validation = temporary_path(t, "val");
    gp_dataset *dataset = open_images(&options);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 6);
    assert_int_equal(gp_classes_count(gp_dataset_classes(dataset)), 3);
    options.validation = temporary_path(t, "more");
    gp_dataset *other;
    assert_int_equal(gp_dataset_create_images(&other, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "the validation images have 1 class that is not among the 3 known: 'c3'");
    /* A run's list: fewer classes keep their numbers, other ones are refused, training images are not needed. */
    options = options_of(temporary_path(t, "val"), SIDE, 2);
    options.classes = gp_dataset_classes(dataset);
    gp_dataset *again = open_images(&options);
    assert_int_equal(gp_classes_count(gp_dataset_classes(again)), 3);
    gp_dataset_destroy(again);
    options.images = NULL;
    options.validation = temporary_path(t, "val");
    again = open_images(&options);
    assert_int_equal(gp_dataset_count(again, GP_SPLIT_TRAIN), 0);
    assert_int_equal(gp_dataset_count(again, GP_SPLIT_VALIDATION), 6);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, again, 1), GP_OK);
    assert_int_equal(gp_dataset_sample(again, GP_SPLIT_TRAIN, 0, 0, 0, 1, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "no images for training");
    gp_batch_destroy(&batch);
    gp_dataset_destroy(again);
    options.images = temporary_path(t, "more");
    options.validation = NULL;
    refuse_images(&options, "the images have 1 class that is not among the 3 known: 'c3'");
    gp_dataset_destroy(dataset);
}

static void test_one_class(void **state) {
    write_plain_folder(*state, "one", 1, 4, SIDE, SIDE);
    gp_image_options options = options_of(temporary_path(*state, "one"), SIDE, 2);
    refuse_images(&options, "images of one class only, 'c0': a classifier needs two or more");
}

/* ---- corrupt files ---- */

/* Of 24, four are corrupt: empty, a text, truncated, gone after the folder was read. */
static gp_dataset *open_corrupt(temporary *t, bool skip, gp_image_options *options) {
    size_t size;
    write_plain_folder(t, "data", 3, COUNT / 3, SIDE, SIDE);
    temporary_write(t, "data/c0/01.png", "", 0);
    temporary_write_text(t, "data/c0/02.png", "a text that is called .png");
    char *bytes = temporary_read(temporary_path(t, "data/c2/07.png"), &size);
    temporary_write(t, "data/c2/07.png", bytes, size / 2);
    free(bytes);
    *options = options_of(temporary_path(t, "data"), SIDE, 6);
    options->skip_corrupt = skip;
    gp_dataset *dataset = open_images(options);
    unlink(temporary_path(t, "data/c1/03.png"));
    return dataset;
}

static bool is_corrupt(int number) {
    return number == 1 || number == 2 || number == 23 || number == 11;
}

static void test_corrupt_is_fatal(void **state) {
    temporary *t = *state;
    gp_image_options options;
    gp_dataset *dataset = open_corrupt(t, false, &options);
    static const struct {
        int window;
        const char *file, *reason;
    } cases[] = {{1, "data/c0/01.png'", "the file is empty"},
                 {2, "data/c0/02.png'", "neither a JPEG nor a PNG"},
                 {23, "data/c2/07.png'", "the PNG is damaged"},
                 {11, "data/c1/03.png'", "could not be opened"}};
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, cases[i].window, 1, &batch), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].file);
        assert_message_has(gp_error_message(), cases[i].reason);
    }
    gp_status status = GP_OK;
    for (int64_t step = 0; step < COUNT / 6 && status == GP_OK; step++)
        for (int64_t i = 0; i < 6 && status == GP_OK; i++)
            status = gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, step, i, 1, &batch);
    assert_int_equal(status, GP_INVALID);
    assert_int_equal(gp_dataset_corrupt(dataset), 0);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static int warnings;

static void count_warning(void *user, gp_log_level level, const char *message) {
    (void)user;
    if (level == GP_LOG_WARNING && strstr(message, "a corrupt image is skipped: '")) warnings++;
}

static void test_corrupt_is_skipped(void **state) {
    temporary *t = *state;
    gp_image_options options;
    gp_dataset *dataset = open_corrupt(t, true, &options);
    gp_batch batch, half;
    gp_log_set(count_warning, NULL, GP_LOG_WARNING);
    warnings = 0;
    assert_int_equal(gp_batch_create(&batch, dataset, 6), GP_OK);
    half = batch;
    half.inputs.data = NULL;
    for (int64_t step = 0; step < 8; step++) {
        int32_t targets[6];
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 5, step, 0, 6, &batch), GP_OK);
        for (int i = 0; i < 6; i++) {
            assert_false(is_corrupt(shown(&batch, i)));
            assert_int_equal(target(&batch, i), shown(&batch, i) / (COUNT / 3));
            targets[i] = target(&batch, i);
        }
        /* Who wants the targets only gets the same ones. */
        memset(batch.targets.data, 9, sizeof targets);
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 5, step, 0, 6, &half), GP_OK);
        assert_memory_equal(batch.targets.data, targets, sizeof targets);
    }
    assert_int_equal(gp_dataset_corrupt(dataset), 4);
    assert_int_equal(warnings, 4); /* each is named once */
    int ignored = 0;
    for (int first = 0; first < COUNT; first += 6) {
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, first, 6, &batch), GP_OK);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(target(&batch, i) == GP_IGNORED_TARGET, is_corrupt(first + i));
            ignored += is_corrupt(first + i);
            if (is_corrupt(first + i)) assert_true(first_value(&batch, i) == 0);
        }
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, first, 6, &half), GP_OK);
    }
    assert_int_equal(ignored, 4);
    assert_int_equal(gp_dataset_corrupt(dataset), 4);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static void test_all_corrupt(void **state) {
    temporary *t = *state;
    temporary_write_text(t, "data/a/1.jpg", "text");
    temporary_write_text(t, "data/b/1.jpg", "text");
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
    options.skip_corrupt = true;
    gp_dataset *dataset = open_images(&options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, 0, 0, 1, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "images in a row are corrupt");
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* ---- sizes ---- */

/* A pixel, a line, and sizes around the sample's, in either direction. */
static void test_any_size(void **state) {
    temporary *t = *state;
    static const int sizes[][2] = {{1, 1}, {1, 50}, {50, 1}, {7, 9}, {8, 8}, {9, 7}, {100, 60}, {2000, 3}};
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "data/%c/%d.jpg", 'a' + i % 2, i);
        write_image(t, name, jpeg_picture(i % 2, sizes[i][0], sizes[i][1]));
    }
    for (int crop = 0; crop <= GP_CROP_RESIZED; crop++) {
        gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 8);
        options.width = 12;
        options.augmentation.crop = (gp_crop)crop;
        gp_dataset *dataset = open_images(&options);
        gp_batch batch;
        assert_int_equal(gp_batch_create(&batch, dataset, 8), GP_OK);
        for (int64_t step = 0; step < 4; step++)
            assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, step, 0, 8, &batch), GP_OK);
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 8, &batch), GP_OK);
        for (int64_t i = 0; i < gp_shape_elements(batch.inputs.type.shape); i++)
            assert_true(((float *)batch.inputs.data)[i] >= 0 && ((float *)batch.inputs.data)[i] <= 1);
        gp_batch_destroy(&batch);
        gp_dataset_destroy(dataset);
    }
}

/* Evaluation cuts out the middle of a picture 40 wide and 20 high whose shorter side becomes `resize`: a sample's pixel
 * is `pixels` of the picture's, and the picture's numbers grow evenly from left to right. */
static void check_middle(const gp_image_options *options, double pixels) {
    gp_dataset *dataset = open_images(options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 1, &batch), GP_OK);
    const float *values = batch.inputs.data;
    for (int x = 0; x < 10; x++) {
        double across = 20 + (x - 4.5) * pixels - 0.5, down = 10 + 0.5 * pixels - 0.5;
        double expected = 20 + 160 * across / 39 + 60 * down / 19;
        int found = brightness_of(values[(5 * 10 + x) * 3]);
        if (fabs(found - expected) > 2.5) fail_msg("column %d is %d instead of %g", x, found, expected);
    }
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* What is not scaled is copied, from the whole pixel left of and above the middle on. */
static void check_copied_middle(const gp_image_options *options) {
    gp_dataset *dataset = open_images(options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 1, &batch), GP_OK);
    const float *values = batch.inputs.data;
    for (int i = 0; i < 9 * 9; i++)
        assert_int_equal(brightness_of(values[3 * i]), picture_byte(0, 15 + i % 9, 5 + i / 9, 0, 40, 20));
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static void test_middle(void **state) {
    temporary *t = *state;
    write_image(t, "data/a/1.png", png_picture(0, 40, 20));
    write_image(t, "data/b/1.png", png_picture(1, 40, 20));
    gp_image_options options = options_of(temporary_path(t, "data"), 10, 1);
    check_middle(&options, 2);
    options.resize = 20;
    check_middle(&options, 1);
    options.resize = 14;
    check_middle(&options, 20.0 / 14);
    options.resize = 0;
    options.augmentation.crop = GP_CROP_RESIZED; /* 8/7 of the sample */
    check_middle(&options, 1.75);
    options = options_of(temporary_path(t, "data"), 9, 1);
    options.resize = 20;
    check_copied_middle(&options);
}

static void test_normalisation(void **state) {
    temporary *t = make_folder(state);
    for (int way = 0; way < 3; way++) {
        gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
        options.channels = way == 2 ? 1 : 3;
        double mean[3] = {0.5, 0.25, 0}, deviation[3] = {0.5, 2, 1};
        memset(options.deviation, 0, sizeof options.deviation);
        if (way == 0) {
            memcpy(options.mean, mean, sizeof mean);
            memcpy(options.deviation, deviation, sizeof deviation);
        } else {
            memcpy(mean, (double[]){way == 2 ? 0.5 : 0.485, 0.456, 0.406}, sizeof mean);
            memcpy(deviation, (double[]){way == 2 ? 0.25 : 0.229, 0.224, 0.225}, sizeof deviation);
        }
        gp_dataset *dataset = open_images(&options);
        gp_batch batch;
        assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 20, 1, &batch), GP_OK);
        for (int i = 0; i < SIDE * SIDE * (int)options.channels; i++) {
            int c = i % (int)options.channels;
            double expected = (70.0 / 255 - mean[c]) / deviation[c];
            assert_true(fabs(((float *)batch.inputs.data)[i] - expected) < 1e-5);
        }
        gp_batch_destroy(&batch);
        gp_dataset_destroy(dataset);
    }
}

/* ---- augmentation ---- */

/* Counts, over many samples of one picture that grows from left to right, what a change does. */
static void count_changes(gp_dataset *dataset, int64_t samples, int *turned, int *zeros, int *different) {
    gp_batch batch, middle;
    *turned = *zeros = *different = 0;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_batch_create(&middle, dataset, 1), GP_OK);
    for (int64_t step = 0; step < samples; step++) {
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, step, 0, 1, &batch), GP_OK);
        const float *values = batch.inputs.data;
        int32_t kind = target(&batch, 0);
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, kind, 1, &middle), GP_OK);
        for (int i = kind; i < SIDE * SIDE * 3; i += 3)
            *zeros += values[i] == 0;
        *turned += values[3 * (4 * SIDE + 2) + kind] > values[3 * (4 * SIDE + 5) + kind];
        *different += memcmp(batch.inputs.data, middle.inputs.data, SIDE * SIDE * 3 * sizeof(float)) != 0;
    }
    gp_batch_destroy(&batch);
    gp_batch_destroy(&middle);
}

static bool shows_turned(gp_dataset *dataset, int64_t step, int32_t *kind) {
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, step, 0, 1, &batch), GP_OK);
    *kind = target(&batch, 0);
    const float *row = (const float *)batch.inputs.data + 4 * SIDE * 3 + *kind;
    bool turned = row[3 * 2] > row[3 * 5];
    gp_batch_destroy(&batch);
    return turned;
}

static void test_augmentation(void **state) {
    temporary *t = *state;
    enum { SAMPLES = 400 };
    write_image(t, "data/a/1.png", png_picture(0, SIDE, SIDE));
    write_image(t, "data/b/1.png", png_picture(1, SIDE, SIDE));
    static const gp_augmentation cases[] = {
        {0},
        {.flip = true},
        {.crop = GP_CROP_PAD, .pad = 2},
        {.cutout = 3},
        {.crop = GP_CROP_RESIZED},
        {.brightness = 0.5, .contrast = 0.5, .saturation = 0.5, .hue = 0.1},
        {.operations = 2, .magnitude = 15},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int turned, zeros, different;
        gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
        options.augmentation = cases[i];
        gp_dataset *dataset = open_images(&options);
        count_changes(dataset, SAMPLES, &turned, &zeros, &different);
        if (i == 0) assert_true(turned == 0 && zeros == 0 && different == 0);
        if (i == 1) assert_true(turned > 160 && turned < 240 && zeros == 0 && different == turned);
        /* Shifts of 0, 1, 2 in both directions: 1 of 25 changes nothing; (8 - 1.2)^2 of 64 pixels remain on average. */
        if (i == 2) assert_true(turned == 0 && abs(zeros - (int)((64 - 46.24) * SAMPLES)) < 700 && different > 360);
        /* Of 9 pixels, (1 - 2 * 1 / 24)^2 are inside on average. */
        if (i == 3) assert_true(abs(zeros - (int)(7.56 * SAMPLES)) < 150 && different == SAMPLES);
        if (i == 4) assert_true(turned == 0 && zeros == 0 && different > 390);
        if (i == 5) assert_true(turned == 0 && different > 390);
        if (i == 6) assert_true(different > 250);
        gp_dataset_destroy(dataset);
    }
}

/* The side that an image shows in the first epoch is chance, and in every epoch the other one than before. */
static void test_alternate(void **state) {
    temporary *t = *state;
    enum { IMAGES = 64, EPOCHS = 5 };
    char name[32];
    for (int i = 0; i < IMAGES; i++) {
        snprintf(name, sizeof name, "data/%c/%d.png", "ab"[i % 2], i);
        write_image(t, name, png_picture(i % 2, SIDE, SIDE));
    }
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 1);
    options.augmentation = (gp_augmentation){.flip = true, .alternate = true};
    for (int way = 0; way < 2; way++) {
        options.sampling = way ? GP_SAMPLING_SEQUENTIAL : GP_SAMPLING_RANDOM;
        gp_dataset *dataset = open_images(&options);
        int turned[EPOCHS][2] = {0}; /* of each class */
        for (int64_t step = 0; step < IMAGES * EPOCHS; step++) {
            int32_t kind;
            bool now = shows_turned(dataset, step, &kind);
            turned[step / IMAGES][kind] += now;
            if (way == 1 && step >= IMAGES) assert_int_equal(now, !shows_turned(dataset, step - IMAGES, &kind));
        }
        for (int i = 0; i < 2 * EPOCHS; i++)
            assert_true(turned[i / 2][i % 2] > 4 && turned[i / 2][i % 2] < 28);
        for (int i = 2; i < 2 * EPOCHS; i++) /* by the image, wherever it stands in the epoch */
            assert_int_equal(turned[i / 2][i % 2] + turned[i / 2 - 1][i % 2], IMAGES / 2);
        gp_dataset_destroy(dataset);
    }
    gp_dataset *dataset;
    options.augmentation.flip = false;
    assert_int_equal(gp_dataset_create_images(&dataset, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "flip"));
}

/* ---- mixup ---- */

static void test_mixup(void **state) {
    temporary *t = make_folder(state);
    enum { BATCH = 7, STEPS = 60 };
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, BATCH);
    gp_dataset *plain_images = open_images(&options);
    double sums[2] = {0};
    for (int way = 0; way < 2; way++) {
        options.augmentation.mixup = way ? 4.0 : 0.2;
        gp_dataset *dataset = open_images(&options);
        gp_batch own, mixed;
        assert_true(gp_dataset_weighted(dataset));
        assert_int_equal(gp_batch_create(&own, plain_images, BATCH), GP_OK);
        assert_int_equal(gp_batch_create(&mixed, dataset, BATCH), GP_OK);
        for (int64_t step = 0; step < STEPS; step++) {
            assert_int_equal(gp_dataset_sample(plain_images, GP_SPLIT_TRAIN, 1, step, 0, BATCH, &own), GP_OK);
            assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 0, BATCH, &mixed), GP_OK);
            for (int i = 0; i < BATCH; i++) {
                int other = i == BATCH - 1 ? i : i ^ 1;
                const int32_t *labels = (const int32_t *)mixed.targets.data + 2 * i;
                const float *weights = (const float *)mixed.weights.data + 2 * i;
                assert_int_equal(labels[0], target(&own, i));
                assert_int_equal(labels[1], target(&own, other));
                assert_true(weights[0] >= 0 && weights[1] >= 0 && weights[0] + weights[1] == 1.0f);
                float expected = weights[0] * first_value(&own, i) + weights[1] * first_value(&own, other);
                assert_true(fabsf(first_value(&mixed, i) - expected) < 1e-6f);
                sums[way] += fabs(weights[0] - 0.5);
            }
        }
        /* In evaluation nothing is mixed. */
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 20, BATCH, &mixed), GP_OK);
        for (int i = 0; i < BATCH; i++) {
            const int32_t *labels = (const int32_t *)mixed.targets.data + 2 * i;
            assert_int_equal(labels[0], i < 4 ? 2 : GP_IGNORED_TARGET);
            assert_true(((const float *)mixed.weights.data)[2 * i] == 1 &&
                        ((const float *)mixed.weights.data)[2 * i + 1] == 0);
        }
        gp_batch_destroy(&own);
        gp_batch_destroy(&mixed);
        gp_dataset_destroy(dataset);
    }
    /* Mean distance from a half: of Beta(0.2, 0.2) 0.393, of Beta(4, 4) 0.137. */
    assert_true(fabs(sums[0] / (STEPS * BATCH) - 0.393) < 0.03);
    assert_true(fabs(sums[1] / (STEPS * BATCH) - 0.137) < 0.02);
    gp_dataset_destroy(plain_images);
}

/* ---- options ---- */

static void test_bad_options(void **state) {
    temporary *t = make_folder(state);
    const gp_image_options good = options_of(temporary_path(t, "data"), SIDE, 2);
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_images(&dataset, NULL), GP_INVALID);
#define REFUSE(reason, ...)                                                                                            \
    do {                                                                                                               \
        gp_image_options options = good;                                                                               \
        __VA_ARGS__;                                                                                                   \
        refuse_images(&options, reason);                                                                               \
    } while (0)
    REFUSE("no images were given", options.images = NULL);
    REFUSE("images of 2 channels", options.channels = 2);
    REFUSE("samples of 0 x 8 pixels", options.width = 0);
    REFUSE("samples of 8 x 99999 pixels", options.height = 99999);
    REFUSE("samples of 16384 x 16384", options.height = options.width = 16384);
    REFUSE("a mini-batch of 0", options.batch = 0);
    REFUSE("both a path and a share", options.validation = "x", options.validation_share = 0.5);
    REFUSE("validation share is 1", options.validation_share = 1);
    REFUSE("validation share is nan", options.validation_share = (double)NAN);
    REFUSE("resize is 7: 8 (the", options.resize = 7);
    REFUSE("a window of -1", options.window = -1);
    REFUSE("a limit of -1 pixels", options.most_pixels = -1);
    REFUSE("sampling of kind 9", options.sampling = (gp_sampling)9);
    REFUSE("format of images of number 9", options.format = (gp_image_format)9);
    REFUSE("no crop of kind 9", options.augmentation.crop = (gp_crop)9);
    REFUSE("pad is 9: 0 to 8", options.augmentation.pad = 9);
    REFUSE("scale is 0.5 to 0.1", options.augmentation.scale[0] = 0.5, options.augmentation.scale[1] = 0.1);
    REFUSE("scale is 0 to 1", options.augmentation.scale[1] = 1);
    REFUSE("ratio is 1 to 1000", options.augmentation.ratio[0] = 1, options.augmentation.ratio[1] = 1000);
    REFUSE("hue is 0.6: 0 to 0.5", options.augmentation.hue = 0.6);
    REFUSE("brightness is -1", options.augmentation.brightness = -1);
    REFUSE("magnitude is 31: 0 to 30", options.augmentation.magnitude = 31);
    REFUSE("mixup is nan", options.augmentation.mixup = (double)NAN);
    REFUSE("deviation of -1", options.deviation[1] = -1);
    REFUSE("mean of inf", options.mean[0] = (double)INFINITY);
#undef REFUSE
}

static void test_bad_requests(void **state) {
    temporary *t = make_folder(state);
    gp_image_options options = options_of(temporary_path(t, "data"), SIDE, 4);
    gp_dataset *dataset = open_images(&options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 3), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, 0, 2, 3, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "sample 4 is more than a mini-batch of 4 has");
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, INT64_MAX / 2, 0, 3, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "is too large for batches of 4");
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_VALIDATION, 0, 0, 0, 3, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "no images for validation");
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, INT64_MAX / 4 - 2, 0, 3, &batch), GP_OK);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* ---- the real thing ---- */

static void test_cifar_archive(void **state) {
    (void)state;
    const char *folder = getenv("GPIPE_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/cifar10-jpeg/test.tar", folder ? folder : "");
    if (!folder || access(path, R_OK) != 0) {
        print_message("skipped: GPIPE_DATA names no folder with cifar10-jpeg/test.tar\n");
        skip();
    }
    gp_image_options options = options_of(path, 32, 100);
    gp_dataset *dataset = open_images(&options);
    gp_batch batch;
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), 10000);
    assert_int_equal(gp_classes_count(gp_dataset_classes(dataset)), 10);
    assert_string_equal(gp_classes_name(gp_dataset_classes(dataset), 0), "airplane");
    assert_int_equal(gp_batch_create(&batch, dataset, 100), GP_OK);
    double sum = 0;
    int classes[10] = {0};
    for (int64_t step = 0; step < 10; step++) {
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, step, 0, 100, &batch), GP_OK);
        for (int64_t i = 0; i < 100 * 32 * 32 * 3; i++)
            sum += ((float *)batch.inputs.data)[i];
        for (int i = 0; i < 100; i++)
            classes[target(&batch, i)]++;
    }
    assert_true(fabs(sum / (1000 * 32 * 32 * 3) - 0.473) < 0.02); /* CIFAR-10's mean */
    for (int c = 0; c < 10; c++)
        assert_in_range(classes[c], 60, 140);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_epochs),
        WITH_FOLDER(test_evaluation),
        WITH_FOLDER(test_validation_share),
        WITH_FOLDER(test_validation_folder),
        WITH_FOLDER(test_one_class),
        WITH_FOLDER(test_corrupt_is_fatal),
        WITH_FOLDER(test_corrupt_is_skipped),
        WITH_FOLDER(test_all_corrupt),
        WITH_FOLDER(test_any_size),
        WITH_FOLDER(test_middle),
        WITH_FOLDER(test_normalisation),
        WITH_FOLDER(test_augmentation),
        WITH_FOLDER(test_alternate),
        WITH_FOLDER(test_mixup),
        WITH_FOLDER(test_bad_options),
        WITH_FOLDER(test_bad_requests),
        cmocka_unit_test(test_cifar_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
