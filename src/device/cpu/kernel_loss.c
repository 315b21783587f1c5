/* Losses: cross-entropy over logits and squared error, with their gradients. Each row's (or sample's) loss is kept in
 * the workspace in double precision; they are added in the order of the rows when all are there. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernel.h"

static void sum_losses(const gp_cpu_call *call) {
    const double *losses = call->workspace;
    double total = 0.0;
    for (int64_t r = 0; r < call->kernel->rows; r++) {
        total += losses[r];
    }
    *(float *)call->outputs[0] = (float)total;
}

/* ---- cross-entropy ---- */

static bool is_ignored(const gp_cpu_kernel *kernel, int32_t target) {
    const gp_cross_entropy_options *options = &kernel->attributes.cross_entropy;
    return options->has_ignored && target == options->ignored;
}

static gp_status check_targets(const gp_cpu_call *call) {
    const gp_cpu_kernel *kernel = call->kernel;
    const int32_t *targets = call->inputs[1];
    for (int64_t r = 0; r < kernel->rows; r++) {
        if ((targets[r] < 0 || targets[r] >= kernel->columns) && !is_ignored(kernel, targets[r])) {
            return gp_error(GP_INVALID,
                            "target %" PRId32 " at position %" PRId64 " is outside the classes: 0 to %" PRId64
                            " are accepted",
                            targets[r], r, kernel->columns - 1);
        }
    }
    return GP_OK;
}

static float weight_of(const gp_cpu_call *call, int64_t row) {
    const float *weights = call->inputs[2];
    return weights && gp_cpu_is_present(call->kernel->inputs[2]) ? weights[row] : 1.0f;
}

static gp_cpu_target target_of(const gp_cpu_call *call, int64_t row) {
    return (gp_cpu_target){.index = ((const int32_t *)call->inputs[1])[row],
                           .smoothing = (float)call->kernel->attributes.cross_entropy.label_smoothing};
}

static void cross_entropy_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    float *lse = call->outputs[1];
    double *losses = call->workspace;
    for (int64_t r = begin; r < end; r++) {
        gp_cpu_target target = target_of(call, r);
        losses[r] = 0.0;
        lse[r] = 0.0f;
        if (is_ignored(kernel, (int32_t)target.index)) continue;
        const void *row = gp_cpu_from(dtype, call->inputs[0], r * kernel->columns);
        double loss = kernel->loops->cross_entropy(&target, dtype, row, kernel->columns, &lse[r]);
        losses[r] = loss * (double)weight_of(call, r);
    }
}

static gp_status setup_rows(gp_cpu_kernel *kernel, const gp_kernel_desc *desc, gp_cpu_part *part) {
    gp_type logits = desc->inputs[0], weights = desc->inputs[2];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(logits) && gp_cpu_columns(logits.shape) > 0 &&
                            desc->inputs[1].dtype == GP_I32 && (!gp_cpu_is_present(weights) || weights.dtype == GP_F32),
                        desc));
    kernel->rows = gp_cpu_rows(logits.shape);
    kernel->columns = gp_cpu_columns(logits.shape);
    kernel->check = check_targets;
    gp_cpu_kernel_cut(kernel, part, kernel->rows, kernel->columns);
    return GP_OK;
}

gp_status gp_cpu_setup_cross_entropy(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(setup_rows(kernel, desc, cross_entropy_part));
    kernel->kernel.workspace = (size_t)kernel->rows * sizeof(double);
    kernel->finish = sum_losses;
    return GP_OK;
}

static void cross_entropy_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    const float *lse = call->inputs[3], *dloss = call->inputs[4];
    for (int64_t r = begin; r < end; r++) {
        gp_cpu_target target = target_of(call, r);
        void *row = gp_cpu_to(dtype, call->outputs[0], r * kernel->columns);
        if (is_ignored(kernel, (int32_t)target.index)) {
            memset(row, 0, (size_t)kernel->columns * gp_dtype_bytes(dtype));
            continue;
        }
        target.factor = *dloss * weight_of(call, r);
        kernel->loops->cross_entropy_gradient(&target, dtype, gp_cpu_from(dtype, call->inputs[0], r * kernel->columns),
                                              lse[r], row, kernel->columns);
    }
}

gp_status gp_cpu_setup_cross_entropy_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(desc->outputs[0].dtype == desc->inputs[0].dtype && desc->inputs[3].dtype == GP_F32 &&
                            desc->inputs[4].dtype == GP_F32,
                        desc));
    return setup_rows(kernel, desc, cross_entropy_gradient_part);
}

/* ---- squared error: rows are samples ---- */

static void squared_error_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    double *losses = call->workspace;
    for (int64_t r = begin; r < end; r++) {
        double sum =
            kernel->loops->squared_error(dtype, gp_cpu_from(dtype, call->inputs[0], r * kernel->columns),
                                         gp_cpu_from(dtype, call->inputs[1], r * kernel->columns), kernel->columns);
        losses[r] = sum / (double)kernel->columns;
    }
}

static gp_status setup_samples(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type x = desc->inputs[0];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(x) && gp_type_equal(x, desc->inputs[1]), desc));
    kernel->rows = x.shape.rank > 0 ? x.shape.dims[0] : 1;
    kernel->columns = kernel->rows > 0 ? gp_shape_elements(x.shape) / kernel->rows : 0;
    return GP_OK;
}

gp_status gp_cpu_setup_squared_error(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(setup_samples(kernel, desc));
    kernel->kernel.workspace = (size_t)kernel->rows * sizeof(double);
    kernel->finish = sum_losses;
    gp_cpu_kernel_cut(kernel, squared_error_part, kernel->rows, kernel->columns);
    return GP_OK;
}

static void squared_error_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    float factor = (float)(2.0 * (double)*(const float *)call->inputs[2] / (double)kernel->columns);
    kernel->loops->squared_error_gradient(dtype, gp_cpu_from(dtype, call->inputs[0], begin),
                                          gp_cpu_from(dtype, call->inputs[1], begin),
                                          gp_cpu_to(dtype, call->outputs[0], begin), factor, end - begin);
}

gp_status gp_cpu_setup_squared_error_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(setup_samples(kernel, desc));
    GP_TRY(gp_cpu_check(desc->inputs[2].dtype == GP_F32 && desc->outputs[0].dtype == desc->inputs[0].dtype, desc));
    gp_cpu_kernel_cut(kernel, squared_error_gradient_part, kernel->rows * kernel->columns, 1);
    return GP_OK;
}
