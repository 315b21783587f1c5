/* 10 steps, a stop, and 10 more are 20: for every optimizer there is, with everything that a run can have beside
 * weights: batch norm's moving averages, averages of the weights, dropout, augmentation by random numbers, mixed
 * labels, an order of images that changes every epoch. The second half runs on another cut, schedule and recomputation.
 */
#include "run_support.h"

#include "gpipe/images.h"

enum { IMAGES = 28, SIDE = 8, SAMPLES = 6, STEPS = 20, HALF = 10 };

/* Of CIFAR-10's form: a label and 32 x 32 x 3 bytes. */
static const char *write_images(temporary *t) {
    enum { RECORD = 1 + 3072 };
    static uint8_t records[IMAGES * RECORD];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof records; i++) {
        state = state * 1664525u + 1013904223u;
        records[i] = i % RECORD == 0 ? (uint8_t)(i / RECORD % 10) : (uint8_t)(state >> 24);
    }
    return temporary_write(t, "images.bin", records, sizeof records);
}

static gp_dataset *open_dataset(temporary *t) {
    gp_image_options options = {.images = write_images(t),
                                .height = SIDE,
                                .width = SIDE,
                                .channels = 3,
                                .validation_share = 0.25,
                                .augmentation = {.flip = true, .crop = GP_CROP_RESIZED, .mixup = 0.4},
                                .batch = SAMPLES,
                                .threads = 2};
    gp_dataset *dataset;
    ok(gp_dataset_create_images(&dataset, &options));
    return dataset;
}

static void add(gp_model *model, const char *kind, const char *key, int64_t value, double number) {
    gp_option options[] = {{.key = key, .type = GP_OPTION_INTEGER, .integer = value},
                           {.key = "kernel", .type = GP_OPTION_INTEGER, .integer = 3}};
    gp_layer *layer;
    if (number > 0) options[0] = (gp_option){.key = key, .type = GP_OPTION_NUMBER, .number = number};
    ok(gp_layer_create_builtin(&layer, kind, options, strcmp(kind, "conv2d") == 0 ? 2 : key != NULL, NULL, 0));
    ok(gp_model_add(model, layer));
}

static gp_model *make_model(void) {
    gp_model *model;
    ok(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){SIDE, SIDE, 3})}));
    add(model, "conv2d", "channels", 4, 0);
    add(model, "batch_norm", NULL, 0, 0);
    add(model, "relu", NULL, 0, 0);
    add(model, "dropout", "p", 0, 0.25);
    add(model, "conv2d", "channels", 5, 0);
    add(model, "batch_norm", NULL, 0, 0);
    add(model, "relu", NULL, 0, 0);
    add(model, "global_average_pool", NULL, 0, 0);
    add(model, "linear", "features", 10, 0);
    ok(gp_model_set_loss(model, &(gp_loss){.kind = GP_LOSS_CROSS_ENTROPY, .mixed = true}));
    ok(gp_model_finish(model));
    return model;
}

/* ---- how it runs ---- */

static const struct {
    int partitions;
    gp_schedule_kind schedule;
    gp_recompute recompute;
    bool by_layer;
} ways[] = {{2, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_EXCEPT_LAST, false},
            {3, GP_SCHEDULE_1F1B, GP_RECOMPUTE_ALWAYS, true},
            {1, GP_SCHEDULE_GPIPE, GP_RECOMPUTE_NEVER, false},
            {4, GP_SCHEDULE_1F1B, GP_RECOMPUTE_ALWAYS, false}};
enum { WAYS = sizeof ways / sizeof *ways };

static bool stop_at_half(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    (void)validation;
    return !*(const bool *)user || metrics->step < HALF;
}

static void train(const gp_dataset *dataset, const gp_model *model, const gp_optimizer_options *optimizer, size_t way,
                  const char *out, const char *from, bool half) {
    gp_pipeline_options pipeline = {.partitions = ways[way].partitions,
                                    .schedule = ways[way].schedule,
                                    .recompute = ways[way].recompute,
                                    .recompute_by_layer = ways[way].by_layer,
                                    .micro_batches = 3,
                                    .batch = SAMPLES,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .loss_weights = true,
                                    .snapshot = way % 2 == 0,
                                    .seed = 3};
    gp_run_options options = {.steps = STEPS,
                              .eval_every = 7,
                              .out = out,
                              .checkpoint_every = 4,
                              .seed = 3,
                              .on_step = stop_at_half,
                              .user = &half};
    gp_trainer *trainer;
    ok(gp_trainer_create(&trainer, model, &pipeline, optimizer, STEPS));
    if (from) ok(gp_trainer_resume(trainer, from));
    gp_status status = gp_trainer_run(trainer, dataset, &options, NULL);
    if (half) assert_int_equal(status, GP_INTERRUPTED);
    if (!half) ok(status);
    assert_int_equal(gp_trainer_step_count(trainer), half ? HALF : STEPS);
    gp_trainer_destroy(trainer);
}

static const struct {
    gp_optimizer_options options;
    const char *name;
    bool has_state;
} optimizers[] = {
    {{.kind = GP_OPTIMIZER_SGD, .lr = 0.05}, "sgd", false},
    {{.kind = GP_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.9, .average = 0.9}, "momentum", true},
    {{.kind = GP_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.9, .nesterov = true, .clip = 1}, "nesterov", true},
    {{.kind = GP_OPTIMIZER_ADAM, .lr = 0.01, .weight_decay = 0.01, .average = 0.99}, "adam", true},
    {{.kind = GP_OPTIMIZER_ADAMW, .lr = 0.01, .weight_decay = 0.1, .schedule = {.kind = GP_LR_COSINE, .warmup = 5}},
     "adamw",
     true},
    {{.kind = GP_OPTIMIZER_RMSPROP, .lr = 0.01, .schedule = {.kind = GP_LR_LINEAR}}, "rmsprop", true},
    {{.kind = GP_OPTIMIZER_RMSPROP,
      .lr = 0.01,
      .momentum = 0.9,
      .epsilon = 0.1,
      .epsilon_inside = true,
      .average = 0.9},
     "rmsprop with the epsilon inside",
     true},
};

static void assert_same_averages(const char *one, const char *other) {
    char left[600], right[600], a[700], b[700];
    snprintf(a, sizeof a, "%s/average.safetensors", run_step(one, STEPS, left));
    snprintf(b, sizeof b, "%s/average.safetensors", run_step(other, STEPS, right));
    run_assert_same_file(a, b);
}

static void ten_and_ten_are_twenty(void **state) {
    gp_dataset *dataset = open_dataset(*state);
    gp_model *model = make_model();
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-20", optimizers[i].name);
        char *whole = run_folder(*state, name), *halves = run_folder(*state, optimizers[i].name);
        train(dataset, model, &optimizers[i].options, i % WAYS, whole, NULL, false);
        train(dataset, model, &optimizers[i].options, i % WAYS, halves, NULL, true);
        train(dataset, model, &optimizers[i].options, (i + 1) % WAYS, halves, halves, false);
        run_assert_same(whole, halves, STEPS, optimizers[i].has_state);
        run_assert_same_metrics(whole, halves, STEPS);
        if (optimizers[i].options.average > 0) assert_same_averages(whole, halves);
        free(whole);
        free(halves);
    }
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, run_clean)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(ten_and_ten_are_twenty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
