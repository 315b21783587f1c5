/* The reference device: memory of the host with doubles in it, and work on whole arrays in plain loops. */
#include "device/reference/reference.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

size_t gp_reference_bytes(gp_type type) {
    size_t element = gp_dtype_is_float(type.dtype) ? sizeof(double) : gp_dtype_bytes(type.dtype);
    return (size_t)gp_shape_elements(type.shape) * element;
}

static gp_status reference_enter(gp_device *device) {
    (void)device;
    return GP_OK;
}

static void *reference_allocate(gp_device *device, size_t bytes) {
    (void)device;
    return gp_allocate(bytes);
}

static void reference_release(gp_device *device, void *memory, size_t bytes) {
    (void)device;
    (void)bytes;
    gp_free(memory);
}

static gp_dtype device_dtype(gp_dtype dtype) {
    return gp_dtype_is_float(dtype) ? GP_F64 : dtype;
}

static void reference_upload(gp_device *device, void *destination, const void *source, gp_type type) {
    (void)device;
    size_t count = (size_t)gp_shape_elements(type.shape);
    gp_convert(destination, device_dtype(type.dtype), source, type.dtype, count);
}

static void reference_download(gp_device *device, void *destination, const void *source, gp_type type) {
    (void)device;
    size_t count = (size_t)gp_shape_elements(type.shape);
    gp_convert(destination, type.dtype, source, device_dtype(type.dtype), count);
}

static void reference_copy(gp_device *device, void *destination, const void *source, size_t bytes) {
    (void)device;
    if (bytes) memmove(destination, source, bytes);
}

static void reference_zero(gp_device *device, void *memory, size_t bytes) {
    (void)device;
    if (bytes) memset(memory, 0, bytes);
}

static double reference_sum_squares(gp_device *device, const void *data, int64_t count) {
    (void)device;
    const double *x = data;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

static void reference_ordered_sum(gp_device *device, void *destination, const void *const *sources, int source_count,
                                  int64_t count) {
    (void)device;
    double *out = destination;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (int s = 0; s < source_count; s++) {
            sum += ((const double *)sources[s])[i];
        }
        out[i] = sum;
    }
}

static void reference_moving_average(gp_device *device, void *average, const void *value, double decay, int64_t count) {
    (void)device;
    double *a = average;
    const double *v = value;
    for (int64_t i = 0; i < count; i++) {
        a[i] = decay * a[i] + (1.0 - decay) * v[i];
    }
}

/* From counts, means and sums of squared deviations, as Chan, Golub & LeVeque write it. */
static void reference_merge_moments(gp_device *device, void *mean, void *variance, double weight,
                                    const void *other_mean, const void *other_variance, double other_weight,
                                    int64_t count) {
    (void)device;
    double *m = mean, *v = variance, total = weight + other_weight;
    for (int64_t i = 0; i < count; i++) {
        double mean_b = ((const double *)other_mean)[i], variance_b = ((const double *)other_variance)[i];
        double delta = weight > 0.0 ? mean_b - m[i] : 0.0;
        double deviations = (weight > 0.0 ? weight * v[i] : 0.0) + other_weight * variance_b;
        m[i] = weight > 0.0 ? m[i] + delta * other_weight / total : mean_b;
        v[i] = (deviations + delta * delta * weight * other_weight / total) / total;
    }
}

static bool reference_all_finite(gp_device *device, const void *data, gp_type type) {
    (void)device;
    if (!gp_dtype_is_float(type.dtype)) return true;
    const double *x = data;
    int64_t count = gp_shape_elements(type.shape);
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

static gp_status reference_wait(gp_device *device) {
    (void)device; /* kernels have run when they return */
    return GP_OK;
}

static void reference_destroy(gp_device *device) {
    gp_free(device);
}

static const gp_device_class reference_class = {
    .name = "reference",
    .stored = GP_F64,
    .in_host_memory = true,
    .bytes = gp_reference_bytes,
    .enter = reference_enter,
    .allocate = reference_allocate,
    .release = reference_release,
    .upload = reference_upload,
    .download = reference_download,
    .copy = reference_copy,
    .zero = reference_zero,
    .kernel_create = gp_reference_kernel_create,
    .update = gp_reference_update,
    .sum_squares = reference_sum_squares,
    .ordered_sum = reference_ordered_sum,
    .moving_average = reference_moving_average,
    .merge_moments = reference_merge_moments,
    .all_finite = reference_all_finite,
    .wait = reference_wait,
    .destroy = reference_destroy,
};

gp_status gp_device_create_reference(gp_device **device, const gp_device_options *options) {
    *device = gp_allocate(sizeof **device);
    if (!*device) return GP_OUT_OF_MEMORY;
    (*device)->class = &reference_class;
    (*device)->limit = options ? options->memory : 0;
    (*device)->threads = 1; /* plain loops in the calling thread, whatever was asked for */
    return GP_OK;
}
