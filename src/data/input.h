/* Text from files and from the standard input, one chunk after the other. Files are mapped while their chunks are in
 * work.
 */
#ifndef GP_DATA_INPUT_H
#define GP_DATA_INPUT_H

#include "base/file.h"
#include "data/bulk.h"
#include "data/paths.h"

typedef struct gp_input {
    const gp_bulk_options *options;
    gp_paths paths;
    gp_file_map *maps; /* of the paths that are open */
    size_t file;       /* the one that is read */
    size_t at;         /* in it */
    size_t first_open; /* files before it are closed */
    uint64_t bytes;    /* of all files; 0 with the standard input */
    gp_buffer carry;   /* of the standard input: what was read and is not in a chunk yet */
    bool stream_ended;
} gp_input;

/* Finds the files of paths and patterns. Errors as gp_tokenize. */
gp_status gp_input_open(gp_input *input, const gp_bulk_options *options, const char *const *patterns, size_t count);
/* Accepts a zeroed struct. */
void gp_input_close(gp_input *input);

/* As gp_bulk_ends.next. */
gp_status gp_input_next(gp_input *input, gp_buffer *own, gp_chunk *chunk, bool *there);
/* Call it with every chunk that was taken, in order: closes files that are done. */
void gp_input_taken(gp_input *input, const gp_chunk *chunk);

#endif
