/* What a worker sets up: its device, its stage, the memory of stash and links. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

/* ---- planning ---- */

static gp_status create_stage(gp_worker *worker) {
    const gp_engine_options *options = &worker->engine->options;
    gp_stage_options stage = {.model = options->model,
                              .device = worker->device,
                              .bounds = options->bounds,
                              .stages = options->stages,
                              .index = worker->index,
                              .precision = options->precision,
                              .granularity = options->granularity,
                              .inference = options->inference,
                              .loss_weights = options->loss_weights,
                              .predictions = options->predictions,
                              .moments =
                                  options->inference ? 0 : gp_update_states(options->optimizer, options->momentum),
                              .replicas = options->replicas,
                              .replica = (int)worker->replica,
                              .average = options->average && !options->inference,
                              .lr_factors = options->lr_factors,
                              .shard_optimizer = options->shard_optimizer};
    return gp_stage_create(&worker->stage, &stage);
}

/* The programs that a micro-batch of a whole mini-batch needs. */
static uint32_t needed_programs(const gp_worker *worker, int micro_batch) {
    const gp_agenda *agenda = gp_worker_share(worker)->agenda;
    uint32_t programs = 1u << GP_STAGE_EVALUATE;
    if (micro_batch == 0) programs |= 1u << GP_STAGE_OUTPUT;
    if (!agenda) return programs;
    bool recomputed = agenda->recomputed[worker->index * (size_t)agenda->micro_batches + (size_t)micro_batch];
    return programs | (recomputed ? 1u << GP_STAGE_FORWARD_RECOMPUTED | 1u << GP_STAGE_BACKWARD_RECOMPUTED
                                  : 1u << GP_STAGE_FORWARD_KEPT | 1u << GP_STAGE_BACKWARD_KEPT);
}

const gp_share *gp_worker_share(const gp_worker *worker) {
    return &worker->engine->shares[worker->replica];
}

gp_status gp_worker_prepare(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    const gp_share *share = gp_worker_share(worker);
    gp_device_options device = engine->options.device;
    device.memory = gp_engine_limit(engine, (size_t)worker->number);
    GP_TRY(gp_device_create(&worker->device, &device));
    GP_TRY(worker->device->class->enter(worker->device));
    GP_TRY(create_stage(worker));
    for (int i = 0; i < share->micro_batches; i++)
        GP_TRY(gp_stage_prepare(worker->stage, share->sizes[i], needed_programs(worker, i)));
    GP_TRY(gp_reducer_prepare(worker, &worker->reduce_bytes));
    worker->merge_bytes = gp_worker_merge_bytes(worker);
    return gp_worker_plan_sums(worker);
}

/* ---- links ---- */

/* The worker that holds another stage of this replica. */
static int neighbour(const gp_worker *worker, size_t stage) {
    return (int)(worker->replica * worker->engine->options.stages + stage);
}

size_t gp_worker_slot_bytes(const gp_worker *worker, size_t stage, size_t message_bytes) {
    return gp_link_slot_bytes(worker->engine->world, worker->number, neighbour(worker, stage), message_bytes);
}

/* Two slots: one is filled while the other is on its way. */
static int staging_slots(const gp_worker *worker) {
    return worker->engine->options.micro_batches > 1 ? 2 : 1;
}

static size_t staging_bytes(const gp_worker *worker, size_t stage, size_t slot_bytes) {
    return gp_link_staging_bytes(worker->engine->world, worker->number, neighbour(worker, stage), staging_slots(worker),
                                 slot_bytes);
}

size_t gp_worker_staging_bytes(const gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    size_t bytes = 0;
    for (size_t i = 0; i < stage->before_count; i++)
        if (stage->before[i].gradients)
            bytes += staging_bytes(worker, stage->before[i].stage, stage->before[i].gradient_bytes);
    for (size_t i = 0; i < stage->after_count; i++)
        bytes += staging_bytes(worker, stage->after[i].stage, stage->after[i].forward_bytes);
    return bytes;
}

