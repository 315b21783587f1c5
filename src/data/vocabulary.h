/* The tokens of a subword vocabulary: by their number and by their spelling in the file. */
#ifndef GP_DATA_VOCABULARY_H
#define GP_DATA_VOCABULARY_H

#include <stdbool.h>

#include "data/buffer.h"
#include "data/pairs.h"

typedef struct gp_token {
    size_t name;  /* where its spelling in the file lies among the bytes; a zero follows */
    size_t piece; /* where the text that it stands for lies */
    uint32_t name_bytes, piece_bytes;
    bool there;                     /* an id may be left out */
    bool added;                     /* looked for in the text before anything is cut (added.h) */
    bool strips_left, strips_right; /* and takes the white space beside it */
} gp_token;

typedef struct gp_vocabulary {
    gp_token *tokens;
    int32_t count;    /* the highest id + 1 */
    int32_t capacity; /* more ids are refused: a small file cannot ask for much memory */
    gp_buffer bytes;
    int32_t *places; /* a hash table of ids + 1 by name; 0 is empty */
    size_t mask;
    uint64_t seed;
} gp_vocabulary;

/* For a file that names `tokens` tokens. Ids a little beyond this number are accepted, since some may be left out. */
gp_status gp_vocabulary_create(gp_vocabulary *vocabulary, size_t tokens);
/* Accepts a zeroed struct. */
void gp_vocabulary_free(gp_vocabulary *vocabulary);

/* Adds a token; its piece is empty until it is set. Errors: GP_INVALID for an id out of range or with another name
 * already; GP_OUT_OF_MEMORY. A name that is there already means the new id from now on. */
gp_status gp_vocabulary_add(gp_vocabulary *vocabulary, int64_t id, const char *name, size_t bytes);
gp_status gp_vocabulary_set_piece(gp_vocabulary *vocabulary, int32_t id, const void *piece, size_t bytes);

/* -1 when there is none. */
int32_t gp_vocabulary_find(const gp_vocabulary *vocabulary, const char *name, size_t bytes);

static inline const char *gp_vocabulary_name(const gp_vocabulary *vocabulary, int32_t id) {
    return (const char *)vocabulary->bytes.bytes + vocabulary->tokens[id].name;
}

static inline const char *gp_vocabulary_piece(const gp_vocabulary *vocabulary, int32_t id) {
    return (const char *)vocabulary->bytes.bytes + vocabulary->tokens[id].piece;
}

#endif
