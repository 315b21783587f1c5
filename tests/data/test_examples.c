/* Labelled examples: columns and objects, pairs, classes, splits, epochs; and files that cannot serve. */
#include "temporary.h"

#include "gpipe/images.h"

enum { CONTEXT = 10, BEGIN = 256, END = 257 };

static gp_tokenizer *tokenizer;

static int begin(void **state) {
    if (gp_tokenizer_create(&tokenizer, GP_TOKENIZER_BYTE, NULL) != GP_OK) return -1;
    return temporary_create(state);
}

static int end(void **state) {
    gp_tokenizer_destroy(tokenizer);
    return temporary_destroy(state);
}

static gp_examples_options options_for(const char *path) {
    return (gp_examples_options){.examples = path, .tokenizer = tokenizer, .context = CONTEXT, .batch = 4};
}

static gp_dataset *create(const gp_examples_options *options) {
    gp_dataset *dataset = NULL;
    if (gp_dataset_create_examples(&dataset, options) != GP_OK) fail_msg("%s", gp_error_message());
    return dataset;
}

static gp_dataset *create_from(temporary *t, const char *file, const char *text) {
    gp_examples_options options = options_for(temporary_write_text(t, file, text));
    return create(&options);
}

/* Example `number` in the order of the file: tokens as letters ('^' begin, '$' end, '.' padding), its types, its class.
 */
static void assert_example(const gp_dataset *dataset, int64_t number, const char *tokens, const char *types,
                           const char *class) {
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    if (gp_dataset_window(dataset, GP_SPLIT_TRAIN, number, 1, &batch) != GP_OK) fail_msg("%s", gp_error_message());
    const int32_t *rows = batch.inputs.data;
    char found[CONTEXT + 1] = "", kinds[CONTEXT + 1] = "";
    for (int i = 0; i < CONTEXT; i++) {
        bool there = rows[2 * CONTEXT + i] == 1;
        found[i] = (char)(!there ? '.' : rows[i] == BEGIN ? '^' : rows[i] == END ? '$' : rows[i]);
        kinds[i] = (char)('0' + rows[CONTEXT + i]);
        if (!there) assert_int_equal(rows[i], 0);
    }
    assert_string_equal(found, tokens);
    assert_string_equal(kinds, types);
    assert_string_equal(gp_classes_name(gp_dataset_classes(dataset), (size_t) * (int32_t *)batch.targets.data), class);
    gp_batch_destroy(&batch);
}

static void test_columns(void **state) {
    gp_dataset *dataset =
        create_from(*state, "a.tsv", "good film\tpositive\nbad\tnegative\r\n\n  \nso so, long\tnegative");
    char text[64];
    assert_string_equal(gp_type_format(gp_dataset_input_type(dataset), text, sizeof text), "i32[3,10]");
    assert_string_equal(gp_type_format(gp_dataset_target_type(dataset), text, sizeof text), "i32[]");
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), 3);
    assert_int_equal(gp_dataset_vocabulary(dataset), 259);
    assert_int_equal(gp_classes_count(gp_dataset_classes(dataset)), 2);
    assert_string_equal(gp_classes_name(gp_dataset_classes(dataset), 0), "negative");
    assert_example(dataset, 0, "^good fil$", "0000000000", "positive");
    assert_example(dataset, 1, "^bad$.....", "0000000000", "negative");
    assert_example(dataset, 2, "^so so, l$", "0000000000", "negative");
    gp_dataset_destroy(dataset);
    dataset = create_from(*state, "b.tsv", "index\tlabel\tsentence\n7\t1\tabc\n8\t10\td\te\n9\t-2\tf\n");
    assert_example(dataset, 0, "^abc$.....", "0000000000", "1");
    assert_example(dataset, 1, "^d$.......", "0000000000", "10");
    assert_string_equal(gp_classes_name(gp_dataset_classes(dataset), 0), "-2"); /* as numbers: -2, 1, 10 */
    assert_string_equal(gp_classes_name(gp_dataset_classes(dataset), 2), "10");
    gp_dataset_destroy(dataset);
}

static void test_pairs(void **state) {
    gp_dataset *dataset = create_from(*state, "a.tsv", "ab\tcd\tx\nabcdef\tgh\ty\nab\tcdefgh\tx\n\tq\ty\n");
    assert_example(dataset, 0, "^ab$cd$...", "0000111000", "x");
    assert_example(dataset, 1, "^abcde$gh$", "0000000111", "y"); /* the longer one is cut */
    assert_example(dataset, 2, "^ab$cdefg$", "0000111111", "x");
    assert_example(dataset, 3, "^$q$......", "0011000000", "y");
    gp_dataset_destroy(dataset);
    dataset = create_from(*state, "b.tsv", "sentence1\tsentence2\tlabel\nab\tcd\t0\nef\tgh\t1\n");
    assert_example(dataset, 1, "^ef$gh$...", "0000111000", "1");
    gp_dataset_destroy(dataset);
}

