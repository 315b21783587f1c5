/* What the table of characters is made of (unicode.c); the numbers are in unicode_tables.c, which a tool writes. */
#ifndef GP_DATA_UNICODE_TABLES_H
#define GP_DATA_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Code points from first to last. */
typedef struct gp_code_range {
    uint32_t first, last;
} gp_code_range;

/* first, first + step, ... last: each becomes itself + distance. */
typedef struct gp_code_step {
    uint32_t first, last, step;
    int32_t distance;
} gp_code_step;

/* A code point and the one to three that it is taken apart into; marks that are removed are left out. */
typedef struct gp_code_parts {
    uint32_t code;
    uint32_t parts[3];
} gp_code_parts;

typedef struct gp_code_ranges {
    const gp_code_range *list;
    size_t count;
} gp_code_ranges;

typedef struct gp_unicode_tables {
    gp_code_ranges letters, numbers, spaces; /* \p{L}, \p{N}, \s of regular expressions */
    gp_code_ranges removed, blanks, punctuation, marks;
    struct {
        const gp_code_step *list;
        size_t count;
    } lower;
    struct {
        const gp_code_parts *list; /* ascending */
        size_t count;
    } parts;
} gp_unicode_tables;

extern const gp_unicode_tables gp_unicode_tables_all;

#endif
