/* The memory of every worker, known before anything is allocated: what the stage's programs were planned to need, and
 * as many stash and link slots as the schedule holds in flight. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"
#include "pipeline/worker.h"

/* ---- slots ---- */

static int at_most(int count, int most) {
    return count < most ? count : most;
}

/* Slots of the forward link from `sender` to `receiver`. An activation stays in its slot until its backward is done.
 * Between neighbours one slot more than the receiver holds lets the sender compute the next one meanwhile, which is
 * what the schedule's proof assumes; a link that passes over stages has as many as its sender has in flight, so that it
 * never makes anybody wait and the proof holds for it too. */
static int forward_slots(const gp_agenda *agenda, size_t sender, size_t receiver) {
    int slots = gp_schedule_in_flight(agenda->schedule, (int)receiver, NULL, NULL) + 1;
    int sent = gp_schedule_in_flight(agenda->schedule, (int)sender, NULL, NULL);
    if (receiver > sender + 1 && sent > slots) slots = sent;
    return at_most(slots, agenda->micro_batches);
}

/* Slots of the gradient link from `sender` back to `receiver`. */
static int gradient_slots(const gp_agenda *agenda, size_t sender, size_t receiver) {
    int held = gp_schedule_in_flight(agenda->schedule, (int)receiver, NULL, NULL);
    int slots = sender > receiver + 1 && held > 2 ? held : 2;
    return at_most(slots, agenda->micro_batches);
}

static gp_status plan_slots(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    const gp_stage *stage = worker->stage;
    const gp_agenda *agenda = gp_worker_share(worker)->agenda; /* of a whole mini-batch; NULL for inference */
    worker->forward_slots = gp_allocate_array(stage->before_count, sizeof *worker->forward_slots);
    worker->gradient_slots = gp_allocate_array(stage->after_count, sizeof *worker->gradient_slots);
    if (!worker->forward_slots || !worker->gradient_slots) return GP_OUT_OF_MEMORY;
    if (agenda &&
        gp_schedule_in_flight(agenda->schedule, (int)worker->index, &worker->recomputed_slots, &worker->kept_slots) < 0)
        return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < stage->before_count; i++)
        worker->forward_slots[i] = agenda ? forward_slots(agenda, stage->before[i].stage, worker->index)
                                          : at_most(2, engine->options.micro_batches);
    for (size_t i = 0; i < stage->after_count; i++)
        worker->gradient_slots[i] =
            agenda && stage->after[i].gradients ? gradient_slots(agenda, stage->after[i].stage, worker->index) : 0;
    return GP_OK;
}

/* ---- bytes ---- */

size_t gp_worker_loss_bytes(const gp_worker *worker) {
    return gp_stage_value_bytes(worker->stage, (gp_type){.dtype = GP_F32});
}

static void sum_bytes(gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    const gp_stage_bytes *bytes = &stage->bytes;
    gp_worker_bytes *sum = &worker->bytes;
    size_t stash = (size_t)worker->recomputed_slots * bytes->recomputed + (size_t)worker->kept_slots * bytes->kept;
    worker->stash_bytes = stash > bytes->base ? stash : bytes->base; /* evaluation uses one base */
    worker->scalars_bytes =
        stage->is_last ? ((size_t)worker->engine->options.micro_batches + 1) * gp_worker_loss_bytes(worker) : 0;
    worker->communication_bytes = 0;
    for (size_t i = 0; i < stage->before_count; i++)
        worker->communication_bytes +=
            (size_t)worker->forward_slots[i] *
            gp_worker_slot_bytes(worker, stage->before[i].stage, stage->before[i].forward_bytes);
    for (size_t i = 0; i < stage->after_count; i++)
        worker->communication_bytes +=
            (size_t)worker->gradient_slots[i] *
            gp_worker_slot_bytes(worker, stage->after[i].stage, stage->after[i].gradient_bytes);
    worker->communication_bytes +=
        gp_worker_staging_bytes(worker) + worker->reduce_bytes + worker->sum_bytes + worker->merge_bytes;
    *sum = (gp_worker_bytes){.parameters = bytes->weights + bytes->forms + bytes->states + bytes->statistics,
                             .gradients = bytes->gradients,
                             .optimizer = bytes->moments + bytes->averages,
                             .stash = worker->stash_bytes,
                             .workspace = bytes->workspace + worker->scalars_bytes,
                             .communication = worker->communication_bytes,
                             .snapshot = worker->engine->options.snapshot ? worker->save.bytes : 0};
    sum->total = sum->parameters + sum->gradients + sum->optimizer + sum->stash + sum->workspace + sum->communication;
    if (worker->device->class->in_host_memory) sum->total += sum->snapshot;
}

