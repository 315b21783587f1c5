/* What an engine keeps, saved and loaded: training goes on with the same bits, for every optimizer, on another cut,
 * schedule, number of replicas; in the background while steps run; and a save that fails is no failure of the
 * engine. */
#include "support.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/state.h"
#include "pipeline/save.h"
#include "temporary.h"

/* ---- training ---- */

enum { SAMPLES = 6, HALF = 3 };

static gp_step_options step_of(const gp_engine_options *options, uint32_t step) {
    gp_step_options made = test_step_options(step, 1.0);
    made.update.kind = options->optimizer;
    made.update.momentum = options->momentum;
    made.update.epsilon_inside = true;
    made.average_decay = 0.75;
    return made;
}

static void train(gp_engine *engine, const gp_engine_options *options, int first, int end) {
    for (int s = first; s < end; s++) {
        gp_batch batch;
        gp_step_result result;
        gp_step_options step = step_of(options, (uint32_t)s);
        test_batch_create(&batch, options->model, SAMPLES, (uint64_t)s);
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        assert_true(result.finite);
        test_batch_destroy(&batch);
    }
}

static gp_engine *create(const gp_engine_options *options) {
    gp_engine *engine;
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    return engine;
}

/* ---- saving as a run does ---- */

typedef struct saver {
    char checkpoints[300];
    int64_t step;
    gp_files files;
    char *folder;
    gp_status prepares, commits; /* GP_OK, or how they fail */
    void (*while_committing)(void);
} saver;

static gp_status prepare(void *user) {
    saver *s = user;
    char *folder;
    if (s->prepares != GP_OK) return gp_error(s->prepares, "the folder was told to fail");
    GP_TRY(gp_catalog_begin(s->checkpoints, s->step, s->files.bytes, &folder));
    assert_string_equal(folder, s->folder);
    gp_free(folder);
    return GP_OK;
}

static gp_status commit(void *user, gp_files_piece *pieces, size_t count) {
    saver *s = user;
    gp_checkpoint_state state = {.step = s->step, .best_step = -1};
    if (s->while_committing) s->while_committing();
    if (s->commits != GP_OK) return gp_error(s->commits, "the commit was told to fail");
    GP_TRY(gp_files_write_indices(&s->files, s->folder));
    GP_TRY(gp_state_write(s->folder, &state, &s->files, pieces, count));
    return gp_catalog_commit(s->checkpoints, s->step, s->folder);
}

static void saver_create(saver *s, temporary *t, const gp_engine *engine, int64_t step, uint64_t shard_bytes) {
    size_t count;
    const gp_files_tensor *tensors = gp_engine_kept(engine, &count);
    *s = (saver){.step = step};
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s/checkpoints", t->folder);
    assert_ok(gp_files_create(&s->files, tensors, count, shard_bytes));
    s->folder = gp_format_text("%s/.step-%lld.new", s->checkpoints, (long long)step);
}

static void saver_destroy(saver *s) {
    gp_files_destroy(&s->files);
    gp_free(s->folder);
}

static gp_save_options options_of(saver *s, bool background) {
    return (gp_save_options){.files = &s->files,
                             .folder = s->folder,
                             .background = background,
                             .prepare = prepare,
                             .commit = commit,
                             .user = s};
}

static void save(temporary *t, gp_engine *engine, int64_t step) {
    saver s;
    gp_save_result result;
    saver_create(&s, t, engine, step, 0);
    gp_save_options options = options_of(&s, false);
    assert_ok(gp_engine_save(engine, &options));
    assert_ok(gp_engine_save_poll(engine, true, &result));
    if (result.state != GP_SAVE_DONE) fail_msg("the save failed: %s", result.message);
    saver_destroy(&s);
}

static void load(temporary *t, gp_engine *engine, int64_t step) {
    char folder[400];
    gp_checkpoint *checkpoint;
    snprintf(folder, sizeof folder, "%s/checkpoints/step-%lld", t->folder, (long long)step);
    assert_ok(gp_checkpoint_open(&checkpoint, folder));
    assert_ok(gp_engine_load(engine, checkpoint));
    gp_checkpoint_close(checkpoint);
}

