/* Pooling over windows and over whole images. Max pooling writes down what it picked, a byte an element, so that its
 * gradient needs neither x nor y. */
#include <inttypes.h>
#include <string.h>

#include "graph/ops/window.h"

enum { MOST_PICKS = 256 }; /* a place in the window fits a byte */

/* That every window, without dilation, has an element inside the image. */
static gp_status check_pool_axis(const gp_op_call *call, const gp_window_attributes *w, int axis) {
    int64_t last = (gp_window_count(w, axis) - 1) * w->stride[axis] - w->before[axis];
    if (w->dilation[axis] == 1 && w->before[axis] < w->kernel[axis] && last < w->image[axis]) return GP_OK;
    return gp_op_refuse(call,
                        "along the %s a window of %" PRId64 " lies in the padding of %" PRId64 " and %" PRId64
                        " alone: padding less than the window is accepted",
                        axis == 0 ? "height" : "width", w->kernel[axis], w->before[axis], w->after[axis]);
}

static gp_status check_pool(const gp_op_call *call, size_t x) {
    const gp_window_attributes *window = call->attributes;
    GP_TRY(gp_window_check(call, x, window));
    GP_TRY(check_pool_axis(call, window, 0));
    return check_pool_axis(call, window, 1);
}

static gp_type pooled_type(const gp_window_attributes *window, gp_type x) {
    x.shape.dims[1] = gp_window_count(window, 0);
    x.shape.dims[2] = gp_window_count(window, 1);
    return x;
}

/* dy of this pooling gives dx. */
static gp_status infer_input_gradient(const gp_op_call *call, gp_type *outputs) {
    const gp_window_attributes *window = call->attributes;
    gp_type dy = call->inputs[0];
    if (!gp_type_is_image(dy) || !gp_type_equal(dy, pooled_type(window, dy)))
        return gp_op_refuse(call, "dy must be f32 or bf16[batch,%" PRId64 ",%" PRId64 ",channels]",
                            gp_window_count(window, 0), gp_window_count(window, 1));
    outputs[0] = dy;
    outputs[0].shape.dims[1] = window->image[0];
    outputs[0].shape.dims[2] = window->image[1];
    return GP_OK;
}

static double window_flops(gp_type y, const gp_window_attributes *window) {
    return gp_elements(y) * (double)window->kernel[0] * (double)window->kernel[1];
}

static double pool_flops(const gp_op_call *call) {
    return window_flops(call->outputs[0], call->attributes);
}

/* Pools with the options resolved for x. */
static gp_value pool(gp_op_id id, gp_value x, const gp_pool_options *options) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    if (!options)
        return gp_graph_error(x.graph, "%s: the options are missing: the size of the kernel is required",
                              gp_op_name(id));
    gp_window_attributes window;
    memset(&window, 0, sizeof window);
    for (int axis = 0; axis < 2; axis++) {
        window.kernel[axis] = options->kernel[axis];
        window.stride[axis] = options->stride[axis] ? options->stride[axis] : options->kernel[axis];
        window.dilation[axis] = 1;
    }
    gp_window_wish wish = {options->padding, options->before, options->after, options->ceil};
    gp_window_resolve(&window, gp_value_type(x), &wish);
    gp_value outputs[2];
    gp_op_apply(gp_op_class_of(id), &window, &x, 1, outputs, id == GP_OP_MAX_POOL ? 2 : 1);
    return outputs[0];
}

/* ---- maximum ---- */

static gp_status max_pool_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 2));
    GP_TRY(check_pool(call, 0));
    const gp_window_attributes *window = call->attributes;
    if (window->kernel[0] * window->kernel[1] > MOST_PICKS)
        return gp_op_refuse(call, "a window of %" PRId64 " x %" PRId64 ": up to %d elements are accepted",
                            window->kernel[0], window->kernel[1], MOST_PICKS);
    outputs[0] = outputs[1] = pooled_type(window, call->inputs[0]);
    outputs[1].dtype = GP_U8;
    return GP_OK;
}

static gp_status max_pool_gradient(const gp_op_gradient *g) {
    gp_value operands[] = {g->output_gradients[0], g->outputs[1]};
    g->input_gradients[0] = gp_apply(GP_OP_MAX_POOL_GRADIENT, g->attributes, operands, 2);
    return GP_OK;
}