static gp_status open_sender(gp_worker *worker, size_t stage, int tag, size_t slot_bytes, char **memory,
                             gp_link **link) {
    void *staging = *memory;
    *memory += staging_bytes(worker, stage, slot_bytes);
    return gp_link_open_sender(worker->engine->world, worker->number, neighbour(worker, stage), tag,
                               staging_slots(worker), slot_bytes, staging, link);
}

static gp_status open_before(gp_worker *worker, size_t i, char **memory) {
    const gp_stage_peer *peer = &worker->stage->before[i];
    gp_world *world = worker->engine->world;
    int me = worker->number, other = neighbour(worker, peer->stage);
    GP_TRY(gp_link_open_receiver(world, me, other, GP_TAG_FORWARD, worker->forward_slots[i], peer->forward_bytes,
                                 *memory, &worker->forward_in[i]));
    *memory += (size_t)worker->forward_slots[i] * gp_worker_slot_bytes(worker, peer->stage, peer->forward_bytes);
    if (!peer->gradients) return GP_OK;
    return open_sender(worker, peer->stage, GP_TAG_GRADIENT, peer->gradient_bytes, memory, &worker->gradient_out[i]);
}

static gp_status open_after(gp_worker *worker, size_t i, char **memory) {
    const gp_stage_peer *peer = &worker->stage->after[i];
    gp_world *world = worker->engine->world;
    int me = worker->number, other = neighbour(worker, peer->stage);
    GP_TRY(open_sender(worker, peer->stage, GP_TAG_FORWARD, peer->forward_bytes, memory, &worker->forward_out[i]));
    if (!peer->gradients) return GP_OK;
    GP_TRY(gp_link_open_receiver(world, me, other, GP_TAG_GRADIENT, worker->gradient_slots[i], peer->gradient_bytes,
                                 *memory, &worker->gradient_in[i]));
    *memory += (size_t)worker->gradient_slots[i] * gp_worker_slot_bytes(worker, peer->stage, peer->gradient_bytes);
    return GP_OK;
}

static gp_status open_links(gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    size_t before = stage->before_count, after = stage->after_count;
    worker->forward_in = gp_allocate_array(before, sizeof(gp_link *));
    worker->gradient_out = gp_allocate_array(before, sizeof(gp_link *));
    worker->forward_out = gp_allocate_array(after, sizeof(gp_link *));
    worker->gradient_in = gp_allocate_array(after, sizeof(gp_link *));
    worker->gradient_held = gp_allocate_array(after, sizeof(int));
    if (!worker->forward_in || !worker->gradient_out || !worker->forward_out || !worker->gradient_in ||
        !worker->gradient_held)
        return GP_OUT_OF_MEMORY;
    char *memory = worker->communication;
    for (size_t i = 0; i < before; i++)
        GP_TRY(open_before(worker, i, &memory));
    for (size_t i = 0; i < after; i++)
        GP_TRY(open_after(worker, i, &memory));
    GP_TRY(gp_reducer_start(worker, memory));
    if (memory) memory += worker->reduce_bytes;
    GP_TRY(gp_worker_open_merge(worker, memory));
    if (memory) memory += worker->merge_bytes;
    return gp_worker_open_sums(worker, memory);
}

/* ---- memory ---- */

static gp_status allocate(gp_device *device, size_t bytes, void **memory) {
    return bytes == 0 ? GP_OK : gp_device_allocate(device, bytes, memory);
}

static gp_status allocate_host(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    size_t micro_batches = (size_t)engine->options.micro_batches, before = worker->stage->before_count;
    size_t gathered = engine->owned_most + 1;
    worker->trace_capacity = 3 * micro_batches;
    worker->flights = gp_allocate_array(micro_batches, sizeof *worker->flights);
    worker->arrived = gp_allocate_array(micro_batches * before, sizeof *worker->arrived);
    worker->arrived_slot = gp_allocate_array(micro_batches * before, sizeof *worker->arrived_slot);
    worker->losses = gp_allocate_array(micro_batches, sizeof *worker->losses);
    worker->trace = gp_allocate_array(worker->trace_capacity, sizeof *worker->trace);
    worker->contributions = gp_allocate_array(worker->stage->use_count, sizeof *worker->contributions);
    worker->mine = gp_allocate_array(gathered, sizeof(double));
    worker->gathered = gp_allocate_array(gathered * engine->total, sizeof(double));
    worker->replica_pieces = gp_allocate_array((size_t)engine->options.replicas, sizeof *worker->replica_pieces);
    bool all = worker->replica_pieces && worker->flights && worker->arrived && worker->arrived_slot && worker->losses &&
               worker->trace && worker->contributions && worker->mine && worker->gathered;
    return all ? gp_worker_allocate_predictions(worker) : GP_OUT_OF_MEMORY;
}

