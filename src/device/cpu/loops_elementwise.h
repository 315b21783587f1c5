/* Loops over elements: arithmetic, conversion, activation functions and their gradients.
 *
 * GELU (tanh form), SiLU and sigmoid go through one exponential: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)). */
#ifndef GP_DEVICE_CPU_LOOPS_ELEMENTWISE_H
#define GP_DEVICE_CPU_LOOPS_ELEMENTWISE_H

#include "device/cpu/loops_lanes.h"
#include "device/cpu/math.h"

/* ---- arithmetic ---- */

GP_INLINE float binary_of(gp_op_id op, float a, float b) {
    switch (op) {
    case GP_OP_ADD:
        return a + b;
    case GP_OP_SUB:
        return a - b;
    case GP_OP_MUL:
        return a * b;
    default:
        return a / b;
    }
}

GP_INLINE void binary_run(gp_op_id op, gp_dtype adtype, int astep, gp_dtype bdtype, int bstep, const void *a,
                          const void *b, void *y, int64_t count) {
    gp_dtype ydtype = adtype == GP_BF16 || bdtype == GP_BF16 ? GP_BF16 : GP_F32;
    float a0 = load(adtype, a, 0), b0 = load(bdtype, b, 0);
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float u = astep ? load(adtype, a, i) : a0, v = bstep ? load(bdtype, b, i) : b0;
        store(ydtype, y, i, binary_of(op, u, v));
    }
}

GP_INLINE void binary_steps(gp_op_id op, gp_dtype adtype, gp_dtype bdtype, gp_cpu_operand a, gp_cpu_operand b, void *y,
                            int64_t count) {
    if (!a.step) {
        binary_run(op, adtype, 0, bdtype, 1, a.data, b.data, y, count);
    } else if (!b.step) {
        binary_run(op, adtype, 1, bdtype, 0, a.data, b.data, y, count);
    } else {
        binary_run(op, adtype, 1, bdtype, 1, a.data, b.data, y, count);
    }
}

GP_INLINE void binary_dtypes(gp_op_id op, gp_cpu_operand a, gp_cpu_operand b, void *y, int64_t count) {
    if (a.dtype == GP_F32) {
        if (b.dtype == GP_F32) {
            binary_steps(op, GP_F32, GP_F32, a, b, y, count);
        } else {
            binary_steps(op, GP_F32, GP_BF16, a, b, y, count);
        }
    } else if (b.dtype == GP_F32) {
        binary_steps(op, GP_BF16, GP_F32, a, b, y, count);
    } else {
        binary_steps(op, GP_BF16, GP_BF16, a, b, y, count);
    }
}

static void binary(gp_op_id op, gp_cpu_operand a, gp_cpu_operand b, void *y, int64_t count) {
    if (count <= 0) return;
    switch (op) {
    case GP_OP_ADD:
        binary_dtypes(GP_OP_ADD, a, b, y, count);
        break;
    case GP_OP_SUB:
        binary_dtypes(GP_OP_SUB, a, b, y, count);
        break;
    case GP_OP_MUL:
        binary_dtypes(GP_OP_MUL, a, b, y, count);
        break;
    default:
        binary_dtypes(GP_OP_DIV, a, b, y, count);
        break;
    }
}

GP_INLINE void scale_run(gp_dtype dtype, const void *x, void *y, float factor, int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        store(dtype, y, i, load(dtype, x, i) * factor);
    }
}

static void scale(gp_dtype dtype, const void *x, void *y, float factor, int64_t count) {
    if (dtype == GP_F32) {
        scale_run(GP_F32, x, y, factor, count);
    } else {
        scale_run(GP_BF16, x, y, factor, count);
    }
}

GP_INLINE void cast_run(gp_dtype xdtype, gp_dtype ydtype, gp_cpu_operand x, void *y, int64_t count) {
    float x0 = load(xdtype, x.data, 0);
    if (x.step) {
        GP_SIMD
        for (int64_t i = 0; i < count; i++) {
            store(ydtype, y, i, load(xdtype, x.data, i));
        }
    } else {
        GP_SIMD
        for (int64_t i = 0; i < count; i++) {
            store(ydtype, y, i, x0);
        }
    }
}

static void cast(gp_cpu_operand x, void *y, gp_dtype dtype, int64_t count) {
    if (count <= 0) return;
    if (x.dtype == GP_F32) {
        if (dtype == GP_F32) {
            cast_run(GP_F32, GP_F32, x, y, count);
        } else {
            cast_run(GP_F32, GP_BF16, x, y, count);
        }
    } else if (dtype == GP_F32) {
        cast_run(GP_BF16, GP_F32, x, y, count);
    } else {
        cast_run(GP_BF16, GP_BF16, x, y, count);
    }
}

GP_INLINE void accumulate_run(gp_dtype dtype, const void *x, float *y, int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        y[i] += load(dtype, x, i);
    }
}

static void accumulate(gp_dtype dtype, const void *x, float *y, int64_t count) {
    if (dtype == GP_F32) {
        accumulate_run(GP_F32, x, y, count);
    } else {
        accumulate_run(GP_BF16, x, y, count);
    }
}

/* ---- activations ---- */

/* Twice the argument of the tanh in GELU: 2 sqrt(2/pi) (x + 0.044715 x^3), and its derivative. */
#define GELU_FACTOR 1.5957691216057308f
#define GELU_CUBIC  0.044715f

