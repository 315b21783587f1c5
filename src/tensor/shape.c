/* Shapes and types: comparison, sizes, and how they are written in messages. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "tensor/batched.h"

gp_shape gp_shape_of(int rank, const int64_t *dims) {
    gp_shape shape = {.rank = rank};
    for (int i = 0; i < rank && i < GP_MAX_RANK; i++)
        shape.dims[i] = dims[i];
    return shape;
}

int64_t gp_shape_elements(gp_shape shape) {
    int64_t elements = 1;
    for (int i = 0; i < shape.rank; i++)
        elements *= shape.dims[i];
    return elements;
}

bool gp_shape_equal(gp_shape a, gp_shape b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++) {
        if (a.dims[i] != b.dims[i]) return false;
    }
    return true;
}

gp_status gp_shape_check(gp_shape shape) {
    if (shape.rank < 0 || shape.rank > GP_MAX_RANK) {
        return gp_error(GP_INVALID, "a shape has rank %d: 0 to %d are accepted", shape.rank, (int)GP_MAX_RANK);
    }
    /* A dimension of 0 counts as 1, so that no partial product overflows in whatever order somebody multiplies. */
    int64_t elements = 1;
    for (int i = 0; i < shape.rank; i++) {
        int64_t dim = shape.dims[i];
        if (dim < 0)
            return gp_error(GP_INVALID, "dimension %d of a shape is %" PRId64 ": it must be 0 or more", i, dim);
        if (dim > 1 && elements > INT64_MAX / 8 / dim) {
            return gp_error(GP_INVALID, "a shape has too many elements to count: dimension %d is %" PRId64, i, dim);
        }
        if (dim > 1) elements *= dim;
    }
    return GP_OK;
}

size_t gp_type_bytes(gp_type type) {
    return (size_t)gp_shape_elements(type.shape) * gp_dtype_bytes(type.dtype);
}

bool gp_type_equal(gp_type a, gp_type b) {
    return a.dtype == b.dtype && gp_shape_equal(a.shape, b.shape);
}

char *gp_type_format(gp_type type, char *text, size_t size) {
    char dims[GP_MAX_RANK * 21 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < type.shape.rank && i < GP_MAX_RANK; i++) {
        int written = snprintf(dims + used, sizeof dims - used, "%s%" PRId64, i ? "," : "", type.shape.dims[i]);
        if (written > 0) used += (size_t)written;
    }
    if (size > 0) snprintf(text, size, "%s[%s]", gp_dtype_name(type.dtype), dims);
    return text;
}

gp_type gp_type_with_batch(gp_type sample, int64_t batch) {
    gp_type type = {.dtype = sample.dtype, .shape = {.rank = sample.shape.rank + 1, .dims = {batch}}};
    for (int i = 0; i < sample.shape.rank && i + 1 < GP_MAX_RANK; i++)
        type.shape.dims[i + 1] = sample.shape.dims[i];
    return type;
}

gp_type gp_type_of_sample(gp_type batched) {
    if (batched.shape.rank < 1) return batched;
    return (gp_type){batched.dtype, gp_shape_of(batched.shape.rank - 1, batched.shape.dims + 1)};
}
