/* What the header of a file will be: checked entries, their order, the JSON text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"

enum { ALIGNMENT = 64, LENGTH_BYTES = 8 };

size_t *gp_header_order(const gp_safetensors_entry *entries, size_t count) {
    size_t *order = gp_allocate_array(count, sizeof *order);
    if (!order) return NULL;
    size_t placed = 0;
    for (size_t bytes = 8; bytes > 0; bytes /= 2) {
        for (size_t i = 0; i < count; i++) {
            if (gp_dtype_bytes(entries[i].type.dtype) == bytes) order[placed++] = i;
        }
    }
    return order;
}

gp_status gp_header_check_entry(const gp_safetensors_entry *entry, size_t number) {
    if (!entry->name) return gp_error(GP_INVALID, "tensor %zu has no name", number);
    if (gp_dtype_bytes(entry->type.dtype) == 0) {
        return gp_error(GP_INVALID, "tensor '%s' has an unknown dtype (%d)", entry->name, (int)entry->type.dtype);
    }
    GP_TRY(gp_error_within(gp_shape_check(entry->type.shape), "tensor '%s'", entry->name));
    if (strcmp(entry->name, GP_METADATA_KEY) == 0 || !gp_header_name_is_printable(entry->name)) {
        return gp_error(GP_INVALID, "a tensor cannot be named '%s'",
                        gp_header_name_is_printable(entry->name) ? entry->name : "(text with control characters)");
    }
    return GP_OK;
}

/* Adds an entry to the header. A key that is there already, or that Jansson refuses, is an error. */
static gp_status add_to(json_t *object, const char *key, json_t *value, const char *what) {
    if (json_object_get(object, key)) {
        json_decref(value);
        return gp_error(GP_INVALID, "%s '%s' is there twice", what, key);
    }
    if (value && json_object_set_new(object, key, value) == 0) return GP_OK;
    return gp_error(GP_INVALID, "%s '%s' is not valid UTF-8, or memory ran out", what, key);
}

static json_t *describe(const gp_safetensors_entry *entry, uint64_t begin) {
    uint64_t end = begin + gp_type_bytes(entry->type);
    json_t *shape = json_array();
    for (int i = 0; i < entry->type.shape.rank; i++)
        json_array_append_new(shape, json_integer(entry->type.shape.dims[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", gp_safetensors_dtype_name(entry->type.dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static gp_status add_metadata(json_t *header, const gp_safetensors_pair *metadata, size_t count) {
    if (count == 0) return GP_OK;
    json_t *pairs = json_object();
    gp_status status = add_to(header, GP_METADATA_KEY, pairs, "key");
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        status = add_to(pairs, metadata[i].key, json_string(metadata[i].value), "metadata");
    }
    return status;
}

static gp_status add_tensors(json_t *header, const gp_safetensors_entry *entries, const size_t *order, size_t count) {
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const gp_safetensors_entry *entry = &entries[order[i]];
        if (gp_type_bytes(entry->type) > (uint64_t)INT64_MAX - begin) {
            return gp_error(GP_INVALID, "the tensors up to '%s' are too large to count", entry->name);
        }
        GP_TRY(add_to(header, entry->name, describe(entry, begin), "tensor"));
        begin += gp_type_bytes(entry->type);
    }
    return GP_OK;
}

/* Length, text, and spaces up to where the data will be aligned. */
static gp_status pad(char **bytes, size_t *size, const char *text) {
    size_t length = strlen(text);
    size_t whole = (LENGTH_BYTES + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, padded = whole - LENGTH_BYTES;
    if (padded > GP_HEADER_MAX_BYTES)
        return gp_error(GP_INVALID, "the header would have %zu bytes: up to %d are accepted", padded,
                        GP_HEADER_MAX_BYTES);
    *bytes = gp_allocate(whole);
    if (!*bytes) return GP_OUT_OF_MEMORY;
    for (int i = 0; i < LENGTH_BYTES; i++)
        (*bytes)[i] = (char)((uint64_t)padded >> (8 * i));
    memcpy(*bytes + LENGTH_BYTES, text, length);
    memset(*bytes + LENGTH_BYTES + length, ' ', padded - length);
    *size = whole;
    return GP_OK;
}

gp_status gp_header_format(char **bytes, size_t *size, const gp_safetensors_entry *entries, const size_t *order,
                           size_t count, const gp_safetensors_pair *metadata, size_t metadata_count) {
    json_t *header = json_object();
    gp_status status = header ? add_metadata(header, metadata, metadata_count) : GP_OUT_OF_MEMORY;
    *bytes = NULL;
    if (status == GP_OK) status = add_tensors(header, entries, order, count);
    char *text = status == GP_OK ? json_dumps(header, JSON_COMPACT) : NULL;
    if (text) status = pad(bytes, size, text);
    if (status == GP_OUT_OF_MEMORY || (status == GP_OK && !text))
        status = gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for the header of a file");
    free(text); /* Jansson's, not gp_allocate's */
    json_decref(header);
    return status;
}