const gp_op_class gp_max_pool_class = {.size = sizeof(gp_op_class),
                                       .name = "max_pool",
                                       .attributes_size = sizeof(gp_window_attributes),
                                       .infer = max_pool_infer,
                                       .gradient = max_pool_gradient,
                                       .flops = pool_flops};

gp_value gp_max_pool(gp_value x, const gp_pool_options *options) {
    return pool(GP_OP_MAX_POOL, x, options);
}

static gp_status max_pool_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    GP_TRY(infer_input_gradient(call, outputs));
    if (call->inputs[1].dtype != GP_U8 || !gp_shape_equal(call->inputs[0].shape, call->inputs[1].shape))
        return gp_op_refuse(call, "the index must be u8 of the shape of dy");
    return GP_OK;
}

const gp_op_class gp_max_pool_gradient_class = {.size = sizeof(gp_op_class),
                                                .name = "max_pool_gradient",
                                                .attributes_size = sizeof(gp_window_attributes),
                                                .infer = max_pool_gradient_infer,
                                                .flops = gp_flops_of_input};

/* ---- average ---- */

static gp_status average_pool_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    GP_TRY(check_pool(call, 0));
    outputs[0] = pooled_type(call->attributes, call->inputs[0]);
    return GP_OK;
}

static gp_status average_pool_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_apply(GP_OP_AVERAGE_POOL_GRADIENT, g->attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_average_pool_class = {.size = sizeof(gp_op_class),
                                           .name = "average_pool",
                                           .attributes_size = sizeof(gp_window_attributes),
                                           .infer = average_pool_infer,
                                           .gradient = average_pool_gradient,
                                           .flops = pool_flops};

gp_value gp_average_pool(gp_value x, const gp_pool_options *options) {
    return pool(GP_OP_AVERAGE_POOL, x, options);
}

static gp_status average_pool_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    return infer_input_gradient(call, outputs);
}

static double average_pool_gradient_flops(const gp_op_call *call) {
    return window_flops(call->inputs[0], call->attributes);
}

const gp_op_class gp_average_pool_gradient_class = {.size = sizeof(gp_op_class),
                                                    .name = "average_pool_gradient",
                                                    .attributes_size = sizeof(gp_window_attributes),
                                                    .infer = average_pool_gradient_infer,
                                                    .flops = average_pool_gradient_flops};

/* ---- average over the whole image ---- */

static gp_status global_average_pool_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    gp_type x = call->inputs[0];
    if (!gp_type_is_image(x) || x.shape.dims[1] < 1 || x.shape.dims[2] < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, height, width, channels]");
    outputs[0] = (gp_type){x.dtype, {2, {x.shape.dims[0], x.shape.dims[3]}}};
    return GP_OK;
}

static gp_status global_average_pool_gradient(const gp_op_gradient *g) {
    gp_shape x = gp_value_type(g->inputs[0]).shape;
    gp_image_attributes attributes = {x.dims[1], x.dims[2]};
    g->input_gradients[0] = gp_apply(GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, &attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_global_average_pool_class = {.size = sizeof(gp_op_class),
                                                  .name = "global_average_pool",
                                                  .infer = global_average_pool_infer,
                                                  .gradient = global_average_pool_gradient,
                                                  .flops = gp_flops_of_input};

gp_value gp_global_average_pool(gp_value x) {
    return gp_apply(GP_OP_GLOBAL_AVERAGE_POOL, NULL, &x, 1);
}

static gp_status global_average_pool_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_image_attributes *image = call->attributes;
    gp_type dy = call->inputs[0];
    if (!gp_type_is_activation(dy) || dy.shape.rank != 2 || image->height < 1 || image->width < 1)
        return gp_op_refuse(call, "dy must be f32 or bf16 [batch, channels]");
    outputs[0] = (gp_type){dy.dtype, {4, {dy.shape.dims[0], image->height, image->width, dy.shape.dims[1]}}};
    return GP_OK;
}

static double global_average_pool_gradient_flops(const gp_op_call *call) {
    return gp_elements(call->inputs[0]);
}

const gp_op_class gp_global_average_pool_gradient_class = {.size = sizeof(gp_op_class),
                                                           .name = "global_average_pool_gradient",
                                                           .attributes_size = sizeof(gp_image_attributes),
                                                           .infer = global_average_pool_gradient_infer,
                                                           .flops = global_average_pool_gradient_flops};
