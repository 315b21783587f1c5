/* Matrix products of the reference device. */
#include "device/reference/reference.h"

gp_status gp_reference_linear(const gp_reference_call *call) {
    const double *x = gp_reference_in(call, 0), *w = gp_reference_in(call, 1), *bias = NULL;
    double *y = gp_reference_out(call, 0);
    int64_t rows = gp_reference_rows(call->input_types[0].shape), k = gp_reference_columns(call->input_types[0].shape);
    int64_t n = call->input_types[1].shape.dims[0];
    if (call->input_count > 2 && gp_reference_present(call->input_types[2])) bias = gp_reference_in(call, 2);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? bias[j] : 0.0;
            for (int64_t i = 0; i < k; i++) {
                sum += x[r * k + i] * w[j * k + i];
            }
            y[r * n + j] = sum;
        }
    }
    return GP_OK;
}

gp_status gp_reference_linear_input_gradient(const gp_reference_call *call) {
    const double *dy = gp_reference_in(call, 0), *w = gp_reference_in(call, 1);
    double *dx = gp_reference_out(call, 0);
    int64_t rows = gp_reference_rows(call->input_types[0].shape), n = gp_reference_columns(call->input_types[0].shape);
    int64_t k = call->input_types[1].shape.dims[1];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < k; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < n; j++) {
                sum += dy[r * n + j] * w[j * k + i];
            }
            dx[r * k + i] = sum;
        }
    }
    return GP_OK;
}

gp_status gp_reference_linear_weight_gradient(const gp_reference_call *call) {
    const double *dy = gp_reference_in(call, 0), *x = gp_reference_in(call, 1);
    double *dw = gp_reference_out(call, 0);
    int64_t rows = gp_reference_rows(call->input_types[0].shape), n = gp_reference_columns(call->input_types[0].shape);
    int64_t k = gp_reference_columns(call->input_types[1].shape);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < k; i++) {
            double sum = 0.0;
            for (int64_t r = 0; r < rows; r++) {
                sum += dy[r * n + j] * x[r * k + i];
            }
            dw[j * k + i] = sum;
        }
    }
    return GP_OK;
}

/* The shape without its last two dimensions. */
static gp_shape leading(gp_shape shape) {
    shape.rank -= 2;
    return shape;
}

/* Rows and columns of the last two dimensions, and the step to the next row and column of the operand as it is used. */
typedef struct view {
    int64_t rows, columns, row, column;
} view;

static view view_of(gp_shape shape, bool transposed) {
    int64_t rows = shape.dims[shape.rank - 2], columns = shape.dims[shape.rank - 1];
    return transposed ? (view){columns, rows, 1, columns} : (view){rows, columns, columns, 1};
}

gp_status gp_reference_matmul(const gp_reference_call *call) {
    const gp_matmul_options *options = call->attributes;
    gp_shape shape_a = call->input_types[0].shape, shape_b = call->input_types[1].shape;
    gp_shape batch = leading(call->output_types[0].shape);
    view a = view_of(shape_a, options->transpose_a), b = view_of(shape_b, options->transpose_b);
    for (int64_t m = 0; m < gp_shape_elements(batch); m++) {
        const double *left =
            gp_reference_in(call, 0) + gp_reference_source(batch, leading(shape_a), m) * a.rows * a.columns;
        const double *right =
            gp_reference_in(call, 1) + gp_reference_source(batch, leading(shape_b), m) * b.rows * b.columns;
        double *c = gp_reference_out(call, 0) + m * a.rows * b.columns;
        for (int64_t i = 0; i < a.rows; i++) {
            for (int64_t j = 0; j < b.columns; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < a.columns; k++) {
                    sum += left[i * a.row + k * a.column] * right[k * b.row + j * b.column];
                }
                c[i * b.columns + j] = sum;
            }
        }
    }
    return GP_OK;
}
