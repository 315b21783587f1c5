/* Same bits for AmoebaNet-D (6, 32), skips, batch norm, dropout, drop-path and the auxiliary classifier included: loss,
 * gradient norm, weights and moving averages after ten steps of RMSProp, whatever the number of partitions, the
 * schedule and the recompute mode, with a batch that the micro-batches do not divide. With GPIPE_TEST_IMAGES=PATH in
 * the environment (images of 10 classes in any form of data.images, such as CIFAR-10's) also on real, augmented images
 * of 32 x 32, in every combination, which takes minutes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "gpipe/gpipe.h"
#include "temporary.h"

enum { BATCH = 7, MICRO_BATCHES = 3, STEPS = 10, SMALL = 12, REAL = 32, CLASSES = 10 };

static void assert_ok(gp_status status) {
    if (status != GP_OK) fail_msg("status %d: %s", (int)status, gp_error_message());
}

static gp_model *make_model(int64_t image, const char *stem) {
    gp_option options[] = {
        {.key = "layers", .type = GP_OPTION_INTEGER, .integer = 6},
        {.key = "filters", .type = GP_OPTION_INTEGER, .integer = 32},
        {.key = "image", .type = GP_OPTION_INTEGER, .integer = image},
        {.key = "classes", .type = GP_OPTION_INTEGER, .integer = CLASSES},
        {.key = "stem", .type = GP_OPTION_TEXT, .text = stem},
        {.key = "auxiliary", .type = GP_OPTION_NUMBER, .number = 0.4},
        {.key = "drop_path", .type = GP_OPTION_NUMBER, .number = 0.3},
        {.key = "batch_norm_decay", .type = GP_OPTION_NUMBER, .number = 0.9},
    };
    gp_loss loss = {.cross_entropy = {.label_smoothing = 0.1}};
    gp_model *model = NULL;
    assert_ok(gp_model_create_named(&model, "amoebanet_d", options, sizeof options / sizeof *options, &loss));
    return model;
}

static gp_dataset *make_data(const gp_model *model) {
    gp_random_options options = {
        .input = gp_model_input_type(model), .target = gp_model_target_type(model), .target_below = CLASSES};
    gp_dataset *dataset = NULL;
    assert_ok(gp_dataset_create_random(&dataset, &options));
    return dataset;
}

static gp_dataset *make_images(const char *path) {
    gp_image_options options = {.images = path,
                                .height = REAL,
                                .width = REAL,
                                .channels = 3,
                                .batch = BATCH,
                                .augmentation = {.crop = GP_CROP_PAD, .pad = 4, .flip = true}};
    gp_dataset *dataset = NULL;
    assert_ok(gp_dataset_create_images(&dataset, &options));
    assert_int_equal(CLASSES, gp_classes_count(gp_dataset_classes(dataset)));
    return dataset;
}

/* What must be equal. */
typedef struct outcome {
    double losses[STEPS], norms[STEPS], evaluated;
    char *file; /* weights and moving averages */
    size_t bytes;
} outcome;

typedef struct variant {
    int partitions;
    gp_schedule_kind schedule;
    gp_recompute recompute;
    bool by_layer;
} variant;

static gp_trainer *make_trainer(const gp_model *model, const variant *v) {
    gp_pipeline_options pipeline = {.partitions = v->partitions,
                                    .micro_batches = MICRO_BATCHES,
                                    .batch = BATCH,
                                    .schedule = v->schedule,
                                    .recompute = v->recompute,
                                    .recompute_by_layer = v->by_layer,
                                    .balance = GP_BALANCE_FLOPS,
                                    .seed = 3};
    gp_optimizer_options optimizer = {.kind = GP_OPTIMIZER_RMSPROP,
                                      .lr = 0.01,
                                      .beta2 = 0.9,
                                      .epsilon = 0.1,
                                      .epsilon_inside = true,
                                      .momentum = 0.9,
                                      .weight_decay = 4e-5,
                                      .clip = 10};
    gp_trainer *trainer = NULL;
    assert_ok(gp_trainer_create(&trainer, model, &pipeline, &optimizer, STEPS));
    return trainer;
}

