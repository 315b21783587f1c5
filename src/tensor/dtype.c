/* Element types and the conversion between any two of them.
 *
 * Pairs that training uses have loops of their own; every other pair goes through a wide number in blocks that stay in
 * the cache. Nothing is rounded twice: where a wide number would be rounded before the target's own rounding, the first
 * step rounds to odd, which leaves the second one exact (Boldo and Melquiond, "Emulation of FMA and correctly rounded
 * sums: proved algorithms using rounding to odd", 2008). */
#include <math.h>

#include "gpipe/tensor.h"
#include "tensor/bf16.h"

enum { BLOCK = 256 };

const char *gp_dtype_name(gp_dtype dtype) {
    switch (dtype) {
#define DTYPE_NAME(name, text, bytes)                                                                                  \
    case name:                                                                                                         \
        return text;
        GP_DTYPES(DTYPE_NAME)
#undef DTYPE_NAME
    case GP_DTYPE_COUNT:
        break;
    }
    return "unknown";
}

size_t gp_dtype_bytes(gp_dtype dtype) {
    switch (dtype) {
#define DTYPE_BYTES(name, text, bytes)                                                                                 \
    case name:                                                                                                         \
        return bytes;
        GP_DTYPES(DTYPE_BYTES)
#undef DTYPE_BYTES
    case GP_DTYPE_COUNT:
        break;
    }
    return 0;
}

bool gp_dtype_is_float(gp_dtype dtype) {
    return dtype == GP_F32 || dtype == GP_BF16 || dtype == GP_F16 || dtype == GP_F64;
}

/* To f32 with rounding to odd: cut towards zero, and the last bit says that something was cut. */
static float f32_to_odd(double value) {
    float near = (float)value;
    if (isnan(value) || (double)near == value) return near;
    uint32_t bits = gp_f32_bits(near);
    if (fabs((double)near) > fabs(value)) bits -= 1;
    return gp_f32_of_bits(bits | 1u);
}

/* To f64 with rounding to odd. */
static double f64_to_odd(int64_t value) {
    double near = (double)value;
    if (near < 0x1p63 && (int64_t)near == value) return near;
    /* Here the magnitude is over 2^53, where neighbouring doubles are at least 2 apart. */
    bool away = near >= 0x1p63 || (value > 0 ? (int64_t)near > value : (int64_t)near < value);
    uint64_t bits;
    memcpy(&bits, &near, sizeof bits);
    bits = (bits - away) | 1u;
    memcpy(&near, &bits, sizeof near);
    return near;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static int64_t i64_of_f64(double value) {
    if (isnan(value)) return 0;
    double whole = rint(value);
    return whole >= 0x1p63 ? INT64_MAX : whole < -0x1p63 ? INT64_MIN : (int64_t)whole;
}

static void load_floats(double *out, const void *source, gp_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (dtype == GP_F32) out[i] = (double)((const float *)source)[i];
        if (dtype == GP_F64) out[i] = ((const double *)source)[i];
        if (dtype == GP_BF16) out[i] = (double)gp_bf16_to_f32(((const uint16_t *)source)[i]);
        if (dtype == GP_F16) out[i] = (double)gp_f16_to_f32(((const uint16_t *)source)[i]);
    }
}

static void load_integers(int64_t *out, const void *source, gp_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (dtype == GP_I32) out[i] = ((const int32_t *)source)[i];
        if (dtype == GP_I64) out[i] = ((const int64_t *)source)[i];
        if (dtype == GP_U8) out[i] = ((const uint8_t *)source)[i];
    }
}

static void store_floats(void *destination, gp_dtype dtype, const double *in, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (dtype == GP_F32) ((float *)destination)[i] = (float)in[i];
        if (dtype == GP_F64) ((double *)destination)[i] = in[i];
        if (dtype == GP_BF16) ((uint16_t *)destination)[i] = gp_bf16_of_f32(f32_to_odd(in[i]));
        if (dtype == GP_F16) ((uint16_t *)destination)[i] = gp_f16_of_f32(f32_to_odd(in[i]));
    }
}

static void store_integers(void *destination, gp_dtype dtype, const int64_t *in, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (dtype == GP_I32) ((int32_t *)destination)[i] = (int32_t)clamp(in[i], INT32_MIN, INT32_MAX);
        if (dtype == GP_I64) ((int64_t *)destination)[i] = in[i];
        if (dtype == GP_U8) ((uint8_t *)destination)[i] = (uint8_t)clamp(in[i], 0, UINT8_MAX);
    }
}

static void convert_block(void *destination, gp_dtype to, const void *source, gp_dtype from, size_t count) {
    double floats[BLOCK];
    int64_t integers[BLOCK];
    if (gp_dtype_is_float(from)) {
        load_floats(floats, source, from, count);
        if (gp_dtype_is_float(to)) {
            store_floats(destination, to, floats, count);
            return;
        }
        for (size_t i = 0; i < count; i++)
            integers[i] = i64_of_f64(floats[i]);
    } else {
        load_integers(integers, source, from, count);
        for (size_t i = 0; i < count && gp_dtype_is_float(to); i++)
            floats[i] = to == GP_F64 ? (double)integers[i] : f64_to_odd(integers[i]);
        if (gp_dtype_is_float(to)) {
            store_floats(destination, to, floats, count);
            return;
        }
    }
    store_integers(destination, to, integers, count);
}

static void bf16_from_f32(uint16_t *restrict destination, const float *restrict source, size_t count) {
    for (size_t i = 0; i < count; i++)
        destination[i] = gp_bf16_of_f32(source[i]);
}

static void f32_from_bf16(float *restrict destination, const uint16_t *restrict source, size_t count) {
    for (size_t i = 0; i < count; i++)
        destination[i] = gp_bf16_to_f32(source[i]);
}

void gp_convert(void *destination, gp_dtype destination_dtype, const void *source, gp_dtype source_dtype,
                size_t count) {
    if (count == 0) return;
    if (destination_dtype == source_dtype) {
        memmove(destination, source, count * gp_dtype_bytes(source_dtype));
        return;
    }
    if (destination_dtype == GP_BF16 && source_dtype == GP_F32) {
        bf16_from_f32(destination, source, count);
        return;
    }
    if (destination_dtype == GP_F32 && source_dtype == GP_BF16) {
        f32_from_bf16(destination, source, count);
        return;
    }
    size_t to_bytes = gp_dtype_bytes(destination_dtype), from_bytes = gp_dtype_bytes(source_dtype);
    for (size_t i = 0; i < count; i += BLOCK) {
        convert_block((char *)destination + i * to_bytes, destination_dtype, (const char *)source + i * from_bytes,
                      source_dtype, count - i < BLOCK ? count - i : BLOCK);
    }
}