static int clean(void **state) {
    temporary *t = *state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s/checkpoints'", t->folder);
    if (system(command) != 0) return -1;
    return temporary_destroy(state);
}

/* ---- the same bits ---- */

/* Trains HALF steps with `first`, saves, loads into a fresh engine of `second`, trains the other half; the weights are
 * those of an engine that did both. */
static void assert_continues(temporary *t, const gp_engine_options *first, const gp_engine_options *second,
                             const char *what) {
    size_t count;
    gp_engine *one = create(first), *other = create(second);
    train(one, first, 0, HALF);
    save(t, one, HALF);
    train(one, first, HALF, 2 * HALF);
    load(t, other, HALF);
    train(other, second, HALF, 2 * HALF);
    float *expected = test_read_all(one, first->model, false, &count);
    float *found = test_read_all(other, second->model, false, &count);
    test_assert_same(expected, found, count, what);
    gp_free(expected);
    gp_free(found);
    if (first->average) {
        assert_ok(gp_engine_show_averages(one, true));
        assert_ok(gp_engine_show_averages(other, true));
        expected = test_read_all(one, first->model, false, &count);
        found = test_read_all(other, second->model, false, &count);
        test_assert_same(expected, found, count, what);
        gp_free(expected);
        gp_free(found);
    }
    gp_engine_destroy(one);
    gp_engine_destroy(other);
}

static void every_optimizer_goes_on(void **state) {
    static const struct {
        gp_update_kind kind;
        double momentum;
        bool average;
        const char *name;
    } optimizers[] = {{GP_UPDATE_SGD, 0, false, "sgd"},
                      {GP_UPDATE_SGD, 0, true, "sgd with averages"},
                      {GP_UPDATE_SGD, 0.9, false, "sgd with momentum"},
                      {GP_UPDATE_ADAM, 0, false, "adam"},
                      {GP_UPDATE_ADAMW, 0, true, "adamw with averages"},
                      {GP_UPDATE_RMSPROP, 0, false, "rmsprop"},
                      {GP_UPDATE_RMSPROP, 0.9, true, "rmsprop with momentum and averages"}};
    gp_model *model = test_gpt(2, 0.2, false);
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        gp_engine_options first = test_options(model, 2, SAMPLES, 3);
        first.optimizer = optimizers[i].kind;
        first.momentum = optimizers[i].momentum;
        first.average = optimizers[i].average;
        gp_engine_options second = first;
        second.stages = 3;
        assert_continues(*state, &first, &second, optimizers[i].name);
    }
    gp_model_destroy(model);
}

static void every_model_goes_on_elsewhere(void **state) {
    gp_model *models[] = {test_gpt(2, 0.2, false), test_shared(5, 4), test_skips(5, 4, (int[]){3, -1}),
                          test_images(2, 0.3)};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        gp_engine_options first = test_options(models[m], 3, SAMPLES, 3), second = first;
        if (gp_model_states(models[m]) > 0) first.device.type = GP_DEVICE_REFERENCE;
        second.device = first.device;
        second.stages = 2;
        second.schedule = GP_SCHEDULE_1F1B;
        second.recompute = GP_RECOMPUTE_ALWAYS;
        second.granularity = GP_GRANULARITY_LAYER;
        assert_continues(*state, &first, &second, "another cut, schedule and recomputation");
        gp_model_destroy(models[m]);
    }
}

/* The reference device computes in double precision: its files hold doubles. */
static void no_device_loses_bits(void **state) {
    gp_model *model = test_gpt(1, 0.2, false);
    gp_engine_options options = test_options(model, 2, SAMPLES, 2);
    options.device.type = GP_DEVICE_REFERENCE;
    assert_continues(*state, &options, &options, "reference device");
    options.device.type = GP_DEVICE_CPU;
    options.precision = GP_BF16;
    assert_continues(*state, &options, &options, "bf16");
    gp_model_destroy(model);
}

