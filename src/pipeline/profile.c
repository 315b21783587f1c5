/* Seconds of every layer alone, for partitions balanced by time: each layer is compiled as a stage of its own and run
 * on a device like a worker's, in a thread pinned like a worker's. Of layers that are alike one is measured. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/thread.h"
#include "pipeline/alike.h"
#include "pipeline/stage.h"

enum { FEWEST_RUNS = 3, MOST_RUNS = 9, NOISE = 4096 };
#define LONG_ENOUGH 0.2 /* seconds after which a layer is not run again, given the fewest runs */
#define LONG        0.5 /* seconds after which it is not run again at all: what takes long is disturbed little */

typedef struct profile {
    const gp_engine_options *options;
    gp_stage_times *times; /* per layer */
    size_t layers;
    int64_t samples;
    size_t *bounds; /* every layer a stage */
    size_t *first;  /* of each layer, the one that is measured for it */
    gp_device *device;
    float noise[NOISE];
    gp_status status;
    char message[2048];
} profile;

/* One layer while it is measured: the stage and one block of memory for everything that a worker and its peers would
 * give. */
typedef struct measured_layer {
    gp_stage *stage;
    const gp_stage_size *size;
    void *memory;
    size_t bytes;
    void **regions;
} measured_layer;

/* ---- memory ---- */

/* Hands out the next `bytes` of the block, or only counts while there is none. */
static void *carve(measured_layer *layer, size_t *at, size_t bytes) {
    void *piece = layer->memory ? (char *)layer->memory + *at : NULL;
    *at += bytes;
    return piece;
}

static size_t bind_block(measured_layer *layer) {
    const gp_stage *stage = layer->stage;
    const gp_stage_bytes *bytes = &stage->bytes;
    size_t at = 0, scalar = gp_stage_value_bytes(stage, (gp_type){.dtype = GP_F32});
    size_t stash = bytes->recomputed > bytes->kept ? bytes->recomputed : bytes->kept;
    layer->regions[GP_REGION_STASH] = carve(layer, &at, stash > bytes->base ? stash : bytes->base);
    layer->regions[GP_REGION_LOSS] = carve(layer, &at, scalar);
    layer->regions[GP_REGION_LOSS_GRADIENT] = carve(layer, &at, scalar);
    for (size_t i = 0; i < stage->before_count + stage->after_count; i++) {
        const gp_stage_peer *peer =
            i < stage->before_count ? &stage->before[i] : &stage->after[i - stage->before_count];
        layer->regions[peer->forward_region] = carve(layer, &at, peer->forward_bytes);
        layer->regions[peer->gradient_region] = carve(layer, &at, peer->gradient_bytes);
    }
    return at;
}

/* Writes noise over f32 memory. */
static void fill(const profile *all, void *memory, gp_type type) {
    gp_device *device = all->device;
    size_t element = device->class->bytes((gp_type){type.dtype, {.rank = 1, .dims = {1}}});
    int64_t count = gp_shape_elements(type.shape);
    for (int64_t at = 0; at < count; at += NOISE) {
        gp_type chunk = {type.dtype, {.rank = 1, .dims = {count - at < NOISE ? count - at : NOISE}}};
        device->class->upload(device, (char *)memory + (size_t)at * element, all->noise, chunk);
    }
}

/* Writes ones over i32 memory. */
static void fill_ones(const profile *all, void *memory, int64_t count) {
    enum { ONES = 1024 };
    int32_t ones[ONES];
    for (int i = 0; i < ONES; i++)
        ones[i] = 1;
    for (int64_t at = 0; at < count; at += ONES) {
        gp_type chunk = {GP_I32, {.rank = 1, .dims = {count - at < ONES ? count - at : ONES}}};
        all->device->class->upload(all->device, (char *)memory + (size_t)at * sizeof *ones, ones, chunk);
    }
}

static gp_type arriving_type(const gp_built *built, size_t port) {
    for (size_t i = 0; i < built->arriving_count; i++) {
        if (built->arriving[i].port == port) return gp_value_type(built->arriving[i].value);
    }
    return (gp_type){.dtype = GP_F32};
}

