/* Processes against threads, and replicas against runs that know nothing of each other, on two cores:
 *
 *   K=2: two ranks that MPI started beside two threads of one process, the same configuration.
 *   D=2: two replicas, as ranks and as threads, beside two independent one-core runs side by side with the batch of one
 *        replica each: gradients are summed while backward runs.
 *
 * All of them stand ready as processes and take turns, round by round; medians of ratios of samples per second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "runner.h"

typedef struct settings {
    int64_t batch, context;
    int micro_batches, replica_micro_batches, layers, width, steps, rounds;
    bool shard;
} settings;

static settings read_settings(int count, char **arguments) {
    settings s = {
        .batch = bench_count(count, arguments, "batch", 16),
        .context = bench_count(count, arguments, "context", 128),
        .micro_batches = bench_count(count, arguments, "micro-batches", 16),
        .replica_micro_batches = bench_count(count, arguments, "replica-micro-batches", 4),
        .layers = bench_count(count, arguments, "layers", 8),
        .width = bench_count(count, arguments, "width", 256),
        .steps = bench_count(count, arguments, "steps", 2),
        .rounds = bench_count_to(count, arguments, "rounds", 7, 100),
        .shard = bench_flag(count, arguments, "shard"),
    };
    return s;
}

/* ---- a runner ---- */

/* Names begin with what is trained: "k2" or "d2", or "alone" on the core that the last character says. */
static gp_pipeline_options layout(const settings *s, const char *name, gp_cluster *cluster) {
    bool pipeline = strncmp(name, "k2", 2) == 0, alone = strncmp(name, "alone", 5) == 0;
    return (gp_pipeline_options){.partitions = pipeline ? 2 : 1,
                                 .replicas = pipeline || alone ? 1 : 2,
                                 .micro_batches = pipeline ? s->micro_batches : s->replica_micro_batches,
                                 .batch = alone ? s->batch : 2 * s->batch,
                                 .balance = GP_BALANCE_FLOPS,
                                 .shard_optimizer = s->shard && !pipeline && !alone,
                                 .cluster = cluster};
}

static void answer_all(const settings *s, const bench_service *service, gp_trainer *trainer, int64_t batch) {
    gp_tensor inputs = bench_tokens(batch, s->context, 512, 1), targets = bench_tokens(batch, s->context, 512, 2);
    bench_service_answer(service, 0);
    for (int steps = bench_service_next(service); steps > 0; steps = bench_service_next(service)) {
        gp_step_metrics metrics;
        double before = bench_seconds();
        for (int i = 0; i < steps; i++)
            bench_check(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), "step");
        bench_service_answer(service, (double)(batch * steps) / (bench_seconds() - before));
    }
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
}

/* Samples per second. */
static int serve(const settings *s, int count, char **arguments) {
    const char *name = bench_service_name(count, arguments);
    gp_gpt2_options options = {
        .layers = s->layers, .heads = 4, .width = s->width, .context = s->context, .vocabulary = 512};
    gp_optimizer_options optimizer = {.lr = 1e-4};
    gp_cluster *cluster = NULL;
    gp_model *model = NULL;
    gp_trainer *trainer = NULL;
    bench_service service;
    if (strncmp(name, "alone", 5) == 0) bench_pin(name[strlen(name) - 1] - '0');
    if (gp_cluster_launched() > 0) bench_check(gp_cluster_create(&cluster, NULL), "cluster");
    bench_service_open(&service, count, arguments, cluster ? gp_cluster_rank(cluster) : 0);
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    gp_pipeline_options pipeline = layout(s, name, cluster);
    bench_check(gp_trainer_create(&trainer, model, &pipeline, &optimizer, 1000), "trainer");
    answer_all(s, &service, trainer, pipeline.batch);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    gp_cluster_destroy(cluster);
    return 0;
}

/* ---- the comparison ---- */

enum { MPIS = 2, MOST_ROUNDS = 100 };
static const char *const implementations[MPIS] = {"openmpi", "mpich"};

typedef struct figures {
    double pipeline[MOST_ROUNDS]; /* ranks, of threads */
    double replicas[MOST_ROUNDS]; /* ranks, of two independent runs */
} figures;

typedef struct comparison {
    char folder[64];
    bench_runner threads[2], alone[2]; /* threads: k2, d2 */
    bench_runner ranks[MPIS][2];       /* k2, d2 */
    bool there[MPIS];
    figures found[MPIS];
    double replicas[MOST_ROUNDS]; /* threads, of two independent runs */
} comparison;