/* Optimizer state in pieces, one for each replica; read by one, by other numbers of replicas, and whole. */
static void replicas_write_their_pieces(void **state) {
    gp_model *models[] = {test_wide_gpt(2), test_images(2, 0.3)};
    static const struct {
        int first, second;
        bool shard_first, shard_second;
    } cases[] = {{2, 2, true, true}, {2, 2, true, false}, {2, 2, false, true}, {3, 3, true, false}};
    for (size_t m = 0; m < 2; m++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            gp_engine_options first = test_options(models[m], 2, SAMPLES, 1), second;
            if (gp_model_states(models[m]) > 0) first.device.type = GP_DEVICE_REFERENCE;
            second = first;
            first.replicas = cases[c].first;
            first.shard_optimizer = cases[c].shard_first;
            second.replicas = cases[c].second;
            second.shard_optimizer = cases[c].shard_second;
            second.stages = 3;
            assert_continues(*state, &first, &second, "replicas");
        }
    for (size_t m = 0; m < 2; m++)
        gp_model_destroy(models[m]);
}

static char *read_file(temporary *t, int64_t step, const char *name, size_t *bytes) {
    char path[500];
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld/%s", t->folder, (long long)step, name);
    return temporary_read(path, bytes);
}

/* Nothing in the files says who wrote them. */
static void the_cut_does_not_show_in_files(void **state) {
    gp_model *model = test_gpt(3, 0.2, false);
    for (size_t stages = 1; stages <= 4; stages++) {
        gp_engine_options options = test_options(model, stages, SAMPLES, 3);
        gp_engine *engine = create(&options);
        train(engine, &options, 0, 2);
        save(*state, engine, (int64_t)stages);
        gp_engine_destroy(engine);
        static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
        for (size_t i = 0; i < 2; i++) {
            size_t bytes, others;
            char *one = read_file(*state, 1, names[i], &bytes);
            char *other = read_file(*state, (int64_t)stages, names[i], &others);
            assert_int_equal(bytes, others);
            assert_memory_equal(one, other, bytes);
            free(one);
            free(other);
        }
    }
    gp_model_destroy(model);
}

/* ---- in the background ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_commit;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void wait_at_gate(void) {
    pthread_mutex_lock(&gate.lock);
    while (!gate.may_commit)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void open_gate(bool open) {
    pthread_mutex_lock(&gate.lock);
    gate.may_commit = open;
    pthread_cond_signal(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

/* Steps run while the save is held back before its end; what comes out is the state at its beginning. */
static void steps_go_on_meanwhile(void **state) {
    gp_model *model = test_gpt(2, 0.2, false);
    gp_engine_options options = test_options(model, 3, SAMPLES, 3);
    options.snapshot = true;
    gp_engine *engine = create(&options), *other = create(&options);
    gp_save_result result;
    size_t count;
    saver s;
    for (size_t w = 0; w < 3; w++) {
        const gp_worker_bytes *bytes = &gp_engine_planned(engine)->worker[w].bytes;
        assert_true(bytes->snapshot > 0);
        assert_int_equal(bytes->total, gp_engine_high_water(engine, w));
    }
    train(engine, &options, 0, HALF);
    float *then = test_read_all(engine, model, false, &count);
    saver_create(&s, *state, engine, HALF, 1000);
    s.while_committing = wait_at_gate;
    gp_save_options save_options = options_of(&s, true);
    open_gate(false);
    assert_ok(gp_engine_save(engine, &save_options));
    for (int i = 0; i < 4; i++) {
        train(engine, &options, HALF + i, HALF + i + 1);
        assert_ok(gp_engine_save_poll(engine, false, &result));
        assert_true(result.state == GP_SAVE_WRITING || result.state == GP_SAVE_COMMITTING);
    }
    assert_int_equal(gp_engine_save(engine, &save_options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "still being written"));
    open_gate(true);
    assert_ok(gp_engine_save_poll(engine, true, &result));
    assert_int_equal(result.state, GP_SAVE_DONE);
    load(*state, other, HALF);
    float *loaded = test_read_all(other, model, false, &count);
    test_assert_same(then, loaded, count, "weights at the beginning of the save");
    train(other, &options, HALF, HALF + 4);
    float *expected = test_read_all(engine, model, false, &count), *found = test_read_all(other, model, false, &count);
    test_assert_same(expected, found, count, "weights after the steps meanwhile");
    float *all[] = {then, loaded, expected, found};
    for (size_t i = 0; i < 4; i++)
        gp_free(all[i]);
    saver_destroy(&s);
    gp_engine_destroy(engine);
    gp_engine_destroy(other);
    gp_model_destroy(model);
}

