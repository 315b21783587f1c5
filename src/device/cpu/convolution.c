/* Convolutions and their gradients.
 *
 * A convolution of single pixels without a stride is a product of rows and goes the way of products (products.h): no
 * weights to pack, and the gradient is added where it belongs. All others are oneDNN's convolutions on channels-last
 * images, with weights packed once after every update (gp_form) and their gradient unpacked into the plain one; but
 * some depthwise ones are loops (kernel_depthwise.c), and some gradients of weights products (convolution_rows.c). bf16
 * images run through f32 on processors without AMX, whose bf16 instructions are slower than f32 ones: a chunk of
 * samples is widened into the workspace, convolved, and the result rounded, all of it within the caches. 3x3 ones go by
 * Winograd's algorithm where that pays, also in chunks: they are copied into oneDNN's blocks and back. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/convolution_rows.h"
#include "device/cpu/products.h"

/* A chunk's bytes of images, x and y: what the caches hold of them. */
enum { WIDENED_BYTES = 2 << 20, WINOGRAD_BYTES = 4 << 20 };
/* And how many times the bytes of the weights a chunk has at least: all of it reads them, and Winograd's algorithm
 * first transforms them, to four times their size. */
enum { WIDENED_WEIGHTS = 1, WINOGRAD_WEIGHTS = 4 };

typedef struct gp_cpu_convolution {
    gp_kernel kernel; /* first, so that a gp_kernel is a gp_cpu_convolution */
    const gp_cpu_loops *loops;
    int threads;
    gp_convolution_direction direction;
    gp_onednn_convolution *primitive; /* of one chunk */
    gp_form form;
    gp_type inputs[3], output;
    bool widened, winograd, accumulate;
    int64_t samples, chunk;                          /* samples in all, and of a chunk */
    int64_t x_elements, y_elements, weight_elements; /* of a chunk; of the weights */
    size_t x_place, y_place, weight_place;           /* bytes into the workspace, behind oneDNN's part */
} gp_cpu_convolution;

/* ---- running ---- */

typedef struct conversion {
    const gp_cpu_loops *loops;
    gp_cpu_operand from;
    void *to;
    gp_dtype dtype;
} conversion;

static void convert_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const conversion *c = call->workspace;
    gp_cpu_operand from = {gp_cpu_from(c->from.dtype, c->from.data, begin), c->from.dtype, 1};
    c->loops->cast(from, gp_cpu_to(c->dtype, c->to, begin), c->dtype, end - begin);
}

static void convert(const gp_cpu_convolution *c, const void *from, gp_dtype from_dtype, void *to, gp_dtype to_dtype,
                    int64_t count) {
    enum { GRAIN = 16384 };
    conversion work = {c->loops, {from, from_dtype, 1}, to, to_dtype};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(c->threads, count, GRAIN, &call, convert_part);
}

/* Where a chunk begins that comes after `done` samples: the last one may hold some of them a second time. */
static int64_t begin_of(const gp_cpu_convolution *c, int64_t done) {
    return done + c->chunk > c->samples ? c->samples - c->chunk : done;
}

/* The images of a chunk, where they lie or widened into their place. */
static const void *image(const gp_cpu_convolution *c, const void *data, int64_t begin, int64_t elements, void *place) {
    const void *from = gp_cpu_from(c->inputs[0].dtype, data, begin * (elements / c->chunk));
    if (!c->widened) return from;
    convert(c, from, GP_BF16, place, GP_F32, elements);
    return place;
}

/* Forward and gradient of the input: an image from an image. */
static gp_status run_images(const gp_cpu_convolution *c, const void *const *inputs, void *output, char *workspace) {
    bool forward = c->direction == GP_CONVOLUTION_FORWARD;
    int64_t read = forward ? c->x_elements : c->y_elements, made = forward ? c->y_elements : c->x_elements;
    void *read_place = workspace + (forward ? c->x_place : c->y_place);
    void *made_place = workspace + (forward ? c->y_place : c->x_place);
    const void *given[3] = {NULL, inputs[1], c->inputs[2].shape.rank >= 0 ? inputs[2] : NULL};
    if (!(c->kernel.packed >> 1 & 1u)) {
        GP_TRY(gp_onednn_convolution_pack(c->primitive, inputs[1], workspace + c->weight_place));
        given[1] = workspace + c->weight_place;
    }
    for (int64_t done = 0; done < c->samples; done += c->chunk) {
        int64_t begin = begin_of(c, done);
        void *to = gp_cpu_to(c->output.dtype, output, begin * (made / c->chunk));
        given[0] = image(c, inputs[0], begin, read, read_place);
        GP_TRY(gp_onednn_convolution_run(c->primitive, given, c->widened ? made_place : to, 0, workspace));
        if (c->widened) convert(c, made_place, GP_F32, to, GP_BF16, made);
    }
    return GP_OK;
}

