/* Reading safetensors: the header is checked in full before anything is believed, the tensors stay in the map. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"
#include "gpipe/words.h"

enum { LENGTH_BYTES = 8 };

struct gp_safetensors {
    gp_file_map map;
    json_t *header; /* owns all texts */
    const unsigned char *data;
    gp_header_tensor *tensors; /* as they lie in the file */
    size_t *by_name;           /* numbers of the tensors, sorted by name */
    size_t count;
    gp_safetensors_pair *metadata;
    size_t metadata_count;
};

static gp_status parse_header(gp_safetensors *file) {
    if (file->map.bytes < LENGTH_BYTES) {
        return gp_error(GP_INVALID, "it has %zu byte%s, fewer than the %d of the header's length", file->map.bytes,
                        gp_plural((int64_t)file->map.bytes, "s"), (int)LENGTH_BYTES);
    }
    uint64_t length = 0;
    for (int i = LENGTH_BYTES; i-- > 0;)
        length = length << 8 | file->map.data[i];
    if (length > GP_HEADER_MAX_BYTES) {
        return gp_error(GP_INVALID, "its header is said to have %" PRIu64 " bytes: up to %d are accepted", length,
                        GP_HEADER_MAX_BYTES);
    }
    if (length > file->map.bytes - LENGTH_BYTES) {
        return gp_error(GP_INVALID, "its header is said to have %" PRIu64 " byte%s, but only %zu follow", length,
                        gp_plural((int64_t)length, "s"), file->map.bytes - LENGTH_BYTES);
    }
    file->data = file->map.data + LENGTH_BYTES + length;
    return gp_header_parse(&file->header, (const char *)file->map.data + LENGTH_BYTES, (size_t)length, "the header");
}

static gp_status read_metadata(gp_safetensors *file) {
    json_t *pairs = json_object_get(file->header, GP_METADATA_KEY);
    if (!pairs) return GP_OK;
    if (!json_is_object(pairs)) return gp_error(GP_INVALID, "its \"" GP_METADATA_KEY "\" is not an object");
    file->metadata = gp_allocate_array(json_object_size(pairs), sizeof *file->metadata);
    if (!file->metadata) return GP_OUT_OF_MEMORY;
    const char *key;
    json_t *value;
    json_object_foreach(pairs, key, value) {
        if (!json_is_string(value)) return gp_error(GP_INVALID, "a value in its \"" GP_METADATA_KEY "\" is not a text");
        if (!gp_header_name_is_printable(key)) {
            return gp_error(GP_INVALID, "a key in its \"" GP_METADATA_KEY "\" has control characters");
        }
        file->metadata[file->metadata_count++] = (gp_safetensors_pair){key, json_string_value(value)};
    }
    return GP_OK;
}

static int compare_places(const void *a, const void *b) {
    const gp_header_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name); /* empty tensors at the same place: any order, but always the same */
}

static gp_status read_tensors(gp_safetensors *file) {
    file->tensors = gp_allocate_array(json_object_size(file->header), sizeof *file->tensors);
    if (!file->tensors) return GP_OUT_OF_MEMORY;
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value) {
        if (strcmp(name, GP_METADATA_KEY) == 0) continue;
        GP_TRY(gp_header_read_tensor(&file->tensors[file->count++], name, value));
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    return GP_OK;
}

/* Sorted by place, the tensors must follow one another without hole or overlap from the first byte to the last. */
static gp_status check_coverage(const gp_safetensors *file) {
    uint64_t expected = 0, size = (uint64_t)(file->map.data + file->map.bytes - file->data);
    for (size_t i = 0; i < file->count; i++) {
        const gp_header_tensor *tensor = &file->tensors[i];
        if (tensor->begin != expected) {
            return gp_error(GP_INVALID,
                            "tensor '%s' starts at byte %" PRIu64
                            " of the data, but the one before it ends at %" PRIu64,
                            tensor->name, tensor->begin, expected);
        }
        if (tensor->end > size) {
            return gp_error(GP_INVALID,
                            "tensor '%s' ends at byte %" PRIu64 " of the data, but the file has only %" PRIu64,
                            tensor->name, tensor->end, size);
        }
        expected = tensor->end;
    }
    if (expected == size) return GP_OK;
    return gp_error(GP_INVALID, "the tensors end at byte %" PRIu64 " of the data, but the file has %" PRIu64, expected,
                    size);
}

