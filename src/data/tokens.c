/* Tokens by number without loading the corpus. A character of several bytes cannot be found by its number in the text,
 * so such a corpus is encoded once into a file without a name, which the system may page in and out like the text
 * itself. */
#include "data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/utf8.h"

enum { BUFFER_BYTES = 1 << 16 };

/* Ids gathered before they are written. */
typedef struct id_buffer {
    unsigned char bytes[BUFFER_BYTES];
    size_t used;
    int descriptor;
    const char *name;
} id_buffer;

static gp_status flush(id_buffer *buffer) {
    size_t used = buffer->used;
    buffer->used = 0;
    return gp_write_all(buffer->descriptor, buffer->bytes, used, buffer->name);
}

static gp_status encode_file(id_buffer *buffer, const gp_file_map *map, const gp_char_tokenizer *tokenizer,
                             size_t id_bytes) {
    for (size_t at = 0; at < map->bytes;) {
        uint32_t code = 0;
        size_t length = gp_utf8_decode(map->data + at, map->bytes - at, &code);
        int32_t id = length > 0 ? gp_char_tokenizer_id(tokenizer, code) : -1;
        if (id < 0) return gp_error(GP_INVALID, "the text was changed while it was read");
        uint16_t narrow = (uint16_t)id;
        memcpy(buffer->bytes + buffer->used, id_bytes == 2 ? (void *)&narrow : (void *)&id, id_bytes);
        buffer->used += id_bytes;
        if (buffer->used == BUFFER_BYTES) GP_TRY(flush(buffer));
        at += length;
    }
    return GP_OK;
}

static gp_status map_ids(gp_tokens *tokens, int descriptor, const char *name) {
    size_t bytes = (size_t)tokens->count * tokens->id_bytes;
    off_t written = lseek(descriptor, 0, SEEK_END);
    if (written < 0 || (size_t)written != bytes) return gp_error(GP_INVALID, "the text was changed while it was read");
    void *ids = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (ids == MAP_FAILED) return gp_error(GP_IO, "'%s' could not be mapped into memory: %s", name, strerror(errno));
    tokens->ids = ids;
    return GP_OK;
}

static gp_status encode_to(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer, int descriptor,
                           const char *name) {
    id_buffer *buffer = gp_allocate(sizeof *buffer);
    if (!buffer) return GP_OUT_OF_MEMORY;
    buffer->descriptor = descriptor;
    buffer->name = name;
    gp_status status = GP_OK;
    for (size_t i = 0; i < corpus->count && status == GP_OK; i++)
        status = encode_file(buffer, &corpus->files[i].map, gp_char_tokenizer_of(tokenizer), tokens->id_bytes);
    if (status == GP_OK) status = flush(buffer);
    if (status == GP_OK) status = map_ids(tokens, descriptor, name);
    gp_free(buffer);
    return status;
}

/* Where temporary files may be large: /tmp often lies in memory. */
static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    if (folder && *folder) return folder;
    return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

static gp_status encode(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer) {
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

/* Whether every character that occurs has an id. */
static gp_status check_known(const gp_corpus *corpus, const gp_tokenizer *tokenizer, const gp_characters *characters) {
    for (uint32_t code = 0; code < GP_CODE_POINTS; code++) {
        if (gp_characters_have(characters, code) && gp_char_tokenizer_id(gp_char_tokenizer_of(tokenizer), code) < 0) {
            return gp_corpus_unknown_character(corpus, code, tokenizer->vocabulary);
        }
    }
    return GP_OK;
}

gp_status gp_tokens_open(gp_tokens *tokens, const gp_corpus *corpus, const gp_tokenizer *tokenizer,
                         const gp_characters *characters) {
    *tokens = (gp_tokens){.corpus = corpus, .count = (int64_t)corpus->bytes};
    for (int byte = 0; byte < 256; byte++)
        tokens->table[byte] = byte;
    if (gp_tokenizer_kind_of(tokenizer) == GP_TOKENIZER_BYTE) return GP_OK;
    GP_TRY(check_known(corpus, tokenizer, characters));
    tokens->count = characters->count;
    if (!characters->ascii) {
        tokens->id_bytes = tokenizer->vocabulary <= 65536 ? 2 : 4;
        return encode(tokens, corpus, tokenizer);
    }
    const int32_t *ascii = gp_char_tokenizer_of(tokenizer)->ascii;
    for (int byte = 0; byte < 256; byte++) /* a byte that does not occur may have no id: 0 keeps the table in range */
        tokens->table[byte] = byte < 128 && ascii[byte] >= 0 ? ascii[byte] : 0;
    return GP_OK;
}

void gp_tokens_close(gp_tokens *tokens) {
    if (tokens->ids) munmap(tokens->ids, (size_t)tokens->count * tokens->id_bytes);
    *tokens = (gp_tokens){0};
}

static void look_up(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out) {
    while (count > 0) {
        const gp_corpus_file *file = gp_corpus_file_at(tokens->corpus, (uint64_t)first);
        const unsigned char *text = file->map.data + ((uint64_t)first - file->begin);
        int64_t there = (int64_t)(file->begin + file->map.bytes) - first;
        int64_t piece = count < there ? count : there;
        for (int64_t i = 0; i < piece; i++)
            out[i] = tokens->table[text[i]];
        first += piece;
        count -= piece;
        out += piece;
    }
}

void gp_tokens_read(const gp_tokens *tokens, int64_t first, int64_t count, int32_t *out) {
    if (!tokens->ids) {
        look_up(tokens, first, count, out);
    } else if (tokens->id_bytes == 2) {
        const uint16_t *ids = (const uint16_t *)tokens->ids + first;
        for (int64_t i = 0; i < count; i++)
            out[i] = ids[i];
    } else {
        memcpy(out, (const int32_t *)tokens->ids + first, (size_t)count * sizeof *out);
    }
}