static gp_status run_weight_gradient(const gp_cpu_convolution *c, const void *const *inputs, float *output,
                                     char *workspace) {
    if (!c->accumulate) memset(output, 0, (size_t)c->weight_elements * sizeof *output);
    for (int64_t done = 0; done < c->samples; done += c->chunk) {
        int64_t begin = begin_of(c, done);
        const void *given[] = {image(c, inputs[0], begin, c->y_elements, workspace + c->y_place),
                               image(c, inputs[1], begin, c->x_elements, workspace + c->x_place)};
        if (c->widened) /* what was counted already is zero */
            memset(workspace + c->y_place, 0, (size_t)((done - begin) * (c->y_elements / c->chunk)) * sizeof(float));
        GP_TRY(gp_onednn_convolution_run(c->primitive, given, workspace + c->weight_place,
                                         c->widened ? 0 : done - begin, workspace));
        GP_TRY(gp_onednn_convolution_add_unpacked(c->primitive, workspace + c->weight_place, output));
    }
    return GP_OK;
}

static gp_status run(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                     const gp_run *run_of_program) {
    (void)run_of_program;
    const gp_cpu_convolution *c = (const gp_cpu_convolution *)kernel;
    if (c->direction == GP_CONVOLUTION_WEIGHT_GRADIENT) return run_weight_gradient(c, inputs, outputs[0], workspace);
    return run_images(c, inputs, outputs[0], workspace);
}

static void destroy(gp_kernel *kernel) {
    gp_cpu_convolution *c = (gp_cpu_convolution *)kernel;
    gp_onednn_convolution_destroy(c->primitive);
    gp_free(c);
}

static gp_status pack(const gp_form *form, const void *plain, void *packed) {
    return gp_onednn_convolution_pack(form->details, plain, packed);
}

/* ---- descriptions ---- */

/* x, y and weights of the direction. */
typedef struct operands {
    gp_type x, y, weights;
} operands;

static operands operands_of(const gp_kernel_desc *d) {
    switch (d->id) {
    case GP_OP_CONVOLUTION:
        return (operands){d->inputs[0], d->outputs[0], d->inputs[1]};
    case GP_OP_CONVOLUTION_INPUT_GRADIENT:
        return (operands){d->outputs[0], d->inputs[0], d->inputs[1]};
    default:
        return (operands){d->inputs[1], d->inputs[0], d->outputs[0]};
    }
}

static gp_convolution_direction direction_of(gp_op_id id) {
    return id == GP_OP_CONVOLUTION                  ? GP_CONVOLUTION_FORWARD
           : id == GP_OP_CONVOLUTION_INPUT_GRADIENT ? GP_CONVOLUTION_INPUT_GRADIENT
                                                    : GP_CONVOLUTION_WEIGHT_GRADIENT;
}

static gp_status check(const operands *o, const gp_kernel_desc *d) {
    const gp_convolution_attributes *a = d->attributes;
    const int64_t *x = o->x.shape.dims, *y = o->y.shape.dims, *w = o->weights.shape.dims;
    bool fits = gp_cpu_is_float(o->x) && o->x.shape.rank == 4 && o->y.dtype == o->x.dtype && o->y.shape.rank == 4 &&
                o->weights.dtype == GP_F32 && o->weights.shape.rank == 4 && x[0] == y[0] &&
                x[1] == a->window.image[0] && x[2] == a->window.image[1] && w[0] == y[3] && w[1] * a->groups == x[3] &&
                w[2] == a->window.kernel[0] && w[3] == a->window.kernel[1];
    if (d->id == GP_OP_CONVOLUTION && d->input_count > 2 && gp_cpu_is_present(d->inputs[2]))
        fits = fits && d->inputs[2].dtype == GP_F32 && gp_shape_elements(d->inputs[2].shape) == y[3];
    return gp_cpu_check(fits, d);
}

/* ---- single pixels: a product ---- */

static bool is_product(const operands *o, const gp_convolution_attributes *a) {
    const gp_window_attributes *w = &a->window;
    return a->groups == 1 && w->kernel[0] == 1 && w->kernel[1] == 1 && gp_shape_elements(o->x.shape) > 0 &&
           gp_cpu_rows(o->x.shape) == gp_cpu_rows(o->y.shape) && w->stride[0] * w->stride[1] == 1 &&
           w->before[0] + w->before[1] + w->after[0] + w->after[1] == 0;
}

