/* Workers that differ: how fast each is and how much memory it may use, given for the stages or for all workers. A
 * stage has one cut in all replicas, so the slowest and the smallest of its workers count. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"
#include "train/grid.h"
#include "train/plan.h"

static size_t worker_count(const gp_layout *layout) {
    return layout->engine.stages * (size_t)layout->engine.replicas;
}

/* The entry of a list that is a worker's: there is one for each stage, or for each worker. */
static size_t entry_of(const gp_layout *layout, size_t count, size_t worker) {
    return count == layout->engine.stages ? worker % layout->engine.stages : worker;
}

static gp_status check_count(const gp_layout *layout, const char *key, size_t count) {
    size_t stages = layout->engine.stages, workers = worker_count(layout);
    if (count == stages || count == workers) return GP_OK;
    if (workers == stages)
        return gp_error(GP_INVALID, "%s has %zu entr%s; %zu, one for each partition, %s accepted", key, count,
                        count == 1 ? "y" : "ies", stages, stages == 1 ? "is" : "are");
    return gp_error(GP_INVALID,
                    "%s has %zu entr%s; %zu, one for each partition, or %zu, one for each worker (replica by replica), "
                    "are accepted",
                    key, count, count == 1 ? "y" : "ies", stages, workers);
}

static gp_status read_limits(gp_layout *layout, const gp_pipeline_options *pipeline) {
    size_t workers = worker_count(layout), count = pipeline->memory_limit_count;
    if (!pipeline->memory_limits) return GP_OK;
    GP_TRY(check_count(layout, "device.memory", count));
    layout->limits = gp_allocate_array(workers, sizeof *layout->limits);
    if (!layout->limits) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < workers; w++)
        layout->limits[w] = pipeline->memory_limits[entry_of(layout, count, w)];
    layout->engine.limits = layout->limits;
    return GP_OK;
}

static gp_status read_speeds(gp_layout *layout, const gp_pipeline_options *pipeline) {
    size_t workers = worker_count(layout), count = pipeline->speed_count;
    if (!pipeline->speeds) return GP_OK;
    GP_TRY(check_count(layout, "pipeline.speeds", count));
    layout->speeds = gp_allocate_array(workers, sizeof *layout->speeds);
    if (!layout->speeds) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < workers; w++) {
        double speed = pipeline->speeds[entry_of(layout, count, w)];
        if (!(speed >= 1e-3 && speed <= 1e3))
            return gp_error(GP_INVALID, "pipeline.speeds: the speed of worker %zu is %g; 0.001 to 1000 is accepted", w,
                            speed);
        layout->speeds[w] = speed;
    }
    return GP_OK;
}

gp_status gp_layout_read_workers(gp_layout *layout, const gp_pipeline_options *pipeline) {
    GP_TRY(read_limits(layout, pipeline));
    return read_speeds(layout, pipeline);
}

gp_status gp_layout_take_speeds(gp_layout *layout, const double *ranks) {
    size_t workers = worker_count(layout);
    size_t each = workers / (size_t)gp_cluster_ranks(layout->engine.cluster);
    layout->speeds = gp_allocate_array(workers, sizeof *layout->speeds);
    if (!layout->speeds) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < workers; w++)
        layout->speeds[w] = ranks[w / each];
    return GP_OK;
}

/* ---- stages ---- */

double gp_layout_stage_speed(const gp_layout *layout, size_t stage) {
    double slowest = INFINITY;
    if (!layout->speeds) return 1;
    for (size_t w = stage; w < worker_count(layout); w += layout->engine.stages)
        slowest = fmin(slowest, layout->speeds[w]);
    return slowest;
}

gp_status gp_layout_stage_speeds(const gp_layout *layout, double **speeds) {
    *speeds = NULL;
    if (!layout->speeds) return GP_OK;
    *speeds = gp_allocate_array(layout->engine.stages, sizeof **speeds);
    if (!*speeds) return GP_OUT_OF_MEMORY;
    for (size_t s = 0; s < layout->engine.stages; s++)
        (*speeds)[s] = gp_layout_stage_speed(layout, s);
    return GP_OK;
}

size_t gp_layout_limit(const gp_layout *layout, size_t worker) {
    return layout->limits ? layout->limits[worker] : layout->engine.device.memory;
}

double gp_layout_stage_limit(const gp_layout *layout, size_t stage) {
    double smallest = INFINITY;
    for (size_t w = stage; w < worker_count(layout); w += layout->engine.stages)
        if (gp_layout_limit(layout, w) > 0) smallest = fmin(smallest, (double)gp_layout_limit(layout, w));
    return smallest;
}
