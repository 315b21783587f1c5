/* Cutting a text into the words that byte-pair encoding works on. The patterns are those of the published tokenizers,
 * written by hand: each is one walk over the text that never looks back. */
#ifndef GP_DATA_SPLIT_H
#define GP_DATA_SPLIT_H

#include "data/unicode.h"

typedef enum gp_split_pattern {
    GP_SPLIT_GPT2,        /* '(s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
    GP_SPLIT_THREE_DIGITS /* as of GPT-4 and Llama 3: a letter run takes any one character before it, digits by threes
                           */
    ,
    GP_SPLIT_ONE_DIGIT, /* as of Qwen 2: the same, digits one by one */
    GP_SPLIT_NOTHING    /* the whole text is one word */
} gp_split_pattern;

/* The end of the word that begins at `at` < `bytes`. `text` is valid UTF-8. */
size_t gp_split_end(gp_split_pattern pattern, const gp_unicode *unicode, const unsigned char *text, size_t bytes,
                    size_t at);

#endif
