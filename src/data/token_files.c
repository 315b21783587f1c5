/* Opening and reading files of token ids. They may be larger than memory and are mapped; nobody vouches for them, so no
 * id leaves here that was not checked. */
#include "data/token_files.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/paths.h"
#include "gpipe/words.h"

/* Ids of all files that are checked when they are opened, in bytes. */
static const size_t CHECKED_BYTES = (size_t)1 << 30;

/* ---- headers ---- */

static int32_t header_number(const gp_token_file *file, size_t place) {
    int32_t number;
    memcpy(&number, file->map.data + place * sizeof number, sizeof number);
    return number;
}

/* Other files of llm.c, which begin alike. */
static gp_status refuse_magic(const gp_token_file *file, int32_t magic, int32_t version) {
    if (magic == GP_TOKEN_MAGIC || magic == GP_WIDE_TOKEN_MAGIC) {
        return gp_error(GP_INVALID,
                        "'%s' is a token file of version %" PRId32 ": version %d with the magic number %d, and %d with "
                        "%d are accepted",
                        file->path, version, GP_TOKEN_VERSION, GP_TOKEN_MAGIC, GP_WIDE_TOKEN_VERSION,
                        GP_WIDE_TOKEN_MAGIC);
    }
    static const struct {
        int32_t magic;
        const char *what;
    } others[] = {{20240326, "a model"},
                  {20240327, "a state of the debugger"},
                  {20240328, "a tokenizer"},
                  {20240522, "an evaluation"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (magic == others[i].magic) {
            return gp_error(GP_INVALID, "'%s' is %s of llm.c, not a file of tokens", file->path, others[i].what);
        }
    }
    return GP_OK;
}

/* A file with a header. */
static gp_status read_header(gp_token_file *file) {
    int32_t count = header_number(file, 2);
    size_t bytes = file->map.bytes - GP_TOKEN_HEADER_BYTES;
    if (count < 1 || (size_t)count * file->id_bytes != bytes) {
        return gp_error(GP_INVALID,
                        "'%s' is cut off or damaged: its header says %" PRId32
                        " token%s of %zu bytes, but %zu byte%s follow%s",
                        file->path, count, gp_plural(count, "s"), file->id_bytes, bytes, gp_plural((int64_t)bytes, "s"),
                        bytes == 1 ? "s" : "");
    }
    file->count = count;
    file->ids = file->map.data + GP_TOKEN_HEADER_BYTES;
    file->vocabulary = header_number(file, 3);
    if (file->vocabulary >= 0) return GP_OK;
    return gp_error(GP_INVALID, "'%s' is damaged: its header says a vocabulary of %" PRId32 " tokens", file->path,
                    file->vocabulary);
}

/* A file that is nothing but ids. Only by its name can it be told from a text that was given by mistake. */
static gp_status read_bare(gp_token_file *file, int32_t vocabulary, int id_bytes) {
    if (!gp_ends_in(file->path, ".bin")) {
        return gp_error(GP_INVALID,
                        "'%s' has no header of a token file, and without one only files named *.bin are taken for ids "
                        "(gpipe tokenize makes token files from text)",
                        file->path);
    }
    if (vocabulary == 0) {
        return gp_error(GP_INVALID,
                        "'%s' does not say how many different tokens there are: a vocabulary or a tokenizer is needed",
                        file->path);
    }
    file->id_bytes = id_bytes ? (size_t)id_bytes : vocabulary <= 65536 ? 2 : 4;
    if (file->map.bytes == 0 || file->map.bytes % file->id_bytes != 0) {
        return gp_error(GP_INVALID, "'%s' has %zu byte%s, no whole number of ids of %zu bytes", file->path,
                        file->map.bytes, gp_plural((int64_t)file->map.bytes, "s"), file->id_bytes);
    }
    file->ids = file->map.data;
    file->count = (int64_t)(file->map.bytes / file->id_bytes);
    return GP_OK;
}

static gp_status read_file(gp_token_file *file, int32_t vocabulary, int id_bytes) {
    if (file->map.bytes >= GP_TOKEN_HEADER_BYTES) {
        int32_t magic = header_number(file, 0), version = header_number(file, 1);
        bool narrow = magic == GP_TOKEN_MAGIC && version == GP_TOKEN_VERSION;
        bool wide = magic == GP_WIDE_TOKEN_MAGIC && version == GP_WIDE_TOKEN_VERSION;
        file->id_bytes = narrow ? 2 : 4;
        if (narrow || wide) return read_header(file);
        GP_TRY(refuse_magic(file, magic, version));
    }
    return read_bare(file, vocabulary, id_bytes);
}

/* ---- ids ---- */

/* The largest of `count` ids. Ids of four bytes are taken without sign: negative ones are too large. */
static uint32_t largest_narrow(const uint16_t *ids, size_t count) {
    uint16_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = ids[i] > most ? ids[i] : most;
    return most;
}

static uint32_t largest_wide(const uint32_t *ids, size_t count) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = ids[i] > most ? ids[i] : most;
    return most;
}

static uint32_t id_at(const gp_token_file *file, int64_t at) {
    return file->id_bytes == 2 ? ((const uint16_t *)file->ids)[at] : ((const uint32_t *)file->ids)[at];
}

static gp_status outside(const gp_token_files *files, const gp_token_file *file, int64_t first) {
    int64_t at = first;
    while (at + 1 < file->count && id_at(file, at) < (uint32_t)files->vocabulary)
        at++;
    return gp_error(GP_INVALID,
                    "'%s' has the id %" PRIu32 " as its token %" PRId64 ": with a vocabulary of %" PRId32
                    " tokens 0 to %" PRId32 " are accepted",
                    file->path, id_at(file, at), at, files->vocabulary, files->vocabulary - 1);
}

