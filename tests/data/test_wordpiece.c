/* WordPiece: normalisation as BERT does it, taking words apart, the files. */
#include "subword_files.h"

#include "data/wordpiece.h"

/* The tokens of a text, with blanks between them. */
static void check_tokens(const gp_tokenizer *tokenizer, const char *text, const char *expected) {
    const gp_vocabulary *vocabulary = &gp_subword_of(tokenizer)->vocabulary;
    char found[400] = "";
    size_t count;
    int32_t *ids = encode_text(tokenizer, text, strlen(text), &count);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) strcat(found, " ");
        strcat(found, gp_vocabulary_name(vocabulary, ids[i]));
    }
    free(ids);
    assert_string_equal(found, expected);
}

static void test_words(void **state) {
    gp_tokenizer *tokenizer = load_tokenizer(temporary_write_text(*state, "vocab.txt", tiny_words));
    static const char *const texts[][2] = {
        {"The cats sat.", "the cat ##s sat ."},
        {"  the\tcat\r\n\u00a0sat\u3000\u2028the ", "the cat sat the"},
        {"unaffable unaffx unaffy", "un ##aff ##able un ##aff ##x [UNK]"},
        {"the!cat,$x", "the ! cat , $ x"},
        {"the世界cat", "the 世 界 cat"},
        {"t\x01h\x7f\u200b\ufeff\ufffd\xFF"
         "e",
         "the"}, /* controls, formats, what is not UTF-8 */
        {"MUSÉE muse\u0301e Straße", "musee musee straße"},
        {"İ", "i"},
        {"각 가 가\u11A8", "ᄀ ##ᅡ ##ᆨ ᄀ ##ᅡ ᄀ ##ᅡ ##ᆨ"}, /* syllables come apart */
        {"\uFF01", "\uFF01"},
        {"a [MASK] [mask] [CLS]b", "a [MASK] [UNK] [UNK] [UNK] [CLS] b"},
        {"", ""},
        {"\u0301", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_tokens(tokenizer, texts[i][0], texts[i][1]);
    gp_tokenizer_destroy(tokenizer);
}

/* A word of more than 100 characters is not looked at. */
static void test_long_words(void **state) {
    gp_tokenizer *tokenizer = load_tokenizer(temporary_write_text(*state, "vocab.txt", tiny_words));
    char text[102];
    memset(text, 'a', sizeof text);
    size_t count;
    int32_t *ids = encode_text(tokenizer, text, 100, &count);
    assert_int_equal(count, 100);
    free(ids);
    ids = encode_text(tokenizer, text, 101, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ids[0], gp_tokenizer_token(tokenizer, "[UNK]"));
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

/* tokenizer_config.json and the normalizer of a tokenizer.json switch parts of it off. */
static void test_switches(void **state) {
    temporary *t = *state;
    temporary_write_text(t, "vocab.txt", tiny_words);
    temporary_write_text(t, "tokenizer_config.json", "{\"do_lower_case\": false, \"tokenize_chinese_chars\": false}");
    gp_tokenizer *tokenizer = load_tokenizer(t->folder);
    check_tokens(tokenizer, "The the musée musee 世界 世", "[UNK] the musée musee [UNK] 世");
    gp_tokenizer_destroy(tokenizer);
    temporary_write_text(t, "tokenizer_config.json", "{\"strip_accents\": false}");
    tokenizer = load_tokenizer(t->folder);
    check_tokens(tokenizer, "The MUSÉE İ", "the musée i ##\u0307");
    assert_int_equal(gp_tokenizer_save(tokenizer, temporary_path(t, "saved.json")), GP_OK);
    gp_tokenizer_destroy(tokenizer);
    tokenizer = load_tokenizer(temporary_path(t, "saved.json"));
    check_tokens(tokenizer, "The MUSÉE İ", "the musée i ##\u0307");
    gp_tokenizer_destroy(tokenizer);
}

static void test_text(void **state) {
    gp_tokenizer *tokenizer = load_tokenizer(temporary_write_text(*state, "vocab.txt", tiny_words));
    char text[100];
    size_t count, bytes;
    int32_t *ids = encode_text(tokenizer, "The cats, unaffable!", 20, &count);
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, text, sizeof text, &bytes), GP_OK);
    assert_int_equal(bytes, 20);
    assert_memory_equal(text, "the cats, unaffable!", 20);
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

static void refuse(const char *path, const char *message) {
    gp_tokenizer *tokenizer = (gp_tokenizer *)(uintptr_t)1;
    assert_int_equal(gp_tokenizer_load(&tokenizer, path), GP_INVALID);
    assert_null(tokenizer);
    assert_message_has(gp_error_message(), message);
}

static void test_failures(void **state) {
    static const char *const lists[][2] = {
        {"the\ncat\n", "\"[UNK]\", is not in the vocabulary"},
        {"[UNK]\n\xFF\n", "not UTF-8 at byte 6"},
        {"", "\"[UNK]\", is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        refuse(temporary_write_text(*state, "vocab.txt", lists[i][0]), lists[i][1]);
    refuse(temporary_write(*state, "vocab.txt", "[UNK]\na\0b\n", 10), "NUL byte in line 2");
    static const char *const trees[][2] = {
        {"{\"model\":{\"type\":\"WordPiece\"}}", "pre_tokenizer is \"?\""},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{"
         "\"type\":"
         "\"WordPiece\"}}",
         "normalizer is \"Lowercase\""},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"added_tokens\":[{\"id\":1,\"content\":\"x\","
         "\"normalized\":"
         "true}],\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}}}",
         "\"x\" is \"normalized\""},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
         "\"[UNK]\", is not"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"<u>\","
         "\"vocab\":{\"a\":0}}}",
         "\"<u>\", is not"},
    };
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        refuse(temporary_write_text(*state, "bad.json", trees[i][0]), trees[i][1]);
}

/* Lines without a name and names that come twice do not shift the ids; the last of a name is found. */
static void test_odd_lists(void **state) {
    const char *path = temporary_write_text(*state, "vocab.txt", "[UNK]\n\nthe \t\nthe\r\n\ncat");
    gp_tokenizer *tokenizer = load_tokenizer(path);
    assert_int_equal(gp_tokenizer_vocabulary(tokenizer), 6);
    assert_int_equal(gp_tokenizer_token(tokenizer, "the"), 3);
    assert_int_equal(gp_tokenizer_token(tokenizer, "cat"), 5);
    size_t count;
    int32_t *ids = encode_text(tokenizer, "the cat", 7, &count);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 5);
    free(ids);
    gp_tokenizer_destroy(tokenizer);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_words), WITH_FOLDER(test_long_words), WITH_FOLDER(test_switches),
        WITH_FOLDER(test_text),  WITH_FOLDER(test_failures),   WITH_FOLDER(test_odd_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
