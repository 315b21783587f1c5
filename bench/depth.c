/* Memory: the deepest GPT that trains within device.memory, without recomputation on one worker, with it on one, two,
 * four and eight workers (GPipe's Table 1 in small). Plans find the depth; then one step is really trained at that
 * depth, and one block more is shown to be refused. */
#include <stdio.h>

#include "common.h"

typedef struct settings {
    size_t memory;
    int64_t width, context, batch;
    int micro_batches;
    gp_schedule_kind schedule;
} settings;

typedef struct row {
    const char *name;
    int partitions;
    gp_recompute recompute;
    int64_t depth, parameters;
} row;

static gp_model *make_model(const settings *s, int64_t depth) {
    gp_gpt2_options options = {.layers = depth, .heads = 4, .width = s->width, .context = s->context, .vocabulary = 64};
    gp_model *model = NULL;
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    return model;
}

static gp_pipeline_options pipeline_of(const settings *s, const row *one) {
    return (gp_pipeline_options){.partitions = one->partitions,
                                 .micro_batches = one->recompute == GP_RECOMPUTE_NEVER ? 1 : s->micro_batches,
                                 .batch = s->batch,
                                 .schedule = s->schedule,
                                 .recompute = one->recompute,
                                 .balance = GP_BALANCE_PARAMETERS,
                                 .device = {.memory = s->memory}};
}

static bool fits(const settings *s, const row *one, int64_t depth) {
    gp_pipeline_options pipeline = pipeline_of(s, one);
    gp_optimizer_options optimizer = {0};
    gp_model *model = make_model(s, depth);
    gp_plan *plan = NULL;
    bool result = true; /* fewer layers than workers: too shallow to be the answer */
    if (gp_model_layer_count(model) >= (size_t)one->partitions) {
        bench_check(gp_plan_create(&plan, model, &pipeline, &optimizer), "plan");
        result = plan->fits;
    }
    gp_plan_destroy(plan);
    gp_model_destroy(model);
    return result;
}

/* Trains one step; false when it is refused for its memory. */
static bool trains(const settings *s, row *one, int64_t depth) {
    gp_pipeline_options pipeline = pipeline_of(s, one);
    gp_optimizer_options optimizer = {0};
    gp_model *model = make_model(s, depth);
    gp_trainer *trainer = NULL;
    gp_status status = gp_trainer_create(&trainer, model, &pipeline, &optimizer, 1);
    if (status != GP_DOES_NOT_FIT) bench_check(status, "trainer");
    if (status == GP_OK) {
        gp_step_metrics metrics;
        gp_tensor inputs = bench_tokens(s->batch, s->context, 64, 1),
                  targets = bench_tokens(s->batch, s->context, 64, 2);
        bench_check(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), "step");
        one->parameters = gp_model_parameter_count(model);
        gp_tensor_destroy(&inputs);
        gp_tensor_destroy(&targets);
    }
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return status == GP_OK;
}

static void find_depth(const settings *s, row *one) {
    int64_t low = 0, high = 1;
    while (high < 4096 && fits(s, one, high)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (fits(s, one, middle))
            low = middle;
        else
            high = middle;
    }
    one->depth = low;
}

static const char usage[] = "[--memory-mib=96] [--width=128] [--context=128] [--batch=32] [--micro-batches=16] "
                            "[--schedule=1|0 (1f1b, gpipe)] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-depth", usage);
    settings s = {
        .memory = (size_t)(bench_option(count, arguments, "memory-mib", 96) * 1048576),
        .width = bench_count(count, arguments, "width", 128),
        .context = bench_count(count, arguments, "context", 128),
        .batch = bench_count(count, arguments, "batch", 32),
        .micro_batches = bench_count(count, arguments, "micro-batches", 16),
        .schedule = bench_option(count, arguments, "schedule", 1) > 0 ? GP_SCHEDULE_1F1B : GP_SCHEDULE_GPIPE,
    };
    row rows[] = {{"K=1, no recomputation", 1, GP_RECOMPUTE_NEVER, 0, 0},
                  {"K=1, recomputation", 1, GP_RECOMPUTE_ALWAYS, 0, 0},
                  {"K=2", 2, GP_RECOMPUTE_ALWAYS, 0, 0},
                  {"K=4", 4, GP_RECOMPUTE_ALWAYS, 0, 0},
                  {"K=8", 8, GP_RECOMPUTE_ALWAYS, 0, 0}};
    bool json = bench_flag(count, arguments, "json");
    if (!json)
        printf("%-24s %8s %12s %14s %12s %10s\n", "", "blocks", "K * K=1 - c", "parameters", "trained", "one more");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        find_depth(&s, &rows[r]);
        bool trained = rows[r].depth > 0 && trains(&s, &rows[r], rows[r].depth);
        bool refused =
            !trains(&s, &(row){.partitions = rows[r].partitions, .recompute = rows[r].recompute}, rows[r].depth + 1);
        long long missing = (long long)(rows[1].depth * rows[r].partitions - rows[r].depth);
        if (json)
            printf("{\"bench\": \"depth\", \"row\": \"%s\", \"blocks\": %lld, \"parameters\": %lld, \"trained\": %s, "
                   "\"one_more_refused\": %s}\n",
                   rows[r].name, (long long)rows[r].depth, (long long)rows[r].parameters, trained ? "true" : "false",
                   refused ? "true" : "false");
        else
            printf("%-24s %8lld %12lld %14lld %12s %10s\n", rows[r].name, (long long)rows[r].depth,
                   r == 0 ? 0 : missing, (long long)rows[r].parameters, trained ? "yes" : "NO",
                   refused ? "refused" : "TRAINS");
    }
    if (!json && rows[0].parameters > 0)
        printf("recomputation: %.2f times the parameters (GPipe: 2.78)\n",
               (double)rows[1].parameters / (double)rows[0].parameters);
    return 0;
}
