/* GPipe's Table 1 (Huang et al., arXiv 1811.06965) for AmoebaNet-D: the largest model that fits `memory` a worker, on
 * images of 224x224, mini-batches of 128, with RMSProp: without recomputation on one worker (naive), with it on one,
 * two, four and eight. Depths are the paper's (18, 36, 72), widths multiples of 16. Plans find it, nothing of these
 * sizes is allocated. Beside it the paper's row, and what the paper's model of that row needs here.
 *
 * Then the same in small, for real: a limit of a hundredth, the widest AmoebaNet of six cells that eight workers train
 * within it; a step of it is made, and one worker is shown to refuse it. */
#include <stdio.h>

#include "amoebanet.h"

enum { DEPTHS = 3, STEP = 16, WIDEST = 2048, SMALL_LAYERS = 6, SMALL_IMAGE = 64, SMALL_BATCH = 32, SMALL_STEP = 8 };

#define GIB 1073741824.0

typedef struct settings {
    size_t memory;
    int64_t image, batch;
    int micro_batches;
    double momentum;
    gp_schedule_kind schedule;
} settings;

typedef struct row {
    const char *name;
    int partitions;
    gp_recompute recompute;
    int64_t paper_layers, paper_filters;
    double paper_parameters, paper_model, paper_activations; /* 10^9, GB, GB */
} row;

static const row rows[] = {
    {"naive-1", 1, GP_RECOMPUTE_NEVER, 18, 208, 0.082, 1.05, 6.26},
    {"pipeline-1", 1, GP_RECOMPUTE_ALWAYS, 18, 416, 0.318, 3.8, 3.46},
    {"pipeline-2", 2, GP_RECOMPUTE_ALWAYS, 18, 544, 0.542, 6.45, 8.11},
    {"pipeline-4", 4, GP_RECOMPUTE_ALWAYS, 36, 544, 1.05, 12.53, 15.21},
    {"pipeline-8", 8, GP_RECOMPUTE_ALWAYS, 72, 512, 1.8, 24.62, 26.24},
};

/* What a plan says, in bytes over all workers. */
typedef struct need {
    bool fits;
    int64_t parameters;
    double model, activations, largest; /* largest: of one worker, all kinds */
} need;

static gp_pipeline_options pipeline_of(const settings *s, const row *one) {
    return (gp_pipeline_options){.partitions = one->partitions,
                                 .micro_batches = one->recompute == GP_RECOMPUTE_NEVER ? 1 : s->micro_batches,
                                 .batch = s->batch,
                                 .schedule = s->schedule,
                                 .recompute = one->recompute,
                                 .balance = GP_BALANCE_FLOPS,
                                 .device = {.memory = s->memory}};
}

static gp_optimizer_options optimizer_of(const settings *s) {
    return (gp_optimizer_options){.kind = GP_OPTIMIZER_RMSPROP, .momentum = s->momentum};
}

static need plan(const settings *s, const row *one, const bench_amoebanet *sizes) {
    gp_pipeline_options pipeline = pipeline_of(s, one);
    gp_optimizer_options optimizer = optimizer_of(s);
    gp_model *model = bench_amoebanet_create(sizes);
    gp_plan *made = NULL;
    bench_check(gp_plan_create(&made, model, &pipeline, &optimizer), "plan");
    need result = {.fits = made->fits, .parameters = made->parameters};
    for (size_t w = 0; w < made->worker_count; w++) {
        const gp_plan_bytes *bytes = &made->workers[w].bytes;
        result.model += (double)(bytes->parameters + bytes->gradients + bytes->optimizer);
        result.activations += (double)(bytes->stash + bytes->workspace + bytes->communication);
        if ((double)bytes->total > result.largest) result.largest = (double)bytes->total;
    }
    gp_plan_destroy(made);
    gp_model_destroy(model);
    return result;
}

static bench_amoebanet large(const settings *s, int64_t layers, int64_t filters) {
    return (bench_amoebanet){layers, filters, s->image, 1000, "torchgpipe"};
}

/* The widest one of that depth; 0: none fits. */
static int64_t widest(const settings *s, const row *one, int64_t layers, need *found) {
    int64_t low = 0, high = WIDEST / STEP;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        bench_amoebanet sizes = large(s, layers, middle * STEP);
        need here = plan(s, one, &sizes);
        if (here.fits) {
            low = middle;
            *found = here;
        } else {
            high = middle;
        }
    }
    return low * STEP;
}

static void print_row(const settings *s, const row *one, bool json) {
    static const int64_t depths[DEPTHS] = {18, 36, 72};
    bench_amoebanet paper_sizes = large(s, one->paper_layers, one->paper_filters);
    need best = {0}, paper = plan(s, one, &paper_sizes);
    int64_t layers = 0, filters = 0;
    for (int d = 0; d < DEPTHS; d++) {
        need here = {0};
        int64_t width = widest(s, one, depths[d], &here);
        if (width == 0 || here.parameters <= best.parameters) continue;
        best = here;
        layers = depths[d];
        filters = width;
    }
    if (json) {
        printf(
            "{\"bench\": \"amoebanet-memory\", \"row\": \"%s\", \"layers\": %lld, \"filters\": %lld, \"parameters\": "
            "%lld, \"model_bytes\": %.0f, \"activation_bytes\": %.0f, \"paper_model_fits\": %s, "
            "\"paper_model_bytes\": %.0f, \"paper_activation_bytes\": %.0f}\n",
            one->name, (long long)layers, (long long)filters, (long long)best.parameters, best.model, best.activations,
            paper.fits ? "true" : "false", paper.model, paper.activations);
        return;
    }
    printf("%-11s (%2lld,%4lld) %6.0fM %6.2f %6.2f | (%2lld,%4lld) %6.0fM %6.2f %6.2f | %6.2f %6.2f %6.2f %s\n",
           one->name, (long long)one->paper_layers, (long long)one->paper_filters, 1e3 * one->paper_parameters,
           one->paper_model, one->paper_activations, (long long)layers, (long long)filters,
           1e-6 * (double)best.parameters, best.model / GIB, best.activations / GIB, paper.model / GIB,
           paper.activations / GIB, paper.largest / GIB, paper.fits ? "fits" : "does not fit");
}

