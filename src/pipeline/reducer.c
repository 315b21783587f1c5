/* The thread that sums gradients over replicas, and how the worker's own thread tells it what is complete. */
#include "pipeline/reducer.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

static size_t element_bytes(const gp_worker *worker) {
    return worker->device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
}

static int replicas_of(const gp_worker *worker) {
    return worker->engine->options.replicas;
}

/* ---- life ---- */

/* Fills in the members: the workers of this stage, replica by replica. */
static gp_status describe_group(const gp_worker *worker, gp_group_options *options, int **members) {
    int replicas = replicas_of(worker), stages = (int)worker->engine->options.stages;
    *members = gp_allocate_array((size_t)replicas, sizeof **members);
    if (!*members) return GP_OUT_OF_MEMORY;
    for (int r = 0; r < replicas; r++)
        (*members)[r] = r * stages + (int)worker->index;
    *options = (gp_group_options){.members = *members,
                                  .member_count = replicas,
                                  .tag = GP_TAG_REPLICAS,
                                  .lane = GP_LANE_REDUCE,
                                  .contributions = replicas,
                                  .piece_bytes = (size_t)worker->reducer.buckets.largest * element_bytes(worker)};
    return GP_OK;
}

gp_status gp_reducer_prepare(gp_worker *worker, size_t *bytes) {
    gp_reducer *reducer = &worker->reducer;
    gp_group_options options;
    int *members;
    *bytes = 0;
    reducer->worker = worker;
    if (replicas_of(worker) == 1 || worker->engine->options.inference) return GP_OK;
    GP_TRY(gp_buckets_create(&reducer->buckets, worker->stage, replicas_of(worker), element_bytes(worker)));
    GP_TRY(describe_group(worker, &options, &members));
    *bytes = gp_align(gp_group_staging_bytes(worker->engine->world, worker->number, &options));
    gp_free(members);
    return GP_OK;
}

gp_status gp_worker_open_replicas(gp_worker *worker, int tag, gp_lane lane, size_t piece_bytes, void *staging,
                                  gp_group **group) {
    gp_group_options options;
    int *members;
    GP_TRY(describe_group(worker, &options, &members));
    options.tag = tag;
    options.lane = lane;
    options.piece_bytes = piece_bytes;
    options.staging = staging;
    gp_status status = gp_group_open(worker->engine->world, worker->number, &options, group);
    gp_free(members);
    return status;
}

static void serve(void *argument);

gp_status gp_reducer_start(gp_worker *worker, void *staging) {
    gp_reducer *reducer = &worker->reducer;
    if (replicas_of(worker) == 1 || worker->engine->options.inference) return GP_OK;
    reducer->complete_at = gp_allocate_array(reducer->buckets.early, sizeof *reducer->complete_at);
    if (!reducer->complete_at) return GP_OUT_OF_MEMORY;
    size_t piece_bytes = (size_t)reducer->buckets.largest * element_bytes(worker);
    GP_TRY(gp_worker_open_replicas(worker, GP_TAG_REPLICAS, GP_LANE_REDUCE, piece_bytes, staging, &reducer->group));
    return gp_thread_create(&reducer->thread, serve, reducer, 0, 0);
}

void gp_reducer_destroy(gp_reducer *reducer) {
    if (reducer->thread) {
        gp_reducer_settle(reducer);
        reducer->leave = true;
        gp_event_signal(&reducer->begun);
        gp_thread_join(reducer->thread);
    }
    gp_buckets_destroy(&reducer->buckets);
    gp_free(reducer->complete_at);
}

/* ---- the reducer's thread ---- */

static void add_up(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
    const gp_worker *worker = user;
    worker->device->class->ordered_sum(worker->device, destination, sources, source_count, count);
}

static void copy(void *user, void *destination, const void *source, size_t bytes) {
    const gp_worker *worker = user;
    worker->device->class->copy(worker->device, destination, source, bytes);
}

/* The reducer waits until a count of the worker's has passed its own. */
typedef struct count_wait {
    const _Atomic size_t *count;
    size_t above;
} count_wait;

static bool has_passed(const void *object) {
    const count_wait *wait = object;
    return atomic_load_explicit(wait->count, memory_order_acquire) > wait->above;
}

static gp_status await_count(const gp_reducer *reducer, gp_lane lane, const _Atomic size_t *count, size_t above,
                             const char *what) {
    const gp_worker *worker = reducer->worker;
    count_wait wait = {count, above};
    return gp_world_wait(worker->engine->world, worker->number, lane, has_passed, &wait, what);
}

static void count_on(gp_reducer *reducer, _Atomic size_t *count, size_t value, gp_lane whom) {
    const gp_worker *worker = reducer->worker;
    atomic_store_explicit(count, value, memory_order_release);
    gp_world_wake(worker->engine->world, worker->number, whom);
}

static gp_status sum_bucket(gp_reducer *reducer, size_t number) {
    gp_worker *worker = reducer->worker;
    const gp_bucket *bucket = &reducer->buckets.list[number];
    void *gradients = worker->stage->gradients;
    gp_group_sum_part part = {.contributions = &gradients,
                              .contribution_count = 1,
                              .destination = gradients,
                              .pieces = bucket->pieces,
                              .own_only = bucket->cut && reducer->shares,
                              .element = element_bytes(worker),
                              .sum = add_up,
                              .user = worker};
    GP_TRY(await_count(reducer, GP_LANE_REDUCE, &reducer->ready, number, "gradients"));
    double begun = gp_seconds();
    GP_TRY(gp_group_sum(reducer->group, &part));
    reducer->seconds += gp_seconds() - begun;
    for (int r = 0; r < replicas_of(worker); r++)
        reducer->bytes += (double)bucket->pieces[r].count * (double)part.element;
    count_on(reducer, &reducer->summed, number + 1, GP_LANE_COMPUTE);
    return GP_OK;
}

