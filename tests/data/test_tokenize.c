/* Text to token files: the same for any number of threads and any way of giving the text; documents; shards; what is
 * refused. */
#include "subword_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "data/bulk.h"
#include "data/token_files.h"

enum { LARGE_BYTES = 5 << 19 }; /* several chunks */

static gp_tokenizer *create_bpe(temporary *t) {
    tiny_bpe *tiny = tiny_bpe_create(6);
    tiny_bpe_write_files(t, tiny);
    tiny_bpe_destroy(tiny);
    return load_tokenizer(temporary_path(t, "vocab.json"));
}

static void tokenize(gp_tokenize_options options, gp_tokenize_result *result) {
    *result = (gp_tokenize_result){.size = sizeof *result};
    options.replace = true;
    gp_status status = gp_tokenize(&options, result);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
}

static void refuse(const gp_tokenize_options *options, gp_status expected, const char *message) {
    gp_tokenize_result result = {.size = sizeof result};
    assert_int_equal(gp_tokenize(options, &result), expected);
    assert_message_has(gp_error_message(), message);
    gp_tokenize_result_free(&result);
}

/* The ids of all files of a result. */
static int32_t *read_ids(const char *pattern, int32_t vocabulary, int64_t *count) {
    gp_token_files files;
    gp_status status = gp_token_files_open(&files, pattern, vocabulary, 0);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    *count = files.tokens;
    int32_t *ids = calloc((size_t)files.tokens, sizeof *ids);
    assert_non_null(ids);
    assert_int_equal(gp_token_files_read(&files, 0, files.tokens, ids), GP_OK);
    gp_token_files_close(&files);
    return ids;
}

static void check_file_ids(const char *path, int32_t vocabulary, const int32_t *expected, size_t expected_count) {
    int64_t count;
    int32_t *ids = read_ids(path, vocabulary, &count);
    assert_int_equal(count, expected_count);
    assert_memory_equal(ids, expected, expected_count * sizeof *ids);
    free(ids);
}

static char *large_text(size_t *bytes) {
    char *text = malloc(LARGE_BYTES);
    assert_non_null(text);
    uint64_t state = 17;
    random_text(&state, text, LARGE_BYTES);
    *bytes = LARGE_BYTES;
    return text;
}

/* One thread, three, text from a file and from the standard input, with each kind of documents. */
static void test_threads(void **state) {
    temporary *t = *state;
    size_t bytes;
    char *text = large_text(&bytes);
    char *path = strdup(temporary_write(t, "large.txt", text, bytes)), *out = strdup(temporary_path(t, "large.bin"));
    gp_tokenizer *tokenizer = create_bpe(t);
    static const char *const stream[] = {"-"};
    int input = dup(STDIN_FILENO);
    for (int documents = GP_DOCUMENT_FILE; documents <= GP_DOCUMENT_PARAGRAPH; documents++) {
        gp_tokenize_options options = {.tokenizer = tokenizer,
                                       .inputs = (const char *const[]){path},
                                       .input_count = 1,
                                       .output = out,
                                       .documents = (gp_documents)documents,
                                       .end_of_text = "<|endoftext|>",
                                       .threads = 1};
        gp_tokenize_result one, other;
        tokenize(options, &one);
        size_t one_bytes, other_bytes;
        char *expected = temporary_read(out, &one_bytes);
        for (int way = 0; way < 2; way++) {
            options.threads = 3;
            if (way == 1) {
                int file = open(path, O_RDONLY);
                assert_true(file >= 0 && dup2(file, STDIN_FILENO) >= 0);
                close(file);
                options.inputs = stream;
            }
            tokenize(options, &other);
            char *found = temporary_read(out, &other_bytes);
            assert_int_equal(one_bytes, other_bytes);
            assert_memory_equal(expected, found, one_bytes);
            assert_int_equal(one.documents, other.documents);
            assert_int_equal(one.tokens, other.tokens);
            assert_int_equal(one.replaced, other.replaced);
            assert_int_equal(other.bytes, bytes);
            free(found);
            gp_tokenize_result_free(&other);
        }
        if (documents == GP_DOCUMENT_FILE) { /* and those of encoding it at once */
            size_t count;
            int32_t *ids = encode_text(tokenizer, text, bytes, &count);
            ids[count++] = gp_tokenizer_end_of_text(tokenizer);
            check_file_ids(out, 0, ids, count);
            free(ids);
        }
        free(expected);
        gp_tokenize_result_free(&one);
    }
    dup2(input, STDIN_FILENO);
    close(input);
    gp_tokenizer_destroy(tokenizer);
    free(path);
    free(out);
    free(text);
}

