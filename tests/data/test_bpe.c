/* Byte-pair encoding: merging against its definition, where the patterns cut, the files, GPT-2's own ids. */
#include "subword_files.h"

#include "data/buffer.h"

/* ---- merging ---- */

/* The definition: of all neighbours that can be merged the pair of the lowest rank, the leftmost of equals. */
static size_t merge_slowly(const tiny_bpe *tiny, int32_t *ids, size_t count) {
    for (;;) {
        int best = TINY_MERGES;
        size_t place = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            for (int m = 0; m < best; m++) {
                if (tiny->left[m] != ids[i] || tiny->right[m] != ids[i + 1]) continue;
                best = m;
                place = i;
            }
        }
        if (best == TINY_MERGES) return count;
        ids[place] = 256 + best;
        memmove(ids + place + 1, ids + place + 2, (count - place - 2) * sizeof *ids);
        count--;
    }
}

static void test_merging(void **state) {
    (void)state;
    uint64_t seed = 5;
    gp_buffer work = {0};
    for (uint64_t round = 0; round < 6; round++) {
        tiny_bpe *tiny = tiny_bpe_create(round);
        gp_pairs merges;
        assert_int_equal(gp_pairs_create(&merges, 4), GP_OK); /* it has to grow */
        for (int m = 0; m < TINY_MERGES; m++) {
            uint64_t key = gp_merge_key(tiny->left[m], tiny->right[m]);
            assert_int_equal(gp_pairs_set(&merges, key, (uint32_t)m, (uint32_t)(256 + m)), GP_OK);
        }
        for (size_t length = 0; length < 200; length += 1 + length / 12) {
            int32_t fast[200], slow[200];
            for (size_t i = 0; i < length; i++)
                fast[i] = slow[i] = (unsigned char)"abcd  '\n"[next_number(&seed) % 8];
            size_t count = length, expected = merge_slowly(tiny, slow, length);
            assert_int_equal(gp_bpe_merge(&merges, fast, &count, &work), GP_OK);
            assert_int_equal(count, expected);
            if (count > 0) assert_memory_equal(fast, slow, count * sizeof *fast);
        }
        gp_pairs_free(&merges);
        tiny_bpe_destroy(tiny);
    }
    gp_buffer_free(&work);
}

/* A word of a million letters takes a moment, not a day. */
static void test_long_words(void **state) {
    enum { BYTES = 1 << 20 };
    tiny_bpe *tiny = tiny_bpe_create(3);
    tiny_bpe_write_files(*state, tiny);
    gp_tokenizer *tokenizer = load_tokenizer(temporary_path(*state, "vocab.json"));
    char *text = malloc(BYTES), *again = malloc(BYTES);
    assert_true(text && again);
    uint64_t seed = 1;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = "abcd"[next_number(&seed) % 4];
    size_t count, bytes;
    int32_t *ids = encode_text(tokenizer, text, BYTES, &count);
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, again, BYTES, &bytes), GP_OK);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(text, again, BYTES);
    free(ids);
    free(text);
    free(again);
    gp_tokenizer_destroy(tokenizer);
    tiny_bpe_destroy(tiny);
}

/* With the cache of words and without it the ids are the same. */
static void test_cache(void **state) {
    enum { BYTES = 20000, PIECE = 1000 };
    tiny_bpe *tiny = tiny_bpe_create(3);
    tiny_bpe_write_files(*state, tiny);
    gp_tokenizer *tokenizer = load_tokenizer(temporary_path(*state, "vocab.json"));
    char *text = malloc(BYTES);
    assert_non_null(text);
    uint64_t seed = 9;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = "abcd '"[next_number(&seed) % 6];
    for (size_t at = PIECE - 1; at + 1 < BYTES; at += PIECE) {
        text[at] = 'a';
        text[at + 1] = ' ';
    }
    size_t count, done = 0;
    int32_t *ids = encode_text(tokenizer, text, BYTES, &count);
    for (size_t at = 0, end = PIECE; at < BYTES; at = end, end = end + PIECE < BYTES ? end + PIECE : BYTES) {
        size_t more;
        int32_t *part = encode_text(tokenizer, text + at, end - at, &more); /* too short for the cache */
        assert_true(done + more <= count);
        assert_memory_equal(part, ids + done, more * sizeof *part);
        done += more;
        free(part);
    }
    assert_int_equal(done, count);
    free(ids);
    free(text);
    gp_tokenizer_destroy(tokenizer);
    tiny_bpe_destroy(tiny);
}

