/* What the engine costs per action: a model that computes next to nothing (linear layers of width 8), two workers, many
 * micro-batches. Time of a step divided by the actions of the busiest worker; that includes the few microseconds of
 * kernels and one hand-over between the cores for each action. */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

static gp_model *tiny_model(void) {
    gp_model *model = NULL;
    gp_option width = {.key = "features", .type = GP_OPTION_INTEGER, .integer = 8};
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    bench_check(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){8})}), "model");
    for (int i = 0; i < 2; i++) {
        gp_layer *layer = NULL;
        bench_check(gp_layer_create_builtin(&layer, "linear", &width, 1, NULL, 0), "layer");
        bench_check(gp_model_add(model, layer), "layer");
    }
    bench_check(gp_model_set_loss(model, &loss), "loss");
    bench_check(gp_model_finish(model), "model");
    return model;
}

static double microseconds_per_action(const gp_model *model, int partitions, int micro_batches, int steps) {
    gp_pipeline_options pipeline = {.partitions = partitions,
                                    .micro_batches = micro_batches,
                                    .batch = micro_batches,
                                    .schedule = GP_SCHEDULE_1F1B,
                                    .recompute = GP_RECOMPUTE_NEVER,
                                    .balance = GP_BALANCE_PARAMETERS};
    gp_optimizer_options optimizer = {.kind = GP_OPTIMIZER_SGD, .lr = 1e-3};
    gp_type type = {GP_F32, gp_shape_of(2, (int64_t[]){micro_batches, 8})};
    gp_trainer *trainer = NULL;
    gp_tensor inputs, targets;
    double *times = calloc((size_t)steps, sizeof *times);
    bench_check(gp_tensor_create(&inputs, type), "inputs");
    bench_check(gp_tensor_create(&targets, type), "targets");
    bench_check(gp_trainer_create(&trainer, model, &pipeline, &optimizer, steps), "trainer");
    for (int s = 0; s < steps; s++) {
        gp_step_metrics metrics;
        bench_check(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), "step");
        times[s] = metrics.seconds;
    }
    double median = bench_median(times, (size_t)steps);
    gp_trainer_destroy(trainer);
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    free(times);
    return 1e6 * median / (2.0 * micro_batches); /* F and B of each micro-batch */
}

static const char usage[] = "[--micro-batches=256] [--steps=200] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-overhead", usage);
    int micro_batches = bench_count(count, arguments, "micro-batches", 256);
    int steps = bench_count(count, arguments, "steps", 200);
    gp_model *model = tiny_model();
    double one = microseconds_per_action(model, 1, micro_batches, steps);
    double two = microseconds_per_action(model, 2, micro_batches, steps);
    if (bench_flag(count, arguments, "json")) {
        printf("{\"bench\": \"overhead\", \"micro_batches\": %d, \"us_per_action\": {\"K=1\": %.4g, \"K=2\": %.4g}}\n",
               micro_batches, one, two);
    } else {
        bench_print_machine();
        printf("engine overhead, %d micro-batches: %.2f us an action on one worker, %.2f us with two\n", micro_batches,
               one, two);
    }
    gp_model_destroy(model);
    return 0;
}
