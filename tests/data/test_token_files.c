/* Data sets of token files: what they hold, and files that nobody should have given. */
#include "temporary.h"

#include "base/memory.h"
#include "data/token_files.h"
#include "gpipe/data.h"

enum { COUNT = 1000, VOCABULARY = 500 };

/* Token i of the test's files. */
static int32_t token_at(int64_t i) {
    return (int32_t)(i * 7 % VOCABULARY);
}

static const char *write_bare(temporary *t, const char *name, int64_t first, int64_t count, size_t id_bytes) {
    unsigned char data[4 * COUNT];
    for (int64_t i = 0; i < count; i++) {
        uint16_t narrow = (uint16_t)token_at(first + i);
        uint32_t wide = (uint32_t)token_at(first + i);
        memcpy(data + (size_t)i * id_bytes, id_bytes == 2 ? (void *)&narrow : (void *)&wide, id_bytes);
    }
    return temporary_write(t, name, data, (size_t)count * id_bytes);
}

/* With a header of these first four numbers, and `bytes` bytes of ids. */
static const char *write_with_header(temporary *t, const char *name, const int32_t numbers[4], const void *ids,
                                     size_t bytes) {
    unsigned char data[GP_TOKEN_HEADER_BYTES + 4 * COUNT] = {0};
    memcpy(data, numbers, 4 * sizeof *numbers);
    memcpy(data + GP_TOKEN_HEADER_BYTES, ids, bytes);
    return temporary_write(t, name, data, GP_TOKEN_HEADER_BYTES + bytes);
}

static gp_dataset *create(const gp_token_options *options) {
    gp_dataset *dataset;
    gp_status status = gp_dataset_create_tokens(&dataset, options);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    return dataset;
}

/* Walks the windows of a split, whose tokens are those from `first` on. */
static void check_split(const gp_dataset *dataset, gp_split split, int64_t first, int64_t count) {
    gp_batch batch;
    int64_t context = gp_dataset_input_type(dataset).shape.dims[0];
    assert_int_equal(gp_dataset_count(dataset, split), count);
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    for (int64_t window = 0; window < gp_dataset_windows(dataset, split); window++) {
        assert_int_equal(gp_dataset_window(dataset, split, window, 1, &batch), GP_OK);
        const int32_t *input = batch.inputs.data, *target = batch.targets.data;
        for (int64_t i = 0; i < context; i++) {
            int64_t place = window * context + i;
            bool there = place + 1 < count;
            assert_int_equal(input[i], there ? token_at(first + place) : 0);
            assert_int_equal(target[i], there ? token_at(first + place + 1) : GP_IGNORED_TARGET);
        }
    }
    gp_batch_destroy(&batch);
}

/* Bare ids of two and of four bytes, over several files; a share for validation. */
static void test_bare(void **state) {
    temporary *t = *state;
    for (size_t id_bytes = 2; id_bytes <= 4; id_bytes += 2) {
        write_bare(t, "a0.bin", 0, 1, id_bytes);
        write_bare(t, "a1.bin", 1, 549, id_bytes);
        write_bare(t, "a2.bin", 550, COUNT - 550, id_bytes);
        gp_dataset *dataset = create(&(gp_token_options){.tokens = temporary_path(t, "a*.bin"),
                                                         .validation = 0.25,
                                                         .vocabulary = VOCABULARY,
                                                         .id_bytes = (int)id_bytes,
                                                         .context = 16});
        assert_int_equal(gp_dataset_vocabulary(dataset), VOCABULARY);
        assert_null(gp_dataset_tokenizer(dataset));
        check_split(dataset, GP_SPLIT_TRAIN, 0, 750);
        check_split(dataset, GP_SPLIT_VALIDATION, 750, 250);
        gp_dataset_destroy(dataset);
    }
}

