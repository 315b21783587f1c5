/* Chunks of files and of the standard input. A file is mapped when its first chunk is made and closed when its last one
 * was taken, so any number of files may be given. */
#include "data/input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "data/subword.h"

static bool is_stream(const char *path) {
    return strcmp(path, "-") == 0;
}

static gp_status add_sizes(gp_input *input) {
    bool stream = false;
    for (size_t i = 0; i < input->paths.count; i++) {
        struct stat information;
        if (is_stream(input->paths.list[i])) {
            if (stream) return gp_error(GP_INVALID, "the standard input was given twice");
            stream = true;
        } else if (stat(input->paths.list[i], &information) == 0 && S_ISREG(information.st_mode)) {
            input->bytes += (uint64_t)information.st_size;
        }
    }
    if (stream) input->bytes = 0;
    return GP_OK;
}

gp_status gp_input_open(gp_input *input, const gp_bulk_options *options, const char *const *patterns, size_t count) {
    *input = (gp_input){.options = options};
    if (count == 0) return gp_error(GP_INVALID, "no text was given: paths, patterns or - are needed");
    for (size_t i = 0; i < count; i++)
        GP_TRY(is_stream(patterns[i]) ? gp_paths_append(&input->paths, "-") : gp_paths_add(&input->paths, patterns[i]));
    GP_TRY(add_sizes(input));
    input->maps = gp_allocate_array(input->paths.count, sizeof *input->maps);
    return input->maps ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_input_close(gp_input *input) {
    for (size_t i = 0; input->maps && i < input->paths.count; i++)
        gp_file_map_close(&input->maps[i]);
    gp_free(input->maps);
    gp_paths_free(&input->paths);
    gp_buffer_free(&input->carry);
    *input = (gp_input){0};
}

/* ---- files ---- */

static void next_of_file(gp_input *input, gp_chunk *chunk) {
    const gp_file_map *map = &input->maps[input->file];
    size_t left = map->bytes - input->at, bytes = gp_bulk_cut(input->options, map->data + input->at, left);
    *chunk = (gp_chunk){.text = map->data + input->at,
                        .bytes = bytes,
                        .name = input->paths.list[input->file],
                        .file = input->file,
                        .offset = input->at,
                        .continued = input->at > 0,
                        .ends_document = bytes == left};
    input->at += bytes;
    if (bytes < left) return;
    input->file++;
    input->at = 0;
}

/* ---- the standard input ---- */

static gp_status read_more(gp_input *input, size_t wanted) {
    GP_TRY(gp_buffer_reserve(&input->carry, wanted));
    while (wanted > 0 && !input->stream_ended) {
        ssize_t count = read(STDIN_FILENO, input->carry.bytes + input->carry.used, wanted);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return gp_error(GP_IO, "the standard input could not be read: %s", strerror(errno));
        input->stream_ended = count == 0;
        input->carry.used += (size_t)count;
        wanted -= (size_t)count;
    }
    return GP_OK;
}

/* Bytes behind a cut that have a say in it. */
static size_t margin(const gp_tokenizer *tokenizer) {
    gp_tokenizer_kind kind = gp_tokenizer_kind_of(tokenizer);
    bool subwords = kind == GP_TOKENIZER_BPE || kind == GP_TOKENIZER_WORDPIECE;
    return 4 + (subwords ? gp_subword_of(tokenizer)->added.longest : 0);
}

/* Reads until a chunk can be cut from what was read, or all was. */
static gp_status read_chunk(gp_input *input, size_t *bytes) {
    size_t behind = margin(input->options->tokenizer), wanted = (size_t)GP_CHUNK_BYTES + (GP_CHUNK_BYTES >> 3) + behind;
    for (;;) {
        if (input->carry.used < wanted) GP_TRY(read_more(input, wanted - input->carry.used));
        *bytes = gp_bulk_cut(input->options, input->carry.bytes, input->carry.used);
        if (input->stream_ended || input->carry.used - *bytes >= behind) return GP_OK;
        wanted *= 2;
    }
}

static gp_status next_of_stream(gp_input *input, gp_buffer *own, gp_chunk *chunk) {
    size_t bytes;
    GP_TRY(read_chunk(input, &bytes));
    own->used = 0;
    GP_TRY(gp_buffer_add(own, input->carry.bytes, bytes));
    bool last = bytes == input->carry.used && input->stream_ended;
    input->carry.used -= bytes;
    if (input->carry.used > 0) memmove(input->carry.bytes, input->carry.bytes + bytes, input->carry.used);
    *chunk = (gp_chunk){.text = own->bytes,
                        .bytes = bytes,
                        .name = "standard input",
                        .file = input->file,
                        .offset = input->at,
                        .continued = input->at > 0,
                        .ends_document = last};
    input->at += bytes;
    if (!last) return GP_OK;
    input->file++;
    input->at = 0;
    return GP_OK;
}

/* ---- both ---- */

gp_status gp_input_next(gp_input *input, gp_buffer *own, gp_chunk *chunk, bool *there) {
    for (*there = false; input->file < input->paths.count && !*there;) {
        if (is_stream(input->paths.list[input->file])) {
            GP_TRY(next_of_stream(input, own, chunk));
        } else {
            if (input->at == 0) GP_TRY(gp_file_map_open(&input->maps[input->file], input->paths.list[input->file]));
            next_of_file(input, chunk);
        }
        *there = chunk->bytes > 0 || (chunk->ends_document && chunk->continued); /* an empty file is no document */
    }
    return GP_OK;
}

void gp_input_taken(gp_input *input, const gp_chunk *chunk) {
    for (; input->first_open < chunk->file; input->first_open++)
        gp_file_map_close(&input->maps[input->first_open]);
}
