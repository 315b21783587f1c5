/* Laying workers out over the ranks of a cluster. Everything here is the same on all ranks, or made so. */
#include "train/grid.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "checkpoint/checksum.h"
#include "data/dataset.h"
#include "world/cluster.h"

/* ---- partitions and replicas ---- */

/* "2 ranks of 3 workers each" */
static void describe_ranks(int64_t ranks, int64_t each, char *text, size_t size) {
    if (each == 1) {
        snprintf(text, size, "%" PRId64 " ranks", ranks);
    } else {
        snprintf(text, size, "%" PRId64 " ranks of %" PRId64 " workers each", ranks, each);
    }
}

static gp_status refuse(const gp_pipeline_options *pipeline, int64_t ranks, int64_t each) {
    char text[80];
    int64_t partitions = pipeline->partitions, replicas = pipeline->replicas;
    describe_ranks(ranks, each, text, sizeof text);
    if (partitions > 0 && replicas > 0)
        return gp_error(GP_INVALID,
                        "%s were started, but pipeline.partitions x pipeline.replicas is %" PRId64 " x %" PRId64
                        ": start %" PRId64 " ranks, leave one of the two open, or set pipeline.workers_per_rank",
                        text, partitions, replicas, (partitions * replicas + each - 1) / each);
    return gp_error(GP_INVALID,
                    "%s were started, which is no multiple of pipeline.%s = %" PRId64
                    ": start as many, or set pipeline.workers_per_rank",
                    text, partitions > 0 ? "partitions" : "replicas", partitions > 0 ? partitions : replicas);
}

gp_status gp_grid_resolve(const gp_pipeline_options *pipeline, int64_t *partitions, int64_t *replicas) {
    int64_t ranks = pipeline->cluster ? gp_cluster_ranks(pipeline->cluster) : 1, each = pipeline->workers_per_rank;
    *partitions = pipeline->partitions;
    *replicas = pipeline->replicas;
    if (*partitions < 0 || *replicas < 0) return GP_OK; /* refused where all options are */
    if (each < 0)
        return gp_error(GP_INVALID, "pipeline.workers_per_rank is %" PRId64 "; 0 (as needed) or more is accepted",
                        each);
    if (ranks == 1 && each == 0) {
        if (*partitions == 0) *partitions = 1;
        if (*replicas == 0) *replicas = 1;
        return GP_OK;
    }
    int64_t workers = ranks * (each > 0 ? each : 1);
    if (*partitions == 0 && *replicas == 0) *replicas = 1;
    if (*partitions == 0 && workers % *replicas == 0) *partitions = workers / *replicas;
    if (*replicas == 0 && workers % *partitions == 0) *replicas = workers / *partitions;
    return *partitions * *replicas == workers ? GP_OK : refuse(pipeline, ranks, each > 0 ? each : 1);
}

/* ---- comparing ---- */

/* A text that grows; empty after a failure. */
static void append(char **text, const char *more) {
    char *grown = *text && more ? gp_format_text("%s%s", *text, more) : NULL;
    gp_free(*text);
    *text = grown;
}

static void append_layer(char **text, const gp_model *model, size_t layer) {
    char line[160];
    snprintf(line, sizeof line, "%s %" PRId64 " %.17g\n", gp_model_layer_kind(model, layer),
             gp_model_layer_parameter_count(model, layer), gp_model_layer_flops(model, layer));
    append(text, line);
}

static void append_parameter(char **text, const gp_model *model, size_t parameter) {
    gp_parameter_info info = gp_model_parameter(model, parameter);
    char type[96];
    gp_type_format((gp_type){GP_F32, info.shape}, type, sizeof type);
    append(text, info.name);
    append(text, type);
}

/* A million parameters would make a long text: what a model is shows in its layers and its first parameters. */
enum { MOST_PARAMETERS = 2000, MOST_LAYERS = 2000 };

static char *describe_model(const gp_model *model) {
    size_t layers = gp_model_layer_count(model), parameters = gp_model_parameters(model);
    char *text = gp_format_text("%zu layers, %" PRId64 " parameters\n", layers, gp_model_parameter_count(model));
    for (size_t i = 0; i < layers && i < MOST_LAYERS; i++)
        append_layer(&text, model, i);
    for (size_t p = 0; p < parameters && p < MOST_PARAMETERS; p++)
        append_parameter(&text, model, p);
    return text;
}

static void append_workers(char **text, const gp_pipeline_options *o) {
    char number[40];
    for (size_t i = 0; o->memory_limits && i < o->memory_limit_count; i++) {
        snprintf(number, sizeof number, " %zu", o->memory_limits[i]);
        append(text, number);
    }
    for (size_t i = 0; o->speeds && i < o->speed_count; i++) {
        snprintf(number, sizeof number, " x%.17g", o->speeds[i]);
        append(text, number);
    }
}

