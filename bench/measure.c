#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/thread.h"
#include "device/cpu/kernel.h"

void measure_stop(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, gp_error_message());
    exit(1);
}

void measure_open(measure *m, int threads, int rounds) {
    *m = (measure){.threads = threads, .rounds = rounds < 2 ? 2 : rounds};
    if (gp_device_create_cpu(&m->device, &(gp_device_options){.threads = threads}) != GP_OK) measure_stop("device");
    if (m->device->class->enter(m->device) != GP_OK) measure_stop("device");
}

void measure_close(measure *m) {
    gp_device_destroy(m->device);
}

static void *allocate(size_t bytes) {
    void *memory = gp_allocate(bytes);
    if (!memory) measure_stop("memory");
    return memory;
}

static double now(const measure *m) {
    if (m->threads > 1) return gp_seconds();
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double peak_rate(const measure *m, double best) {
    for (int i = 0; i < 4; i++) {
        double flops, begin = now(m);
        volatile float result = ((gp_cpu_device *)m->device)->loops->peak(1000000, &flops);
        (void)result;
        double rate = flops * m->threads / (now(m) - begin);
        if (rate > best) best = rate;
    }
    return best;
}

typedef struct copied {
    char *to;
    const char *from;
} copied;

static void copy_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const copied *c = call->workspace;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static double copy_rate(const measure *m, copied *c, size_t bytes, double best) {
    gp_cpu_call call = {.workspace = c};
    double begin = now(m);
    gp_cpu_for(m->threads, (int64_t)bytes, 4096, &call, copy_part);
    double rate = 2.0 * (double)bytes / (now(m) - begin);
    return rate > best ? rate : best;
}

static void *filled(gp_type type) {
    size_t count = (size_t)gp_shape_elements(type.shape);
    void *data = allocate(gp_type_bytes(type));
    for (size_t i = 0; i < count; i++) {
        float value = (float)(i * 2654435761u % 1000u) / 1000.0f - 0.5f;
        gp_convert((char *)data + i * gp_dtype_bytes(type.dtype), type.dtype, &value, GP_F32, 1);
    }
    return data;
}

typedef struct operands {
    void *inputs[GP_MAX_OPERANDS], *outputs[GP_MAX_OPERANDS], *workspace;
} operands;

static operands prepare(const char *name, gp_kernel *kernel, const gp_kernel_desc *desc) {
    operands o = {.workspace = allocate(kernel->workspace)};
    for (int i = 0; i < desc->input_count; i++) {
        if (desc->inputs[i].shape.rank < 0) continue;
        o.inputs[i] = filled(desc->inputs[i]);
        const gp_form *form = kernel->forms[i];
        if (!form) continue;
        void *packed = allocate(form->bytes);
        if (form->pack(form, o.inputs[i], packed) != GP_OK) measure_stop(name);
        gp_free(o.inputs[i]);
        o.inputs[i] = packed;
        kernel->packed |= 1u << i;
    }
    for (int i = 0; i < desc->output_count; i++) {
        o.outputs[i] = filled(desc->outputs[i]);
    }
    return o;
}

static void finish(operands *o) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        gp_free(o->inputs[i]);
        gp_free(o->outputs[i]);
    }
    gp_free(o->workspace);
}

measured measure_kernel(const measure *m, const char *name, const gp_kernel_desc *desc, size_t copy_bytes) {
    gp_kernel *kernel;
    if (m->device->class->kernel_create(m->device, desc, &kernel) != GP_OK) measure_stop(name);
    operands o = prepare(name, kernel, desc);
    char *from = copy_bytes ? allocate(copy_bytes) : NULL, *to = copy_bytes ? allocate(copy_bytes) : NULL;
    measured best = {.seconds = INFINITY};
    for (int r = 0; r < m->rounds; r++) {
        best.peak = peak_rate(m, best.peak);
        if (copy_bytes) best.copy = copy_rate(m, &(copied){to, from}, copy_bytes, best.copy);
        double begin = now(m);
        gp_status status =
            kernel->run(kernel, (const void *const *)o.inputs, o.outputs, o.workspace, &(gp_run){.progress = 1});
        double took = now(m) - begin;
        if (status != GP_OK) measure_stop(name);
        if (r > 0 && took < best.seconds) best.seconds = took; /* the first run touches its memory */
    }
    gp_free(from);
    gp_free(to);
    finish(&o);
    kernel->destroy(kernel);
    return best;
}