/* llm.c's files of both kinds; files of their own for validation; gpipe's header says the vocabulary. */
static void test_headers(void **state) {
    temporary *t = *state;
    uint16_t narrow[COUNT];
    uint32_t wide[COUNT];
    for (int64_t i = 0; i < COUNT; i++)
        narrow[i] = (uint16_t)(wide[i] = (uint32_t)token_at(i));
    char *train = strdup(write_with_header(t, "train.bin", (int32_t[]){20240520, 1, COUNT, 0}, narrow, 2 * COUNT));
    char *held = strdup(write_with_header(t, "held.bin", (int32_t[]){20240801, 7, 300, VOCABULARY}, wide, 1200));
    gp_token_options options = {
        .tokens = train, .validation_tokens = held, .validation = 0.5, .vocabulary = VOCABULARY, .context = 9};
    gp_dataset *dataset = create(&options);
    check_split(dataset, GP_SPLIT_TRAIN, 0, COUNT);
    check_split(dataset, GP_SPLIT_VALIDATION, 0, 300);
    gp_dataset_destroy(dataset);
    options = (gp_token_options){.tokens = held, .context = 9};
    dataset = create(&options);
    assert_int_equal(gp_dataset_vocabulary(dataset), VOCABULARY);
    gp_dataset_destroy(dataset);
    gp_tokenizer *tokenizer; /* says the vocabulary, too */
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_BYTE, NULL), GP_OK);
    options = (gp_token_options){.tokens = held, .tokenizer = tokenizer, .context = 9};
    assert_int_equal(gp_dataset_create_tokens(&dataset, &options), GP_INVALID);
    assert_message_has(gp_error_message(), "made with a vocabulary of 500 tokens: up to 256");
    gp_tokenizer_destroy(tokenizer);
    free(train);
    free(held);
}

static void refuse_file(const char *path, int32_t vocabulary, const char *message) {
    gp_dataset *dataset = (gp_dataset *)(uintptr_t)1;
    gp_token_options options = {.tokens = path, .vocabulary = vocabulary, .context = 2};
    gp_status status = gp_dataset_create_tokens(&dataset, &options);
    if (status != GP_INVALID) print_error("expected: %s\n", message);
    assert_int_equal(status, GP_INVALID);
    assert_null(dataset);
    assert_message_has(gp_error_message(), message);
    assert_message_has(gp_error_message(), path);
}

static void test_bad_files(void **state) {
    temporary *t = *state;
    static const uint16_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        int32_t numbers[4];
        size_t bytes;
        const char *message;
    } headers[] = {
        {{20240520, 1, 9, 0}, 16, "cut off or damaged: its header says 9 tokens of 2 bytes, but 16 bytes follow"},
        {{20240520, 1, 7, 0}, 16, "cut off or damaged"},
        {{20240801, 7, 8, 0}, 16, "says 8 tokens of 4 bytes, but 16"},
        {{20240520, 1, 0, 0}, 0, "says 0 tokens"},
        {{20240520, 1, -8, 0}, 16, "says -8 tokens"},
        {{20240520, 1, INT32_MAX, 0}, 16, "says 2147483647 tokens"},
        {{20240520, 2, 8, 0}, 16, "is a token file of version 2: version 1 with"},
        {{20240801, 1, 8, 0}, 16, "version 1: version 1 with the magic number 20240520, and 7 with 20240801"},
        {{20240326, 3, 8, 0}, 16, "is a model of llm.c"},
        {{20240328, 1, 8, 0}, 16, "is a tokenizer of llm.c"},
        {{20240522, 1, 8, 0}, 16, "is an evaluation of llm.c"},
        {{20240520, 1, 8, -1}, 16, "says a vocabulary of -1"},
        {{20240520, 1, 8, 600}, 16, "made with a vocabulary of 600 tokens: up to 500"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const char *path = write_with_header(t, "bad.bin", headers[i].numbers, ids, headers[i].bytes);
        refuse_file(path, VOCABULARY, headers[i].message);
    }
    refuse_file(temporary_write(t, "odd.bin", ids, 15), VOCABULARY, "15 bytes, no whole number of ids");
    refuse_file(temporary_write(t, "empty.bin", ids, 0), VOCABULARY, "0 bytes, no whole");
    refuse_file(temporary_write_text(t, "corpus.txt", "a text given by mistake"), VOCABULARY, "only files named *.bin");
    refuse_file(temporary_write(t, "bare.bin", ids, 16), 0, "does not say how many different tokens there are");
    refuse_file(write_with_header(t, "silent.bin", (int32_t[]){20240520, 1, 8, 0}, ids, 16), 0,
                "does not say how many");
    refuse_file(temporary_path(t, "none.bin"), VOCABULARY, "could not be opened");
    refuse_file(temporary_path(t, "none*.bin"), VOCABULARY, "matches no file");
    refuse_file(temporary_write(t, "high.bin", ids, 16), 8, "has the id 8 as its token 7: with a vocabulary of 8");
    static const uint32_t wide[] = {1, 0xFFFFFFFF, 2};
    const char *path = write_with_header(t, "wide.bin", (int32_t[]){20240801, 7, 3, 0}, wide, 12);
    refuse_file(path, VOCABULARY, "has the id 4294967295 as its token 1");
}

