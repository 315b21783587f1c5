/* Tokens by number without loading them. */
#include "data/tokens.h"

#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/utf8.h"

/* Whether every character that occurs has an id. */
static gp_status check_known(const gp_corpus *corpus, const gp_tokenizer *tokenizer, const gp_characters *characters) {
    for (uint32_t code = 0; code < GP_CODE_POINTS; code++) {
        if (gp_characters_have(characters, code) && gp_char_tokenizer_id(gp_char_tokenizer_of(tokenizer), code) < 0) {
            return gp_corpus_unknown_character(corpus, code, tokenizer->vocabulary);
        }
    }
    return GP_OK;
}

static gp_status open_characters(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer,
                                 const gp_characters *characters) {
    GP_TRY(check_known(corpus, tokenizer, characters));
    tokens->count = characters->count;
    if (!characters->ascii) return gp_tokens_encode(tokens, corpus, tokenizer);
    const int32_t *ascii = gp_char_tokenizer_of(tokenizer)->ascii;
    for (int byte = 0; byte < 256; byte++) /* a byte that does not occur may have no id: 0 keeps the table in range */
        tokens->table[byte] = byte < 128 && ascii[byte] >= 0 ? ascii[byte] : 0;
    return GP_OK;
}

gp_status gp_tokens_open(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer,
                         const gp_characters *characters) {
    *tokens = (gp_tokens){.corpus = corpus, .count = (int64_t)corpus->bytes};
    for (int byte = 0; byte < 256; byte++)
        tokens->table[byte] = byte;
    switch (gp_tokenizer_kind_of(tokenizer)) {
    case GP_TOKENIZER_BYTE:
        return GP_OK;
    case GP_TOKENIZER_CHAR:
        return open_characters(tokens, corpus, tokenizer, characters);
    case GP_TOKENIZER_BPE:
    case GP_TOKENIZER_WORDPIECE:
        break;
    }
    tokens->count = -1;
    return gp_tokens_encode(tokens, corpus, tokenizer);
}

gp_status gp_tokens_open_files(gp_tokens *tokens, const char *pattern, int32_t vocabulary, int id_bytes) {
    *tokens = (gp_tokens){0};
    GP_TRY(gp_token_files_open(&tokens->files, pattern, vocabulary, id_bytes));
    tokens->count = tokens->files.tokens;
    return GP_OK;
}

void gp_tokens_close(gp_tokens *tokens) {
    if (tokens->ids) munmap(tokens->ids, (size_t)tokens->count * tokens->id_bytes);
    gp_token_files_close(&tokens->files);
    *tokens = (gp_tokens){0};
}

static void look_up(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out) {
    while (count > 0) {
        const gp_corpus_file *file = gp_corpus_file_at(tokens->corpus, (uint64_t)first);
        const unsigned char *text = file->map.data + ((uint64_t)first - file->begin);
        int64_t there = (int64_t)(file->begin + file->map.bytes) - first;
        int64_t piece = count < there ? count : there;
        for (int64_t i = 0; i < piece; i++)
            out[i] = tokens->table[text[i]];
        first += piece;
        count -= piece;
        out += piece;
    }
}

gp_status gp_tokens_read(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out) {
    if (tokens->files.count > 0) return gp_token_files_read(&tokens->files, first, count, out);
    if (!tokens->ids) {
        look_up(tokens, first, count, out);
    } else if (tokens->id_bytes == 2) {
        const uint16_t *ids = (const uint16_t *)tokens->ids + first;
        for (int64_t i = 0; i < count; i++)
            out[i] = ids[i];
    } else {
        memcpy(out, (const int32_t *)tokens->ids + first, (size_t)count * sizeof *out);
    }
    return GP_OK;
}
