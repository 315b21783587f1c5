/* A ring of mini-batches. Threads take pieces of them in turn, so that several work on the batch that is needed next; a
 * piece whose place in the ring is still in use is waited for. What is in a batch depends on its number alone, so who
 * makes which piece does not matter. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "data/dataset.h"

enum { MOST_THREADS = 256, MOST_AHEAD = 1024, MESSAGE = 1024, LARGEST_PIECE = 16 };

/* A place of the ring. */
typedef struct slot {
    gp_batch batch;
    _Atomic int64_t done; /* pieces */
    pthread_mutex_t lock; /* of what follows */
    gp_status status;     /* of the first piece that failed */
    int64_t failed;
    char message[MESSAGE];
} slot;

struct gp_loader {
    const gp_dataset *dataset;
    gp_loader_options options;
    int64_t end;           /* steps or windows */
    int64_t batches;       /* in all */
    int64_t piece, pieces; /* samples of a piece, pieces of a batch */
    slot *slots;
    int64_t slot_count;
    gp_thread **threads;
    int thread_count;
    _Atomic uint64_t next_piece;
    _Atomic int64_t released; /* batches that were handed out and are done with */
    _Atomic bool stop;
    gp_event made, freed;
    int64_t handed_out;
    double waited;
};

/* ---- pieces ---- */

static int64_t samples_of(const gp_loader *loader, int64_t number) {
    int64_t samples = loader->options.samples;
    if (!loader->options.evaluation) return samples;
    int64_t left = loader->end - (loader->options.first + number * samples);
    return left < samples ? left : samples;
}

static gp_tensor part_of(const gp_tensor *tensor, int64_t whole, int64_t first, int64_t count) {
    gp_tensor part = *tensor;
    part.type.shape.dims[0] = whole;
    size_t sample = whole > 0 ? gp_type_bytes(part.type) / (size_t)whole : 0;
    part.type.shape.dims[0] = count;
    if (part.data) part.data = (char *)part.data + sample * (size_t)first;
    return part;
}

/* Makes samples `first` to `first + count` of batch `number`. */
static gp_status make(const gp_loader *loader, int64_t number, int64_t first, int64_t count, const gp_batch *batch) {
    const gp_loader_options *options = &loader->options;
    int64_t whole = batch->inputs.type.shape.dims[0];
    gp_batch part = {.inputs = part_of(&batch->inputs, whole, first, count),
                     .targets = part_of(&batch->targets, whole, first, count),
                     .weights = part_of(&batch->weights, whole, first, count)};
    bool needed = options->inputs_count == 0 ||
                  (first < options->inputs_first + options->inputs_count && first + count > options->inputs_first);
    if (!needed) part.inputs.data = NULL;
    gp_request request = {.split = options->split, .seed = options->seed, .first = first, .count = count};
    request.evaluation = options->evaluation;
    if (options->evaluation) {
        request.first += options->first + number * options->samples;
    } else {
        request.step = options->first + number;
    }
    return gp_dataset_read(loader->dataset, &request, &part);
}

static void keep_failure(slot *place, int64_t piece, gp_status status) {
    pthread_mutex_lock(&place->lock);
    if (place->status == GP_OK || piece < place->failed) {
        place->status = status;
        place->failed = piece;
        strncpy(place->message, gp_error_message(), MESSAGE - 1);
    }
    pthread_mutex_unlock(&place->lock);
}

/* Waits until batch `number` has a place; false when the loader ends. */
static bool await_place(gp_loader *loader, int64_t number) {
    for (;;) {
        uint32_t seen = gp_event_now(&loader->freed);
        if (atomic_load(&loader->stop)) return false;
        if (number < atomic_load(&loader->released) + loader->slot_count) return true;
        gp_event_wait(&loader->freed, seen, -1);
    }
}

