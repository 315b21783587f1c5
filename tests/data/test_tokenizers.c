/* What every kind of tokenizer has to do: one test for all entries of the table. */
#include "subword_files.h"

#include "base/memory.h"
#include "base/thread.h"
#include "data/tokenizer.h"

enum { TEXT_BYTES = 600 };

/* A text that all of them can express. */
static const char corpus[] = "the cats sat, unaffable! Strasse é 世界\n\nabcd a b 'll 12 <|endoftext|> [MASK] x";

static gp_tokenizer *create(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = NULL;
    if (kind == GP_TOKENIZER_BPE) {
        tiny_bpe *tiny = tiny_bpe_create(1);
        tiny_bpe_write_files(t, tiny);
        tiny_bpe_destroy(tiny);
        return load_tokenizer(temporary_path(t, "vocab.json"));
    }
    if (kind == GP_TOKENIZER_WORDPIECE) return load_tokenizer(temporary_write_text(t, "vocab.txt", tiny_words));
    const char *path = temporary_write_text(t, "corpus.txt", corpus);
    assert_int_equal(gp_tokenizer_create(&tokenizer, kind, path), GP_OK);
    return tokenizer;
}

static void check_kind(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind);
    assert_int_equal(gp_tokenizer_kind_of(tokenizer), kind);
    assert_true(gp_tokenizer_vocabulary(tokenizer) > 0);
    assert_int_equal(gp_tokenizer_token(tokenizer, "no such token in any of them"), -1);
    assert_int_equal(gp_tokenizer_token(tokenizer, ""), -1);
    gp_tokenizer_destroy(tokenizer);
}

/* Counting and encoding agree; too little room is an error and writes nothing beyond it. */
static void check_encoding(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind);
    size_t count, again;
    int32_t *ids = encode_text(tokenizer, corpus, strlen(corpus), &count);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++)
        assert_in_range(ids[i], 0, gp_tokenizer_vocabulary(tokenizer) - 1);
    int32_t guarded[4] = {-7, -7, -7, -7};
    assert_int_equal(gp_tokenizer_encode(tokenizer, corpus, strlen(corpus), guarded, 3, &again), GP_INVALID);
    assert_message_has(gp_error_message(), "room");
    assert_int_equal(guarded[3], -7);
    assert_int_equal(gp_tokenizer_encode(tokenizer, "", 0, NULL, 0, &again), GP_OK);
    assert_int_equal(again, 0);
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

/* Piece by piece comes the same text as at once; ids out of range are refused. */
static void check_decoding(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind);
    size_t count, bytes, at = 0, more;
    int32_t *ids = encode_text(tokenizer, corpus, strlen(corpus), &count);
    char whole[1000], pieces[1000];
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, whole, sizeof whole, &bytes), GP_OK);
    for (size_t i = 0; i < count; i++, at += more) {
        assert_int_equal(gp_tokenizer_decode_next(tokenizer, i > 0 ? ids[i - 1] : -1, ids[i], pieces + at,
                                                  sizeof pieces - at, &more),
                         GP_OK);
    }
    assert_int_equal(at, bytes);
    assert_memory_equal(whole, pieces, bytes);
    if (kind != GP_TOKENIZER_WORDPIECE) { /* which keeps neither case nor blanks */
        assert_int_equal(bytes, strlen(corpus));
        assert_memory_equal(whole, corpus, bytes);
    }
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, whole, bytes - 1, &more), GP_INVALID);
    assert_message_has(gp_error_message(), "room");
    int32_t beyond = gp_tokenizer_vocabulary(tokenizer);
    assert_int_equal(gp_tokenizer_decode(tokenizer, &beyond, 1, NULL, 0, &more), GP_INVALID);
    assert_int_equal(gp_tokenizer_decode_next(tokenizer, beyond, 0, NULL, 0, &more), GP_INVALID);
    assert_int_equal(gp_tokenizer_decode_next(tokenizer, -2, 0, NULL, 0, &more), GP_INVALID);
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

/* Saved and loaded it gives the same ids, and the same file again. */
static void check_file(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *made = create(t, kind);
    assert_int_equal(gp_tokenizer_save(made, temporary_path(t, "one.json")), GP_OK);
    gp_tokenizer *loaded = load_tokenizer(temporary_path(t, "one.json"));
    assert_int_equal(gp_tokenizer_save(loaded, temporary_path(t, "two.json")), GP_OK);
    assert_int_equal(gp_tokenizer_kind_of(loaded), kind);
    assert_int_equal(gp_tokenizer_vocabulary(loaded), gp_tokenizer_vocabulary(made));
    assert_int_equal(gp_tokenizer_end_of_text(loaded), gp_tokenizer_end_of_text(made));
    size_t a_count, b_count, a_bytes, b_bytes;
    int32_t *a = encode_text(made, corpus, strlen(corpus), &a_count);
    int32_t *b = encode_text(loaded, corpus, strlen(corpus), &b_count);
    assert_int_equal(a_count, b_count);
    assert_memory_equal(a, b, a_count * sizeof *a);
    char *one = temporary_read(temporary_path(t, "one.json"), &a_bytes);
    char *two = temporary_read(temporary_path(t, "two.json"), &b_bytes);
    assert_string_equal(one, two);
    free(one);
    free(two);
    free(a);
    free(b);
    gp_tokenizer_destroy(made);
    gp_tokenizer_destroy(loaded);
}

