/* Byte-pair encoding over bytes (Sennrich et al., arXiv 1508.07909; Radford et al., "Language models are unsupervised
 * multitask learners", 2019). */
#ifndef GP_DATA_BPE_H
#define GP_DATA_BPE_H

#include "data/split.h"
#include "data/subword.h"

typedef struct gp_merge {
    int32_t left, right;
} gp_merge;

typedef struct gp_bpe {
    gp_subword subword;
    gp_split_pattern pattern;
    bool prefix_space;     /* a blank is put before a text that does not begin with one */
    bool whole_words;      /* a word that is a token is not merged together */
    int32_t byte_ids[256]; /* -1: the vocabulary lacks the byte */
    uint32_t symbols[256]; /* the characters that stand for bytes in the file */
    gp_pairs merges;       /* gp_merge_key to rank and new id */
    gp_merge *list;        /* the merges by rank */
    size_t count;
} gp_bpe;

static inline uint64_t gp_merge_key(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* Merges neighbours, the lowest rank first and the leftmost of equals, until none can be merged. In place: `*count` ids
 * become fewer. Errors: GP_INVALID for more than 2^31 ids, GP_OUT_OF_MEMORY. */
gp_status gp_bpe_merge(const gp_pairs *merges, int32_t *ids, size_t *count, gp_buffer *work);

/* The character that stands for a byte in vocab.json: printable bytes for themselves, others from U+0100 on. */
uint32_t gp_byte_symbol(unsigned char byte);
/* The byte that a character stands for, -1 for none. */
int gp_symbol_byte(uint32_t symbol);

extern const gp_tokenizer_class gp_bpe_class;

/* The class's description: a tokenizer.json. */
char *gp_bpe_describe(const gp_tokenizer *tokenizer);

gp_status gp_bpe_encode_plain(const gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                              size_t bytes);

#endif
