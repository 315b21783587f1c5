/* What image models do beside convolving and pooling: padding and shifting by pixels, repeating pixels, dropping whole
 * paths, scaling channels. */
#include <inttypes.h>
#include <string.h>

#include "graph/ops/window.h"

/* ---- pad ---- */

static gp_status pad_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_pad_attributes *attributes = call->attributes;
    gp_type x = call->inputs[0];
    if (!gp_type_is_activation(x) || x.shape.rank < 1) return gp_op_refuse(call, "x must be f32 or bf16 [batch, ...]");
    outputs[0] = x;
    for (int i = 0; i < x.shape.rank; i++) {
        int64_t before = attributes->before[i], after = attributes->after[i], size = x.shape.dims[i];
        if (i == 0 && (before || after)) return gp_op_refuse(call, "dimension 0 is the batch: it is not padded");
        bool sane = before >= -size && after >= -size && before <= GP_WINDOW_LIMIT && after <= GP_WINDOW_LIMIT;
        if (!sane || (size + before + after < 1 && size > 0 && i > 0))
            return gp_op_refuse(call,
                                "padding of %" PRId64 " and %" PRId64 " of dimension %d: up to %d more, or less than "
                                "%" PRId64 " cut off is accepted",
                                before, after, i, GP_WINDOW_LIMIT, size);
        outputs[0].shape.dims[i] = size + before + after;
    }
    return GP_OK;
}

/* Zeros that were put there are cut off again, and what was cut off gets zeros. */
static gp_status pad_gradient(const gp_op_gradient *g) {
    const gp_pad_attributes *attributes = g->attributes;
    gp_pad_attributes back;
    for (int i = 0; i < GP_MAX_RANK; i++) {
        back.before[i] = -attributes->before[i];
        back.after[i] = -attributes->after[i];
    }
    g->input_gradients[0] = gp_apply(GP_OP_PAD, &back, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_pad_class = {.size = sizeof(gp_op_class),
                                  .name = "pad",
                                  .attributes_size = sizeof(gp_pad_attributes),
                                  .infer = pad_infer,
                                  .gradient = pad_gradient,
                                  .flops = gp_flops_none};

gp_value gp_pad(gp_value x, const int64_t *before, const int64_t *after) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    gp_pad_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    bool changes = false;
    for (int i = 0; i < gp_value_type(x).shape.rank; i++) {
        attributes.before[i] = before[i];
        attributes.after[i] = after[i];
        changes |= before[i] || after[i];
    }
    return changes ? gp_apply(GP_OP_PAD, &attributes, &x, 1) : x;
}

gp_value gp_pixel_shift(gp_value x, int64_t rows, int64_t columns) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    gp_type type = gp_value_type(x);
    char text[160];
    gp_type_format(type, text, sizeof text);
    if (!gp_type_is_image(type))
        return gp_graph_error(x.graph,
                              "pixel_shift: input %s: f32 or bf16 [batch, height, width, channels] is accepted", text);
    int64_t height = type.shape.dims[1], width = type.shape.dims[2];
    if (rows <= -height || rows >= height || columns <= -width || columns >= width)
        return gp_graph_error(x.graph,
                              "pixel_shift: input %s: a shift by %" PRId64 " rows and %" PRId64
                              " columns leaves nothing: less than height and width is accepted",
                              text, rows, columns);
    return gp_pad(x, (int64_t[]){0, -rows, -columns, 0}, (int64_t[]){0, rows, columns, 0});
}

/* ---- upsample ---- */

static bool upsample_is_sane(const gp_upsample_attributes *attributes) {
    return attributes->rows >= 1 && attributes->columns >= 1 && attributes->rows <= GP_WINDOW_LIMIT &&
           attributes->columns <= GP_WINDOW_LIMIT;
}

static gp_status upsample_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_upsample_attributes *attributes = call->attributes;
    gp_type x = call->inputs[0];
    if (!gp_type_is_image(x) || x.shape.dims[1] > GP_WINDOW_LIMIT || x.shape.dims[2] > GP_WINDOW_LIMIT)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, height, width, channels]");
    if (!upsample_is_sane(attributes))
        return gp_op_refuse(call, "factors %" PRId64 " and %" PRId64 ": 1 to %d is accepted", attributes->rows,
                            attributes->columns, GP_WINDOW_LIMIT);
    outputs[0] = x;
    outputs[0].shape.dims[1] *= attributes->rows;
    outputs[0].shape.dims[2] *= attributes->columns;
    return GP_OK;
}