/* Integers that arrive as a skip are a mask: 0 would hide everything, and hidden columns cost nothing. */
static gp_status fill_masks(const profile *all, const measured_layer *layer, int32_t index) {
    const gp_stage *stage = layer->stage;
    const gp_port *ports;
    gp_model_ports(all->options->model, &ports);
    gp_build_options options = {
        .first_layer = index, .last_layer = index, .batch = all->samples, .dtype = all->options->precision};
    gp_built built;
    GP_TRY(gp_model_build(all->options->model, &options, &built));
    for (size_t i = 0; i < stage->before_count; i++) {
        const gp_stage_peer *peer = &stage->before[i];
        char *at = layer->regions[peer->forward_region];
        for (size_t p = 0; p < peer->port_count; p++) {
            gp_type type = arriving_type(&built, peer->ports[p]);
            if (ports[peer->ports[p]].skip && type.dtype == GP_I32) fill_ones(all, at, gp_shape_elements(type.shape));
            at += gp_stage_value_bytes(stage, type);
        }
    }
    gp_built_destroy(&built);
    return GP_OK;
}

/* Weights and gradients that arrive are noise; inputs and targets stay 0, which every index may be. */
static void fill_memory(const profile *all, const measured_layer *layer) {
    const gp_stage *stage = layer->stage;
    for (size_t p = 0; p < stage->parameter_count; p++)
        fill(all, (char *)stage->weights + stage->parameters[p].offset, stage->parameters[p].type);
    size_t element = all->device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
    for (size_t i = 0; i < stage->after_count; i++) {
        gp_type type = {GP_F32, {.rank = 1, .dims = {(int64_t)(stage->after[i].gradient_bytes / element)}}};
        fill(all, layer->regions[stage->after[i].gradient_region], type);
    }
}

/* ---- one layer ---- */

static gp_status create_layer(profile *all, size_t index, measured_layer *layer) {
    const gp_engine_options *options = all->options;
    uint32_t programs = options->inference ? 1u << GP_STAGE_EVALUATE
                        : options->recompute == GP_RECOMPUTE_NEVER
                            ? 1u << GP_STAGE_FORWARD_KEPT | 1u << GP_STAGE_BACKWARD_KEPT
                            : 1u << GP_STAGE_FORWARD_RECOMPUTED | 1u << GP_STAGE_BACKWARD_RECOMPUTED;
    gp_stage_options stage = {.model = options->model,
                              .device = all->device,
                              .bounds = all->bounds,
                              .stages = all->layers,
                              .index = index,
                              .precision = options->precision,
                              .inference = options->inference,
                              .loss_weights = options->loss_weights};
    GP_TRY(gp_stage_create(&layer->stage, &stage));
    GP_TRY(gp_stage_prepare(layer->stage, all->samples, programs));
    layer->size = gp_stage_find_size(layer->stage, all->samples);
    GP_TRY(gp_stage_allocate(layer->stage));
    layer->regions = gp_allocate_array(gp_stage_regions(layer->stage), sizeof *layer->regions);
    if (!layer->regions) return GP_OUT_OF_MEMORY;
    layer->bytes = bind_block(layer);
    GP_TRY(gp_device_allocate(all->device, layer->bytes, &layer->memory));
    bind_block(layer);
    gp_stage_bind(layer->stage, layer->regions);
    fill_memory(all, layer);
    GP_TRY(fill_masks(all, layer, (int32_t)index));
    return gp_stage_pack(layer->stage, SIZE_MAX);
}

static void destroy_layer(profile *all, measured_layer *layer) {
    gp_device_release(all->device, layer->memory, layer->bytes);
    gp_free(layer->regions);
    gp_stage_destroy(layer->stage);
}

static gp_status run_timed(const profile *all, const measured_layer *layer, gp_stage_program which, bool last_segment,
                           double *seconds) {
    const gp_program *program = layer->size->programs[which];
    gp_run run = {0};
    double begun = gp_seconds();
    if (program) {
        int segment = last_segment ? gp_program_segments(program) - 1 : 0;
        GP_TRY(gp_program_run(program, segment, layer->regions, &run, NULL));
        GP_TRY(all->device->class->wait(all->device));
    }
    *seconds = gp_seconds() - begun;
    return GP_OK;
}

static gp_status run_once(const profile *all, const measured_layer *layer, gp_stage_times *times) {
    bool kept = layer->size->prepared[GP_STAGE_FORWARD_KEPT];
    *times = (gp_stage_times){0};
    if (all->options->inference) return run_timed(all, layer, GP_STAGE_EVALUATE, false, &times->forward);
    GP_TRY(run_timed(all, layer, kept ? GP_STAGE_FORWARD_KEPT : GP_STAGE_FORWARD_RECOMPUTED, false, &times->forward));
    if (kept) return run_timed(all, layer, GP_STAGE_BACKWARD_KEPT, true, &times->backward);
    const gp_program *backward = layer->size->programs[GP_STAGE_BACKWARD_RECOMPUTED];
    if (backward && gp_program_segments(backward) > 1)
        GP_TRY(run_timed(all, layer, GP_STAGE_BACKWARD_RECOMPUTED, false, &times->recompute));
    return run_timed(all, layer, GP_STAGE_BACKWARD_RECOMPUTED, true, &times->backward);
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return seconds[(count - 1) / 2];
}

