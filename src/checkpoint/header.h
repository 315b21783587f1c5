/* The JSON header of a safetensors file: what is shared by reader and writer. */
#ifndef GP_CHECKPOINT_HEADER_H
#define GP_CHECKPOINT_HEADER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/checkpoint.h"

enum {
    GP_HEADER_MAX_BYTES = 100 * 1000 * 1000, /* the limit of the format's reference implementation */
    GP_HEADER_MAX_VALUES = 4 * 1000 * 1000   /* JSON values: about 400,000 tensors */
};

#define GP_METADATA_KEY "__metadata__"

/* A tensor as its header entry says; `begin` counts from the first byte after the header. */
typedef struct gp_header_tensor {
    const char *name; /* owned by the JSON object */
    gp_type type;
    uint64_t begin;
    uint64_t end;
} gp_header_tensor;

/* Parses the text of a header, or of an index of shards, into a JSON object (released with json_decref); `what` is "the
 * header" for messages. Does not build anything much larger than the text warrants. Messages carry no file name: the
 * caller puts it before them. */
gp_status gp_header_parse(json_t **object, const char *text, size_t bytes, const char *what);

/* Reads one entry and checks it by itself: fields, dtype, shape, and that the offsets hold exactly its bytes. */
gp_status gp_header_read_tensor(gp_header_tensor *tensor, const char *name, json_t *value);

/* Bytes before the first tensor of an open file (reader.c). */
size_t gp_safetensors_header_bytes(const gp_safetensors *file);

/* ---- writing (header_write.c) ---- */

/* Numbers of the entries as they will lie in the file: larger elements first, so that each tensor is aligned to its own
 * without holes, which the format forbids. Freed with gp_free; NULL: no memory. */
size_t *gp_header_order(const gp_safetensors_entry *entries, size_t count);
/* Name, type and dimensions of an entry, not where its bytes come from. `number` is for the message. */
gp_status gp_header_check_entry(const gp_safetensors_entry *entry, size_t number);
/* The first bytes of a file that holds entries[order[0..count-1]]: length, JSON, spaces up to a multiple of 64. Freed
 * with gp_free. Errors: GP_INVALID for a name twice or not UTF-8, or a header that would be too large. */
gp_status gp_header_format(char **bytes, size_t *size, const gp_safetensors_entry *entries, const size_t *order,
                           size_t count, const gp_safetensors_pair *metadata, size_t metadata_count);

/* Whether a name is free of control characters, so that it can be printed wherever names are. Expects valid UTF-8. */
bool gp_header_name_is_printable(const char *name);

/* Converts `count` elements that lie at `source`, however they are aligned, as gp_convert. */
void gp_convert_unaligned(void *destination, gp_dtype destination_dtype, const unsigned char *source, gp_dtype dtype,
                          size_t count);

#endif
