/* Files of token ids: bare ids of two or four bytes (nanoGPT), or behind the header of llm.c's shards. Both
 * little-endian. */
#ifndef GP_DATA_TOKEN_FILES_H
#define GP_DATA_TOKEN_FILES_H

#include "base/file.h"
#include "gpipe/data.h"

/* The header: 256 numbers of 32 bits. llm.c knows the first three; gpipe writes the vocabulary behind them. */
enum {
    GP_TOKEN_HEADER_BYTES = 1024,
    GP_TOKEN_MAGIC = 20240520, /* version 1, ids of two bytes */
    GP_TOKEN_VERSION = 1,
    GP_WIDE_TOKEN_MAGIC = 20240801, /* version 7, ids of four bytes */
    GP_WIDE_TOKEN_VERSION = 7
};

typedef struct gp_token_file {
    char *path;
    gp_file_map map;
    const void *ids;
    int64_t begin, count; /* its first token in the whole; tokens */
    size_t id_bytes;
    int32_t vocabulary; /* as its header says; 0: it does not */
} gp_token_file;

typedef struct gp_token_files {
    gp_token_file *list;
    size_t count;
    int64_t tokens;
    int32_t vocabulary; /* ids are below */
} gp_token_files;

/* Opens one file, or all that match the pattern, in the order of their names. `vocabulary`: ids must be below it; 0: as
 * the headers say. `id_bytes` of files without header: 2, 4, or 0 for 2 when the vocabulary is at most 65536. Headers,
 * lengths, and the ids of the first GiB of all files are checked; all others when they are read.
 * Errors: GP_INVALID, GP_IO, GP_OUT_OF_MEMORY. */
gp_status gp_token_files_open(gp_token_files *files, const char *pattern, int32_t vocabulary, int id_bytes);
/* Accepts a zeroed struct. */
void gp_token_files_close(gp_token_files *files);

/* Writes ids `first` to `first + count`, which must exist. GP_INVALID for an id outside the vocabulary. */
gp_status gp_token_files_read(const gp_token_files *files, int64_t first, int64_t count, int32_t *out);

#endif
