/* Writing safetensors: the header is built and checked first, then the tensors stream through one buffer, so that a
 * model larger than memory can be written by whoever can produce it piece by piece. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"

enum { PIECE_BYTES = 1 << 20, ALIGNMENT = 64, LENGTH_BYTES = 8 };

/* Numbers of the entries as they will lie in the file: larger elements first, so that each tensor is aligned to its own
 * without holes, which the format forbids. */
static size_t *file_order(const gp_safetensors_entry *entries, size_t count) {
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

static gp_status check_entry(const gp_safetensors_entry *entry, size_t number) {
    if (!entry->name) return gp_error(GP_INVALID, "tensor %zu has no name", number);
    if (gp_dtype_bytes(entry->type.dtype) == 0) {
        return gp_error(GP_INVALID, "tensor '%s' has an unknown dtype (%d)", entry->name, (int)entry->type.dtype);
    }
    GP_TRY(gp_error_within(gp_shape_check(entry->type.shape), "tensor '%s'", entry->name));
    if (!entry->data && !entry->fill && gp_type_bytes(entry->type) > 0) {
        return gp_error(GP_INVALID, "tensor '%s' has neither data nor a function that fills", entry->name);
    }
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

/* Writes the length and the header, padded with spaces so that the data after it is aligned. */
static gp_status write_header(gp_file_writer *writer, json_t *header) {
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for the header of a file");
    size_t length = strlen(text);
    size_t padded = (LENGTH_BYTES + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - LENGTH_BYTES;
    unsigned char prefix[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    char spaces[ALIGNMENT];
    memset(spaces, ' ', sizeof spaces);
    gp_status status = GP_OK;
    if (padded > GP_HEADER_MAX_BYTES) {
        status =
            gp_error(GP_INVALID, "the header would have %zu bytes: up to %d are accepted", padded, GP_HEADER_MAX_BYTES);
    }
    if (status == GP_OK) status = gp_file_writer_write(writer, prefix, sizeof prefix);
    if (status == GP_OK) status = gp_file_writer_write(writer, text, length);
    if (status == GP_OK) status = gp_file_writer_write(writer, spaces, padded - length);
    free(text); /* Jansson's, not gp_allocate's */
    return status;
}

static gp_status write_tensor(gp_file_writer *writer, const gp_safetensors_entry *entry, void *buffer) {
    size_t bytes = gp_type_bytes(entry->type);
    if (entry->data) return gp_file_writer_write(writer, entry->data, bytes);
    for (size_t offset = 0; offset < bytes; offset += PIECE_BYTES) {
        size_t piece = bytes - offset < PIECE_BYTES ? bytes - offset : PIECE_BYTES;
        GP_TRY(gp_error_within(entry->fill(entry->user, offset, buffer, piece), "tensor '%s'", entry->name));
        GP_TRY(gp_file_writer_write(writer, buffer, piece));
    }
    return GP_OK;
}

static gp_status write_contents(gp_file_writer *writer, json_t *header, const gp_safetensors_entry *entries,
                                const size_t *order, size_t count) {
    GP_TRY(write_header(writer, header));
    void *buffer = gp_allocate(PIECE_BYTES);
    gp_status status = buffer ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && status == GP_OK; i++)
        status = write_tensor(writer, &entries[order[i]], buffer);
    gp_free(buffer);
    return status;
}

static gp_status write_file(const char *path, json_t *header, const gp_safetensors_entry *entries, const size_t *order,
                            size_t count) {
    gp_file_writer *writer;
    GP_TRY(gp_file_writer_create(&writer, path));
    gp_status status = write_contents(writer, header, entries, order, count);
    if (status == GP_OK) status = gp_file_writer_commit(writer);
    gp_file_writer_destroy(writer);
    return status;
}

gp_status gp_safetensors_write(const char *path, const gp_safetensors_entry *entries, size_t count,
                               const gp_safetensors_pair *metadata, size_t metadata_count) {
    gp_status status = GP_OK;
    for (size_t i = 0; i < count && status == GP_OK; i++)
        status = check_entry(&entries[i], i);
    json_t *header = json_object();
    size_t *order = file_order(entries, count);
    if (status == GP_OK && !(header && order)) {
        gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
        status = GP_OUT_OF_MEMORY;
    }
    if (status == GP_OK) status = add_metadata(header, metadata, metadata_count);
    if (status == GP_OK) status = add_tensors(header, entries, order, count);
    if (status == GP_OK) status = write_file(path, header, entries, order, count);
    gp_free(order);
    json_decref(header);
    return gp_error_within(status, "'%s' was not written", path);
}
