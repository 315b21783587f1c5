/* Training that starts from other weights: parts that start anew, parts that are frozen or slower; averages of the
 * weights in a run; runs that end early. */
#include "run_support.h"

/* ---- weights of a trainer, one after the other ---- */

typedef struct weights {
    gp_safetensors *file;
} weights;

static weights weights_of(temporary *t, gp_trainer *trainer, const char *name) {
    weights made;
    const char *path = temporary_path(t, name);
    ok(gp_trainer_save(trainer, path));
    ok(gp_safetensors_open(&made.file, path));
    return made;
}

static bool same(const weights *a, const weights *b, const char *name) {
    size_t i, j;
    assert_true(gp_safetensors_find(a->file, name, &i));
    assert_true(gp_safetensors_find(b->file, name, &j));
    gp_type type = gp_safetensors_type(a->file, i);
    size_t bytes = (size_t)gp_shape_elements(type.shape) * sizeof(float);
    return memcmp(gp_safetensors_data(a->file, i), gp_safetensors_data(b->file, j), bytes) == 0;
}

static void assert_same_but(const gp_model *model, const weights *a, const weights *b, const char *prefix,
                            bool inside) {
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        const char *name = gp_model_parameter(model, p).name;
        bool expected = (strncmp(name, prefix, strlen(prefix)) == 0) == inside;
        if (same(a, b, name) != expected) fail_msg("%s is %s", name, expected ? "another" : "the same");
    }
}

/* ---- the tests ---- */

static void parts_start_anew(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = {0};
    gp_trainer *one = run_trainer(model, 1, &adamw), *other;
    gp_run_options options = run_options(NULL, 4);
    ok(gp_trainer_run(one, dataset, &options, NULL));
    weights trained = weights_of(*state, one, "trained.safetensors");
    const char *path = temporary_path(*state, "trained.safetensors");
    const char *patterns[] = {"layers.1"}, *none[] = {"layers.1", "heads"};
    other = run_trainer(model, 3, &adamw);
    weights fresh = weights_of(*state, other, "fresh.safetensors");
    ok(gp_trainer_load_except(other, path, patterns, 1));
    weights mixed = weights_of(*state, other, "mixed.safetensors");
    assert_same_but(model, &mixed, &trained, "layers.1.", false);
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        const char *name = gp_model_parameter(model, p).name;
        if (strncmp(name, "layers.1.", 9) == 0) assert_true(same(&mixed, &fresh, name));
    }
    assert_int_equal(gp_trainer_load_except(other, path, none, 2), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "no parameter matches \"heads\""));
    weights *all[] = {&trained, &fresh, &mixed};
    for (int i = 0; i < 3; i++)
        gp_safetensors_close(all[i]->file);
    gp_trainer_destroy(one);
    gp_trainer_destroy(other);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

static gp_model *untied_model(const gp_dataset *dataset) {
    gp_gpt2_options options = {.layers = 1,
                               .heads = 2,
                               .width = 8,
                               .context = RUN_CONTEXT,
                               .untied = true,
                               .vocabulary = gp_tokenizer_vocabulary(gp_dataset_tokenizer(dataset))};
    gp_model *model;
    ok(gp_model_create_gpt2(&model, &options));
    return model;
}

/* "head" is the last layer with parameters, whole, and nothing else; one that is tied is refused. */
static void the_head_starts_anew(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = untied_model(dataset), *tied = run_model(dataset);
    gp_optimizer_options adamw = {0};
    const char *path = temporary_path(*state, "one.safetensors"), *head[] = {"head"};
    char layer[32];
    gp_trainer *one = run_trainer(model, 1, &adamw), *other = run_trainer(model, 2, &adamw);
    gp_run_options options = run_options(NULL, 2);
    ok(gp_trainer_run(one, dataset, &options, NULL));
    weights first = weights_of(*state, one, "one.safetensors");
    ok(gp_trainer_load_except(other, path, head, 1));
    weights mixed = weights_of(*state, other, "other.safetensors");
    snprintf(layer, sizeof layer, "layers.%zu.", gp_model_layer_count(model) - 1);
    assert_same_but(model, &mixed, &first, layer, false);
    gp_safetensors_close(first.file);
    gp_safetensors_close(mixed.file);
    gp_trainer_destroy(one);
    gp_trainer_destroy(other);
    other = run_trainer(tied, 1, &adamw);
    assert_int_equal(gp_trainer_load_except(other, path, head, 1), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "which shares layers.0.token.weight"));
    gp_trainer_destroy(other);
    gp_model_destroy(model);
    gp_model_destroy(tied);
    gp_dataset_destroy(dataset);
}

