/* Texts that grow, and memory that is freed all at once: what the program builds its messages and trees with. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "gpipe/status.h"

/* Memory of one owner, freed as a whole. Start with a zeroed struct. */
typedef struct cli_arena {
    struct cli_arena_block *blocks;
} cli_arena;

/* Zeroed memory that lives as long as the arena; NULL (with the thread's message set) when there is none left. */
void *cli_arena_take(cli_arena *arena, size_t bytes);
char *cli_arena_copy(cli_arena *arena, const char *text, size_t length);
char *cli_arena_format(cli_arena *arena, const char *format, ...) GP_PRINTF(2, 3);
void cli_arena_free(cli_arena *arena);

/* A text that grows. Start with a zeroed struct; after a failure it stays what it was and `failed` is true. */
typedef struct cli_text {
    char *text; /* NULL while nothing was added */
    size_t length, capacity;
    bool failed;
} cli_text;

void cli_text_add(cli_text *text, const char *format, ...) GP_PRINTF(2, 3);
void cli_text_add_bytes(cli_text *text, const char *bytes, size_t length);
/* Appends a whole text file of at most `most` bytes. Errors: GP_INVALID when it cannot be read, is empty, larger, or
 * has zero bytes; GP_OUT_OF_MEMORY. */
gp_status cli_text_read(cli_text *text, const char *path, size_t most);
void cli_text_free(cli_text *text);

/* The words of a help text broken into lines of at most `width` columns, each after the first behind `indent` blanks;
 * the first is written where the text ends. */
void cli_text_add_wrapped(cli_text *text, const char *words, size_t indent, size_t width);

/* Insertions, deletions, replacements and swaps of neighbours that make one word of the other; the first 63 characters
 * of either count. */
size_t cli_edit_distance(const char *a, const char *b);

#endif