static void test_objects(void **state) {
    gp_dataset *dataset = create_from(*state, "a.jsonl",
                                      "{\"text\": \"a\\tb\", \"label\": 3, \"more\": [1, {\"x\": null}]}\n"
                                      "{\"label\": 1, \"text\": \"\\u00e9\"}\n\n");
    assert_example(dataset, 0, "^a\tb$.....", "0000000000", "3");
    assert_example(dataset, 1, "^\xc3\xa9$......", "0000000000", "1");
    gp_dataset_destroy(dataset);
    gp_examples_options options = options_for(temporary_write_text(
        *state, "b.jsonl",
        "{\"a\": \"x\", \"b\": \"y\", \"c\": \"no\"}\n{\"a\": \"u\", \"b\": \"v\", \"c\": \"yes\"}\n"));
    options.text_field = "b";
    options.pair_field = "a";
    options.label_field = "c";
    dataset = create(&options);
    assert_example(dataset, 0, "^y$x$.....", "0001100000", "no");
    gp_dataset_destroy(dataset);
}

static void test_plain(void **state) {
    gp_examples_options options = options_for(temporary_write_text(*state, "a.tsv", "abc\t0\nde\t1\n"));
    options.plain = true;
    gp_dataset *dataset = create(&options);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 3), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 3, &batch), GP_OK);
    const int32_t *rows = batch.inputs.data, *targets = batch.targets.data;
    assert_true(rows[0] == 'a' && rows[2] == 'c' && rows[3] == 0 && rows[CONTEXT] == 'd');
    assert_true(targets[0] == 0 && targets[1] == 1 && targets[2] == GP_IGNORED_TARGET); /* past the end */
    assert_int_equal(rows[2 * CONTEXT], 0);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* 30 of one class, 10 of the other; the first letter tells which example it is. */
static const char *write_forty(temporary *t) {
    static char text[40 * 8 + 1];
    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), 8, "%c\t%s\n", '0' + i, i % 4 == 3 ? "few" : "many");
    return temporary_write_text(t, "forty.tsv", text);
}

static void first_letters(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step, int64_t count,
                          int *letters) {
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, count), GP_OK);
    gp_status status = step < 0 ? gp_dataset_window(dataset, split, 0, count, &batch)
                                : gp_dataset_sample(dataset, split, seed, step, 0, count, &batch);
    assert_int_equal(status, GP_OK);
    for (int64_t i = 0; i < count; i++)
        letters[i] = ((int32_t *)batch.inputs.data)[i * 3 * CONTEXT + 1] - '0';
    gp_batch_destroy(&batch);
}

static void test_splits_and_epochs(void **state) {
    gp_examples_options options = options_for(write_forty(*state));
    options.validation = 0.2;
    gp_dataset *dataset = create(&options);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), 32);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 8);
    int seen[40] = {0}, few = 0, letters[40], other[4];
    first_letters(dataset, GP_SPLIT_VALIDATION, 0, -1, 8, letters);
    for (int i = 0; i < 8; i++) {
        seen[letters[i]]++;
        few += letters[i] % 4 == 3;
    }
    assert_int_equal(few, 2);
    for (int step = 0; step < 8; step++) { /* an epoch of 32 */
        first_letters(dataset, GP_SPLIT_TRAIN, 5, step, 4, letters);
        for (int i = 0; i < 4; i++)
            seen[letters[i]]++;
    }
    for (int i = 0; i < 40; i++)
        assert_int_equal(seen[i], 1); /* every example once, in one of the splits */
    first_letters(dataset, GP_SPLIT_TRAIN, 5, 0, 4, letters);
    first_letters(dataset, GP_SPLIT_TRAIN, 5, 0, 4, other);
    assert_memory_equal(letters, other, sizeof other);
    first_letters(dataset, GP_SPLIT_TRAIN, 5, 8, 4, other);
    assert_memory_not_equal(letters, other, sizeof other); /* a new order */
    first_letters(dataset, GP_SPLIT_TRAIN, 6, 0, 4, other);
    assert_memory_not_equal(letters, other, sizeof other);
    gp_dataset_destroy(dataset);
    options.sampling = GP_SAMPLING_SEQUENTIAL;
    options.validation = 0;
    dataset = create(&options);
    first_letters(dataset, GP_SPLIT_TRAIN, 5, 10, 4, letters);
    for (int i = 0; i < 4; i++)
        assert_int_equal(letters[i], i);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 0);
    gp_dataset_destroy(dataset);
}

