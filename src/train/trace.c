/* The last step as a Chrome trace (the "Trace Event Format"): one row per worker, one box per action. Read by Perfetto
 * and by chrome://tracing. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "train/trainer.h"

static const char *const action_names[] = {"forward", "recompute", "backward"};

static json_t *event(const gp_trace_entry *entry, size_t worker, double origin) {
    const char *name = entry->action.kind <= GP_BACKWARD ? action_names[entry->action.kind] : "message";
    return json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:{s:i, s:i}}", "name", name, "ph", "X", "pid", 0, "tid",
                     (json_int_t)worker, "ts", 1e6 * (entry->start - origin), "dur", 1e6 * (entry->end - entry->start),
                     "args", "stage", entry->action.stage, "micro_batch", entry->action.micro_batch);
}

static double first_start(const gp_trainer *trainer) {
    double origin = INFINITY;
    for (size_t w = 0; w < trainer->plan->worker_count; w++) {
        size_t count;
        const gp_trace_entry *entries = gp_engine_trace(trainer->engine, w, &count);
        if (count > 0 && entries[0].start < origin) origin = entries[0].start;
    }
    return origin;
}

gp_status gp_trainer_trace(const gp_trainer *trainer, const char *path) {
    json_t *events = json_array();
    double origin = first_start(trainer);
    for (size_t w = 0; w < trainer->plan->worker_count; w++) {
        size_t count;
        const gp_trace_entry *entries = gp_engine_trace(trainer->engine, w, &count);
        for (size_t i = 0; i < count; i++) {
            json_array_append_new(events, event(&entries[i], w, origin));
        }
    }
    json_t *trace = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    if (!trace) return gp_error(GP_OUT_OF_MEMORY, "no memory for a trace");
    int failed = json_dump_file(trace, path, JSON_REAL_PRECISION(12));
    json_decref(trace);
    return failed ? gp_error(GP_IO, "%s could not be written: %s", path, strerror(errno)) : GP_OK;
}
