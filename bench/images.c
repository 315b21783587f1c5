/* What image models are made of, on the CPU device: convolutions as shares of the cores' peak, batch norm and pooling
 * as shares of what a plain copy moves. Shapes are those of ResNet-50 (at 224 pixels) and of AmoebaNet-D.
 *
 * Bytes are those that the operation cannot do without when nothing stays in the caches: batch norm in training reads x
 * twice and writes y; its gradients read dy and x twice and write dx. How things are measured: measure.h. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "measure.h"

typedef struct settings {
    bool json;
    int64_t batch;
    int rounds, threads;
    bool f32, bf16;
    const char *only;
} settings;

typedef struct bench {
    settings set;
    measure measure;
    json_t *rows;
    gp_dtype dtype;
    int reported;
} bench;

static bool wanted(const bench *b, const char *name) {
    return !b->set.only || strstr(name, b->set.only);
}

static void report(bench *b, const char *name, const char *unit, double seconds, double amount, double best) {
    double rate = amount / seconds;
    b->reported++;
    if (b->set.json) {
        json_array_append_new(b->rows, json_pack("{s:s, s:s, s:f, s:s, s:f, s:f, s:f}", "kernel", name, "dtype",
                                                 gp_dtype_name(b->dtype), "seconds", seconds, "unit", unit, "rate",
                                                 rate, "best", best, "share", rate / best));
    } else {
        printf("%-44s %-5s %9.3f ms %8.1f G%s/s %6.1f%% of %.1f\n", name, gp_dtype_name(b->dtype), seconds * 1e3,
               rate / 1e9, unit, 100 * rate / best, best / 1e9);
        fflush(stdout);
    }
}

static gp_type image(gp_dtype dtype, int64_t n, int64_t h, int64_t w, int64_t c) {
    return (gp_type){dtype, {4, {n, h, w, c}}};
}

static gp_type vector(int64_t n) {
    return (gp_type){GP_F32, {1, {n}}};
}

/* ---- convolutions ---- */

typedef struct convolution {
    int64_t side, in, out, kernel[2], stride, dilation, groups;
    bool first; /* nobody wants the gradient of its input */
} convolution;

static const convolution CONVOLUTIONS[] = {
    {224, 3, 64, {7, 7}, 2, 1, 1, true}, /* ResNet-50 */
    {56, 64, 64, {3, 3}, 1, 1, 1, false},     {28, 128, 128, {3, 3}, 1, 1, 1, false},
    {14, 256, 256, {3, 3}, 1, 1, 1, false},   {7, 512, 512, {3, 3}, 1, 1, 1, false},
    {56, 128, 128, {3, 3}, 2, 1, 1, false},   {28, 256, 256, {3, 3}, 2, 1, 1, false},
    {14, 512, 512, {3, 3}, 2, 1, 1, false},   {56, 64, 256, {1, 1}, 1, 1, 1, false},
    {56, 256, 64, {1, 1}, 1, 1, 1, false},    {28, 512, 128, {1, 1}, 1, 1, 1, false},
    {14, 1024, 256, {1, 1}, 1, 1, 1, false},  {7, 512, 2048, {1, 1}, 1, 1, 1, false},
    {56, 256, 512, {1, 1}, 2, 1, 1, false},   {28, 512, 1024, {1, 1}, 2, 1, 1, false},
    {14, 1024, 2048, {1, 1}, 2, 1, 1, false}, {28, 64, 64, {1, 7}, 1, 1, 1, false}, /* AmoebaNet */
    {28, 64, 64, {7, 1}, 1, 1, 1, false},     {28, 256, 256, {3, 3}, 1, 1, 256, false},
    {28, 256, 256, {5, 5}, 1, 2, 256, false}, {28, 256, 256, {3, 3}, 1, 1, 64, false}, /* SENet-154 */
};

static gp_convolution_attributes attributes_of(const convolution *c) {
    gp_convolution_attributes a;
    memset(&a, 0, sizeof a);
    a.groups = c->groups;
    for (int axis = 0; axis < 2; axis++) {
        a.window.kernel[axis] = c->kernel[axis];
        a.window.stride[axis] = c->stride;
        a.window.dilation[axis] = c->dilation;
        a.window.before[axis] = a.window.after[axis] = (c->kernel[axis] - 1) * c->dilation / 2;
        a.window.image[axis] = c->side;
    }
    return a;
}

