/* What tests of whole runs share: a text, a small model, trainers, run directories and what is in them. */
#ifndef GP_TESTS_TRAIN_RUN_SUPPORT_H
#define GP_TESTS_TRAIN_RUN_SUPPORT_H

#include "temporary.h"

#include <math.h>
#include <sys/stat.h>

#include "gpipe/gpipe.h"

enum { RUN_BATCH = 4, RUN_CONTEXT = 8 };

static inline void run_assert_ok(gp_status status, const char *what) {
    if (status != GP_OK) fail_msg("%s: %s: %s", what, gp_status_text(status), gp_error_message());
}
#define ok(call) run_assert_ok((call), #call)

static inline gp_dataset *run_dataset(temporary *t) {
    char text[3000] = "";
    gp_dataset *dataset;
    for (int i = 0; i < 80; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "the cat number %03d sat there.\n", i * 37 % 211);
    gp_text_options options = {.text = temporary_write_text(t, "corpus.txt", text),
                               .tokenizer_kind = GP_TOKENIZER_CHAR,
                               .validation = 0.2,
                               .context = RUN_CONTEXT,
                               .batch = RUN_BATCH};
    ok(gp_dataset_create_text(&dataset, &options));
    return dataset;
}

static inline gp_model *run_model(const gp_dataset *dataset) {
    gp_gpt2_options options = {.layers = 2,
                               .heads = 2,
                               .width = 16,
                               .context = RUN_CONTEXT,
                               .dropout = 0.1,
                               .vocabulary = gp_tokenizer_vocabulary(gp_dataset_tokenizer(dataset))};
    gp_model *model;
    ok(gp_model_create_gpt2(&model, &options));
    return model;
}

static inline gp_trainer *run_trainer(const gp_model *model, int partitions, const gp_optimizer_options *optimizer) {
    gp_pipeline_options pipeline = {.partitions = partitions,
                                    .micro_batches = 2,
                                    .batch = RUN_BATCH,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .schedule = partitions % 2 ? GP_SCHEDULE_GPIPE : GP_SCHEDULE_1F1B,
                                    .snapshot = true,
                                    .seed = 3};
    gp_trainer *trainer;
    ok(gp_trainer_create(&trainer, model, &pipeline, optimizer, 20));
    return trainer;
}

/* A new run directory inside the temporary folder; the caller frees the path. */
static inline char *run_folder(temporary *t, const char *name) {
    char *path = strdup(temporary_path(t, name));
    assert_non_null(path);
    mkdir(path, 0777);
    return path;
}

static inline gp_run_options run_options(const char *out, int64_t steps) {
    return (gp_run_options){.steps = steps, .eval_every = 4, .out = out, .checkpoint_every = 3, .keep = 2, .seed = 3};
}

/* step-N of a run. */
static inline const char *run_step(const char *run, int64_t step, char path[600]) {
    snprintf(path, 600, "%s/checkpoints/step-%lld", run, (long long)step);
    return path;
}

static inline bool run_has(const char *run, int64_t step) {
    char path[600];
    return access(run_step(run, step, path), F_OK) == 0;
}

static inline void run_assert_same_file(const char *one, const char *other) {
    size_t bytes, others;
    char *left = temporary_read(one, &bytes), *right = temporary_read(other, &others);
    if (bytes != others || memcmp(left, right, bytes) != 0) fail_msg("%s and %s differ", one, other);
    free(left);
    free(right);
}

/* Weights and optimizer state of two checkpoints are the same bytes. */
static inline void run_assert_same(const char *one, const char *other, int64_t step, bool optimizer) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    char left[600], right[600], a[700], b[700];
    for (int i = 0; i < 1 + optimizer; i++) {
        snprintf(a, sizeof a, "%s/%s", run_step(one, step, left), names[i]);
        snprintf(b, sizeof b, "%s/%s", run_step(other, step, right), names[i]);
        run_assert_same_file(a, b);
    }
}

/* The lines of two metrics.jsonl are the same but for times, and so many. */
static inline void run_assert_same_metrics(const char *one, const char *other, int steps) {
    char path[600], line[2][2000];
    FILE *files[2];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/metrics.jsonl", i ? other : one);
        files[i] = fopen(path, "r");
        assert_non_null(files[i]);
    }
    while (fgets(line[0], sizeof line[0], files[0])) {
        if (!fgets(line[1], sizeof line[1], files[1])) fail_msg("%s lacks the line: %s", other, line[0]);
        for (int i = 0; i < 2; i++) {
            char *times = strstr(line[i], "\"seconds\""), *loss = strstr(line[i], ",\"val_loss\"");
            assert_non_null(times);
            size_t rest = loss ? strlen(loss) : 0;
            if (loss) memmove(times, loss, rest + 1);
            if (!loss) *times = '\0';
        }
        assert_string_equal(line[0], line[1]);
        count++;
    }
    assert_null(fgets(line[1], sizeof line[1], files[1]));
    assert_int_equal(count, steps);
    fclose(files[0]);
    fclose(files[1]);
}

static inline int run_clean(void **state) {
    temporary *t = *state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'/*/", t->folder);
    return system(command) == 0 ? temporary_destroy(state) : -1;
}

#endif
