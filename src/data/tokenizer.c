/* The public functions of tokenizers: they check what every kind needs checked, and ask the table. */
#include "data/tokenizer.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/characters.h"
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
    case GP_TOKENIZER_BPE:
    case GP_TOKENIZER_WORDPIECE:
        return gp_error(GP_INVALID, "a %s tokenizer is not made from a text but loaded from its files",
                        gp_tokenizer_kind_name(kind));
    }
    return gp_error(GP_INVALID, "there is no tokenizer of kind %d", (int)kind);
}

void gp_tokenizer_destroy(gp_tokenizer *tokenizer) {
    if (tokenizer) tokenizer->table->destroy(tokenizer);
}

gp_tokenizer_kind gp_tokenizer_kind_of(const gp_tokenizer *tokenizer) {
    return tokenizer->table->kind;
}

int32_t gp_tokenizer_vocabulary(const gp_tokenizer *tokenizer) {
    return tokenizer->vocabulary;
}

int32_t gp_tokenizer_token(const gp_tokenizer *tokenizer, const char *text) {
    return text && *text ? tokenizer->table->find(tokenizer, text) : -1;
}

int32_t gp_tokenizer_end_of_text(const gp_tokenizer *tokenizer) {
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = gp_tokenizer_token(tokenizer, names[i]);
        if (id >= 0) return id;
    }
    return -1;
}

/* ---- encoding ---- */

gp_status gp_encoding_add(gp_encoding *encoding, const gp_tokenizer *tokenizer, const void *text, size_t bytes) {
    size_t before = encoding->ids.count;
    gp_status status = tokenizer->table->encode(tokenizer, encoding, text, bytes);
    if (status != GP_OK) encoding->ids.count = before;
    return status;
}

void gp_encoding_free(gp_encoding *encoding) {
    gp_ids_free(&encoding->ids);
    gp_buffer_free(&encoding->repaired);
    gp_buffer_free(&encoding->normal);
    gp_buffer_free(&encoding->work);
    gp_free(encoding->cache);
    *encoding = (gp_encoding){0};
}

static gp_status copy_ids(const gp_ids *from, int32_t *ids, size_t capacity) {
    if (from->count > capacity) {
        return gp_error(GP_INVALID, "the text has more than the %zu tokens that there is room for", capacity);
    }
    if (from->count > 0) memcpy(ids, from->list, from->count * sizeof *ids);
    return GP_OK;
}

gp_status gp_tokenizer_encode(const gp_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *ids,
                              size_t capacity, size_t *count) {
    gp_encoding encoding = {0};
    gp_status status = gp_encoding_add(&encoding, tokenizer, text, bytes);
    *count = encoding.ids.count;
    if (status == GP_OK && ids) status = copy_ids(&encoding.ids, ids, capacity);
    gp_encoding_free(&encoding);
    return status;
}

/* ---- decoding ---- */

static gp_status check_id(const gp_tokenizer *tokenizer, size_t place, int32_t id) {
    if (id >= 0 && id < tokenizer->vocabulary) return GP_OK;
    return gp_error(GP_INVALID, "token %zu is %" PRId32 ": 0 to %" PRId32 " are accepted", place, id,
                    tokenizer->vocabulary - 1);
}

gp_status gp_tokenizer_decode(const gp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                              size_t capacity, size_t *bytes) {
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t more;
        GP_TRY(check_id(tokenizer, i, ids[i]));
        GP_TRY(gp_tokenizer_decode_next(tokenizer, i > 0 ? ids[i - 1] : -1, ids[i], text ? text + *bytes : NULL,
                                        capacity - (text ? *bytes : 0), &more));
        *bytes += more;
    }
    return GP_OK;
}

size_t gp_text_whole(const char *text, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        const unsigned char *begin = (const unsigned char *)text + bytes - back;
        if ((*begin & 0xC0) == 0x80) continue;
        size_t length = *begin >= 0xF0 ? 4 : *begin >= 0xE0 ? 3 : 2;
        bool begins = *begin >= 0xC2 && *begin <= 0xF4;
        return begins && length > back && gp_utf8_invalid(begin, back) == back ? bytes - back : bytes;
    }
    return bytes;
}

gp_status gp_tokenizer_decode_next(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char *text,
                                   size_t capacity, size_t *bytes) {
    char scratch[4];
    *bytes = 0;
    GP_TRY(check_id(tokenizer, 0, id));
    if (before >= tokenizer->vocabulary || before < -1) return check_id(tokenizer, 0, before);
    gp_piece piece = tokenizer->table->piece(tokenizer, before, id, scratch);
    if (text && piece.bytes > capacity) {
        return gp_error(GP_INVALID,
                        "the text is longer than there is room for: %zu bytes are left, the next token takes %zu",
                        capacity, piece.bytes);
    }
    if (text && piece.bytes > 0) memcpy(text, piece.text, piece.bytes);
    *bytes = piece.bytes;
    return GP_OK;
}
