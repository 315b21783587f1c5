/* Plan and measurement side by side: tables for people, JSON for machines (report.json). */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "train/trainer.h"

/* ---- JSON ---- */

/* A figure of the plan: a number, or {"planned", "measured"} when both are known. */
static json_t *figure(json_t *planned, json_t *measured) {
    if (!measured) return planned;
    return json_pack("{s:o, s:o}", "planned", planned, "measured", measured);
}

static json_t *bytes_json(const gp_plan_bytes *bytes, const gp_worker_report *report) {
    json_t *measured = report ? json_integer((json_int_t)report->bytes) : NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "parameters", (json_int_t)bytes->parameters,
                     "gradients", (json_int_t)bytes->gradients, "optimizer", (json_int_t)bytes->optimizer, "stash",
                     (json_int_t)bytes->stash, "workspace", (json_int_t)bytes->workspace, "communication",
                     (json_int_t)bytes->communication, "snapshot", (json_int_t)bytes->snapshot, "total",
                     figure(json_integer((json_int_t)bytes->total), measured));
}

static json_t *worker_json(const gp_plan_worker *worker, size_t index, const gp_worker_report *report) {
    double busy = report ? report->forward + report->recompute + report->backward : 0;
    json_t *object =
        json_pack("{s:I, s:i, s:i, s:I, s:I, s:I, s:o, s:o}", "worker", (json_int_t)index, "replica", worker->replica,
                  "stage", worker->stage, "first_layer", (json_int_t)worker->first_layer, "last_layer",
                  (json_int_t)worker->last_layer, "parameters", (json_int_t)worker->parameters, "seconds",
                  figure(json_real(worker->seconds), report ? json_real(busy) : NULL), "bytes",
                  bytes_json(&worker->bytes, report));
    if (object && worker->host[0]) {
        json_object_set_new(object, "rank", json_integer(worker->rank));
        json_object_set_new(object, "host", json_string(worker->host));
    }
    if (object && worker->limit) json_object_set_new(object, "limit", json_integer((json_int_t)worker->limit));
    if (object && worker->speed != 1) json_object_set_new(object, "speed", json_real(worker->speed));
    if (object && report) {
        json_object_set_new(object, "times",
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "forward", report->forward,
                                      "recompute", report->recompute, "backward", report->backward, "update",
                                      report->update, "wait", report->wait, "reduce", report->reduce, "exposed",
                                      report->exposed, "communication", report->communication, "blocked",
                                      report->blocked));
        json_object_set_new(object, "bytes_reduced", json_real(report->bytes_reduced));
        json_object_set_new(object, "bubble", json_real(report->bubble));
    }
    return object;
}

/* The plan as a JSON object (a new reference); `reports` (NULL: none) adds "measured" beside each figure. NULL: no
 * memory. */
static json_t *plan_json(const gp_plan *plan, const gp_worker_report *reports, double bubble, double step_seconds) {
    json_t *workers = json_array();
    for (size_t w = 0; w < plan->worker_count; w++) {
        json_array_append_new(workers, worker_json(&plan->workers[w], w, reports ? &reports[w] : NULL));
    }
    return json_pack("{s:I, s:o, s:f, s:o, s:I, s:b, s:o}", "parameters", (json_int_t)plan->parameters, "bubble",
                     figure(json_real(plan->bubble), reports ? json_real(bubble) : NULL), "bubble_formula",
                     plan->bubble_formula, "step_seconds",
                     figure(json_real(plan->step_seconds), reports ? json_real(step_seconds) : NULL), "limit",
                     (json_int_t)plan->limit, "fits", (int)plan->fits, "workers", workers);
}

/* The object as indented text; GP_OUT_OF_MEMORY when it is NULL. Takes the reference. */
static gp_status json_text(json_t *object, char **text) {
    char *dumped = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    *text = dumped ? gp_format_text("%s\n", dumped) : NULL;
    free(dumped);
    return *text ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "no memory for a JSON text");
}

/* ---- tables ---- */

static const char *human(size_t bytes, char *text) {
    return gp_bytes_format(bytes, text, 16);
}

const char *gp_worker_name(const gp_plan *plan, size_t worker_number, char text[32]) {
    const gp_plan_worker *worker = &plan->workers[worker_number];
    if (plan->replicas > 1) {
        snprintf(text, 32, "r%d s%d", worker->replica, worker->stage);
    } else {
        snprintf(text, 32, "%d", worker->stage);
    }
    return text;
}

/* Whether there is a copy for checkpoints: a column of its own then. */
static bool has_snapshot(const gp_plan *plan) {
    for (size_t w = 0; w < plan->worker_count; w++)
        if (plan->workers[w].bytes.snapshot > 0) return true;
    return false;
}

