/* What tokenizers ask of a character: its class, its lower case, what it is made of. Fixed tables (unicode_tables.c)
 * and not those of a library of the system, so that a text has the same ids on every machine. */
#ifndef GP_DATA_UNICODE_H
#define GP_DATA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "data/utf8.h"
#include "gpipe/status.h"

enum {
    GP_IS_LETTER = 1,       /* \p{L} */
    GP_IS_NUMBER = 2,       /* \p{N} */
    GP_IS_SPACE = 4,        /* \s */
    GP_IS_REMOVED = 8,      /* BERT takes it away: controls, formats, private use, U+FFFD */
    GP_IS_BLANK = 16,       /* BERT makes a blank of it */
    GP_IS_PUNCTUATION = 32, /* BERT makes it a word of its own */
    GP_IS_MARK = 64,        /* a non-spacing mark, an accent */
    GP_CHANGES = 128        /* it has a lower case or is made of several code points */
};

typedef struct gp_unicode {
    uint8_t flags[GP_CODE_POINTS];
} gp_unicode;

/* Spreads the tables out. Freed with gp_free; read by any number of threads. */
gp_status gp_unicode_create(gp_unicode **unicode);

/* Simple lower case; the code point itself where there is none. Turkish dotted I is the caller's. */
uint32_t gp_unicode_lower(uint32_t code);

/* The canonical decomposition without its non-spacing marks; returns the number of parts, 1 (the code point itself)
 * where there is none. Not for marks. */
size_t gp_unicode_parts(uint32_t code, uint32_t parts[3]);

#endif