static void an_engine_may_end_while_it_saves(void **state) {
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 2, SAMPLES, 2);
    options.snapshot = true;
    for (int i = 0; i < 10; i++) {
        gp_engine *engine = create(&options);
        saver s;
        saver_create(&s, *state, engine, 1, 0);
        gp_save_options save_options = options_of(&s, true);
        assert_ok(gp_engine_save(engine, &save_options));
        gp_engine_destroy(engine);
        saver_destroy(&s);
    }
    gp_model_destroy(model);
}

/* ---- failures ---- */

static void assert_save_fails(temporary *t, gp_engine *engine, saver *s, bool background, const char *message) {
    gp_save_result result;
    gp_save_options options = options_of(s, background);
    (void)t;
    assert_ok(gp_engine_save(engine, &options));
    assert_ok(gp_engine_save_poll(engine, true, &result));
    assert_int_equal(result.state, GP_SAVE_FAILED);
    assert_int_equal(result.status, GP_IO);
    assert_message_has(result.message, message);
}

/* Of the folder, of a worker (its file is a folder), of the commit; training goes on, and so does a later save. */
static void a_failed_save_is_no_failed_training(void **state) {
    temporary *t = *state;
    gp_model *model = test_gpt(2, 0.2, false);
    gp_engine_options options = test_options(model, 3, SAMPLES, 3);
    options.snapshot = true;
    gp_engine *engine = create(&options), *undisturbed = create(&options);
    size_t count;
    saver s;
    saver_create(&s, t, engine, 1, 0);
    for (int background = 0; background < 2; background++) {
        s.prepares = GP_IO;
        assert_save_fails(t, engine, &s, background, "the folder was told to fail");
        s.prepares = GP_OK;
        s.commits = GP_IO;
        assert_save_fails(t, engine, &s, background, "the commit was told to fail");
        s.commits = GP_OK;
        char *real = s.folder;
        s.folder = gp_format_text("%s/nowhere", t->folder);
        gp_save_options save_options = options_of(&s, background);
        save_options.prepare = NULL;
        gp_save_result result;
        assert_ok(gp_engine_save(engine, &save_options));
        assert_ok(gp_engine_save_poll(engine, true, &result));
        assert_int_equal(result.state, GP_SAVE_FAILED);
        assert_message_has(result.message, "could not be created");
        gp_free(s.folder);
        s.folder = real;
    }
    train(engine, &options, 0, HALF);
    train(undisturbed, &options, 0, HALF);
    float *found = test_read_all(engine, model, false, &count);
    float *expected = test_read_all(undisturbed, model, false, &count);
    test_assert_same(expected, found, count, "weights after failed saves");
    save(t, engine, HALF);
    load(t, undisturbed, HALF);
    gp_free(found);
    gp_free(expected);
    saver_destroy(&s);
    gp_engine_destroy(engine);
    gp_engine_destroy(undisturbed);
    gp_model_destroy(model);
}

static void change_byte(temporary *t, int64_t step, const char *name) {
    char path[500];
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld/%s", t->folder, (long long)step, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, -3, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
    fclose(file);
}

static gp_status try_load(temporary *t, gp_engine *engine, int64_t step) {
    char folder[400];
    gp_checkpoint *checkpoint;
    snprintf(folder, sizeof folder, "%s/checkpoints/step-%lld", t->folder, (long long)step);
    GP_TRY(gp_checkpoint_open(&checkpoint, folder));
    gp_status status = gp_engine_load(engine, checkpoint);
    gp_checkpoint_close(checkpoint);
    return status;
}

