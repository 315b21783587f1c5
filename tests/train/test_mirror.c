/* Evaluations that judge each image together with its mirror image: the loss is the mean of both, the prediction that
 * of the mean of both outputs, so that a set of mirrored images is judged as the set itself. */
#include "run_support.h"

#include "gpipe/images.h"

enum { IMAGES = 23, SIDE = 32, RECORD = 1 + 3 * SIDE * SIDE, CLASSES = 10 };

/* Of CIFAR-10's form: a label and three planes of bytes; `mirrored`: with left and right changed. */
static gp_dataset *open_dataset(temporary *t, bool mirrored, bool mirror) {
    static uint8_t records[IMAGES * RECORD];
    uint32_t state = 7;
    for (int i = 0; i < IMAGES; i++) {
        uint8_t *record = records + i * RECORD;
        *record = (uint8_t)(i % CLASSES);
        for (int row = 0; row < 3 * SIDE; row++)
            for (int x = 0; x < SIDE; x++) {
                state = state * 1664525u + 1013904223u;
                record[1 + row * SIDE + (mirrored ? SIDE - 1 - x : x)] = (uint8_t)(state >> 24);
            }
    }
    gp_image_options options = {
        .images = temporary_write(t, mirrored ? "mirrored.bin" : "images.bin", records, sizeof records),
        .height = SIDE,
        .width = SIDE,
        .channels = 3,
        .batch = 6,
        .mirror = mirror};
    gp_dataset *dataset;
    ok(gp_dataset_create_images(&dataset, &options));
    return dataset;
}

static gp_evaluation evaluate(gp_trainer *trainer, temporary *t, bool mirrored, bool mirror, int64_t *confusion) {
    gp_dataset *dataset = open_dataset(t, mirrored, mirror);
    gp_evaluation found = {.size = sizeof found, .confusion = confusion};
    memset(confusion, 0, CLASSES * CLASSES * sizeof *confusion);
    ok(gp_trainer_evaluate_split(trainer, dataset, GP_SPLIT_TRAIN, 0, &found));
    assert_true(found.weight == IMAGES && found.samples == IMAGES);
    gp_dataset_destroy(dataset);
    return found;
}

static void add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer;
    ok(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    ok(gp_model_add(model, layer));
}

static gp_model *make_model(void) {
    gp_option convolution[] = {{.key = "channels", .type = GP_OPTION_INTEGER, .integer = 8},
                               {.key = "kernel", .type = GP_OPTION_INTEGER, .integer = 5}};
    gp_option features = {.key = "features", .type = GP_OPTION_INTEGER, .integer = CLASSES};
    gp_model *model;
    ok(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){SIDE, SIDE, 3})}));
    add(model, "conv2d", convolution, 2);
    add(model, "relu", NULL, 0);
    add(model, "global_average_pool", NULL, 0);
    add(model, "linear", &features, 1);
    ok(gp_model_set_loss(model, &(gp_loss){.kind = GP_LOSS_CROSS_ENTROPY}));
    ok(gp_model_finish(model));
    return model;
}

static void check(temporary *t, const gp_model *model, int partitions, int replicas) {
    int64_t one[CLASSES * CLASSES], other[CLASSES * CLASSES];
    gp_pipeline_options pipeline = {.partitions = partitions,
                                    .replicas = replicas,
                                    .batch = 6,
                                    .micro_batches = 2,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .seed = 3};
    gp_trainer *trainer;
    ok(gp_trainer_create(&trainer, model, &pipeline, NULL, 1));
    double plain = evaluate(trainer, t, false, false, one).loss, turned = evaluate(trainer, t, true, false, one).loss;
    double both = evaluate(trainer, t, false, true, one).loss, again = evaluate(trainer, t, true, true, other).loss;
    assert_true(plain != turned);
    assert_true(fabs(both - (plain + turned) / 2) < 1e-7 && fabs(again - both) < 1e-7);
    assert_memory_equal(one, other, sizeof one);
    gp_trainer_destroy(trainer);
}

static void mirror_images_are_judged_too(void **state) {
    gp_model *model = make_model();
    check(*state, model, 1, 1);
    check(*state, model, 2, 1);
    check(*state, model, 2, 2);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mirror_images_are_judged_too, temporary_create, run_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
