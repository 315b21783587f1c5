/* Texts and options that must be refused, each with a sentence that says what was found. */
#include "temporary.h"

#include <sys/stat.h>

#include <math.h>

#include "base/memory.h"
#include "gpipe/data.h"

static void refuse(const gp_text_options *options, const char *message) {
    gp_dataset *dataset = (gp_dataset *)(uintptr_t)1;
    gp_status status = gp_dataset_create_text(&dataset, options);
    if (status != GP_INVALID) print_error("expected: %s\n", message);
    assert_int_equal(status, GP_INVALID);
    assert_null(dataset);
    assert_message_has(gp_error_message(), message);
}

static void test_files(void **state) {
    temporary *t = *state;
    for (int kind = 0; kind < 2; kind++) {
        gp_text_options options = {.tokenizer_kind = (gp_tokenizer_kind)kind, .validation = 0.1, .context = 4};
        refuse(NULL, "needs options");
        refuse(&options, "no text was given");
        options.text = "";
        refuse(&options, "no text was given");
        options.text = temporary_path(t, "missing.txt");
        refuse(&options, "missing.txt' could not be opened: No such file");
        options.text = temporary_path(t, "*.none");
        refuse(&options, "*.none' matches no file");
        options.text = t->folder;
        refuse(&options, "is a folder");
        options.text = temporary_write(t, "empty.txt", "", 0);
        refuse(&options, "empty.txt' is empty (1 file)");
        options.text = temporary_write(t, "binary", "ab\0cdefghijklmnopq", 18);
        refuse(&options, "binary' is a binary file, not text: it has a NUL byte at offset 2");
    }
    temporary_write(t, "empty2.txt", "", 0);
    refuse(&(gp_text_options){.text = temporary_path(t, "empty*.txt"), .context = 4}, "is empty (2 files)");
    char *pipe = strdup(temporary_path(t, "pipe"));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    refuse(&(gp_text_options){.text = pipe, .context = 4}, "not a regular file");
    free(pipe);
}

static void test_pattern_characters_in_a_name(void **state) {
    gp_dataset *dataset;
    const char *path = temporary_write_text(*state, "what[1]*.txt", "abcdefghij");
    assert_int_equal(gp_dataset_create_text(&dataset, &(gp_text_options){.text = path, .context = 4}), GP_OK);
    gp_dataset_destroy(dataset);
}

static void test_encodings(void **state) {
    temporary *t = *state;
    refuse(&(gp_text_options){.text = temporary_write_text(t, "latin.txt", "abc\xe9 is not UTF-8"), .context = 4},
           "latin.txt' is not UTF-8 text: byte 0xE9 at offset 3");
    refuse(&(gp_text_options){.text = temporary_write_text(t, "cut.txt", "a long text, cut \xe4\xb8"), .context = 4},
           "cut.txt' is not UTF-8 text: byte 0xE4 at offset 17");
    /* The byte tokenizer takes it. */
    gp_dataset *dataset;
    gp_text_options bytes = {.text = temporary_path(t, "latin.txt"), .tokenizer_kind = GP_TOKENIZER_BYTE, .context = 4};
    assert_int_equal(gp_dataset_create_text(&dataset, &bytes), GP_OK);
    gp_dataset_destroy(dataset);
}

static void test_unknown_characters(void **state) {
    temporary *t = *state;
    gp_tokenizer *tokenizer;
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_CHAR, temporary_write_text(t, "run.txt", "abcdé")),
                     GP_OK);
    gp_text_options options = {.tokenizer = tokenizer, .context = 2};
    options.text = temporary_write_text(t, "other.txt", "abcdabcdz");
    refuse(&options, "other.txt' has the character 'z' (U+007A) at offset 8, which is not among the 5");
    options.text = temporary_write_text(t, "third.txt", "abéü");
    refuse(&options, "third.txt' has the character 'ü' (U+00FC) at offset 4");
    /* Fewer characters than the vocabulary has are no fault, and keep their ids. */
    options.text = temporary_write_text(t, "good.txt", "dcdc");
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_OK);
    assert_ptr_equal(gp_dataset_tokenizer(dataset), tokenizer);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 1, &batch), GP_OK);
    assert_int_equal(((int32_t *)batch.inputs.data)[0], 3);
    assert_int_equal(((int32_t *)batch.inputs.data)[1], 2);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
    gp_tokenizer_destroy(tokenizer);
}

