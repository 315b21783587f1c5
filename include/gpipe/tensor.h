/* Element types, shapes and tensors in host memory. */
#ifndef GPIPE_TENSOR_H
#define GPIPE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types: name in files and messages, bytes of an element in host memory.
 * GP_F64 is what the reference device computes in; models are written in the others. */
#define GP_DTYPES(X)                                                                                                   \
    X(GP_F32, "f32", 4)                                                                                                \
    X(GP_BF16, "bf16", 2)                                                                                              \
    X(GP_F16, "f16", 2)                                                                                                \
    X(GP_F64, "f64", 8)                                                                                                \
    X(GP_I32, "i32", 4)                                                                                                \
    X(GP_I64, "i64", 8)                                                                                                \
    X(GP_U8, "u8", 1)

typedef enum gp_dtype {
#define GP_DTYPE_ENUM(name, text, bytes) name,
    GP_DTYPES(GP_DTYPE_ENUM)
#undef GP_DTYPE_ENUM
        GP_DTYPE_COUNT
} gp_dtype;

/* The name ("f32") and the bytes of an element; "unknown" and 0 for a number that is no dtype. */
GP_API const char *gp_dtype_name(gp_dtype dtype);
GP_API size_t gp_dtype_bytes(gp_dtype dtype);
/* Whether elements of `dtype` are floating-point numbers. */
GP_API bool gp_dtype_is_float(gp_dtype dtype);

enum { GP_MAX_RANK = 6 };

/* A shape: `rank` dimensions, outermost first, row-major ("C") order. Rank 0 is a scalar. */
typedef struct gp_shape {
    int rank;
    int64_t dims[GP_MAX_RANK];
} gp_shape;

/* The type of a value or tensor. */
typedef struct gp_type {
    gp_dtype dtype;
    gp_shape shape;
} gp_type;

/* Number of elements; 1 for a scalar. The caller has checked that it does not overflow (gp_shape_check). */
GP_API int64_t gp_shape_elements(gp_shape shape);
GP_API bool gp_shape_equal(gp_shape a, gp_shape b);
/* GP_INVALID when rank or a dimension is negative, rank is over GP_MAX_RANK, or elements * 8 overflow int64. */
GP_API gp_status gp_shape_check(gp_shape shape);
/* Bytes of a tensor of this type in host memory. */
GP_API size_t gp_type_bytes(gp_type type);
GP_API bool gp_type_equal(gp_type a, gp_type b);
/* Writes for instance "f32[4,256,768]" into `text` (always terminated) and returns `text`. */
GP_API char *gp_type_format(gp_type type, char *text, size_t size);

/* A tensor in host memory, contiguous, row-major. */
typedef struct gp_tensor {
    gp_type type;
    void *data;
} gp_tensor;

/* Allocates zeroed memory, 64-byte aligned. Errors: GP_INVALID, GP_OUT_OF_MEMORY; on error `tensor->data` is NULL. */
GP_API gp_status gp_tensor_create(gp_tensor *tensor, gp_type type);
/* Frees what gp_tensor_create allocated; accepts a zeroed struct. */
GP_API void gp_tensor_destroy(gp_tensor *tensor);

/* Converts `count` elements between any two dtypes (round to nearest even; integers saturate; NaN to integer is 0). */
GP_API void gp_convert(void *destination, gp_dtype destination_dtype, const void *source, gp_dtype source_dtype,
                       size_t count);

/* Shape from a list of dimensions: gp_shape_of(3, (int64_t[]){4, 256, 768}). Makes no checks: see gp_shape_check. */
GP_API gp_shape gp_shape_of(int rank, const int64_t *dims);

#ifdef __cplusplus
}
#endif
#endif
