/* The header of a safetensors file that nobody vouches for, read entry by entry (base/json.h bounds what it may be). */
#include "checkpoint/header.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"

enum { MAX_DEPTH = 3 }; /* header { tensor { shape [ */

static const struct {
    gp_dtype dtype;
    const char *name;
} dtype_names[] = {
    {GP_F32, "F32"}, {GP_BF16, "BF16"}, {GP_F16, "F16"}, {GP_F64, "F64"},
    {GP_I32, "I32"}, {GP_I64, "I64"},   {GP_U8, "U8"},   {GP_U8, "BOOL"}, /* read only: a byte each */
};

enum { DTYPE_NAMES = sizeof dtype_names / sizeof dtype_names[0] };

const char *gp_safetensors_dtype_name(gp_dtype dtype) {
    for (size_t i = 0; i < DTYPE_NAMES; i++) {
        if (dtype_names[i].dtype == dtype) return dtype_names[i].name;
    }
    return "unknown";
}

bool gp_header_name_is_printable(const char *name) {
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7F) return false;
        if (*c == 0xC2 && c[1] < 0xA0) return false; /* U+0080 to U+009F */
    }
    return true;
}

gp_status gp_header_parse(json_t **object, const char *text, size_t bytes, const char *what) {
    static const gp_json_limits limits = {GP_HEADER_MAX_BYTES, MAX_DEPTH, GP_HEADER_MAX_VALUES};
    *object = NULL;
    if (bytes == 0 || text[0] != '{') return gp_error(GP_INVALID, "%s does not start with '{'", what);
    return gp_json_parse(object, text, bytes, &limits, what);
}

static gp_status read_dtype(gp_dtype *dtype, const char *name, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text) return gp_error(GP_INVALID, "tensor '%s' has no \"dtype\" text", name);
    for (size_t i = 0; i < DTYPE_NAMES; i++) {
        if (strcmp(dtype_names[i].name, text) == 0) {
            *dtype = dtype_names[i].dtype;
            return GP_OK;
        }
    }
    return gp_error(GP_INVALID, "tensor '%s' has dtype '%.40s': F32, BF16, F16, F64, I32, I64 and U8 are accepted",
                    name, gp_header_name_is_printable(text) ? text : "?");
}

static gp_status read_shape(gp_shape *shape, const char *name, const json_t *value) {
    if (!json_is_array(value)) return gp_error(GP_INVALID, "tensor '%s' has no \"shape\" list", name);
    size_t rank = json_array_size(value);
    if (rank > GP_MAX_RANK) {
        return gp_error(GP_INVALID, "tensor '%s' has %zu dimensions: up to %d are accepted", name, rank,
                        (int)GP_MAX_RANK);
    }
    *shape = (gp_shape){.rank = (int)rank};
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return gp_error(GP_INVALID, "dimension %zu of tensor '%s' is not a whole number of 0 or more", i, name);
        }
        shape->dims[i] = json_integer_value(dim);
    }
    return gp_error_within(gp_shape_check(*shape), "tensor '%s'", name);
}

static gp_status read_offsets(gp_header_tensor *tensor, const json_t *value) {
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return gp_error(GP_INVALID, "tensor '%s' has no \"data_offsets\": [begin, end] with 0 <= begin <= end",
                        tensor->name);
    }
    tensor->begin = (uint64_t)json_integer_value(begin);
    tensor->end = (uint64_t)json_integer_value(end);
    uint64_t bytes = (uint64_t)gp_type_bytes(tensor->type);
    if (tensor->end - tensor->begin == bytes) return GP_OK;
    char type[160];
    return gp_error(GP_INVALID, "tensor '%s' is %s, which takes %" PRIu64 " bytes, but its data_offsets hold %" PRIu64,
                    tensor->name, gp_type_format(tensor->type, type, sizeof type), bytes, tensor->end - tensor->begin);
}

gp_status gp_header_read_tensor(gp_header_tensor *tensor, const char *name, json_t *value) {
    if (!gp_header_name_is_printable(name)) return gp_error(GP_INVALID, "a tensor's name has control characters");
    *tensor = (gp_header_tensor){.name = name};
    if (!json_is_object(value)) return gp_error(GP_INVALID, "tensor '%s' is not described by an object", name);
    if (json_object_size(value) > 3) {
        return gp_error(GP_INVALID, "tensor '%s' has fields besides dtype, shape and data_offsets", name);
    }
    GP_TRY(read_dtype(&tensor->type.dtype, name, json_object_get(value, "dtype")));
    GP_TRY(read_shape(&tensor->type.shape, name, json_object_get(value, "shape")));
    return read_offsets(tensor, json_object_get(value, "data_offsets"));
}
