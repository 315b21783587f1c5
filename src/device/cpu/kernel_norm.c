/* Kernels over rows: layer norm, RMS norm, softmax and their gradients. `rows` and `columns` are those of x. */
#include "base/status.h"
#include "device/cpu/kernel.h"

static const void *input_row(const gp_cpu_call *call, int i, int64_t row) {
    return gp_cpu_from(call->kernel->inputs[i].dtype, call->inputs[i], row * call->kernel->columns);
}

static void *output_row(const gp_cpu_call *call, int64_t row) {
    return gp_cpu_to(call->kernel->outputs[0].dtype, call->outputs[0], row * call->kernel->columns);
}

/* Checks what all kernels over rows have in common, and cuts by rows. */
static gp_status setup_rows(gp_cpu_kernel *kernel, const gp_kernel_desc *desc, gp_cpu_part *part) {
    gp_type x = desc->inputs[0];
    GP_TRY(gp_cpu_check(gp_cpu_is_float(x) && desc->outputs[0].dtype == x.dtype && gp_cpu_columns(x.shape) > 0, desc));
    kernel->rows = gp_cpu_rows(x.shape);
    kernel->columns = gp_cpu_columns(x.shape);
    gp_cpu_kernel_cut(kernel, part, kernel->rows, kernel->columns);
    return GP_OK;
}

/* Parameters and statistics are f32. */
static gp_status check_f32(const gp_kernel_desc *desc, int first, int last) {
    for (int i = first; i <= last; i++) {
        GP_TRY(gp_cpu_check(!gp_cpu_is_present(desc->inputs[i]) || desc->inputs[i].dtype == GP_F32, desc));
    }
    return GP_OK;
}

/* ---- layer norm ---- */

static void layer_norm_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    bool biased = kernel->input_count > 2 && gp_cpu_is_present(kernel->inputs[2]);
    const float *bias = biased ? call->inputs[2] : NULL;
    kernel->loops->layer_norm(kernel->inputs[0].dtype, input_row(call, 0, begin), call->inputs[1], bias,
                              output_row(call, begin), (float *)call->outputs[1] + begin,
                              (float *)call->outputs[2] + begin, end - begin, kernel->columns,
                              (float)kernel->attributes.norm.epsilon);
}

gp_status gp_cpu_setup_layer_norm(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(check_f32(desc, 1, desc->input_count - 1));
    return setup_rows(kernel, desc, layer_norm_part);
}

static void layer_norm_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->layer_norm_gradient(kernel->inputs[0].dtype, input_row(call, 0, begin), input_row(call, 1, begin),
                                       call->inputs[2], (const float *)call->inputs[3] + begin,
                                       (const float *)call->inputs[4] + begin, output_row(call, begin), end - begin,
                                       kernel->columns);
}

gp_status gp_cpu_setup_layer_norm_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(check_f32(desc, 2, 4));
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->inputs[1].dtype, desc));
    return setup_rows(kernel, desc, layer_norm_gradient_part);
}

/* ---- RMS norm ---- */

static void rms_norm_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->rms_norm(kernel->inputs[0].dtype, input_row(call, 0, begin), call->inputs[1],
                            output_row(call, begin), (float *)call->outputs[1] + begin, end - begin, kernel->columns,
                            (float)kernel->attributes.norm.epsilon);
}

gp_status gp_cpu_setup_rms_norm(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(check_f32(desc, 1, 1));
    return setup_rows(kernel, desc, rms_norm_part);
}

static void rms_norm_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->rms_norm_gradient(kernel->inputs[0].dtype, input_row(call, 0, begin), input_row(call, 1, begin),
                                     call->inputs[2], (const float *)call->inputs[3] + begin, output_row(call, begin),
                                     end - begin, kernel->columns);
}

gp_status gp_cpu_setup_rms_norm_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(check_f32(desc, 2, 3));
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->inputs[1].dtype, desc));
    return setup_rows(kernel, desc, rms_norm_gradient_part);
}

/* ---- gradients of the weights: cut by columns, so that each column is summed in one order ---- */

static void weight_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    bool rms = kernel->id == GP_OP_RMS_NORM_WEIGHT_GRADIENT;
    const float *mean = rms ? NULL : call->inputs[2], *rstd = rms ? call->inputs[2] : call->inputs[3];
    kernel->loops->norm_weight_gradient(kernel->inputs[0].dtype, call->inputs[0], call->inputs[1], mean, rstd,
                                        call->outputs[0], rms ? NULL : call->outputs[1], kernel->rows, kernel->columns,
                                        begin, end, kernel->accumulate);
}

static gp_status setup_weight_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    gp_type dy = desc->inputs[0];
    GP_TRY(check_f32(desc, 2, desc->input_count - 1));
    GP_TRY(
        gp_cpu_check(gp_cpu_is_float(dy) && dy.dtype == desc->inputs[1].dtype && gp_cpu_columns(dy.shape) > 0, desc));
    kernel->rows = gp_cpu_rows(dy.shape);
    kernel->columns = gp_cpu_columns(dy.shape);
    gp_cpu_kernel_cut_columns(kernel, weight_gradient_part, kernel->columns, kernel->rows);
    return GP_OK;
}

gp_status gp_cpu_setup_layer_norm_weight_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return setup_weight_gradient(kernel, desc);
}

gp_status gp_cpu_setup_rms_norm_weight_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return setup_weight_gradient(kernel, desc);
}

/* ---- softmax ---- */

static void softmax_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->softmax(kernel->inputs[0].dtype, input_row(call, 0, begin), output_row(call, begin), end - begin,
                           kernel->columns);
}

gp_status gp_cpu_setup_softmax(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    return setup_rows(kernel, desc, softmax_part);
}

static void softmax_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->softmax_gradient(kernel->inputs[0].dtype, input_row(call, 0, begin), input_row(call, 1, begin),
                                    output_row(call, begin), end - begin, kernel->columns);
}

gp_status gp_cpu_setup_softmax_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == desc->inputs[1].dtype, desc));
    return setup_rows(kernel, desc, softmax_gradient_part);
}
