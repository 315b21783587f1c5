/* The sum of GPT-2 124M's gradients over two replicas, bucket by bucket as in training but without it, beside a plain
 * copy of as many bytes through shared memory: two threads, each copying its gradients into memory that both see and
 * the other's out of it. That is what a sum must move at least between two processes that share no arrays (half of the
 * gradients and half of the sum each way).
 *
 * Two processes of each MPI and two threads take turns with the copy, round by round; medians of ratios. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/thread.h"
#include "common.h"
#include "pipeline/buckets.h"
#include "runner.h"
#include "world/cluster.h"

enum { REPLICAS = 2, MPIS = 2, MOST_ROUNDS = 100 };

typedef struct settings {
    gp_gpt2_options model;
    int rounds;
} settings;

static settings read_settings(int count, char **arguments) {
    settings s = {.model = {.layers = bench_count(count, arguments, "layers", 12),
                            .heads = 12,
                            .width = bench_count(count, arguments, "width", 768),
                            .context = 1024,
                            .vocabulary = bench_count(count, arguments, "vocabulary", 50257)},
                  .rounds = bench_count_to(count, arguments, "rounds", 9, MOST_ROUNDS)};
    return s;
}

/* ---- the gradients, as a stage of the whole model lays them out ---- */

typedef struct gradients {
    gp_model *model;
    gp_device *device;
    gp_stage *stage;
    gp_buckets buckets;
    size_t bytes;
} gradients;

static void describe(const settings *s, gradients *g) {
    size_t bounds[2] = {0};
    bench_check(gp_model_create_gpt2(&g->model, &s->model), "model");
    bench_check(gp_device_create_cpu(&g->device, NULL), "device");
    bounds[1] = gp_model_layer_count(g->model);
    gp_stage_options options = {.model = g->model,
                                .device = g->device,
                                .bounds = bounds,
                                .stages = 1,
                                .precision = GP_F32,
                                .replicas = REPLICAS};
    bench_check(gp_stage_create(&g->stage, &options), "stage");
    bench_check(gp_buckets_create(&g->buckets, g->stage, REPLICAS, sizeof(float)), "buckets");
    for (size_t p = 0; p < g->stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &g->stage->parameters[p];
        size_t end = parameter->offset + (size_t)parameter->elements * sizeof(float);
        if (end > g->bytes) g->bytes = end;
    }
}

static void forget(gradients *g) {
    gp_buckets_destroy(&g->buckets);
    gp_stage_destroy(g->stage);
    gp_device_destroy(g->device);
    gp_model_destroy(g->model);
}

/* Touched, so that no page is missing when it counts. */
static float *filled(size_t bytes, float value) {
    float *memory = gp_allocate(bytes);
    if (!memory) bench_check(GP_OUT_OF_MEMORY, "gradients");
    for (size_t i = 0; i < bytes / sizeof *memory; i++)
        memory[i] = value;
    return memory;
}

/* ---- a replica: the worker with its number, in a process of its own or in a thread ---- */

typedef struct replica {
    const gradients *g;
    gp_world *world;
    gp_group *group;
    int number;
    float *memory;
    void *staging;
    double seconds; /* of the last sum of all */
} replica;

static void add_up(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
    gp_device *device = user;
    device->class->ordered_sum(device, destination, sources, source_count, count);
}

static gp_status open_replica(replica *r) {
    static const int members[REPLICAS] = {0, 1};
    gp_group_options options = {.members = members,
                                .member_count = REPLICAS,
                                .lane = GP_LANE_COMPUTE, /* nothing is computed meanwhile */
                                .contributions = REPLICAS,
                                .piece_bytes = (size_t)r->g->buckets.largest * sizeof(float)};
    size_t staging = gp_group_staging_bytes(r->world, r->number, &options);
    r->memory = filled(r->g->bytes, (float)(r->number + 1));
    r->staging = staging > 0 ? gp_allocate(staging) : NULL;
    options.staging = r->staging;
    return gp_group_open(r->world, r->number, &options, &r->group);
}

