/* UTF-8, tokenizers there and back, and their file. */
#include "temporary.h"

#include "base/memory.h"
#include "data/utf8.h"
#include "gpipe/data.h"

/* Every code point, against its definition, and every text of up to three bytes decodes only as what encodes to it. */
static void test_utf8(void **state) {
    (void)state;
    for (uint32_t code = 0; code < GP_CODE_POINTS; code++) {
        char text[4];
        uint32_t back = 0xFFFFFFFF;
        size_t length = gp_utf8_encode(code, text);
        bool surrogate = code >= 0xD800 && code < 0xE000;
        assert_int_equal(gp_utf8_decode((unsigned char *)text, length, &back), surrogate ? 0 : length);
        assert_true(surrogate || back == code);
        if (length > 1) assert_int_equal(gp_utf8_decode((unsigned char *)text, length - 1, &back), 0);
    }
    for (uint32_t bits = 0; bits < 1 << 24; bits++) {
        unsigned char text[3] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16)};
        char again[4];
        uint32_t code;
        size_t length = gp_utf8_decode(text, 3, &code);
        if (length == 0) continue;
        if (gp_utf8_encode(code, again) != length || memcmp(again, text, length) != 0) fail();
    }
    static const char *const invalid[] = {"\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
                                          "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                          "\xff"};
    uint32_t code;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        assert_int_equal(gp_utf8_decode((const unsigned char *)invalid[i], strlen(invalid[i]), &code), 0);
}

static void check_there_and_back(const gp_tokenizer *tokenizer, const char *text, size_t tokens) {
    int32_t ids[100];
    char again[200];
    size_t count = 0, bytes = 0;
    assert_int_equal(gp_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &count), GP_OK);
    assert_int_equal(count, tokens);
    assert_int_equal(gp_tokenizer_encode(tokenizer, text, strlen(text), ids, tokens, &count), GP_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(ids[i] >= 0 && ids[i] < gp_tokenizer_vocabulary(tokenizer));
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, NULL, 0, &bytes), GP_OK);
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, again, bytes, &bytes), GP_OK);
    assert_memory_equal(again, text, bytes);
    if (tokens == 0) return;
    assert_int_equal(gp_tokenizer_encode(tokenizer, text, strlen(text), ids, tokens - 1, &count), GP_INVALID);
    assert_message_has(gp_error_message(), "room");
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, tokens, again, strlen(text) - 1, &bytes), GP_INVALID);
    assert_message_has(gp_error_message(), "room");
}

static const char *const sample = "Grüße, 世界! 😀\nab";

static void test_byte(void **state) {
    (void)state;
    gp_tokenizer *tokenizer;
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_BYTE, NULL), GP_OK);
    assert_int_equal(gp_tokenizer_vocabulary(tokenizer), 256);
    assert_int_equal(gp_tokenizer_kind_of(tokenizer), GP_TOKENIZER_BYTE);
    assert_string_equal(gp_tokenizer_kind_name(GP_TOKENIZER_BYTE), "byte");
    check_there_and_back(tokenizer, sample, strlen(sample));
    check_there_and_back(tokenizer, "", 0);
    check_there_and_back(tokenizer, "\xff\xfe", 2);
    char out[4];
    size_t bytes;
    assert_int_equal(gp_tokenizer_decode(tokenizer, (int32_t[]){256}, 1, out, 4, &bytes), GP_INVALID);
    assert_int_equal(gp_tokenizer_decode(tokenizer, (int32_t[]){-1}, 1, out, 4, &bytes), GP_INVALID);
    assert_message_has(gp_error_message(), "0 to 255");
    gp_tokenizer_destroy(tokenizer);
    gp_tokenizer_destroy(NULL);
}

static void test_char(void **state) {
    const char *path = temporary_write_text(*state, "corpus.txt", sample);
    gp_tokenizer *tokenizer;
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_CHAR, path), GP_OK);
    assert_int_equal(gp_tokenizer_vocabulary(tokenizer), 14);
    check_there_and_back(tokenizer, sample, 15);
    check_there_and_back(tokenizer, "ba", 2);
    /* Ids follow the order of the code points: newline, space, !, comma, G, a, b ... */
    int32_t ids[4];
    size_t count;
    assert_int_equal(gp_tokenizer_encode(tokenizer, "\na😀", 6, ids, 4, &count), GP_OK);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 5);
    assert_int_equal(ids[2], 13);
    assert_int_equal(gp_tokenizer_encode(tokenizer, "aé", 3, ids, 4, &count), GP_INVALID);
    assert_message_has(gp_error_message(), "'é' (U+00E9) at offset 1 is not among the 14");
    assert_int_equal(gp_tokenizer_encode(tokenizer, "\x1b", 1, ids, 4, &count), GP_INVALID);
    assert_message_has(gp_error_message(), "character U+001B at");
    assert_int_equal(gp_tokenizer_encode(tokenizer, "a\xe4", 2, ids, 4, &count), GP_INVALID);
    assert_message_has(gp_error_message(), "0xE4 at offset 1");
    gp_tokenizer_destroy(tokenizer);
    assert_int_equal(gp_tokenizer_create(&tokenizer, (gp_tokenizer_kind)9, path), GP_INVALID);
    assert_null(tokenizer);
}

