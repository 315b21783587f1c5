/* Convolutions as oneDNN primitives, forward and both gradients. Images are channels-last; weights are in oneDNN's own
 * blocked layout, which may differ between directions, so that its fastest kernel runs. Its Winograd kernels want the
 * images in blocks too: they are copied, in the workspace, to where the primitive reads and from where it writes. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/onednn/api.h"
#include "device/cpu/onednn/onednn.h"

typedef enum argument { X, WEIGHTS, BIAS, Y, SCRATCHPAD, ARGUMENTS } argument;

/* A channels-last image that the primitive has in another layout. */
typedef struct image_copy {
    bool needed, made; /* made: the primitive writes it */
    size_t place;      /* bytes into the workspace */
    size_t sample_bytes;
    gp_onednn_reorder reorder;
} image_copy;

struct gp_onednn_convolution {
    gp_convolution_direction direction;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    gp_memory_desc x, y;             /* channels-last */
    gp_memory_desc given_x, given_y; /* as described to oneDNN: the same, or in the layout of its choice */
    gp_memory_desc bias, any;        /* any: weights in the layout of its choice */
    gp_memory_desc plain;            /* weights as they are in files and gradients */
    image_copy x_copy, y_copy;
    gp_convolution_moves moves;
    dnnl_primitive_desc_t forward; /* the hint of a gradient; NULL in the forward direction */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[ARGUMENTS]; /* NULL where there is no such argument */
    size_t workspace, packed_bytes;
    gp_onednn_reorder reorder; /* from plain weights, or of their gradient to plain */
};

/* ---- descriptions ---- */

/* oneDNN's order of dimensions is [n, c, h, w], whatever lies where. */
static gp_status describe_image(gp_memory_desc *plain, gp_memory_desc *given, gp_shape shape,
                                const gp_convolution_desc *d) {
    const char *what = "image of a convolution";
    const int64_t *size = shape.dims;
    int64_t dims[] = {size[0], size[3], size[1], size[2]};
    int64_t strides[] = {size[1] * size[2] * size[3], 1, size[2] * size[3], size[3]};
    dnnl_data_type_t type = gp_onednn_type(d->dtype);
    TRY_ONEDNN(gp_memory_desc_strided(plain, 4, dims, type, strides), what);
    return gp_onednn_status(d->winograd ? gp_memory_desc_any(given, 4, dims, type)
                                        : gp_memory_desc_strided(given, 4, dims, type, strides),
                            what);
}

static gp_status describe_weights(gp_onednn_convolution *c, const gp_convolution_desc *d) {
    const char *what = "weights of a convolution";
    int64_t groups = d->attributes.groups;
    const int64_t *kernel = d->attributes.window.kernel;
    int64_t all[] = {groups, d->y.dims[3] / groups, d->x.dims[3] / groups, kernel[0], kernel[1]}, strides[5];
    int64_t stride = 1;
    for (int i = 4; i >= 0; i--) {
        strides[i] = stride;
        stride *= all[i];
    }
    int skipped = groups == 1; /* one group is none */
    gp_dtype dtype = d->direction == GP_CONVOLUTION_WEIGHT_GRADIENT ? GP_F32 : d->dtype;
    TRY_ONEDNN(gp_memory_desc_any(&c->any, 5 - skipped, all + skipped, gp_onednn_type(dtype)), what);
    return gp_onednn_status(gp_memory_desc_strided(&c->plain, 5 - skipped, all + skipped, dnnl_f32, strides + skipped),
                            what);
}

static gp_status describe(gp_onednn_convolution *c, const gp_convolution_desc *d) {
    const char *what = "describing a convolution";
    const gp_window_attributes *window = &d->attributes.window;
    c->direction = d->direction;
    c->moves.algorithm = d->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    for (int axis = 0; axis < 2; axis++) {
        c->moves.strides[axis] = window->stride[axis];
        c->moves.dilations[axis] = window->dilation[axis] - 1;
        c->moves.before[axis] = window->before[axis];
        c->moves.after[axis] = window->after[axis];
    }
    GP_TRY(describe_image(&c->x, &c->given_x, d->x, d));
    GP_TRY(describe_image(&c->y, &c->given_y, d->y, d));
    if (d->bias) TRY_ONEDNN(gp_memory_desc_strided(&c->bias, 1, &d->y.dims[3], dnnl_f32, (int64_t[]){1}), what);
    return describe_weights(c, d);
}