static char *describe_pipeline(const gp_pipeline_options *o) {
    char *text =
        gp_format_text("%d %d %d %" PRId64 " %d %d %d %d %d %d %d %d %" PRIu64 " %d %d %d", o->partitions, o->replicas,
                       o->micro_batches, o->batch, (int)o->schedule, (int)o->recompute, o->recompute_by_layer,
                       (int)o->balance, (int)o->device.type, (int)o->precision, o->loss_weights, o->shard_optimizer,
                       o->seed, o->workers_per_rank, o->device.threads, o->snapshot);
    append(&text, o->schedule_text ? o->schedule_text : "");
    append_workers(&text, o);
    for (int i = 0; o->stage_layers && i < o->partitions; i++) {
        char number[24];
        snprintf(number, sizeof number, " %zu", o->stage_layers[i]);
        append(&text, number);
    }
    return text;
}

static char *describe_optimizer(const gp_optimizer_options *given, int64_t steps) {
    gp_optimizer_options o;
    if (!given) return gp_copy_text("none");
    if (gp_options_read(&o, sizeof o, given, "gp_optimizer_options") != GP_OK) return NULL; /* refused by all alike */
    char *text = gp_format_text("%d %.17g %.17g %.17g %.17g %.17g %.17g %d %.17g %d %" PRId64 " %" PRId64
                                " %.17g %.17g %d %.17g %.17g %" PRId64,
                                (int)o.kind, o.lr, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.momentum, o.nesterov,
                                o.clip, (int)o.schedule.kind, o.schedule.warmup, o.schedule.every, o.schedule.min_lr,
                                o.schedule.gamma, o.epsilon_inside, o.average, o.layer_decay, steps);
    for (size_t g = 0; o.groups && g < o.group_count; g++) {
        const gp_parameter_group *group = &o.groups[g];
        char factor[48];
        snprintf(factor, sizeof factor, " %d %.17g", group->frozen, group->lr_factor);
        append(&text, group->pattern ? group->pattern : "");
        append(&text, factor);
    }
    return text;
}

/* Takes the text. */
static gp_status compare(gp_cluster *cluster, const char *what, char *text) {
    gp_status status = gp_cluster_compare(cluster, what, text ? text : "", text ? strlen(text) : 0);
    gp_free(text);
    return status;
}

gp_status gp_grid_compare(const gp_model *model, const gp_pipeline_options *pipeline,
                          const gp_optimizer_options *optimizer, int64_t steps) {
    gp_pipeline_options known;
    GP_TRY(gp_options_read(&known, sizeof known, pipeline, "gp_pipeline_options"));
    gp_cluster *cluster = known.cluster;
    if (!cluster) return GP_OK;
    GP_TRY(compare(cluster, "the version of gpipe", gp_copy_text(gp_version())));
    GP_TRY(compare(cluster, "the model", describe_model(model)));
    GP_TRY(compare(cluster, "the pipeline", describe_pipeline(&known)));
    return compare(cluster, "the optimizer", describe_optimizer(optimizer, steps));
}

/* ---- data ---- */

enum { SAMPLES_COMPARED = 16 };

static void add_tensor(gp_checksum *sum, const gp_tensor *tensor) {
    if (tensor->data) gp_checksum_add(sum, tensor->data, gp_type_bytes(tensor->type));
}

static gp_status add_window(gp_checksum *sum, const gp_dataset *dataset, gp_split split, int64_t window,
                            gp_batch *batch) {
    gp_status status = window < 0 ? gp_dataset_sample(dataset, split, 0, 0, 0, 1, batch)
                                  : gp_dataset_window(dataset, split, window, 1, batch);
    add_tensor(sum, &batch->inputs);
    add_tensor(sum, &batch->targets);
    add_tensor(sum, &batch->weights);
    return status;
}

static gp_status add_split(gp_checksum *sum, const gp_dataset *dataset, gp_split split, gp_batch *batch) {
    int64_t windows = gp_dataset_windows(dataset, split), count = gp_dataset_count(dataset, split);
    int64_t compared = windows < SAMPLES_COMPARED ? windows : SAMPLES_COMPARED;
    gp_checksum_add(sum, &windows, sizeof windows);
    gp_checksum_add(sum, &count, sizeof count);
    if (windows < 1) return split == GP_SPLIT_TRAIN ? add_window(sum, dataset, split, -1, batch) : GP_OK;
    for (int64_t i = 0; i < compared; i++) /* the first, the last, and between */
        GP_TRY(add_window(sum, dataset, split, compared > 1 ? (windows - 1) / (compared - 1) * i : 0, batch));
    return GP_OK;
}

static gp_status digest_data(const gp_dataset *dataset, uint64_t *digest) {
    gp_checksum *sum = gp_checksum_create();
    gp_batch batch = {0};
    gp_status status = sum ? gp_batch_create(&batch, dataset, 1) : GP_OUT_OF_MEMORY;
    if (sum) gp_checksum_begin(sum);
    if (sum) gp_checksum_add(sum, &dataset->mirrored, sizeof dataset->mirrored); /* evaluations look at more */
    if (sum) gp_checksum_add(sum, &dataset->shift, sizeof dataset->shift);
    if (status == GP_OK) status = add_split(sum, dataset, GP_SPLIT_TRAIN, &batch);
    if (status == GP_OK) status = add_split(sum, dataset, GP_SPLIT_VALIDATION, &batch);
    *digest = sum ? gp_checksum_end(sum) : 0;
    gp_batch_destroy(&batch);
    gp_checksum_destroy(sum);
    return status;
}

