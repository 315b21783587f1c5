/* Pipeline efficiency: K=2 on two cores against what two independent K=1 runs with the same recomputation, one on each
 * core, reach together when they run side by side: that is what the two cores can give. The ideal ratio is M / (M + 1).
 * Three processes take turns, round by round: the pipeline, then the pair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

typedef struct settings {
    int64_t batch, context;
    int micro_batches, layers, width, steps, rounds, recompute, schedule;
} settings;

/* A process that trains when it is told to: reads a number of steps, answers with the seconds they took. */
typedef struct runner {
    pid_t pid;
    int command, answer;
} runner;

static gp_trainer *make_trainer(const settings *s, const gp_model *model, int partitions) {
    gp_pipeline_options pipeline = {.partitions = partitions,
                                    .micro_batches = s->micro_batches,
                                    .batch = s->batch,
                                    .schedule = s->schedule == 1 ? GP_SCHEDULE_1F1B : GP_SCHEDULE_GPIPE,
                                    .recompute = (gp_recompute)s->recompute,
                                    .balance = GP_BALANCE_TIME};
    gp_optimizer_options optimizer = {.lr = 1e-4};
    gp_trainer *trainer = NULL;
    bench_check(gp_trainer_create(&trainer, model, &pipeline, &optimizer, 1000), "trainer");
    return trainer;
}

static void serve(const settings *s, int partitions, int core, int command, int answer) {
    gp_gpt2_options options = {
        .layers = s->layers, .heads = 4, .width = s->width, .context = s->context, .vocabulary = 512};
    gp_model *model = NULL;
    int steps = 0;
    bench_pin(core);
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    gp_trainer *trainer = make_trainer(s, model, partitions);
    gp_tensor inputs = bench_tokens(s->batch, s->context, 512, 1), targets = bench_tokens(s->batch, s->context, 512, 2);
    while (read(command, &steps, sizeof steps) == (ssize_t)sizeof steps && steps > 0) {
        gp_step_metrics metrics;
        double before = bench_seconds();
        for (int i = 0; i < steps; i++) {
            bench_check(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), "step");
        }
        double seconds = bench_seconds() - before;
        if (write(answer, &seconds, sizeof seconds) != (ssize_t)sizeof seconds) break;
    }
    gp_trainer_destroy(trainer);
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_model_destroy(model);
    _exit(0);
}

static runner start(const settings *s, int partitions, int core) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) bench_check(gp_error(GP_FAILED, "no pipe"), "start");
    pid_t pid = fork();
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        serve(s, partitions, core, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    return (runner){pid, to[1], from[0]};
}

static void tell(const runner *other, int steps) {
    if (write(other->command, &steps, sizeof steps) != (ssize_t)sizeof steps) exit(1);
}

static double hear(const runner *other) {
    double seconds = 0;
    if (read(other->answer, &seconds, sizeof seconds) != (ssize_t)sizeof seconds) {
        fprintf(stderr, "bench: a runner ended\n");
        exit(1);
    }
    return seconds;
}

static const char usage[] =
    "[--micro-batches=16] [--batch=32] [--layers=8] [--width=256] [--context=128] [--steps=2] "
    "[--rounds=9] [--recompute=0|1|2 (except_last, always, never)] [--schedule=0|1 (gpipe, 1f1b)] "
    "[--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-efficiency", usage);
    settings s = {
        .micro_batches = bench_count(count, arguments, "micro-batches", 16),
        .batch = bench_count(count, arguments, "batch", 32),
        .layers = bench_count(count, arguments, "layers", 8),
        .width = bench_count(count, arguments, "width", 256),
        .context = bench_count(count, arguments, "context", 128),
        .steps = bench_count(count, arguments, "steps", 2),
        .rounds = bench_count_to(count, arguments, "rounds", 9, 100),
        .recompute = (int)bench_option(count, arguments, "recompute", GP_RECOMPUTE_EXCEPT_LAST),
        .schedule = (int)bench_option(count, arguments, "schedule", 0),
    };
    double ratios[100];
    runner pipeline = start(&s, 2, -1), left = start(&s, 1, 0), right = start(&s, 1, 1);
    for (int round = -1; round < s.rounds; round++) { /* the first warms up */
        tell(&pipeline, s.steps);
        double together = hear(&pipeline);
        tell(&left, s.steps);
        tell(&right, s.steps);
        double rate = 1 / hear(&left);
        rate += 1 / hear(&right);
        if (round >= 0) ratios[round] = 1 / together / rate;
    }
    tell(&pipeline, 0);
    tell(&left, 0);
    tell(&right, 0);
    while (wait(NULL) > 0) {
    }
    double ratio = bench_median(ratios, (size_t)s.rounds), ideal = (double)s.micro_batches / (s.micro_batches + 1);
    if (bench_flag(count, arguments, "json")) {
        printf("{\"bench\": \"efficiency\", \"micro_batches\": %d, \"ratio\": %.4g, \"ideal\": %.4g, \"of_ideal\": "
               "%.4g}\n",
               s.micro_batches, ratio, ideal, ratio / ideal);
    } else {
        bench_print_machine();
        printf("K=2, M=%d: %.3f of two independent one-core runs side by side (least %.3f, most %.3f); ideal M/(M+1) = "
               "%.3f; "
               "share of the ideal %.1f%%\n",
               s.micro_batches, ratio, ratios[0], ratios[s.rounds - 1], ideal, 100 * ratio / ideal);
    }
    return 0;
}