/* ---- patterns ---- */

/* The words of a text, with bars between them. */
static void check_words(const gp_unicode *unicode, gp_split_pattern pattern, const char *expected) {
    char text[200], words[200];
    size_t bytes = 0, length = 0;
    for (const char *c = expected; *c; c++) {
        if (*c != '|') text[bytes++] = *c;
    }
    for (size_t at = 0; at < bytes;) {
        size_t end = gp_split_end(pattern, unicode, (const unsigned char *)text, bytes, at);
        assert_true(end > at && end <= bytes);
        if (at > 0) words[length++] = '|';
        memcpy(words + length, text + at, end - at);
        length += end - at;
        at = end;
    }
    words[length] = '\0';
    assert_string_equal(words, expected);
}

/* As the patterns of the publications cut them (checked with the Python package `regex`). */
static void test_patterns(void **state) {
    (void)state;
    static const char *const gpt2[] = {"Hello| world",
                                       "it|'s| we|'ll| I|'ve|'d",
                                       "it|'|S| we|'|LL",
                                       "don|'t",
                                       "abc|123456|abc",
                                       "a| 12|.|5",
                                       "a|   | b",
                                       "a|\n|\n|b",
                                       "a|  |\n|b",
                                       "a| \n ",
                                       "a|\t|b",
                                       "\t|é| x",
                                       "é| 世界|!?|x",
                                       " ",
                                       " x",
                                       "\n",
                                       "a|.|\n|\n|b",
                                       "a|!|\r\n\r|\n|b",
                                       "  \n  \n | b",
                                       "a|'",
                                       "'",
                                       "''|s",
                                       "'re|'",
                                       "'|r",
                                       "1234567| 89",
                                       "½Ⅷ²",
                                       "x|\u00a0|y",
                                       "x| \u3000| y",
                                       "(|x|)[|y|]",
                                       "_|x|_",
                                       "👍🏽| ok",
                                       "'|ſx",
                                       "a|\u0301|b",
                                       "\u200b|x"};
    static const char *const three[] = {"it|'S| we|'LL",
                                        "abc|123|456|abc",
                                        "a| |12|.|5",
                                        "a|   | b",
                                        "a|\n\n|b",
                                        "a|  \n|b",
                                        "a| \n| ",
                                        "a|\tb",
                                        "\té| x",
                                        "é| 世界|!?|x",
                                        " ",
                                        " x",
                                        "\n",
                                        "a|.\n\n|b",
                                        "a|!\r\n\r\n|b",
                                        "  \n  \n| | b",
                                        "a|'",
                                        "'",
                                        "''|s",
                                        "'re|'",
                                        "'r",
                                        "123|456|7| |89",
                                        "½Ⅷ²",
                                        "x|\u00a0y",
                                        "x| \u3000| y",
                                        "(x|)[|y|]",
                                        "_x|_",
                                        "👍🏽| ok",
                                        "'ſ|x",
                                        "a|\u0301b",
                                        "\u200bx"};
    static const char *const one[] = {"abc|1|2|3|4|5|6|abc", "a| |1|2|.|5", "½|Ⅷ|²"};
    static const char *const nothing[] = {"it's  one word!"};
    gp_unicode *unicode;
    assert_int_equal(gp_unicode_create(&unicode), GP_OK);
    for (size_t i = 0; i < sizeof gpt2 / sizeof *gpt2; i++)
        check_words(unicode, GP_SPLIT_GPT2, gpt2[i]);
    for (size_t i = 0; i < sizeof three / sizeof *three; i++)
        check_words(unicode, GP_SPLIT_THREE_DIGITS, three[i]);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        check_words(unicode, GP_SPLIT_ONE_DIGIT, one[i]);
    check_words(unicode, GP_SPLIT_NOTHING, nothing[0]);
    gp_free(unicode);
}

/* ---- files ---- */

static void check_same_ids(const gp_tokenizer *a, const gp_tokenizer *b, const char *text) {
    size_t a_count, b_count;
    int32_t *a_ids = encode_text(a, text, strlen(text), &a_count),
            *b_ids = encode_text(b, text, strlen(text), &b_count);
    assert_int_equal(a_count, b_count);
    assert_memory_equal(a_ids, b_ids, a_count * sizeof *a_ids);
    free(a_ids);
    free(b_ids);
}

