/* Convolution of images, with its two gradients. The gradients carry the geometry of the forward operation: a stride
 * forgets how large the image was. */
#include <inttypes.h>
#include <string.h>

#include "graph/ops/window.h"

/* That the weight f32[out, in / groups, kh, kw] is one for `channels` input channels (-1: not known) and the window. */
static gp_status check_weight(const gp_op_call *call, size_t weight, int64_t channels) {
    const gp_convolution_attributes *attributes = call->attributes;
    gp_type w = call->inputs[weight];
    if (w.dtype != GP_F32 || w.shape.rank != 4)
        return gp_op_refuse(call, "weight must be f32[out, in / groups, kernel height, kernel width]");
    const int64_t *dims = w.shape.dims;
    if (dims[2] != attributes->window.kernel[0] || dims[3] != attributes->window.kernel[1])
        return gp_op_refuse(call, "the weight's kernel must be %" PRId64 " x %" PRId64, attributes->window.kernel[0],
                            attributes->window.kernel[1]);
    int64_t groups = attributes->groups;
    if (groups < 1 || dims[0] < 1 || dims[1] < 1 || dims[0] % groups != 0)
        return gp_op_refuse(call, "%" PRId64 " groups must divide the weight's %" PRId64 " output channels", groups,
                            dims[0]);
    if (channels >= 0 && (channels % groups != 0 || channels / groups != dims[1]))
        return gp_op_refuse(call,
                            "with %" PRId64 " groups this x of %" PRId64 " channels and this weight for %" PRId64
                            " a group do not fit",
                            groups, channels, dims[1]);
    return GP_OK;
}

static gp_type result_type(const gp_window_attributes *window, gp_type x, int64_t channels) {
    x.shape.dims[1] = gp_window_count(window, 0);
    x.shape.dims[2] = gp_window_count(window, 1);
    x.shape.dims[3] = channels;
    return x;
}

/* Multiplications and additions of a product of the result with every weight that a result sees. */
static double product_flops(gp_type y, int64_t channels_in, const gp_convolution_attributes *attributes) {
    double window = (double)attributes->window.kernel[0] * (double)attributes->window.kernel[1];
    return 2.0 * gp_elements(y) * window * (double)channels_in / (double)attributes->groups;
}

/* ---- convolution ---- */

static gp_status convolution_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 3, 1));
    const gp_convolution_attributes *attributes = call->attributes;
    GP_TRY(check_weight(call, 1, -1));
    GP_TRY(gp_window_check(call, 0, &attributes->window));
    gp_type x = call->inputs[0], w = call->inputs[1];
    GP_TRY(check_weight(call, 1, x.shape.dims[3]));
    if (gp_op_present(call, 2) && !gp_type_is_vector(call->inputs[2], w.shape.dims[0]))
        return gp_op_refuse(call, "bias must be f32[%" PRId64 "] for this weight", w.shape.dims[0]);
    outputs[0] = result_type(&attributes->window, x, w.shape.dims[0]);
    return GP_OK;
}

static gp_status convolution_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], x = g->inputs[0], w = g->inputs[1];
    if (g->wanted[0])
        g->input_gradients[0] = gp_apply(GP_OP_CONVOLUTION_INPUT_GRADIENT, g->attributes, (gp_value[]){dy, w}, 2);
    if (g->wanted[1])
        g->input_gradients[1] = gp_apply(GP_OP_CONVOLUTION_WEIGHT_GRADIENT, g->attributes, (gp_value[]){dy, x}, 2);
    if (g->input_count > 2 && g->wanted[2]) g->input_gradients[2] = gp_gradient_as(dy, gp_value_type(g->inputs[2]));
    return GP_OK;
}

static double convolution_flops(const gp_op_call *call) {
    double bias = gp_op_present(call, 2) ? gp_elements(call->outputs[0]) : 0.0;
    return product_flops(call->outputs[0], call->inputs[0].shape.dims[3], call->attributes) + bias;
}

const gp_op_class gp_convolution_class = {.size = sizeof(gp_op_class),
                                          .name = "convolution",
                                          .attributes_size = sizeof(gp_convolution_attributes),
                                          .infer = convolution_infer,
                                          .gradient = convolution_gradient,
                                          .flops = convolution_flops};

