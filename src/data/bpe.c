/* Text to words to bytes to tokens. Most words of a text have been met before: a cache of words, one for each thread
 * that encodes much, answers them without merging. */
#include "data/bpe.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

/* ---- bytes and the characters that stand for them ---- */

/* The bytes that do not stand for themselves: controls and the blank, what lies above ASCII up to the no-break space,
 * and the soft hyphen. The n-th of them stands for U+0100 + n. */
enum { FIRST_SYMBOL = 0x100, LOW = 0x21, MIDDLE = 0x7F, MIDDLE_END = 0xA1, HYPHEN = 0xAD };
enum { LOWS = LOW, MIDDLES = MIDDLE_END - MIDDLE };

uint32_t gp_byte_symbol(unsigned char byte) {
    if (byte < LOW) return FIRST_SYMBOL + byte;
    if (byte >= MIDDLE && byte < MIDDLE_END) return (uint32_t)FIRST_SYMBOL + LOWS + (byte - MIDDLE);
    return byte == HYPHEN ? FIRST_SYMBOL + LOWS + MIDDLES : byte;
}

int gp_symbol_byte(uint32_t symbol) {
    uint32_t number = symbol - FIRST_SYMBOL;
    if (symbol < FIRST_SYMBOL) return gp_byte_symbol((unsigned char)symbol) == symbol ? (int)symbol : -1;
    if (number < LOWS) return (int)number;
    if (number < LOWS + MIDDLES) return (int)(MIDDLE + number - LOWS);
    return number == LOWS + MIDDLES ? HYPHEN : -1;
}

/* ---- words met before ---- */

enum { WORDS = 1 << 14, WORD_BYTES = 30, WORD_IDS = 8, CACHED_FROM = 4096 };

typedef struct cached_word { /* a cache line */
    uint8_t bytes, count;    /* bytes = 0: empty */
    unsigned char text[WORD_BYTES];
    int32_t ids[WORD_IDS];
} cached_word;

struct gp_word_cache {
    cached_word words[WORDS];
};

static uint64_t load8(const unsigned char *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static uint64_t load4(const unsigned char *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* A hash of 1 to WORD_BYTES bytes. Nobody gains by collisions here: they only cost the time of merging. */
static size_t word_place(const unsigned char *word, size_t bytes) {
    uint64_t a, b = 0;
    if (bytes >= 8) {
        a = load8(word);
        b = load8(word + bytes - 8);
        if (bytes > 16) a ^= load8(word + 8) * 0x9FB21C651E98DF25u;
    } else if (bytes >= 4) {
        a = load4(word) | load4(word + bytes - 4) << 32;
    } else {
        a = (uint64_t)word[0] | (uint64_t)word[bytes / 2] << 8 | (uint64_t)word[bytes - 1] << 16;
    }
    return gp_hash_mix(a + bytes, b * 0xC2B2AE3D27D4EB4Fu) % WORDS;
}

static void open_cache(gp_encoding *encoding, const gp_tokenizer *tokenizer) {
    if (encoding->cache && encoding->cached == tokenizer) return;
    gp_free(encoding->cache);
    encoding->cache = gp_allocate(sizeof *encoding->cache); /* without memory for it, all is merged */
    encoding->cached = tokenizer;
}

/* ---- encoding ---- */

static gp_status unknown_byte(const gp_bpe *bpe, unsigned char byte) {
    return gp_error(GP_INVALID, "the text has the byte 0x%02X, for which the vocabulary of %" PRId32 " tokens has none",
                    byte, bpe->subword.tokenizer.vocabulary);
}

/* The token that is the whole word, -1 when there is none: looked up under the word's spelling in the file. */
static gp_status find_whole(const gp_bpe *bpe, gp_encoding *encoding, const unsigned char *word, size_t bytes,
                            int32_t *id) {
    gp_buffer *name = &encoding->normal;
    name->used = 0;
    GP_TRY(gp_buffer_reserve(name, 2 * bytes));
    for (size_t i = 0; i < bytes; i++)
        name->used += gp_utf8_encode(bpe->symbols[word[i]], (char *)name->bytes + name->used);
    *id = gp_vocabulary_find(&bpe->subword.vocabulary, (const char *)name->bytes, name->used);
    return GP_OK;
}

/* Appends the ids of a word. */
static gp_status merge_word(const gp_bpe *bpe, gp_encoding *encoding, const unsigned char *word, size_t bytes) {
    if (bpe->whole_words) {
        int32_t id;
        GP_TRY(find_whole(bpe, encoding, word, bytes, &id));
        if (id >= 0) return gp_ids_add(&encoding->ids, id);
    }
    GP_TRY(gp_ids_reserve(&encoding->ids, bytes));
    int32_t *ids = encoding->ids.list + encoding->ids.count;
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = bpe->byte_ids[word[i]];
        if (ids[i] < 0) return unknown_byte(bpe, word[i]);
    }
    size_t count = bytes;
    GP_TRY(gp_bpe_merge(&bpe->merges, ids, &count, &encoding->work));
    encoding->ids.count += count;
    return GP_OK;
}

static gp_status recall_word(const cached_word *known, gp_encoding *encoding) {
    GP_TRY(gp_ids_reserve(&encoding->ids, WORD_IDS));
    memcpy(encoding->ids.list + encoding->ids.count, known->ids, sizeof known->ids);
    encoding->ids.count += known->count;
    return GP_OK;
}

static gp_status encode_word(const gp_bpe *bpe, gp_encoding *encoding, const unsigned char *word, size_t bytes) {
    if (!encoding->cache || bytes > WORD_BYTES) return merge_word(bpe, encoding, word, bytes);
    cached_word *known = &encoding->cache->words[word_place(word, bytes)];
    if (known->bytes == bytes && memcmp(known->text, word, bytes) == 0) return recall_word(known, encoding);
    size_t before = encoding->ids.count;
    GP_TRY(merge_word(bpe, encoding, word, bytes));
    size_t count = encoding->ids.count - before;
    if (count > WORD_IDS) return GP_OK;
    known->bytes = (uint8_t)bytes;
    known->count = (uint8_t)count;
    memcpy(known->text, word, bytes);
    memcpy(known->ids, encoding->ids.list + before, count * sizeof *known->ids);
    return GP_OK;
}

static gp_status encode_words(const gp_bpe *bpe, gp_encoding *encoding, const unsigned char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t end = gp_split_end(bpe->pattern, bpe->subword.unicode, text, bytes, at);
        GP_TRY(encode_word(bpe, encoding, text + at, end - at));
        at = end;
    }
    return GP_OK;
}

