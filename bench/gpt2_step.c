/* Training step of GPT-2 124M on one worker: tokens/s and the share of the machine's peak, counted as 6 * parameters *
 * tokens. f32 and bf16 take turns, and the peak is measured in between, because shared machines change speed from
 * minute to minute.
 *
 *   bench-gpt2-step [--batch=4] [--context=256] [--steps=5] [--threads=1] [--layers=12] [--f32] [--json] */
#include <stdio.h>
#include <time.h>

#include "common.h"

enum { PRECISIONS = 2, MOST_STEPS = 100 };

typedef struct contender {
    const char *name;
    gp_trainer *trainer;
    double seconds[MOST_STEPS], busy[MOST_STEPS], share[MOST_STEPS];
    size_t bytes;
} contender;

static void start(contender *one, const gp_model *model, gp_dtype precision, int64_t batch, int threads) {
    gp_pipeline_options pipeline = {.batch = batch,
                                    .recompute = GP_RECOMPUTE_NEVER,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .precision = precision,
                                    .device = {.threads = threads}};
    gp_optimizer_options optimizer = {.lr = 1e-4, .weight_decay = 0.1, .clip = 1};
    one->name = gp_dtype_name(precision);
    bench_check(gp_trainer_create(&one->trainer, model, &pipeline, &optimizer, 1000), one->name);
    one->bytes = gp_trainer_plan(one->trainer)->workers[0].bytes.total;
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One step; its wall seconds and its processor seconds by thread. */
static double step(contender *one, const gp_tensor *inputs, const gp_tensor *targets, int threads, double *busy) {
    gp_step_metrics metrics;
    double before = bench_seconds(), processor = processor_seconds();
    bench_check(gp_trainer_step(one->trainer, inputs, targets, NULL, &metrics), "step");
    *busy = (processor_seconds() - processor) / threads;
    return bench_seconds() - before;
}

int main(int count, char **arguments) {
    int64_t batch = (int64_t)bench_option(count, arguments, "batch", 4);
    int64_t context = (int64_t)bench_option(count, arguments, "context", 256);
    int steps = (int)bench_option(count, arguments, "steps", 5),
        threads = (int)bench_option(count, arguments, "threads", 1);
    int contenders = bench_flag(count, arguments, "f32") ? 1 : PRECISIONS;
    gp_gpt2_options options = {.context = context, .layers = (int64_t)bench_option(count, arguments, "layers", 12)};
    gp_model *model = NULL;
    contender run[PRECISIONS] = {{0}};
    double peaks[MOST_STEPS];
    if (steps < 1 || steps > MOST_STEPS) steps = 5;
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    gp_tensor inputs = bench_tokens(batch, context, 50257, 1), targets = bench_tokens(batch, context, 50257, 2);
    double flops = 6.0 * (double)gp_model_parameter_count(model) * (double)(batch * context);
    for (int c = 0; c < contenders; c++) {
        start(&run[c], model, c == 0 ? GP_F32 : GP_BF16, batch, threads);
        step(&run[c], &inputs, &targets, threads, &run[c].busy[0]); /* warms up */
    }
    for (int s = 0; s < steps; s++) {
        gp_machine_speed speed;
        bench_check(gp_machine_measure(&speed, 0.3), "peak");
        peaks[s] = speed.peak_f32 * threads;
        for (int c = 0; c < contenders; c++) {
            run[c].seconds[s] = step(&run[c], &inputs, &targets, threads, &run[c].busy[s]);
            run[c].share[s] = flops / run[c].busy[s] / peaks[s];
        }
    }
    bool json = bench_flag(count, arguments, "json");
    if (!json) {
        bench_print_machine();
        printf("GPT-2, %lld parameters, batch %lld x %lld, %d thread%s, f32 peak %.0f GFLOP/s\n",
               (long long)gp_model_parameter_count(model), (long long)batch, (long long)context, threads,
               threads == 1 ? "" : "s", 1e-9 * bench_median(peaks, (size_t)steps));
        printf("%-6s %10s %12s %10s %14s %10s\n", "", "s/step", "processor s", "tokens/s", "of f32 peak", "memory");
    }
    for (int c = 0; c < contenders; c++) {
        double seconds = bench_median(run[c].seconds, (size_t)steps), share = bench_median(run[c].share, (size_t)steps);
        double tokens = (double)(batch * context) / seconds, busy = bench_median(run[c].busy, (size_t)steps);
        char memory[16];
        gp_bytes_format(run[c].bytes, memory, sizeof memory);
        if (json)
            printf("{\"bench\": \"gpt2-step\", \"precision\": \"%s\", \"batch\": %lld, \"context\": %lld, \"threads\": "
                   "%d, "
                   "\"seconds\": %.6g, \"processor_seconds\": %.6g, \"tokens_per_second\": %.6g, "
                   "\"share_of_f32_peak\": %.4g, \"bytes\": %zu}\n",
                   run[c].name, (long long)batch, (long long)context, threads, seconds, busy, tokens, share,
                   run[c].bytes);
        else
            printf("%-6s %10.3f %12.3f %10.1f %13.1f%% %10s\n", run[c].name, seconds, busy, tokens, 100 * share,
                   memory);
        gp_trainer_destroy(run[c].trainer);
    }
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_model_destroy(model);
    return 0;
}