/* ---- creation ---- */

static bool has_implementation(const_dnnl_primitive_desc_t desc, const char *prefix) {
    const char *name = "";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* The forward direction. oneDNN prefers its newer kernels (brgconv), which are slower than the older ones for narrow
 * images and few channels: 3x3 512 -> 512 by 4% at 7 pixels, 16% at 4 (2.6.3 with AVX-512). */
static dnnl_status_t create_forward(gp_onednn_convolution *c, const gp_convolution_desc *d, dnnl_primitive_desc_t *made,
                                    const_dnnl_primitive_attr_t attributes) {
    enum { NARROW = 8, FEW = 16 };
    const gp_memory_desc *bias = d->bias ? &c->bias : NULL;
    dnnl_status_t status =
        gp_convolution_describe(made, c->engine, &c->given_x, &c->any, bias, &c->given_y, &c->moves, attributes, false);
    bool doubtful = d->y.dims[2] < NARROW || d->x.dims[3] < FEW;
    if (status != dnnl_success || !doubtful || !has_implementation(*made, "brgconv:")) return status;
    dnnl_primitive_desc_t other = NULL;
    status = gp_convolution_describe(&other, c->engine, &c->given_x, &c->any, bias, &c->given_y, &c->moves, attributes,
                                     true);
    if (status == dnnl_success && has_implementation(other, "jit:")) {
        dnnl_primitive_desc_destroy(*made);
        *made = other;
    } else if (other) {
        dnnl_primitive_desc_destroy(other);
    }
    return dnnl_success;
}

static dnnl_status_t create_desc(gp_onednn_convolution *c, const gp_convolution_desc *d,
                                 const_dnnl_primitive_attr_t attributes) {
    if (d->direction == GP_CONVOLUTION_FORWARD) return create_forward(c, d, &c->desc, attributes);
    dnnl_status_t status = create_forward(c, d, &c->forward, attributes);
    if (status != dnnl_success) return status;
    return (d->direction == GP_CONVOLUTION_INPUT_GRADIENT ? gp_convolution_describe_input_gradient
                                                          : gp_convolution_describe_weight_gradient)(
        &c->desc, c->engine, &c->given_x, &c->any, &c->given_y, &c->moves, c->forward, attributes);
}

static gp_status create_primitive(gp_onednn_convolution *c, const gp_convolution_desc *d) {
    dnnl_primitive_attr_t attributes = NULL;
    GP_TRY(gp_onednn_attributes_create(&attributes, false));
    dnnl_status_t status = create_desc(c, d, attributes);
    dnnl_primitive_attr_destroy(attributes);
    TRY_ONEDNN(status, "convolution");
    return gp_onednn_status(dnnl_primitive_create(&c->primitive, c->desc), "convolution");
}

/* The layout that the primitive has of an argument but for the bias. */
static gp_memory_desc_view layout_of(const gp_onednn_convolution *c, argument which) {
    static const dnnl_query_t queries[][ARGUMENTS] = {
        [GP_CONVOLUTION_FORWARD] =
            {[X] = dnnl_query_src_md, [WEIGHTS] = dnnl_query_weights_md, [Y] = dnnl_query_dst_md},
        [GP_CONVOLUTION_INPUT_GRADIENT] =
            {[X] = dnnl_query_diff_src_md, [WEIGHTS] = dnnl_query_weights_md, [Y] = dnnl_query_diff_dst_md},
        [GP_CONVOLUTION_WEIGHT_GRADIENT] = {
            [X] = dnnl_query_src_md, [WEIGHTS] = dnnl_query_diff_weights_md, [Y] = dnnl_query_diff_dst_md}};
    return dnnl_primitive_desc_query_md(
        c->desc, which == SCRATCHPAD ? dnnl_query_scratchpad_md : queries[c->direction][which], 0);
}

static gp_status create_memory(gp_onednn_convolution *c, bool bias) {
    gp_memory_desc_view views[ARGUMENTS] = {layout_of(c, X), layout_of(c, WEIGHTS), gp_memory_desc_see(&c->bias),
                                            layout_of(c, Y), layout_of(c, SCRATCHPAD)};
    for (int i = 0; i < ARGUMENTS; i++) {
        if (i == BIAS && !bias) continue;
        TRY_ONEDNN(dnnl_memory_create(&c->memory[i], views[i], c->engine, DNNL_MEMORY_NONE),
                   "operand of a convolution");
    }
    c->packed_bytes = dnnl_memory_desc_get_size(views[WEIGHTS]);
    gp_workspace_take(&c->workspace, dnnl_memory_desc_get_size(views[SCRATCHPAD])); /* at its beginning */
    return GP_OK;
}

static gp_status create_copy(gp_onednn_convolution *c, image_copy *copy, gp_memory_desc_view plain, argument which,
                             bool made, int64_t samples) {
    gp_memory_desc_view blocked = layout_of(c, which);
    copy->needed = true;
    copy->made = made;
    copy->place = gp_workspace_take(&c->workspace, dnnl_memory_desc_get_size(blocked));
    copy->sample_bytes = dnnl_memory_desc_get_size(blocked) / (size_t)(samples > 0 ? samples : 1);
    return gp_onednn_reorder_create(&copy->reorder, c->engine, made ? blocked : plain, made ? plain : blocked, false);
}

static gp_status create_reorders(gp_onednn_convolution *c, const gp_convolution_desc *d) {
    gp_memory_desc_view plain = gp_memory_desc_see(&c->plain), packed = layout_of(c, WEIGHTS);
    bool gradient = d->direction == GP_CONVOLUTION_WEIGHT_GRADIENT;
    if (!gp_memory_desc_is_blocked(packed))
        return gp_error(GP_INVALID, "convolution: oneDNN hides the weights' layout");
    GP_TRY(gp_onednn_reorder_create(&c->reorder, c->engine, gradient ? packed : plain, gradient ? plain : packed,
                                    gradient));
    if (!d->winograd) return GP_OK;
    GP_TRY(create_copy(c, &c->x_copy, gp_memory_desc_see(&c->x), X, d->direction == GP_CONVOLUTION_INPUT_GRADIENT,
                       d->x.dims[0]));
    return create_copy(c, &c->y_copy, gp_memory_desc_see(&c->y), Y, d->direction == GP_CONVOLUTION_FORWARD,
                       d->x.dims[0]);
}

static gp_status set_up(gp_onednn_convolution *c, const gp_convolution_desc *d) {
    TRY_ONEDNN(gp_onednn_engine(&c->engine), "engine");
    TRY_ONEDNN(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags), "stream");
    GP_TRY(describe(c, d));
    GP_TRY(create_primitive(c, d));
    GP_TRY(create_memory(c, d->bias));
    return create_reorders(c, d);
}

