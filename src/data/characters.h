/* The tokenizers of characters and of bytes. */
#ifndef GP_DATA_CHARACTERS_H
#define GP_DATA_CHARACTERS_H

#include "data/tokenizer.h"

typedef struct gp_char_tokenizer {
    gp_tokenizer tokenizer;
    uint32_t *codes;    /* the code points, ascending; an id is a place in the list */
    int32_t ascii[128]; /* ids of the first code points, -1 for unknown ones */
} gp_char_tokenizer;

/* The byte tokenizer. */
gp_status gp_tokenizer_create_byte(gp_tokenizer **tokenizer);
/* A character tokenizer of `count` ascending code points, which are copied. */
gp_status gp_tokenizer_create_char(gp_tokenizer **tokenizer, const uint32_t *codes, size_t count);
/* A character tokenizer of all code points that occur. */
gp_status gp_tokenizer_create_seen(gp_tokenizer **tokenizer, const gp_characters *characters);

/* The id of a code point, -1 when the character tokenizer lacks it. */
int32_t gp_char_tokenizer_id(const gp_char_tokenizer *tokenizer, uint32_t code);

static inline const gp_char_tokenizer *gp_char_tokenizer_of(const gp_tokenizer *tokenizer) {
    return (const gp_char_tokenizer *)tokenizer;
}

#endif
