/* The known word that is nearest to an unknown one: what messages about misspelt keys name. */
#ifndef GP_BASE_NEAREST_H
#define GP_BASE_NEAREST_H

#include <stddef.h>

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other; case counts nothing.
 * Only the first 63 characters of either are looked at. */
size_t gp_edit_distance(const char *a, const char *b);

/* The nearest candidate so far; start with a zeroed struct. */
typedef struct gp_nearest {
    const char *word; /* NULL: there was no candidate */
    size_t distance;
} gp_nearest;

/* Keeps `candidate` when it is nearer to `text` than all before it. */
void gp_nearest_consider(gp_nearest *nearest, const char *text, const char *candidate);

#endif
