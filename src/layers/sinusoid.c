/* Positions without parameters (Vaswani et al., arXiv 1706.03762, section 3.5): x[batch, time, width] plus
 * sin(t / 10000^(c / width)) in even channels c, and the cosine of the channel before in odd ones. An operation of its
 * own, in the way that a user would write one: the table is computed as it is added, it costs nothing beside attention.
 */
#include <math.h>

#include "base/status.h"
#include "layers/builtin.h"

static double position_term(int64_t time, int64_t channel, double rate) {
    double angle = (double)time * rate;
    return channel % 2 == 0 ? sin(angle) : cos(angle);
}

static double rate_of(int64_t channel, int64_t width) {
    return pow(10000.0, -(double)(channel - channel % 2) / (double)width);
}

static gp_status infer(const gp_op_call *call, gp_type *outputs) {
    const gp_type *x = &call->inputs[0];
    char text[128];
    if (x->shape.rank != 3 || !gp_dtype_is_float(x->dtype))
        return gp_error(GP_INVALID, "the input is %s, but numbers [batch, time, width] are needed",
                        gp_type_format(*x, text, sizeof text));
    outputs[0] = *x;
    return GP_OK;
}

static gp_status gradient(const gp_op_gradient *gradient) {
    gradient->input_gradients[0] = gradient->output_gradients[0];
    return GP_OK;
}

static gp_status kernel(const gp_op_call *call, const gp_op_data *data) {
    const int64_t *dims = call->inputs[0].shape.dims;
    const float *x = data->inputs[0];
    float *y = data->outputs[0];
    for (int64_t c = 0; c < dims[2]; c++) {
        double rate = rate_of(c, dims[2]);
        for (int64_t t = 0; t < dims[1]; t++) {
            float term = (float)position_term(t, c, rate);
            for (int64_t b = 0; b < dims[0]; b++) {
                int64_t i = (b * dims[1] + t) * dims[2] + c;
                y[i] = x[i] + term;
            }
        }
    }
    return GP_OK;
}

static gp_status reference(const gp_op_call *call, const gp_op_data *data) {
    const int64_t *dims = call->inputs[0].shape.dims;
    const double *x = data->inputs[0];
    double *y = data->outputs[0];
    for (int64_t i = 0; i < gp_shape_elements(call->inputs[0].shape); i++) {
        int64_t c = i % dims[2], t = i / dims[2] % dims[1];
        y[i] = x[i] + position_term(t, c, rate_of(c, dims[2]));
    }
    return GP_OK;
}

static const gp_op_class sinusoid_op = {.size = sizeof(gp_op_class),
                                        .name = "add_sinusoid",
                                        .infer = infer,
                                        .gradient = gradient,
                                        .kernel = kernel,
                                        .reference = reference,
                                        .in_place = 1};

gp_value gp_build_sinusoid(gp_value x) {
    if (!gp_value_valid(x)) return gp_none();
    gp_value y = gp_none();
    gp_op_apply(&sinusoid_op, NULL, &x, 1, &y, 1);
    return y;
}
