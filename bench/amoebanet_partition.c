/* Partition quality: AmoebaNet-D (18,256) cut by measured time. How much the slowest stage is over the mean, and the
 * speedups of GPipe's Table 2 (Huang et al., arXiv 1811.06965) that these times give: every schedule is simulated
 * exactly, links cost nothing, all is relative to two workers with one micro-batch. Layers are measured on one core for
 * `samples` images; the time of a micro-batch of another size is taken to be in proportion. */
#include <stdio.h>
#include <stdlib.h>

#include "amoebanet.h"

enum { WORKERS = 3, MICRO_BATCHES = 3, MOST_WORKERS = 8 };

static const int workers[WORKERS] = {2, 4, 8}, micro_batches[MICRO_BATCHES] = {1, 4, 32};
/* Published speedups, by micro-batches, then workers. torchgpipe (Kim et al., arXiv 2004.09910): M=32 alone. */
static const double gpipe[MICRO_BATCHES][WORKERS] = {{1, 1.13, 1.38}, {1.07, 1.26, 1.72}, {1.21, 1.84, 3.48}};
static const double torchgpipe[WORKERS] = {1.77, 2.71, 4.95};

typedef struct measured {
    const gp_profile *profile;
    double *costs; /* seconds of each layer: forward, recompute, backward */
} measured;

/* Stage times for one of the profile's micro-batches; returns how much the slowest is over the mean. */
static double cut(const measured *m, int parts, gp_stage_times *times) {
    size_t bounds[MOST_WORKERS + 1];
    double sum = 0, most = 0;
    bench_check(gp_partition(m->costs, m->profile->layer_count, (size_t)parts, NULL, bounds), "partition");
    for (int p = 0; p < parts; p++) {
        double own = 0;
        times[p] = (gp_stage_times){0};
        for (size_t l = bounds[p]; l < bounds[p + 1]; l++) {
            times[p].forward += m->profile->layers[l].forward;
            times[p].recompute += m->profile->layers[l].recompute;
            times[p].backward += m->profile->layers[l].backward;
            own += m->costs[l];
        }
        sum += own;
        if (own > most) most = own;
    }
    return most / (sum / parts) - 1;
}

/* Seconds of a step. */
static double span(const measured *m, int parts, int micro, double batch) {
    gp_stage_times times[MOST_WORKERS];
    gp_schedule *schedule = NULL;
    gp_simulation simulation;
    cut(m, parts, times);
    for (int p = 0; p < parts; p++) {
        double scale = batch / micro / (double)m->profile->micro_batch;
        times[p].forward *= scale;
        times[p].recompute *= scale;
        times[p].backward *= scale;
    }
    bench_check(gp_schedule_create(&schedule, GP_SCHEDULE_GPIPE, parts, micro, GP_RECOMPUTE_ALWAYS), "schedule");
    bench_check(gp_simulate(schedule, times, &simulation, NULL), "simulation");
    gp_schedule_destroy(schedule);
    return simulation.span;
}

static void print_balance(const measured *m, bool json) {
    gp_stage_times times[MOST_WORKERS];
    for (int k = 0; k < WORKERS; k++) {
        double over = cut(m, workers[k], times);
        if (json)
            printf("{\"bench\": \"amoebanet-partition\", \"workers\": %d, \"imbalance\": %.5f}\n", workers[k], over);
        else
            printf("K=%d: the slowest stage is %.2f%% over the mean%s\n", workers[k], 100 * over,
                   workers[k] == 2 ? " (GPipe: 3.2%)" : "");
    }
}

static void print_speedups(const measured *m, double batch, bool json) {
    double unit = span(m, 2, 1, batch);
    if (!json) printf("\n%-6s %-22s %-22s %-22s\n", "", "predicted, K=2 4 8", "GPipe", "torchgpipe");
    for (int b = 0; b < MICRO_BATCHES; b++) {
        double speedup[WORKERS];
        for (int k = 0; k < WORKERS; k++)
            speedup[k] = unit / span(m, workers[k], micro_batches[b], batch);
        if (json) {
            printf("{\"bench\": \"amoebanet-partition\", \"micro_batches\": %d, \"speedup\": [%.4f, %.4f, %.4f]}\n",
                   micro_batches[b], speedup[0], speedup[1], speedup[2]);
            continue;
        }
        printf("M=%-4d %-6.2f %-6.2f %-8.2f %-6.2f %-6.2f %-8.2f", micro_batches[b], speedup[0], speedup[1], speedup[2],
               gpipe[b][0], gpipe[b][1], gpipe[b][2]);
        if (b + 1 == MICRO_BATCHES) printf(" %-6.2f %-6.2f %-6.2f", torchgpipe[0], torchgpipe[1], torchgpipe[2]);
        printf("\n");
    }
}

static const char usage[] = "[--layers=18] [--filters=256] [--image=224] [--samples=2] [--batch=128] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-amoebanet-partition", usage);
    bench_amoebanet sizes = {.layers = bench_count(count, arguments, "layers", 18),
                             .filters = bench_count(count, arguments, "filters", 256),
                             .image = bench_count(count, arguments, "image", 224),
                             .classes = 1000,
                             .stem = "torchgpipe"};
    int64_t samples = bench_count(count, arguments, "samples", 2);
    double batch = bench_count(count, arguments, "batch", 128);
    bool json = bench_flag(count, arguments, "json");
    gp_pipeline_options pipeline = {.batch = samples, .recompute = GP_RECOMPUTE_ALWAYS};
    gp_model *model = bench_amoebanet_create(&sizes);
    gp_profile *profile = NULL;
    bench_check(gp_profile_create(&profile, model, &pipeline), "profile");
    measured m = {.profile = profile, .costs = calloc(profile->layer_count, sizeof(double))};
    if (!m.costs) bench_check(GP_OUT_OF_MEMORY, "costs");
    double sum = 0;
    for (size_t l = 0; l < profile->layer_count; l++) {
        const gp_profile_layer *layer = &profile->layers[l];
        m.costs[l] = layer->forward + layer->recompute + layer->backward;
        sum += m.costs[l];
    }
    if (!json)
        printf("AmoebaNet-D (%lld,%lld), %zu layers, %.2f s for %lld images of %lld pixels, one core\n",
               (long long)sizes.layers, (long long)sizes.filters, profile->layer_count, sum,
               (long long)profile->micro_batch, (long long)sizes.image);
    print_balance(&m, json);
    print_speedups(&m, batch, json);
    free(m.costs);
    gp_profile_destroy(profile);
    gp_model_destroy(model);
    return 0;
}
