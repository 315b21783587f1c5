/* What a step came to: every process tells the others what its workers measured and, when something was not finite,
 * where they saw it first; so all have the same figures and the same fault. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

/* ---- rows ---- */

gp_worker_row *gp_engine_row(const gp_engine *engine, size_t worker) {
    return (gp_worker_row *)(void *)(engine->rows + worker * engine->row_bytes);
}

gp_status gp_engine_allocate_rows(gp_engine *engine) {
    engine->row_bytes = sizeof(gp_worker_row) + engine->links_most * sizeof(gp_link_times);
    engine->rows = gp_allocate_array(engine->total, engine->row_bytes);
    engine->times = gp_allocate_array(engine->total, sizeof *engine->times);
    engine->links = gp_allocate_array(engine->total * engine->links_most, sizeof *engine->links);
    return engine->rows && engine->times && engine->links ? GP_OK : GP_OUT_OF_MEMORY;
}

size_t gp_engine_most_links(const gp_engine *engine) {
    return engine->total * engine->links_most;
}

static gp_worker_row row_of(const gp_engine *engine, const gp_worker *worker, double ended) {
    gp_worker_row row = {.times = worker->times,
                         .first_action = worker->first_action,
                         .last_backward = worker->last_backward,
                         .high_water = worker->device->high_water,
                         .link_count = worker->link_count};
    const gp_worker_fault *fault = &worker->fault;
    double clock = gp_world_clock(engine->world);
    row.times.reduce = worker->reducer.seconds;
    row.times.bytes_reduced = worker->reducer.bytes;
    row.times.wait = fmax(0, ended - engine->command.begun - row.times.forward - row.times.recompute -
                                 row.times.backward - row.times.update);
    if (row.first_action > 0) row.first_action += clock;
    if (row.last_backward > 0) row.last_backward += clock;
    row.fault.found = fault->found;
    row.fault.backward = fault->backward;
    row.fault.micro_batch = fault->micro_batch;
    row.fault.layer = fault->layer;
    row.fault.not_finite_parameter = worker->not_finite_parameter;
    snprintf(row.fault.op, sizeof row.fault.op, "%s", fault->op ? fault->op : "");
    return row;
}

static gp_status gather_rows(gp_engine *engine, double ended) {
    for (size_t w = 0; w < engine->count; w++) {
        const gp_worker *worker = &engine->workers[w];
        gp_worker_row *row = gp_engine_row(engine, engine->first + w);
        *row = row_of(engine, worker, ended);
        memcpy(row->links, worker->links, worker->link_count * sizeof *row->links);
    }
    return gp_engine_checked(engine, gp_world_gather_rows(engine->world, engine->rows, engine->row_bytes));
}

/* ---- faults ---- */

static gp_worker_fault fault_of(const gp_worker_row *row) {
    return (gp_worker_fault){row->fault.found, row->fault.micro_batch, row->fault.backward, row->fault.layer,
                             row->fault.op[0] ? row->fault.op : NULL};
}

/* The worker with the first fault; engine->total: none has one. */
static size_t first_fault(const gp_engine *engine) {
    size_t first = engine->total;
    for (size_t w = 0; w < engine->total; w++) {
        gp_worker_fault fault = fault_of(gp_engine_row(engine, w)), earlier;
        if (!fault.found) continue;
        if (first < engine->total) earlier = fault_of(gp_engine_row(engine, first));
        if (first == engine->total || gp_worker_fault_is_earlier(&fault, &earlier)) first = w;
    }
    return first;
}

static void describe_sum(const gp_engine *engine, char *text, size_t size) {
    snprintf(text, size, "the sum over the mini-batch");
    for (size_t w = engine->total; w-- > 0;) {
        size_t parameter = gp_engine_row(engine, w)->fault.not_finite_parameter;
        if (parameter != SIZE_MAX)
            snprintf(text, size, "the gradient of %s, summed over the mini-batch",
                     gp_model_parameter(engine->options.model, parameter).name);
    }
}

static void describe_fault(const gp_engine *engine, char *text, size_t size) {
    const gp_model *model = engine->options.model;
    size_t worker = first_fault(engine);
    char replica[32] = "", layer[96] = "the loss";
    if (worker == engine->total) {
        describe_sum(engine, text, size);
        return;
    }
    gp_worker_fault fault = fault_of(gp_engine_row(engine, worker));
    if (engine->options.replicas > 1)
        snprintf(replica, sizeof replica, " of replica %zu", worker / engine->options.stages);
    if (fault.layer < 0) {
        snprintf(text, size, "the inputs, micro-batch %d%s", fault.micro_batch, replica);
        return;
    }
    if ((size_t)fault.layer < gp_model_layer_count(model))
        snprintf(layer, sizeof layer, "layer %d (%s)", (int)fault.layer,
                 gp_model_layer_kind(model, (size_t)fault.layer));
    snprintf(text, size, "%s, %s of %s, micro-batch %d%s", layer, fault.backward ? "backward" : "forward",
             fault.op ? fault.op : "an operation", fault.micro_batch, replica);
}

/* ---- times ---- */

static void sum_times(gp_engine *engine, double ended, gp_step_result *result) {
    double first = 0, last = 0, busy = 0;
    for (size_t w = 0; w < engine->total; w++) {
        const gp_worker_row *row = gp_engine_row(engine, w);
        engine->times[w] = row->times;
        busy += row->times.forward + row->times.recompute + row->times.backward;
        if (row->first_action != 0 && (first == 0 || row->first_action < first)) first = row->first_action;
        if (row->last_backward > last) last = row->last_backward;
    }
    result->seconds = ended - engine->command.begun;
    result->span = last - first;
    result->bubble = result->span > 0 ? fmax(0, 1 - busy / ((double)engine->total * result->span)) : 0;
    result->workers = engine->times;
}

static void list_links(gp_engine *engine, gp_step_result *result) {
    result->links = engine->links;
    result->link_count = 0;
    for (size_t w = 0; w < engine->total; w++) {
        const gp_worker_row *row = gp_engine_row(engine, w);
        for (size_t i = 0; i < row->link_count && i < engine->links_most; i++)
            engine->links[result->link_count++] = row->links[i];
    }
}

gp_status gp_engine_gather_result(gp_engine *engine, gp_step_result *result) {
    const gp_worker *worker = &engine->workers[0]; /* all know the same */
    double ended = gp_seconds();
    GP_TRY(gather_rows(engine, ended));
    result->weight = engine->command.weight;
    result->loss = result->weight > 0 ? worker->loss / result->weight : 0;
    result->gradient_norm = worker->norm;
    result->finite = worker->finite;
    if (!result->finite) describe_fault(engine, result->fault, sizeof result->fault);
    sum_times(engine, ended, result);
    list_links(engine, result);
    return GP_OK;
}