/* ---- the plan ---- */

static void fill_plan(const gp_worker *worker, gp_worker_plan *plan) {
    const gp_stage *stage = worker->stage;
    const gp_stage_size *size = gp_stage_find_size(stage, gp_worker_share(worker)->sizes[0]);
    *plan = (gp_worker_plan){.replica = (int)worker->replica,
                             .stage = (int)worker->index,
                             .first_layer = stage->first_layer,
                             .last_layer = stage->last_layer,
                             .flops_forward = size->flops_forward,
                             .flops_recompute = size->flops_recompute,
                             .flops_backward = size->flops_backward,
                             .bytes = worker->bytes};
    for (size_t p = 0; p < stage->parameter_count; p++)
        plan->parameters += stage->parameters[p].elements;
}

static size_t count_owned(const gp_worker *worker) {
    size_t owned = 0;
    for (size_t p = 0; p < worker->stage->parameter_count; p++)
        owned += worker->stage->parameters[p].owner == worker->index;
    return owned;
}

/* What processes tell each other of a worker's plan. */
typedef struct plan_row {
    gp_worker_plan plan;
    size_t owned;  /* parameters */
    size_t links;  /* into it */
    double memory; /* of its machine */
} plan_row;

static gp_status gather_plans(gp_engine *engine, plan_row *rows) {
    gp_machine machine;
    GP_TRY(gp_machine_describe(&machine));
    for (size_t w = 0; w < engine->count; w++) {
        gp_worker *worker = &engine->workers[w];
        plan_row *row = &rows[worker->number];
        GP_TRY(plan_slots(worker));
        GP_TRY(gp_worker_list_links(worker));
        GP_TRY(gp_worker_plan_save(worker));
        sum_bytes(worker);
        fill_plan(worker, &row->plan);
        row->owned = count_owned(worker);
        row->links = worker->link_count;
        row->memory = (double)machine.memory;
    }
    GP_TRY(gp_engine_checked(engine, gp_world_gather_rows(engine->world, rows, sizeof *rows)));
    for (size_t w = 0; w < engine->total; w++) {
        engine->plan.worker[w] = rows[w].plan;
        engine->plan.worker[w].machine_memory = rows[w].memory;
        if (rows[w].owned > engine->owned_most) engine->owned_most = rows[w].owned;
        if (rows[w].links > engine->links_most) engine->links_most = rows[w].links;
    }
    return gp_engine_allocate_rows(engine);
}

gp_status gp_engine_plan_memory(gp_engine *engine) {
    engine->plan.worker = gp_allocate_array(engine->total, sizeof *engine->plan.worker);
    plan_row *rows = gp_allocate_array(engine->total, sizeof *rows);
    engine->plan.workers = engine->plan.worker ? engine->total : 0;
    gp_status status = engine->plan.worker && rows ? gather_plans(engine, rows) : GP_OUT_OF_MEMORY;
    gp_free(rows);
    return status;
}

gp_status gp_engine_plan_create(gp_engine_plan *plan, const gp_engine_options *options) {
    gp_engine *engine;
    *plan = (gp_engine_plan){0};
    GP_TRY(gp_engine_begin(&engine, options));
    *plan = engine->plan;
    engine->plan = (gp_engine_plan){0};
    gp_engine_destroy(engine);
    return GP_OK;
}

void gp_engine_plan_destroy(gp_engine_plan *plan) {
    gp_free(plan->worker);
    *plan = (gp_engine_plan){0};
}

/* ---- the limit ---- */

enum { ROWS = 12 };

/* Appends a number of bytes in a column of the table. */
static void append_bytes(char *text, size_t size, size_t bytes) {
    char cell[16];
    size_t length = strlen(text);
    snprintf(text + length, size - length, " %9s", gp_bytes_format(bytes, cell, sizeof cell));
}

size_t gp_engine_limit(const gp_engine *engine, size_t worker) {
    return engine->limits ? engine->limits[worker] : engine->options.device.memory;
}

static bool is_over(const gp_engine *engine, size_t worker, size_t bytes) {
    size_t limit = gp_engine_limit(engine, worker);
    return limit > 0 && bytes > limit;
}

static void append_row(char *text, size_t size, size_t worker, const gp_worker_plan *plan, bool over) {
    const gp_worker_bytes *b = &plan->bytes;
    const size_t columns[] = {b->parameters, b->gradients,     b->optimizer, b->stash,
                              b->workspace,  b->communication, b->snapshot,  b->total};
    size_t length = strlen(text);
    snprintf(text + length, size - length, "\n%6zu %4d-%-4d", worker, (int)plan->first_layer, (int)plan->last_layer);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        append_bytes(text, size, columns[i]);
    length = strlen(text);
    if (over) snprintf(text + length, size - length, " *");
}

