/* The gradient of a convolution's weights as products. For every pixel of y, what its window sees of x is gathered into
 * a row [height, width, in]; the gradient [out, height, width, in] is then the product of dy, transposed, with these
 * rows. A few hundred rows at a time, so that they are still in the caches when they are multiplied; bf16 is widened on
 * the way. With AVX-512 this is 1.2 to 2 times as fast as oneDNN 2.6's convolutions where those are slow: windows with
 * a stride, and images so small that the gradient of the weights moves through memory once for a few pixels
 * (`bench-images --only="weight gradient"`). */
#include "device/cpu/convolution_rows.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/kernel.h"
#include "device/cpu/onednn/onednn.h"

typedef struct rows_kernel {
    gp_kernel kernel; /* first, so that a gp_kernel is a rows_kernel */
    const gp_cpu_loops *loops;
    int threads;
    gp_dtype dtype; /* of x and dy */
    gp_convolution_attributes attributes;
    int64_t in, out;
    int64_t small[2]; /* height and width of y */
    int64_t rows;     /* pixels of y */
    int64_t chunk;    /* rows that are gathered at a time */
    int64_t width;    /* of a row: height * width * in */
    bool accumulate;
    int64_t dy_place, sum_place; /* floats into the workspace, behind the rows */
} rows_kernel;

bool gp_cpu_convolution_prefers_rows(const gp_cpu_device *device, gp_type x, gp_type y, gp_type weights,
                                     const gp_convolution_attributes *a) {
    enum { FEW_CHANNELS = 32, FEW_PIXELS = 64, MANY_WEIGHTS = 1 << 19 };
    if (a->groups > 1 || x.shape.dims[3] < FEW_CHANNELS || gp_shape_elements(y.shape) < 1) return false;
    if (x.dtype == GP_BF16 && device->bf16_packed) return false;
    bool strides = a->window.stride[0] * a->window.stride[1] > 1;
    bool single = a->window.kernel[0] * a->window.kernel[1] == 1;
    bool many = gp_shape_elements(weights.shape) >= MANY_WEIGHTS;
    return strides ? many || !single : many && y.shape.dims[1] * y.shape.dims[2] <= FEW_PIXELS;
}

/* ---- gathering ---- */

/* One chunk: rows from `first` on. */
typedef struct gathering {
    const rows_kernel *kernel;
    const void *x;
    float *rows;
    int64_t first;
} gathering;

/* `count` elements of x from element `at` on; none where at < 0. */
static void gather_run(const gathering *g, float *to, int64_t at, int64_t count) {
    const rows_kernel *k = g->kernel;
    if (at < 0)
        memset(to, 0, (size_t)count * sizeof *to);
    else if (k->dtype == GP_F32)
        memcpy(to, (const float *)g->x + at, (size_t)count * sizeof *to);
    else
        k->loops->cast((gp_cpu_operand){gp_cpu_from(k->dtype, g->x, at), k->dtype, 1}, to, GP_F32, count);
}

/* One row of a window: `begin` is the element of x at column 0 of that row of the image, or < 0 outside; `left` the
 * first column of the window. What lies next to each other is copied as one. */
static void gather_line(const gathering *g, float *to, int64_t begin, int64_t left) {
    const rows_kernel *k = g->kernel;
    const gp_window_attributes *w = &k->attributes.window;
    int64_t columns = w->kernel[1], step = w->dilation[1], at = 0;
    while (at < columns) {
        int64_t column = left + at * step, run = 1;
        bool inside = begin >= 0 && column >= 0 && column < w->image[1];
        while (at + run < columns && (step == 1 || !inside)) {
            int64_t next = left + (at + run) * step;
            if ((begin >= 0 && next >= 0 && next < w->image[1]) != inside) break;
            run++;
        }
        gather_run(g, to + at * k->in, inside ? begin + column * k->in : -1, run * k->in);
        at += run;
    }
}

static void gather_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gathering *g = call->workspace;
    const rows_kernel *k = g->kernel;
    const gp_window_attributes *w = &k->attributes.window;
    for (int64_t r = begin; r < end; r++) {
        int64_t pixel = g->first + r, column = pixel % k->small[1], line = pixel / k->small[1] % k->small[0];
        int64_t sample = pixel / (k->small[0] * k->small[1]);
        for (int64_t y = 0; y < w->kernel[0]; y++) {
            int64_t row = line * w->stride[0] + y * w->dilation[0] - w->before[0];
            bool inside = row >= 0 && row < w->image[0];
            int64_t at = inside ? (sample * w->image[0] + row) * w->image[1] * k->in : -1;
            gather_line(g, g->rows + r * k->width + y * w->kernel[1] * k->in, at, column * w->stride[1] - w->before[1]);
        }
    }
}