static void start_all(comparison *all, int count, char **arguments) {
    static const char *const what[] = {"k2", "d2"};
    char name[32];
    bench_runners_begin(all->folder);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s-threads", what[i]);
        bench_runner_start(&all->threads[i], all->folder, name, NULL, 1, count, arguments);
        snprintf(name, sizeof name, "alone-%d", i);
        bench_runner_start(&all->alone[i], all->folder, name, NULL, 1, count, arguments);
    }
    for (int m = 0; m < MPIS; m++) {
        const char *launcher = bench_launcher(count, arguments, implementations[m]);
        all->there[m] = launcher != NULL;
        for (int i = 0; launcher && i < 2; i++) {
            snprintf(name, sizeof name, "%s-%s", what[i], implementations[m]);
            bench_runner_start(&all->ranks[m][i], all->folder, name, launcher, 2, count, arguments);
        }
    }
}

static void stop_all(const comparison *all) {
    for (int i = 0; i < 2; i++) {
        bench_runner_stop(&all->threads[i]);
        bench_runner_stop(&all->alone[i]);
        for (int m = 0; m < MPIS; m++)
            if (all->there[m]) bench_runner_stop(&all->ranks[m][i]);
    }
    bench_runners_end(all->folder);
}

static double ask_alone(const comparison *all, int steps) {
    bench_runner_tell(&all->alone[0], steps);
    bench_runner_tell(&all->alone[1], steps);
    return bench_runner_hear(&all->alone[0]) + bench_runner_hear(&all->alone[1]);
}

/* Threads are measured before and after the ranks of every second round, so that neither is always the first. */
static void measure_round(comparison *all, const settings *s, int round) {
    double threads = 0, ranks[MPIS] = {0};
    if (round % 2 == 0) threads = bench_runner_ask(&all->threads[0], s->steps);
    for (int m = 0; m < MPIS; m++)
        if (all->there[m]) ranks[m] = bench_runner_ask(&all->ranks[m][0], s->steps);
    if (round % 2 != 0) threads = bench_runner_ask(&all->threads[0], s->steps);
    double alone = ask_alone(all, s->steps), replicas = bench_runner_ask(&all->threads[1], s->steps);
    for (int m = 0; m < MPIS; m++) {
        double rank_replicas = all->there[m] ? bench_runner_ask(&all->ranks[m][1], s->steps) : 0;
        if (round < 0) continue;
        all->found[m].pipeline[round] = ranks[m] / threads;
        all->found[m].replicas[round] = rank_replicas / alone;
    }
    if (round >= 0) all->replicas[round] = replicas / alone;
}

static void print(comparison *all, const settings *s, bool json) {
    size_t rounds = (size_t)s->rounds;
    double threads = bench_median(all->replicas, rounds);
    if (json) {
        printf("{\"bench\": \"cluster\", \"d2_threads\": %.4g", threads);
    } else {
        bench_print_machine();
        printf("%d layers of width %d, %d steps a round, %d rounds: median (least to most)\n", s->layers, s->width,
               s->steps, s->rounds);
        printf("  D=2, two threads, of two independent runs    %.3f (%.3f to %.3f)  aim: 0.9\n", threads,
               all->replicas[0], all->replicas[rounds - 1]);
    }
    for (int m = 0; m < MPIS; m++) {
        figures *found = &all->found[m];
        if (!all->there[m]) continue;
        double pipeline = bench_median(found->pipeline, rounds), replicas = bench_median(found->replicas, rounds);
        if (json) {
            printf(", \"%s\": {\"k2_of_threads\": %.4g, \"d2\": %.4g}", implementations[m], pipeline, replicas);
            continue;
        }
        printf("%s\n  K=2, two ranks, of two threads               %.3f (%.3f to %.3f)  aim: 0.95\n",
               implementations[m], pipeline, found->pipeline[0], found->pipeline[rounds - 1]);
        printf("  D=2, two ranks, of two independent runs      %.3f (%.3f to %.3f)  aim: 0.9\n", replicas,
               found->replicas[0], found->replicas[rounds - 1]);
    }
    if (json) printf("}\n");
}

static const char usage[] = "[--batch=16 (of a replica)] [--micro-batches=16 (K=2)] [--replica-micro-batches=4 (D=2)] "
                            "[--layers=8] [--width=256] [--context=128] [--steps=2] [--rounds=7] [--shard] "
                            "[--openmpi=COMMAND] [--mpich=COMMAND] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-cluster", usage);
    static comparison all;
    settings s = read_settings(count, arguments);
    if (bench_service_name(count, arguments)) return serve(&s, count, arguments);
    start_all(&all, count, arguments);
    for (int round = -1; round < s.rounds; round++) /* the first warms up */
        measure_round(&all, &s, round);
    stop_all(&all);
    print(&all, &s, bench_flag(count, arguments, "json"));
    return 0;
}