static gp_status share_bucket(gp_reducer *reducer, size_t number) {
    gp_worker *worker = reducer->worker;
    const gp_bucket *bucket = &reducer->buckets.list[number];
    gp_group_share_part part = {.array = worker->stage->weights,
                                .pieces = bucket->pieces,
                                .element = element_bytes(worker),
                                .copy = copy,
                                .user = worker};
    GP_TRY(await_count(reducer, GP_LANE_REDUCE, &reducer->updated, number, "new weights"));
    double begun = gp_seconds();
    if (bucket->cut) GP_TRY(gp_group_share(reducer->group, &part));
    reducer->seconds += gp_seconds() - begun;
    count_on(reducer, &reducer->shared, number + 1, GP_LANE_COMPUTE);
    return GP_OK;
}

static gp_status run_session(gp_reducer *reducer) {
    for (size_t b = 0; b < reducer->buckets.count; b++)
        GP_TRY(sum_bucket(reducer, b));
    for (size_t b = 0; reducer->shares && b < reducer->buckets.count; b++)
        GP_TRY(share_bucket(reducer, b));
    return GP_OK;
}

static void serve(void *argument) {
    gp_reducer *reducer = argument;
    const gp_worker *worker = reducer->worker;
    for (uint32_t seen = 0;; seen++) {
        gp_event_wait(&reducer->begun, seen, -1);
        if (reducer->leave) return;
        gp_status status = run_session(reducer);
        if (status != GP_OK && status != GP_ABORTED)
            gp_world_fail(worker->engine->world, worker->number, status, gp_error_message());
        gp_event_signal(&reducer->ended);
    }
}

/* ---- the worker's own thread ---- */

void gp_reducer_begin(gp_worker *worker, bool shares) {
    gp_reducer *reducer = &worker->reducer;
    if (!reducer->group) return;
    reducer->shares = shares;
    reducer->seconds = reducer->bytes = 0;
    atomic_store(&reducer->ready, 0);
    atomic_store(&reducer->updated, 0);
    atomic_store(&reducer->summed, 0);
    atomic_store(&reducer->shared, 0);
    reducer->session++;
    gp_event_signal(&reducer->begun);
}

typedef struct completion {
    gp_reducer *reducer;
    const gp_stage *stage;
} completion;

/* A step of the program writes gradients at an offset: the buckets that they are in are not complete before. Steps
 * come in order. */
static void note_write(void *user, size_t offset, size_t step) {
    const completion *all = user;
    const gp_buckets *buckets = &all->reducer->buckets;
    for (size_t b = 0; b < buckets->early; b++) {
        const gp_bucket *bucket = &buckets->list[b];
        const gp_stage_parameter *first = &all->stage->parameters[bucket->first_parameter];
        const gp_stage_parameter *last = &all->stage->parameters[bucket->end_parameter - 1];
        if (offset >= first->offset && offset <= last->offset) all->reducer->complete_at[b] = step + 1;
    }
}

void gp_reducer_expect(gp_reducer *reducer, const gp_program *program) {
    if (!reducer->group || program == reducer->program) return;
    completion all = {reducer, reducer->worker->stage};
    memset(reducer->complete_at, 0, reducer->buckets.early * sizeof *reducer->complete_at);
    if (program) gp_program_writes(program, GP_REGION_GRADIENTS, note_write, &all);
    reducer->program = program;
}

void gp_reducer_progress(void *user, size_t done) {
    gp_reducer *reducer = user;
    const gp_worker *worker = reducer->worker;
    size_t ready = atomic_load_explicit(&reducer->ready, memory_order_relaxed), before = ready;
    while (ready < reducer->buckets.early && reducer->complete_at[ready] <= done)
        ready++;
    if (ready == before) return;
    if (worker->device->class->wait(worker->device) != GP_OK) return; /* the end of the run will tell */
    count_on(reducer, &reducer->ready, ready, GP_LANE_REDUCE);
}

void gp_reducer_ready(gp_reducer *reducer, bool all) {
    if (!reducer->group) return;
    count_on(reducer, &reducer->ready, all ? reducer->buckets.count : reducer->buckets.early, GP_LANE_REDUCE);
}

void gp_reducer_updated(gp_reducer *reducer, size_t buckets) {
    if (reducer->group) count_on(reducer, &reducer->updated, buckets, GP_LANE_REDUCE);
}

gp_status gp_reducer_await_sums(gp_reducer *reducer) {
    size_t count = reducer->buckets.count;
    if (!reducer->group || count == 0) return GP_OK;
    return await_count(reducer, GP_LANE_COMPUTE, &reducer->summed, count - 1, "the sum of gradients");
}

gp_status gp_reducer_await_shares(gp_reducer *reducer) {
    size_t count = reducer->buckets.count;
    if (!reducer->group || count == 0) return GP_OK;
    return await_count(reducer, GP_LANE_COMPUTE, &reducer->shared, count - 1, "new weights");
}

void gp_reducer_settle(gp_reducer *reducer) {
    uint32_t seen;
    while (reducer->thread && (seen = gp_event_now(&reducer->ended)) != reducer->session)
        gp_event_wait(&reducer->ended, seen, -1);
}