static gp_status create_product(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    static const gp_op_id ids[] = {[GP_CONVOLUTION_FORWARD] = GP_OP_LINEAR,
                                   [GP_CONVOLUTION_INPUT_GRADIENT] = GP_OP_LINEAR_INPUT_GRADIENT,
                                   [GP_CONVOLUTION_WEIGHT_GRADIENT] = GP_OP_LINEAR_WEIGHT_GRADIENT};
    gp_kernel_desc product = *desc;
    gp_type inputs[3], output = desc->outputs[0];
    memcpy(inputs, desc->inputs, (size_t)desc->input_count * sizeof *inputs);
    product.id = ids[direction_of(desc->id)];
    product.op = gp_op_class_of(product.id);
    product.attributes = NULL;
    product.inputs = inputs;
    product.outputs = &output;
    /* weight[out, in, 1, 1] is weight[out, in] */
    (desc->id == GP_OP_CONVOLUTION_WEIGHT_GRADIENT ? &output : &inputs[1])->shape.rank = 2;
    GP_TRY(gp_cpu_product_create(device, &product, kernel));
    ((gp_cpu_product *)*kernel)->form.type = desc->inputs[1];
    return GP_OK;
}

/* ---- every channel for itself: loops ---- */

/* Where oneDNN is slower: its gradients of dilated ones are general convolutions (8 times slower than ours), and bf16
 * would have to be widened first. Elsewhere it is up to twice as fast. */
static bool prefers_loops(const gp_cpu_device *device, const operands *o, const gp_kernel_desc *desc) {
    const gp_convolution_attributes *a = desc->attributes;
    if (a->groups < 2 || a->groups != o->x.shape.dims[3] || a->groups != o->y.shape.dims[3]) return false;
    bool dilated = a->window.dilation[0] > 1 || a->window.dilation[1] > 1;
    return (dilated && desc->id != GP_OP_CONVOLUTION) || (o->x.dtype == GP_BF16 && !device->bf16_packed);
}