/* Whether workers may use unequally many bytes, or are not equally fast: columns of their own then. */
static bool limits_differ(const gp_plan *plan) {
    for (size_t w = 0; w < plan->worker_count; w++)
        if (plan->workers[w].limit != plan->workers[0].limit) return true;
    return false;
}

static bool speeds_differ(const gp_plan *plan) {
    for (size_t w = 0; w < plan->worker_count; w++)
        if (plan->workers[w].speed != 1) return true;
    return false;
}

static void add_plan_row(gp_page *page, const gp_plan *plan, size_t w) {
    const gp_plan_worker *worker = &plan->workers[w];
    const gp_plan_bytes *bytes = &worker->bytes;
    char a[16], b[16], c[16], d[16], e[16], f[16], g[16], h[16];
    char layers[32], name[32];
    snprintf(layers, sizeof layers, "%zu-%zu", worker->first_layer, worker->last_layer);
    gp_page_add(page, "%6s  %-9s %12lld %10s %10s %10s %10s %10s %10s", gp_worker_name(plan, w, name), layers,
                (long long)worker->parameters, human(bytes->parameters, a), human(bytes->gradients, b),
                human(bytes->optimizer, c), human(bytes->stash, d), human(bytes->workspace, e),
                human(bytes->communication, f));
    if (has_snapshot(plan)) gp_page_add(page, " %10s", human(bytes->snapshot, g));
    gp_page_add(page, " %10s", human(bytes->total, g));
    if (limits_differ(plan)) gp_page_add(page, " %10s", worker->limit ? human(worker->limit, h) : "none");
    if (plan->step_seconds > 0) gp_page_add(page, " %10.2f", 1e3 * worker->seconds);
    if (speeds_differ(plan)) gp_page_add(page, " %7.3g", worker->speed);
    if (worker->host[0]) gp_page_add(page, "  %s", worker->host);
    if (worker->limit && bytes->total > worker->limit) gp_page_add(page, "  over the limit");
    gp_page_add(page, "\n");
}

gp_status gp_plan_format(const gp_plan *plan, bool json, char **text) {
    if (json) return json_text(plan_json(plan, NULL, 0, 0), text);
    gp_page page = {0};
    char limit[16];
    gp_page_add(&page, "%6s  %-9s %12s %10s %10s %10s %10s %10s %10s%s %10s%s%s%s%s\n", "worker", "layers",
                "parameters", "weights", "gradients", "optimizer", "stash", "workspace", "messages",
                has_snapshot(plan) ? "   snapshot" : "", "total", limits_differ(plan) ? "      limit" : "",
                plan->step_seconds > 0 ? "    busy ms" : "", speeds_differ(plan) ? "   speed" : "",
                plan->workers[0].host[0] ? "  host" : "");
    for (size_t w = 0; w < plan->worker_count; w++) {
        add_plan_row(&page, plan, w);
    }
    gp_page_add(&page, "parameters %lld, bubble %.2f%% (formula %.2f%%)", (long long)plan->parameters,
                100 * plan->bubble, 100 * plan->bubble_formula);
    if (plan->step_seconds > 0) gp_page_add(&page, ", step %.2f ms", 1e3 * plan->step_seconds);
    if (plan->limit)
        gp_page_add(&page, ", limit %s%s a worker: %s", limits_differ(plan) ? "from " : "", human(plan->limit, limit),
                    plan->fits ? "fits" : "does NOT fit");
    gp_page_add(&page, "\n");
    return gp_page_finish(&page, text);
}

static void add_report_row(gp_page *page, const gp_plan *plan, const gp_worker_report *report, size_t w) {
    const gp_plan_worker *worker = &plan->workers[w];
    char planned[16], measured[16], layers[32], name[32];
    double busy = report->forward + report->recompute + report->backward;
    snprintf(layers, sizeof layers, "%zu-%zu", worker->first_layer, worker->last_layer);
    gp_page_add(page, "%6s  %-9s %12lld %11s %11s %9.2f %9.2f %10.2f %10.2f %9.2f %7.2f%%",
                gp_worker_name(plan, w, name), layers, (long long)worker->parameters,
                human(worker->bytes.total, planned), human(report->bytes, measured), 1e3 * worker->seconds, 1e3 * busy,
                1e3 * report->recompute, 1e3 * report->update, 1e3 * report->wait, 100 * report->bubble);
    if (plan->partitions > 1) gp_page_add(page, " %10.2f %10.2f", 1e3 * report->communication, 1e3 * report->blocked);
    if (plan->replicas > 1) gp_page_add(page, " %10.2f %10.2f", 1e3 * report->reduce, 1e3 * report->exposed);
    if (worker->host[0]) gp_page_add(page, "  %s", worker->host);
    gp_page_add(page, "\n");
}

