/* A tokenizer as a small JSON file, kept with a run so that the run can be continued and sampled without its corpus. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

#define FORMAT "gpipe tokenizer"

enum { VERSION = 1, MAX_BYTES = 8 << 20 /* every code point takes less than 5 MB */ };

/* The vocabulary as one text, in order; NULL when memory is out. Freed with gp_free. */
static char *characters_text(const gp_tokenizer *tokenizer) {
    char *text = gp_allocate_array((size_t)tokenizer->vocabulary + 1, 4);
    size_t bytes = 0;
    for (int32_t i = 0; text && i < tokenizer->vocabulary; i++)
        bytes += gp_utf8_encode(tokenizer->codes[i], text + bytes);
    return text;
}

static json_t *describe(const gp_tokenizer *tokenizer) {
    json_t *object = json_pack("{s:s, s:i, s:s}", "format", FORMAT, "version", VERSION, "kind",
                               gp_tokenizer_kind_name(tokenizer->kind));
    if (!object || tokenizer->kind != GP_TOKENIZER_CHAR) return object;
    char *characters = characters_text(tokenizer);
    int failure = characters ? json_object_set_new(object, "characters", json_string(characters)) : -1;
    gp_free(characters);
    if (failure == 0) return object;
    json_decref(object);
    return NULL;
}

gp_status gp_tokenizer_save(const gp_tokenizer *tokenizer, const char *path) {
    json_t *object = describe(tokenizer);
    char *dumped = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    char *text = dumped ? gp_format_text("%s\n", dumped) : NULL;
    gp_status status = text ? gp_file_write_text(path, text)
                            : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for the vocabulary");
    free(dumped); /* Jansson's */
    gp_free(text);
    json_decref(object);
    return gp_error_within(status, "the tokenizer was not saved to '%s'", path);
}

static gp_status read_characters(gp_tokenizer **tokenizer, const json_t *value) {
    size_t bytes = json_string_length(value), count = 0;
    if (bytes == 0) return gp_error(GP_INVALID, "its \"characters\" are not a text of at least one character");
    const unsigned char *text = (const unsigned char *)json_string_value(value);
    uint32_t *codes = gp_allocate_array(bytes, sizeof *codes);
    if (!codes) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    for (size_t at = 0; at < bytes && status == GP_OK; count++) {
        size_t length = gp_utf8_decode(text + at, bytes - at, &codes[count]);
        if (length == 0) status = gp_error(GP_INVALID, "its \"characters\" are not valid UTF-8");
        if (status == GP_OK && count > 0 && codes[count] <= codes[count - 1]) {
            status = gp_error(GP_INVALID, "its \"characters\" are not in ascending order at character %zu", count);
        }
        at += length;
    }
    if (status == GP_OK) status = gp_tokenizer_create_char(tokenizer, codes, count);
    gp_free(codes);
    return status;
}

static gp_status read_object(gp_tokenizer **tokenizer, const json_t *object) {
    const char *format = json_string_value(json_object_get(object, "format"));
    const json_t *version = json_object_get(object, "version");
    const char *kind = json_string_value(json_object_get(object, "kind"));
    if (!format || strcmp(format, FORMAT) != 0) return gp_error(GP_INVALID, "its \"format\" is not \"" FORMAT "\"");
    if (!json_is_integer(version) || json_integer_value(version) != VERSION) {
        return gp_error(GP_INVALID, "its \"version\" is not %d", VERSION);
    }
    if (kind && strcmp(kind, gp_tokenizer_kind_name(GP_TOKENIZER_BYTE)) == 0)
        return gp_tokenizer_create_byte(tokenizer);
    if (kind && strcmp(kind, gp_tokenizer_kind_name(GP_TOKENIZER_CHAR)) == 0) {
        return read_characters(tokenizer, json_object_get(object, "characters"));
    }
    return gp_error(GP_INVALID, "its \"kind\" is neither \"char\" nor \"byte\"");
}

static gp_status read_map(gp_tokenizer **tokenizer, const gp_file_map *map) {
    if (map->bytes > MAX_BYTES) {
        return gp_error(GP_INVALID, "it has %zu bytes: up to %d are accepted", map->bytes, (int)MAX_BYTES);
    }
    json_error_t error;
    json_t *object = json_loadb((const char *)map->data, map->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object) return gp_error(GP_INVALID, "it is not valid JSON: line %d: %s", error.line, error.text);
    gp_status status = read_object(tokenizer, object);
    json_decref(object);
    return status;
}

gp_status gp_tokenizer_load(gp_tokenizer **tokenizer, const char *path) {
    *tokenizer = NULL;
    gp_file_map map;
    GP_TRY(gp_file_map_open(&map, path));
    gp_status status = read_map(tokenizer, &map);
    gp_file_map_close(&map);
    return gp_error_within(status, "'%s' is not a tokenizer file", path);
}
