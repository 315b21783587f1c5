/* Inside the room: what a tokenizer is made of. */
#ifndef GP_DATA_TOKENIZER_H
#define GP_DATA_TOKENIZER_H

#include "data/corpus.h"
#include "gpipe/data.h"

struct gp_tokenizer {
    gp_tokenizer_kind kind;
    int32_t vocabulary;
    uint32_t *codes;    /* char: the code points, ascending; an id is a place in the list */
    int32_t ascii[128]; /* char: ids of the first code points, -1 for unknown ones */
};

/* The byte tokenizer. */
gp_status gp_tokenizer_create_byte(gp_tokenizer **tokenizer);
/* A character tokenizer of `count` ascending code points, which are copied. */
gp_status gp_tokenizer_create_char(gp_tokenizer **tokenizer, const uint32_t *codes, size_t count);
/* A character tokenizer of all code points that occur. */
gp_status gp_tokenizer_create_seen(gp_tokenizer **tokenizer, const gp_characters *characters);

/* The id of a code point, -1 when a character tokenizer lacks it. */
int32_t gp_tokenizer_id(const gp_tokenizer *tokenizer, uint32_t code);

#endif