gp_status gp_worker_allocate(gp_worker *worker) {
    const gp_stage_bytes *bytes = &worker->stage->bytes;
    GP_TRY(gp_stage_allocate(worker->stage));
    GP_TRY(allocate(worker->device, worker->stash_bytes, &worker->stash));
    GP_TRY(allocate(worker->device, worker->communication_bytes, &worker->communication));
    GP_TRY(allocate(worker->device, worker->scalars_bytes, &worker->scalars));
    GP_TRY(allocate_host(worker));
    GP_TRY(gp_worker_allocate_save(worker));
    GP_TRY(gp_slots_create(&worker->recomputed, worker->stash, bytes->recomputed, worker->recomputed_slots));
    char *kept = worker->stash ? (char *)worker->stash + (size_t)worker->recomputed_slots * bytes->recomputed : NULL;
    GP_TRY(gp_slots_create(&worker->kept, kept, bytes->kept, worker->kept_slots));
    return open_links(worker);
}

gp_status gp_worker_bind(gp_worker *worker) {
    size_t count = gp_stage_regions(worker->stage);
    if (count > worker->region_count) {
        void **grown = gp_grow_array(worker->regions, worker->region_count, count, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        worker->regions = grown;
        worker->region_count = count;
    }
    gp_stage_bind(worker->stage, worker->regions);
    size_t micro_batches = (size_t)worker->engine->options.micro_batches;
    worker->regions[GP_REGION_LOSS_GRADIENT] =
        worker->scalars ? (char *)worker->scalars + micro_batches * gp_worker_loss_bytes(worker) : NULL;
    return GP_OK;
}

static void poison(const gp_worker *worker, void *memory, size_t bytes) {
    enum { CHUNK = 1024 };
    static const float nan_value = __builtin_nanf("");
    float values[CHUNK];
    for (size_t i = 0; i < CHUNK; i++)
        values[i] = nan_value;
    gp_device *device = worker->device;
    size_t element = device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
    for (size_t at = 0; at + element <= bytes; at += CHUNK * element) {
        size_t count = (bytes - at) / element;
        gp_type type = {GP_F32, {.rank = 1, .dims = {(int64_t)(count < CHUNK ? count : CHUNK)}}};
        device->class->upload(device, (char *)memory + at, values, type);
    }
}

void gp_worker_poison(gp_worker *worker) {
    poison(worker, worker->stage->workspace, worker->stage->workspace_bytes);
    poison(worker, worker->stage->statistic_memory, worker->stage->bytes.statistics);
    poison(worker, worker->stash, worker->stash_bytes);
    poison(worker, worker->communication, worker->communication_bytes);
    poison(worker, worker->scalars, worker->scalars_bytes);
}

void gp_worker_release(gp_worker *worker) {
    if (worker->device) {
        gp_device_release(worker->device, worker->stash, worker->stash_bytes);
        gp_device_release(worker->device, worker->communication, worker->communication_bytes);
        gp_device_release(worker->device, worker->scalars, worker->scalars_bytes);
    }
    gp_worker_release_save(worker);
    gp_slots_destroy(&worker->recomputed);
    gp_slots_destroy(&worker->kept);
    gp_worker_release_predictions(worker);
    void *host[] = {worker->forward_slots, worker->gradient_slots, worker->forward_in,    worker->gradient_out,
                    worker->forward_out,   worker->gradient_in,    worker->gradient_held, worker->flights,
                    worker->arrived,       worker->arrived_slot,   worker->regions,       worker->mine,
                    worker->gathered,      worker->losses,         worker->host,          worker->trace,
                    worker->contributions, worker->shared,         worker->pieces,        worker->replica_pieces,
                    worker->links};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        gp_free(host[i]);
}