static void gather(const rows_kernel *k, const void *x, int64_t first, int64_t count, float *rows) {
    enum { GRAIN = 16 };
    gathering work = {k, x, rows, first};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(k->threads, count, GRAIN, &call, gather_part);
}

/* ---- running ---- */

/* Adds sum[out, height * width, in] to weights[out, in, height * width]. */
typedef struct adding {
    const rows_kernel *kernel;
    const float *sum;
    float *weights;
} adding;

static void add_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const adding *a = call->workspace;
    const rows_kernel *k = a->kernel;
    int64_t taps = k->width / k->in;
    for (int64_t o = begin; o < end; o++) {
        const float *from = a->sum + o * k->width;
        float *to = a->weights + o * k->width;
        for (int64_t i = 0; i < k->in; i++)
            for (int64_t t = 0; t < taps; t++)
                to[i * taps + t] += from[t * k->in + i];
    }
}

static gp_status run(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                     const gp_run *run_of_program) {
    (void)run_of_program;
    const rows_kernel *k = (const rows_kernel *)kernel;
    float *rows = workspace, *widened = rows + k->dy_place, *weights = outputs[0];
    bool single = k->width == k->in; /* the sum has the order of the weights */
    float *sum = single ? weights : rows + k->sum_place;
    if (!k->accumulate) memset(weights, 0, (size_t)(k->out * k->width) * sizeof *weights);
    for (int64_t first = 0; first < k->rows; first += k->chunk) {
        int64_t count = k->rows - first < k->chunk ? k->rows - first : k->chunk;
        const float *dy = gp_cpu_from(k->dtype, inputs[0], first * k->out);
        if (k->dtype == GP_BF16) {
            k->loops->cast((gp_cpu_operand){dy, GP_BF16, 1}, widened, GP_F32, count * k->out);
            dy = widened;
        }
        gather(k, inputs[1], first, count, rows);
        gp_sgemm product = {true,   false,    k->out,   k->width, count,
                            k->out, k->width, k->width, 1,        single || first > 0 ? 1.0f : 0.0f};
        GP_TRY(gp_onednn_sgemm(&product, dy, rows, sum));
    }
    if (single) return GP_OK;
    adding work = {k, sum, weights};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(k->threads, k->out, 1, &call, add_part);
    return GP_OK;
}

/* ---- creation ---- */

static void destroy(gp_kernel *kernel) {
    gp_free(kernel);
}

/* A place for so many floats, on a cache line of its own. */
static int64_t take(int64_t *floats, int64_t count) {
    int64_t place = *floats;
    *floats += (count + 15) / 16 * 16;
    return place;
}

static void plan_workspace(rows_kernel *k) {
    int64_t floats = 0;
    take(&floats, k->chunk * k->width);
    k->dy_place = take(&floats, k->dtype == GP_BF16 ? k->chunk * k->out : 0);
    k->sum_place = take(&floats, k->width > k->in ? k->out * k->width : 0);
    k->kernel.workspace = k->kernel.packed_workspace = (size_t)floats * sizeof(float);
}

/* More rows at a time where the gradient is large: all of it is read and written for each chunk. */
static int64_t chunk_of(int64_t out, int64_t rows) {
    enum { FEW = 256, MANY = 512 };
    int64_t chunk = out < MANY ? FEW : MANY;
    return chunk < rows ? chunk : rows;
}

gp_status gp_cpu_convolution_rows_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    const int64_t *y = desc->inputs[0].shape.dims, *x = desc->inputs[1].shape.dims;
    const gp_convolution_attributes *attributes = desc->attributes;
    rows_kernel *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    *made = (rows_kernel){.kernel = {.run = run, .destroy = destroy},
                          .loops = device->loops,
                          .threads = device->device.threads,
                          .dtype = desc->inputs[1].dtype,
                          .attributes = *attributes,
                          .in = x[3],
                          .out = y[3],
                          .small = {y[1], y[2]},
                          .rows = y[0] * y[1] * y[2],
                          .width = attributes->window.kernel[0] * attributes->window.kernel[1] * x[3],
                          .accumulate = desc->accumulate & 1u};
    made->chunk = chunk_of(made->out, made->rows);
    plan_workspace(made);
    *kernel = &made->kernel;
    return GP_OK;
}
