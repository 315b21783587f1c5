/* Products and attention of the CPU device at the shapes of GPT-2 (124M parameters), as shares of what the cores can
 * do. Images: bench-images.
 *
 * Every round measures the peak (multiply-adds from registers) and then the kernel, and the best of each counts:
 * machines change their speed from minute to minute, only neighbours can be compared. With one thread the clock is the
 * thread's processor time, so that other programs on the machine disturb little. Operations of causal attention are
 * those above and on the diagonal's other side counted out: half of the square. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "measure.h"

typedef struct settings {
    bool json;
    int64_t tokens, context;
    int rounds, threads;
    bool f32, bf16;
} settings;

typedef struct bench {
    settings set;
    measure measure;
    json_t *rows;
    double flops, seconds, peak_seconds; /* of f32, over all products */
} bench;

static void report(bench *b, const char *name, gp_dtype dtype, double flops, double seconds, double peak) {
    double share = flops / seconds / peak;
    if (b->set.json) {
        json_array_append_new(b->rows, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "kernel", name, "dtype",
                                                 gp_dtype_name(dtype), "seconds", seconds, "flops", flops / seconds,
                                                 "peak_f32", peak, "share", share));
    } else {
        printf("%-34s %-5s %9.3f ms %8.1f GFLOP/s %6.1f%% of %.1f\n", name, gp_dtype_name(dtype), seconds * 1e3,
               flops / seconds / 1e9, share * 100, peak / 1e9);
        fflush(stdout);
    }
}

/* Runs and reports one kernel. */
static void measure_one(bench *b, const char *name, const gp_kernel_desc *desc, double flops, bool counts) {
    measured found = measure_kernel(&b->measure, name, desc, 0);
    report(b, name, desc->outputs[0].dtype == GP_F32 ? desc->inputs[0].dtype : desc->outputs[0].dtype, flops,
           found.seconds, found.peak);
    if (!counts) return;
    b->flops += flops;
    b->seconds += found.seconds;
    b->peak_seconds += flops / found.peak;
}

static gp_type matrix(gp_dtype dtype, int64_t rows, int64_t columns) {
    return (gp_type){dtype, {2, {rows, columns}}};
}

static void linear(bench *b, gp_dtype dtype, const char *what, int64_t in, int64_t out, bool bias) {
    int64_t rows = b->set.tokens;
    double flops = 2.0 * (double)rows * (double)in * (double)out;
    gp_type x = matrix(dtype, rows, in), y = matrix(dtype, rows, out), w = matrix(GP_F32, out, in);
    gp_type vector = {GP_F32, {1, {out}}}, none = {GP_F32, {.rank = -1}};
    char name[64];
    snprintf(name, sizeof name, "%s %lld->%lld forward%s", what, (long long)in, (long long)out, bias ? " + bias" : "");
    gp_type forward[] = {x, w, bias ? vector : none}, back[] = {y, w}, weight[] = {y, x};
    gp_kernel_desc desc = {.id = GP_OP_LINEAR, .inputs = forward, .outputs = &y, .input_count = 3, .output_count = 1};
    measure_one(b, name, &desc, flops, true);
    if (bias) return;
    snprintf(name, sizeof name, "%s %lld->%lld input gradient", what, (long long)in, (long long)out);
    desc = (gp_kernel_desc){
        .id = GP_OP_LINEAR_INPUT_GRADIENT, .inputs = back, .outputs = &x, .input_count = 2, .output_count = 1};
    measure_one(b, name, &desc, flops, true);
    snprintf(name, sizeof name, "%s %lld->%lld weight gradient", what, (long long)in, (long long)out);
    desc = (gp_kernel_desc){.id = GP_OP_LINEAR_WEIGHT_GRADIENT,
                            .inputs = weight,
                            .outputs = &w,
                            .input_count = 2,
                            .output_count = 1,
                            .accumulate = 1};
    measure_one(b, name, &desc, flops, true);
}