static json_t *byte_level(bool prefix, bool pattern) {
    return json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "use_regex", pattern);
}

static gp_tokenizer *load_tree(temporary *t, json_t *tree) {
    write_json(t, "tree.json", tree);
    return load_tokenizer(temporary_path(t, "tree.json"));
}

/* The folder, either of its two files, and a tokenizer.json of the same: merges as texts and as pairs. */
static void test_files(void **state) {
    static const char text[] = "abcd ab'cd  \n dcba <|endoftext|>\xC3\xA9 \xFF";
    temporary *t = *state;
    tiny_bpe *tiny = tiny_bpe_create(2);
    tiny_bpe_write_files(t, tiny);
    gp_tokenizer *folder = load_tokenizer(t->folder), *merges = load_tokenizer(temporary_path(t, "merges.txt"));
    check_same_ids(folder, merges, text);
    int32_t end = 256 + TINY_MERGES;
    assert_int_equal(gp_tokenizer_vocabulary(folder), end + 1);
    assert_int_equal(gp_tokenizer_end_of_text(folder), end);
    assert_int_equal(gp_tokenizer_token(folder, "a"), 'a');
    json_t *added = json_pack("[o]", added_token(end, "<|endoftext|>", false, false));
    gp_tokenizer *json = load_tree(t, tiny_bpe_tree(tiny, byte_level(false, true), json_incref(added)));
    check_same_ids(folder, json, text);
    json_t *tree = tiny_bpe_tree(tiny, byte_level(false, true), added), *pairs = json_array();
    for (size_t i = 0; i < json_array_size(tiny->merges); i++) {
        char left[200], right[200];
        assert_int_equal(sscanf(json_string_value(json_array_get(tiny->merges, i)), "%199s %199s", left, right), 2);
        json_array_append_new(pairs, json_pack("[s,s]", left, right));
    }
    json_object_set_new(json_object_get(tree, "model"), "merges", pairs);
    gp_tokenizer *paired = load_tree(t, tree);
    check_same_ids(folder, paired, text);
    gp_tokenizer_destroy(folder);
    gp_tokenizer_destroy(merges);
    gp_tokenizer_destroy(json);
    gp_tokenizer_destroy(paired);
    tiny_bpe_destroy(tiny);
}

