/* The tokens of a data set, by number: looked up in the mapped text where a byte is a token, else in a file of ids that
 * was written for it, or in files of ids that were there. */
#ifndef GP_DATA_TOKENS_H
#define GP_DATA_TOKENS_H

#include "data/corpus.h"
#include "data/token_files.h"
#include "data/tokenizer.h"

typedef struct gp_tokens {
    int64_t count;
    const gp_corpus *corpus; /* looked up in through `table` when `ids` is NULL */
    int32_t table[256];
    void *ids; /* uint16_t or uint32_t each, mapped */
    size_t id_bytes;
    gp_token_files files; /* used when there are any */
} gp_tokens;

/* The tokens of a corpus, which must outlive them. `characters` are its own; NULL for other than character tokenizers.
 * Errors: GP_INVALID for a character that the tokenizer lacks, GP_IO, GP_OUT_OF_MEMORY. */
gp_status gp_tokens_open(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer,
                         const gp_characters *characters);
/* The tokens of files; as gp_token_files_open. */
gp_status gp_tokens_open_files(gp_tokens *tokens, const char *pattern, int32_t vocabulary, int id_bytes);
/* Accepts a zeroed struct. */
void gp_tokens_close(gp_tokens *tokens);

/* Writes ids `first` to `first + count`, which must exist. Errors: GP_INVALID for an id of a file that is outside the
 * vocabulary. */
gp_status gp_tokens_read(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out);

/* Encodes a corpus into an unnamed temporary file, which becomes tokens->ids. `tokens->count` is what must come out, or
 * -1 when it is not known yet. */
gp_status gp_tokens_encode(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer);

#endif
