/* The CPU device: memory of the host, kernels by family, updates through the loops of the best instruction set. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/kernel.h"

static gp_cpu_device *cpu_of(gp_device *device) {
    return (gp_cpu_device *)device; /* gp_device is its first member */
}

/* ---- memory ---- */

static size_t cpu_bytes(gp_type type) {
    return gp_type_bytes(type);
}

static gp_status cpu_enter(gp_device *device) {
#ifdef _OPENMP
    omp_set_num_threads(device->threads); /* for the calling thread: oneDNN takes it from there */
#else
    (void)device;
#endif
    return GP_OK;
}

static void *cpu_allocate(gp_device *device, size_t bytes) {
    (void)device;
    return gp_allocate(bytes);
}

static void cpu_release(gp_device *device, void *memory, size_t bytes) {
    (void)device;
    (void)bytes;
    gp_free(memory);
}

/* Device memory is plain host memory. */
static void cpu_transfer(gp_device *device, void *destination, const void *source, gp_type type) {
    (void)device;
    memcpy(destination, source, gp_type_bytes(type));
}

static void cpu_copy(gp_device *device, void *destination, const void *source, size_t bytes) {
    (void)device;
    memcpy(destination, source, bytes);
}

static void cpu_zero(gp_device *device, void *memory, size_t bytes) {
    (void)device;
    memset(memory, 0, bytes);
}

/* ---- kernels ---- */

static gp_status cpu_kernel_create(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_cpu_device *cpu = cpu_of(device);
    *kernel = NULL;
    switch (desc->id) {
    case GP_OP_LINEAR:
    case GP_OP_LINEAR_INPUT_GRADIENT:
    case GP_OP_LINEAR_WEIGHT_GRADIENT:
    case GP_OP_MATMUL:
        return gp_cpu_product_create(cpu, desc, kernel);
    case GP_OP_CONVOLUTION:
    case GP_OP_CONVOLUTION_INPUT_GRADIENT:
    case GP_OP_CONVOLUTION_WEIGHT_GRADIENT:
        return gp_cpu_convolution_create(cpu, desc, kernel);
    case GP_OP_ATTENTION:
    case GP_OP_ATTENTION_GRADIENT:
        return gp_cpu_attention_create(cpu, desc, kernel);
    case GP_OP_CUSTOM:
        return gp_cpu_custom_create(cpu, desc, kernel);
    default:
        return gp_cpu_loop_create(cpu, desc, kernel);
    }
}

/* ---- work on whole arrays: the part functions of gp_cpu_for with what they need behind the call's workspace ---- */

typedef struct update_work {
    const gp_cpu_loops *loops;
    gp_cpu_update update;
    float *w, *g, *m, *v;
} update_work;

static void update_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const update_work *work = call->workspace;
    work->loops->update(&work->update, work->w + begin, work->g + begin, work->m ? work->m + begin : NULL,
                        work->v ? work->v + begin : NULL, end - begin);
}

static gp_cpu_update resolve(const gp_update *update) {
    bool adam = update->kind == GP_UPDATE_ADAM || update->kind == GP_UPDATE_ADAMW;
    bool decoupled = update->kind == GP_UPDATE_ADAMW;
    return (gp_cpu_update){
        .kind = update->kind,
        .momentum = update->momentum != 0.0,
        .nesterov = update->nesterov,
        .first = update->first,
        .epsilon_inside = update->epsilon_inside,
        .scale = (float)update->gradient_scale,
        .lr = (float)(adam ? update->lr / update->correction1 : update->lr),
        .keep = (float)(decoupled ? 1.0 - update->lr * update->weight_decay : 1.0),
        .weight_decay = (float)(decoupled ? 0.0 : update->weight_decay),
        .factor = (float)update->momentum,
        .beta1 = (float)update->beta1,
        .beta2 = (float)update->beta2,
        .rest1 = (float)(1.0 - update->beta1),
        .rest2 = (float)(1.0 - update->beta2),
        .root = (float)(adam ? 1.0 / sqrt(update->correction2) : 1.0),
        .epsilon = (float)update->epsilon,
    };
}

enum { ARRAY_GRAIN = 16384 };

static void cpu_update(gp_device *device, const gp_update *update, void *weight, void *gradient, void *m, void *v,
                       int64_t count) {
    update_work work = {cpu_of(device)->loops, resolve(update), weight, gradient, m, v};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(device->threads, count, ARRAY_GRAIN, &call, update_part);
}

/* Blocks of a size that depends on the count alone; their sums are added in order. */
enum { BLOCKS = 256 };

typedef struct squares_work {
    const gp_cpu_loops *loops;
    const float *data;
    int64_t count, block;
    double sums[BLOCKS];
} squares_work;

static void squares_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    squares_work *work = call->workspace;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * work->block, left = work->count - first;
        work->sums[b] = work->loops->sum_squares(work->data + first, left < work->block ? left : work->block);
    }
}