static void what_does_not_fit_is_refused(void **state) {
    temporary *t = *state;
    gp_model *model = test_gpt(2, 0, false), *larger = test_gpt(3, 0, false), *wide = test_wide_gpt(2);
    gp_engine_options options = test_options(model, 2, SAMPLES, 2), sgd = options;
    gp_engine_options options_larger = test_options(larger, 2, SAMPLES, 2);
    gp_engine_options options_wide = test_options(wide, 2, SAMPLES, 2);
    sgd.optimizer = GP_UPDATE_SGD;
    sgd.momentum = 0.9;
    gp_engine *engine = create(&options), *more = create(&options_larger), *wider = create(&options_wide);
    gp_engine *other = create(&sgd);
    train(engine, &options, 0, 1);
    save(t, engine, 1);
    train(engine, &options, 1, 2);
    save(t, engine, 2);
    assert_int_equal(try_load(t, more, 1), GP_INVALID);
    assert_message_has(gp_error_message(), "there is no tensor layers.3.");
    assert_int_equal(try_load(t, wider, 1), GP_INVALID);
    assert_message_has(gp_error_message(), "but the model needs f32[96,64]");
    assert_int_equal(try_load(t, other, 1), GP_INVALID);
    assert_message_has(gp_error_message(), ".momentum in its optimizer.safetensors");
    change_byte(t, 2, "optimizer.safetensors");
    assert_int_equal(try_load(t, engine, 2), GP_INVALID);
    assert_message_has(gp_error_message(), "is damaged: its checksum is another one");
    assert_ok(try_load(t, engine, 1)); /* the engine lives */
    train(engine, &options, 1, 2);
    gp_engine *engines[] = {engine, more, wider, other};
    for (size_t i = 0; i < 4; i++)
        gp_engine_destroy(engines[i]);
    gp_model *models[] = {model, larger, wide};
    for (size_t i = 0; i < 3; i++)
        gp_model_destroy(models[i]);
}

static void memory_for_the_copy_is_planned(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    gp_engine_options options = test_options(model, 2, SAMPLES, 2);
    gp_engine_plan plan, with;
    assert_ok(gp_engine_plan_create(&plan, &options));
    options.snapshot = true;
    assert_ok(gp_engine_plan_create(&with, &options));
    size_t weights = 0, kept = 0;
    for (size_t w = 0; w < 2; w++) {
        assert_int_equal(with.worker[w].bytes.total, plan.worker[w].bytes.total + with.worker[w].bytes.snapshot);
        weights += (size_t)plan.worker[w].parameters * sizeof(float);
        kept += with.worker[w].bytes.snapshot;
    }
    assert_true(kept < 3 * weights + 4096); /* weights and two moments, a tied one once */
    size_t largest = 0;
    for (size_t w = 0; w < 2; w++)
        if (with.worker[w].bytes.total > largest) largest = with.worker[w].bytes.total;
    gp_engine *engine;
    options.device.memory = largest - 1;
    assert_int_equal(gp_engine_create(&engine, &options), GP_DOES_NOT_FIT);
    options.device.memory = largest;
    assert_ok(gp_engine_create(&engine, &options));
    gp_engine_destroy(engine);
    gp_engine_plan_destroy(&plan);
    gp_engine_plan_destroy(&with);
    gp_model_destroy(model);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_optimizer_goes_on),
        TEST(every_model_goes_on_elsewhere),
        TEST(no_device_loses_bits),
        TEST(replicas_write_their_pieces),
        TEST(the_cut_does_not_show_in_files),
        TEST(steps_go_on_meanwhile),
        TEST(an_engine_may_end_while_it_saves),
        TEST(a_failed_save_is_no_failed_training),
        TEST(what_does_not_fit_is_refused),
        TEST(memory_for_the_copy_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