static void add_report_head(gp_page *page, const gp_plan *plan) {
    gp_page_add(page, "%6s  %-9s %12s %11s %11s %9s %9s %10s %10s %9s %8s", "stage", "layers", "parameters", "planned",
                "measured", "plan ms", "busy ms", "recomp ms", "update ms", "wait ms", "idle");
    if (plan->partitions > 1) gp_page_add(page, " %10s %10s", "comm ms", "blocked ms");
    if (plan->replicas > 1) gp_page_add(page, "  reduce ms exposed ms");
    if (plan->workers[0].host[0]) gp_page_add(page, "  host");
    gp_page_add(page, "\n");
}

/* ---- checkpoints ---- */

static bool saved(const gp_trainer *trainer) {
    return trainer->saves.written + trainer->saves.failed > 0;
}

static json_t *saves_json(const gp_save_counts *saves) {
    return json_pack("{s:I, s:I, s:f, s:f, s:I}", "written", (json_int_t)saves->written, "failed",
                     (json_int_t)saves->failed, "waited_seconds", saves->pause, "seconds", saves->seconds, "bytes",
                     (json_int_t)saves->bytes);
}

static void add_saves(gp_page *page, const gp_trainer *trainer) {
    const gp_save_counts *saves = &trainer->saves;
    char size[16];
    if (!saved(trainer)) return;
    gp_page_add(page, "checkpoints %lld written", (long long)saves->written);
    if (saves->written > 0) gp_page_add(page, ", %s each", human(saves->bytes, size));
    if (saves->failed > 0) gp_page_add(page, ", %lld NOT written", (long long)saves->failed);
    gp_page_add(page, "; training waited %.2f ms\n", 1e3 * saves->pause);
}

/* ---- plan and measurement ---- */

static double measured_steps(const gp_trainer *trainer) {
    return trainer->measured_steps > 0 ? (double)trainer->measured_steps : 1;
}

gp_status gp_trainer_report_format(const gp_trainer *trainer, bool json, char **text) {
    const gp_plan *plan = trainer->plan;
    double bubble = 0, seconds = 0;
    gp_worker_report *reports = gp_allocate_array(plan->worker_count, sizeof *reports);
    *text = NULL;
    if (!reports) return GP_OUT_OF_MEMORY;
    gp_status status = gp_trainer_report(trainer, reports, &bubble, &seconds);
    if (status == GP_OK && json) {
        json_t *object = plan_json(plan, reports, bubble, seconds);
        if (object && trainer->traffic.count > 0)
            json_object_set_new(object, "links", gp_traffic_json(&trainer->traffic, measured_steps(trainer)));
        if (object && saved(trainer)) json_object_set_new(object, "checkpoints", saves_json(&trainer->saves));
        status = json_text(object, text);
    }
    if (status == GP_OK && !json) {
        gp_page page = {0};
        add_report_head(&page, plan);
        for (size_t w = 0; w < plan->worker_count; w++) {
            add_report_row(&page, plan, &reports[w], w);
        }
        gp_page_add(&page, "bubble %.2f%% measured, %.2f%% planned, %.2f%% by (K-1)/(M+K-1)\n", 100 * bubble,
                    100 * plan->bubble, 100 * plan->bubble_formula);
        gp_page_add(&page, "step   %.2f ms measured, %.2f ms planned (without the update)\n", 1e3 * seconds,
                    1e3 * plan->step_seconds);
        gp_traffic_table(&trainer->traffic, plan, measured_steps(trainer), &page);
        add_saves(&page, trainer);
        status = gp_page_finish(&page, text);
    }
    gp_free(reports);
    return status;
}

/* ---- what was measured ---- */

gp_status gp_trainer_report(const gp_trainer *trainer, gp_worker_report *reports, double *bubble,
                            double *step_seconds) {
    double steps = measured_steps(trainer);
    for (size_t w = 0; w < trainer->plan->worker_count; w++) {
        const gp_worker_report *sum = &trainer->sums[w];
        reports[w] = (gp_worker_report){.bytes = gp_engine_high_water(trainer->engine, w),
                                        .forward = sum->forward / steps,
                                        .recompute = sum->recompute / steps,
                                        .backward = sum->backward / steps,
                                        .update = sum->update / steps,
                                        .wait = sum->wait / steps,
                                        .reduce = sum->reduce / steps,
                                        .exposed = sum->exposed / steps,
                                        .bytes_reduced = sum->bytes_reduced / steps,
                                        .communication = sum->communication / steps,
                                        .blocked = sum->blocked / steps,
                                        .bubble = sum->bubble / steps};
    }
    if (bubble) *bubble = trainer->bubble_sum / steps;
    if (step_seconds) *step_seconds = trainer->seconds_sum / steps;
    return GP_OK;
}
