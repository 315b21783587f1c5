/* WordPiece as BERT uses it (Devlin et al., arXiv 1810.04805): normalised words, each taken apart from the left into
 * the longest tokens there are. */
#ifndef GP_DATA_WORDPIECE_H
#define GP_DATA_WORDPIECE_H

#include "data/subword.h"

typedef struct gp_wordpiece {
    gp_subword subword;
    bool cleans;           /* takes controls away, makes every white space a blank */
    bool chinese;          /* ideographs are words of their own */
    bool strips;           /* accents are taken away */
    bool lowers;           /* lower case */
    int32_t unknown;       /* for a word that no tokens make up */
    int64_t most;          /* characters of a word that is looked at */
    char *prefix;          /* of a token that continues a word: "##" */
    gp_pairs trie;         /* (node, byte) to the next node, and the id + 1 of the token that ends there */
    uint32_t nodes;        /* the root is 0 */
    uint32_t continuation; /* the node behind the prefix; UINT32_MAX: no token has it */
} gp_wordpiece;

extern const gp_tokenizer_class gp_wordpiece_class;

gp_status gp_wordpiece_encode_plain(const gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                                    size_t bytes);

/* After vocabulary, prefix and unknown token are set: the trie, and what tokens look like in a text. */
gp_status gp_wordpiece_finish(gp_wordpiece *wordpiece);

/* The class's description: a tokenizer.json. */
char *gp_wordpiece_describe(const gp_tokenizer *tokenizer);

#endif