static void make_piece(gp_loader *loader, int64_t number, int64_t piece) {
    slot *place = &loader->slots[number % loader->slot_count];
    int64_t first = piece * loader->piece, left = place->batch.inputs.type.shape.dims[0] - first;
    int64_t count = left < loader->piece ? left : loader->piece;
    if (count > 0) {
        gp_status status = make(loader, number, first, count, &place->batch);
        if (status != GP_OK) keep_failure(place, piece, status);
    }
    if (atomic_fetch_add(&place->done, 1) + 1 == loader->pieces) gp_event_signal(&loader->made);
}

static void run(void *argument) {
    gp_loader *loader = argument;
    for (;;) {
        int64_t ticket = (int64_t)atomic_fetch_add(&loader->next_piece, 1), number = ticket / loader->pieces;
        if (number >= loader->batches || !await_place(loader, number)) return;
        make_piece(loader, number, ticket % loader->pieces);
    }
}

/* ---- creation ---- */

static gp_status check_options(const gp_loader_options *options) {
    if (options->samples < 1 || options->first < 0 || options->count < 0 || options->first > INT64_MAX - options->count)
        return gp_error(GP_INVALID,
                        "%" PRId64 " mini-batches of %" PRId64 " samples from number %" PRId64 " cannot be loaded",
                        options->count, options->samples, options->first);
    if (options->inputs_first < 0 || options->inputs_count < 0 || options->inputs_first > options->samples ||
        options->inputs_count > options->samples - options->inputs_first)
        return gp_error(GP_INVALID,
                        "inputs of %" PRId64 " samples from number %" PRId64 " of %" PRId64 " cannot be loaded",
                        options->inputs_count, options->inputs_first, options->samples);
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return gp_error(GP_INVALID, "%d threads cannot load: 0 to %d are accepted", options->threads, MOST_THREADS);
    if (options->ahead < 0 || options->ahead > MOST_AHEAD)
        return gp_error(GP_INVALID, "%d mini-batches cannot be made ahead: 0 to %d are accepted", options->ahead,
                        MOST_AHEAD);
    return GP_OK;
}

static void count_batches(gp_loader *loader) {
    const gp_loader_options *options = &loader->options;
    int64_t windows = gp_dataset_windows(loader->dataset, options->split);
    loader->end = options->first + options->count;
    loader->batches = options->count;
    if (!options->evaluation) return;
    if (options->count == 0 || loader->end > windows) loader->end = windows;
    int64_t count = loader->end > options->first ? loader->end - options->first : 0;
    loader->batches = count / options->samples + (count % options->samples != 0);
}

/* Pieces so small that all threads have some of every batch; even, since samples may be mixed in pairs. */
static void cut_pieces(gp_loader *loader) {
    int64_t samples = loader->options.samples, share = samples / (2 * (int64_t)loader->thread_count) / 2 * 2;
    loader->piece = share < 2 ? 2 : share > LARGEST_PIECE ? LARGEST_PIECE : share;
    loader->pieces = (samples - 1) / loader->piece + 1;
}

static gp_status create_slots(gp_loader *loader) {
    loader->slots = gp_allocate_array((size_t)loader->slot_count, sizeof *loader->slots);
    if (!loader->slots) return GP_OUT_OF_MEMORY;
    for (int64_t i = 0; i < loader->slot_count; i++)
        pthread_mutex_init(&loader->slots[i].lock, NULL);
    for (int64_t i = 0; i < loader->slot_count; i++) {
        gp_batch *batch = &loader->slots[i].batch;
        GP_TRY(gp_batch_create_part(batch, loader->dataset, loader->options.samples, !loader->options.no_inputs,
                                    !loader->options.no_targets));
        if (i < loader->batches) gp_batch_resize(batch, samples_of(loader, i));
    }
    return GP_OK;
}