/* Whether every worker would fit if checkpoints were written while training waits. */
static const char *advice(const gp_engine *engine) {
    const gp_engine_plan *plan = &engine->plan;
    if (!engine->options.snapshot || !engine->workers[0].device->class->in_host_memory) return "";
    for (size_t w = 0; w < plan->workers; w++)
        if (is_over(engine, w, plan->worker[w].bytes.total - plan->worker[w].bytes.snapshot)) return "";
    return "\nWithout the copy that checkpoints are written from (checkpoint.background: false) all of them fit.";
}

static gp_status refuse(const gp_engine *engine, size_t over, size_t largest) {
    const gp_engine_plan *plan = &engine->plan;
    char table[1800], allowed[16], needed[16];
    snprintf(table, sizeof table, "%6s %9s %9s %9s %9s %9s %9s %9s %9s %9s", "worker", "layers", "params", "grads",
             "optim", "stash", "workspace", "links", "snapshot", "total");
    for (size_t w = 0; w < plan->workers && w < ROWS; w++)
        append_row(table, sizeof table, w, &plan->worker[w], is_over(engine, w, plan->worker[w].bytes.total));
    if (plan->workers > ROWS) {
        size_t length = strlen(table);
        snprintf(table + length, sizeof table - length, "\n  ... %zu workers more", plan->workers - ROWS);
    }
    if (largest >= ROWS) append_row(table, sizeof table, largest, &plan->worker[largest], true);
    return gp_error(
        GP_DOES_NOT_FIT,
        "%zu of %zu worker%s need%s more than device.memory%s = %s: worker %zu needs %s; by kind (* is over):\n%s%s",
        over, plan->workers, gp_plural((int64_t)plan->workers, "s"), over == 1 ? "s" : "",
        engine->limits ? " of the worker" : "",
        gp_bytes_format(gp_engine_limit(engine, largest), allowed, sizeof allowed), largest,
        gp_bytes_format(plan->worker[largest].bytes.total, needed, sizeof needed), table, advice(engine));
}

/* Whether two workers live on one machine. */
static bool share_machine(const gp_engine *engine, size_t a, size_t b) {
    const gp_cluster *cluster = engine->options.cluster;
    if (!cluster) return true;
    size_t each = engine->total / (size_t)gp_cluster_ranks(cluster);
    return gp_cluster_same_host(cluster, (int)(a / each), (int)(b / each));
}

static gp_status refuse_machine(double total, size_t largest, size_t needed, const char *whose, double memory) {
    char all[16], one[16], there[16];
    return gp_error(GP_DOES_NOT_FIT, "the workers need %s together (worker %zu alone %s), but %s machine has %s",
                    gp_bytes_format((size_t)total, all, sizeof all), largest, gp_bytes_format(needed, one, sizeof one),
                    whose, gp_bytes_format((size_t)memory, there, sizeof there));
}

/* All workers on a machine live in its memory. The system would promise more than it has and end the process in the
 * middle of a step. */
static gp_status check_machines(const gp_engine *engine) {
    const gp_engine_plan *plan = &engine->plan;
    for (size_t first = 0; first < plan->workers; first++) {
        size_t largest = first, sharing = 0;
        double total = 0, memory = plan->worker[first].machine_memory;
        for (size_t w = 0; w < plan->workers; w++) {
            if (!share_machine(engine, first, w)) continue;
            total += (double)plan->worker[w].bytes.total;
            sharing++;
            if (plan->worker[w].bytes.total > plan->worker[largest].bytes.total) largest = w;
        }
        if (memory > 0 && total > memory)
            return refuse_machine(total, largest, plan->worker[largest].bytes.total,
                                  sharing == plan->workers ? "this" : "their", memory);
        if (sharing == plan->workers) break;
    }
    return GP_OK;
}

gp_status gp_engine_check_limit(const gp_engine *engine) {
    const gp_engine_plan *plan = &engine->plan;
    size_t over = 0, largest = 0;
    for (size_t w = 0; w < plan->workers; w++) {
        if (!is_over(engine, w, plan->worker[w].bytes.total)) continue;
        if (over++ == 0 || plan->worker[w].bytes.total > plan->worker[largest].bytes.total) largest = w;
    }
    if (over > 0) return refuse(engine, over, largest);
    return check_machines(engine);
}
