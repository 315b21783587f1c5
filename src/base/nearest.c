/* Edit distance with swaps (optimal string alignment) over three rows on the stack: words are short, and a message
 * about a mistake must not need memory. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { WORD_SIZE = 63 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static int lower(char letter) {
    return tolower((unsigned char)letter);
}

size_t gp_edit_distance(const char *a, const char *b) {
    size_t a_length = strnlen(a, WORD_SIZE), b_length = strnlen(b, WORD_SIZE);
    size_t rows[3][WORD_SIZE + 1] = {{0}};
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            row[j] = least(replaced, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_length];
}

void gp_nearest_consider(gp_nearest *nearest, const char *text, const char *candidate) {
    size_t distance = gp_edit_distance(text, candidate);
    if (nearest->word && distance >= nearest->distance) return;
    nearest->word = candidate;
    nearest->distance = distance;
}