static void test_validation_of_its_own(void **state) {
    char validation[300];
    snprintf(validation, sizeof validation, "%s",
             temporary_write_text(*state, "dev.jsonl", "{\"text\":\"x\",\"label\":\"b\"}"));
    gp_examples_options options = options_for(temporary_write_text(*state, "train.tsv", "p\ta\nq\tb\n"));
    options.validation_examples = validation;
    gp_dataset *dataset = create(&options);
    gp_batch batch;
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 1);
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_VALIDATION, 0, 1, &batch), GP_OK);
    assert_int_equal(((int32_t *)batch.inputs.data)[1], 'x');
    assert_int_equal(*(int32_t *)batch.targets.data, 1);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static void test_given_classes(void **state) {
    gp_classes *classes = NULL;
    assert_int_equal(gp_classes_create(&classes, (const char *[]){"b", "a", "c"}, 3), GP_OK);
    gp_examples_options options = options_for(temporary_write_text(*state, "a.tsv", "p\ta\nq\tb\n"));
    options.classes = classes;
    gp_dataset *dataset = create(&options);
    assert_int_equal(gp_classes_count(gp_dataset_classes(dataset)), 3);
    assert_example(dataset, 0, "^p$.......", "0000000000", "a");
    gp_dataset_destroy(dataset);
    options.examples = temporary_write_text(*state, "b.tsv", "p\ta\nq\td\n");
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "b.tsv', line 2: its label 'd' is not among the classes: b, a, c"));
    gp_classes_destroy(classes);
}

static void assert_refused(temporary *t, const char *file, const char *text, const char *part) {
    gp_examples_options options = options_for(temporary_write_text(t, file, text));
    gp_dataset *dataset = NULL;
    if (gp_dataset_create_examples(&dataset, &options) != GP_INVALID) fail_msg("accepted: %s", text);
    assert_null(dataset);
    if (!strstr(gp_error_message(), part)) fail_msg("\"%s\" is not in: %s", part, gp_error_message());
}

static void test_files_that_cannot_serve(void **state) {
    temporary *t = *state;
    assert_refused(t, "a.csv", "a,b\n", "is neither .tsv (columns with tabs between) nor .jsonl");
    assert_refused(t, "a.tsv", "a\n", "line 1: it has 1 columns and no header with a column 'label'");
    assert_refused(t, "a.tsv", "a\tb\tc\td\n", "line 1: it has 4 columns and no header");
    assert_refused(t, "a.tsv", "label\tid\n1\t2\n", "line 1: it has no column 'text'");
    assert_refused(t, "a.tsv", "x\t1\ny\n", "line 2: it has 1 columns: the file has at least 2");
    assert_refused(t, "a.tsv", "x\t1\n\ny\t\n", "line 3: its label is empty");
    assert_refused(t, "a.tsv", "x\t1\ny\t\xff\n", "line 2: its label is not UTF-8");
    assert_refused(t, "a.tsv", "x\t1\ny\t1\n", "has the label '1' alone: at least two classes are needed");
    assert_refused(t, "a.tsv", "text\tlabel\n", "has no examples");
    assert_refused(t, "a.tsv", "\n", "it has 1 columns and no header");
    assert_refused(t, "a.jsonl", "{\"text\": \"a\", \"label\": 1}\nx\n", "line 2: it ");
    assert_refused(t, "a.jsonl", "[1]\n", "line 1: it");
    assert_refused(t, "a.jsonl", "{\"text\": 1, \"label\": 1}\n", "line 1: its \"text\" is missing or no text");
    assert_refused(t, "a.jsonl", "{\"text\": \"a\"}\n", "line 1: its \"label\" is missing or no text");
    assert_refused(t, "a.jsonl", "{\"text\": \"a\", \"label\": 1.5}\n", "its \"label\" is missing or no text");
    assert_refused(t, "a.jsonl", "{\"text\": \"a\", \"pair\": 2, \"label\": 1}\n",
                   "its \"pair\" is missing or no text");
    gp_examples_options options = options_for("/nonexistent/x.tsv");
    gp_dataset *dataset = NULL;
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
    options = options_for(write_forty(t));
    options.text_field = "texts";
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "the first line names no column 'texts'"));
    options = options_for(temporary_path(t, "forty.tsv"));
    options.validation = 0.01;
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "a validation share of 0.01 leaves none"));
    options.validation = 0;
    options.context = 3;
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
    options.context = CONTEXT;
    options.batch = 0;
    assert_int_equal(gp_dataset_create_examples(&dataset, &options), GP_INVALID);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_columns),           TEST(test_pairs),
        TEST(test_objects),           TEST(test_plain),
        TEST(test_splits_and_epochs), TEST(test_validation_of_its_own),
        TEST(test_given_classes),     TEST(test_files_that_cannot_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
