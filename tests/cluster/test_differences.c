/* Ranks that ask for different things are refused before a step runs, by all alike, with the words for what differs.
 * Through the public API; started with two ranks. */
#include "temporary.h"
#include "together.h"

typedef struct request {
    gp_gpt2_options model;
    gp_pipeline_options pipeline;
    gp_optimizer_options optimizer;
    gp_parameter_group group;
    int64_t steps;
} request;

static void wider(request *r) {
    r->model.width = 16;
}
static void more_micro_batches(request *r) {
    r->pipeline.micro_batches = 4;
}
static void another_seed(request *r) {
    r->pipeline.seed = 7;
}
static void another_schedule(request *r) {
    r->pipeline.schedule = GP_SCHEDULE_1F1B;
}
static void with_snapshot(request *r) {
    r->pipeline.snapshot = true;
}
static void faster(request *r) {
    r->optimizer.lr = 0.02;
}
static void averaged(request *r) {
    r->optimizer.average = 0.9;
}
static void decaying_by_layer(request *r) {
    r->optimizer.layer_decay = 0.9;
}
static void another_group(request *r) {
    r->group.frozen = true;
}
static void no_group(request *r) {
    r->optimizer.group_count = 0;
}
static void longer(request *r) {
    r->steps = 11;
}

typedef struct difference {
    void (*make)(request *); /* on rank 1 */
    const char *what;
} difference;

static const difference differences[] = {{wider, "the model"},
                                         {more_micro_batches, "the pipeline"},
                                         {another_seed, "the pipeline"},
                                         {another_schedule, "the pipeline"},
                                         {with_snapshot, "the pipeline"},
                                         {faster, "the optimizer"},
                                         {averaged, "the optimizer"},
                                         {decaying_by_layer, "the optimizer"},
                                         {another_group, "the optimizer"},
                                         {no_group, "the optimizer"},
                                         {longer, "the optimizer"}};

static gp_status create(void (*change)(request *)) {
    request r = {.model = {.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = 11},
                 .pipeline = {.micro_batches = 2, .batch = 4, .balance = GP_BALANCE_PARAMETERS, .cluster = cluster},
                 .optimizer = {.lr = 0.01, .group_count = 1},
                 .group = {.pattern = "*.weight", .lr_factor = 0.5},
                 .steps = 10};
    gp_model *model;
    gp_trainer *trainer = NULL;
    r.optimizer.groups = &r.group;
    if (change) change(&r);
    assert_int_equal(gp_model_create_gpt2(&model, &r.model), GP_OK);
    gp_status status = gp_trainer_create(&trainer, model, &r.pipeline, &r.optimizer, r.steps);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return status;
}

static void differences_are_refused_and_named(void **state) {
    (void)state;
    for (size_t d = 0; d < sizeof differences / sizeof *differences; d++) {
        char wanted[64];
        gp_status status = create(gp_cluster_rank(cluster) == 1 ? differences[d].make : NULL);
        if (status != GP_INVALID) fail_msg("difference %zu (%s) is not refused", d, differences[d].what);
        snprintf(wanted, sizeof wanted, "%s of rank 1 (host ", differences[d].what);
        if (!strstr(gp_error_message(), wanted)) fail_msg("difference %zu: %s", d, gp_error_message());
    }
}

/* ---- data ---- */

/* In CIFAR-10's form: a label and three planes of 32 x 32 bytes. */
static gp_dataset *open_images(temporary *t, bool mirror, int64_t shift) {
    enum { IMAGES = 8, RECORD = 1 + 3 * 32 * 32 };
    static uint8_t records[IMAGES * RECORD];
    for (int i = 0; i < IMAGES; i++)
        records[i * RECORD] = (uint8_t)i;
    gp_image_options options = {.images = temporary_write(t, "images.bin", records, sizeof records),
                                .height = 32,
                                .width = 32,
                                .channels = 3,
                                .batch = 4,
                                .validation_share = 0.5,
                                .mirror = mirror,
                                .shift = shift};
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_images(&dataset, &options), GP_OK);
    return dataset;
}

static gp_model *make_classifier(void) {
    gp_option features = {.key = "features", .type = GP_OPTION_INTEGER, .integer = 10};
    gp_layer *pool, *linear;
    gp_model *model;
    assert_int_equal(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){32, 32, 3})}), GP_OK);
    assert_int_equal(gp_layer_create_builtin(&pool, "global_average_pool", NULL, 0, NULL, 0), GP_OK);
    assert_int_equal(gp_layer_create_builtin(&linear, "linear", &features, 1, NULL, 0), GP_OK);
    assert_int_equal(gp_model_add(model, pool), GP_OK);
    assert_int_equal(gp_model_add(model, linear), GP_OK);
    assert_int_equal(gp_model_set_loss(model, &(gp_loss){.kind = GP_LOSS_CROSS_ENTROPY}), GP_OK);
    assert_int_equal(gp_model_finish(model), GP_OK);
    return model;
}

static gp_status train_on(const gp_dataset *dataset, const gp_model *model) {
    gp_pipeline_options pipeline = {
        .partitions = 2, .micro_batches = 2, .batch = 4, .balance = GP_BALANCE_PARAMETERS, .cluster = cluster};
    gp_run_options run = {.steps = 1};
    gp_optimizer_options optimizer = {0};
    gp_trainer *trainer;
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, &optimizer, 1), GP_OK);
    gp_status status = gp_trainer_run(trainer, dataset, &run, NULL);
    gp_trainer_destroy(trainer);
    return status;
}

/* Ranks that judge the same images in another number of passes would wait for each other. */
static void evaluations_that_differ_are_refused(void **state) {
    gp_model *model = make_classifier();
    bool other = gp_cluster_rank(cluster) == 1;
    for (int shift = 0; shift < 2; shift++) {
        gp_dataset *dataset = open_images(*state, other && !shift, other && shift);
        assert_int_equal(train_on(dataset, model), GP_INVALID);
        assert_message_has(gp_error_message(), "the data of rank 1 (host ");
        gp_dataset_destroy(dataset);
    }
    gp_dataset *dataset = open_images(*state, true, 1);
    if (train_on(dataset, model) != GP_OK) fail_msg("%s", gp_error_message());
    gp_dataset_destroy(dataset);
    gp_model_destroy(model);
}

static void the_same_is_accepted_afterwards(void **state) {
    (void)state;
    assert_int_equal(create(NULL), GP_OK);
}

int main(void) {
    if (!together_begin()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_refused_and_named),
        cmocka_unit_test_setup_teardown(evaluations_that_differ_are_refused, temporary_create, temporary_destroy),
        cmocka_unit_test(the_same_is_accepted_afterwards),
    };
    return together_end(cmocka_run_group_tests(tests, NULL, NULL));
}