gp_status gp_grid_compare_data(gp_cluster *cluster, const gp_dataset *dataset) {
    uint64_t digest;
    if (!cluster) return GP_OK;
    GP_TRY(gp_cluster_agree(cluster, digest_data(dataset, &digest)));
    return gp_cluster_compare(cluster, "the data", &digest, sizeof digest);
}

/* ---- times ---- */

/* Machines that differ by less count as equal: measurements do that. */
static const double hardly = 1.2;

static double machine_seconds(const double *seconds, const int *machines, int ranks, int machine) {
    double sum = 0;
    int count = 0;
    for (int r = 0; r < ranks; r++) {
        if (machines[r] != machine) continue;
        sum += seconds[r];
        count++;
    }
    return sum / count;
}

bool gp_grid_find_speeds(const double *seconds, const int *machines, int ranks, double *speeds) {
    double mean = 0, fastest = 0, slowest = INFINITY;
    for (int r = 0; r < ranks; r++)
        mean += seconds[r] / ranks;
    for (int r = 0; r < ranks; r++) {
        speeds[r] = mean / machine_seconds(seconds, machines, ranks, machines[r]);
        fastest = fmax(fastest, speeds[r]);
        slowest = fmin(slowest, speeds[r]);
    }
    if (mean > 0 && slowest > 0 && fastest >= hardly * slowest) return true;
    for (int r = 0; r < ranks; r++)
        speeds[r] = 1;
    return false;
}

/* Seconds of all layers on each rank, and the first rank on its machine. */
static void sum_ranks(gp_cluster *cluster, const gp_stage_times *all, size_t layers, double *seconds, int *machines) {
    for (int r = 0; r < gp_cluster_ranks(cluster); r++) {
        seconds[r] = 0;
        for (size_t i = 0; i < layers; i++) {
            const gp_stage_times *layer = &all[(size_t)r * layers + i];
            seconds[r] += layer->forward + layer->recompute + layer->backward;
        }
        machines[r] = 0;
        while (!gp_cluster_same_host(cluster, machines[r], r))
            machines[r]++;
    }
}

/* The speed of the worker that each rank has measured with: given, or found. */
static gp_status speeds_of_ranks(gp_layout *layout, const gp_stage_times *all, size_t layers, double *speeds) {
    gp_cluster *cluster = layout->engine.cluster;
    size_t ranks = (size_t)gp_cluster_ranks(cluster);
    size_t each = layout->engine.stages * (size_t)layout->engine.replicas / ranks;
    if (layout->speeds) {
        for (size_t r = 0; r < ranks; r++)
            speeds[r] = layout->speeds[r * each];
        return GP_OK;
    }
    double *seconds = gp_allocate_array(ranks, sizeof *seconds);
    int *machines = gp_allocate_array(ranks, sizeof *machines);
    gp_status status = seconds && machines ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK) {
        sum_ranks(cluster, all, layers, seconds, machines);
        if (gp_grid_find_speeds(seconds, machines, (int)ranks, speeds)) status = gp_layout_take_speeds(layout, speeds);
    }
    gp_free(seconds);
    gp_free(machines);
    return status;
}

/* Means over the ranks, each brought to speed 1. */
static void merge_times(const gp_stage_times *all, size_t ranks, size_t layers, const double *speeds,
                        gp_stage_times *times) {
    for (size_t i = 0; i < layers; i++) {
        gp_stage_times sum = {0};
        for (size_t r = 0; r < ranks; r++) {
            sum.forward += all[r * layers + i].forward * speeds[r] / (double)ranks;
            sum.recompute += all[r * layers + i].recompute * speeds[r] / (double)ranks;
            sum.backward += all[r * layers + i].backward * speeds[r] / (double)ranks;
        }
        times[i] = sum;
    }
}

gp_status gp_grid_share_times(gp_layout *layout, gp_status status, gp_stage_times *times) {
    gp_cluster *cluster = layout->engine.cluster;
    if (!cluster) return status;
    GP_TRY(gp_cluster_agree(cluster, status));
    size_t layers = gp_model_layer_count(layout->engine.model);
    size_t ranks = (size_t)gp_cluster_ranks(cluster), bytes = layers * sizeof *times;
    gp_stage_times *all = gp_allocate_array(ranks * layers, sizeof *all);
    double *speeds = gp_allocate_array(ranks, sizeof *speeds);
    status = gp_cluster_agree(cluster, all && speeds ? GP_OK : GP_OUT_OF_MEMORY);
    if (!all || !speeds) status = GP_OUT_OF_MEMORY; /* all have agreed that one has none */
    if (status == GP_OK) status = gp_cluster_gather(cluster, times, bytes, all);
    if (status == GP_OK) status = gp_cluster_agree(cluster, speeds_of_ranks(layout, all, layers, speeds));
    if (status == GP_OK) merge_times(all, ranks, layers, speeds, times);
    gp_free(all);
    gp_free(speeds);
    return status;
}
