/* Element by element operations of the reference device. */
#include <math.h>

#include "device/reference/reference.h"

#define SQRT_HALF        0.70710678118654752440
#define INV_SQRT_TWO_PI  0.39894228040143267794
#define SQRT_TWO_OVER_PI 0.79788456080286535588
#define GELU_TANH_CUBIC  0.044715

static double add(double a, double b) {
    return a + b;
}

static double sub(double a, double b) {
    return a - b;
}

static double mul(double a, double b) {
    return a * b;
}

static double quotient(double a, double b) {
    return a / b;
}

static gp_status binary(const gp_reference_call *call, double (*function)(double, double)) {
    gp_shape shape = call->output_types[0].shape;
    const double *a = gp_reference_in(call, 0), *b = gp_reference_in(call, 1);
    double *y = gp_reference_out(call, 0);
    for (int64_t i = 0; i < gp_shape_elements(shape); i++) {
        y[i] = function(a[gp_reference_source(shape, call->input_types[0].shape, i)],
                        b[gp_reference_source(shape, call->input_types[1].shape, i)]);
    }
    return GP_OK;
}

gp_status gp_reference_add(const gp_reference_call *call) {
    return binary(call, add);
}

gp_status gp_reference_sub(const gp_reference_call *call) {
    return binary(call, sub);
}

gp_status gp_reference_mul(const gp_reference_call *call) {
    return binary(call, mul);
}

gp_status gp_reference_div(const gp_reference_call *call) {
    return binary(call, quotient);
}

static gp_status scaled(const gp_reference_call *call, double factor) {
    const double *x = gp_reference_in(call, 0);
    double *y = gp_reference_out(call, 0);
    for (int64_t i = 0; i < gp_shape_elements(call->output_types[0].shape); i++) {
        y[i] = x[i] * factor;
    }
    return GP_OK;
}

gp_status gp_reference_scale(const gp_reference_call *call) {
    return scaled(call, ((const gp_scale_attributes *)call->attributes)->factor);
}

/* Every floating dtype is a double here. */
gp_status gp_reference_cast(const gp_reference_call *call) {
    return scaled(call, 1.0);
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double activation(gp_activation_kind kind, double x) {
    switch (kind) {
    case GP_RELU:
        return x > 0.0 || isnan(x) ? x : 0.0;
    case GP_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(SQRT_TWO_OVER_PI * (x + GELU_TANH_CUBIC * x * x * x)));
    case GP_GELU_ERF:
        return 0.5 * x * (1.0 + erf(x * SQRT_HALF));
    case GP_SILU:
        return x * sigmoid(x);
    case GP_SIGMOID:
        return sigmoid(x);
    case GP_TANH:
        return tanh(x);
    }
    return (double)NAN;
}

static double gelu_tanh_slope(double x) {
    double t = tanh(SQRT_TWO_OVER_PI * (x + GELU_TANH_CUBIC * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * SQRT_TWO_OVER_PI * (1.0 + 3.0 * GELU_TANH_CUBIC * x * x);
}

/* The derivative, from x, or from y = f(x) where that is enough. */
static double activation_slope(gp_activation_kind kind, double x_or_y) {
    double x = x_or_y, y = x_or_y;
    switch (kind) {
    case GP_RELU:
        return x > 0.0 ? 1.0 : 0.0;
    case GP_GELU_TANH:
        return gelu_tanh_slope(x);
    case GP_GELU_ERF:
        return 0.5 * (1.0 + erf(x * SQRT_HALF)) + x * INV_SQRT_TWO_PI * exp(-0.5 * x * x);
    case GP_SILU:
        return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)));
    case GP_SIGMOID:
        return y * (1.0 - y);
    case GP_TANH:
        return 1.0 - y * y;
    }
    return (double)NAN;
}

gp_status gp_reference_activation(const gp_reference_call *call) {
    const gp_activation_attributes *attributes = call->attributes;
    const double *x = gp_reference_in(call, 0);
    double *y = gp_reference_out(call, 0);
    for (int64_t i = 0; i < gp_shape_elements(call->output_types[0].shape); i++) {
        y[i] = activation(attributes->kind, x[i]);
    }
    return GP_OK;
}

gp_status gp_reference_activation_gradient(const gp_reference_call *call) {
    const gp_activation_attributes *attributes = call->attributes;
    const double *dy = gp_reference_in(call, 0), *x_or_y = gp_reference_in(call, 1);
    double *dx = gp_reference_out(call, 0);
    for (int64_t i = 0; i < gp_shape_elements(call->output_types[0].shape); i++) {
        dx[i] = dy[i] * activation_slope(attributes->kind, x_or_y[i]);
    }
    return GP_OK;
}

gp_status gp_reference_dropout(const gp_reference_call *call) {
    const gp_dropout_attributes *attributes = call->attributes;
    gp_shape shape = call->output_types[0].shape;
    const double *x = gp_reference_in(call, 0);
    double *y = gp_reference_out(call, 0);
    int64_t samples = shape.rank > 0 ? shape.dims[0] : 1;
    int64_t elements = samples > 0 ? gp_shape_elements(shape) / samples : 0;
    for (int64_t s = 0; s < samples; s++) {
        for (int64_t e = 0; e < elements; e++) {
            y[s * elements + e] =
                x[s * elements + e] * gp_reference_keep(call->run, attributes->p, attributes->use, s, e);
        }
    }
    return GP_OK;
}
