/* Tokens of several bytes cannot be found by their number in the text, so such a corpus is encoded once into a file
 * without a name, which the system may page in and out like the text itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/bulk.h"
#include "data/characters.h"
#include "data/tokens.h"
#include "data/utf8.h"
#include "gpipe/words.h"

enum { BUFFER_BYTES = 1 << 16 };

/* From so much text on, encoding takes noticeable time. */
static const uint64_t LARGE = (uint64_t)64 << 20;

/* Ids gathered before they are written. */
typedef struct id_buffer {
    unsigned char bytes[BUFFER_BYTES];
    size_t used;
    size_t id_bytes;
    int64_t count;
    int descriptor;
    const char *name;
} id_buffer;

static gp_status flush(id_buffer *buffer) {
    size_t used = buffer->used;
    buffer->used = 0;
    return gp_write_all(buffer->descriptor, buffer->bytes, used, buffer->name);
}

static gp_status put(id_buffer *buffer, int32_t id) {
    uint16_t narrow = (uint16_t)id;
    memcpy(buffer->bytes + buffer->used, buffer->id_bytes == 2 ? (const void *)&narrow : (const void *)&id,
           buffer->id_bytes);
    buffer->used += buffer->id_bytes;
    buffer->count++;
    return buffer->used == BUFFER_BYTES ? flush(buffer) : GP_OK;
}

/* ---- characters ---- */

static gp_status encode_file(id_buffer *buffer, const gp_file_map *map, const gp_char_tokenizer *tokenizer) {
    for (size_t at = 0; at < map->bytes;) {
        uint32_t code = 0;
        size_t length = gp_utf8_decode(map->data + at, map->bytes - at, &code);
        int32_t id = length > 0 ? gp_char_tokenizer_id(tokenizer, code) : -1;
        if (id < 0) return gp_error(GP_INVALID, "the text was changed while it was read");
        GP_TRY(put(buffer, id));
        at += length;
    }
    return GP_OK;
}

static gp_status encode_characters(id_buffer *buffer, const gp_corpus *corpus, const gp_tokenizer *tokenizer) {
    for (size_t i = 0; i < corpus->count; i++)
        GP_TRY(encode_file(buffer, &corpus->files[i].map, gp_char_tokenizer_of(tokenizer)));
    return GP_OK;
}

/* ---- subwords: each file is a text of its own, encoded by several threads ---- */

typedef struct subword_job {
    const gp_corpus *corpus;
    gp_bulk_options bulk;
    id_buffer *buffer;
    size_t file, at; /* what comes next */
    size_t replaced;
} subword_job;

static gp_status next(void *user, gp_buffer *own, gp_chunk *chunk, bool *there) {
    subword_job *job = user;
    (void)own;
    while (job->file < job->corpus->count && job->at == job->corpus->files[job->file].map.bytes) {
        job->file++;
        job->at = 0;
    }
    *there = job->file < job->corpus->count;
    if (!*there) return GP_OK;
    const gp_corpus_file *file = &job->corpus->files[job->file];
    const unsigned char *text = file->map.data + job->at;
    size_t bytes = gp_bulk_cut(&job->bulk, text, file->map.bytes - job->at);
    *chunk = (gp_chunk){.text = text, .bytes = bytes, .name = file->path, .offset = job->at, .continued = job->at > 0};
    job->at += bytes;
    return GP_OK;
}

static gp_status take(void *user, const gp_encoded_chunk *encoded) {
    subword_job *job = user;
    job->replaced += encoded->replaced;
    for (size_t i = 0; i < encoded->count; i++)
        GP_TRY(put(job->buffer, encoded->ids[i]));
    return GP_OK;
}

static gp_status encode_subwords(id_buffer *buffer, const gp_corpus *corpus, const gp_tokenizer *tokenizer) {
    char bytes[24];
    subword_job job = {.corpus = corpus, .bulk = {.tokenizer = tokenizer, .end = -1}, .buffer = buffer};
    if (corpus->bytes >= LARGE) {
        gp_log(GP_LOG_INFO, "encoding %s of text (gpipe tokenize does it once for many runs)",
               gp_bytes_format((size_t)corpus->bytes, bytes, sizeof bytes));
    }
    GP_TRY(gp_bulk_encode(&job.bulk, &(gp_bulk_ends){.user = &job, .next = next, .take = take}));
    if (job.replaced > 0) {
        gp_log(GP_LOG_WARNING, "the text is not UTF-8 in %zu place%s: U+FFFD is read there", job.replaced,
               gp_plural((int64_t)job.replaced, "s"));
    }
    return GP_OK;
}

/* ---- both ---- */

static gp_status map_ids(gp_tokens *tokens, const id_buffer *buffer) {
    size_t bytes = (size_t)buffer->count * buffer->id_bytes;
    off_t written = lseek(buffer->descriptor, 0, SEEK_END);
    bool changed = tokens->count >= 0 && tokens->count != buffer->count;
    if (changed || written < 0 || (size_t)written != bytes)
        return gp_error(GP_INVALID, "the text was changed while it was read");
    tokens->count = buffer->count;
    tokens->id_bytes = buffer->id_bytes;
    if (bytes == 0) return gp_error(GP_INVALID, "the text has no tokens");
    void *ids = mmap(NULL, bytes, PROT_READ, MAP_SHARED, buffer->descriptor, 0);
    if (ids == MAP_FAILED)
        return gp_error(GP_IO, "'%s' could not be mapped into memory: %s", buffer->name, strerror(errno));
    tokens->ids = ids;
    return GP_OK;
}

static gp_status encode_to(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer, int descriptor,
                           const char *name) {
    id_buffer *buffer = gp_allocate(sizeof *buffer);
    if (!buffer) return GP_OUT_OF_MEMORY;
    buffer->descriptor = descriptor;
    buffer->name = name;
    buffer->id_bytes = tokenizer->vocabulary <= 65536 ? 2 : 4;
    bool characters = gp_tokenizer_kind_of(tokenizer) == GP_TOKENIZER_CHAR;
    gp_status status = (characters ? encode_characters : encode_subwords)(buffer, corpus, tokenizer);
    if (status == GP_OK) status = flush(buffer);
    if (status == GP_OK) status = map_ids(tokens, buffer);
    gp_free(buffer);
    return status;
}

/* Where temporary files may be large: /tmp often lies in memory. */
static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    if (folder && *folder) return folder;
    return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

gp_status gp_tokens_encode(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer) {
    char *name = gp_format_text("%s/gpipe-tokens-XXXXXX", temporary_folder());
    if (!name) return GP_OUT_OF_MEMORY;
    gp_status status;
    int descriptor = mkostemp(name, O_CLOEXEC);
    if (descriptor < 0) {
        status =
            gp_error(GP_IO, "a temporary file for the tokens, '%s', could not be created: %s", name, strerror(errno));
    } else {
        unlink(name);
        status = encode_to(tokens, corpus, tokenizer, descriptor, name);
        close(descriptor);
    }
    gp_free(name);
    return status;
}