gp_status gp_onednn_convolution_create(gp_onednn_convolution **convolution, const gp_convolution_desc *desc) {
    gp_onednn_convolution *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = set_up(made, desc);
    if (status != GP_OK) {
        gp_onednn_convolution_destroy(made);
        return status;
    }
    *convolution = made;
    return GP_OK;
}

void gp_onednn_convolution_destroy(gp_onednn_convolution *c) {
    if (!c) return;
    gp_onednn_reorder_destroy(&c->reorder);
    gp_onednn_reorder_destroy(&c->x_copy.reorder);
    gp_onednn_reorder_destroy(&c->y_copy.reorder);
    for (int i = 0; i < ARGUMENTS; i++) {
        if (c->memory[i]) dnnl_memory_destroy(c->memory[i]);
    }
    if (c->primitive) dnnl_primitive_destroy(c->primitive);
    if (c->desc) dnnl_primitive_desc_destroy(c->desc);
    if (c->forward) dnnl_primitive_desc_destroy(c->forward);
    gp_memory_desc_destroy(&c->x);
    gp_memory_desc_destroy(&c->y);
    gp_memory_desc_destroy(&c->given_x);
    gp_memory_desc_destroy(&c->given_y);
    gp_memory_desc_destroy(&c->bias);
    gp_memory_desc_destroy(&c->any);
    gp_memory_desc_destroy(&c->plain);
    if (c->stream) dnnl_stream_destroy(c->stream);
    if (c->engine) dnnl_engine_destroy(c->engine);
    gp_free(c);
}