static gp_status check_ids(const gp_token_files *files, const gp_token_file *file, size_t count) {
    uint32_t most = file->id_bytes == 2 ? largest_narrow(file->ids, count) : largest_wide(file->ids, count);
    return most < (uint32_t)files->vocabulary ? GP_OK : outside(files, file, 0);
}

/* ---- all files ---- */

static gp_status open_file(gp_token_files *files, const char *path, int32_t vocabulary, int id_bytes) {
    gp_token_file *file = &files->list[files->count];
    file->path = gp_copy_text(path);
    if (!file->path) return GP_OUT_OF_MEMORY;
    files->count++;
    file->begin = files->tokens;
    GP_TRY(gp_file_map_open(&file->map, path));
    GP_TRY(read_file(file, vocabulary, id_bytes));
    files->tokens += file->count;
    return GP_OK;
}

static gp_status open_files(gp_token_files *files, const gp_paths *paths, int32_t vocabulary, int id_bytes) {
    files->list = gp_allocate_array(paths->count, sizeof *files->list);
    if (!files->list) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < paths->count; i++)
        GP_TRY(open_file(files, paths->list[i], vocabulary, id_bytes));
    return GP_OK;
}

/* Ids are below the vocabulary that was given, or the one that all headers say. */
static gp_status settle_vocabulary(gp_token_files *files, int32_t vocabulary) {
    files->vocabulary = vocabulary;
    for (size_t i = 0; i < files->count; i++) {
        const gp_token_file *file = &files->list[i];
        if (vocabulary == 0 && file->vocabulary == 0) {
            return gp_error(
                GP_INVALID,
                "'%s' does not say how many different tokens there are: a vocabulary or a tokenizer is needed",
                file->path);
        }
        if (vocabulary != 0 && file->vocabulary > vocabulary) {
            return gp_error(GP_INVALID,
                            "'%s' was made with a vocabulary of %" PRId32 " tokens: up to %" PRId32 " are accepted",
                            file->path, file->vocabulary, vocabulary);
        }
        if (vocabulary == 0 && file->vocabulary > files->vocabulary) files->vocabulary = file->vocabulary;
    }
    return GP_OK;
}

static gp_status check_files(const gp_token_files *files) {
    size_t left = CHECKED_BYTES;
    for (size_t i = 0; i < files->count && left > 0; i++) {
        const gp_token_file *file = &files->list[i];
        size_t most = left / file->id_bytes, count = (size_t)file->count < most ? (size_t)file->count : most;
        GP_TRY(check_ids(files, file, count));
        left -= count * file->id_bytes;
        if (count < (size_t)file->count) break;
    }
    return GP_OK;
}

gp_status gp_token_files_open(gp_token_files *files, const char *pattern, int32_t vocabulary, int id_bytes) {
    *files = (gp_token_files){0};
    if (!pattern || !*pattern) return gp_error(GP_INVALID, "no token files were given: a path or a pattern is needed");
    if (id_bytes != 0 && id_bytes != 2 && id_bytes != 4) {
        return gp_error(GP_INVALID, "ids of %d bytes: 2 and 4 are accepted", id_bytes);
    }
    if (vocabulary < 0) return gp_error(GP_INVALID, "a vocabulary of %" PRId32 " tokens", vocabulary);
    gp_paths paths = {0};
    gp_status status = gp_paths_add(&paths, pattern);
    if (status == GP_OK) status = open_files(files, &paths, vocabulary, id_bytes);
    if (status == GP_OK) status = settle_vocabulary(files, vocabulary);
    if (status == GP_OK) status = check_files(files);
    gp_paths_free(&paths);
    if (status != GP_OK) gp_token_files_close(files);
    return status;
}

void gp_token_files_close(gp_token_files *files) {
    for (size_t i = 0; i < files->count; i++) {
        gp_file_map_close(&files->list[i].map);
        gp_free(files->list[i].path);
    }
    gp_free(files->list);
    *files = (gp_token_files){0};
}

/* ---- reading ---- */

static const gp_token_file *file_at(const gp_token_files *files, int64_t token) {
    size_t low = 0, high = files->count; /* the last file that begins at or before the token; none is empty */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (files->list[middle].begin <= token) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &files->list[low];
}

/* Copies ids and returns the largest: what was checked is what was copied, even while somebody changes the file. */
static uint32_t copy_ids(const gp_token_file *file, int64_t first, int64_t count, int32_t *out) {
    if (file->id_bytes == 2) {
        const uint16_t *ids = (const uint16_t *)file->ids + first;
        for (int64_t i = 0; i < count; i++)
            out[i] = ids[i];
    } else {
        memcpy(out, (const int32_t *)file->ids + first, (size_t)count * sizeof *out);
    }
    return largest_wide((const uint32_t *)out, (size_t)count);
}

gp_status gp_token_files_read(const gp_token_files *files, int64_t first, int64_t count, int32_t *out) {
    while (count > 0) {
        const gp_token_file *file = file_at(files, first);
        int64_t at = first - file->begin, there = file->count - at, piece = count < there ? count : there;
        if (copy_ids(file, at, piece, out) >= (uint32_t)files->vocabulary) return outside(files, file, at);
        first += piece;
        count -= piece;
        out += piece;
    }
    return GP_OK;
}
