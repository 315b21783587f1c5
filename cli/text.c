/* Growing texts, an arena, and the distance between two words (for messages that name the nearest known one). */
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

enum { BLOCK = 16 * 1024, WORD = 64 };

typedef struct cli_arena_block {
    struct cli_arena_block *next;
    size_t used, size;
    max_align_t memory[];
} cli_arena_block;

static cli_arena_block *add_block(cli_arena *arena, size_t bytes) {
    size_t size = bytes > BLOCK ? bytes : BLOCK;
    if (size > SIZE_MAX - sizeof(cli_arena_block)) return NULL;
    cli_arena_block *block = calloc(1, sizeof *block + size);
    if (!block) return NULL;
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *cli_arena_take(cli_arena *arena, size_t bytes) {
    const size_t unit = sizeof(max_align_t);
    if (bytes > SIZE_MAX - unit) bytes = SIZE_MAX - unit;
    size_t rounded = (bytes + unit - 1) / unit * unit;
    cli_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < rounded) block = add_block(arena, rounded);
    if (!block) {
        gp_error(GP_OUT_OF_MEMORY, "the system has no memory left (%zu bytes were wanted)", bytes);
        return NULL;
    }
    void *memory = (char *)block->memory + block->used;
    block->used += rounded;
    return memory;
}

char *cli_arena_copy(cli_arena *arena, const char *text, size_t length) {
    char *copy = cli_arena_take(arena, length + 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

char *cli_arena_format(cli_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : cli_arena_take(arena, (size_t)length + 1);
    if (!text) return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void cli_arena_free(cli_arena *arena) {
    while (arena->blocks) {
        cli_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

static bool reserve(cli_text *text, size_t more) {
    if (text->failed) return false;
    if (more < text->capacity - text->length) return true;
    size_t capacity = 2 * (text->length + more) + 256;
    char *grown = realloc(text->text, capacity);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->text = grown;
    text->capacity = capacity;
    return true;
}

void cli_text_add_bytes(cli_text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    memcpy(text->text + text->length, bytes, length);
    text->length += length;
    text->text[text->length] = '\0';
}

void cli_text_add(cli_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve(text, (size_t)length)) return;
    va_start(arguments, format);
    vsnprintf(text->text + text->length, text->capacity - text->length, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

gp_status cli_text_read(cli_text *text, const char *path, size_t most) {
    char piece[4096];
    FILE *file;
    gp_status status = cli_file_open(&file, path, "r");
    if (status != GP_OK) return status;
    errno = 0;
    for (size_t length; text->length <= most && (length = fread(piece, 1, sizeof piece, file)) > 0;)
        cli_text_add_bytes(text, piece, length);
    int reason = ferror(file) ? errno : 0;
    fclose(file);
    if (reason) return gp_error(GP_INVALID, "%s could not be read: %s", path, strerror(reason));
    if (text->failed) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (text->length == 0) return gp_error(GP_INVALID, "%s is empty", path);
    if (text->length > most) return gp_error(GP_INVALID, "%s is larger than %zu bytes", path, most);
    if (strlen(text->text) == text->length) return GP_OK;
    return gp_error(GP_INVALID, "%s is no text: it has zero bytes", path);
}

void cli_text_free(cli_text *text) {
    free(text->text);
    memset(text, 0, sizeof *text);
}

/* Columns already written in the last line. */
static size_t column_of(const cli_text *text) {
    size_t column = 0;
    while (column < text->length && text->text[text->length - 1 - column] != '\n')
        column++;
    return column;
}

void cli_text_add_wrapped(cli_text *text, const char *words, size_t indent, size_t width) {
    size_t column = column_of(text);
    bool first = true;
    while (*words) {
        size_t length = strcspn(words, " ");
        if (!first && column + 1 + length > width) {
            cli_text_add(text, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            cli_text_add(text, " ");
            column++;
        }
        cli_text_add_bytes(text, words, length);
        column += length;
        words += length;
        words += strspn(words, " ");
        first = false;
    }
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t cli_edit_distance(const char *a, const char *b) {
    size_t rows[3][WORD]; /* the row being filled and the two above it */
    size_t *above2 = rows[0], *above = rows[1], *row = rows[2];
    size_t width = least(strlen(b), WORD - 1), height = least(strlen(a), WORD - 1);
    for (size_t j = 0; j <= width; j++) {
        above[j] = j;
        above2[j] = j;
    }
    for (size_t i = 1; i <= height; i++) {
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + change);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = least(row[j], above2[j - 2] + 1);
        }
        size_t *oldest = above2;
        above2 = above;
        above = row;
        row = oldest;
    }
    return above[width];
}