/* A text that does not begin with a blank gets one, in a copy. */
static gp_status encode_prefixed(const gp_bpe *bpe, gp_encoding *encoding, const unsigned char *text, size_t bytes) {
    gp_buffer copy = {0};
    gp_status status = gp_buffer_add(&copy, " ", 1);
    if (status == GP_OK) status = gp_buffer_add(&copy, text, bytes);
    if (status == GP_OK) status = encode_words(bpe, encoding, copy.bytes, copy.used);
    gp_buffer_free(&copy);
    return status;
}

gp_status gp_bpe_encode_plain(const gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                              size_t bytes) {
    const gp_bpe *bpe = (const gp_bpe *)subword;
    if (bytes >= CACHED_FROM) open_cache(encoding, &subword->tokenizer);
    if (encoding->cached != &subword->tokenizer && encoding->cache) open_cache(encoding, &subword->tokenizer);
    bool prefixed = bpe->prefix_space && !encoding->continued && text[0] != ' ';
    return (prefixed ? encode_prefixed : encode_words)(bpe, encoding, text, bytes);
}

/* ---- the class ---- */

static void bpe_destroy(gp_tokenizer *tokenizer) {
    gp_bpe *bpe = (gp_bpe *)tokenizer;
    gp_subword_free(&bpe->subword);
    gp_pairs_free(&bpe->merges);
    gp_free(bpe->list);
    gp_free(bpe);
}

static gp_piece bpe_piece(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char scratch[4]) {
    (void)before;
    (void)scratch;
    const gp_vocabulary *vocabulary = &gp_subword_of(tokenizer)->vocabulary;
    return (gp_piece){gp_vocabulary_piece(vocabulary, id), vocabulary->tokens[id].piece_bytes};
}

const gp_tokenizer_class gp_bpe_class = {
    .kind = GP_TOKENIZER_BPE,
    .destroy = bpe_destroy,
    .encode = gp_subword_encode,
    .piece = bpe_piece,
    .find = gp_subword_find,
    .describe = gp_bpe_describe,
};