static void test_sizes(void **state) {
    const char *path = temporary_write_text(*state, "text", "0123456789");
    refuse(&(gp_text_options){.text = path, .context = 10},
           "it has 10 tokens, of which 10 are for training; a window of "
           "context 10 and its target need 11");
    refuse(&(gp_text_options){.text = path, .context = 5, .validation = 0.5}, "5 are for training");
    refuse(&(gp_text_options){.text = path, .context = 5, .validation = 0.1}, "leaves 1; at least 2");
    refuse(&(gp_text_options){.text = path}, "context is 0 tokens");
    refuse(&(gp_text_options){.text = path, .context = -1}, "context is -1 tokens");
    refuse(&(gp_text_options){.text = path, .context = INT64_MAX}, "1 to 2147483647");
    refuse(&(gp_text_options){.text = path, .context = 2, .validation = 1}, "validation share is 1:");
    refuse(&(gp_text_options){.text = path, .context = 2, .validation = -0.1}, "validation share is -0.1:");
    refuse(&(gp_text_options){.text = path, .context = 2, .validation = (double)NAN}, "validation share");
    refuse(&(gp_text_options){.text = path, .context = 2, .tokenizer_kind = (gp_tokenizer_kind)7}, "kind 7");
    refuse(&(gp_text_options){.text = path, .context = 2, .sampling = (gp_sampling)7}, "kind 7");
    refuse(&(gp_text_options){.text = path, .context = 2, .sampling = GP_SAMPLING_SEQUENTIAL}, "mini-batch");
}

static void test_requests(void **state) {
    const char *path = temporary_write_text(*state, "text", "0123456789");
    gp_dataset *dataset;
    gp_text_options options = {.size = sizeof options, .text = path, .context = 5, .validation = 0.4};
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_OK);
    gp_batch batch, inputs, targets, weights;
    gp_tensor other;
    assert_int_equal(gp_tensor_create(&other, (gp_type){GP_F32, gp_shape_of(2, (int64_t[]){2, 5})}), GP_OK);
    assert_int_equal(gp_batch_create(&batch, dataset, 2), GP_OK);
    inputs = targets = weights = batch;
    inputs.inputs = targets.targets = weights.weights = other;
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, 0, 0, 2, &batch), GP_OK);
    const struct {
        gp_split split;
        int64_t step, first, count;
        gp_batch *batch;
        const char *message;
    } cases[] = {
        {GP_SPLIT_VALIDATION, 0, 0, 2, &batch, "validation split has 4 tokens: a window of context 5"},
        {GP_SPLIT_TRAIN, -1, 0, 2, &batch, "step -1"},
        {GP_SPLIT_TRAIN, 0, -1, 2, &batch, "number -1"},
        {GP_SPLIT_TRAIN, 0, 0, -2, &batch, "-2 samples"},
        {GP_SPLIT_TRAIN, 0, INT64_MAX, 2, &batch, "cannot be asked for"},
        {GP_SPLIT_TRAIN, 0, 1LL << 40, 2, &batch, "more than a mini-batch can have"},
        {GP_SPLIT_TRAIN, 0, 0, 3, &batch, "i32[2,5]: i32[3,5] is needed"},
        {GP_SPLIT_TRAIN, 0, 0, 2, &inputs, "for the inputs is f32[2,5]: i32[2,5] is needed"},
        {GP_SPLIT_TRAIN, 0, 0, 2, &targets, "for the targets is f32[2,5]"},
        {GP_SPLIT_TRAIN, 0, 0, 2, &weights, "there are no weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(gp_dataset_sample(dataset, cases[i].split, 0, cases[i].step, cases[i].first, cases[i].count,
                                           cases[i].batch),
                         GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].message);
    }
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, -1, 2, &batch), GP_INVALID);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 2, &inputs), GP_INVALID);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, INT64_MAX - 2, 2, &batch), GP_OK);
    assert_int_equal(((int32_t *)batch.targets.data)[0], GP_IGNORED_TARGET);
    /* What has no memory is not wanted. */
    gp_batch half = {.targets = batch.targets};
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 0, 0, 0, 2, &half), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 2, &half), GP_OK);
    gp_batch_destroy(&batch);
    gp_tensor_destroy(&other);
    gp_dataset_destroy(dataset);
}

/* A temporary folder that cannot take the tokens; every allocation failing in turn. */
static void test_system_failures(void **state) {
    temporary *t = *state;
    const char *path = temporary_write_text(t, "text", "Grüße und noch mehr");
    gp_text_options options = {.text = path, .context = 4, .validation = 0.2};
    const char *set = getenv("TMPDIR");
    char *before = set ? strdup(set) : NULL;
    setenv("TMPDIR", temporary_path(t, "missing"), 1);
    gp_dataset *dataset;
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_IO);
    assert_message_has(gp_error_message(), "temporary file");
    setenv("TMPDIR", t->folder, 1);
    gp_status status = GP_FAILED;
    for (uint64_t n = 1; n < 40 && status != GP_OK; n++) {
        gp_allocation_fail_at(n);
        status = gp_dataset_create_text(&dataset, &options);
        gp_allocation_fail_at(0);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        assert_int_equal(status == GP_OK, dataset != NULL);
    }
    assert_int_equal(status, GP_OK);
    assert_int_equal(temporary_count(t), 1); /* the file of tokens has no name */
    gp_dataset_destroy(dataset);
    if (before) {
        setenv("TMPDIR", before, 1);
    } else {
        unsetenv("TMPDIR");
    }
    free(before);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_files),           WITH_FOLDER(test_pattern_characters_in_a_name),
        WITH_FOLDER(test_encodings),       WITH_FOLDER(test_unknown_characters),
        WITH_FOLDER(test_sizes),           WITH_FOLDER(test_requests),
        WITH_FOLDER(test_system_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
