/* What the processes of an engine agree on besides the work itself. With all workers in one process nothing is to be
 * agreed on. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

static bool is_alone(const gp_engine *engine) {
    return engine->count == engine->total;
}

/* ---- agreement ---- */

typedef struct opinion {
    gp_status status;
    bool says;
    char message[500];
} opinion;

/* The first process that failed speaks for all. */
static gp_status first_failure(const gp_engine *engine, const opinion *rows) {
    for (size_t w = 0; w < engine->total; w++)
        if (rows[w].status != GP_OK) return gp_error(rows[w].status, "%.499s", rows[w].message);
    return GP_OK;
}

gp_status gp_engine_agree(gp_engine *engine, gp_status status, bool says, bool *any) {
    if (any) *any = says;
    if (is_alone(engine)) return status;
    opinion mine = {.status = status, .says = says}, *rows = gp_allocate_array(engine->total, sizeof *rows);
    if (!rows) return gp_engine_fail(engine, GP_OUT_OF_MEMORY);
    if (status != GP_OK) snprintf(mine.message, sizeof mine.message, "%s", gp_error_message());
    for (size_t w = 0; w < engine->count; w++)
        rows[engine->first + w] = mine;
    gp_status result = gp_engine_checked(engine, gp_world_gather_rows(engine->world, rows, sizeof *rows));
    if (result == GP_OK) result = first_failure(engine, rows);
    for (size_t w = 0; any && result == GP_OK && w < engine->total; w++)
        *any = *any || rows[w].says;
    gp_free(rows);
    return result;
}

gp_status gp_engine_fail(gp_engine *engine, gp_status status) {
    if (status == GP_OK || is_alone(engine)) return status;
    gp_world_fail(engine->world, (int)engine->first, status, gp_error_message());
    return gp_engine_checked(engine, GP_ABORTED);
}

/* ---- traces ---- */

static gp_status gather_counts(gp_engine *engine, size_t *counts) {
    for (size_t w = 0; w < engine->count; w++)
        counts[engine->first + w] = engine->workers[w].trace_count;
    return gp_engine_checked(engine, gp_world_gather_rows(engine->world, counts, sizeof *counts));
}

/* Every trace in turn goes from its worker's process to the others. */
static gp_status gather_entries(gp_engine *engine) {
    for (size_t w = 0; w < engine->total; w++) {
        gp_trace_row *row = &engine->traces[w];
        bool here = w >= engine->first && w - engine->first < engine->count;
        gp_free(row->entries);
        row->entries = gp_allocate_array(row->count, sizeof *row->entries);
        if (!row->entries) return gp_engine_fail(engine, GP_OUT_OF_MEMORY);
        const gp_worker *worker = &engine->workers[here ? w - engine->first : 0];
        double clock = engine->command.begun + gp_world_clock(engine->world);
        for (size_t i = 0; here && i < row->count; i++) {
            row->entries[i] = worker->trace[i];
            row->entries[i].start += clock;
            row->entries[i].end += clock;
        }
        gp_status status = gp_world_share(engine->world, (int)w, row->entries, row->count * sizeof *row->entries);
        GP_TRY(gp_engine_checked(engine, status));
    }
    return GP_OK;
}

gp_status gp_engine_gather_traces(gp_engine *engine) {
    if (is_alone(engine)) return GP_OK;
    size_t *counts = gp_allocate_array(engine->total, sizeof *counts);
    if (!engine->traces) engine->traces = gp_allocate_array(engine->total, sizeof *engine->traces);
    gp_status status = counts && engine->traces ? gather_counts(engine, counts) : GP_OUT_OF_MEMORY;
    for (size_t w = 0; status == GP_OK && w < engine->total; w++)
        engine->traces[w].count = counts[w];
    gp_free(counts);
    return status == GP_OK ? gather_entries(engine) : gp_engine_fail(engine, status);
}

void gp_engine_free_traces(gp_engine *engine) {
    for (size_t w = 0; engine->traces && w < engine->total; w++)
        gp_free(engine->traces[w].entries);
    gp_free(engine->traces);
}
