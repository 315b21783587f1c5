/* Embedding and its gradient. Rows are added in the order of the indices; threads share the columns, so the order holds
 * for any number of them. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernel.h"

/* An index outside the table would read or write foreign memory: all are checked before the first is used. */
static gp_status check_indices(const int32_t *indices, int64_t count, int64_t rows) {
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] < 0 || indices[i] >= rows) {
            return gp_error(GP_INVALID,
                            "index %" PRId32 " at position %" PRId64 " is outside the embedding table: 0 to %" PRId64
                            " are accepted",
                            indices[i], i, rows - 1);
        }
    }
    return GP_OK;
}

static gp_status check_embedding(const gp_cpu_call *call) {
    return check_indices(call->inputs[1], call->kernel->rows, call->kernel->inputs[0].shape.dims[0]);
}

static void embedding_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const float *table = call->inputs[0];
    const int32_t *indices = call->inputs[1];
    gp_dtype dtype = kernel->outputs[0].dtype;
    int64_t width = kernel->columns;
    for (int64_t i = begin; i < end; i++) {
        gp_cpu_operand row = {table + indices[i] * width, GP_F32, 1};
        kernel->loops->cast(row, gp_cpu_to(dtype, call->outputs[0], i * width), dtype, width);
    }
}

gp_status gp_cpu_setup_embedding(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(desc->inputs[0].dtype == GP_F32 && desc->inputs[0].shape.rank == 2 &&
                            desc->inputs[1].dtype == GP_I32 && gp_cpu_is_float(desc->outputs[0]),
                        desc));
    kernel->rows = gp_shape_elements(desc->inputs[1].shape);
    kernel->columns = desc->inputs[0].shape.dims[1];
    kernel->check = check_embedding;
    gp_cpu_kernel_cut(kernel, embedding_part, kernel->rows, kernel->columns);
    return GP_OK;
}

static gp_status check_embedding_gradient(const gp_cpu_call *call) {
    return check_indices(call->inputs[1], call->kernel->rows, call->kernel->outputs[0].shape.dims[0]);
}

static void embedding_gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const int32_t *indices = call->inputs[1];
    float *table = call->outputs[0];
    gp_dtype dtype = kernel->inputs[0].dtype;
    int64_t width = kernel->columns, table_rows = kernel->outputs[0].shape.dims[0];
    for (int64_t i = 0; !(kernel->accumulate & 1u) && i < table_rows; i++) {
        memset(table + i * width + begin, 0, (size_t)(end - begin) * sizeof *table);
    }
    for (int64_t i = 0; i < kernel->rows; i++) {
        kernel->loops->accumulate(dtype, gp_cpu_from(dtype, call->inputs[0], i * width + begin),
                                  table + indices[i] * width + begin, end - begin);
    }
}

gp_status gp_cpu_setup_embedding_gradient(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && desc->inputs[1].dtype == GP_I32 &&
                            desc->outputs[0].dtype == GP_F32 && desc->outputs[0].shape.rank == 2,
                        desc));
    kernel->rows = gp_shape_elements(desc->inputs[1].shape);
    kernel->columns = desc->outputs[0].shape.dims[1];
    kernel->check = check_embedding_gradient;
    gp_cpu_kernel_cut_columns(kernel, embedding_gradient_part, kernel->columns, kernel->rows);
    return GP_OK;
}
