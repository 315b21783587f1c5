/* Files of ids, each written beside its name and renamed when it is complete. */
#include "data/token_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/token_files.h"

enum { BUFFER_BYTES = 1 << 16 };

/* The length of the path without ".bin". */
static int stem_length(const char *path) {
    size_t length = strlen(path);
    bool named = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    return (int)(named ? length - 4 : length);
}

static char *numbered(const char *path, size_t number) {
    return gp_format_text("%.*s_%06zu.bin", stem_length(path), path, number);
}

gp_status gp_token_writer_create(gp_token_writer *writer, const char *path, gp_token_format format, int32_t vocabulary,
                                 int64_t tokens) {
    int64_t most = format == GP_TOKENS_RAW ? INT64_MAX : INT32_MAX;
    *writer = (gp_token_writer){.path = path, .header = format == GP_TOKENS_LLMC, .vocabulary = vocabulary};
    if (tokens < 0 || tokens > most) {
        return gp_error(GP_INVALID, "a file of %" PRId64 " tokens: 1 to %" PRId64 " are accepted", tokens, most);
    }
    writer->id_bytes = vocabulary <= 65536 ? 2 : 4;
    writer->limit = tokens > 0 ? tokens : most;
    writer->buffer = gp_allocate(BUFFER_BYTES);
    return writer->buffer ? GP_OK : GP_OUT_OF_MEMORY;
}

/* ---- one file ---- */

static gp_status flush(gp_token_writer *writer) {
    size_t used = writer->used;
    writer->used = 0;
    return gp_file_writer_write(writer->file, writer->buffer, used);
}

/* The header without its count: room for it, and again once the count is known. */
static gp_status write_header(gp_token_writer *writer, bool again) {
    bool narrow = writer->id_bytes == 2;
    int32_t header[GP_TOKEN_HEADER_BYTES / 4] = {narrow ? GP_TOKEN_MAGIC : GP_WIDE_TOKEN_MAGIC,
                                                 narrow ? GP_TOKEN_VERSION : GP_WIDE_TOKEN_VERSION,
                                                 (int32_t)writer->tokens, writer->vocabulary};
    if (again) return gp_file_writer_write_at(writer->file, header, sizeof header, 0);
    return gp_file_writer_write(writer->file, header, sizeof header);
}

static gp_status open_next(gp_token_writer *writer) {
    char *path = numbered(writer->path, writer->made.count);
    gp_status status = path ? gp_file_writer_create(&writer->file, path) : GP_OUT_OF_MEMORY;
    gp_free(path);
    writer->tokens = 0;
    return status == GP_OK && writer->header ? write_header(writer, false) : status;
}

static gp_status close_current(gp_token_writer *writer) {
    GP_TRY(flush(writer));
    if (writer->header) GP_TRY(write_header(writer, true));
    GP_TRY(gp_file_writer_commit(writer->file));
    gp_file_writer_destroy(writer->file);
    writer->file = NULL;
    char *path = numbered(writer->path, writer->made.count);
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = gp_paths_append(&writer->made, path);
    gp_free(path);
    return status;
}

/* Puts ids of the current file into the buffer. */
static gp_status put(gp_token_writer *writer, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow = (uint16_t)ids[i];
        memcpy(writer->buffer + writer->used, writer->id_bytes == 2 ? (const void *)&narrow : (const void *)&ids[i],
               writer->id_bytes);
        writer->used += writer->id_bytes;
        if (writer->used == BUFFER_BYTES) GP_TRY(flush(writer));
    }
    writer->tokens += (int64_t)count;
    return GP_OK;
}

gp_status gp_token_writer_write(gp_token_writer *writer, const int32_t *ids, size_t count) {
    while (count > 0) {
        if (!writer->file) GP_TRY(open_next(writer));
        int64_t left = writer->limit - writer->tokens;
        size_t piece = (uint64_t)left < count ? (size_t)left : count;
        GP_TRY(put(writer, ids, piece));
        if (writer->tokens == writer->limit) GP_TRY(close_current(writer));
        ids += piece;
        count -= piece;
    }
    return GP_OK;
}

/* ---- all of them ---- */

gp_status gp_token_writer_finish(gp_token_writer *writer) {
    if (writer->file) GP_TRY(close_current(writer));
    writer->finished = true;
    if (writer->made.count != 1) return GP_OK;
    char *plain = gp_format_text("%.*s.bin", stem_length(writer->path), writer->path);
    if (!plain) return GP_OUT_OF_MEMORY;
    if (rename(writer->made.list[0], plain) != 0) {
        gp_status status =
            gp_error(GP_IO, "'%s' could not be renamed to '%s': %s", writer->made.list[0], plain, strerror(errno));
        gp_free(plain);
        return status;
    }
    gp_free(writer->made.list[0]);
    writer->made.list[0] = plain;
    return GP_OK;
}

void gp_token_writer_destroy(gp_token_writer *writer) {
    gp_file_writer_destroy(writer->file);
    for (size_t i = 0; i < writer->made.count && !writer->finished; i++)
        (void)unlink(writer->made.list[i]); /* the first files of a set that will have no last one */
    gp_paths_free(&writer->made);
    gp_free(writer->buffer);
    *writer = (gp_token_writer){0};
}

gp_status gp_token_writer_find(gp_paths *found, const char *path) {
    char *name = gp_format_text("%.*s.bin", stem_length(path), path);
    gp_status status = name ? GP_OK : GP_OUT_OF_MEMORY;
    if (name && access(name, F_OK) == 0) status = gp_paths_append(found, name);
    for (size_t number = 0; status == GP_OK; number++) {
        gp_free(name);
        name = numbered(path, number);
        if (!name) status = GP_OUT_OF_MEMORY;
        if (!name || access(name, F_OK) != 0) break;
        status = gp_paths_append(found, name);
    }
    gp_free(name);
    return status;
}
