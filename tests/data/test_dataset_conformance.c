/* What every dataset promises, whatever its kind: samples are pure functions of the question, however it is put and by
 * however many at once; loaders hand out the same. */
#include "image_folder.h"

#include "base/memory.h"
#include "base/thread.h"

enum { BATCH = 7, THREADS = 4 };

typedef struct implementation {
    const char *name;
    gp_dataset *(*open)(temporary *t);
    bool quiet; /* allocates nothing once it has answered */
} implementation;

static gp_dataset *open_text(temporary *t, gp_sampling sampling) {
    char text[500];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i + i / 7) % 26);
    gp_text_options options = {.text = temporary_write(t, "text", text, sizeof text),
                               .validation = 0.3,
                               .context = 9,
                               .batch = BATCH,
                               .sampling = sampling};
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_OK);
    return dataset;
}

static gp_dataset *open_random_text(temporary *t) {
    return open_text(t, GP_SAMPLING_RANDOM);
}

static gp_dataset *open_sequential_text(temporary *t) {
    return open_text(t, GP_SAMPLING_SEQUENTIAL);
}

/* Of different sizes, as JPEG and PNG. */
static void write_images(temporary *t) {
    for (int i = 0; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof name, "data/c%d/%d.img.%s", i % 3, i, i % 2 ? "jpg" : "png");
        write_image(t, name, i % 2 ? jpeg_picture(i, 9 + 3 * i, 30 - i) : png_picture(i, 30 - i, 9 + 2 * i));
    }
}

static gp_dataset *open_plain_images(temporary *t) {
    write_images(t);
    gp_image_options options = options_of(temporary_path(t, "data"), 8, BATCH);
    options.validation_share = 0.2;
    return open_images(&options);
}

static gp_dataset *open_augmented_images(temporary *t) {
    write_images(t);
    gp_image_options options = options_of(temporary_path(t, "data"), 8, BATCH);
    options.validation_share = 0.2;
    options.window = 6;
    options.augmentation = (gp_augmentation){.crop = GP_CROP_RESIZED,
                                             .flip = true,
                                             .operations = 2,
                                             .magnitude = 9,
                                             .brightness = 0.4,
                                             .hue = 0.1,
                                             .cutout = 3,
                                             .mixup = 0.4};
    return open_images(&options);
}

static gp_dataset *open_corrupt_images(temporary *t) {
    write_images(t);
    temporary_write_text(t, "data/c1/7.img.jpg", "no picture");
    gp_image_options options = options_of(temporary_path(t, "data"), 8, BATCH);
    options.validation_share = 0.2;
    options.skip_corrupt = true;
    options.augmentation = (gp_augmentation){.crop = GP_CROP_PAD, .mixup = 1};
    return open_images(&options);
}

static const implementation implementations[] = {
    {"random text", open_random_text, true},
    {"sequential text", open_sequential_text, true},
    {"images", open_plain_images, false},
    {"augmented images", open_augmented_images, false},
    {"images of which one is corrupt", open_corrupt_images, false},
};

/* ---- comparing ---- */

static size_t bytes_of(const gp_tensor *tensor) {
    return tensor->data ? gp_type_bytes(tensor->type) : 0;
}

static bool same_tensor(const gp_tensor *a, const gp_tensor *b) {
    return bytes_of(a) == bytes_of(b) && (!a->data || memcmp(a->data, b->data, bytes_of(a)) == 0);
}

static bool same(const gp_batch *a, const gp_batch *b) {
    return same_tensor(&a->inputs, &b->inputs) && same_tensor(&a->targets, &b->targets) &&
           same_tensor(&a->weights, &b->weights);
}

/* Samples `first` and on of a batch, which shares its memory. */
static gp_tensor tail(const gp_tensor *tensor, int64_t first, int64_t count) {
    gp_tensor part = *tensor;
    size_t sample = gp_type_bytes(tensor->type) / (size_t)tensor->type.shape.dims[0];
    if (part.data) part.data = (char *)part.data + sample * (size_t)first;
    part.type.shape.dims[0] = count;
    return part;
}

static gp_batch part_of(const gp_batch *batch, int64_t first, int64_t count) {
    return (gp_batch){tail(&batch->inputs, first, count), tail(&batch->targets, first, count),
                      tail(&batch->weights, first, count)};
}

static gp_batch batch_of(const gp_dataset *dataset, int64_t samples) {
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, samples), GP_OK);
    return batch;
}

/* The whole batch of a step; `step` -1: the first windows of validation. */
static gp_status ask(const gp_dataset *dataset, int64_t step, int64_t first, int64_t count, gp_batch *batch) {
    if (step < 0) return gp_dataset_window(dataset, GP_SPLIT_VALIDATION, first, count, batch);
    return gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 11, step, first, count, batch);
}