static void attention(bench *b, gp_dtype dtype, int64_t context, double dropout) {
    enum { HEADS = 12, WIDTH = 768 };
    int64_t samples = b->set.tokens / context > 0 ? b->set.tokens / context : 1;
    double square = (double)samples * (double)context * (double)context * WIDTH;
    gp_type qkv = {dtype, {3, {samples, context, 3 * WIDTH}}}, y = {dtype, {3, {samples, context, WIDTH}}};
    gp_type lse = {GP_F32, {3, {samples, HEADS, context}}};
    gp_attention_attributes attributes = {
        .heads = HEADS, .causal = true, .dropout = dropout, .scale = 1 / sqrt((double)WIDTH / HEADS)};
    gp_type outputs[] = {y, lse}, inputs[] = {y, qkv, y, lse};
    char name[64];
    const char *dropped = dropout > 0 ? " dropout" : "";
    snprintf(name, sizeof name, "attention %lldx%lld%s forward", (long long)samples, (long long)context, dropped);
    gp_kernel_desc desc = {.id = GP_OP_ATTENTION,
                           .attributes = &attributes,
                           .inputs = &qkv,
                           .outputs = outputs,
                           .input_count = 1,
                           .output_count = 2};
    measure_one(b, name, &desc, 2 * square, false);
    snprintf(name, sizeof name, "attention %lldx%lld%s gradient", (long long)samples, (long long)context, dropped);
    desc = (gp_kernel_desc){.id = GP_OP_ATTENTION_GRADIENT,
                            .attributes = &attributes,
                            .inputs = inputs,
                            .outputs = &qkv,
                            .input_count = 4,
                            .output_count = 1};
    measure_one(b, name, &desc, 5 * square, false);
}

static void measure_dtype(bench *b, gp_dtype dtype) {
    b->flops = b->seconds = b->peak_seconds = 0;
    linear(b, dtype, "qkv", 768, 2304, false);
    linear(b, dtype, "projection", 768, 768, false);
    linear(b, dtype, "up", 768, 3072, false);
    linear(b, dtype, "up", 768, 3072, true);
    linear(b, dtype, "down", 3072, 768, false);
    linear(b, dtype, "vocabulary", 768, 50257, false);
    report(b, "all products", dtype, b->flops, b->seconds, b->flops / b->peak_seconds);
    int64_t contexts[] = {64, 256, 1024};
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        if (!b->set.context || b->set.context == contexts[i]) attention(b, dtype, contexts[i], 0);
    }
    attention(b, dtype, b->set.context ? b->set.context : 1024, 0.1);
}

static const char usage[] = "[--tokens=1024] [--context=TOKENS] [--rounds=7] [--threads=1] "
                            "[--dtype=TYPE (f32, bf16; both)] [--json]";

static settings read_options(int count, char **arguments) {
    bench_usage(count, arguments, "bench-kernels", usage);
    return (settings){.tokens = bench_count(count, arguments, "tokens", 1024),
                      .context = (int64_t)bench_option(count, arguments, "context", 0),
                      .rounds = bench_count(count, arguments, "rounds", 7),
                      .threads = bench_count_to(count, arguments, "threads", 1, 256),
                      .f32 = bench_choice(count, arguments, "dtype", "f32", "bf16") != 1,
                      .bf16 = bench_choice(count, arguments, "dtype", "f32", "bf16") != 0,
                      .json = bench_flag(count, arguments, "json")};
}

int main(int count, char **arguments) {
    bench b = {.set = read_options(count, arguments), .rows = json_array()};
    gp_machine machine;
    if (gp_machine_describe(&machine) != GP_OK) measure_stop("machine");
    measure_open(&b.measure, b.set.threads, b.set.rounds);
    if (!b.set.json) {
        printf("%s, %d threads of %d cores, %s, %s loops, bf16 by %s, %lld tokens\n", machine.processor, b.set.threads,
               machine.cores, machine.products, machine.kernels, machine.bf16_route, (long long)b.set.tokens);
    }
    if (b.set.f32) measure_dtype(&b, GP_F32);
    if (b.set.bf16) measure_dtype(&b, GP_BF16);
    if (b.set.json) {
        json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:I, s:o}", "processor", machine.processor, "products",
                                machine.products, "bf16_route", machine.bf16_route, "threads", b.set.threads, "tokens",
                                (json_int_t)b.set.tokens, "kernels", b.rows);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        b.rows = NULL;
        json_decref(all);
    }
    json_decref(b.rows);
    measure_close(&b.measure);
    return 0;
}
