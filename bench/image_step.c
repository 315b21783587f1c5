/* Training step of image models on one core (K=1) and on two (K=2): images/s and the share of the cores' f32 peak, f32
 * and bf16. The four take turns (steps.h), on random images.
 *
 * Work is the program's own count (gp_model_layer_flops, forward and backward of every layer: 2 for each multiply-add
 * of a convolution or product, one for each element of what is done element by element). What is computed a second time
 * is not work, so recomputation lowers the shares; there is none unless it is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amoebanet.h"
#include "steps.h"

enum { PRECISIONS = 2, RUNNERS = 2 * PRECISIONS };

typedef struct subject {
    const char *name, *text;
    int64_t batch;
    int micro_batches; /* at K=2 */
    gp_model *(*create)(void);
    gp_optimizer_options optimizer;
} subject;

typedef struct settings {
    int rounds, precisions, widths; /* widths: 1, one core; 2, two as well */
    gp_recompute recompute;
    bool json;
} settings;

static gp_model *create_resnet50(void) {
    gp_option image = {.key = "image", .type = GP_OPTION_INTEGER, .integer = 128};
    gp_model *model = NULL;
    bench_check(gp_model_create_named(&model, "resnet50", &image, 1, NULL), "model");
    return model;
}

static gp_model *create_amoebanet_cifar(void) {
    return bench_amoebanet_create(
        &(bench_amoebanet){.layers = 6, .filters = 64, .image = 32, .classes = 10, .stem = "cifar"});
}

static gp_model *create_amoebanet_224(void) {
    return bench_amoebanet_create(
        &(bench_amoebanet){.layers = 6, .filters = 64, .image = 224, .classes = 1000, .stem = "tensorflow"});
}

#define MOMENTUM                                                                                                       \
    { .kind = GP_OPTIMIZER_SGD, .lr = 1e-3, .momentum = 0.9 }
#define PAPER                                                                                                          \
    { .kind = GP_OPTIMIZER_RMSPROP, .lr = 1e-4, .momentum = 0.9, .epsilon = 1, .epsilon_inside = true }

static const subject SUBJECTS[] = {
    {"resnet50", "ResNet-50, 128x128", 32, 4, create_resnet50, MOMENTUM},
    {"amoebanet", "AmoebaNet-D (6,64), 32x32, stem cifar", 128, 8, create_amoebanet_cifar, PAPER},
    {"amoebanet224", "AmoebaNet-D (6,64), 224x224", 32, 8, create_amoebanet_224, PAPER},
};

static double flops_of(const gp_model *model) {
    double sum = 0;
    for (size_t l = 0; l < gp_model_layer_count(model); l++)
        sum += gp_model_layer_flops(model, l);
    return sum;
}

static void print(const bench_contender *runner, const subject *what, gp_dtype precision, bool json) {
    int partitions = runner->cores, micro_batches = partitions > 1 ? what->micro_batches : 1;
    double rate = (double)what->batch / runner->seconds;
    char memory[16], most[16];
    gp_bytes_format(runner->bytes, memory, sizeof memory);
    gp_bytes_format(runner->most, most, sizeof most);
    if (json)
        printf("{\"bench\": \"image-step\", \"model\": \"%s\", \"precision\": \"%s\", \"batch\": %lld, "
               "\"partitions\": %d, \"micro_batches\": %d, \"seconds\": %.6g, \"processor_seconds\": %.6g, "
               "\"images_per_second\": %.6g, \"flops\": %.6g, \"share_of_f32_peak\": %.4g, \"share_while_computing\": "
               "%.4g, \"bubble\": %.4g, \"bytes\": %zu, \"most_bytes_of_a_worker\": %zu}\n",
               what->name, gp_dtype_name(precision), (long long)what->batch, partitions, micro_batches, runner->seconds,
               runner->processor, rate, runner->flops, runner->share, runner->busy_share, runner->bubble, runner->bytes,
               runner->most);
    else
        printf("%-6s %2d %3d %9.3f %12.3f %10.1f %12.1f%% %16.1f%% %10s %10s\n", gp_dtype_name(precision), partitions,
               micro_batches, runner->seconds, runner->processor, rate, 100 * runner->share, 100 * runner->busy_share,
               memory, most);
    fflush(stdout);
}

static void head(const subject *what, const gp_model *model, double flops, double peak) {
    printf("\n%s, %lld parameters, batch %lld, %.2f GFLOP an image, f32 peak %.0f GFLOP/s a core\n", what->text,
           (long long)gp_model_parameter_count(model), (long long)what->batch, 1e-9 * flops, 1e-9 * peak);
    printf("%-6s %2s %3s %9s %12s %10s %13s %17s %10s %10s\n", "", "K", "M", "s/step", "processor s", "images/s",
           "of f32 peak", "while computing", "memory", "a worker");
}

static void measure(const subject *what, const settings *s) {
    static bench_contender runners[RUNNERS];
    gp_model *model = what->create();
    double flops = flops_of(model);
    gp_batch batch = bench_images(model, what->batch);
    int count = 0;
    for (int w = 1; w <= s->widths; w++) {
        for (int p = 0; p < s->precisions; p++) {
            gp_pipeline_options pipeline = {.partitions = w,
                                            .batch = what->batch,
                                            .micro_batches = w > 1 ? what->micro_batches : 1,
                                            .recompute = s->recompute,
                                            .balance = w > 1 ? GP_BALANCE_TIME : GP_BALANCE_FLOPS,
                                            .precision = p == 0 ? GP_F32 : GP_BF16};
            bench_contender_start(&runners[count++], model, &pipeline, &what->optimizer, flops * (double)what->batch);
        }
    }
    double peak = bench_steps_run(runners, count, s->rounds, &batch.inputs, &batch.targets);
    if (!s->json) head(what, model, flops, peak);
    for (int c = 0; c < count; c++) {
        print(&runners[c], what, c % s->precisions == 0 ? GP_F32 : GP_BF16, s->json);
        bench_contender_stop(&runners[c]);
    }
    gp_batch_destroy(&batch);
    gp_model_destroy(model);
}

static const char usage[] =
    "[--model=all|resnet50|amoebanet|amoebanet224] [--rounds=3] [--batch=N] [--micro-batches=N] "
    "[--recompute=0|1|2 (except_last, always, never)] [--f32] [--one-core] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-image-step", usage);
    const char *wanted = bench_text(count, arguments, "model");
    settings s = {.rounds = bench_count_to(count, arguments, "rounds", 3, BENCH_MOST_STEPS),
                  .precisions = bench_flag(count, arguments, "f32") ? 1 : PRECISIONS,
                  .widths = bench_flag(count, arguments, "one-core") ? 1 : 2,
                  .recompute = (gp_recompute)bench_option(count, arguments, "recompute", GP_RECOMPUTE_NEVER),
                  .json = bench_flag(count, arguments, "json")};
    bool found = false;
    if (!s.json) bench_print_machine();
    for (size_t i = 0; i < sizeof SUBJECTS / sizeof *SUBJECTS; i++) {
        subject what = SUBJECTS[i];
        if (wanted && strcmp(wanted, "all") != 0 && strcmp(wanted, what.name) != 0) continue;
        what.batch = bench_count(count, arguments, "batch", (int)what.batch);
        what.micro_batches = bench_count(count, arguments, "micro-batches", what.micro_batches);
        measure(&what, &s);
        found = true;
    }
    if (found) return 0;
    fprintf(stderr, "bench: --model=%s: all, resnet50, amoebanet and amoebanet224 are accepted\n", wanted);
    return 2;
}