typedef struct small {
    gp_tokenizer *bytes;
    char *out;
} small;

static small small_create(temporary *t) {
    small s = {.out = strdup(temporary_path(t, "out.bin"))};
    assert_int_equal(gp_tokenizer_create(&s.bytes, GP_TOKENIZER_BYTE, NULL), GP_OK);
    return s;
}

static void small_destroy(small *s) {
    gp_tokenizer_destroy(s->bytes);
    free(s->out);
}

static void test_documents(void **state) {
    temporary *t = *state;
    small s = small_create(t);
    static const struct {
        gp_documents documents;
        const char *text, *expected;
        int count;
    } cases[] = {
        {GP_DOCUMENT_FILE, "ab\ncd\n", "ab\ncd\n#", 1},
        {GP_DOCUMENT_LINE, "ab\n\n cd\r\n \t\r\ne", "ab# cd#e#", 3},
        {GP_DOCUMENT_PARAGRAPH, "\n\nab\ncd\r\n\r\n \n ef\n", "ab\ncd# ef#", 2},
        {GP_DOCUMENT_PARAGRAPH, "ab", "ab#", 1},
        {GP_DOCUMENT_JSON, "{\"text\": \"a\\nb\", \"more\": [1]}\n\n{\"text\":\"\"}\r\n{\"text\":\"c\"}", "a\nb##c#",
         3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_tokenize_result result;
        const char *path = temporary_write_text(t, "text", cases[i].text);
        tokenize((gp_tokenize_options){.tokenizer = s.bytes,
                                       .inputs = &path,
                                       .input_count = 1,
                                       .output = s.out,
                                       .documents = cases[i].documents,
                                       .end_of_text = "#"},
                 &result);
        assert_int_equal(result.documents, cases[i].count);
        int32_t ids[64];
        size_t count = strlen(cases[i].expected);
        for (size_t c = 0; c < count; c++)
            ids[c] = cases[i].expected[c];
        check_file_ids(s.out, 0, ids, count);
        gp_tokenize_result_free(&result);
    }
    small_destroy(&s);
}

/* Files in the order of their names, patterns in the order given; empty files are no documents. */
static void test_inputs(void **state) {
    temporary *t = *state;
    small s = small_create(t);
    temporary_write_text(t, "b.txt", "b");
    temporary_write_text(t, "a.txt", "a");
    temporary_write_text(t, "c.txt", "");
    char *last = strdup(temporary_write_text(t, "0.md", "0")), *pattern = strdup(temporary_path(t, "*.txt"));
    gp_tokenize_result result;
    tokenize((gp_tokenize_options){.tokenizer = s.bytes,
                                   .inputs = (const char *const[]){pattern, last},
                                   .input_count = 2,
                                   .output = s.out,
                                   .end_of_text = "#"},
             &result);
    assert_int_equal(result.documents, 3);
    assert_int_equal(result.bytes, 3);
    check_file_ids(s.out, 0, (int32_t[]){'a', '#', 'b', '#', '0', '#'}, 6);
    gp_tokenize_result_free(&result);
    free(last);
    free(pattern);
    small_destroy(&s);
}

/* Shards have numbers, hold the tokens in order, and leave nothing of an earlier set behind. */
static void test_shards(void **state) {
    temporary *t = *state;
    small s = small_create(t);
    const char *text = temporary_write_text(t, "text", "0123456789");
    gp_tokenize_options options = {
        .tokenizer = s.bytes, .inputs = &text, .input_count = 1, .output = s.out, .file_tokens = 3};
    gp_tokenize_result result;
    tokenize(options, &result);
    assert_int_equal(result.file_count, 4);
    assert_message_has(result.files[3], "out_000003.bin");
    check_file_ids(temporary_path(t, "out_*.bin"), 0, (int32_t[]){'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'},
                   10);
    check_file_ids(result.files[3], 0, (int32_t[]){'9'}, 1);
    gp_tokenize_result_free(&result);
    refuse(&options, GP_INVALID, "out_000000.bin' is there already");
    options.file_tokens = 5;
    tokenize(options, &result);
    assert_int_equal(result.file_count, 2);
    gp_tokenize_result_free(&result);
    assert_int_equal(temporary_count(t), 3); /* with the text */
    options.file_tokens = 10;
    tokenize(options, &result);
    assert_int_equal(result.file_count, 1);
    assert_string_equal(result.files[0], s.out);
    gp_tokenize_result_free(&result);
    assert_int_equal(temporary_count(t), 2);
    small_destroy(&s);
}

static void test_formats(void **state) {
    temporary *t = *state;
    small s = small_create(t);
    const char *text = temporary_write_text(t, "text", "ab");
    gp_tokenize_options options = {.tokenizer = s.bytes, .inputs = &text, .input_count = 1, .output = s.out};
    gp_tokenize_result result;
    size_t bytes;
    tokenize(options, &result);
    assert_int_equal(result.id_bytes, 2);
    gp_tokenize_result_free(&result);
    char *file = temporary_read(s.out, &bytes);
    assert_int_equal(bytes, 1024 + 4);
    assert_memory_equal(file, ((int32_t[]){20240520, 1, 2, 256}), 16);
    assert_memory_equal(file + 1024, ((uint16_t[]){'a', 'b'}), 4);
    free(file);
    options.format = GP_TOKENS_RAW;
    tokenize(options, &result);
    gp_tokenize_result_free(&result);
    file = temporary_read(s.out, &bytes);
    assert_int_equal(bytes, 4);
    assert_memory_equal(file, ((uint16_t[]){'a', 'b'}), 4);
    free(file);
    small_destroy(&s);
}

/* More than 65536 tokens take four bytes each. */
static void test_large_vocabulary(void **state) {
    enum { TOKENS = 70000 };
    temporary *t = *state;
    json_t *vocabulary = json_object();
    for (int i = 0; i < TOKENS; i++) {
        char name[16];
        snprintf(name, sizeof name, i == 69999 ? "a" : "t%d", i);
        json_object_set_new(vocabulary, name, json_integer(i));
    }
    write_json(t, "vocab.json", vocabulary);
    temporary_write_text(t, "merges.txt", "");
    gp_tokenizer *tokenizer = load_tokenizer(temporary_path(t, "vocab.json"));
    const char *text = temporary_write_text(t, "text", "aa"), *out = temporary_path(t, "out.bin");
    gp_tokenize_result result;
    tokenize((gp_tokenize_options){.tokenizer = tokenizer, .inputs = &text, .input_count = 1, .output = out}, &result);
    assert_int_equal(result.id_bytes, 4);
    size_t bytes;
    char *file = temporary_read(out, &bytes);
    assert_int_equal(bytes, 1024 + 8);
    assert_memory_equal(file, ((int32_t[]){20240801, 7, 2, TOKENS}), 16);
    free(file);
    check_file_ids(out, 0, (int32_t[]){69999, 69999}, 2);
    gp_tokenize_result_free(&result);
    gp_tokenizer_destroy(tokenizer);
}

static void test_plain(void **state) {
    temporary *t = *state;
    gp_tokenizer *tokenizer = create_bpe(t);
    const char *text = temporary_write_text(t, "text", "<|endoftext|>"), *out = temporary_path(t, "out.bin");
    gp_tokenize_options options = {.tokenizer = tokenizer, .inputs = &text, .input_count = 1, .output = out};
    gp_tokenize_result result;
    tokenize(options, &result);
    assert_int_equal(result.tokens, 1);
    gp_tokenize_result_free(&result);
    options.plain = true;
    tokenize(options, &result);
    assert_int_equal(result.tokens, 13);
    gp_tokenize_result_free(&result);
    gp_tokenizer_destroy(tokenizer);
}

static bool stop(void *user, uint64_t done, uint64_t bytes) {
    *(uint64_t *)user = bytes;
    return done == 0;
}

static void test_failures(void **state) {
    temporary *t = *state;
    small s = small_create(t);
    char *text = strdup(temporary_write_text(t, "text", "abc"));
    const char *none = temporary_path(t, "none");
    gp_tokenize_options good = {.tokenizer = s.bytes,
                                .inputs = (const char *const[]){text},
                                .input_count = 1,
                                .output = s.out},
                        bad = good;
    bad.tokenizer = NULL;
    refuse(&bad, GP_INVALID, "no tokenizer");
    bad = good, bad.output = NULL;
    refuse(&bad, GP_INVALID, "no file for the tokens");
    bad = good, bad.input_count = 0;
    refuse(&bad, GP_INVALID, "no text was given");
    bad = good, bad.inputs = &none;
    refuse(&bad, GP_INVALID, "none' could not be opened");
    bad = good, bad.inputs = (const char *const[]){"-", "-"}, bad.input_count = 2;
    refuse(&bad, GP_INVALID, "given twice");
    bad = good, bad.end_of_text = "<|endoftext|>";
    refuse(&bad, GP_INVALID, "no token \"<|endoftext|>\"");
    bad = good, bad.file_tokens = (int64_t)1 << 31;
    refuse(&bad, GP_INVALID, "1 to 2147483647");
    bad = good, bad.threads = -1;
    refuse(&bad, GP_INVALID, "-1 threads");
    bad = good, bad.documents = (gp_documents)9;
    refuse(&bad, GP_INVALID, "kind 9");
    bad = good, bad.format = (gp_token_format)9;
    refuse(&bad, GP_INVALID, "format 9");
    bad = good, bad.documents = GP_DOCUMENT_JSON;
    refuse(&bad, GP_INVALID, "text': the line at byte 0 is not valid JSON");
    uint64_t known = 0;
    bad = good, bad.progress = stop, bad.user = &known;
    refuse(&bad, GP_INTERRUPTED, "interrupted after 3 bytes");
    assert_int_equal(known, 3);
    const char *empty = temporary_write_text(t, "empty", "");
    bad = good, bad.inputs = &empty;
    refuse(&bad, GP_INVALID, "no tokens to write");
    const char *json = temporary_write_text(t, "json", "{\"text\":\"a\"}\n{\"txt\":\"b\"}\n");
    bad = good, bad.inputs = &json, bad.documents = GP_DOCUMENT_JSON;
    refuse(&bad, GP_INVALID, "json': the line at byte 13 is no object with a text \"text\"");
    assert_int_equal(temporary_count(t), 3); /* no output is left */
    free(text);
    small_destroy(&s);
}

static void test_memory_failures(void **state) {
    temporary *t = *state;
    gp_tokenizer *tokenizer = create_bpe(t);
    const char *text = temporary_write_text(t, "text", "abcd abcd"), *out = temporary_path(t, "out.bin");
    gp_tokenize_options options = {
        .tokenizer = tokenizer, .inputs = &text, .input_count = 1, .output = out, .replace = true, .threads = 1};
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        gp_tokenize_result result = {.size = sizeof result};
        gp_allocation_fail_at(n);
        gp_status status = gp_tokenize(&options, &result);
        gp_allocation_fail_at(0);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        done = status == GP_OK;
        gp_tokenize_result_free(&result);
    }
    gp_tokenizer_destroy(tokenizer);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_threads), WITH_FOLDER(test_documents), WITH_FOLDER(test_inputs),
        WITH_FOLDER(test_shards),  WITH_FOLDER(test_formats),   WITH_FOLDER(test_large_vocabulary),
        WITH_FOLDER(test_plain),   WITH_FOLDER(test_failures),  WITH_FOLDER(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