static void test_file(void **state) {
    const char *corpus = temporary_write_text(*state, "corpus.txt", "Grüße \"quoted\" \\ 😀\x01\n");
    const char *path = temporary_path(*state, "tokenizer.json"), *again = temporary_path(*state, "again.json");
    for (int kind = 0; kind < 2; kind++) {
        gp_tokenizer *made, *loaded;
        assert_int_equal(gp_tokenizer_create(&made, (gp_tokenizer_kind)kind, corpus), GP_OK);
        assert_int_equal(gp_tokenizer_save(made, path), GP_OK);
        assert_int_equal(gp_tokenizer_load(&loaded, path), GP_OK);
        assert_int_equal(gp_tokenizer_kind_of(loaded), kind);
        assert_int_equal(gp_tokenizer_vocabulary(loaded), gp_tokenizer_vocabulary(made));
        assert_int_equal(gp_tokenizer_save(loaded, again), GP_OK);
        size_t a_bytes, b_bytes;
        char *a = temporary_read(path, &a_bytes), *b = temporary_read(again, &b_bytes);
        assert_string_equal(a, b);
        free(a);
        free(b);
        gp_tokenizer_destroy(made);
        gp_tokenizer_destroy(loaded);
    }
    assert_int_equal(temporary_count(*state), 3);
}

static void test_file_failures(void **state) {
    static const char *const cases[][2] = {
        {"", "not valid JSON"},
        {"[]", "\"format\""},
        {"{\"format\":\"gpipe tokenizer\"}", "\"version\""},
        {"{\"format\":\"gpipe tokenizer\",\"version\":2,\"kind\":\"byte\"}", "\"version\" is not 1"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1}", "neither \"char\" nor \"byte\""},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"bpe\"}", "neither"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"char\"}", "at least one character"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"char\",\"characters\":\"\"}", "at least one"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"char\",\"characters\":\"aab\"}", "ascending"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"char\",\"characters\":\"ba\"}", "ascending"},
        {"{\"format\":\"gpipe tokenizer\",\"version\":1,\"kind\":\"char\",\"characters\":\"\xff\"}", "not valid JSON"},
        {"{\"format\":\"gpipe tokenizer\",\"format\":1}", "duplicate"},
    };
    gp_tokenizer *tokenizer;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = temporary_write_text(*state, "t.json", cases[i][0]);
        assert_int_equal(gp_tokenizer_load(&tokenizer, path), GP_INVALID);
        assert_null(tokenizer);
        assert_message_has(gp_error_message(), cases[i][1]);
        assert_message_has(gp_error_message(), "t.json");
    }
    assert_int_equal(gp_tokenizer_load(&tokenizer, temporary_path(*state, "none.json")), GP_INVALID);
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_BYTE, NULL), GP_OK);
    assert_int_equal(gp_tokenizer_save(tokenizer, temporary_path(*state, "no/folder")), GP_IO);
    gp_tokenizer_destroy(tokenizer);
}

static void test_memory_failures(void **state) {
    const char *corpus = temporary_write_text(*state, "corpus.txt", sample);
    const char *path = temporary_path(*state, "t.json");
    for (uint64_t n = 1; n < 12; n++) {
        gp_tokenizer *tokenizer, *loaded;
        gp_allocation_fail_at(n);
        gp_status status = gp_tokenizer_create(&tokenizer, GP_TOKENIZER_CHAR, corpus);
        assert_int_equal(status == GP_OK, tokenizer != NULL);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        gp_allocation_fail_at(0);
        if (!tokenizer) continue;
        gp_allocation_fail_at(n - 6);
        status = gp_tokenizer_save(tokenizer, path);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
        gp_allocation_fail_at(0);
        assert_int_equal(gp_tokenizer_save(tokenizer, path), GP_OK);
        gp_allocation_fail_at(n - 6);
        status = gp_tokenizer_load(&loaded, path);
        assert_int_equal(status == GP_OK, loaded != NULL);
        gp_allocation_fail_at(0);
        gp_tokenizer_destroy(tokenizer);
        gp_tokenizer_destroy(loaded);
    }
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8), cmocka_unit_test(test_byte),     WITH_FOLDER(test_char),
        WITH_FOLDER(test_file),      WITH_FOLDER(test_file_failures), WITH_FOLDER(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
