/* Training step of GPT-2 124M on one worker: tokens/s and the share of the machine's peak, counted as 6 * parameters *
 * tokens. f32 and bf16 take turns (steps.h). The share counts processor time, so that other programs disturb little. */
#include <stdio.h>

#include "steps.h"

enum { PRECISIONS = 2 };

typedef struct settings {
    int64_t batch, context, layers;
    int steps, threads, contenders;
    bool json;
} settings;

static settings read_settings(int count, char **arguments) {
    return (settings){
        .batch = bench_count(count, arguments, "batch", 4),
        .context = bench_count(count, arguments, "context", 256),
        .layers = bench_count(count, arguments, "layers", 12),
        .steps = bench_count_to(count, arguments, "steps", 5, BENCH_MOST_STEPS),
        .threads = bench_count_to(count, arguments, "threads", 1, 256),
        .contenders = bench_flag(count, arguments, "f32") ? 1 : PRECISIONS,
        .json = bench_flag(count, arguments, "json"),
    };
}

static gp_dtype precision_of(int contender) {
    return contender == 0 ? GP_F32 : GP_BF16;
}

static void start(bench_contender *runner, const settings *s, const gp_model *model, gp_dtype precision) {
    gp_pipeline_options pipeline = {.batch = s->batch,
                                    .recompute = GP_RECOMPUTE_NEVER,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .precision = precision,
                                    .device = {.threads = s->threads}};
    gp_optimizer_options optimizer = {.lr = 1e-4, .weight_decay = 0.1, .clip = 1};
    double flops = 6.0 * (double)gp_model_parameter_count(model) * (double)(s->batch * s->context);
    bench_contender_start(runner, model, &pipeline, &optimizer, flops);
}

static void print(const bench_contender *runner, const settings *s, const char *precision) {
    double tokens = (double)(s->batch * s->context) / runner->seconds, busy = runner->processor / s->threads;
    char memory[16];
    gp_bytes_format(runner->bytes, memory, sizeof memory);
    if (s->json)
        printf("{\"bench\": \"gpt2-step\", \"precision\": \"%s\", \"batch\": %lld, \"context\": %lld, \"threads\": %d, "
               "\"seconds\": %.6g, \"processor_seconds\": %.6g, \"tokens_per_second\": %.6g, \"share_of_f32_peak\": "
               "%.4g, \"bytes\": %zu}\n",
               precision, (long long)s->batch, (long long)s->context, s->threads, runner->seconds, busy, tokens,
               runner->busy_share, runner->bytes);
    else
        printf("%-6s %10.3f %12.3f %10.1f %13.1f%% %10s\n", precision, runner->seconds, busy, tokens,
               100 * runner->busy_share, memory);
}

static const char usage[] = "[--batch=4] [--context=256] [--steps=5] [--threads=1] [--layers=12] [--f32] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-gpt2-step", usage);
    settings s = read_settings(count, arguments);
    gp_gpt2_options options = {.context = s.context, .layers = s.layers};
    gp_model *model = NULL;
    static bench_contender runners[PRECISIONS];
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    gp_tensor inputs = bench_tokens(s.batch, s.context, 50257, 1), targets = bench_tokens(s.batch, s.context, 50257, 2);
    for (int c = 0; c < s.contenders; c++)
        start(&runners[c], &s, model, precision_of(c));
    double peak = s.threads * bench_steps_run(runners, s.contenders, s.steps, &inputs, &targets);
    if (!s.json) {
        bench_print_machine();
        printf("GPT-2, %lld parameters, batch %lld x %lld, %d thread%s, f32 peak %.0f GFLOP/s\n",
               (long long)gp_model_parameter_count(model), (long long)s.batch, (long long)s.context, s.threads,
               s.threads == 1 ? "" : "s", 1e-9 * peak);
        printf("%-6s %10s %12s %10s %14s %10s\n", "", "s/step", "processor s", "tokens/s", "of f32 peak", "memory");
    }
    for (int c = 0; c < s.contenders; c++) {
        print(&runners[c], &s, gp_dtype_name(precision_of(c)));
        bench_contender_stop(&runners[c]);
    }
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_model_destroy(model);
    return 0;
}