static bool goes_on(int runs, double seconds) {
    return seconds < LONG && (runs < FEWEST_RUNS || (runs < MOST_RUNS && seconds < LONG_ENOUGH));
}

static gp_status measure(const profile *all, const measured_layer *layer, gp_stage_times *result) {
    double forward[MOST_RUNS], recompute[MOST_RUNS], backward[MOST_RUNS];
    gp_stage_times times;
    double begun = gp_seconds();
    int runs = 0;
    GP_TRY(run_once(all, layer, result)); /* warms up */
    if (gp_seconds() - begun >= LONG) return GP_OK;
    begun = gp_seconds();
    while (runs == 0 || goes_on(runs, gp_seconds() - begun)) {
        GP_TRY(run_once(all, layer, &times));
        forward[runs] = times.forward;
        recompute[runs] = times.recompute;
        backward[runs++] = times.backward;
    }
    *result = (gp_stage_times){
        .forward = median(forward, runs), .recompute = median(recompute, runs), .backward = median(backward, runs)};
    return GP_OK;
}

/* ---- all layers ---- */

static void tell(const profile *all, size_t layer) {
    const gp_engine_options *options = all->options;
    if (!options->measuring) return;
    options->measuring(options->measuring_user, layer, all->layers,
                       layer < all->layers ? gp_model_layer_kind(options->model, layer) : "");
}

static gp_status profile_layers(profile *all) {
    gp_device_options device = all->options->device;
    device.memory = 0; /* a layer alone says nothing about what fits */
    GP_TRY(gp_device_create(&all->device, &device));
    GP_TRY(all->device->class->enter(all->device));
    for (size_t i = 0; i < all->layers; i++) {
        if (all->first[i] != i) {
            all->times[i] = all->times[all->first[i]];
            continue;
        }
        tell(all, i);
        measured_layer layer = {0};
        gp_status status = create_layer(all, i, &layer);
        if (status == GP_OK) status = measure(all, &layer, &all->times[i]);
        destroy_layer(all, &layer);
        GP_TRY(status);
    }
    return GP_OK;
}

static void profile_main(void *argument) {
    profile *all = argument;
    all->status = profile_layers(all);
    tell(all, all->layers);
    if (all->status == GP_OK) return;
    memcpy(all->message, gp_error_message(), strnlen(gp_error_message(), sizeof all->message - 1));
}

gp_status gp_engine_profile(const gp_engine_options *options, gp_stage_times *times) {
    if (options->batch < 1 || options->micro_batches < 1)
        return gp_error(GP_INVALID, "a profile needs at least 1 sample and 1 micro-batch");
    profile *all = gp_allocate(sizeof *all);
    if (!all) return GP_OUT_OF_MEMORY;
    *all = (profile){.options = options, .times = times, .layers = gp_model_layer_count(options->model)};
    int64_t share = (options->batch - 1) / (options->replicas > 1 ? options->replicas : 1) + 1;
    int micro_batches = options->micro_batches > share ? (int)share : options->micro_batches;
    all->samples = (share - 1) / micro_batches + 1;
    all->bounds = gp_allocate_array(all->layers + 1, sizeof *all->bounds);
    all->first = gp_allocate_array(all->layers, sizeof *all->first);
    gp_status status = all->bounds && all->first ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i <= all->layers; i++)
        all->bounds[i] = i;
    if (status == GP_OK) gp_layers_alike(options->model, all->first);
    gp_random_fill_uniform(all->noise, NOISE, 0, "profile");
    for (int i = 0; i < NOISE; i++)
        all->noise[i] *= 0.02f;
    gp_thread *thread = NULL;
    int cores = options->device.threads < 1 ? 1 : options->device.threads;
    if (status == GP_OK) status = gp_thread_create(&thread, profile_main, all, 0, cores);
    gp_thread_join(thread);
    if (status == GP_OK && all->status != GP_OK) status = gp_error(all->status, "%s", all->message);
    gp_device_destroy(all->device);
    gp_free(all->bounds);
    gp_free(all->first);
    gp_free(all);
    return status;
}