static gp_status start_threads(gp_loader *loader, int count) {
    loader->threads = gp_allocate_array((size_t)count, sizeof(gp_thread *));
    if (!loader->threads) return GP_OUT_OF_MEMORY;
    loader->thread_count = count;
    cut_pieces(loader);
    for (int i = 0; i < count; i++)
        GP_TRY(gp_thread_create(&loader->threads[i], run, loader, 0, 0));
    return GP_OK;
}

static int choose_threads(const gp_loader *loader) {
    int cores = gp_core_count();
    if (loader->options.threads > 0) return loader->options.threads;
    if (loader->dataset->threads > 0) return loader->dataset->threads;
    if (!loader->dataset->table->slow) return 0;
    return cores > MOST_THREADS ? MOST_THREADS : cores;
}

static gp_status start(gp_loader *loader) {
    int threads = choose_threads(loader), ahead = loader->options.ahead > 0 ? loader->options.ahead : 2;
    loader->slot_count = threads > 0 ? ahead + 1 : 1; /* one is being used */
    count_batches(loader);
    GP_TRY(create_slots(loader));
    return threads > 0 ? start_threads(loader, threads) : GP_OK;
}

gp_status gp_loader_create(gp_loader **loader, const gp_dataset *dataset, const gp_loader_options *options) {
    gp_loader_options known;
    *loader = NULL;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_loader_options"));
    GP_TRY(check_options(&known));
    gp_loader *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->dataset = dataset;
    made->options = known;
    gp_status status = start(made);
    if (status != GP_OK) {
        gp_loader_destroy(made);
        return status;
    }
    *loader = made;
    return GP_OK;
}

void gp_loader_destroy(gp_loader *loader) {
    if (!loader) return;
    atomic_store(&loader->stop, true);
    gp_event_signal(&loader->freed);
    for (int i = 0; i < loader->thread_count; i++)
        gp_thread_join(loader->threads[i]);
    for (int64_t i = 0; loader->slots && i < loader->slot_count; i++) {
        gp_batch_destroy(&loader->slots[i].batch);
        pthread_mutex_destroy(&loader->slots[i].lock);
    }
    gp_free(loader->slots);
    gp_free(loader->threads);
    gp_free(loader);
}

/* ---- handing out ---- */

/* The batch that was handed out last is done with: its place is for the one that comes a round later. */
static void release(gp_loader *loader) {
    int64_t number = loader->handed_out - 1, later = number + loader->slot_count;
    slot *place = &loader->slots[number % loader->slot_count];
    atomic_store(&place->done, 0);
    if (later < loader->batches) gp_batch_resize(&place->batch, samples_of(loader, later));
    atomic_store(&loader->released, loader->handed_out);
    gp_event_signal(&loader->freed);
}

static void await_batch(gp_loader *loader, slot *place) {
    for (;;) {
        uint32_t seen = gp_event_now(&loader->made);
        if (atomic_load(&place->done) == loader->pieces) return;
        gp_event_wait(&loader->made, seen, -1);
    }
}

static gp_status fetch(gp_loader *loader, slot *place) {
    if (loader->thread_count == 0)
        return make(loader, loader->handed_out, 0, place->batch.inputs.type.shape.dims[0], &place->batch);
    await_batch(loader, place);
    if (place->status != GP_OK) gp_error_message_set(place->message);
    return place->status;
}

gp_status gp_loader_next(gp_loader *loader, gp_batch **batch) {
    *batch = NULL;
    if (loader->handed_out > atomic_load(&loader->released)) release(loader);
    if (loader->handed_out == loader->batches) return GP_OK;
    slot *place = &loader->slots[loader->handed_out % loader->slot_count];
    double begun = gp_seconds();
    gp_status status = fetch(loader, place);
    loader->waited += gp_seconds() - begun;
    if (status != GP_OK) return status; /* and so it stays */
    loader->handed_out++;
    *batch = &place->batch;
    return GP_OK;
}

double gp_loader_waited(const gp_loader *loader) {
    return loader->waited;
}