static gp_status sum_all(const replica *r) {
    void *array = r->memory;
    for (size_t b = 0; b < r->g->buckets.count; b++) {
        gp_group_sum_part part = {.contributions = &array,
                                  .contribution_count = 1,
                                  .destination = array,
                                  .pieces = r->g->buckets.list[b].pieces,
                                  .element = sizeof(float),
                                  .sum = add_up,
                                  .user = r->g->device};
        gp_status status = gp_group_sum(r->group, &part);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

/* 1 + 2 everywhere. */
static void check_sum(const replica *r) {
    for (size_t p = 0; p < r->g->stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &r->g->stage->parameters[p];
        const float *values = r->memory + parameter->offset / sizeof(float);
        for (int64_t i = 0; i < parameter->elements; i++)
            if (values[i] != 3.0f) bench_check(gp_error(GP_FAILED, "the sum is %g", (double)values[i]), "sum");
    }
}

/* Sums grow by a factor of two each time: they begin anew. */
static void refill(const replica *r) {
    for (size_t i = 0; i < r->g->bytes / sizeof(float); i++)
        r->memory[i] = (float)(r->number + 1);
}

static gp_status work(replica *r) {
    refill(r);
    gp_status status = gp_world_barrier(r->world, r->number);
    double begun = bench_seconds();
    if (status == GP_OK) status = sum_all(r);
    if (status == GP_OK) status = gp_world_barrier(r->world, r->number);
    r->seconds = bench_seconds() - begun;
    if (status == GP_OK) check_sum(r);
    return status;
}

static int serve_ranks(const settings *s, int count, char **arguments) {
    gradients g = {0};
    gp_cluster *cluster = NULL;
    bench_service service;
    describe(s, &g);
    bench_check(gp_cluster_create(&cluster, NULL), "cluster");
    replica r = {.g = &g, .number = gp_cluster_rank(cluster)};
    bench_pin(r.number);
    bench_service_open(&service, count, arguments, r.number);
    bench_check(gp_world_create_cluster(&r.world, cluster, REPLICAS, NULL), "world");
    bench_check(open_replica(&r), "group");
    bench_check(gp_cluster_agree(cluster, GP_OK), "agreement");
    bench_service_answer(&service, 0);
    while (bench_service_next(&service) > 0) {
        bench_check(work(&r), "sum");
        bench_service_answer(&service, r.seconds);
    }
    gp_world_destroy(r.world);
    gp_free(r.memory);
    gp_free(r.staging);
    gp_cluster_destroy(cluster);
    forget(&g);
    return 0;
}

/* Two threads, each on a core of its own. */
static void run_both(void (*run)(void *), void *first, void *second) {
    gp_thread *threads[REPLICAS];
    bench_check(gp_thread_create(&threads[0], run, first, 0, 1), "thread");
    bench_check(gp_thread_create(&threads[1], run, second, 1, 1), "thread");
    gp_thread_join(threads[0]);
    gp_thread_join(threads[1]);
}

static void work_in_thread(void *argument) {
    replica *r = argument;
    bench_check(work(r), "sum");
}

static int serve_threads(const settings *s, int count, char **arguments) {
    gradients g = {0};
    replica replicas[REPLICAS];
    gp_world *world = NULL;
    bench_service service;
    describe(s, &g);
    bench_check(gp_world_create_threads(&world, REPLICAS, NULL), "world");
    for (int n = 0; n < REPLICAS; n++) {
        replicas[n] = (replica){.g = &g, .world = world, .number = n};
        bench_check(open_replica(&replicas[n]), "group");
    }
    bench_service_open(&service, count, arguments, 0);
    bench_service_answer(&service, 0);
    while (bench_service_next(&service) > 0) {
        run_both(work_in_thread, &replicas[0], &replicas[1]);
        bench_service_answer(&service, replicas[0].seconds);
    }
    gp_world_destroy(world);
    for (int n = 0; n < REPLICAS; n++) {
        gp_free(replicas[n].memory);
        gp_free(replicas[n].staging);
    }
    forget(&g);
    return 0;
}

/* ---- the plain copy ---- */

typedef struct copier {
    pthread_barrier_t *both;
    size_t bytes;
    float *mine, *shared;
    const float *other;
    double seconds;
} copier;

static void copy_through(void *argument) {
    copier *c = argument;
    pthread_barrier_wait(c->both);
    double begun = bench_seconds();
    memcpy(c->shared, c->mine, c->bytes);
    pthread_barrier_wait(c->both);
    memcpy(c->mine, c->other, c->bytes);
    pthread_barrier_wait(c->both);
    c->seconds = bench_seconds() - begun;
}

/* As processes would share it. */
static float *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) bench_check(GP_OUT_OF_MEMORY, "shared memory");
    memset(memory, 0, bytes);
    return memory;
}

