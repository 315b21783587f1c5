/* Kernels of batch norm: statistics of columns, the result, and the gradients. `rows` and `columns` are those of x.
 *
 * Short rows are folded: several of them are read as one row of `width` elements, so that vectors are full, and what
 * the folds of a channel have found is merged at the end. Rows are cut into groups whose number depends on the shape
 * alone; a group is summed whole by one thread and the groups are merged in order, so that the bits do not depend on
 * the threads. Workspace: `vectors` arrays of `width` floats, then two for each group. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernel.h"

enum {
    VECTOR = 16,         /* rows that are no multiple of this are folded until they are one ... */
    WIDE = 128,          /* ... and at least this long, */
    LONG = 1024,         /* but no longer than this */
    MOST_GROUPS = 32,    /* as many threads can sum */
    GROUP_GRAIN = 16384, /* fewest elements of a group, and of a part of a thread */
    VECTORS = 5
};

enum { MEAN, SCALE, BIAS, SHIFT, SLOPE };

static float *vector(const gp_cpu_call *call, int i) {
    return (float *)call->workspace + i * call->kernel->plan.batch.width;
}

static float *group_vector(const gp_cpu_call *call, int64_t group, int i) {
    return (float *)call->workspace + (VECTORS + 2 * group + i) * call->kernel->plan.batch.width;
}

static gp_cpu_channels channels_of(const gp_cpu_call *call) {
    return (gp_cpu_channels){call->kernel->plan.batch.width,
                             vector(call, MEAN),
                             vector(call, SCALE),
                             vector(call, BIAS),
                             vector(call, SHIFT),
                             vector(call, SLOPE)};
}

static bool relu(const gp_cpu_call *call) {
    return call->kernel->attributes.batch_norm.relu;
}

/* Elements begin..end-1 of input or output data. */
static const void *in(const gp_cpu_call *call, int i, int64_t begin) {
    return gp_cpu_from(call->kernel->inputs[i].dtype, call->inputs[i], begin);
}

static void *out(const gp_cpu_call *call, int64_t begin) {
    return gp_cpu_to(call->kernel->outputs[0].dtype, call->outputs[0], begin);
}

/* ---- groups of rows ---- */

/* The first element of a group, and of what follows the last one. */
static int64_t group_begin(const gp_cpu_kernel *kernel, int64_t group) {
    int64_t begin = group * kernel->plan.batch.group_rows * kernel->plan.batch.width;
    int64_t all = kernel->rows * kernel->columns;
    return begin < all ? begin : all;
}

/* Repeats a vector over channels until it fills the width. */
static void unfold(const gp_cpu_kernel *kernel, float *wide) {
    for (int64_t at = kernel->columns; at < kernel->plan.batch.width; at += kernel->columns) {
        memcpy(wide + at, wide, (size_t)kernel->columns * sizeof *wide);
    }
}

/* Vectors MEAN, SCALE and BIAS from w, b and statistics: inputs `first` and the next one, and these. */
static void set_channels(const gp_cpu_call *call, int first, const float *mean, const float *variance) {
    const gp_cpu_kernel *kernel = call->kernel;
    const float *w = call->inputs[first], *b = call->inputs[first + 1];
    float epsilon = (float)kernel->attributes.batch_norm.epsilon;
    for (int64_t c = 0; c < kernel->columns; c++) {
        vector(call, MEAN)[c] = mean[c];
        vector(call, SCALE)[c] = w[c] / sqrtf(variance[c] + epsilon);
        vector(call, BIAS)[c] = b[c];
    }
    for (int i = MEAN; i <= BIAS; i++) {
        unfold(kernel, vector(call, i));
    }
}

/* ---- statistics and result ---- */

static void moments_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    for (int64_t g = begin; g < end; g++) {
        int64_t first = group_begin(kernel, g), count = group_begin(kernel, g + 1) - first;
        kernel->loops->batch_moments(kernel->inputs[0].dtype, in(call, 0, first), count, kernel->plan.batch.width,
                                     group_vector(call, g, 0), group_vector(call, g, 1));
    }
}

