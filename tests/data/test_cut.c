/* Texts cut where they may be cut: the parts' ids are those of the whole, for every tokenizer and any text. */
#include "subword_files.h"

#include "data/cut.h"

enum { TEXT_BYTES = 400, ROUNDS = 400 };

static json_t *byte_level(bool prefix, bool pattern) {
    return json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "use_regex", pattern);
}

static json_t *split_before(const char *pattern) {
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0, byte_level(false, false));
}

static gp_tokenizer *create_bpe(temporary *t, const tiny_bpe *tiny, json_t *pre_tokenizer) {
    int end = 256 + TINY_MERGES;
    json_t *added = json_pack("[o,o,o]", added_token(end, "<|endoftext|>", false, false),
                              added_token(end + 1, "b ab", true, true), added_token(end + 2, "'s\n", false, true));
    write_json(t, "tree.json", tiny_bpe_tree(tiny, pre_tokenizer, added));
    return load_tokenizer(temporary_path(t, "tree.json"));
}

/* Cuts at every place that is allowed at or behind random ones, and compares. */
static size_t check_cuts(const gp_tokenizer *tokenizer) {
    uint64_t state = 11;
    size_t cuts = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[TEXT_BYTES];
        size_t bytes = 2 + next_number(&state) % (TEXT_BYTES - 2);
        random_text(&state, text, bytes);
        size_t from = 1 + next_number(&state) % (bytes - 1);
        size_t at = gp_cut_text(tokenizer, (const unsigned char *)text, bytes, from);
        assert_in_range(at, from, bytes);
        if (at == bytes) continue;
        cuts++;
        gp_encoding whole = {0}, parts = {0};
        assert_int_equal(gp_encoding_add(&whole, tokenizer, text, bytes), GP_OK);
        assert_int_equal(gp_encoding_add(&parts, tokenizer, text, at), GP_OK);
        parts.continued = true;
        assert_int_equal(gp_encoding_add(&parts, tokenizer, text + at, bytes - at), GP_OK);
        assert_int_equal(parts.ids.count, whole.ids.count);
        assert_memory_equal(parts.ids.list, whole.ids.list, whole.ids.count * sizeof(int32_t));
        gp_encoding_free(&whole);
        gp_encoding_free(&parts);
    }
    return cuts;
}

static void test_cuts(void **state) {
    static const char later[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    tiny_bpe *tiny = tiny_bpe_create(4);
    gp_tokenizer *tokenizers[] = {
        create_bpe(*state, tiny, byte_level(false, true)),
        create_bpe(*state, tiny, byte_level(true, true)),
        create_bpe(*state, tiny, split_before(later)),
        load_tokenizer(temporary_write_text(*state, "vocab.txt", tiny_words)),
    };
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        assert_true(check_cuts(tokenizers[i]) > ROUNDS / 4); /* most texts can be cut */
        gp_tokenizer_destroy(tokenizers[i]);
    }
    gp_tokenizer *bytes;
    assert_int_equal(gp_tokenizer_create(&bytes, GP_TOKENIZER_BYTE, NULL), GP_OK);
    assert_true(check_cuts(bytes) == ROUNDS);
    gp_tokenizer_destroy(bytes);
    gp_tokenizer *whole = create_bpe(*state, tiny, byte_level(false, false)); /* the text is one word */
    assert_int_equal(check_cuts(whole), 0);
    gp_tokenizer_destroy(whole);
    tiny_bpe_destroy(tiny);
}

/* A character is never cut, with any tokenizer that knows them. */
static void test_characters(void **state) {
    gp_tokenizer *tokenizer;
    const char *path = temporary_write_text(*state, "corpus.txt", "aé世😀");
    assert_int_equal(gp_tokenizer_create(&tokenizer, GP_TOKENIZER_CHAR, path), GP_OK);
    static const unsigned char text[] = "aé世😀a";
    static const size_t expected[] = {0, 1, 3, 3, 6, 6, 6, 10, 10, 10, 10};
    for (size_t from = 1; from < 11; from++)
        assert_int_equal(gp_cut_text(tokenizer, text, 11, from), expected[from]);
    gp_tokenizer_destroy(tokenizer);
}

static void test_lines(void **state) {
    (void)state;
    static const unsigned char text[] = "one\r\ntwo\n \t\n\nthree";
    static const struct {
        size_t from, line, paragraph;
    } cases[] = {{1, 5, 12},   {5, 5, 12},   {6, 9, 12},   {9, 9, 12},
                 {10, 12, 13}, {12, 12, 13}, {13, 13, 18}, {14, 18, 18}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_cut_lines(text, 18, cases[i].from), cases[i].line);
        assert_int_equal(gp_cut_paragraphs(text, 18, cases[i].from), cases[i].paragraph);
    }
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_cuts),
        WITH_FOLDER(test_characters),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
