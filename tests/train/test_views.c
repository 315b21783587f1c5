/* Evaluations that judge each image as several views, turned round and moved: the loss is the mean over the views, and
 * so is the output that predicts, so that a set of mirrored images is judged as the set itself. */
#include "run_support.h"

#include "gpipe/images.h"

enum { IMAGES = 23, SIDE = 32, RECORD = 1 + 3 * SIDE * SIDE, CLASSES = 10 };

/* How the images of a set lie in the file. */
typedef struct lying {
    bool mirrored;
    int move; /* pixels down and right, the mean colour moving in */
} lying;

static const gp_image_options AS_THEY_ARE = {0};

static uint8_t noise(int at) {
    return (uint8_t)((uint32_t)at * 2654435761u >> 24);
}

/* One plane of an image of CIFAR-10's form. 128 is the mean colour. */
static void write_plane(uint8_t *plane, int number, lying how) {
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int from_y = y - how.move, from_x = x - how.move;
            bool inside = from_y >= 0 && from_y < SIDE && from_x >= 0 && from_x < SIDE;
            plane[y * SIDE + (how.mirrored ? SIDE - 1 - x : x)] =
                inside ? noise((number * SIDE + from_y) * SIDE + from_x) : 128;
        }
}

static gp_dataset *open_dataset(temporary *t, lying how, const gp_image_options *views) {
    static uint8_t records[IMAGES * RECORD];
    static const double mean = 128.0 / 255, deviation = 1;
    for (int i = 0; i < IMAGES; i++) {
        records[i * RECORD] = (uint8_t)(i % CLASSES);
        for (int plane = 0; plane < 3; plane++)
            write_plane(records + i * RECORD + 1 + plane * SIDE * SIDE, i * 3 + plane, how);
    }
    gp_image_options options = *views;
    options.images = temporary_write(t, "images.bin", records, sizeof records);
    options.height = options.width = SIDE;
    options.channels = 3;
    options.batch = 6;
    for (int c = 0; c < 3; c++) {
        options.mean[c] = mean;
        options.deviation[c] = deviation;
    }
    gp_dataset *dataset;
    ok(gp_dataset_create_images(&dataset, &options));
    return dataset;
}

/* ---- who follows ---- */

typedef struct follower {
    int64_t heard, count, stop_at; /* passes told of; passes in all; the pass that is not to be made, -1: none */
} follower;

static void hear(void *user, int64_t done, int64_t count) {
    follower *f = user;
    assert_int_equal(done, f->heard++);
    assert_true(done < count && (f->count == 0 || f->count == count));
    f->count = count;
}

static bool wants_to_stop(void *user) {
    const follower *f = user;
    return f->heard - 1 == f->stop_at;
}

/* Of every pass, those of views too, and every one can be stopped at. */
static void follow(gp_trainer *trainer, const gp_dataset *dataset, int64_t passes) {
    for (int64_t stop_at = -1; stop_at < passes; stop_at++) {
        follower f = {.stop_at = stop_at};
        ok(gp_trainer_watch_evaluations(
            trainer, &(gp_evaluation_watch){.on_progress = hear, .should_stop = wants_to_stop, .user = &f}));
        gp_status status = gp_trainer_evaluate_split(trainer, dataset, GP_SPLIT_TRAIN, 0, NULL);
        assert_int_equal(status, stop_at < 0 ? GP_OK : GP_INTERRUPTED);
        assert_int_equal(f.heard, stop_at < 0 ? passes : stop_at + 1);
        assert_int_equal(f.count, passes);
    }
    ok(gp_trainer_watch_evaluations(trainer, NULL));
}

/* ---- views ---- */

static gp_evaluation evaluate(gp_trainer *trainer, temporary *t, lying how, const gp_image_options *views,
                              int64_t *confusion) {
    gp_dataset *dataset = open_dataset(t, how, views);
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
    gp_image_options mirror = {.mirror = true}, shift = {.shift = 3}, both = {.mirror = true, .shift = 3};
    double mean[2] = {0}, moved[2][3];
    for (int m = 0; m < 2; m++) {
        for (int move = 0; move < 3; move++) {
            moved[m][move] = evaluate(trainer, t, (lying){m, (move - 1) * 3}, &AS_THEY_ARE, one).loss;
            mean[m] += moved[m][move] / 3;
        }
    }
    assert_true(moved[0][1] != moved[1][1] && moved[0][1] != moved[0][0] && moved[0][0] != moved[0][2]);
    double found = evaluate(trainer, t, (lying){0}, &mirror, one).loss;
    assert_true(fabs(found - (moved[0][1] + moved[1][1]) / 2) < 1e-6);
    assert_true(fabs(evaluate(trainer, t, (lying){.mirrored = true}, &mirror, other).loss - found) < 1e-6);
    assert_memory_equal(one, other, sizeof one);
    assert_true(fabs(evaluate(trainer, t, (lying){0}, &shift, one).loss - mean[0]) < 1e-6);
    found = evaluate(trainer, t, (lying){0}, &both, one).loss; /* moved, then turned round */
    assert_true(fabs(found - (mean[0] + mean[1]) / 2) < 1e-6);
    gp_dataset *dataset = open_dataset(t, (lying){0}, &both);
    follow(trainer, dataset, (IMAGES + 5) / 6 * 6);
    gp_dataset_destroy(dataset);
    gp_trainer_destroy(trainer);
}

static void views_are_judged_together(void **state) {
    gp_model *model = make_model();
    check(*state, model, 1, 1);
    check(*state, model, 2, 1);
    check(*state, model, 2, 2);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(views_are_judged_together, temporary_create, run_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