static gp_status upsample_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_apply(GP_OP_UPSAMPLE_GRADIENT, g->attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_upsample_class = {.size = sizeof(gp_op_class),
                                       .name = "upsample",
                                       .attributes_size = sizeof(gp_upsample_attributes),
                                       .infer = upsample_infer,
                                       .gradient = upsample_gradient,
                                       .flops = gp_flops_none};

gp_value gp_upsample(gp_value x, int64_t rows, int64_t columns) {
    if (rows == 1 && columns == 1) return x;
    return gp_apply(GP_OP_UPSAMPLE, &(gp_upsample_attributes){rows, columns}, &x, 1);
}

static gp_status upsample_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_upsample_attributes *attributes = call->attributes;
    gp_type dy = call->inputs[0];
    if (!gp_type_is_image(dy) || !upsample_is_sane(attributes) || dy.shape.dims[1] % attributes->rows ||
        dy.shape.dims[2] % attributes->columns)
        return gp_op_refuse(call, "dy must be an image whose sides are multiples of %" PRId64 " and %" PRId64,
                            attributes->rows, attributes->columns);
    outputs[0] = dy;
    outputs[0].shape.dims[1] /= attributes->rows;
    outputs[0].shape.dims[2] /= attributes->columns;
    return GP_OK;
}

const gp_op_class gp_upsample_gradient_class = {.size = sizeof(gp_op_class),
                                                .name = "upsample_gradient",
                                                .attributes_size = sizeof(gp_upsample_attributes),
                                                .infer = upsample_gradient_infer,
                                                .flops = gp_flops_of_input};

/* ---- drop-path: its gradient is the same operation on dy, with the same numbers ---- */

static gp_status drop_path_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_drop_path_attributes *attributes = call->attributes;
    if (!gp_type_is_activation(call->inputs[0]) || call->inputs[0].shape.rank < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, ...]");
    if (!(attributes->p >= 0.0 && attributes->p < 1.0))
        return gp_op_refuse(call, "p is %g: 0 or more and less than 1 is accepted", attributes->p);
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status drop_path_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_apply(GP_OP_DROP_PATH, g->attributes, g->output_gradients, 1);
    return GP_OK;
}

const gp_op_class gp_drop_path_class = {.size = sizeof(gp_op_class),
                                        .name = "drop_path",
                                        .attributes_size = sizeof(gp_drop_path_attributes),
                                        .infer = drop_path_infer,
                                        .gradient = drop_path_gradient,
                                        .flops = gp_flops_of_input,
                                        .in_place = 1};

gp_value gp_drop_path(gp_value x, double p, bool scheduled) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    bool accepted = p >= 0.0 && p < 1.0;
    if (accepted && (p == 0.0 || !x.graph->training)) return x;
    gp_drop_path_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.p = p;
    attributes.scheduled = scheduled;
    if (accepted) attributes.use = gp_graph_next_use(x.graph);
    return gp_apply(GP_OP_DROP_PATH, &attributes, &x, 1);
}

/* ---- channel scaling ---- */

/* x[n, ..., c] at input `x`, the other one of shape [n, c]. */
static gp_status channel_scale_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type x = call->inputs[0], s = call->inputs[1];
    if (!gp_type_is_activation(x) || x.shape.rank < 2)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, ..., channels]");
    if (s.dtype != x.dtype || s.shape.rank != 2 || s.shape.dims[0] != x.shape.dims[0] ||
        s.shape.dims[1] != gp_shape_last(x.shape))
        return gp_op_refuse(call, "the scale must be %s[%" PRId64 ",%" PRId64 "] for this x", gp_dtype_name(x.dtype),
                            x.shape.dims[0], gp_shape_last(x.shape));
    outputs[0] = x;
    return GP_OK;
}

static gp_status channel_scale_gradient(const gp_op_gradient *g) {
    gp_value dy = g->output_gradients[0], x = g->inputs[0], s = g->inputs[1];
    if (g->wanted[0]) g->input_gradients[0] = gp_apply(GP_OP_CHANNEL_SCALE, NULL, (gp_value[]){dy, s}, 2);
    if (g->wanted[1]) g->input_gradients[1] = gp_apply(GP_OP_CHANNEL_SCALE_GRADIENT, NULL, (gp_value[]){dy, x}, 2);
    return GP_OK;
}

const gp_op_class gp_channel_scale_class = {.size = sizeof(gp_op_class),
                                            .name = "channel_scale",
                                            .infer = channel_scale_infer,
                                            .gradient = channel_scale_gradient,
                                            .flops = gp_flops_of_input,
                                            .in_place = 1};

gp_value gp_channel_scale(gp_value x, gp_value scale) {
    return gp_apply(GP_OP_CHANNEL_SCALE, NULL, (gp_value[]){x, scale}, 2);
}

static gp_status channel_scale_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    gp_type dy = call->inputs[0], x = call->inputs[1];
    if (!gp_type_is_activation(x) || x.shape.rank < 2 || !gp_type_equal(dy, x))
        return gp_op_refuse(call, "dy and x must have the same type, f32 or bf16 [batch, ..., channels]");
    outputs[0] = (gp_type){x.dtype, {2, {x.shape.dims[0], gp_shape_last(x.shape)}}};
    return GP_OK;
}

static double channel_scale_gradient_flops(const gp_op_call *call) {
    return 2.0 * gp_elements(call->inputs[0]);
}

const gp_op_class gp_channel_scale_gradient_class = {.size = sizeof(gp_op_class),
                                                     .name = "channel_scale_gradient",
                                                     .infer = channel_scale_gradient_infer,
                                                     .flops = channel_scale_gradient_flops};
