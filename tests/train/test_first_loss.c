/* Every image classifier of the zoo starts knowing nothing and claiming nothing: with few classes its first loss is
 * near that of equal probabilities. Initial weights of a classifier that are too large show here. */
#include "run_support.h"

#define INTEGER(name, value)                                                                                           \
    { .key = name, .type = GP_OPTION_INTEGER, .integer = value }
#define TEXT(name, value)                                                                                              \
    { .key = name, .type = GP_OPTION_TEXT, .text = value }

enum { CLASSES = 4, MOST_OPTIONS = 5 };

static const struct {
    const char *kind;
    gp_option options[MOST_OPTIONS];
    size_t count;
} networks[] = {
    {"amoebanet_d", {INTEGER("layers", 3), INTEGER("filters", 16), INTEGER("image", 16), TEXT("stem", "cifar")}, 4},
    {"amoebanet_d", {INTEGER("layers", 3), INTEGER("filters", 16), INTEGER("image", 64)}, 3},
    {"amoebanet_b",
     {INTEGER("layers", 3), INTEGER("filters", 16), INTEGER("image", 64), TEXT("stem", "torchgpipe")},
     4},
    {"resnet_cifar", {INTEGER("depth", 8), INTEGER("image", 16)}, 2},
    {"resnet18", {INTEGER("image", 64)}, 1},
    {"resnet50", {INTEGER("image", 64)}, 1},
    {"googlenet", {INTEGER("image", 64)}, 1},
    {"mlp", {INTEGER("image", 16)}, 1},
};

static bool keep_loss(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    (void)validation;
    *(double *)user = metrics->loss;
    return true;
}

static double first_loss(const char *kind, const gp_option *given, size_t count) {
    gp_option options[MOST_OPTIONS + 1];
    gp_model *model;
    gp_trainer *trainer;
    gp_dataset *dataset;
    double loss = NAN;
    memcpy(options, given, count * sizeof *given);
    options[count] = (gp_option)INTEGER("classes", CLASSES);
    ok(gp_model_create_named(&model, kind, options, count + 1, NULL));
    gp_random_options random = {.input = gp_model_input_type(model),
                                .target = {.dtype = GP_I32, .shape = {.rank = 0}},
                                .target_below = CLASSES};
    gp_pipeline_options pipeline = {.partitions = 1, .micro_batches = 1, .batch = 8, .balance = GP_BALANCE_PARAMETERS};
    ok(gp_dataset_create_random(&dataset, &random));
    ok(gp_trainer_create(&trainer, model, &pipeline, &(gp_optimizer_options){.lr = 1e-9}, 1));
    ok(gp_trainer_run(trainer, dataset, &(gp_run_options){.steps = 1, .on_step = keep_loss, .user = &loss}, NULL));
    gp_trainer_destroy(trainer);
    gp_dataset_destroy(dataset);
    gp_model_destroy(model);
    return loss;
}

static void test_first_loss(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        double loss = first_loss(networks[i].kind, networks[i].options, networks[i].count);
        print_message("%s: %.3f, equal probabilities %.3f\n", networks[i].kind, loss, log(CLASSES));
        assert_true(loss > 0.5 * log(CLASSES));
        assert_true(loss < 2.5 * log(CLASSES));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
