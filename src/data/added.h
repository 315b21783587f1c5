/* Added tokens ("<|endoftext|>", "[MASK]"): found in the text before it is cut into words, the leftmost first, the
 * longest of those that begin at one place. */
#ifndef GP_DATA_ADDED_H
#define GP_DATA_ADDED_H

#include "data/unicode.h"
#include "data/vocabulary.h"

typedef struct gp_added {
    gp_pairs trie; /* (node, byte) to the next node, and the id + 1 of the token that ends there */
    uint32_t nodes;
    bool first[256]; /* bytes that a token begins with */
    int only_first;  /* the only such byte, or -1 */
    size_t longest;  /* bytes of the longest token */
} gp_added;

typedef struct gp_added_match {
    size_t begin, end; /* with the white space that the token takes */
    int32_t id;
} gp_added_match;

/* Of all tokens that are marked so. */
gp_status gp_added_create(gp_added *added, const gp_vocabulary *vocabulary);
/* Accepts a zeroed struct. */
void gp_added_free(gp_added *added);

/* The longest token that begins at `at`, -1 when there is none; `*end` is behind it. */
int32_t gp_added_at(const gp_added *added, const unsigned char *text, size_t bytes, size_t at, size_t *end);

/* The first match that begins at `from` or later; false when there is none. `text` is valid UTF-8. */
bool gp_added_find(const gp_added *added, const gp_vocabulary *vocabulary, const gp_unicode *unicode,
                   const unsigned char *text, size_t bytes, size_t from, gp_added_match *match);

#endif
