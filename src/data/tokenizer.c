/* Tokenizers: making them, and text to ids and back. */
#include "data/tokenizer.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/utf8.h"

const char *gp_tokenizer_kind_name(gp_tokenizer_kind kind) {
    switch (kind) {
#define KIND_NAME(name, word, meaning)                                                                                 \
    case name:                                                                                                         \
        return word;
        GP_TOKENIZERS(KIND_NAME)
#undef KIND_NAME
    }
    return "unknown";
}

gp_status gp_tokenizer_create_byte(gp_tokenizer **tokenizer) {
    *tokenizer = gp_allocate(sizeof **tokenizer);
    if (!*tokenizer) return GP_OUT_OF_MEMORY;
    (*tokenizer)->kind = GP_TOKENIZER_BYTE;
    (*tokenizer)->vocabulary = 256;
    return GP_OK;
}

gp_status gp_tokenizer_create_char(gp_tokenizer **tokenizer, const uint32_t *codes, size_t count) {
    *tokenizer = NULL;
    gp_tokenizer *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->kind = GP_TOKENIZER_CHAR;
    made->vocabulary = (int32_t)count;
    made->codes = gp_allocate_array(count, sizeof *made->codes);
    if (!made->codes) {
        gp_tokenizer_destroy(made);
        return GP_OUT_OF_MEMORY;
    }
    for (size_t c = 0; c < 128; c++)
        made->ascii[c] = -1;
    for (size_t i = 0; i < count; i++) {
        made->codes[i] = codes[i];
        if (codes[i] < 128) made->ascii[codes[i]] = (int32_t)i;
    }
    *tokenizer = made;
    return GP_OK;
}

gp_status gp_tokenizer_create_seen(gp_tokenizer **tokenizer, const gp_characters *characters) {
    *tokenizer = NULL;
    size_t count = 0;
    for (uint32_t code = 0; code < GP_CODE_POINTS; code++)
        count += gp_characters_have(characters, code);
    uint32_t *codes = gp_allocate_array(count, sizeof *codes);
    if (!codes) return GP_OUT_OF_MEMORY;
    size_t next = 0;
    for (uint32_t code = 0; code < GP_CODE_POINTS; code++) {
        if (gp_characters_have(characters, code)) codes[next++] = code;
    }
    gp_status status = gp_tokenizer_create_char(tokenizer, codes, count);
    gp_free(codes);
    return status;
}

static gp_status create_from_corpus(gp_tokenizer **tokenizer, const char *pattern) {
    gp_corpus corpus;
    GP_TRY(gp_corpus_open(&corpus, pattern));
    gp_characters *characters = gp_allocate(sizeof *characters);
    gp_status status = characters ? gp_corpus_scan(&corpus, characters) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = gp_tokenizer_create_seen(tokenizer, characters);
    gp_free(characters);
    gp_corpus_close(&corpus);
    return status;
}

gp_status gp_tokenizer_create(gp_tokenizer **tokenizer, gp_tokenizer_kind kind, const char *corpus) {
    *tokenizer = NULL;
    switch (kind) {
    case GP_TOKENIZER_BYTE:
        return gp_tokenizer_create_byte(tokenizer);
    case GP_TOKENIZER_CHAR:
        return create_from_corpus(tokenizer, corpus);
    }
    return gp_error(GP_INVALID, "there is no tokenizer of kind %d", (int)kind);
}

void gp_tokenizer_destroy(gp_tokenizer *tokenizer) {
    if (!tokenizer) return;
    gp_free(tokenizer->codes);
    gp_free(tokenizer);
}

gp_tokenizer_kind gp_tokenizer_kind_of(const gp_tokenizer *tokenizer) {
    return tokenizer->kind;
}

int32_t gp_tokenizer_vocabulary(const gp_tokenizer *tokenizer) {
    return tokenizer->vocabulary;
}

int32_t gp_tokenizer_id(const gp_tokenizer *tokenizer, uint32_t code) {
    if (code < 128) return tokenizer->ascii[code];
    int32_t low = 0, high = tokenizer->vocabulary;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (tokenizer->codes[middle] == code) return middle;
        if (tokenizer->codes[middle] < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

/* Reads one token at `at` and returns its length; 0 with the error set. */
static size_t encode_next(const gp_tokenizer *tokenizer, const unsigned char *text, size_t bytes, size_t at,
                          int32_t *id) {
    if (tokenizer->kind == GP_TOKENIZER_BYTE) {
        *id = text[at];
        return 1;
    }
    uint32_t code = 0;
    size_t length = gp_utf8_decode(text + at, bytes - at, &code);
    if (length == 0) {
        gp_error(GP_INVALID, "the text is not UTF-8: byte 0x%02X at offset %zu", text[at], at);
        return 0;
    }
    *id = gp_tokenizer_id(tokenizer, code);
    if (*id >= 0) return length;
    char name[32];
    gp_error(GP_INVALID, "the character %s at offset %zu is not among the %" PRId32 " of the vocabulary",
             gp_character_format(code, name), at, tokenizer->vocabulary);
    return 0;
}

gp_status gp_tokenizer_encode(const gp_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *ids,
                              size_t capacity, size_t *count) {
    *count = 0;
    for (size_t at = 0; at < bytes; (*count)++) {
        int32_t id;
        size_t length = encode_next(tokenizer, (const unsigned char *)text, bytes, at, &id);
        if (length == 0) return GP_INVALID;
        if (ids && *count == capacity) {
            return gp_error(GP_INVALID, "the text has more than the %zu tokens that there is room for", capacity);
        }
        if (ids) ids[*count] = id;
        at += length;
    }
    return GP_OK;
}

gp_status gp_tokenizer_decode(const gp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                              size_t capacity, size_t *bytes) {
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= tokenizer->vocabulary) {
            return gp_error(GP_INVALID, "token %zu is %" PRId32 ": 0 to %" PRId32 " are accepted", i, ids[i],
                            tokenizer->vocabulary - 1);
        }
        char piece[4] = {(char)ids[i]};
        size_t length = tokenizer->kind == GP_TOKENIZER_BYTE ? 1 : gp_utf8_encode(tokenizer->codes[ids[i]], piece);
        if (text && length > capacity - *bytes) {
            return gp_error(GP_INVALID, "the text is longer than the %zu bytes that there is room for", capacity);
        }
        if (text) memcpy(text + *bytes, piece, length);
        *bytes += length;
    }
    return GP_OK;
}
