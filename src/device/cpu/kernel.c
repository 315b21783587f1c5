/* What kernels made of loops share: creation, checks, cutting work between threads, walking broadcast operands. */
#include "device/cpu/kernel.h"

#include <stdio.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/memory.h"
#include "base/status.h"

/* Elements below which a second thread costs more than it brings. */
enum { GRAIN = 16384 };

void gp_cpu_for(int threads, int64_t count, int64_t grain, const gp_cpu_call *call, gp_cpu_part *part) {
    if (count <= 0) return;
    int64_t grains = (count + grain - 1) / grain;
    int64_t wanted = threads < grains ? threads : grains;
    if (wanted <= 1) {
        part(call, 0, count);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads((int)wanted)
    {
        int64_t mine = omp_get_thread_num(), all = omp_get_num_threads();
        int64_t begin = grains * mine / all * grain, end = grains * (mine + 1) / all * grain;
        if (end > count) end = count;
        if (begin < end) part(call, begin, end);
    }
#else
    part(call, 0, count);
#endif
}

/* ---- creation ---- */

static gp_status run_parts(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                           const gp_run *run) {
    const gp_cpu_kernel *kernel = (const gp_cpu_kernel *)base;
    gp_cpu_call call = {kernel, inputs, outputs, workspace, run};
    if (kernel->check) GP_TRY(kernel->check(&call));
    gp_cpu_for(kernel->threads, kernel->items, kernel->grain, &call, kernel->part);
    if (kernel->finish) kernel->finish(&call);
    return GP_OK;
}

static void destroy(gp_kernel *kernel) {
    gp_free(kernel);
}

gp_status gp_cpu_kernel_create(const gp_cpu_device *device, const gp_kernel_desc *desc, gp_cpu_kernel **kernel) {
    gp_cpu_kernel *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->kernel.run = run_parts;
    made->kernel.destroy = destroy;
    made->loops = device->loops;
    made->threads = device->device.threads;
    made->id = desc->id;
    made->input_count = desc->input_count;
    made->output_count = desc->output_count;
    memcpy(made->inputs, desc->inputs, (size_t)desc->input_count * sizeof *desc->inputs);
    memcpy(made->outputs, desc->outputs, (size_t)desc->output_count * sizeof *desc->outputs);
    const gp_op_class *op = desc->op ? desc->op : gp_op_class_of(desc->id);
    size_t size = op ? op->attributes_size : 0;
    if (desc->attributes && size) {
        memcpy(&made->attributes, desc->attributes, size < sizeof made->attributes ? size : sizeof made->attributes);
    }
    made->accumulate = desc->accumulate;
    *kernel = made;
    return GP_OK;
}

void gp_cpu_kernel_cut(gp_cpu_kernel *kernel, gp_cpu_part *part, int64_t items, int64_t cost) {
    kernel->part = part;
    kernel->items = items;
    int64_t grain = cost > 0 ? GRAIN / cost : GRAIN;
    kernel->grain = grain > 0 ? grain : 1;
}

void gp_cpu_kernel_cut_columns(gp_cpu_kernel *kernel, gp_cpu_part *part, int64_t columns, int64_t cost) {
    gp_cpu_kernel_cut(kernel, part, columns, cost);
    kernel->grain = (kernel->grain + 63) / 64 * 64;
}

/* ---- checks ---- */

gp_status gp_cpu_check(bool fits, const gp_kernel_desc *desc) {
    if (fits) return GP_OK;
    char text[512] = "", type[64];
    size_t used = 0;
    for (int i = 0; i < desc->input_count && used + 100 < sizeof text; i++) {
        const char *name = "none";
        if (gp_cpu_is_present(desc->inputs[i])) name = gp_type_format(desc->inputs[i], type, sizeof type);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", name);
    }
    return gp_error(GP_INVALID, "the CPU device has no kernel for %s of (%s)",
                    desc->id == GP_OP_CUSTOM ? desc->op->name : gp_op_name(desc->id), text);
}

bool gp_cpu_is_float(gp_type type) {
    return gp_cpu_is_present(type) && (type.dtype == GP_F32 || type.dtype == GP_BF16);
}

bool gp_cpu_is_present(gp_type type) {
    return type.shape.rank >= 0;
}

/* ---- addresses and sizes ---- */

const void *gp_cpu_from(gp_dtype dtype, const void *data, int64_t i) {
    return (const char *)data + (size_t)i * gp_dtype_bytes(dtype);
}

void *gp_cpu_to(gp_dtype dtype, void *data, int64_t i) {
    return (char *)data + (size_t)i * gp_dtype_bytes(dtype);
}

int64_t gp_cpu_columns(gp_shape shape) {
    return shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
}

int64_t gp_cpu_rows(gp_shape shape) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank; i++) {
        rows *= shape.dims[i];
    }
    return rows;
}

/* ---- walks ---- */

/* The strides of an operand along the dimensions of a shape that it broadcasts to. */
static void broadcast_strides(gp_shape shape, gp_shape operand, int64_t *strides) {
    int64_t stride = 1;
    int missing = shape.rank - operand.rank;
    for (int i = shape.rank - 1; i >= 0; i--) {
        int64_t size = i >= missing ? operand.dims[i - missing] : 1;
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
}

void gp_cpu_walk_set(gp_cpu_walk *walk, gp_shape shape, const gp_shape *operands, int operand_count) {
    int64_t strides[2][GP_MAX_RANK] = {{0}};
    for (int o = 0; o < operand_count; o++) {
        broadcast_strides(shape, operands[o], strides[o]);
    }
    *walk = (gp_cpu_walk){.rank = 0};
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] == 1) continue;
        int last = walk->rank - 1;
        bool merges = last >= 0;
        for (int o = 0; merges && o < operand_count; o++) {
            merges = walk->strides[o][last] == strides[o][i] * shape.dims[i];
        }
        int at = merges ? last : walk->rank++;
        walk->dims[at] = merges ? walk->dims[at] * shape.dims[i] : shape.dims[i];
        for (int o = 0; o < operand_count; o++) {
            walk->strides[o][at] = strides[o][i];
        }
    }
    if (walk->rank == 0) {
        walk->rank = 1;
        walk->dims[0] = 1;
        walk->strides[0][0] = walk->strides[1][0] = 1;
    }
}

void gp_cpu_cursor_set(gp_cpu_cursor *cursor, const gp_cpu_walk *walk, int64_t row) {
    *cursor = (gp_cpu_cursor){.offset = {0, 0}};
    for (int i = walk->rank - 2; i >= 0; i--) {
        cursor->index[i] = row % walk->dims[i];
        row /= walk->dims[i];
        cursor->offset[0] += cursor->index[i] * walk->strides[0][i];
        cursor->offset[1] += cursor->index[i] * walk->strides[1][i];
    }
}

void gp_cpu_cursor_next(gp_cpu_cursor *cursor, const gp_cpu_walk *walk) {
    for (int i = walk->rank - 2; i >= 0; i--) {
        cursor->offset[0] += walk->strides[0][i];
        cursor->offset[1] += walk->strides[1][i];
        if (++cursor->index[i] < walk->dims[i]) return;
        cursor->offset[0] -= walk->dims[i] * walk->strides[0][i];
        cursor->offset[1] -= walk->dims[i] * walk->strides[1][i];
        cursor->index[i] = 0;
    }
}