static void frozen_parts_stay(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    const gp_parameter_group freeze = {.pattern = "layers.1.*", .frozen = true}, wrong = {.pattern = "heads"};
    gp_optimizer_options options = {.groups = &freeze, .group_count = 1, .layer_decay = 0.5};
    gp_trainer *trainer = run_trainer(model, 2, &options);
    gp_run_options run = run_options(NULL, 4);
    weights before = weights_of(*state, trainer, "before.safetensors");
    ok(gp_trainer_run(trainer, dataset, &run, NULL));
    weights after = weights_of(*state, trainer, "after.safetensors");
    assert_same_but(model, &before, &after, "layers.1.", true);
    gp_safetensors_close(before.file);
    gp_safetensors_close(after.file);
    gp_trainer_destroy(trainer);
    gp_pipeline_options pipeline = {.batch = 1, .balance = GP_BALANCE_PARAMETERS};
    options.groups = &wrong;
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, &options, 1), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "the first is called layers.0"));
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* The loss of the run is that of the averages, which the checkpoint's folder is opened as. */
static void runs_are_judged_by_averages(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options options = {.lr = 0.05, .average = 0.9};
    gp_evaluation found = {0}, averaged = {0}, plain = {0};
    char *out = run_folder(*state, "run"), path[700];
    gp_trainer *trainer = run_trainer(model, 2, &options), *judge = run_trainer(model, 1, NULL);
    gp_run_options run = run_options(out, 8);
    ok(gp_trainer_run(trainer, dataset, &run, &found));
    assert_int_equal(found.classes, 0);
    ok(gp_trainer_load(judge, out));
    ok(gp_trainer_evaluate_split(judge, dataset, GP_SPLIT_VALIDATION, 0, &averaged));
    assert_true(averaged.loss == found.loss);
    snprintf(path, sizeof path, "%s/checkpoints/latest/model.safetensors", out);
    ok(gp_trainer_load(judge, path));
    ok(gp_trainer_evaluate_split(judge, dataset, GP_SPLIT_VALIDATION, 0, &plain));
    assert_true(plain.loss != found.loss);
    free(out);
    gp_trainer_destroy(trainer);
    gp_trainer_destroy(judge);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* With a learning rate of nothing no evaluation is better than the first: the run ends `patience` evaluations later,
 * and a resumed one where the whole one does. */
static void patience_ends_runs(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options still = {.kind = GP_OPTIMIZER_SGD, .lr = 1e-30};
    char *out = run_folder(*state, "patient");
    for (int resumed = 0; resumed < 2; resumed++) {
        gp_trainer *trainer = run_trainer(model, 1, &still);
        gp_run_options run = run_options(out, resumed ? 40 : 7);
        run.patience = 2;
        if (resumed) ok(gp_trainer_resume(trainer, out));
        ok(gp_trainer_run(trainer, dataset, &run, NULL));
        assert_int_equal(gp_trainer_step_count(trainer), resumed ? 12 : 7); /* the best is step 4 */
        assert_true(run_has(out, resumed ? 12 : 7));
        gp_trainer_destroy(trainer);
    }
    free(out);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_start_anew, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(the_head_starts_anew, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(frozen_parts_stay, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(runs_are_judged_by_averages, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(patience_ends_runs, temporary_create, temporary_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
