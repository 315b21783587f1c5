/* What byte-pair encoding and WordPiece have in common: a vocabulary, and tokens that are looked for before the text is
 * cut. */
#ifndef GP_DATA_SUBWORD_H
#define GP_DATA_SUBWORD_H

#include "data/added.h"
#include "data/tokenizer.h"

typedef struct gp_subword {
    gp_tokenizer tokenizer;
    gp_vocabulary vocabulary;
    gp_added added;
    gp_unicode *unicode;
    char *source; /* the tokenizer.json that it was read from; NULL when it was read from other files */

    /* Appends the ids of valid UTF-8 without added tokens. */
    gp_status (*encode_plain)(const struct gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                              size_t bytes);
} gp_subword;

static inline const gp_subword *gp_subword_of(const gp_tokenizer *tokenizer) {
    return (const gp_subword *)tokenizer;
}

/* After the vocabulary is filled: the tables made of it. */
gp_status gp_subword_finish(gp_subword *subword);
void gp_subword_free(gp_subword *subword);

/* Functions of their classes. */
gp_status gp_subword_encode(const gp_tokenizer *tokenizer, gp_encoding *encoding, const unsigned char *text,
                            size_t bytes);
int32_t gp_subword_find(const gp_tokenizer *tokenizer, const char *text);

#endif
