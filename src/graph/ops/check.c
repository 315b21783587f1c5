/* Checks and small helpers that the shape rules and gradient rules of all families share. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ops/ops_internal.h"

/* ---- messages ---- */

/* "f32[2,3], none, i32[2]" */
static void format_inputs(const gp_op_call *call, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < call->input_count; i++) {
        char one[160] = "none";
        if (gp_op_present(call, i)) gp_type_format(call->inputs[i], one, sizeof one);
        int written = snprintf(text + used, size - used, "%s%s", i ? ", " : "", one);
        if (written < 0 || (size_t)written >= size - used) return;
        used += (size_t)written;
    }
}

gp_status gp_op_refuse(const gp_op_call *call, const char *accepted, ...) {
    char inputs[1024], sentence[512];
    format_inputs(call, inputs, sizeof inputs);
    va_list arguments;
    va_start(arguments, accepted);
    vsnprintf(sentence, sizeof sentence, accepted, arguments);
    va_end(arguments);
    return gp_error(GP_INVALID, "%s %s: %s", call->input_count == 1 ? "input" : "inputs", inputs, sentence);
}

gp_status gp_op_expect(const gp_op_call *call, size_t least, size_t most, size_t outputs) {
    if (call->input_count < least || call->input_count > most)
        return gp_op_refuse(call, "%zu to %zu operands are accepted", least, most);
    if (call->output_count != outputs) return gp_op_refuse(call, "there are %zu outputs", outputs);
    for (size_t i = 0; i < least; i++) {
        if (!gp_op_present(call, i)) return gp_op_refuse(call, "operand %zu is required", i);
    }
    return GP_OK;
}

/* ---- types and shapes ---- */

bool gp_op_present(const gp_op_call *call, size_t input) {
    return input < call->input_count && call->inputs[input].shape.rank >= 0;
}

bool gp_type_is_activation(gp_type type) {
    return type.dtype == GP_F32 || type.dtype == GP_BF16;
}

bool gp_type_is_vector(gp_type type, int64_t n) {
    return type.dtype == GP_F32 && type.shape.rank == 1 && type.shape.dims[0] == n;
}

gp_type gp_type_vector(int64_t n) {
    return (gp_type){GP_F32, {1, {n}}};
}

int64_t gp_shape_last(gp_shape shape) {
    return shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
}

int64_t gp_shape_rows(gp_shape shape) {
    return gp_shape_elements(gp_shape_leading(shape, 1));
}

gp_shape gp_shape_leading(gp_shape shape, int count) {
    return gp_shape_of(shape.rank > count ? shape.rank - count : 0, shape.dims);
}

bool gp_shape_broadcast(gp_shape a, gp_shape b, gp_shape *result) {
    gp_shape shape = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int i = 0; i < shape.rank; i++) {
        int in_a = i - (shape.rank - a.rank), in_b = i - (shape.rank - b.rank);
        int64_t dim_a = in_a >= 0 ? a.dims[in_a] : 1, dim_b = in_b >= 0 ? b.dims[in_b] : 1;
        if (dim_a != dim_b && dim_a != 1 && dim_b != 1) return false;
        shape.dims[i] = dim_a == 1 ? dim_b : dim_a;
    }
    *result = shape;
    return true;
}

bool gp_shape_fits(gp_shape small, gp_shape large) {
    gp_shape both;
    return gp_shape_broadcast(small, large, &both) && gp_shape_equal(both, large);
}

/* ---- costs ---- */

double gp_elements(gp_type type) {
    return type.shape.rank < 0 ? 0.0 : (double)gp_shape_elements(type.shape);
}

double gp_flops_none(const gp_op_call *call) {
    (void)call;
    return 0.0;
}

double gp_flops_of_input(const gp_op_call *call) {
    return gp_elements(call->inputs[0]);
}

/* ---- application ---- */

gp_value gp_apply(gp_op_id id, const void *attributes, const gp_value *inputs, size_t input_count) {
    static const unsigned char output_counts[GP_OP_CUSTOM] = {
        [GP_OP_LAYER_NORM] = 3,    [GP_OP_LAYER_NORM_WEIGHT_GRADIENT] = 2,
        [GP_OP_RMS_NORM] = 2,      [GP_OP_ATTENTION] = 2,
        [GP_OP_CROSS_ENTROPY] = 2, [GP_OP_MAX_POOL] = 2,
        [GP_OP_BATCH_NORM] = 3,    [GP_OP_BATCH_NORM_WEIGHT_GRADIENT] = 2};
    gp_value outputs[GP_MAX_OPERANDS];
    gp_op_apply(gp_op_class_of(id), attributes, inputs, input_count, outputs,
                output_counts[id] ? output_counts[id] : 1);
    return outputs[0];
}

gp_value gp_invalid_like(gp_value value) {
    return (gp_value){value.graph, -1};
}

int gp_axis_of(gp_value x, int axis, const char *op) {
    gp_type type = gp_value_type(x);
    int found = axis < 0 ? axis + type.shape.rank : axis;
    if (found >= 0 && found < type.shape.rank) return found;
    char text[160];
    gp_graph_error(x.graph, "%s: axis %d of %s: %d to %d are accepted", op, axis,
                   gp_type_format(type, text, sizeof text), -type.shape.rank, type.shape.rank - 1);
    return -1;
}

gp_value gp_gradient_as(gp_value gradient, gp_type type) {
    if (!gp_value_valid(gradient)) return gradient;
    if (gp_shape_equal(gp_value_type(gradient).shape, type.shape)) return gp_cast(gradient, type.dtype);
    gp_shape_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.shape = type.shape;
    attributes.dtype = type.dtype;
    return gp_apply(GP_OP_REDUCE_TO, &attributes, &gradient, 1);
}
