/* A disk that fails under a run: short writes, no room, errors of the device, at one call or from one call on. The
 * functions of the system are interposed by those of this program. Never is the newest checkpoint damaged, never is a
 * failure silent, and the run can go on with the same bits. */
#include "run_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

/* ---- the failing system ---- */

typedef enum call_kind { CALL_PWRITE, CALL_WRITE, CALL_FSYNC, CALL_RENAME, CALL_MKDIR, CALL_KINDS } call_kind;

static struct {
    atomic_bool armed;
    call_kind kind;
    int number; /* of the error; 0: the call does only half of its work */
    int at;     /* which call fails, from 1 */
    bool for_ever;
    atomic_int calls;
} fault;

static bool fails(call_kind kind) {
    if (!atomic_load(&fault.armed) || kind != fault.kind) return false;
    int call = atomic_fetch_add(&fault.calls, 1) + 1;
    return fault.for_ever ? call >= fault.at : call == fault.at;
}

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
    ssize_t (*function)(int, const void *, size_t, off_t);
    *(void **)&function = real("pwrite");
    if (!fails(CALL_PWRITE)) return function(descriptor, data, bytes, offset);
    errno = fault.number;
    return fault.number ? -1 : function(descriptor, data, bytes > 1 ? bytes / 2 : bytes, offset);
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
    ssize_t (*function)(int, const void *, size_t);
    *(void **)&function = real("write");
    if (!fails(CALL_WRITE)) return function(descriptor, data, bytes);
    errno = fault.number;
    return fault.number ? -1 : function(descriptor, data, bytes > 1 ? bytes / 2 : bytes);
}

int fsync(int descriptor) {
    int (*function)(int);
    *(void **)&function = real("fsync");
    if (!fails(CALL_FSYNC)) return function(descriptor);
    errno = fault.number;
    return -1;
}

/* A folder that is removed loses its name first; where that fails, it is removed all the same. */
static bool is_for_removal(const char *from, const char *to) {
    return strstr(from, ".old") || strstr(to, ".old");
}

int rename(const char *from, const char *to) {
    int (*function)(const char *, const char *);
    *(void **)&function = real("rename");
    if (is_for_removal(from, to) || !fails(CALL_RENAME)) return function(from, to);
    errno = fault.number;
    return -1;
}

int mkdir(const char *path, mode_t mode) {
    int (*function)(const char *, mode_t);
    *(void **)&function = real("mkdir");
    if (!fails(CALL_MKDIR)) return function(path, mode);
    errno = fault.number;
    return -1;
}

/* ---- runs on it ---- */

enum { STEPS = 4 };

static atomic_int warnings, warnings_of_step_4;

static void count_warnings(void *user, gp_log_level level, const char *message) {
    (void)user;
    if (level != GP_LOG_WARNING || !strstr(message, "NOT written")) return;
    atomic_fetch_add(&warnings, 1);
    if (strstr(message, "the newest is step-4")) atomic_fetch_add(&warnings_of_step_4, 1);
}

static gp_status train(const gp_dataset *dataset, const gp_model *model, const char *out, bool resume) {
    gp_optimizer_options adamw = {.lr = 0.01, .weight_decay = 0.1};
    gp_trainer *trainer = run_trainer(model, 2, &adamw);
    gp_run_options options = run_options(out, STEPS);
    options.checkpoint_every = 1;
    options.eval_every = 0;
    if (resume) ok(gp_trainer_resume(trainer, out));
    gp_status status = gp_trainer_run(trainer, dataset, &options, NULL);
    gp_trainer_destroy(trainer);
    return status;
}

static void assert_nothing_is_lost(const gp_dataset *dataset, const gp_model *model, const char *reference,
                                   const char *out, gp_status status, bool benign) {
    char folder[700], step_folder[600];
    int64_t newest;
    ok(gp_checkpoint_find_newest(out, &newest, folder, sizeof folder));
    if (newest >= 0) ok(gp_checkpoint_verify(folder, NULL, NULL));
    assert_int_equal(newest, gp_checkpoint_before(out, INT64_MAX)); /* no folder that is not whole */
    if (status == GP_OK) {
        assert_int_equal(newest, STEPS);
    } else {
        assert_int_equal(status, GP_IO);
        assert_message_has(gp_error_message(), "step");
    }
    if (!benign && status == GP_OK) assert_true(atomic_load(&warnings) > 0);
    if (status != GP_OK) ok(train(dataset, model, out, newest >= 0));
    ok(gp_checkpoint_verify(run_step(out, STEPS, step_folder), NULL, NULL));
    run_assert_same(reference, out, STEPS, true);
}