/* ---- the promises ---- */

static void check_parts(const gp_dataset *dataset) {
    gp_batch whole = batch_of(dataset, BATCH), again = batch_of(dataset, BATCH);
    for (int64_t step = -1; step < 6; step++) {
        assert_int_equal(ask(dataset, step, 0, BATCH, &whole), GP_OK);
        for (int64_t piece = 1; piece <= BATCH; piece++) {
            memset(again.inputs.data, 77, bytes_of(&again.inputs));
            memset(again.targets.data, 77, bytes_of(&again.targets));
            for (int64_t first = (BATCH - 1) / piece * piece; first >= 0; first -= piece) { /* from the back */
                int64_t count = BATCH - first < piece ? BATCH - first : piece;
                gp_batch part = part_of(&again, first, count);
                assert_int_equal(ask(dataset, step, first, count, &part), GP_OK);
            }
            assert_true(same(&whole, &again));
        }
        gp_batch none = part_of(&again, 0, 0);
        assert_int_equal(ask(dataset, step, 3, 0, &none), GP_OK);
    }
    gp_batch_destroy(&whole);
    gp_batch_destroy(&again);
}

/* Inputs without targets, and targets without inputs, are those of both together. */
static void check_halves(const gp_dataset *dataset) {
    gp_batch whole = batch_of(dataset, BATCH), again = batch_of(dataset, BATCH);
    for (int64_t step = -1; step < 4; step++) {
        gp_batch inputs = again, targets = again;
        inputs.targets.data = inputs.weights.data = targets.inputs.data = NULL;
        assert_int_equal(ask(dataset, step, 0, BATCH, &whole), GP_OK);
        assert_int_equal(ask(dataset, step, 0, BATCH, &targets), GP_OK);
        assert_int_equal(ask(dataset, step, 0, BATCH, &inputs), GP_OK);
        assert_true(same(&whole, &again));
    }
    gp_batch_destroy(&whole);
    gp_batch_destroy(&again);
}

/* Steps and seeds differ; validation does not depend on them. */
static void check_variety(const gp_dataset *dataset) {
    gp_batch one = batch_of(dataset, BATCH), other = batch_of(dataset, BATCH);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, 0, 0, BATCH, &one), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, 1, 0, BATCH, &other), GP_OK);
    assert_false(same(&one, &other));
    gp_batch_destroy(&one);
    gp_batch_destroy(&other);
}

/* Every target of the split is there once, then padding only. */
static void check_evaluation(const gp_dataset *dataset) {
    gp_batch batch = batch_of(dataset, 3);
    for (int split = 0; split < 2; split++) {
        int64_t windows = gp_dataset_windows(dataset, (gp_split)split), counted = 0;
        assert_true(windows > 0);
        for (int64_t first = 0; first < windows + 6; first += 3) {
            assert_int_equal(gp_dataset_window(dataset, (gp_split)split, first, 3, &batch), GP_OK);
            int64_t elements = gp_shape_elements(batch.targets.type.shape);
            for (int64_t i = 0; i < elements; i++) {
                bool padding = ((int32_t *)batch.targets.data)[i] == GP_IGNORED_TARGET;
                assert_true(padding || first + i / (elements / 3) < windows);
                bool weighs = !batch.weights.data || ((float *)batch.weights.data)[i] > 0;
                counted += !padding && weighs;
            }
        }
        int64_t expected = gp_dataset_count(dataset, (gp_split)split);
        if (strcmp(gp_dataset_unit(dataset), "tokens") == 0) expected--; /* the first has nothing before it */
        assert_int_equal(counted, expected - (split == 0 ? gp_dataset_corrupt(dataset) : 0));
    }
    gp_batch_destroy(&batch);
}

static void check_types(const gp_dataset *dataset) {
    gp_batch batch = batch_of(dataset, BATCH), wrong = batch;
    wrong.inputs.type.dtype = wrong.inputs.type.dtype == GP_F32 ? GP_I32 : GP_F32;
    assert_int_equal(ask(dataset, 0, 0, BATCH, &wrong), GP_INVALID);
    assert_int_equal(ask(dataset, 0, 0, BATCH - 1, &batch), GP_INVALID);
    assert_int_equal(ask(dataset, 0, -1, BATCH, &batch), GP_INVALID);
    wrong = batch;
    if (gp_dataset_weighted(dataset)) {
        wrong.weights.data = NULL;
    } else {
        wrong.weights = batch.inputs;
    }
    assert_int_equal(ask(dataset, 0, 0, BATCH, &wrong), GP_INVALID);
    gp_batch_destroy(&batch);
}

