/* Small subword tokenizers for tests, as files. */
#ifndef GP_TESTS_SUBWORD_FILES_H
#define GP_TESTS_SUBWORD_FILES_H

#include "temporary.h"

#include <jansson.h>

#include "data/bpe.h"
#include "gpipe/data.h"

/* Numbers from a seed, for texts and merges. */
static inline uint32_t next_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline void write_json(temporary *t, const char *name, json_t *tree) {
    char *text = json_dumps(tree, 0);
    assert_non_null(text);
    temporary_write_text(t, name, text);
    free(text);
    json_decref(tree);
}

/* The spelling of bytes in a vocabulary. */
static inline size_t spell(const char *bytes, size_t count, char *name) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += gp_utf8_encode(gp_byte_symbol((unsigned char)bytes[i]), name + length);
    name[length] = '\0';
    return length;
}

enum { TINY_MERGES = 120, TINY_TOKEN = 24 };

typedef struct tiny_bpe {
    json_t *vocabulary, *merges;
    char tokens[256 + TINY_MERGES][TINY_TOKEN];
    size_t lengths[256 + TINY_MERGES];
    int left[TINY_MERGES], right[TINY_MERGES];
} tiny_bpe;

static inline int tiny_find(const tiny_bpe *tiny, int count, const char *token, size_t length) {
    for (int i = 0; i < count; i++) {
        if (tiny->lengths[i] == length && memcmp(tiny->tokens[i], token, length) == 0) return i;
    }
    return -1;
}

/* All bytes, and merges of bytes and of earlier merges, mostly over a few letters; "<|endoftext|>" at the end. */
static inline tiny_bpe *tiny_bpe_create(uint64_t seed) {
    static const char letters[] = "abcd   ..,'\n\n\xC3\xA9";
    tiny_bpe *tiny = calloc(1, sizeof *tiny);
    assert_non_null(tiny);
    tiny->vocabulary = json_object();
    tiny->merges = json_array();
    char name[3][2 * TINY_TOKEN + 1];
    for (int i = 0; i < 256; i++) {
        tiny->tokens[i][0] = (char)i;
        tiny->lengths[i] = 1;
        spell(tiny->tokens[i], 1, name[0]);
        json_object_set_new(tiny->vocabulary, name[0], json_integer(i));
    }
    for (int made = 0; made < TINY_MERGES;) {
        int parts[2];
        for (int p = 0; p < 2; p++) {
            bool merged = made > 0 && next_number(&seed) % 2;
            parts[p] = merged ? 256 + (int)(next_number(&seed) % (uint32_t)made)
                              : (unsigned char)letters[next_number(&seed) % (sizeof letters - 1)];
        }
        size_t left = tiny->lengths[parts[0]], right = tiny->lengths[parts[1]];
        char joined[2 * TINY_TOKEN];
        memcpy(joined, tiny->tokens[parts[0]], left);
        memcpy(joined + left, tiny->tokens[parts[1]], right);
        if (left + right > TINY_TOKEN || tiny_find(tiny, 256 + made, joined, left + right) >= 0) continue;
        int id = 256 + made;
        memcpy(tiny->tokens[id], joined, left + right);
        tiny->lengths[id] = left + right;
        tiny->left[made] = parts[0];
        tiny->right[made++] = parts[1];
        spell(joined, left + right, name[0]);
        spell(joined, left, name[1]);
        spell(joined + left, right, name[2]);
        json_object_set_new(tiny->vocabulary, name[0], json_integer(id));
        json_array_append_new(tiny->merges, json_sprintf("%s %s", name[1], name[2]));
    }
    json_object_set_new(tiny->vocabulary, "<|endoftext|>", json_integer(256 + TINY_MERGES));
    return tiny;
}

static inline void tiny_bpe_destroy(tiny_bpe *tiny) {
    json_decref(tiny->vocabulary);
    json_decref(tiny->merges);
    free(tiny);
}

/* vocab.json and merges.txt in the folder of the test. */
static inline void tiny_bpe_write_files(temporary *t, const tiny_bpe *tiny) {
    char text[TINY_MERGES * 120] = "#version: 0.2\n";
    for (size_t i = 0; i < json_array_size(tiny->merges); i++) {
        strcat(text, json_string_value(json_array_get(tiny->merges, i)));
        strcat(text, "\n");
    }
    temporary_write_text(t, "merges.txt", text);
    write_json(t, "vocab.json", json_incref(tiny->vocabulary));
}

/* A tokenizer.json; `pre_tokenizer` and `added` are taken over. */
static inline json_t *tiny_bpe_tree(const tiny_bpe *tiny, json_t *pre_tokenizer, json_t *added) {
    return json_pack("{s:s, s:o, s:n, s:o, s:{s:s, s:O, s:O}}", "version", "1.0", "added_tokens", added, "normalizer",
                     "pre_tokenizer", pre_tokenizer, "model", "type", "BPE", "vocab", tiny->vocabulary, "merges",
                     tiny->merges);
}

static inline json_t *added_token(int id, const char *content, bool left, bool right) {
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0, "lstrip",
                     left, "rstrip", right, "normalized", 0, "special", 1);
}

/* vocab.txt of WordPiece. */
static const char tiny_words[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\nsat\n.\n,\n!\na\nb\nc\n##a\n##b\n##c\n"
    "un\n##aff\n##able\n##aff##x\n世\n界\ni\n##\xCC\x87\nstrasse\nstraße\nmusee\nmusée\nᄀ\n"
    "##ᅡ\n##ᆨ\n$\n\xEF\xBC\x81\nx\n##x\n";

static inline gp_tokenizer *load_tokenizer(const char *path) {
    gp_tokenizer *tokenizer;
    gp_status status = gp_tokenizer_load(&tokenizer, path);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    return tokenizer;
}

static inline int32_t *encode_text(const gp_tokenizer *tokenizer, const char *text, size_t bytes, size_t *count) {
    gp_status status = gp_tokenizer_encode(tokenizer, text, bytes, NULL, 0, count);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    int32_t *ids = calloc(*count + 1, sizeof *ids);
    assert_non_null(ids);
    assert_int_equal(gp_tokenizer_encode(tokenizer, text, bytes, ids, *count, count), GP_OK);
    return ids;
}

/* A text of `bytes` bytes that meets what tokenizers look at: letters, blanks, line ends, digits, signs, characters of
 * several bytes, bytes that are no text, added tokens. */
static inline void random_text(uint64_t *state, char *text, size_t bytes) {
    static const char *const pieces[] = {"a",     "b",           "ab",       "abcd",     " ",
                                         "  ",    "\n",          "\r\n",     "\t",       "'s",
                                         "'ll",   "'S",          "1",        "23",       ".",
                                         ",",     "!?",          "é",        "世",       "界",
                                         "😀",     "\xC3",        "\xE4\xB8", "\xFF",     "<|endoftext|>",
                                         "<|end", "[MASK]",      "\u00a0",   "\u3000",   "İ",
                                         "각",    "the cat sat", "A",        "\xCC\x81", "\x1b",
                                         "x"};
    for (size_t at = 0; at < bytes;) {
        const char *piece = pieces[next_number(state) % (sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece);
        if (length > bytes - at) length = bytes - at;
        memcpy(text + at, piece, length);
        at += length;
    }
}

#endif