/* Returns whether the fault came to pass. */
static bool try_fault(temporary *t, const gp_dataset *dataset, const gp_model *model, const char *reference,
                      call_kind kind, int number, int at, bool for_ever) {
    char command[600];
    char *out = run_folder(t, "out");
    fault.kind = kind;
    fault.number = number;
    fault.at = at;
    fault.for_ever = for_ever;
    atomic_store(&fault.calls, 0);
    atomic_store(&warnings, 0);
    gp_log_set(count_warnings, NULL, GP_LOG_WARNING);
    atomic_store(&fault.armed, true);
    gp_status status = train(dataset, model, out, false);
    atomic_store(&fault.armed, false);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    bool happened = atomic_load(&fault.calls) >= at;
    /* The first folder of all is the run's own, and what is not a checkpoint's may fail as such. */
    bool whole = run_has(out, 1) || run_has(out, STEPS) || happened;
    assert_true(whole);
    assert_nothing_is_lost(dataset, model, reference, out, status, !happened || number == 0);
    snprintf(command, sizeof command, "rm -rf '%s'", out);
    assert_int_equal(system(command), 0);
    free(out);
    return happened;
}

static void no_fault_loses_anything(void **state) {
    static const struct {
        call_kind kind;
        int number;
        bool for_ever;
    } faults[] = {{CALL_PWRITE, ENOSPC, false}, {CALL_PWRITE, ENOSPC, true}, {CALL_PWRITE, EIO, false},
                  {CALL_PWRITE, 0, true},       {CALL_WRITE, ENOSPC, false}, {CALL_WRITE, 0, true},
                  {CALL_FSYNC, EIO, false},     {CALL_FSYNC, EIO, true},     {CALL_RENAME, EIO, false},
                  {CALL_RENAME, EIO, true},     {CALL_MKDIR, ENOSPC, false}};
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    char *reference = run_folder(*state, "reference");
    ok(train(dataset, model, reference, false));
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        int tried = 0;
        int first = faults[f].kind == CALL_MKDIR ? 2 : 1; /* the first one makes checkpoints/ itself */
        for (int at = first; tried < 9; at += 1 + at / 2, tried++)
            if (!try_fault(*state, dataset, model, reference, faults[f].kind, faults[f].number, at, faults[f].for_ever))
                break;
        assert_true(tried > 0);
    }
    free(reference);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

static void a_resumed_run_knows_what_is_there(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    char *out = run_folder(*state, "resumed");
    gp_optimizer_options adamw = {.lr = 0.01};
    gp_run_options options = run_options(out, STEPS + 2);
    options.checkpoint_every = 1;
    ok(train(dataset, model, out, false));
    gp_trainer *trainer = run_trainer(model, 2, &adamw);
    ok(gp_trainer_resume(trainer, out));
    fault.kind = CALL_PWRITE;
    fault.number = ENOSPC;
    fault.at = 1;
    fault.for_ever = true;
    atomic_store(&fault.calls, 0);
    gp_log_set(count_warnings, NULL, GP_LOG_WARNING);
    atomic_store(&fault.armed, true);
    gp_status status = gp_trainer_run(trainer, dataset, &options, NULL);
    atomic_store(&fault.armed, false);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    assert_int_equal(status, GP_IO);
    assert_true(atomic_load(&warnings_of_step_4) > 0);
    gp_trainer_destroy(trainer);
    free(out);
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

/* The steps in metrics.jsonl, each in a whole line. */
static void assert_metrics(const char *out, const char *expected) {
    char path[600], line[2000], steps[100] = "";
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        long long step = -1;
        assert_int_equal(sscanf(line, "{\"step\":%lld,", &step), 1);
        assert_non_null(strstr(line, "}\n"));
        snprintf(steps + strlen(steps), sizeof steps - strlen(steps), "%lld ", step);
    }
    fclose(file);
    assert_string_equal(steps, expected);
}

/* Training is worth more than what is written about it: the steps go on, and so do the lines when there is room. */
static void a_full_disk_does_not_end_training(void **state) {
    gp_dataset *dataset = run_dataset(*state);
    gp_model *model = run_model(dataset);
    gp_optimizer_options adamw = {.lr = 0.01};
    for (int lasting = 0; lasting < 2; lasting++) {
        char *out = run_folder(*state, lasting ? "full" : "full-once");
        gp_trainer *trainer = run_trainer(model, 2, &adamw);
        gp_run_options options = run_options(out, STEPS);
        options.checkpoint_every = 0;
        options.eval_every = 0;
        fault.kind = CALL_PWRITE;
        fault.number = ENOSPC;
        fault.at = 2;
        fault.for_ever = lasting;
        atomic_store(&fault.calls, 0);
        atomic_store(&warnings, 0);
        gp_log_set(count_warnings, NULL, GP_LOG_WARNING);
        atomic_store(&fault.armed, true);
        gp_status status = gp_trainer_run(trainer, dataset, &options, NULL);
        atomic_store(&fault.armed, false);
        gp_log_set(NULL, NULL, GP_LOG_ERROR);
        assert_int_equal(gp_trainer_step_count(trainer), STEPS);
        assert_int_equal(status, lasting ? GP_IO : GP_OK); /* the last checkpoint */
        assert_int_equal(atomic_load(&warnings), 1);
        assert_metrics(out, lasting ? "1 " : "1 3 4 ");
        gp_trainer_destroy(trainer);
        free(out);
    }
    gp_model_destroy(model);
    gp_dataset_destroy(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_resumed_run_knows_what_is_there, temporary_create, run_clean),
        cmocka_unit_test_setup_teardown(a_full_disk_does_not_end_training, temporary_create, run_clean),
        cmocka_unit_test_setup_teardown(no_fault_loses_anything, temporary_create, run_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