static outcome train(temporary *folder, const gp_model *model, const gp_dataset *dataset, const variant *v) {
    outcome result = {0};
    gp_batch batch;
    double weight = 0;
    gp_trainer *trainer = make_trainer(model, v);
    assert_ok(gp_batch_create(&batch, dataset, BATCH));
    for (int64_t step = 0; step < STEPS; step++) {
        gp_step_metrics metrics;
        assert_ok(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 5, step, 0, BATCH, &batch));
        assert_ok(gp_trainer_step(trainer, &batch.inputs, &batch.targets, NULL, &metrics));
        assert_true(metrics.finite);
        result.losses[step] = metrics.loss;
        result.norms[step] = metrics.gradient_norm;
    }
    assert_ok(gp_trainer_evaluate(trainer, &batch.inputs, &batch.targets, NULL, &result.evaluated, &weight));
    const char *path = temporary_path(folder, "weights.safetensors");
    assert_ok(gp_trainer_save(trainer, path));
    result.file = temporary_read(path, &result.bytes);
    gp_batch_destroy(&batch);
    gp_trainer_destroy(trainer);
    return result;
}

static void check_variant(temporary *folder, const gp_model *model, const gp_dataset *dataset, const outcome *first,
                          const variant *v) {
    outcome other = train(folder, model, dataset, v);
    for (int step = 0; step < STEPS; step++) {
        if (other.losses[step] != first->losses[step] || other.norms[step] != first->norms[step])
            fail_msg("K=%d, %s, %s%s: step %d has loss %.17g instead of %.17g, norm %.17g instead of %.17g",
                     v->partitions, gp_schedule_kind_name(v->schedule), gp_recompute_name(v->recompute),
                     v->by_layer ? " by layer" : "", step, other.losses[step], first->losses[step], other.norms[step],
                     first->norms[step]);
    }
    assert_true(other.evaluated == first->evaluated);
    assert_int_equal(other.bytes, first->bytes);
    assert_memory_equal(other.file, first->file, first->bytes);
    free(other.file);
}

static void test_same_bits(void **state) {
    static const variant variants[] = {
        {1, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_ALWAYS, false},
        {1, GP_SCHEDULE_1F1B, GP_RECOMPUTE_EXCEPT_LAST, true},
        {2, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_NEVER, false},
        {2, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_ALWAYS, true},
        {2, GP_SCHEDULE_1F1B, GP_RECOMPUTE_ALWAYS, false},
        {2, GP_SCHEDULE_NAIVE, GP_RECOMPUTE_EXCEPT_LAST, false},
        {4, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_EXCEPT_LAST, false},
        {4, GP_SCHEDULE_1F1B, GP_RECOMPUTE_NEVER, false},
        {4, GP_SCHEDULE_1F1B, GP_RECOMPUTE_ALWAYS, true},
    };
    temporary *folder = *state;
    gp_model *model = make_model(SMALL, "tensorflow");
    gp_dataset *dataset = make_data(model);
    outcome first = train(folder, model, dataset, &(variant){1, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_NEVER, false});
    assert_true(first.losses[STEPS - 1] != first.losses[0]);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_variant(folder, model, dataset, &first, &variants[i]);
    free(first.file);
    gp_dataset_destroy(dataset);
    gp_model_destroy(model);
}

static void test_same_bits_on_real_images(void **state) {
    static const int partitions[] = {1, 2, 4};
    temporary *folder = *state;
    const char *path = getenv("GPIPE_TEST_IMAGES");
    if (!path) skip();
    gp_model *model = make_model(REAL, "cifar");
    gp_dataset *dataset = make_images(path);
    outcome first = train(folder, model, dataset, &(variant){1, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_NEVER, false});
    for (int k = 0; k < 3; k++)
        for (int schedule = GP_SCHEDULE_GPIPE; schedule <= GP_SCHEDULE_NAIVE; schedule++)
            for (int recompute = GP_RECOMPUTE_EXCEPT_LAST; recompute <= GP_RECOMPUTE_NEVER; recompute++)
                for (int by_layer = 0; by_layer <= (recompute != GP_RECOMPUTE_NEVER); by_layer++) {
                    variant v = {partitions[k], (gp_schedule_kind)schedule, (gp_recompute)recompute, by_layer};
                    check_variant(folder, model, dataset, &first, &v);
                }
    free(first.file);
    gp_dataset_destroy(dataset);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(test_same_bits_on_real_images, temporary_create, temporary_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