static double cpu_sum_squares(gp_device *device, const void *data, int64_t count) {
    int64_t block = ((count + BLOCKS - 1) / BLOCKS + ARRAY_GRAIN - 1) / ARRAY_GRAIN * ARRAY_GRAIN;
    int64_t blocks = count > 0 ? (count + block - 1) / block : 0;
    squares_work work = {.loops = cpu_of(device)->loops, .data = data, .count = count, .block = block};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(device->threads, blocks, 1, &call, squares_part);
    double total = 0.0;
    for (int64_t b = 0; b < blocks; b++) {
        total += work.sums[b];
    }
    return total;
}

typedef struct sum_work {
    const gp_cpu_loops *loops;
    float *destination;
    const void *const *sources;
    int source_count;
} sum_work;

static void sum_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const sum_work *work = call->workspace;
    work->loops->ordered_sum(work->destination, work->sources, work->source_count, begin, end - begin);
}

static void cpu_ordered_sum(gp_device *device, void *destination, const void *const *sources, int source_count,
                            int64_t count) {
    sum_work work = {cpu_of(device)->loops, destination, sources, source_count};
    gp_cpu_call call = {.workspace = &work};
    gp_cpu_for(device->threads, count, ARRAY_GRAIN, &call, sum_part);
}

/* An average over time, or (with a variance) two groups that become one. */
typedef struct average_work {
    const gp_cpu_loops *loops;
    float *average, *variance;
    const float *value, *other_variance;
    float share;
} average_work;

static void average_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const average_work *work = call->workspace;
    if (work->variance) {
        work->loops->merge_moments(work->average + begin, work->variance + begin, work->value + begin,
                                   work->other_variance + begin, work->share, end - begin);
    } else {
        work->loops->moving_average(work->average + begin, work->value + begin, work->share, end - begin);
    }
}

static void cpu_moving_average(gp_device *device, void *average, const void *value, double decay, int64_t count) {
    average_work work = {.loops = cpu_of(device)->loops, .average = average, .value = value};
    gp_cpu_call call = {.workspace = &work};
    work.share = (float)(1.0 - decay);
    gp_cpu_for(device->threads, count, ARRAY_GRAIN, &call, average_part);
}

static void cpu_merge_moments(gp_device *device, void *mean, void *variance, double weight, const void *other_mean,
                              const void *other_variance, double other_weight, int64_t count) {
    average_work work = {cpu_of(device)->loops, mean, variance, other_mean, other_variance, 0.0f};
    gp_cpu_call call = {.workspace = &work};
    if (weight == 0.0) { /* what is there may be anything */
        cpu_copy(device, mean, other_mean, (size_t)count * sizeof(float));
        cpu_copy(device, variance, other_variance, (size_t)count * sizeof(float));
        return;
    }
    work.share = (float)(other_weight / (weight + other_weight));
    gp_cpu_for(device->threads, count, ARRAY_GRAIN, &call, average_part);
}

static bool wide_finite(const void *data, gp_type type) {
    int64_t count = gp_shape_elements(type.shape);
    for (int64_t i = 0; i < count; i++) {
        double value;
        gp_convert(&value, GP_F64, gp_cpu_from(type.dtype, data, i), type.dtype, 1);
        if (!isfinite(value)) return false;
    }
    return true;
}

static bool cpu_all_finite(gp_device *device, const void *data, gp_type type) {
    if (!gp_dtype_is_float(type.dtype)) return true;
    if (!gp_cpu_is_float(type)) return wide_finite(data, type);
    return cpu_of(device)->loops->all_finite(type.dtype, data, gp_shape_elements(type.shape));
}

/* ---- the device ---- */

static gp_status cpu_wait(gp_device *device) {
    (void)device; /* kernels have run when they return */
    return GP_OK;
}

static void cpu_destroy(gp_device *device) {
    gp_free(device);
}

static const gp_device_class cpu_class = {
    .name = "cpu",
    .stored = GP_F32,
    .in_host_memory = true,
    .bytes = cpu_bytes,
    .enter = cpu_enter,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload = cpu_transfer,
    .download = cpu_transfer,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .kernel_create = cpu_kernel_create,
    .update = cpu_update,
    .sum_squares = cpu_sum_squares,
    .ordered_sum = cpu_ordered_sum,
    .moving_average = cpu_moving_average,
    .merge_moments = cpu_merge_moments,
    .all_finite = cpu_all_finite,
    .wait = cpu_wait,
    .destroy = cpu_destroy,
};

gp_status gp_device_create_cpu(gp_device **device, const gp_device_options *options) {
    int threads = options && options->threads ? options->threads : 1;
    if (threads < 0) {
        return gp_error(GP_INVALID, "a CPU device cannot have %d threads: 1 or more are accepted, 0 means 1", threads);
    }
    gp_cpu_device *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->device.class = &cpu_class;
    made->device.limit = options ? options->memory : 0;
    made->device.threads = threads;
    made->loops = gp_cpu_loops_table(NULL);
    made->bf16_packed = gp_cpu_products_packed();
    *device = &made->device;
    return GP_OK;
}
