/* A data set of a text in subwords has the ids of its files, one behind the other, and needs a tokenizer. */
#include "subword_files.h"

enum { BYTES = 3 << 20, CONTEXT = 64 };

static void check_windows(const gp_dataset *dataset, const int32_t *ids, int64_t count) {
    gp_batch batch;
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), count);
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    for (int64_t window = 0; window < gp_dataset_windows(dataset, GP_SPLIT_TRAIN) - 1; window++) {
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, window, 1, &batch), GP_OK);
        assert_memory_equal(batch.inputs.data, ids + window * CONTEXT, CONTEXT * sizeof *ids);
        assert_memory_equal(batch.targets.data, ids + window * CONTEXT + 1, CONTEXT * sizeof *ids);
    }
    gp_batch_destroy(&batch);
}

static void test_subwords(void **state) {
    temporary *t = *state;
    tiny_bpe *tiny = tiny_bpe_create(8);
    tiny_bpe_write_files(t, tiny);
    tiny_bpe_destroy(tiny);
    gp_tokenizer *tokenizers[] = {load_tokenizer(temporary_path(t, "vocab.json")),
                                  load_tokenizer(temporary_write_text(t, "vocab.txt", tiny_words))};
    char *text = malloc(BYTES);
    assert_non_null(text);
    uint64_t seed = 23;
    random_text(&seed, text, BYTES);
    temporary_write(t, "one.txt", text, BYTES - 1000);
    temporary_write(t, "two.txt", text + BYTES - 1000, 1000);
    for (size_t i = 0; i < 2; i++) {
        size_t one, two;
        int32_t *first = encode_text(tokenizers[i], text, BYTES - 1000, &one);
        int32_t *second = encode_text(tokenizers[i], text + BYTES - 1000, 1000, &two);
        first = realloc(first, (one + two) * sizeof *first);
        assert_non_null(first);
        memcpy(first + one, second, two * sizeof *first);
        gp_text_options options = {
            .text = temporary_path(t, "[ot]*.txt"), .tokenizer = tokenizers[i], .context = CONTEXT};
        gp_dataset *dataset;
        assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_OK);
        assert_ptr_equal(gp_dataset_tokenizer(dataset), tokenizers[i]);
        assert_int_equal(gp_dataset_vocabulary(dataset), gp_tokenizer_vocabulary(tokenizers[i]));
        check_windows(dataset, first, (int64_t)(one + two));
        gp_dataset_destroy(dataset);
        free(first);
        free(second);
        gp_tokenizer_destroy(tokenizers[i]);
    }
    free(text);
}

static void test_failures(void **state) {
    temporary *t = *state;
    gp_tokenizer *tokenizer = load_tokenizer(temporary_write_text(t, "vocab.txt", tiny_words));
    gp_dataset *dataset;
    gp_text_options options = {
        .text = temporary_write_text(t, "text", "the cat"), .tokenizer_kind = GP_TOKENIZER_WORDPIECE, .context = 2};
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "must be given");
    options.tokenizer = tokenizer;
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "too short: it has 2 tokens");
    options.text = temporary_write_text(t, "blank", "\x01 \n");
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "the text has no tokens");
    options.text = temporary_write(t, "binary", "the\0cat", 7);
    assert_int_equal(gp_dataset_create_text(&dataset, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "is a binary file");
    gp_tokenizer_destroy(tokenizer);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {WITH_FOLDER(test_subwords), WITH_FOLDER(test_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
