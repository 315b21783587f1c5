/* The tokens of a corpus, by number: looked up in the mapped text where a byte is a token, else in a file of ids. */
#ifndef GP_DATA_TOKENS_H
#define GP_DATA_TOKENS_H

#include "data/corpus.h"
#include "data/tokenizer.h"

typedef struct gp_tokens {
    int64_t count;
    const gp_corpus *corpus; /* looked up in through `table` when `ids` is NULL */
    int32_t table[256];
    void *ids; /* uint16_t or uint32_t each, mapped */
    size_t id_bytes;
} gp_tokens;

/* The corpus must outlive the tokens; `characters` are its own, NULL for the byte tokenizer. Errors: GP_INVALID for a
 * character that the tokenizer lacks, GP_IO, GP_OUT_OF_MEMORY. */
gp_status gp_tokens_open(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer,
                         const gp_characters *characters);
/* Accepts a zeroed struct. */
void gp_tokens_close(gp_tokens *tokens);

/* Writes ids `first` to `first + count`, which must exist. */
void gp_tokens_read(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out);

#endif