static int serve_copy(const settings *s, int count, char **arguments) {
    gradients g = {0};
    copier copiers[REPLICAS];
    pthread_barrier_t both;
    bench_service service;
    describe(s, &g);
    pthread_barrier_init(&both, NULL, REPLICAS);
    for (int n = 0; n < REPLICAS; n++)
        copiers[n] = (copier){&both, g.bytes, filled(g.bytes, 1), shared_memory(g.bytes), NULL, 0};
    for (int n = 0; n < REPLICAS; n++)
        copiers[n].other = copiers[1 - n].shared;
    bench_service_open(&service, count, arguments, 0);
    bench_service_answer(&service, 0);
    while (bench_service_next(&service) > 0) {
        run_both(copy_through, &copiers[0], &copiers[1]);
        bench_service_answer(&service, copiers[0].seconds);
    }
    for (int n = 0; n < REPLICAS; n++) {
        gp_free(copiers[n].mine);
        munmap(copiers[n].shared, g.bytes);
    }
    pthread_barrier_destroy(&both);
    forget(&g);
    return 0;
}

/* ---- the comparison ---- */

/* What takes turns: the copy, threads, ranks of each MPI. */
enum { COPY, THREADS, RANKS, RUNNERS = RANKS + MPIS };
static const char *const names[RUNNERS] = {"copy", "threads", "openmpi", "mpich"};

typedef struct comparison {
    char folder[64];
    bench_runner runners[RUNNERS];
    bool there[RUNNERS];
    double seconds[RUNNERS][MOST_ROUNDS], shares[RUNNERS][MOST_ROUNDS]; /* shares: of the copy's speed */
} comparison;

static void start_all(comparison *all, int count, char **arguments) {
    bench_runners_begin(all->folder);
    for (int i = 0; i < RUNNERS; i++) {
        const char *launcher = i < RANKS ? NULL : bench_launcher(count, arguments, names[i]);
        all->there[i] = i < RANKS || launcher;
        if (!all->there[i]) continue;
        bench_runner_start(&all->runners[i], all->folder, names[i], launcher, launcher ? REPLICAS : 1, count,
                           arguments);
    }
}

static void measure_round(comparison *all, int round) {
    for (int i = 0; i < RUNNERS; i++) {
        double seconds = all->there[i] ? bench_runner_ask(&all->runners[i], 1) : 0;
        if (round >= 0) all->seconds[i][round] = seconds;
    }
    for (int i = 0; round >= 0 && i < RUNNERS; i++)
        all->shares[i][round] = all->there[i] ? all->seconds[COPY][round] / all->seconds[i][round] : 0;
}

static void print(comparison *all, const settings *s, double bytes, bool json) {
    size_t rounds = (size_t)s->rounds;
    double copy = bench_median(all->seconds[COPY], rounds);
    if (json) {
        printf("{\"bench\": \"reduce\", \"bytes\": %.0f, \"copy_seconds\": %.4g", bytes, copy);
    } else {
        bench_print_machine();
        printf("gradients: %.0f MB in each of two replicas; through shared memory by a plain copy: %.3f s\n",
               bytes / 1e6, copy);
    }
    for (int i = THREADS; i < RUNNERS; i++) {
        if (!all->there[i]) continue;
        double seconds = bench_median(all->seconds[i], rounds), share = bench_median(all->shares[i], rounds);
        if (json)
            printf(", \"%s\": {\"seconds\": %.4g, \"of_copy\": %.4g}", names[i], seconds, share);
        else
            printf("  summed by %-8s %.3f s, %3.0f%% of the copy's speed (%.0f%% to %.0f%%)  aim: 60%%\n", names[i],
                   seconds, 100 * share, 100 * all->shares[i][0], 100 * all->shares[i][rounds - 1]);
    }
    if (json) printf("}\n");
}

static int serve(const settings *s, int count, char **arguments) {
    const char *name = bench_service_name(count, arguments);
    if (strcmp(name, names[COPY]) == 0) return serve_copy(s, count, arguments);
    return strcmp(name, names[THREADS]) == 0 ? serve_threads(s, count, arguments) : serve_ranks(s, count, arguments);
}

static const char usage[] = "[--layers=12] [--width=768] [--vocabulary=50257] [--rounds=9] [--openmpi=COMMAND] "
                            "[--mpich=COMMAND] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-reduce", usage);
    static comparison all;
    settings s = read_settings(count, arguments);
    gradients g = {0};
    if (bench_service_name(count, arguments)) return serve(&s, count, arguments);
    start_all(&all, count, arguments);
    for (int round = -1; round < s.rounds; round++) /* the first warms up */
        measure_round(&all, round);
    for (int i = 0; i < RUNNERS; i++)
        if (all.there[i]) bench_runner_stop(&all.runners[i]);
    bench_runners_end(all.folder);
    describe(&s, &g);
    print(&all, &s, (double)g.bytes, bench_flag(count, arguments, "json"));
    forget(&g);
    return 0;
}