/* A blank is put before a text, and before what follows an added token, unless there is one. */
static void test_prefix_space(void **state) {
    tiny_bpe *tiny = tiny_bpe_create(2);
    int end = 256 + TINY_MERGES;
    json_t *added = json_pack("[o]", added_token(end, "<|endoftext|>", false, false));
    gp_tokenizer *plain = load_tree(*state, tiny_bpe_tree(tiny, byte_level(false, true), json_incref(added)));
    gp_tokenizer *prefixed = load_tree(*state, tiny_bpe_tree(tiny, byte_level(true, true), added));
    static const char *const texts[][2] = {
        {"ab cd", " ab cd"}, {" ab", " ab"}, {"\nab", " \nab"}, {"a<|endoftext|>b", " a<|endoftext|> b"}, {"", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t a_count, b_count;
        int32_t *a = encode_text(prefixed, texts[i][0], strlen(texts[i][0]), &a_count);
        int32_t *b = encode_text(plain, texts[i][1], strlen(texts[i][1]), &b_count);
        assert_int_equal(a_count, b_count);
        assert_memory_equal(a, b, a_count * sizeof *a);
        free(a);
        free(b);
    }
    gp_tokenizer_destroy(plain);
    gp_tokenizer_destroy(prefixed);
    tiny_bpe_destroy(tiny);
}

static void check_ids(const gp_tokenizer *tokenizer, const char *text, const int32_t *expected, size_t count) {
    size_t found;
    int32_t *ids = encode_text(tokenizer, text, strlen(text), &found);
    assert_int_equal(found, count);
    assert_memory_equal(ids, expected, count * sizeof *ids);
    free(ids);
}

/* Added tokens: the leftmost, then the longest; some take the white space beside them. */
static void test_added_tokens(void **state) {
    tiny_bpe *tiny = tiny_bpe_create(2);
    int end = 256 + TINY_MERGES;
    json_t *added =
        json_pack("[o,o,o,o,o]", added_token(end, "<|endoftext|>", false, false),
                  added_token(end + 1, "<|endoftext|>x", false, false), added_token(end + 2, "<l>", true, false),
                  added_token(end + 3, "<r>", false, true), added_token(end + 4, "two words", false, false));
    gp_tokenizer *tokenizer = load_tree(*state, tiny_bpe_tree(tiny, byte_level(false, true), added));
    assert_int_equal(gp_tokenizer_vocabulary(tokenizer), end + 5);
    check_ids(tokenizer, "<|endoftext|>", (int32_t[]){end}, 1);
    check_ids(tokenizer, "<|endoftext|>x<|endoftext|>y", (int32_t[]){end + 1, end, 'y'}, 3);
    check_ids(tokenizer, "<|endoftext|<|endoftext|>",
              (int32_t[]){'<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', end}, 13);
    check_ids(tokenizer, "y \n\u3000<l> y", (int32_t[]){'y', end + 2, ' ', 'y'}, 4);
    check_ids(tokenizer, "y <r>\u3000 \ny", (int32_t[]){'y', ' ', end + 3, 'y'}, 4);
    check_ids(tokenizer, "<r>  <l>", (int32_t[]){end + 3, end + 2}, 2);
    check_ids(tokenizer, "two wordstwo words", (int32_t[]){end + 4, end + 4}, 2);
    char text[40];
    size_t bytes;
    assert_int_equal(gp_tokenizer_decode(tokenizer, (int32_t[]){end + 4, 'y'}, 2, text, sizeof text, &bytes), GP_OK);
    assert_int_equal(bytes, 10);
    assert_memory_equal(text, "two wordsy", 10);
    gp_tokenizer_destroy(tokenizer);
    tiny_bpe_destroy(tiny);
}

/* A vocabulary without some of the bytes: text that has them is refused. */
static void test_missing_bytes(void **state) {
    temporary_write_text(*state, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    temporary_write_text(*state, "merges.txt", "a b\n");
    gp_tokenizer *tokenizer = load_tokenizer(temporary_path(*state, "vocab.json"));
    check_ids(tokenizer, "abba", (int32_t[]){2, 1, 0}, 3);
    size_t count;
    assert_int_equal(gp_tokenizer_encode(tokenizer, "abc", 3, NULL, 0, &count), GP_INVALID);
    assert_message_has(gp_error_message(), "byte 0x63, for which the vocabulary of 3 tokens has none");
    assert_int_equal(gp_tokenizer_end_of_text(tokenizer), -1);
    gp_tokenizer_destroy(tokenizer);
}

static void refuse(const char *path, const char *message) {
    gp_tokenizer *tokenizer = (gp_tokenizer *)(uintptr_t)1;
    gp_status status = gp_tokenizer_load(&tokenizer, path);
    if (status != GP_INVALID) print_error("expected: %s\n", message);
    assert_int_equal(status, GP_INVALID);
    assert_null(tokenizer);
    assert_message_has(gp_error_message(), message);
}

#define MODEL(more)                                                                                                    \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":"       \
    "2}" more "}}"

static void test_json_failures(void **state) {
    static const char *const cases[][2] = {
        {"{\"model\":{}}", "type \"?\": BPE and WordPiece are accepted"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "type \"Unigram\""},
        {"{\"model\":{\"type\":\"BPE\"}}", "pre_tokenizer is neither"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"BPE\"}}", "pre_tokenizer is neither"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
         "\"pattern\":{\"Regex\":\"(a+)+b\"}},{\"type\":\"ByteLevel\",\"use_regex\":false}]},\"model\":{\"type\":"
         "\"BPE\"}}",
         "pattern \"(a+)+b\" is not among those"},
        {"{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\"}}", "normalizer is \"NFC\""},
        {"{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix \"</w>\""},
        {"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true}}", "byte_fallback"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1}}", "dropout"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":[]}}", "vocabulary is not"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "vocabulary is not"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"1\"}}}",
         "no integer"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "id -1"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2147483647}}}",
         "id 2147483647: for so many tokens 0 to"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":1}}}",
         "\"a\" and \"b\" have the same id 1"},
        {MODEL(""), "\"merges\" are not a list"},
        {MODEL(",\"merges\":[1]"), "merge 1 is neither"},
        {MODEL(",\"merges\":[[\"a\"]]"), "merge 1 is neither"},
        {MODEL(",\"merges\":[[\"a\",\"\"]]"), "merge 1 is neither"},
        {MODEL(",\"merges\":[\"a b\",\"ab\"]"), "merge 2 is \"ab\": two tokens"},
        {MODEL(",\"merges\":[\"a b c\"]"), "merge 1 is \"a b c\""},
        {MODEL(",\"merges\":[\"b a\"]"), "merge 1 has \"ba\", which is not in the vocabulary"},
        {MODEL(",\"merges\":[\"a c\"]"), "merge 1 has \"c\""},
        {MODEL(",\"merges\":[]},\"added_tokens\":{\"a\":1}"), "\"added_tokens\" are not a list"},
        {MODEL(",\"merges\":[]},\"added_tokens\":[{\"id\":5}]"), "lacks a \"content\""},
        {MODEL(",\"merges\":[]},\"added_tokens\":[{\"id\":5,\"content\":\"a\"}]"),
         "has the id 5, and 0 in the vocabulary"},
        {MODEL(",\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]"), "have the same id 1"},
        {MODEL(",\"merges\":[]},\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"single_word\":true}]"), "single_word"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "nested deeper"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        char *extra = strstr(text, "]},\"added_tokens\""); /* the model ends before, not behind it */
        if (extra) text[strlen(text) - 1] = '\0';
        refuse(temporary_write_text(*state, "bad.json", text), cases[i][1]);
        assert_message_has(gp_error_message(), "bad.json");
    }
}