/* Merges columns begin..end-1 of two pairs of vectors, of which the other one stands for `more` of `all` rows. */
static void merge(const gp_cpu_call *call, float *const into[2], const float *const other[2], int64_t more, int64_t all,
                  int64_t begin, int64_t end) {
    if (more < 1 || begin >= end) return;
    call->kernel->loops->merge_moments(into[0] + begin, into[1] + begin, other[0] + begin, other[1] + begin,
                                       (float)((double)more / (double)all), end - begin);
}

/* Merges the groups into the first, then the folds into the first one; the last wide row may be a part of one. */
static void merge_groups(const gp_cpu_call *call, float *mean, float *variance) {
    const gp_cpu_kernel *kernel = call->kernel;
    int64_t width = kernel->plan.batch.width, n = kernel->columns, all = kernel->rows * n, rows = 0;
    int64_t whole = all / width, rest = all % width;
    float *into[2] = {group_vector(call, 0, 0), group_vector(call, 0, 1)};
    for (int64_t g = 0; g < kernel->plan.batch.groups; g++) {
        const float *other[2] = {group_vector(call, g, 0), group_vector(call, g, 1)};
        int64_t more = (group_begin(kernel, g + 1) - group_begin(kernel, g)) / width;
        int64_t last = g == kernel->plan.batch.groups - 1 && rest ? 1 : 0;
        if (g > 0) merge(call, into, other, more + last, rows + more + last, 0, rest);
        if (g > 0) merge(call, into, other, more, rows + more, rest, width);
        rows += more;
    }
    for (int64_t at = n, found = whole + (rest > 0); at < width; at += n) {
        const float *other[2] = {into[0] + at, into[1] + at};
        int64_t more = whole + (at < rest ? 1 : 0);
        found += more;
        merge(call, into, other, more, found, 0, n);
    }
    memcpy(mean, into[0], (size_t)n * sizeof *mean);
    memcpy(variance, into[1], (size_t)n * sizeof *variance);
}

static void normalise_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    gp_cpu_channels channels = channels_of(call);
    call->kernel->loops->batch_norm(call->kernel->inputs[0].dtype, relu(call), &channels, in(call, 0, begin),
                                    out(call, begin), end - begin);
}

/* ---- gradients ---- */

static void sums_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_cpu_channels channels = channels_of(call);
    for (int64_t g = begin; g < end; g++) {
        int64_t first = group_begin(kernel, g), count = group_begin(kernel, g + 1) - first;
        kernel->loops->batch_norm_sums(kernel->inputs[0].dtype, relu(call), &channels, in(call, 0, first),
                                       in(call, 1, first), count, group_vector(call, g, 0), group_vector(call, g, 1));
    }
}

/* The sum over groups and folds of channel c. */
static double total(const gp_cpu_call *call, int i, int64_t c) {
    double sum = 0.0;
    for (int64_t g = 0; g < call->kernel->plan.batch.groups; g++) {
        const float *found = group_vector(call, g, i);
        for (int64_t at = c; at < call->kernel->plan.batch.width; at += call->kernel->columns) {
            sum += (double)found[at];
        }
    }
    return sum;
}

static void finish_sums(const gp_cpu_call *call) {
    const gp_cpu_kernel *kernel = call->kernel;
    const float *variance = call->inputs[5];
    float *dw = call->outputs[0], *db = call->outputs[1], epsilon = (float)kernel->attributes.batch_norm.epsilon;
    for (int64_t c = 0; c < kernel->columns; c++) {
        double rstd = (double)(1.0f / sqrtf(variance[c] + epsilon));
        dw[c] = (float)((kernel->accumulate & 1u ? (double)dw[c] : 0.0) + total(call, 0, c) * rstd);
        db[c] = (float)((kernel->accumulate & 2u ? (double)db[c] : 0.0) + total(call, 1, c));
    }
}

/* Vectors SHIFT and SLOPE: dx = (dy - shift - (x - mean) slope) scale. Given statistics do not depend on x. */
static void set_gradient(const gp_cpu_call *call) {
    const gp_cpu_kernel *kernel = call->kernel;
    bool training = kernel->id == GP_OP_BATCH_NORM_GRADIENT;
    const float *variance = call->inputs[5], *dw = training ? call->inputs[6] : NULL,
                *db = training ? call->inputs[7] : NULL;
    float epsilon = (float)kernel->attributes.batch_norm.epsilon, share = 1.0f / (float)kernel->rows;
    for (int64_t c = 0; c < kernel->columns; c++) {
        vector(call, SHIFT)[c] = training ? db[c] * share : 0.0f;
        vector(call, SLOPE)[c] = training ? dw[c] * share / sqrtf(variance[c] + epsilon) : 0.0f;
    }
    unfold(kernel, vector(call, SHIFT));
    unfold(kernel, vector(call, SLOPE));
}