static int compare_names(const void *a, const void *b, void *tensors) {
    const gp_header_tensor *all = tensors;
    return strcmp(all[*(const size_t *)a].name, all[*(const size_t *)b].name);
}

static gp_status index_names(gp_safetensors *file) {
    file->by_name = gp_allocate_array(file->count, sizeof *file->by_name);
    if (!file->by_name) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = i;
    qsort_r(file->by_name, file->count, sizeof *file->by_name, compare_names, file->tensors);
    return GP_OK;
}

static gp_status read_file(gp_safetensors *file) {
    GP_TRY(parse_header(file));
    GP_TRY(read_metadata(file));
    GP_TRY(read_tensors(file));
    GP_TRY(check_coverage(file));
    return index_names(file);
}

gp_status gp_safetensors_open(gp_safetensors **file, const char *path) {
    *file = NULL;
    gp_safetensors *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = gp_file_map_open(&made->map, path);
    if (status == GP_OK) {
        status = read_file(made);
        gp_error_within(status, "'%s' is not a safetensors file that can be read", path);
    }
    if (status != GP_OK) {
        gp_safetensors_close(made);
        return status;
    }
    *file = made;
    return GP_OK;
}

void gp_safetensors_close(gp_safetensors *file) {
    if (!file) return;
    gp_free(file->tensors);
    gp_free(file->by_name);
    gp_free(file->metadata);
    json_decref(file->header);
    gp_file_map_close(&file->map);
    gp_free(file);
}

size_t gp_safetensors_count(const gp_safetensors *file) {
    return file->count;
}

const char *gp_safetensors_name(const gp_safetensors *file, size_t index) {
    return file->tensors[index].name;
}

gp_type gp_safetensors_type(const gp_safetensors *file, size_t index) {
    return file->tensors[index].type;
}

const void *gp_safetensors_data(const gp_safetensors *file, size_t index) {
    return file->data + file->tensors[index].begin;
}

size_t gp_safetensors_header_bytes(const gp_safetensors *file) {
    return (size_t)(file->data - file->map.data);
}

bool gp_safetensors_find(const gp_safetensors *file, const char *name, size_t *index) {
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2, number = file->by_name[middle];
        int order = strcmp(name, file->tensors[number].name);
        if (order == 0) {
            if (index) *index = number;
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

void gp_convert_unaligned(void *destination, gp_dtype destination_dtype, const unsigned char *source, gp_dtype dtype,
                          size_t count) {
    size_t size = gp_dtype_bytes(dtype);
    if ((uintptr_t)source % size == 0) {
        gp_convert(destination, destination_dtype, source, dtype, count);
        return;
    }
    double aligned[512];
    for (size_t done = 0; done < count;) {
        size_t piece = count - done < sizeof aligned / size ? count - done : sizeof aligned / size;
        memcpy(aligned, source + done * size, piece * size);
        gp_convert((char *)destination + done * gp_dtype_bytes(destination_dtype), destination_dtype, aligned, dtype,
                   piece);
        done += piece;
    }
}

gp_status gp_safetensors_read(const gp_safetensors *file, size_t index, size_t first, size_t count, gp_dtype dtype,
                              void *destination) {
    const gp_header_tensor *tensor = &file->tensors[index];
    size_t elements = (size_t)gp_shape_elements(tensor->type.shape), size = gp_dtype_bytes(tensor->type.dtype);
    if (first > elements || count > elements - first) {
        return gp_error(GP_INVALID, "elements %zu to %zu of tensor '%s' were asked for: it has %zu", first,
                        first + count, tensor->name, elements);
    }
    gp_convert_unaligned(destination, dtype, file->data + tensor->begin + first * size, tensor->type.dtype, count);
    return GP_OK;
}

size_t gp_safetensors_metadata_count(const gp_safetensors *file) {
    return file->metadata_count;
}

gp_safetensors_pair gp_safetensors_metadata(const gp_safetensors *file, size_t index) {
    return file->metadata[index];
}

const char *gp_safetensors_metadata_find(const gp_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, GP_METADATA_KEY), key));
}