static gp_status create_depthwise(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_cpu_kernel *made = NULL;
    GP_TRY(gp_cpu_kernel_create(device, desc, &made));
    gp_status status = gp_cpu_setup_depthwise(made, desc);
    if (status != GP_OK) {
        made->kernel.destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}

/* ---- creation ---- */

/* The gradient of weights is summed in its transformed form, 36 numbers for 9, once and in each thread. Where that is
 * much, memory is worth more than time: images are small there, and there are few such layers. */
static bool sums_fit(const gp_cpu_device *device, int64_t in, int64_t out) {
    enum { TRANSFORMED = 36, MOST_BYTES = 80 << 20 };
    return 4 * TRANSFORMED * in * out * (device->device.threads + 1) <= MOST_BYTES;
}

/* Whether Winograd's algorithm is the faster one: 3x3 without strides, on channels that fill vectors, where most pixels
 * of its tiles of 4x4 are pixels of y (`bench-images --only=3x3`). Only where x and y have one size: with uneven
 * padding oneDNN 2.6's gradient of the input is wrong. */
static bool prefers_winograd(const gp_cpu_device *device, const operands *o, const gp_kernel_desc *desc) {
    enum { TILE = 4, VECTOR = 16, FEW = 32 };
    const gp_convolution_attributes *a = desc->attributes;
    const gp_window_attributes *w = &a->window;
    if (!gp_onednn_has_winograd() || (o->x.dtype == GP_BF16 && device->bf16_packed)) return false;
    int64_t in = o->x.shape.dims[3], out = o->y.shape.dims[3], pixels = 1, tiled = 1;
    for (int axis = 0; axis < 2; axis++) {
        if (w->kernel[axis] != 3 || w->stride[axis] != 1 || w->dilation[axis] != 1) return false;
        if (w->before[axis] != 1 || w->after[axis] != 1) return false;
        int64_t side = o->y.shape.dims[1 + axis];
        pixels *= side;
        tiled *= (side + TILE - 1) / TILE * TILE;
    }
    bool fills = a->groups == 1 && in >= FEW && out >= FEW && in % VECTOR == 0 && out % VECTOR == 0;
    if (!fills || 3 * pixels < 2 * tiled || gp_shape_elements(o->x.shape) < 1) return false;
    return desc->id != GP_OP_CONVOLUTION_WEIGHT_GRADIENT || sums_fit(device, in, out);
}

/* Samples of a chunk: the first power of two that has half of what the caches hold, and is not small beside the
 * weights. Fewer samples than planned, as an evaluation ends with, never have larger chunks. */
static int64_t chunk_size(const gp_cpu_convolution *c, const operands *o) {
    int64_t samples = o->x.shape.dims[0], size = 1;
    if (!(c->widened || c->winograd) || samples < 1) return samples;
    int64_t bytes = 4 * (gp_shape_elements(o->x.shape) + gp_shape_elements(o->y.shape)) / samples;
    int64_t weights = 4 * c->weight_elements * (c->winograd ? WINOGRAD_WEIGHTS : WIDENED_WEIGHTS);
    int64_t least = (c->winograd ? WINOGRAD_BYTES : WIDENED_BYTES) / 2;
    if (weights > least) least = weights;
    while (size < samples && size * bytes < least * c->threads)
        size *= 2;
    return size < samples ? size : samples;
}

static void plan_workspace(gp_cpu_convolution *c) {
    size_t bytes = 0, weights = gp_onednn_convolution_packed_bytes(c->primitive);
    gp_workspace_take(&bytes, gp_onednn_convolution_workspace(c->primitive));
    if (c->widened) {
        c->x_place = gp_workspace_take(&bytes, (size_t)c->x_elements * sizeof(float));
        c->y_place = gp_workspace_take(&bytes, (size_t)c->y_elements * sizeof(float));
    }
    c->kernel.packed_workspace = bytes;
    c->weight_place = gp_workspace_take(&bytes, weights); /* the last: not needed where packed ones are given */
    c->kernel.workspace = bytes;
}

static gp_status create_primitive(gp_cpu_convolution *c, const gp_kernel_desc *desc, const operands *o) {
    const gp_convolution_attributes *attributes = desc->attributes;
    gp_convolution_desc primitive = {.direction = c->direction,
                                     .attributes = *attributes,
                                     .x = o->x.shape,
                                     .y = o->y.shape,
                                     .dtype = c->widened ? GP_F32 : o->x.dtype,
                                     .bias = c->inputs[2].shape.rank >= 0,
                                     .winograd = c->winograd};
    c->samples = o->x.shape.dims[0];
    c->chunk = chunk_size(c, o);
    primitive.x.dims[0] = primitive.y.dims[0] = c->chunk;
    c->x_elements = gp_shape_elements(primitive.x);
    c->y_elements = gp_shape_elements(primitive.y);
    return gp_onednn_convolution_create(&c->primitive, &primitive);
}

static void describe_form(gp_cpu_convolution *c) {
    c->form.bytes = gp_onednn_convolution_packed_bytes(c->primitive);
    c->form.type = c->inputs[1];
    c->form.pack = pack;
    c->form.details = c->primitive;
    gp_onednn_convolution_packed_key(c->primitive, c->form.key, sizeof c->form.key);
    c->kernel.forms[1] = &c->form;
}

static gp_status set_up(gp_cpu_convolution *c, const gp_cpu_device *device, const gp_kernel_desc *desc,
                        const operands *o, bool winograd) {
    c->kernel.run = run;
    c->kernel.destroy = destroy;
    c->loops = device->loops;
    c->threads = device->device.threads;
    c->direction = direction_of(desc->id);
    for (int i = 0; i < 3; i++) {
        c->inputs[i] = i < desc->input_count ? desc->inputs[i] : (gp_type){GP_F32, {.rank = -1}};
    }
    c->output = desc->outputs[0];
    c->accumulate = desc->accumulate & 1u;
    c->widened = o->x.dtype == GP_BF16 && !device->bf16_packed;
    c->weight_elements = gp_shape_elements(o->weights.shape);
    c->winograd = winograd;
    gp_status status = create_primitive(c, desc, o);
    if (status == GP_INVALID && winograd) {
        c->winograd = false;
        status = create_primitive(c, desc, o);
    }
    if (status == GP_INVALID && o->x.dtype == GP_BF16 && !c->widened) {
        gp_log(GP_LOG_WARNING, "a bf16 convolution runs through f32 (slower): %s", gp_error_message());
        c->widened = true;
        status = create_primitive(c, desc, o);
    }
    GP_TRY(status);
    plan_workspace(c);
    if (c->direction != GP_CONVOLUTION_WEIGHT_GRADIENT) describe_form(c);
    return GP_OK;
}

gp_status gp_cpu_convolution_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    operands o = operands_of(desc);
    GP_TRY(check(&o, desc));
    if (is_product(&o, desc->attributes)) return create_product(device, desc, kernel);
    if (prefers_loops(device, &o, desc)) return create_depthwise(device, desc, kernel);
    bool winograd = prefers_winograd(device, &o, desc);
    if (desc->id == GP_OP_CONVOLUTION_WEIGHT_GRADIENT && !winograd &&
        gp_cpu_convolution_prefers_rows(device, o.x, o.y, o.weights, desc->attributes))
        return gp_cpu_convolution_rows_create(device, desc, kernel);
    gp_cpu_convolution *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = set_up(made, device, desc, &o, winograd);
    if (status != GP_OK) {
        destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}
