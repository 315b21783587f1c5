/* Characters and bytes as tokens. */
#include "data/characters.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/tokenizer_file.h"
#include "data/utf8.h"

/* ---- bytes ---- */

static void byte_destroy(gp_tokenizer *tokenizer) {
    gp_free(tokenizer);
}

static gp_status byte_encode(const gp_tokenizer *tokenizer, gp_encoding *encoding, const unsigned char *text,
                             size_t bytes) {
    (void)tokenizer;
    GP_TRY(gp_ids_reserve(&encoding->ids, bytes));
    for (size_t i = 0; i < bytes; i++)
        encoding->ids.list[encoding->ids.count++] = text[i];
    return GP_OK;
}

static gp_piece byte_piece(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char scratch[4]) {
    (void)tokenizer;
    (void)before;
    scratch[0] = (char)id;
    return (gp_piece){scratch, 1};
}

static int32_t byte_find(const gp_tokenizer *tokenizer, const char *text) {
    (void)tokenizer;
    return text[1] ? -1 : (unsigned char)text[0];
}

static char *describe(gp_tokenizer_kind kind, const char *characters) {
    json_t *object = json_pack("{s:s, s:i, s:s}", "format", GP_TOKENIZER_FORMAT, "version", GP_TOKENIZER_VERSION,
                               "kind", gp_tokenizer_kind_name(kind));
    bool made = object && (!characters || json_object_set_new(object, "characters", json_string(characters)) == 0);
    if (made) return gp_json_describe(object);
    json_decref(object);
    return NULL;
}

static char *byte_describe(const gp_tokenizer *tokenizer) {
    (void)tokenizer;
    return describe(GP_TOKENIZER_BYTE, NULL);
}

static const gp_tokenizer_class byte_class = {
    .kind = GP_TOKENIZER_BYTE,
    .destroy = byte_destroy,
    .encode = byte_encode,
    .piece = byte_piece,
    .find = byte_find,
    .describe = byte_describe,
};

gp_status gp_tokenizer_create_byte(gp_tokenizer **tokenizer) {
    *tokenizer = gp_allocate(sizeof **tokenizer);
    if (!*tokenizer) return GP_OUT_OF_MEMORY;
    **tokenizer = (gp_tokenizer){&byte_class, 256};
    return GP_OK;
}

/* ---- characters ---- */

static void char_destroy(gp_tokenizer *tokenizer) {
    gp_free(gp_char_tokenizer_of(tokenizer)->codes);
    gp_free(tokenizer);
}

int32_t gp_char_tokenizer_id(const gp_char_tokenizer *tokenizer, uint32_t code) {
    if (code < 128) return tokenizer->ascii[code];
    int32_t low = 0, high = tokenizer->tokenizer.vocabulary;
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

/* Reads the token at `at` and returns its length; 0 with the error set. */
static size_t next_character(const gp_char_tokenizer *tokenizer, const unsigned char *text, size_t bytes, size_t at,
                             int32_t *id) {
    uint32_t code = 0;
    size_t length = gp_utf8_decode(text + at, bytes - at, &code);
    if (length == 0) {
        gp_error(GP_INVALID, "the text is not UTF-8: byte 0x%02X at offset %zu", text[at], at);
        return 0;
    }
    *id = gp_char_tokenizer_id(tokenizer, code);
    if (*id >= 0) return length;
    char name[32];
    gp_error(GP_INVALID, "the character %s at offset %zu is not among the %" PRId32 " of the vocabulary",
             gp_character_format(code, name), at, tokenizer->tokenizer.vocabulary);
    return 0;
}

static gp_status char_encode(const gp_tokenizer *tokenizer, gp_encoding *encoding, const unsigned char *text,
                             size_t bytes) {
    GP_TRY(gp_ids_reserve(&encoding->ids, bytes));
    for (size_t at = 0; at < bytes;) {
        size_t length =
            next_character(gp_char_tokenizer_of(tokenizer), text, bytes, at, &encoding->ids.list[encoding->ids.count]);
        if (length == 0) return GP_INVALID;
        encoding->ids.count++;
        at += length;
    }
    return GP_OK;
}

static gp_piece char_piece(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char scratch[4]) {
    (void)before;
    return (gp_piece){scratch, gp_utf8_encode(gp_char_tokenizer_of(tokenizer)->codes[id], scratch)};
}

static int32_t char_find(const gp_tokenizer *tokenizer, const char *text) {
    uint32_t code;
    size_t length = gp_utf8_decode((const unsigned char *)text, strlen(text), &code);
    return length == 0 || text[length] ? -1 : gp_char_tokenizer_id(gp_char_tokenizer_of(tokenizer), code);
}

/* The vocabulary as one text, in order. */
static char *char_describe(const gp_tokenizer *tokenizer) {
    char *text = gp_allocate_array((size_t)tokenizer->vocabulary + 1, 4);
    if (!text) return NULL;
    size_t bytes = 0;
    for (int32_t i = 0; i < tokenizer->vocabulary; i++)
        bytes += gp_utf8_encode(gp_char_tokenizer_of(tokenizer)->codes[i], text + bytes);
    char *description = describe(GP_TOKENIZER_CHAR, text);
    gp_free(text);
    return description;
}

static const gp_tokenizer_class char_class = {
    .kind = GP_TOKENIZER_CHAR,
    .destroy = char_destroy,
    .encode = char_encode,
    .piece = char_piece,
    .find = char_find,
    .describe = char_describe,
};

gp_status gp_tokenizer_create_char(gp_tokenizer **tokenizer, const uint32_t *codes, size_t count) {
    *tokenizer = NULL;
    gp_char_tokenizer *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->tokenizer = (gp_tokenizer){&char_class, (int32_t)count};
    made->codes = gp_allocate_array(count, sizeof *made->codes);
    if (!made->codes) {
        gp_tokenizer_destroy(&made->tokenizer);
        return GP_OUT_OF_MEMORY;
    }
    for (size_t c = 0; c < 128; c++)
        made->ascii[c] = -1;
    for (size_t i = 0; i < count; i++) {
        made->codes[i] = codes[i];
        if (codes[i] < 128) made->ascii[codes[i]] = (int32_t)i;
    }
    *tokenizer = &made->tokenizer;
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