static void measure_direction(bench *b, const char *what, const char *direction, const gp_kernel_desc *desc,
                              double flops) {
    char name[80];
    snprintf(name, sizeof name, "%s %s", what, direction);
    if (!wanted(b, name)) return;
    measured found = measure_kernel(&b->measure, name, desc, 0);
    report(b, name, "FLOP", found.seconds, flops, found.peak);
}

static void measure_convolution(bench *b, const convolution *c) {
    gp_convolution_attributes attributes = attributes_of(c);
    int64_t side = (c->side - 1) / c->stride + 1, n = b->set.batch;
    gp_type x = image(b->dtype, n, c->side, c->side, c->in), y = image(b->dtype, n, side, side, c->out);
    gp_type w = image(GP_F32, c->out, c->in / c->groups, c->kernel[0], c->kernel[1]);
    double flops = 2.0 * (double)gp_shape_elements(y.shape) * (double)(gp_shape_elements(w.shape) / c->out);
    gp_type forward[] = {x, w}, input_gradient[] = {y, w}, weight_gradient[] = {y, x};
    gp_kernel_desc desc = {.id = GP_OP_CONVOLUTION,
                           .attributes = &attributes,
                           .inputs = forward,
                           .outputs = &y,
                           .input_count = 2,
                           .output_count = 1};
    char name[64], grouped[32] = "";
    if (c->groups > 1) snprintf(grouped, sizeof grouped, " in %lld groups", (long long)c->groups);
    snprintf(name, sizeof name, "%lldx%lld%s%s %lld->%lld at %lld%s", (long long)c->kernel[0], (long long)c->kernel[1],
             c->stride > 1 ? " / 2" : "", c->dilation > 1 ? " dilated" : "", (long long)c->in, (long long)c->out,
             (long long)c->side, grouped);
    measure_direction(b, name, "forward", &desc, flops);
    desc.id = GP_OP_CONVOLUTION_INPUT_GRADIENT;
    desc.inputs = input_gradient;
    desc.outputs = &x;
    if (!c->first) measure_direction(b, name, "input gradient", &desc, flops);
    desc.id = GP_OP_CONVOLUTION_WEIGHT_GRADIENT;
    desc.inputs = weight_gradient;
    desc.outputs = &w;
    desc.accumulate = 1;
    measure_direction(b, name, "weight gradient", &desc, flops);
}

/* ---- what moves memory ---- */

static void measure_bytes(bench *b, const char *name, const gp_kernel_desc *desc, double bytes) {
    if (!wanted(b, name)) return;
    measured found = measure_kernel(&b->measure, name, desc, (size_t)bytes / 2);
    report(b, name, "B", found.seconds, bytes, found.copy);
}

static void batch_norm(bench *b, int64_t side, int64_t c, bool relu) {
    gp_batch_norm_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.epsilon = 1e-3;
    attributes.relu = relu;
    gp_type x = image(b->dtype, b->set.batch, side, side, c), n = vector(c);
    double bytes = (double)gp_type_bytes(x);
    gp_type forward[] = {x, n, n, n, n}, gradient[] = {x, x, n, n, n, n, n, n}, made[] = {x, n, n}, sums[] = {n, n};
    gp_kernel_desc desc = {GP_OP_BATCH_NORM, NULL, &attributes, forward, made, 3, 3, 0};
    char name[64];
    const char *with = relu ? " + relu" : "";
    desc.op = gp_op_class_of(desc.id);
    snprintf(name, sizeof name, "batch norm%s %lld at %lld", with, (long long)c, (long long)side);
    measure_bytes(b, name, &desc, 3 * bytes);
    snprintf(name, sizeof name, "batch norm%s %lld at %lld weight gradient", with, (long long)c, (long long)side);
    desc = (gp_kernel_desc){GP_OP_BATCH_NORM_WEIGHT_GRADIENT, desc.op, &attributes, gradient, sums, 6, 2, 0};
    measure_bytes(b, name, &desc, 2 * bytes);
    snprintf(name, sizeof name, "batch norm%s %lld at %lld gradient", with, (long long)c, (long long)side);
    desc = (gp_kernel_desc){GP_OP_BATCH_NORM_GRADIENT, desc.op, &attributes, gradient, &x, 8, 1, 0};
    measure_bytes(b, name, &desc, 3 * bytes);
    snprintf(name, sizeof name, "batch norm%s %lld at %lld evaluation", with, (long long)c, (long long)side);
    desc = (gp_kernel_desc){GP_OP_BATCH_NORM_INFERENCE, desc.op, &attributes, forward, &x, 5, 1, 0};
    measure_bytes(b, name, &desc, 2 * bytes);
}

