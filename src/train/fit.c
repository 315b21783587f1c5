/* A partition that keeps the memory limit, when the one that is balanced by time does not.
 *
 * What a stage needs is not the sum of what its layers need: workspace is shared, links and stash depend on where the
 * cuts are. But the plan of a partition is exact, and costs milliseconds. So bytes of layers start as those of a layer
 * that is a stage of its own, the partition whose largest stage has fewest bytes is planned, and the bytes of each
 * stage's layers are scaled to what the plan says; a few rounds of that equalise the stages, each relative to its
 * limit. Where that leaves stages over their limits, single layers move towards the side where there is more room. Time
 * counts again at the end: with the bytes that were found, the fastest partition within the limit is tried once more.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "train/plan.h"

enum { ROUNDS = 8, MOST_MOVES = 24 };

typedef struct fitting {
    gp_layout *layout;
    const double *costs, *cut_costs;
    size_t layers, stages;
    double *bytes;  /* of each layer, as far as is known */
    double *limits; /* of each stage; infinite: none */
    double *speeds; /* of each stage; NULL: all are alike */
    double *shares; /* of each stage: how much of the memory is to be its */
    size_t *before; /* bounds of the partition before the last move */
    double *needs;  /* bytes of each stage of the partition that was planned last */
    size_t *bounds; /* of the partition that is tried */
    size_t *kept;   /* of the best one that fits */
    bool found, hopeless, far_off;
} fitting;

/* Bytes of each layer when it is a stage of its own. */
static gp_status layer_bytes(const gp_layout *layout, double *bytes) {
    size_t layers = gp_model_layer_count(layout->engine.model);
    gp_engine_options single = layout->engine;
    gp_engine_plan plan = {0};
    gp_status status = GP_OK;
    size_t *bounds = gp_allocate_array(layers + 1, sizeof *bounds);
    if (!bounds) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i <= layers; i++) {
        bounds[i] = i;
    }
    single.stages = layers;
    single.bounds = bounds;
    single.custom = NULL;
    single.replicas = 1;
    single.limits = NULL;
    single.cluster = NULL; /* every rank works it out alike */
    single.batch = (single.batch - 1) / layout->engine.replicas + 1;
    status = gp_engine_plan_create(&plan, &single);
    for (size_t i = 0; status == GP_OK && i < layers; i++) {
        bytes[i] = (double)plan.worker[i].bytes.total;
    }
    gp_engine_plan_destroy(&plan);
    gp_free(bounds);
    return status;
}

bool gp_layout_fits(const gp_layout *layout) {
    gp_engine_plan plan = {0};
    bool result = true;
    if (!layout->limits && layout->engine.device.memory == 0) return true;
    if (gp_engine_plan_create(&plan, &layout->engine) != GP_OK) return true;
    for (size_t w = 0; w < plan.workers; w++) {
        size_t limit = gp_layout_limit(layout, w);
        result = result && (limit == 0 || plan.worker[w].bytes.total <= limit);
    }
    gp_engine_plan_destroy(&plan);
    return result;
}

/* Scales the bytes of a stage's layers to what the plan says that it needs. */
static void correct(fitting *f, const gp_worker_plan *worker) {
    double sum = 0;
    for (int32_t l = worker->first_layer; l <= worker->last_layer; l++)
        sum += f->bytes[l];
    for (int32_t l = worker->first_layer; sum > 0 && l <= worker->last_layer; l++)
        f->bytes[l] *= (double)worker->bytes.total / sum;
}

/* Plans f->bounds, learns from it, and keeps it when it fits. */
static gp_status try_bounds(fitting *f) {
    gp_engine_plan plan = {0};
    double sum = 0, allowed = 0;
    bool fits = true;
    gp_engine_options options = f->layout->engine;
    options.bounds = f->bounds;
    options.cluster = NULL;
    gp_status status = gp_engine_plan_create(&plan, &options);
    for (size_t w = 0; status == GP_OK && w < f->stages; w++) { /* replicas need the same */
        correct(f, &plan.worker[w]);
        fits = fits && (double)plan.worker[w].bytes.total <= f->limits[w];
        allowed += f->limits[w];
        f->needs[w] = (double)plan.worker[w].bytes.total;
        sum += (double)plan.worker[w].bytes.total;
    }
    gp_engine_plan_destroy(&plan);
    f->hopeless = sum > allowed;
    f->far_off = sum > 1.2 * allowed; /* another partition may need somewhat less in all */
    if (status == GP_OK && fits) {
        memcpy(f->kept, f->bounds, (f->stages + 1) * sizeof *f->kept);
        f->found = true;
    }
    return status;
}