/* ---- many at once ---- */

typedef struct asker {
    const gp_dataset *dataset;
    const gp_batch *expected;
    gp_batch batch;
    bool good;
} asker;

static void ask_often(void *argument) {
    asker *a = argument;
    a->good = true;
    for (int i = 0; i < 8; i++)
        a->good = a->good && ask(a->dataset, 2, 0, BATCH, &a->batch) == GP_OK && same(&a->batch, a->expected);
}

static void check_threads(const gp_dataset *dataset) {
    gp_batch expected = batch_of(dataset, BATCH);
    gp_thread *threads[THREADS];
    asker askers[THREADS];
    assert_int_equal(ask(dataset, 2, 0, BATCH, &expected), GP_OK);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){.dataset = dataset, .expected = &expected, .batch = batch_of(dataset, BATCH)};
        assert_int_equal(gp_thread_create(&threads[i], ask_often, &askers[i], 0, 0), GP_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        gp_thread_join(threads[i]);
        assert_true(askers[i].good);
        gp_batch_destroy(&askers[i].batch);
    }
    gp_batch_destroy(&expected);
}

/* ---- loaders ---- */

static void check_loader(const gp_dataset *dataset, gp_loader_options options) {
    gp_batch expected = batch_of(dataset, BATCH), *loaded;
    gp_loader *loader;
    int64_t windows = gp_dataset_windows(dataset, GP_SPLIT_VALIDATION), samples = options.samples;
    int64_t end = options.evaluation ? windows : options.first + options.count;
    assert_int_equal(gp_loader_create(&loader, dataset, &options), GP_OK);
    for (int64_t at = options.first; at < end; at += options.evaluation ? samples : 1) {
        int64_t count = options.evaluation && end - at < samples ? end - at : samples;
        gp_batch_resize(&expected, count);
        gp_batch wanted = expected;
        if (options.no_inputs) wanted.inputs.data = NULL;
        if (options.no_targets) wanted.targets.data = wanted.weights.data = NULL;
        assert_int_equal(options.evaluation ? gp_dataset_window(dataset, GP_SPLIT_VALIDATION, at, count, &wanted)
                                            : gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 11, at, 0, count, &wanted),
                         GP_OK);
        assert_int_equal(gp_loader_next(loader, &loaded), GP_OK);
        assert_non_null(loaded);
        assert_int_equal(loaded->inputs.type.shape.dims[0], count);
        assert_true(same(loaded, &wanted));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gp_loader_next(loader, &loaded), GP_OK);
        assert_null(loaded);
    }
    gp_loader_destroy(loader);
    gp_batch_destroy(&expected);
}

/* Inputs of some samples only: these are there, and all targets. */
static void check_partial_loader(const gp_dataset *dataset) {
    gp_batch expected = batch_of(dataset, BATCH), *loaded;
    for (int threads = 0; threads <= 2; threads++) {
        gp_loader *loader;
        gp_loader_options options = {.seed = 11, .samples = BATCH, .count = 3, .threads = threads};
        options.inputs_first = 4;
        options.inputs_count = 2;
        assert_int_equal(gp_loader_create(&loader, dataset, &options), GP_OK);
        for (int64_t step = 0; step < 3; step++) {
            assert_int_equal(ask(dataset, step, 0, BATCH, &expected), GP_OK);
            assert_int_equal(gp_loader_next(loader, &loaded), GP_OK);
            gp_tensor a = tail(&expected.inputs, 4, 2), b = tail(&loaded->inputs, 4, 2);
            assert_true(same_tensor(&a, &b));
            assert_true(same_tensor(&expected.targets, &loaded->targets));
        }
        gp_loader_destroy(loader);
    }
    gp_batch_destroy(&expected);
}

static void check_loaders(const gp_dataset *dataset) {
    check_partial_loader(dataset);
    for (int threads = 0; threads <= 3; threads++) {
        for (int64_t samples = 1; samples <= BATCH; samples += 3) {
            gp_loader_options options = {.seed = 11, .samples = samples, .threads = threads, .ahead = 1 + threads};
            options.first = 3;
            options.count = 9;
            options.split = GP_SPLIT_TRAIN;
            check_loader(dataset, options);
            options.first = 0;
            options.count = 0;
            options.split = GP_SPLIT_VALIDATION;
            options.evaluation = true;
            options.no_inputs = threads == 1;
            options.no_targets = threads == 2;
            check_loader(dataset, options);
        }
    }
    /* One that nobody listens to. */
    gp_loader *loader;
    gp_loader_options options = {.samples = BATCH, .count = 1000, .threads = 2};
    assert_int_equal(gp_loader_create(&loader, dataset, &options), GP_OK);
    gp_loader_destroy(loader);
    gp_loader_destroy(NULL);
}

