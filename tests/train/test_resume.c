/* Runs that stop and go on: the same weights, optimizer state and metrics as without the stop, for every optimizer, on
 * another cut; what differs where it matters is refused; damaged checkpoints are passed over; what is kept. */
#include "run_support.h"

/* ---- the same bits ---- */

static const struct {
    gp_optimizer_options options;
    const char *name;
    bool has_state;
} optimizers[] = {
    {{.kind = GP_OPTIMIZER_SGD, .lr = 0.05}, "sgd", false},
    {{.kind = GP_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.9, .nesterov = true, .clip = 1}, "momentum", true},
    {{.kind = GP_OPTIMIZER_ADAM, .lr = 0.01, .schedule = {.kind = GP_LR_COSINE, .warmup = 5}}, "adam", true},
    {{.kind = GP_OPTIMIZER_ADAMW, .lr = 0.01, .weight_decay = 0.1, .clip = 1}, "adamw", true},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

enum { STEPS = 20 };

static bool go_on_until(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    (void)validation;
    return metrics->step < *(const int64_t *)user;
}

/* A run of STEPS steps that somebody ends after step `until`; from the newest checkpoint of `from` (NULL: the
 * beginning). */
static void train(const gp_dataset *dataset, const gp_model *model, int partitions,
                  const gp_optimizer_options *optimizer, const char *out, const char *from, int64_t until) {
    gp_trainer *trainer = run_trainer(model, partitions, optimizer);
    gp_run_options options = run_options(out, STEPS);
    options.on_step = go_on_until;
    options.user = &until;
    if (from) ok(gp_trainer_resume(trainer, from));
    gp_status status = gp_trainer_run(trainer, dataset, &options, NULL);
    if (until <= STEPS) assert_int_equal(status, GP_INTERRUPTED);
    if (until > STEPS) ok(status);
    assert_int_equal(gp_trainer_step_count(trainer), until < STEPS ? until : STEPS);
    gp_trainer_destroy(trainer);
}

static void ten_and_ten_are_twenty(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s-20", optimizers[i].name);
        char *whole = run_folder(*state, name), *halves = run_folder(*state, optimizers[i].name);
        train(dataset, model, 2, &optimizers[i].options, whole, NULL, STEPS + 1);
        train(dataset, model, 2, &optimizers[i].options, halves, NULL, 10);
        train(dataset, model, 3, &optimizers[i].options, halves, halves, STEPS + 1);
        run_assert_same(whole, halves, 20, optimizers[i].has_state);
        run_assert_same_metrics(whole, halves, 20);
        free(whole);
        free(halves);
    }
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* A run that was killed has lines behind its last checkpoint, the last one torn. */
static void metrics_have_each_step_once(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    char *whole = run_folder(*state, "whole"), *killed = run_folder(*state, "killed"), path[600];
    train(dataset, model, 1, &adamw, whole, NULL, STEPS + 1);
    train(dataset, model, 1, &adamw, killed, NULL, 6);
    snprintf(path, sizeof path, "%s/metrics.jsonl", killed);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("{\"step\":7,\"loss\":1}\n{\"step\":8,\"loss\":1}\n{\"step\":9,\"lo", file);
    fclose(file);
    train(dataset, model, 2, &adamw, killed, killed, STEPS + 1);
    run_assert_same_metrics(whole, killed, 20);
    free(whole);
    free(killed);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* ---- interruptions ---- */

typedef struct interruption {
    int64_t at; /* step whose evaluation is interrupted, or after which the run ends */
    int asked;  /* batches of the evaluation so far */
    int64_t step;
} interruption;

static bool note_step(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    interruption *i = user;
    (void)validation;
    i->step = metrics->step;
    return true;
}

/* The third batch of the evaluation after the step before `at`. */
static bool stop_in_evaluation(void *user) {
    interruption *i = user;
    return i->step + 1 == i->at && ++i->asked == 3;
}

static double last_validation(const char *run, int64_t step) {
    char path[600], line[2000];
    double value = NAN;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *found = strstr(line, "\"val_loss\":");
        if (strtoll(line + 8, NULL, 10) == step && found) value = strtod(found + 11, NULL);
    }
    fclose(file);
    return value;
}

/* In the middle of a run and at its very end: the evaluation is made when the run goes on, before anything else. */
static void an_interrupted_evaluation_is_made_up_for(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    char *whole = run_folder(*state, "whole");
    train(dataset, model, 2, &adamw, whole, NULL, STEPS + 1);
    for (int64_t at = 8; at <= 20; at += 12) {
        char name[16], one[600], other[600];
        gp_checkpoint_state found, expected;
        snprintf(name, sizeof name, "at-%d", (int)at);
        char *stopped = run_folder(*state, name);
        interruption i = {.at = at};
        gp_trainer *trainer = run_trainer(model, 2, &adamw);
        gp_run_options options = run_options(stopped, 20);
        options.on_step = note_step;
        options.user = &i;
        ok(gp_trainer_watch_evaluations(trainer,
                                        &(gp_evaluation_watch){.should_stop = stop_in_evaluation, .user = &i}));
        assert_int_equal(gp_trainer_run(trainer, dataset, &options, NULL), GP_INTERRUPTED);
        assert_message_has(gp_error_message(), "the checkpoint is written");
        assert_int_equal(i.asked, 3);
        assert_int_equal(gp_trainer_step_count(trainer), at);
        gp_trainer_destroy(trainer);
        assert_true(isnan(last_validation(stopped, at)));
        ok(gp_checkpoint_read_state(run_step(stopped, at, one), &found));
        assert_true(found.evaluation_pending);
        train(dataset, model, 3, &adamw, stopped, stopped, STEPS + 1);
        assert_true(last_validation(stopped, at) == last_validation(whole, at));
        run_assert_same(whole, stopped, 20, true);
        run_assert_same_metrics(whole, stopped, 20);
        ok(gp_checkpoint_read_state(run_step(stopped, 20, one), &found));
        ok(gp_checkpoint_read_state(run_step(whole, 20, other), &expected));
        assert_true(found.best == expected.best);
        assert_int_equal(found.best_step, expected.best_step);
        assert_false(found.evaluation_pending && at == 8);
        free(stopped);
    }
    free(whole);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* ---- what is refused ---- */

static void what_differs_is_refused(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    char *run = run_folder(*state, "run");
    gp_trainer *trainer = run_trainer(model, 1, &adamw);
    gp_run_options options = run_options(run, 4);
    options.configuration = "width 16";
    ok(gp_trainer_run(trainer, dataset, &options, NULL));
    gp_trainer_destroy(trainer);

    trainer = run_trainer(model, 1, &adamw);
    ok(gp_trainer_resume(trainer, run));
    options.steps = 8;
    options.configuration = "width 17";
    assert_int_equal(gp_trainer_run(trainer, dataset, &options, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "another configuration");
    options.configuration = "width 16";
    gp_text_options other = {.text = temporary_write_text(*state, "other.txt",
                                                          "the cat number 1234567890 sat there.\n"
                                                          "the cat number 1234567890 sat there.\n"),
                             .tokenizer = gp_dataset_tokenizer(dataset),
                             .context = RUN_CONTEXT,
                             .batch = RUN_BATCH};
    gp_dataset *another;
    ok(gp_dataset_create_text(&another, &other));
    assert_int_equal(gp_trainer_run(trainer, another, &options, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "the data has 74 tokens for training and 0 for validation, but");
    ok(gp_trainer_run(trainer, dataset, &options, NULL));
    gp_trainer_destroy(trainer);

    gp_pipeline_options seeded = {.batch = RUN_BATCH, .micro_batches = 2, .seed = 4, .balance = GP_BALANCE_PARAMETERS};
    ok(gp_trainer_create(&trainer, model, &seeded, &adamw, 8));
    assert_int_equal(gp_trainer_resume(trainer, run), GP_INVALID);
    assert_message_has(gp_error_message(), "seed 3, but this training has 4");
    gp_trainer_destroy(trainer);
    trainer = run_trainer(model, 1, NULL);
    assert_int_equal(gp_trainer_resume(trainer, run), GP_INVALID);
    assert_message_has(gp_error_message(), "without an optimizer");
    gp_trainer_destroy(trainer);
    trainer = run_trainer(model, 1, &adamw);
    char *empty = run_folder(*state, "empty");
    assert_int_equal(gp_trainer_resume(trainer, empty), GP_INVALID);
    assert_message_has(gp_error_message(), "empty/state.json");
    gp_trainer_destroy(trainer);
    free(empty);
    free(run);
    gp_dataset_destroy(another);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* ---- damage ---- */

static int warnings;
static char first_warning[600];

static void count_warnings(void *user, gp_log_level level, const char *message) {
    (void)user;
    if (level == GP_LOG_WARNING && warnings++ == 0) snprintf(first_warning, sizeof first_warning, "%s", message);
}

static void change_byte(const char *run, int64_t step, const char *name, long from_end) {
    char folder[600], path[700];
    snprintf(path, sizeof path, "%s/%s", run_step(run, step, folder), name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, -from_end, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 8, file);
    fclose(file);
}

static void a_damaged_checkpoint_is_passed_over(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    char *run = run_folder(*state, "run"), folder[600];
    gp_trainer *trainer = run_trainer(model, 2, &adamw);
    gp_run_options options = run_options(run, 9);
    options.keep = 9;
    ok(gp_trainer_run(trainer, dataset, &options, NULL));
    gp_trainer_destroy(trainer);
    change_byte(run, 9, "model.safetensors", 40); /* of the last tensor */
    change_byte(run, 8, "state.json", 40);
    trainer = run_trainer(model, 2, &adamw);
    warnings = 0;
    gp_log_set(count_warnings, NULL, GP_LOG_WARNING);
    ok(gp_trainer_resume(trainer, run));
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    assert_int_equal(gp_trainer_step_count(trainer), 6);
    assert_int_equal(warnings, 2);
    assert_message_has(first_warning, "step-9: tensor ");
    assert_int_equal(gp_trainer_resume(trainer, run_step(run, 9, folder)), GP_INVALID); /* asked for by name */
    gp_trainer_destroy(trainer);
    free(run);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* ---- what is kept ---- */

static void assert_kept(const char *run, const char *expected) {
    char text[200] = "";
    for (int64_t step = 0; step <= 40; step++)
        if (run_has(run, step)) snprintf(text + strlen(text), sizeof text - strlen(text), " %lld", (long long)step);
    assert_string_equal(text, expected);
}

static void what_is_kept(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    char *run = run_folder(*state, "run");
    gp_trainer *trainer = run_trainer(model, 2, &adamw);
    gp_run_options options = run_options(run, 20);
    options.eval_every = 0;
    options.checkpoint_every = 2;
    options.keep = 3;
    options.keep_every = 5;
    options.forget_best = true;
    ok(gp_trainer_run(trainer, dataset, &options, NULL));
    assert_kept(run, " 10 16 18 20");
    options.steps = 22;
    options.keep = 1;
    options.keep_every = 0;
    ok(gp_trainer_run(trainer, dataset, &options, NULL));
    assert_kept(run, " 22");
    gp_trainer_destroy(trainer);
    free(run);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* The state says which was the best; it stays when it is no longer among the newest, and after a resume. */
static void the_best_stays(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options wild = {
        .kind = GP_OPTIMIZER_SGD, .lr = 0.5, .schedule = {.kind = GP_LR_CONSTANT, .warmup = 40}};
    char *run = run_folder(*state, "run"), folder[600], link[64] = "";
    gp_checkpoint_state found;
    for (int64_t steps = 16; steps <= 32; steps += 16) {
        gp_trainer *trainer = run_trainer(model, 2, &wild);
        gp_run_options options = run_options(run, steps);
        options.keep = 1;
        if (steps > 16) ok(gp_trainer_resume(trainer, run));
        ok(gp_trainer_run(trainer, dataset, &options, NULL));
        gp_trainer_destroy(trainer);
        ok(gp_checkpoint_read_state(run_step(run, steps, folder), &found));
        assert_true(found.best_step > 0 && found.best_step % 4 == 0 && run_has(run, found.best_step));
        assert_int_equal(found.step, steps);
        assert_int_equal(found.samples, steps * RUN_BATCH);
        snprintf(folder, sizeof folder, "%s/checkpoints/best", run);
        ssize_t length = readlink(folder, link, sizeof link - 1);
        assert_true(length > 5);
        assert_int_equal(strtoll(link + 5, NULL, 10), found.best_step);
        assert_true(last_validation(run, found.best_step) - found.best < 1e-6);
    }
    free(run);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* ---- without runs ---- */

static void a_trainer_saves_and_resumes_by_itself(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = optimizers[3].options;
    gp_trainer *one = run_trainer(model, 1, &adamw), *two = run_trainer(model, 2, &adamw);
    char *run = run_folder(*state, "mine");
    gp_step_metrics metrics[2];
    gp_batch batch;
    ok(gp_batch_create(&batch, dataset, RUN_BATCH));
    for (int step = 0; step < 6; step++) {
        ok(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 0, RUN_BATCH, &batch));
        ok(gp_trainer_step(one, &batch.inputs, &batch.targets, NULL, &metrics[0]));
        if (step == 2) {
            ok(gp_trainer_save_checkpoint(one, run));
            ok(gp_trainer_resume(two, run));
        }
        if (step > 2) {
            ok(gp_trainer_step(two, &batch.inputs, &batch.targets, NULL, &metrics[1]));
            assert_true(metrics[0].loss == metrics[1].loss && metrics[0].gradient_norm == metrics[1].gradient_norm);
            assert_int_equal(metrics[1].step, step + 1);
        }
    }
    gp_batch_destroy(&batch);
    gp_trainer_destroy(one);
    gp_trainer_destroy(two);
    free(run);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, run_clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(ten_and_ten_are_twenty),
        TEST(metrics_have_each_step_once),
        TEST(an_interrupted_evaluation_is_made_up_for),
        TEST(what_differs_is_refused),
        TEST(a_damaged_checkpoint_is_passed_over),
        TEST(what_is_kept),
        TEST(the_best_stays),
        TEST(a_trainer_saves_and_resumes_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