static void gradient_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    gp_cpu_channels channels = channels_of(call);
    call->kernel->loops->batch_norm_gradient(call->kernel->inputs[0].dtype, relu(call), &channels, in(call, 0, begin),
                                             in(call, 1, begin), out(call, begin), end - begin);
}

/* ---- running ---- */

static gp_status run(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                     const gp_run *run_of_program) {
    const gp_cpu_kernel *kernel = (const gp_cpu_kernel *)base;
    gp_cpu_call call = {kernel, inputs, outputs, workspace, run_of_program};
    int64_t groups = kernel->plan.batch.groups;
    switch (kernel->id) {
    case GP_OP_BATCH_NORM:
        gp_cpu_for(kernel->threads, groups, 1, &call, moments_part);
        merge_groups(&call, outputs[1], outputs[2]);
        set_channels(&call, 1, outputs[1], outputs[2]);
        break;
    case GP_OP_BATCH_NORM_INFERENCE:
        set_channels(&call, 1, inputs[3], inputs[4]);
        break;
    default:
        set_channels(&call, 2, inputs[4], inputs[5]);
        set_gradient(&call);
    }
    if (kernel->id == GP_OP_BATCH_NORM_WEIGHT_GRADIENT) {
        gp_cpu_for(kernel->threads, groups, 1, &call, sums_part);
        finish_sums(&call);
    } else {
        gp_cpu_for(kernel->threads, kernel->items, kernel->grain, &call, kernel->part);
    }
    return GP_OK;
}

/* ---- creation ---- */

static gp_status check(const gp_kernel_desc *desc, int x) {
    gp_type type = desc->inputs[x];
    bool fits = gp_cpu_is_float(type) && gp_shape_elements(type.shape) > 0;
    if (x > 0) fits = fits && gp_type_equal(desc->inputs[0], type);
    for (int i = x + 1; i < desc->input_count; i++) {
        fits = fits && desc->inputs[i].dtype == GP_F32 &&
               gp_shape_elements(desc->inputs[i].shape) == gp_cpu_columns(type.shape);
    }
    return gp_cpu_check(fits, desc);
}

static int64_t fold_of(int64_t columns) {
    int64_t fold = 1;
    while ((fold * columns % VECTOR || fold * columns < WIDE) && (fold + 1) * columns <= LONG) {
        fold++;
    }
    return fold * columns % VECTOR ? 1 : fold;
}

static void plan(gp_cpu_kernel *kernel, gp_shape x) {
    kernel->rows = gp_cpu_rows(x);
    kernel->columns = gp_cpu_columns(x);
    int64_t fold = fold_of(kernel->columns), width = fold * kernel->columns;
    int64_t wide_rows = (kernel->rows + fold - 1) / fold;
    int64_t fewest = (GROUP_GRAIN + width - 1) / width, rows = (wide_rows + MOST_GROUPS - 1) / MOST_GROUPS;
    kernel->plan.batch.width = width;
    kernel->plan.batch.group_rows = rows > fewest ? rows : fewest;
    kernel->plan.batch.groups = (wide_rows + kernel->plan.batch.group_rows - 1) / kernel->plan.batch.group_rows;
    kernel->kernel.workspace = (size_t)((VECTORS + 2 * kernel->plan.batch.groups) * width) * sizeof(float);
    kernel->items = kernel->rows * kernel->columns;
    kernel->grain = fewest * width;
    kernel->kernel.run = run;
}

gp_status gp_cpu_setup_batch_norm(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    bool forward = desc->id == GP_OP_BATCH_NORM || desc->id == GP_OP_BATCH_NORM_INFERENCE;
    GP_TRY(check(desc, forward ? 0 : 1));
    plan(kernel, desc->inputs[forward ? 0 : 1].shape);
    kernel->part = forward ? normalise_part : gradient_part;
    return GP_OK;
}
