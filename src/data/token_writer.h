/* Writing files of token ids, one after the other when there are many. */
#ifndef GP_DATA_TOKEN_WRITER_H
#define GP_DATA_TOKEN_WRITER_H

#include "base/file.h"
#include "data/paths.h"
#include "gpipe/data.h"

typedef struct gp_token_writer {
    const char *path; /* "name.bin"; with more than one file "name_000000.bin" and so on */
    bool header;
    size_t id_bytes;
    int32_t vocabulary;
    int64_t limit;        /* tokens of a file */
    gp_paths made;        /* the files that are complete */
    gp_file_writer *file; /* of the current one; NULL: none */
    int64_t tokens;       /* in it */
    bool finished;        /* all files are made */
    unsigned char *buffer;
    size_t used;
} gp_token_writer;

/* `tokens` of a file at most; 0: as many as its format can count. */
gp_status gp_token_writer_create(gp_token_writer *writer, const char *path, gp_token_format format, int32_t vocabulary,
                                 int64_t tokens);
gp_status gp_token_writer_write(gp_token_writer *writer, const int32_t *ids, size_t count);
/* Completes the last file and gives a single one its plain name. */
gp_status gp_token_writer_finish(gp_token_writer *writer);
/* Removes what was made if it was not finished. Accepts a zeroed struct. */
void gp_token_writer_destroy(gp_token_writer *writer);

/* The files that an earlier run left under the names of `path`. */
gp_status gp_token_writer_find(gp_paths *found, const char *path);

#endif
