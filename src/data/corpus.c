/* Finding, mapping and checking the files of a corpus. */
#include "data/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/paths.h"
#include "data/utf8.h"
#include "gpipe/words.h"

enum { CHECKED_BYTES = 1 << 20 };

static gp_status open_file(gp_corpus *corpus, const char *path) {
    gp_corpus_file *file = &corpus->files[corpus->count];
    file->path = gp_copy_text(path);
    if (!file->path) return GP_OUT_OF_MEMORY;
    corpus->count++;
    file->begin = corpus->bytes;
    GP_TRY(gp_file_map_open(&file->map, path));
    corpus->bytes += file->map.bytes;
    return GP_OK;
}

static gp_status open_files(gp_corpus *corpus, char *const *paths, size_t count) {
    corpus->files = gp_allocate_array(count, sizeof *corpus->files);
    if (!corpus->files) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        GP_TRY(open_file(corpus, paths[i]));
    return GP_OK;
}

gp_status gp_corpus_open(gp_corpus *corpus, const char *pattern) {
    *corpus = (gp_corpus){0};
    if (!pattern || !*pattern) return gp_error(GP_INVALID, "no text was given: a path or a pattern is needed");
    gp_paths paths = {0};
    gp_status status = gp_paths_add(&paths, pattern);
    if (status == GP_OK) status = open_files(corpus, paths.list, paths.count);
    gp_paths_free(&paths);
    if (status == GP_OK && corpus->bytes == 0) {
        status = gp_error(GP_INVALID, "the text '%s' is empty (%zu file%s)", pattern, corpus->count,
                          gp_plural((int64_t)corpus->count, "s"));
    }
    if (status != GP_OK) gp_corpus_close(corpus);
    return status;
}

void gp_corpus_close(gp_corpus *corpus) {
    for (size_t i = 0; i < corpus->count; i++) {
        gp_file_map_close(&corpus->files[i].map);
        gp_free(corpus->files[i].path);
    }
    gp_free(corpus->files);
    *corpus = (gp_corpus){0};
}

const gp_corpus_file *gp_corpus_file_at(const gp_corpus *corpus, uint64_t byte) {
    size_t low = 0,
           high = corpus->count; /* the last file that begins at or before the byte: empty ones come before it */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (corpus->files[middle].begin <= byte) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &corpus->files[low];
}

static gp_status nul_byte(const gp_corpus_file *file, size_t offset) {
    return gp_error(GP_INVALID, "'%s' is a binary file, not text: it has a NUL byte at offset %zu", file->path, offset);
}

gp_status gp_corpus_check_text(const gp_corpus *corpus) {
    for (size_t i = 0; i < corpus->count; i++) {
        const gp_file_map *map = &corpus->files[i].map;
        const unsigned char *nul = memchr(map->data, 0, map->bytes < CHECKED_BYTES ? map->bytes : CHECKED_BYTES);
        if (nul) return nul_byte(&corpus->files[i], (size_t)(nul - map->data));
    }
    return GP_OK;
}

static gp_status scan_file(const gp_corpus_file *file, gp_characters *characters) {
    bool ascii[128] = {false};
    const gp_file_map *map = &file->map;
    for (size_t at = 0; at < map->bytes;) {
        unsigned char byte = map->data[at];
        characters->count++;
        if (byte < 0x80) {
            if (byte == 0) return nul_byte(file, at);
            ascii[byte] = true;
            at++;
            continue;
        }
        uint32_t code = 0;
        size_t length = gp_utf8_decode(map->data + at, map->bytes - at, &code);
        if (length == 0) {
            return gp_error(GP_INVALID,
                            "'%s' is not UTF-8 text: byte 0x%02X at offset %zu (the byte tokenizer takes any encoding)",
                            file->path, byte, at);
        }
        characters->present[code / 64] |= (uint64_t)1 << (code % 64);
        characters->ascii = false;
        at += length;
    }
    for (size_t c = 0; c < 128; c++)
        characters->present[c / 64] |= (uint64_t)ascii[c] << (c % 64);
    return GP_OK;
}

gp_status gp_corpus_scan(const gp_corpus *corpus, gp_characters *characters) {
    memset(characters, 0, sizeof *characters);
    characters->ascii = true;
    for (size_t i = 0; i < corpus->count; i++)
        GP_TRY(scan_file(&corpus->files[i], characters));
    return GP_OK;
}

gp_status gp_corpus_unknown_character(const gp_corpus *corpus, uint32_t code, int32_t vocabulary) {
    char text[4], name[32];
    size_t length = gp_utf8_encode(code, text);
    gp_character_format(code, name);
    for (size_t i = 0; i < corpus->count; i++) {
        const gp_file_map *map = &corpus->files[i].map;
        const unsigned char *place = memmem(map->data, map->bytes, text, length);
        if (!place) continue;
        return gp_error(GP_INVALID,
                        "'%s' has the character %s at offset %zu, which is not among the %" PRId32
                        " of the tokenizer's vocabulary",
                        corpus->files[i].path, name, (size_t)(place - map->data), vocabulary);
    }
    return gp_error(GP_INVALID, "the character %s is not among the %" PRId32 " of the tokenizer's vocabulary", name,
                    vocabulary);
}

char *gp_character_format(uint32_t code, char text[32]) {
    char character[4];
    int length = (int)gp_utf8_encode(code, character);
    bool printable = code >= 0x20 && !(code >= 0x7F && code < 0xA0);
    if (printable) {
        snprintf(text, 32, "'%.*s' (U+%04" PRIX32 ")", length, character, code);
    } else {
        snprintf(text, 32, "U+%04" PRIX32, code);
    }
    return text;
}