static void test_bad_options(void **state) {
    temporary *t = *state;
    char *path = strdup(write_bare(t, "a.bin", 0, 20, 2));
    char *held = strdup(write_bare(t, "held.bin", 0, 1, 2));
    gp_dataset *dataset;
    const struct {
        gp_token_options options;
        const char *message;
    } cases[] = {
        {{.context = 2}, "no token files"},
        {{.tokens = path, .vocabulary = 500, .context = 0}, "context is 0"},
        {{.tokens = path, .vocabulary = 500, .context = 20}, "too short: it has 20 tokens"},
        {{.tokens = path, .vocabulary = 500, .context = 2, .validation = 1}, "share is 1"},
        {{.tokens = path, .vocabulary = 500, .context = 2, .validation = 0.01}, "leaves 1; at least 2"},
        {{.tokens = path, .vocabulary = 500, .context = 2, .id_bytes = 3}, "ids of 3 bytes"},
        {{.tokens = path, .vocabulary = -1, .context = 2}, "vocabulary of -1"},
        {{.tokens = path, .vocabulary = 500, .context = 2, .sampling = GP_SAMPLING_SEQUENTIAL}, "size of a mini-batch"},
        {{.tokens = path, .validation_tokens = held, .vocabulary = 500, .context = 2}, "too few: 1; at least 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_dataset_create_tokens(&dataset, &cases[i].options), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].message);
    }
    assert_int_equal(gp_dataset_create_tokens(&dataset, NULL), GP_INVALID);
    free(path);
    free(held);
}

/* A file that is changed while it is mapped gives an error, never an id outside the vocabulary. */
static void test_changed_file(void **state) {
    const char *path = write_bare(*state, "a.bin", 0, 100, 2);
    gp_dataset *dataset =
        create(&(gp_token_options){.tokens = path, .vocabulary = VOCABULARY, .validation = 0, .context = 10});
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 2 * 57, SEEK_SET), 0);
    assert_int_equal(fwrite("\xFF\xFF", 1, 2, file), 2);
    assert_int_equal(fclose(file), 0);
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 1), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 1, &batch), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 5, 1, &batch), GP_INVALID);
    assert_message_has(gp_error_message(), "has the id 65535 as its token 57");
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

static void test_memory_failures(void **state) {
    write_bare(*state, "a.bin", 0, 100, 2);
    const char *path = temporary_path(*state, "a*.bin");
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        gp_dataset *dataset;
        gp_allocation_fail_at(n);
        gp_status status = gp_dataset_create_tokens(
            &dataset, &(gp_token_options){.tokens = path, .vocabulary = VOCABULARY, .context = 10});
        gp_allocation_fail_at(0);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        done = status == GP_OK;
        if (done) gp_dataset_destroy(dataset);
    }
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_bare),        WITH_FOLDER(test_headers),      WITH_FOLDER(test_bad_files),
        WITH_FOLDER(test_bad_options), WITH_FOLDER(test_changed_file), WITH_FOLDER(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
