/* What a worker's links carried in a step, and how long it waited for them. The world counts; here the counts become
 * those of the step: what evaluations have sent in between is thrown away at its beginning. */
#include "base/memory.h"
#include "pipeline/worker.h"

static int number_of(const gp_worker *worker, size_t stage) {
    return (int)(worker->replica * worker->engine->options.stages + stage);
}

gp_status gp_worker_list_links(gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    worker->links = gp_allocate_array(stage->before_count + stage->after_count, sizeof *worker->links);
    worker->link_count = 0;
    if (!worker->links) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < stage->before_count; i++)
        worker->links[worker->link_count++] =
            (gp_link_times){.from = number_of(worker, stage->before[i].stage), .to = worker->number};
    for (size_t i = 0; i < stage->after_count; i++)
        if (stage->after[i].gradients)
            worker->links[worker->link_count++] = (gp_link_times){
                .from = number_of(worker, stage->after[i].stage), .to = worker->number, .gradients = true};
    return GP_OK;
}

static void take(gp_worker *worker, gp_link *link, gp_link_times *times) {
    gp_link_figures figures;
    gp_link_take_figures(link, &figures);
    times->messages = figures.messages;
    times->bytes = figures.bytes;
    times->transfer = figures.transfer;
    times->exposed = figures.exposed;
    worker->times.communication += figures.exposed;
}

void gp_worker_take_links(gp_worker *worker) {
    const gp_stage *stage = worker->stage;
    size_t at = 0;
    worker->times.communication = worker->times.blocked = 0;
    for (size_t i = 0; i < stage->before_count; i++) {
        take(worker, worker->forward_in[i], &worker->links[at++]);
        if (worker->gradient_out[i]) worker->times.blocked += gp_link_take_blocked(worker->gradient_out[i]);
    }
    for (size_t i = 0; i < stage->after_count; i++) {
        if (worker->gradient_in[i]) take(worker, worker->gradient_in[i], &worker->links[at++]);
        worker->times.blocked += gp_link_take_blocked(worker->forward_out[i]);
    }
}
