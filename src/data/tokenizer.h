/* Inside the room: the table of functions behind gp_tokenizer, and what encoding works with. */
#ifndef GP_DATA_TOKENIZER_H
#define GP_DATA_TOKENIZER_H

#include "data/buffer.h"
#include "data/corpus.h"
#include "gpipe/data.h"

struct gp_word_cache;

/* What one thread encodes texts with, kept from one text to the next; starts zeroed. A tokenizer itself is never
 * changed by encoding. */
typedef struct gp_encoding {
    gp_ids ids;
    bool plain;     /* added tokens are ordinary text */
    bool continued; /* the text is not the beginning of a document */
    gp_buffer repaired, normal;
    size_t replaced;             /* places that were not UTF-8, counted over all texts */
    struct gp_word_cache *cache; /* words met before; NULL until a long text comes */
    const gp_tokenizer *cached;  /* whose */
    gp_buffer work;
} gp_encoding;

/* The text that an id adds. */
typedef struct gp_piece {
    const char *text; /* the tokenizer's, or `scratch` */
    size_t bytes;
} gp_piece;

/* A kind of tokenizer. All but `destroy` are called from any number of threads at once. */
typedef struct gp_tokenizer_class {
    gp_tokenizer_kind kind;

    /* Frees the tokenizer, also a half-built one. */
    void (*destroy)(gp_tokenizer *tokenizer);

    /* Appends the ids of a text to encoding->ids. Any bytes may come. Errors: GP_INVALID for text that the vocabulary
     * cannot express, GP_OUT_OF_MEMORY. */
    gp_status (*encode)(const gp_tokenizer *tokenizer, gp_encoding *encoding, const unsigned char *text, size_t bytes);

    /* What `id` (within the vocabulary) adds to a text whose last id is `before`, -1 at its beginning. */
    gp_piece (*piece)(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char scratch[4]);

    /* The id of a token with this spelling, -1 when there is none. */
    int32_t (*find)(const gp_tokenizer *tokenizer, const char *text);

    /* The text of its file, freed with gp_free; NULL when memory is out. */
    char *(*describe)(const gp_tokenizer *tokenizer);
} gp_tokenizer_class;

/* What every tokenizer starts with. */
struct gp_tokenizer {
    const gp_tokenizer_class *table;
    int32_t vocabulary;
};

/* Appends the ids of a text to encoding->ids, which is left as it was when this fails. */
gp_status gp_encoding_add(gp_encoding *encoding, const gp_tokenizer *tokenizer, const void *text, size_t bytes);
/* Accepts a zeroed struct. */
void gp_encoding_free(gp_encoding *encoding);

#endif