static void pool(bench *b, int64_t side, int64_t c, int64_t stride) {
    gp_window_attributes w = {.kernel = {3, 3},
                              .stride = {stride, stride},
                              .dilation = {1, 1},
                              .before = {1, 1},
                              .after = {1, 1},
                              .image = {side, side}};
    int64_t small = (side - 1) / stride + 1;
    gp_type x = image(b->dtype, b->set.batch, side, side, c), y = image(b->dtype, b->set.batch, small, small, c);
    gp_type index = y, one = {b->dtype, {2, {b->set.batch, c}}};
    index.dtype = GP_U8;
    double in = (double)gp_type_bytes(x), out = (double)gp_type_bytes(y), picks = (double)gp_type_bytes(index);
    gp_type picked[] = {y, index};
    gp_image_attributes whole = {side, side};
    const struct {
        const char *name;
        gp_kernel_desc desc;
        double bytes;
    } all[] = {
        {"max pool", {GP_OP_MAX_POOL, NULL, &w, &x, picked, 1, 2, 0}, in + out + picks},
        {"max pool gradient", {GP_OP_MAX_POOL_GRADIENT, NULL, &w, picked, &x, 2, 1, 0}, in + out + picks},
        {"average pool", {GP_OP_AVERAGE_POOL, NULL, &w, &x, &y, 1, 1, 0}, in + out},
        {"average pool gradient", {GP_OP_AVERAGE_POOL_GRADIENT, NULL, &w, &y, &x, 1, 1, 0}, in + out},
        {"global average pool", {GP_OP_GLOBAL_AVERAGE_POOL, NULL, NULL, &x, &one, 1, 1, 0}, in},
        {"global average pool gradient", {GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, NULL, &whole, &one, &x, 1, 1, 0}, in},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s 3x3%s %lld at %lld", all[i].name, stride > 1 ? " / 2" : "", (long long)c,
                 (long long)side);
        measure_bytes(b, name, &all[i].desc, all[i].bytes);
    }
}

/* ---- all ---- */

static void measure_dtype(bench *b, gp_dtype dtype) {
    b->dtype = dtype;
    for (size_t i = 0; i < sizeof CONVOLUTIONS / sizeof CONVOLUTIONS[0]; i++) {
        measure_convolution(b, &CONVOLUTIONS[i]);
    }
    batch_norm(b, 112, 64, true);
    batch_norm(b, 56, 256, true);
    batch_norm(b, 56, 256, false);
    batch_norm(b, 14, 1024, true);
    batch_norm(b, 28, 52, true);
    pool(b, 112, 64, 2);
    pool(b, 28, 256, 1);
}

static const char usage[] =
    "[--batch=8] [--rounds=7] [--threads=1] [--dtype=TYPE (f32, bf16; both)] [--only=TEXT] [--json]";

static settings read_options(int count, char **arguments) {
    bench_usage(count, arguments, "bench-images", usage);
    return (settings){.batch = bench_count(count, arguments, "batch", 8),
                      .rounds = bench_count(count, arguments, "rounds", 7),
                      .threads = bench_count_to(count, arguments, "threads", 1, 256),
                      .f32 = bench_choice(count, arguments, "dtype", "f32", "bf16") != 1,
                      .bf16 = bench_choice(count, arguments, "dtype", "f32", "bf16") != 0,
                      .only = bench_text(count, arguments, "only"),
                      .json = bench_flag(count, arguments, "json")};
}

int main(int count, char **arguments) {
    bench b = {.set = read_options(count, arguments), .rows = json_array()};
    gp_machine machine;
    if (gp_machine_describe(&machine) != GP_OK) measure_stop("machine");
    measure_open(&b.measure, b.set.threads, b.set.rounds);
    if (!b.set.json) {
        printf("%s, %d threads of %d cores, %s, %s loops, bf16 by %s, batch %lld\n", machine.processor, b.set.threads,
               machine.cores, machine.products, machine.kernels, machine.bf16_route, (long long)b.set.batch);
    }
    if (b.set.f32) measure_dtype(&b, GP_F32);
    if (b.set.bf16) measure_dtype(&b, GP_BF16);
    if (b.set.json) {
        json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:I, s:o}", "processor", machine.processor, "products",
                                machine.products, "bf16_route", machine.bf16_route, "threads", b.set.threads, "batch",
                                (json_int_t)b.set.batch, "kernels", b.rows);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        b.rows = NULL;
        json_decref(all);
    }
    json_decref(b.rows);
    measure_close(&b.measure);
    return bench_found(b.set.only, b.reported);
}