/* ---- running ---- */

size_t gp_onednn_convolution_workspace(const gp_onednn_convolution *c) {
    return c->workspace;
}

static gp_status execute(const gp_onednn_convolution *c, const void *x, const void *weights, const void *bias,
                         const void *y, void *workspace) {
    static const int names[][ARGUMENTS] = {
        [GP_CONVOLUTION_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD},
        [GP_CONVOLUTION_INPUT_GRADIENT] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST,
                                           DNNL_ARG_SCRATCHPAD},
        [GP_CONVOLUTION_WEIGHT_GRADIENT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST,
                                            DNNL_ARG_SCRATCHPAD}};
    const void *data[ARGUMENTS] = {x, weights, bias, y, workspace};
    gp_onednn_argument arguments[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++) {
        arguments[i] = (gp_onednn_argument){names[c->direction][i], c->memory[i], data[i]};
    }
    return gp_onednn_execute(c->primitive, c->stream, arguments, ARGUMENTS, "convolution");
}

/* Copies an image that the primitive reads; `*data` becomes where it has the image. */
static gp_status copy_in(const gp_onednn_convolution *c, const image_copy *copy, const void **data, char *workspace) {
    const void *plain = *data;
    if (!copy->needed) return GP_OK;
    *data = workspace + copy->place;
    return copy->made ? GP_OK : gp_onednn_reorder_run(&copy->reorder, c->stream, plain, workspace + copy->place);
}

static gp_status copy_out(const gp_onednn_convolution *c, const image_copy *copy, void *plain, char *workspace) {
    if (!copy->needed || !copy->made) return GP_OK;
    return gp_onednn_reorder_run(&copy->reorder, c->stream, workspace + copy->place, plain);
}

gp_status gp_onednn_convolution_run(const gp_onednn_convolution *c, const void *const *inputs, void *output,
                                    int64_t counted, void *workspace) {
    bool forward = c->direction == GP_CONVOLUTION_FORWARD, weights = c->direction == GP_CONVOLUTION_WEIGHT_GRADIENT;
    const void *x = weights ? inputs[1] : forward ? inputs[0] : output, *y = forward ? output : inputs[0];
    const void *bias = c->memory[BIAS] ? inputs[2] : NULL;
    GP_TRY(copy_in(c, &c->x_copy, &x, workspace));
    GP_TRY(copy_in(c, &c->y_copy, &y, workspace));
    if (counted > 0) memset((char *)workspace + c->y_copy.place, 0, (size_t)counted * c->y_copy.sample_bytes);
    GP_TRY(execute(c, x, weights ? output : inputs[1], bias, y, workspace));
    GP_TRY(copy_out(c, &c->x_copy, output, workspace));
    return copy_out(c, &c->y_copy, output, workspace);
}

size_t gp_onednn_convolution_packed_bytes(const gp_onednn_convolution *c) {
    return c->packed_bytes;
}

void gp_onednn_convolution_packed_key(const gp_onednn_convolution *c, char *key, size_t size) {
    gp_onednn_layout_key(layout_of(c, WEIGHTS), key, size);
}

gp_status gp_onednn_convolution_pack(const gp_onednn_convolution *c, const float *plain, void *packed) {
    return gp_onednn_reorder_run(&c->reorder, c->stream, plain, packed);
}

gp_status gp_onednn_convolution_add_unpacked(const gp_onednn_convolution *c, const void *packed, float *plain) {
    return gp_onednn_reorder_run(&c->reorder, c->stream, packed, plain);
}