/* Any bytes are encoded or refused with a sentence. */
static void check_garbage(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind);
    uint64_t state = 7;
    for (int round = 0; round < 300; round++) {
        char text[64];
        size_t bytes = next_number(&state) % sizeof text, count;
        for (size_t i = 0; i < bytes; i++)
            text[i] = (char)next_number(&state);
        gp_status status = gp_tokenizer_encode(tokenizer, text, bytes, NULL, 0, &count);
        if (status != GP_OK) {
            assert_int_equal(status, GP_INVALID);
            assert_int_equal(kind, GP_TOKENIZER_CHAR);
        }
    }
    gp_tokenizer_destroy(tokenizer);
}

/* Many threads encode at once, each with an encoding that it keeps. */
typedef struct asker {
    const gp_tokenizer *tokenizer;
    const int32_t *expected;
    size_t count;
    bool same;
} asker;

static void ask(void *argument) {
    asker *a = argument;
    gp_encoding encoding = {0};
    a->same = true;
    for (int i = 0; i < 30 && a->same; i++) {
        encoding.ids.count = 0;
        a->same = gp_encoding_add(&encoding, a->tokenizer, corpus, strlen(corpus)) == GP_OK &&
                  encoding.ids.count == a->count &&
                  memcmp(encoding.ids.list, a->expected, a->count * sizeof *a->expected) == 0;
    }
    gp_encoding_free(&encoding);
}

static void check_threads(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind);
    asker askers[3];
    gp_thread *threads[3];
    size_t count;
    int32_t *ids = encode_text(tokenizer, corpus, strlen(corpus), &count);
    for (int i = 0; i < 3; i++) {
        askers[i] = (asker){tokenizer, ids, count, false};
        assert_int_equal(gp_thread_create(&threads[i], ask, &askers[i], 0, 0), GP_OK);
    }
    for (int i = 0; i < 3; i++) {
        gp_thread_join(threads[i]);
        assert_true(askers[i].same);
    }
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

/* Wherever memory runs out, loading and encoding end with that status and lose nothing. */
static void check_memory(temporary *t, gp_tokenizer_kind kind) {
    gp_tokenizer *tokenizer = create(t, kind), *loaded;
    const char *path = temporary_path(t, "saved.json");
    assert_int_equal(gp_tokenizer_save(tokenizer, path), GP_OK);
    bool done = false;
    for (uint64_t n = 1; !done; n += 1 + n / 16) {
        gp_allocation_fail_at(n);
        gp_status status = gp_tokenizer_load(&loaded, path);
        gp_allocation_fail_at(0);
        assert_int_equal(status == GP_OK, loaded != NULL);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        done = status == GP_OK;
        gp_tokenizer_destroy(loaded);
    }
    done = false;
    for (uint64_t n = 1; !done; n++) {
        size_t count;
        gp_allocation_fail_at(n);
        gp_status status = gp_tokenizer_encode(tokenizer, corpus, strlen(corpus), NULL, 0, &count);
        gp_allocation_fail_at(0);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        done = status == GP_OK;
    }
    gp_tokenizer_destroy(tokenizer);
}

/* What is held back is the beginning of a character and nothing else. */
static void test_whole_characters(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t whole;
    } cases[] = {
        {"", 0},
        {"a", 1},
        {"aé", 3},
        {"a\xC3", 1},
        {"世", 3},
        {"\xE4\xB8", 0},
        {"a\xE4", 1},
        {"😀", 4},
        {"\xF0\x9F\x98", 0},
        {"\xF0\x9F", 0},
        {"a\x80", 2},
        {"\x80\x80\x80", 3},
        {"\xC0", 1},
        {"\xF5\x80", 2},
        {"\xE0\x80", 2},
        {"\xED\xA0", 2},
        {"\xF0\x80", 2},
        {"a\xFF", 2},
        {"\xE4\xB8\x96\xE7", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(gp_text_whole(cases[i].text, strlen(cases[i].text)), cases[i].whole);
}

#define FOR_ALL(name)                                                                                                  \
    static void test_##name(void **state) {                                                                            \
        for (int kind = GP_TOKENIZER_CHAR; kind <= GP_TOKENIZER_WORDPIECE; kind++)                                     \
            check_##name(*state, (gp_tokenizer_kind)kind);                                                             \
    }
FOR_ALL(kind)
FOR_ALL(encoding)
FOR_ALL(decoding)
FOR_ALL(file)
FOR_ALL(garbage)
FOR_ALL(threads)
FOR_ALL(memory)

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_kind),     WITH_FOLDER(test_encoding),
        WITH_FOLDER(test_decoding), WITH_FOLDER(test_file),
        WITH_FOLDER(test_garbage),  WITH_FOLDER(test_threads),
        WITH_FOLDER(test_memory),   cmocka_unit_test(test_whole_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
