/* A link is one way between two workers. In metrics.jsonl the links of all replicas between two stages are one, and a
 * pipeline of many stages has only the sums: a line a step is to stay short. */
#include "train/traffic.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "train/trainer.h"

/* Stages up to which metrics.jsonl tells the links apart. */
enum { STAGES_TOLD_APART = 16 };

/* ---- sums ---- */

gp_status gp_traffic_create(gp_traffic *traffic, const gp_engine *engine) {
    traffic->room = gp_engine_most_links(engine);
    traffic->sums = gp_allocate_array(traffic->room, sizeof *traffic->sums);
    return traffic->sums ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_traffic_destroy(gp_traffic *traffic) {
    gp_free(traffic->sums);
    *traffic = (gp_traffic){0};
}

static void add_link(gp_link_times *sum, const gp_link_times *link) {
    sum->messages += link->messages;
    sum->bytes += link->bytes;
    sum->transfer += link->transfer;
    sum->exposed += link->exposed;
}

void gp_traffic_add(gp_traffic *traffic, const gp_step_result *result, bool measured) {
    traffic->last = *result;
    traffic->stepped = true;
    if (!measured || result->link_count > traffic->room) return;
    for (size_t i = 0; i < result->link_count; i++) {
        if (i >= traffic->count)
            traffic->sums[i] = (gp_link_times){
                .from = result->links[i].from, .to = result->links[i].to, .gradients = result->links[i].gradients};
        add_link(&traffic->sums[i], &result->links[i]);
    }
    traffic->count = result->link_count;
}

size_t gp_trainer_link_count(const gp_trainer *trainer) {
    return trainer->traffic.count;
}

gp_status gp_trainer_link(const gp_trainer *trainer, size_t number, gp_link_report *report) {
    const gp_traffic *traffic = &trainer->traffic;
    double steps = trainer->measured_steps > 0 ? (double)trainer->measured_steps : 1;
    if (number >= traffic->count)
        return gp_error(GP_INVALID, "link %zu of a trainer that has %zu", number, traffic->count);
    const gp_link_times *sum = &traffic->sums[number];
    gp_link_report full = {.from = sum->from,
                           .to = sum->to,
                           .gradients = sum->gradients,
                           .messages = sum->messages / steps,
                           .bytes = sum->bytes / steps,
                           .transfer = sum->transfer / steps,
                           .exposed = sum->exposed / steps};
    gp_options_write(report, &full, sizeof full);
    return GP_OK;
}

/* ---- metrics.jsonl ---- */

/* The links of all replicas between two stages; false: there is none. */
static bool sum_links(const gp_step_result *step, int partitions, int from, int to, gp_link_times *sum) {
    bool found = false;
    *sum = (gp_link_times){.from = from, .to = to};
    for (size_t i = 0; i < step->link_count; i++) {
        const gp_link_times *link = &step->links[i];
        if (link->from % partitions != from || link->to % partitions != to) continue;
        add_link(sum, link);
        found = true;
    }
    return found;
}

static json_t *step_links(const gp_step_result *step, int partitions) {
    json_t *list = json_array();
    for (int from = 0; from < partitions; from++) {
        for (int to = 0; to < partitions; to++) {
            gp_link_times sum;
            if (!sum_links(step, partitions, from, to, &sum)) continue;
            json_array_append_new(list, json_pack("{s:i, s:i, s:I, s:I, s:f}", "from", from, "to", to, "messages",
                                                  (json_int_t)sum.messages, "bytes", (json_int_t)sum.bytes, "seconds",
                                                  sum.transfer));
        }
    }
    return list;
}

static void add_messages(const gp_step_result *step, const gp_plan *plan, json_t *line) {
    gp_link_times sum = {0};
    double communication = 0, blocked = 0, workers = (double)plan->worker_count;
    for (size_t i = 0; i < step->link_count; i++)
        add_link(&sum, &step->links[i]);
    for (size_t w = 0; w < plan->worker_count; w++) {
        communication += step->workers[w].communication / workers;
        blocked += step->workers[w].blocked / workers;
    }
    json_object_set_new(line, "messages", json_integer((json_int_t)sum.messages));
    json_object_set_new(line, "message_bytes", json_integer((json_int_t)sum.bytes));
    json_object_set_new(line, "transfer_seconds", json_real(sum.transfer));
    json_object_set_new(line, "exposed_seconds", json_real(communication));
    json_object_set_new(line, "blocked_seconds", json_real(blocked));
    if (plan->partitions <= STAGES_TOLD_APART) json_object_set_new(line, "links", step_links(step, plan->partitions));
}

static void add_reduction(const gp_step_result *step, const gp_plan *plan, json_t *line) {
    double bytes = 0, seconds = 0, exposed = 0, workers = (double)plan->worker_count;
    for (size_t w = 0; w < plan->worker_count; w++) {
        bytes += step->workers[w].bytes_reduced;
        seconds += step->workers[w].reduce / workers;
        exposed += step->workers[w].exposed / workers;
    }
    json_object_set_new(line, "reduce_bytes", json_integer((json_int_t)bytes));
    json_object_set_new(line, "reduce_seconds", json_real(seconds));
    json_object_set_new(line, "exposed_reduce_seconds", json_real(exposed));
}

void gp_traffic_step_json(const gp_traffic *traffic, const gp_plan *plan, json_t *line) {
    if (!traffic->stepped) return;
    if (plan->partitions > 1) add_messages(&traffic->last, plan, line);
    if (plan->replicas > 1) add_reduction(&traffic->last, plan, line);
}

/* ---- the report ---- */

json_t *gp_traffic_json(const gp_traffic *traffic, double steps) {
    json_t *list = json_array();
    for (size_t i = 0; i < traffic->count; i++) {
        const gp_link_times *sum = &traffic->sums[i];
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:f, s:f, s:f, s:f}", "from", sum->from, "to", sum->to,
                                              "what", sum->gradients ? "gradients" : "activations", "messages",
                                              sum->messages / steps, "bytes", sum->bytes / steps, "transfer_seconds",
                                              sum->transfer / steps, "exposed_seconds", sum->exposed / steps));
    }
    return list;
}

void gp_traffic_table(const gp_traffic *traffic, const gp_plan *plan, double steps, gp_page *page) {
    char size[16], from[32], to[32];
    if (traffic->count == 0) return;
    gp_page_add(page, "%17s  %-11s %9s %11s %12s %11s\n", "link", "", "messages", "volume", "transfer ms",
                "exposed ms");
    for (size_t i = 0; i < traffic->count; i++) {
        const gp_link_times *sum = &traffic->sums[i];
        gp_page_add(page, "%6s -> %-6s  %-11s %9.1f %11s %12.3f %11.3f\n",
                    gp_worker_name(plan, (size_t)sum->from, from), gp_worker_name(plan, (size_t)sum->to, to),
                    sum->gradients ? "gradients" : "activations", sum->messages / steps,
                    gp_bytes_format((size_t)(sum->bytes / steps), size, sizeof size), 1e3 * sum->transfer / steps,
                    1e3 * sum->exposed / steps);
    }
}