static void test_every_dataset(void **state) {
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        print_message("  %s\n", implementations[i].name);
        gp_dataset *dataset = implementations[i].open(*state);
        check_types(dataset);
        check_parts(dataset);
        check_halves(dataset);
        check_variety(dataset);
        check_threads(dataset);
        check_loaders(dataset);
        check_evaluation(dataset);
        gp_batch batch = batch_of(dataset, BATCH);
        uint64_t before = gp_allocation_count();
        for (int64_t step = -1; implementations[i].quiet && step < 3; step++)
            assert_int_equal(ask(dataset, step, 0, BATCH, &batch), GP_OK);
        assert_int_equal(gp_allocation_count(), before);
        gp_batch_destroy(&batch);
        gp_dataset_destroy(dataset);
    }
}

/* The first sample that fails decides what is said, whoever came to it first; so it stays. */
static void test_failing_loader(void **state) {
    temporary *t = *state;
    write_images(t);
    temporary_write_text(t, "data/c1/10.img.png", "bad");
    temporary_write_text(t, "data/c1/13.img.jpg", "");
    gp_image_options image_options = options_of(temporary_path(t, "data"), 8, BATCH);
    image_options.sampling = GP_SAMPLING_SEQUENTIAL;
    gp_dataset *dataset = open_images(&image_options);
    char first[2048] = "";
    int64_t first_batch = -1;
    for (int threads = 1; threads <= 4; threads++) {
        gp_loader *loader;
        gp_batch *batch;
        gp_loader_options options = {.samples = BATCH, .count = 10, .threads = threads};
        int64_t number = 0;
        assert_int_equal(gp_loader_create(&loader, dataset, &options), GP_OK);
        while (gp_loader_next(loader, &batch) == GP_OK)
            number++;
        if (first_batch < 0) {
            first_batch = number;
            snprintf(first, sizeof first, "%s", gp_error_message());
        }
        assert_int_equal(number, first_batch);
        assert_string_equal(gp_error_message(), first);
        assert_int_equal(gp_loader_next(loader, &batch), GP_INVALID);
        assert_null(batch);
        gp_loader_destroy(loader);
    }
    gp_dataset_destroy(dataset);
}

static void test_bad_loaders(void **state) {
    gp_dataset *dataset = open_random_text(*state);
    static const struct {
        gp_loader_options options;
        const char *reason;
    } cases[] = {
        {{.count = 1}, "of 0 samples"},
        {{.count = -1, .samples = 1}, "-1 mini-batches"},
        {{.first = INT64_MAX, .count = 1, .samples = 1}, "cannot be loaded"},
        {{.count = 1, .samples = 1, .threads = -1}, "-1 threads"},
        {{.count = 1, .samples = 4, .inputs_first = 3, .inputs_count = 2}, "inputs of 2 samples from number 3"},
        {{.count = 1, .samples = 1, .ahead = 9999}, "9999 mini-batches cannot be made ahead"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_loader *loader;
        assert_int_equal(gp_loader_create(&loader, dataset, &cases[i].options), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].reason);
    }
    gp_dataset_destroy(dataset);
}

/* Whichever allocation fails, nothing is leaked and nothing but the status is left (leak checkers watch). */
static void test_out_of_memory(void **state) {
    temporary *t = *state;
    write_images(t);
    int failures = 0;
    for (uint64_t n = 1; n < 2000; n++) {
        gp_image_options image_options = options_of(temporary_path(t, "data"), 8, BATCH);
        gp_loader_options options = {.samples = BATCH, .count = 2, .threads = 1};
        gp_dataset *dataset = NULL;
        gp_loader *loader = NULL;
        gp_batch *batch;
        image_options.validation_share = 0.2;
        gp_allocation_fail_at(n);
        gp_status status = gp_dataset_create_images(&dataset, &image_options);
        if (status == GP_OK) status = gp_loader_create(&loader, dataset, &options);
        for (int i = 0; i < 2 && status == GP_OK; i++)
            status = gp_loader_next(loader, &batch);
        gp_loader_destroy(loader);
        gp_dataset_destroy(dataset);
        gp_allocation_fail_at(0);
        if (status == GP_OK) break;
        assert_int_equal(status, GP_OUT_OF_MEMORY);
        failures++;
    }
    assert_in_range(failures, 30, 1500);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_every_dataset),
        WITH_FOLDER(test_failing_loader),
        WITH_FOLDER(test_bad_loaders),
        WITH_FOLDER(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
