/* Embedding of the reference device: rows of a table picked by indices, and the gradient of the table. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "device/reference/reference.h"

static gp_status check_index(int32_t index, int64_t position, int64_t rows) {
    if (index >= 0 && index < rows) return GP_OK;
    return gp_error(GP_INVALID,
                    "index %" PRId32 " at position %" PRId64 " is outside the table: 0 to %" PRId64 " are accepted",
                    index, position, rows - 1);
}

gp_status gp_reference_embedding(const gp_reference_call *call) {
    const double *table = gp_reference_in(call, 0);
    const int32_t *indices = call->inputs[1];
    double *y = gp_reference_out(call, 0);
    int64_t rows = call->input_types[0].shape.dims[0], width = call->input_types[0].shape.dims[1];
    for (int64_t i = 0; i < gp_shape_elements(call->input_types[1].shape); i++) {
        GP_TRY(check_index(indices[i], i, rows));
        memcpy(y + i * width, table + indices[i] * width, (size_t)width * sizeof *y);
    }
    return GP_OK;
}

gp_status gp_reference_embedding_gradient(const gp_reference_call *call) {
    const double *dy = gp_reference_in(call, 0);
    const int32_t *indices = call->inputs[1];
    double *dtable = gp_reference_out(call, 0);
    int64_t rows = call->output_types[0].shape.dims[0], width = call->output_types[0].shape.dims[1];
    memset(dtable, 0, gp_reference_bytes(call->output_types[0]));
    for (int64_t i = 0; i < gp_shape_elements(call->input_types[1].shape); i++) {
        GP_TRY(check_index(indices[i], i, rows));
        for (int64_t j = 0; j < width; j++) {
            dtable[indices[i] * width + j] += dy[i * width + j];
        }
    }
    return GP_OK;
}