gp_value gp_convolution(gp_value x, gp_value weight, gp_value bias, const gp_convolution_options *options) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    static const gp_convolution_options plain = {.groups = 0};
    if (!options) options = &plain;
    gp_type w = gp_value_type(weight);
    gp_convolution_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.groups = options->groups ? options->groups : 1;
    for (int axis = 0; axis < 2; axis++) {
        attributes.window.kernel[axis] = w.shape.rank == 4 ? w.shape.dims[2 + axis] : 1;
        attributes.window.stride[axis] = options->stride[axis] ? options->stride[axis] : 1;
        attributes.window.dilation[axis] = options->dilation[axis] ? options->dilation[axis] : 1;
    }
    gp_window_wish wish = {.padding = options->padding, .before = options->before, .after = options->after};
    gp_window_resolve(&attributes.window, gp_value_type(x), &wish);
    return gp_apply(GP_OP_CONVOLUTION, &attributes, (gp_value[]){x, weight, bias}, 3);
}

/* ---- dy, weight -> dx ---- */

/* That dy is a result of this convolution for `channels` output channels. */
static gp_status check_result(const gp_op_call *call, int64_t channels) {
    const gp_convolution_attributes *attributes = call->attributes;
    gp_type dy = call->inputs[0];
    if (!gp_type_is_image(dy) || dy.shape.dims[1] != gp_window_count(&attributes->window, 0) ||
        dy.shape.dims[2] != gp_window_count(&attributes->window, 1) || dy.shape.dims[3] != channels)
        return gp_op_refuse(call, "dy must be f32 or bf16[batch,%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                            gp_window_count(&attributes->window, 0), gp_window_count(&attributes->window, 1), channels);
    return GP_OK;
}

static gp_status input_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    const gp_convolution_attributes *attributes = call->attributes;
    GP_TRY(check_weight(call, 1, -1));
    gp_type w = call->inputs[1];
    GP_TRY(check_result(call, w.shape.dims[0]));
    outputs[0] = call->inputs[0];
    outputs[0].shape.dims[1] = attributes->window.image[0];
    outputs[0].shape.dims[2] = attributes->window.image[1];
    outputs[0].shape.dims[3] = w.shape.dims[1] * attributes->groups;
    return GP_OK;
}

static double input_gradient_flops(const gp_op_call *call) {
    return product_flops(call->inputs[0], call->outputs[0].shape.dims[3], call->attributes);
}

const gp_op_class gp_convolution_input_gradient_class = {.size = sizeof(gp_op_class),
                                                         .name = "convolution_input_gradient",
                                                         .attributes_size = sizeof(gp_convolution_attributes),
                                                         .infer = input_gradient_infer,
                                                         .flops = input_gradient_flops};

/* ---- dy, x -> dweight ---- */

static gp_status weight_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    const gp_convolution_attributes *attributes = call->attributes;
    const gp_window_attributes *window = &attributes->window;
    GP_TRY(gp_window_check(call, 1, window));
    gp_type dy = call->inputs[0], x = call->inputs[1];
    GP_TRY(check_result(call, dy.shape.rank == 4 ? dy.shape.dims[3] : 1));
    if (dy.dtype != x.dtype || dy.shape.dims[0] != x.shape.dims[0])
        return gp_op_refuse(call, "dy and x must have the same dtype and batch");
    if (attributes->groups < 1 || x.shape.dims[3] % attributes->groups || dy.shape.dims[3] % attributes->groups)
        return gp_op_refuse(call, "%" PRId64 " groups must divide the channels of both", attributes->groups);
    outputs[0] = (gp_type){
        GP_F32, {4, {dy.shape.dims[3], x.shape.dims[3] / attributes->groups, window->kernel[0], window->kernel[1]}}};
    return GP_OK;
}

static double weight_gradient_flops(const gp_op_call *call) {
    return product_flops(call->inputs[0], call->inputs[1].shape.dims[3], call->attributes);
}

const gp_op_class gp_convolution_weight_gradient_class = {.size = sizeof(gp_op_class),
                                                          .name = "convolution_weight_gradient",
                                                          .attributes_size = sizeof(gp_convolution_attributes),
                                                          .infer = weight_gradient_infer,
                                                          .flops = weight_gradient_flops};