/* The same model with and without recomputation, on one worker. */
static void compare_activations(const settings *s, bool json) {
    settings open = *s;
    open.memory = 0;
    bench_amoebanet sizes = large(s, rows[0].paper_layers, rows[0].paper_filters);
    need naive = plan(&open, &rows[0], &sizes), recomputed = plan(&open, &rows[1], &sizes);
    double share = recomputed.activations / naive.activations;
    if (json)
        printf(
            "{\"bench\": \"amoebanet-memory\", \"row\": \"same model\", \"naive_bytes\": %.0f, \"recomputed_bytes\": "
            "%.0f, \"share\": %.4f}\n",
            naive.activations, recomputed.activations, share);
    else
        printf(
            "\nactivations of (%lld,%lld) on one worker: %.2f GiB naive, %.2f GiB with M=%d and recomputation: %.1f%% "
            "(aim: a third)\n",
            (long long)sizes.layers, (long long)sizes.filters, naive.activations / GIB, recomputed.activations / GIB,
            s->micro_batches, 100 * share);
}

/* Trains one step; false when it is refused for its memory. */
static bool trains(const settings *s, const row *one, const bench_amoebanet *sizes, double *loss) {
    gp_pipeline_options pipeline = pipeline_of(s, one);
    gp_optimizer_options optimizer = optimizer_of(s);
    gp_model *model = bench_amoebanet_create(sizes);
    gp_trainer *trainer = NULL;
    gp_status status = gp_trainer_create(&trainer, model, &pipeline, &optimizer, 1);
    if (status != GP_DOES_NOT_FIT) bench_check(status, "trainer");
    if (status == GP_OK) {
        gp_step_metrics metrics;
        gp_batch batch = bench_images(model, s->batch);
        bench_check(gp_trainer_step(trainer, &batch.inputs, &batch.targets, NULL, &metrics), "step");
        *loss = metrics.loss;
        gp_batch_destroy(&batch);
    }
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return status == GP_OK;
}

static void train_small(const settings *s, bool json) {
    settings small = *s;
    const row *eight = &rows[4];
    small.memory = s->memory / 100;
    small.batch = SMALL_BATCH;
    bench_amoebanet sizes = {SMALL_LAYERS, SMALL_STEP, SMALL_IMAGE, 10, "torchgpipe"};
    need here = {.fits = true}, found = {0};
    while (here.fits && sizes.filters < WIDEST) {
        sizes.filters += SMALL_STEP;
        here = plan(&small, eight, &sizes);
        if (here.fits) found = here;
    }
    sizes.filters -= SMALL_STEP;
    double loss = 0, unused;
    bool eight_train = trains(&small, eight, &sizes, &loss);
    bool one_refused = !trains(&small, &rows[0], &sizes, &unused) && !trains(&small, &rows[1], &sizes, &unused);
    if (json)
        printf("{\"bench\": \"amoebanet-memory\", \"row\": \"small\", \"filters\": %lld, \"parameters\": %lld, "
               "\"eight_train\": %s, \"one_refused\": %s}\n",
               (long long)sizes.filters, (long long)found.parameters, eight_train ? "true" : "false",
               one_refused ? "true" : "false");
    else
        printf(
            "in small, %.0f MiB a worker, images of %d, batches of %d: (%d,%lld) of %.2fM parameters: K=8 %s, K=1 %s\n",
            (double)small.memory / 1048576.0, SMALL_IMAGE, SMALL_BATCH, SMALL_LAYERS, (long long)sizes.filters,
            1e-6 * (double)found.parameters, eight_train ? "trains a step" : "DOES NOT TRAIN",
            one_refused ? "is refused" : "IS NOT REFUSED");
}

static const char usage[] = "[--memory-gib=8] [--image=224] [--batch=128] [--micro-batches=32] [--momentum=0] "
                            "[--schedule=0|1 (gpipe, 1f1b)] [--quick] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-amoebanet-memory", usage);
    settings s = {
        .memory = (size_t)(bench_option(count, arguments, "memory-gib", 8) * GIB),
        .image = bench_count(count, arguments, "image", 224),
        .batch = bench_count(count, arguments, "batch", 128),
        .micro_batches = bench_count(count, arguments, "micro-batches", 32),
        .momentum = bench_option(count, arguments, "momentum", 0),
        .schedule = bench_option(count, arguments, "schedule", 0) > 0 ? GP_SCHEDULE_1F1B : GP_SCHEDULE_GPIPE,
    };
    bool json = bench_flag(count, arguments, "json"), quick = bench_flag(count, arguments, "quick");
    if (!json && !quick)
        printf("%-11s %-34s | %-34s | paper's model here, GiB\n%-11s %9s %7s %6s %6s | %9s %7s %6s %6s | %6s %6s %6s\n",
               "", "paper: (L,D), parameters, GB", "here: (L,D), parameters, GiB", "", "(L,D)", "", "model", "act.",
               "(L,D)", "", "model", "act.", "model", "act.", "worker");
    for (size_t r = 0; r < sizeof rows / sizeof *rows && !quick; r++)
        print_row(&s, &rows[r], json);
    compare_activations(&s, json);
    train_small(&s, json);
    return 0;
}
