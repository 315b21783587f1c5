/* Where a text may be cut so that its parts, encoded one by one, give the ids of the whole: this is what lets several
 * threads encode one text with the same result for any number of them. */
#ifndef GP_DATA_CUT_H
#define GP_DATA_CUT_H

#include "data/tokenizer.h"

/* The first place at or behind `from` (> 0) where one document may be cut; `bytes` when there is none. */
size_t gp_cut_text(const gp_tokenizer *tokenizer, const unsigned char *text, size_t bytes, size_t from);

/* The same between documents: behind the line that ends at or behind `from`; behind a blank line there. */
size_t gp_cut_lines(const unsigned char *text, size_t bytes, size_t from);
size_t gp_cut_paragraphs(const unsigned char *text, size_t bytes, size_t from);

/* The end of the line that begins at `at`, behind its line end; `*end` is before it (and before a carriage return). */
size_t gp_line_end(const unsigned char *text, size_t bytes, size_t at, size_t *end);

/* Whether there is nothing but blanks. */
bool gp_line_is_blank(const unsigned char *line, size_t bytes);

#endif