/* The fastest partition that keeps the limit as far as the bytes are known. None is no error. */
static gp_status try_fastest(fitting *f) {
    gp_partition_options options = {
        .cut_costs = f->cut_costs, .memory = f->bytes, .limits = f->limits, .speeds = f->speeds};
    gp_status status = gp_partition(f->costs, f->layers, f->stages, &options, f->bounds);
    if (status == GP_DOES_NOT_FIT) return GP_OK;
    return status == GP_OK ? try_bounds(f) : status;
}

/* By the limits, none being all that there is; a stage with next to nothing is hopeless anyway. */
static void set_shares(fitting *f) {
    double all = 0, most = 0;
    for (size_t i = 0; i < f->layers; i++)
        all += f->bytes[i];
    for (size_t s = 0; s < f->stages; s++)
        most = fmax(most, fmin(f->limits[s], all));
    for (size_t s = 0; s < f->stages; s++)
        f->shares[s] = most > 0 ? fmax(fmin(f->limits[s], all) / most, 1e-5) : 1;
}

/* Bytes that the stages from `first` to before `end` may use and do not. */
static double room_in(const fitting *f, size_t first, size_t end) {
    double room = 0;
    for (size_t s = first; s < end; s++)
        room += f->limits[s] - f->needs[s];
    return room;
}

/* The stage that is furthest over its limit gives a layer away; false: it has one only, or none is over, or it would
 * only give back what it has just been given. */
static bool move_a_layer(fitting *f) {
    size_t over = 0, bytes = (f->stages + 1) * sizeof *f->bounds;
    for (size_t s = 1; s < f->stages; s++)
        if (f->needs[s] / f->limits[s] > f->needs[over] / f->limits[over]) over = s;
    if (f->needs[over] <= f->limits[over] || f->bounds[over + 1] - f->bounds[over] < 2) return false;
    bool back = over + 1 == f->stages || (over > 0 && room_in(f, 0, over) > room_in(f, over + 1, f->stages));
    size_t end = back ? over : over + 1, moved = back ? f->bounds[end] + 1 : f->bounds[end] - 1;
    size_t kept = f->bounds[end];
    f->bounds[end] = moved;
    bool again = memcmp(f->before, f->bounds, bytes) == 0;
    memcpy(f->before, f->bounds, bytes);
    f->before[end] = kept;
    return !again;
}

static gp_status search(fitting *f) {
    GP_TRY(layer_bytes(f->layout, f->bytes));
    for (size_t s = 0; s < f->stages; s++)
        f->limits[s] = gp_layout_stage_limit(f->layout, s);
    GP_TRY(try_fastest(f));
    if (f->found) return GP_OK;
    for (int round = 0; round < ROUNDS && !f->found && !f->hopeless; round++) {
        set_shares(f);
        GP_TRY(gp_partition(f->bytes, f->layers, f->stages, &(gp_partition_options){.speeds = f->shares}, f->bounds));
        GP_TRY(try_bounds(f));
    }
    for (int moves = 0; moves < MOST_MOVES && !f->found && !f->far_off && move_a_layer(f); moves++)
        GP_TRY(try_bounds(f));
    return f->found ? try_fastest(f) : GP_OK;
}

gp_status gp_layout_fit_memory(gp_layout *layout, const double *costs, const double *cut_costs) {
    size_t layers = gp_model_layer_count(layout->engine.model), stages = layout->engine.stages;
    fitting f = {.layout = layout,
                 .costs = costs,
                 .cut_costs = cut_costs,
                 .layers = layers,
                 .stages = stages,
                 .bytes = gp_allocate_array(layers, sizeof *f.bytes),
                 .limits = gp_allocate_array(stages, sizeof *f.limits),
                 .shares = gp_allocate_array(stages, sizeof *f.shares),
                 .before = gp_allocate_array(stages + 1, sizeof *f.before),
                 .needs = gp_allocate_array(stages, sizeof *f.needs),
                 .bounds = gp_allocate_array(stages + 1, sizeof *f.bounds),
                 .kept = gp_allocate_array(stages + 1, sizeof *f.kept)};
    gp_status status =
        f.bytes && f.limits && f.shares && f.before && f.needs && f.bounds && f.kept ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = gp_layout_stage_speeds(layout, &f.speeds);
    if (status == GP_OK) status = search(&f);
    if (status == GP_OK && f.found) memcpy(layout->bounds, f.kept, (stages + 1) * sizeof *f.kept);
    gp_free(f.bytes);
    gp_free(f.limits);
    gp_free(f.speeds);
    gp_free(f.shares);
    gp_free(f.before);
    gp_free(f.needs);
    gp_free(f.bounds);
    gp_free(f.kept);
    return status;
}