/* 1 / d for 1 <= d < 2^125 within 2 units in the last place: four multiplications after a guess, where a division of a
 * whole vector would hold up the processor for longer than all the rest of the function. */
GP_INLINE float reciprocal_of(float d) {
    float y = gp_f32_of_bits(0x7EF311C3u - gp_f32_bits(d));
    y = y * (2.0f - d * y);
    y = y * (2.0f - d * y);
    float rest = 1.0f - d * y;
    return y + y * (rest + rest * rest);
}

/* Where the exponential would leave the range of f32 the result is as good as 0 or 1. */
GP_INLINE float sigmoid_of(float x) {
    int32_t n;
    float t = x > 86.0f ? 86.0f : x;
    t = t < -86.0f ? -86.0f : t;
    float p = gp_fast_exp_reduced(-t, &n);
    return reciprocal_of(1.0f + (1.0f + p) * gp_fast_power_of_two(n));
}

GP_INLINE float activation_of(gp_activation_kind kind, float x) {
    switch (kind) {
    case GP_RELU:
        return x < 0.0f ? 0.0f : x; /* NaN stays NaN */
    case GP_GELU_TANH:
        return x * sigmoid_of(GELU_FACTOR * (x + GELU_CUBIC * (x * x * x)));
    case GP_GELU_ERF:
        return 0.5f * x * (1.0f + gp_fast_erff(x * 0.70710678118654752f));
    case GP_SILU:
        return x * sigmoid_of(x);
    case GP_SIGMOID:
        return sigmoid_of(x);
    default:
        return gp_fast_tanhf(x);
    }
}

/* The derivative, from x or, for sigmoid and tanh, from y. */
GP_INLINE float derivative_of(gp_activation_kind kind, float v) {
    switch (kind) {
    case GP_RELU:
        return v > 0.0f ? 1.0f : 0.0f;
    case GP_GELU_TANH: {
        float s = sigmoid_of(GELU_FACTOR * (v + GELU_CUBIC * (v * v * v)));
        return s + v * s * (1.0f - s) * (GELU_FACTOR * (1.0f + 3.0f * GELU_CUBIC * (v * v)));
    }
    case GP_GELU_ERF: {
        float density = 0.39894228040143268f * gp_fast_expf(-0.5f * (v * v));
        return 0.5f * (1.0f + gp_fast_erff(v * 0.70710678118654752f)) + v * density;
    }
    case GP_SILU: {
        float s = sigmoid_of(v);
        return s * (1.0f + v * (1.0f - s));
    }
    case GP_SIGMOID:
        return v * (1.0f - v);
    default:
        return 1.0f - v * v;
    }
}

GP_INLINE void activation_run(gp_activation_kind kind, gp_dtype dtype, const void *x, void *y, int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        store(dtype, y, i, activation_of(kind, load(dtype, x, i)));
    }
}

GP_INLINE void activation_gradient_run(gp_activation_kind kind, gp_dtype dtype, const void *dy, const void *v, void *dx,
                                       int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        store(dtype, dx, i, load(dtype, dy, i) * derivative_of(kind, load(dtype, v, i)));
    }
}

GP_INLINE void activation_kinds(gp_activation_kind kind, gp_dtype dtype, const void *x, void *y, int64_t count) {
    switch (kind) {
    case GP_RELU:
        activation_run(GP_RELU, dtype, x, y, count);
        break;
    case GP_GELU_TANH:
        activation_run(GP_GELU_TANH, dtype, x, y, count);
        break;
    case GP_GELU_ERF:
        activation_run(GP_GELU_ERF, dtype, x, y, count);
        break;
    case GP_SILU:
        activation_run(GP_SILU, dtype, x, y, count);
        break;
    case GP_SIGMOID:
        activation_run(GP_SIGMOID, dtype, x, y, count);
        break;
    default:
        activation_run(GP_TANH, dtype, x, y, count);
        break;
    }
}

GP_INLINE void activation_gradient_kinds(gp_activation_kind kind, gp_dtype dtype, const void *dy, const void *v,
                                         void *dx, int64_t count) {
    switch (kind) {
    case GP_RELU:
        activation_gradient_run(GP_RELU, dtype, dy, v, dx, count);
        break;
    case GP_GELU_TANH:
        activation_gradient_run(GP_GELU_TANH, dtype, dy, v, dx, count);
        break;
    case GP_GELU_ERF:
        activation_gradient_run(GP_GELU_ERF, dtype, dy, v, dx, count);
        break;
    case GP_SILU:
        activation_gradient_run(GP_SILU, dtype, dy, v, dx, count);
        break;
    case GP_SIGMOID:
        activation_gradient_run(GP_SIGMOID, dtype, dy, v, dx, count);
        break;
    default:
        activation_gradient_run(GP_TANH, dtype, dy, v, dx, count);
        break;
    }
}

static void activation(gp_activation_kind kind, gp_dtype dtype, const void *x, void *y, int64_t count) {
    if (dtype == GP_F32) {
        activation_kinds(kind, GP_F32, x, y, count);
    } else {
        activation_kinds(kind, GP_BF16, x, y, count);
    }
}

static void activation_gradient(gp_activation_kind kind, gp_dtype dtype, const void *dy, const void *v, void *dx,
                                int64_t count) {
    if (dtype == GP_F32) {
        activation_gradient_kinds(kind, GP_F32, dy, v, dx, count);
    } else {
        activation_gradient_kinds(kind, GP_BF16, dy, v, dx, count);
    }
}

#endif
