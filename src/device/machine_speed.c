/* How fast one core of this machine is, measured: multiply-adds, products in f32 and bf16, copying. */
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops.h"

/* Something to measure: does its work once and returns how much that was. */
typedef struct work {
    double (*once)(void *content, gp_status *status);
    void *content;
} work;

/* The best rate that shows within the time; at least three tries. */
static gp_status best_rate(const work *w, double seconds, double *rate) {
    gp_status status = GP_OK;
    double end = gp_seconds() + seconds;
    *rate = 0.0;
    for (int tries = 0; status == GP_OK && (tries < 3 || gp_seconds() < end); tries++) {
        double begin = gp_seconds(), amount = w->once(w->content, &status), took = gp_seconds() - begin;
        if (took > 0.0 && amount / took > *rate) *rate = amount / took;
    }
    return status;
}

/* ---- multiply-adds ---- */

static double peak_once(void *content, gp_status *status) {
    const gp_cpu_loops *loops = content;
    double flops;
    volatile float result = loops->peak(200000, &flops);
    (void)result;
    (void)status;
    return flops;
}

static gp_status measure_peak(gp_machine_speed *speed, double seconds) {
    gp_cpu_loops loops = *gp_cpu_loops_table(NULL);
    return best_rate(&(work){peak_once, &loops}, seconds, &speed->peak_f32);
}

/* ---- products ---- */

enum { ROWS = 1024, IN = 768, OUT = 3072 };

typedef struct product {
    gp_kernel *kernel;
    void *x, *weight, *packed, *y, *workspace;
} product;

static double product_once(void *content, gp_status *status) {
    product *p = content;
    const void *inputs[] = {p->x, p->packed ? p->packed : p->weight, NULL};
    void *outputs[] = {p->y};
    *status = p->kernel->run(p->kernel, inputs, outputs, p->workspace, &(gp_run){0});
    return 2.0 * ROWS * IN * OUT;
}

static gp_status product_prepare(product *p, gp_device *device, gp_dtype dtype) {
    gp_type inputs[] = {{dtype, {2, {ROWS, IN}}}, {GP_F32, {2, {OUT, IN}}}, {GP_F32, {.rank = -1}}};
    gp_type output = {dtype, {2, {ROWS, OUT}}};
    gp_kernel_desc desc = {
        .id = GP_OP_LINEAR, .inputs = inputs, .outputs = &output, .input_count = 3, .output_count = 1};
    GP_TRY(device->class->kernel_create(device, &desc, &p->kernel));
    p->x = gp_allocate(gp_type_bytes(inputs[0]));
    p->weight = gp_allocate(gp_type_bytes(inputs[1]));
    p->y = gp_allocate(gp_type_bytes(output));
    p->workspace = gp_allocate(p->kernel->workspace);
    if (!p->x || !p->weight || !p->y || !p->workspace) return GP_OUT_OF_MEMORY;
    const gp_form *form = p->kernel->forms[1];
    if (!form) return GP_OK;
    p->packed = gp_allocate(form->bytes);
    if (!p->packed) return GP_OUT_OF_MEMORY;
    p->kernel->packed = 1u << 1;
    return form->pack(form, p->weight, p->packed);
}

static gp_status measure_product(gp_device *device, gp_dtype dtype, double seconds, double *rate) {
    product p = {0};
    gp_status status = product_prepare(&p, device, dtype);
    if (status == GP_OK) status = best_rate(&(work){product_once, &p}, seconds, rate);
    if (p.kernel) p.kernel->destroy(p.kernel);
    gp_free(p.x);
    gp_free(p.weight);
    gp_free(p.packed);
    gp_free(p.y);
    gp_free(p.workspace);
    return status;
}

/* On one thread; the calling thread's number of OpenMP threads is put back. */
static gp_status measure_products(gp_machine_speed *speed, double seconds) {
    gp_device *device = NULL;
    GP_TRY(gp_device_create_cpu(&device, NULL));
#ifdef _OPENMP
    int threads = omp_get_max_threads();
#endif
    gp_status status = device->class->enter(device);
    if (status == GP_OK) status = measure_product(device, GP_F32, seconds, &speed->product_f32);
    if (status == GP_OK) status = measure_product(device, GP_BF16, seconds, &speed->product_bf16);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    device->class->destroy(device);
    return status;
}

/* ---- copying ---- */

enum { COPIED = 64 << 20 };

typedef struct copied {
    char *from, *to;
} copied;

static double copy_once(void *content, gp_status *status) {
    copied *c = content;
    (void)status;
    c->from[0]++; /* no two copies are the same */
    memcpy(c->to, c->from, COPIED);
    return 2.0 * COPIED;
}

static gp_status measure_copy(gp_machine_speed *speed, double seconds) {
    copied c = {gp_allocate(COPIED), gp_allocate(COPIED)};
    gp_status status = c.from && c.to ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK) {
        memset(c.from, 1, COPIED); /* its own pages, not the system's page of zeros */
        status = best_rate(&(work){copy_once, &c}, seconds, &speed->copy);
    }
    gp_free(c.from);
    gp_free(c.to);
    return status;
}

gp_status gp_machine_measure(gp_machine_speed *speed, double seconds) {
    double share = (seconds > 0.0 ? seconds : 1.0) / 4;
    *speed = (gp_machine_speed){0};
    GP_TRY(measure_peak(speed, share));
    GP_TRY(measure_products(speed, share));
    return measure_copy(speed, share);
}
