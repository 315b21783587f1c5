/* States that follow moments of the whole mini-batch: every replica has merged those of its own samples; here they are
 * merged over the replicas, in their order and by their numbers of samples, so that all make the same step. */
#include "base/status.h"
#include "pipeline/worker.h"

/* Merged means and variances of one replica. */
static size_t slot_bytes(const gp_worker *worker) {
    return worker->stage->bytes.statistics / 2;
}

static bool has_states_to_merge(const gp_worker *worker) {
    return worker->engine->options.replicas > 1 && slot_bytes(worker) > 0;
}

size_t gp_worker_merge_bytes(const gp_worker *worker) {
    return has_states_to_merge(worker) ? slot_bytes(worker) * (size_t)worker->engine->options.replicas : 0;
}

gp_status gp_worker_open_merge(gp_worker *worker, void *memory) {
    if (!has_states_to_merge(worker)) return GP_OK;
    worker->merge_slots = memory;
    return gp_worker_open_replicas(worker, GP_TAG_STATES, GP_LANE_COMPUTE, 0, NULL, &worker->merge_group);
}

static char *slot(const gp_worker *worker, size_t replica) {
    return (char *)worker->merge_slots + replica * slot_bytes(worker);
}

static void copy(void *user, void *destination, const void *source, size_t bytes) {
    const gp_worker *worker = user;
    worker->device->class->copy(worker->device, destination, source, bytes);
}

static gp_status exchange(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    size_t element = worker->device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
    int64_t count = (int64_t)(slot_bytes(worker) / element);
    copy(worker, slot(worker, worker->replica), gp_stage_statistic_block(worker->stage, GP_MERGED_MEANS),
         slot_bytes(worker));
    GP_TRY(worker->device->class->wait(worker->device));
    for (int r = 0; r < engine->options.replicas; r++)
        worker->replica_pieces[r] = (gp_piece){r * count, count};
    gp_group_share_part part = {.array = worker->merge_slots,
                                .pieces = worker->replica_pieces,
                                .element = element,
                                .copy = copy,
                                .user = worker};
    return gp_group_share(worker->merge_group, &part);
}

gp_status gp_worker_merge_states(gp_worker *worker) {
    if (!worker->merge_group) return GP_OK;
    GP_TRY(exchange(worker));
    gp_stage_begin_statistics(worker->stage);
    for (size_t r = 0; r < (size_t)worker->engine->options.replicas; r++) {
        int64_t samples = worker->engine->shares[r].samples;
        if (samples == 0) continue;
        copy(worker, gp_stage_statistic_block(worker->stage, GP_MICRO_BATCH_MEANS), slot(worker, r),
             slot_bytes(worker));
        gp_stage_merge_statistics(worker->stage, samples);
    }
    return GP_OK;
}
