/* The files of a corpus, mapped and joined: one long text that nobody holds in memory. */
#ifndef GP_DATA_CORPUS_H
#define GP_DATA_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "gpipe/status.h"

typedef struct gp_corpus_file {
    char *path;
    gp_file_map map;
    uint64_t begin; /* of its first byte in the corpus */
} gp_corpus_file;

typedef struct gp_corpus {
    gp_corpus_file *files; /* sorted by path */
    size_t count;
    uint64_t bytes;
} gp_corpus;

/* Which code points occur, and how many characters there are. */
typedef struct gp_characters {
    uint64_t present[0x110000 / 64];
    int64_t count;
    bool ascii; /* all of them are */
} gp_characters;

/* Maps the file at `pattern`, or all files that match it. Errors: as gp_dataset_create_text. */
gp_status gp_corpus_open(gp_corpus *corpus, const char *pattern);
/* Accepts a zeroed struct. */
void gp_corpus_close(gp_corpus *corpus);

/* The file that holds a byte of the corpus. */
const gp_corpus_file *gp_corpus_file_at(const gp_corpus *corpus, uint64_t byte);

/* GP_INVALID when a file has a NUL byte in its first MiB. */
gp_status gp_corpus_check_text(const gp_corpus *corpus);

/* Reads the whole corpus. GP_INVALID for invalid UTF-8 and NUL bytes, with file and offset. */
gp_status gp_corpus_scan(const gp_corpus *corpus, gp_characters *characters);

static inline bool gp_characters_have(const gp_characters *characters, uint32_t code) {
    return characters->present[code / 64] >> (code % 64) & 1;
}

/* GP_INVALID with the sentence that a character of the corpus, whose first place is looked up, is unknown. */
gp_status gp_corpus_unknown_character(const gp_corpus *corpus, uint32_t code, int32_t vocabulary);

/* Writes for instance "'e' (U+0065)", or "U+000A" for what cannot be printed; returns `text`. */
char *gp_character_format(uint32_t code, char text[32]);

#endif