static void test_file_failures(void **state) {
    temporary *t = *state;
    refuse(t->folder, "has no tokenizer");
    refuse(temporary_path(t, "none"), "none' could not be opened");
    temporary_write_text(t, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    refuse(t->folder, "merges.txt' could not be opened");
    static const char *const merges[][2] = {{"ab\n", "merge 1 is \"ab\""},    {"a b\na  b\n", "merge 2 is \"a  b\""},
                                            {" b\n", "merge 1 is \" b\""},    {"a \n", "merge 1 is \"a \""},
                                            {"\xFF\xFE b\n", "merge 1 has "}, {"#version\na\tb\n", "merge 1 is"}};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        temporary_write_text(t, "merges.txt", merges[i][0]);
        refuse(t->folder, merges[i][1]);
        assert_message_has(gp_error_message(), "vocab.json' with '");
    }
    temporary_write_text(t, "merges.txt", "#version: 0.2\r\n\na b\r\n\n");
    gp_tokenizer_destroy(load_tokenizer(t->folder));
    temporary_write_text(t, "vocab.json", "{");
    refuse(t->folder, "vocab.json' cannot be used: it is not valid JSON");
}

/* ---- GPT-2 ---- */

static void test_gpt2(void **state) {
    (void)state;
    const char *folder = getenv("GPIPE_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/gpt2-tokenizer", folder ? folder : "");
    if (!folder || access(path, R_OK) != 0) {
        print_message("skipped: GPIPE_DATA names no folder with gpt2-tokenizer\n");
        skip();
    }
    gp_tokenizer *tokenizer = load_tokenizer(path);
    assert_int_equal(gp_tokenizer_vocabulary(tokenizer), 50257);
    assert_int_equal(gp_tokenizer_end_of_text(tokenizer), 50256);
    /* The ids of the package `tokenizers`. */
    check_ids(tokenizer, "Hello world", (int32_t[]){15496, 995}, 2);
    check_ids(tokenizer, "<|endoftext|>It's 2024!", (int32_t[]){50256, 1026, 338, 48609, 0}, 5);
    check_ids(tokenizer, "\xF0\x9F\x98\x80 \xFF", (int32_t[]){47249, 222, 20543}, 3);
    gp_tokenizer_destroy(tokenizer);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merging),  WITH_FOLDER(test_long_words),    WITH_FOLDER(test_cache),
        cmocka_unit_test(test_patterns), WITH_FOLDER(test_files),         WITH_FOLDER(test_prefix_space),
        WITH_FOLDER(test_added_tokens),  WITH_FOLDER(test_missing_bytes), WITH_FOLDER(test_json_failures),
        WITH_FOLDER(test_file_failures), cmocka_unit_test(test_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
