/* The public plan: what each worker holds and needs, how long a step should take. */
#include "train/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "train/grid.h"

static gp_status make_schedule(const gp_layout *layout, gp_schedule **schedule) {
    const gp_engine_options *engine = &layout->engine;
    if (!layout->custom)
        return gp_schedule_create(schedule, engine->schedule, (int)engine->stages, engine->micro_batches,
                                  engine->recompute);
    char *text = NULL;
    gp_status status = gp_schedule_format(layout->custom, &text);
    if (status == GP_OK) status = gp_schedule_parse(schedule, text);
    gp_text_free(text);
    return status;
}

static void slow_down(gp_stage_times *times, double speed) {
    times->forward /= speed;
    times->recompute /= speed;
    times->backward /= speed;
}

/* Times the schedule with the measured seconds of the stages, or with FLOPs as if one FLOP were one second. */
static gp_status simulate(gp_plan *plan, const gp_layout *layout, const gp_engine_plan *memory) {
    size_t stages = layout->engine.stages;
    gp_schedule *schedule = NULL;
    gp_simulation simulation = {0};
    gp_stage_times *times = gp_allocate_array(stages, sizeof *times);
    gp_status status = times ? make_schedule(layout, &schedule) : GP_OUT_OF_MEMORY;
    if (status != GP_OK) goto done;
    for (size_t s = 0; s < stages; s++) {
        const gp_worker_plan *worker = &memory->worker[s];
        times[s] = layout->times ? layout->times[s]
                                 : (gp_stage_times){.forward = worker->flops_forward,
                                                    .recompute = worker->flops_recompute,
                                                    .backward = worker->flops_backward};
        slow_down(&times[s], gp_layout_stage_speed(layout, s));
    }
    status = gp_simulate(schedule, times, &simulation, NULL);
    if (status != GP_OK) goto done;
    plan->bubble = simulation.bubble;
    plan->step_seconds = layout->times ? simulation.span : 0;
    for (size_t w = 0; layout->times && stages > 0 && w < plan->worker_count; w++) {
        size_t count, s = w % stages;
        const gp_action *actions = gp_schedule_actions(schedule, (int)s, &count);
        for (size_t a = 0; a < count; a++) {
            plan->workers[w].seconds += actions[a].kind == GP_FORWARD     ? times[s].forward
                                        : actions[a].kind == GP_RECOMPUTE ? times[s].recompute
                                                                          : times[s].backward;
        }
        plan->workers[w].seconds *= gp_layout_stage_speed(layout, s) / plan->workers[w].speed;
    }
done:
    gp_schedule_destroy(schedule);
    gp_free(times);
    return status;
}

static void fill_worker(gp_plan_worker *out, const gp_worker_plan *in, const gp_cluster *cluster, size_t worker,
                        size_t workers) {
    out->first_layer = (size_t)in->first_layer;
    out->last_layer = (size_t)in->last_layer;
    out->parameters = in->parameters;
    out->replica = in->replica;
    out->stage = in->stage;
    out->bytes = (gp_plan_bytes){.parameters = in->bytes.parameters,
                                 .gradients = in->bytes.gradients,
                                 .optimizer = in->bytes.optimizer,
                                 .stash = in->bytes.stash,
                                 .workspace = in->bytes.workspace,
                                 .communication = in->bytes.communication,
                                 .snapshot = in->bytes.snapshot,
                                 .total = in->bytes.total};
    if (!cluster) return;
    out->rank = (int)worker / (int)(workers / (size_t)gp_cluster_ranks(cluster));
    snprintf(out->host, sizeof out->host, "%s", gp_cluster_host(cluster, out->rank));
}

gp_status gp_plan_from_layout(gp_plan **plan, const gp_layout *layout) {
    gp_engine_plan memory = {0};
    gp_plan *made = gp_allocate(sizeof *made);
    gp_status status = made ? GP_OK : GP_OUT_OF_MEMORY;
    *plan = NULL;
    if (status == GP_OK) status = gp_engine_plan_create(&memory, &layout->engine);
    if (status != GP_OK) goto failed;
    made->workers = gp_allocate_array(memory.workers, sizeof *made->workers);
    if (!made->workers) {
        status = GP_OUT_OF_MEMORY;
        goto failed;
    }
    made->worker_count = memory.workers;
    made->replicas = layout->engine.replicas;
    made->partitions = (int)layout->engine.stages;
    made->parameters = gp_model_parameter_count(layout->engine.model);
    made->bubble_formula = gp_bubble_formula((int)layout->engine.stages, layout->engine.micro_batches);
    made->fits = true;
    for (size_t w = 0; w < memory.workers; w++) {
        gp_plan_worker *worker = &made->workers[w];
        fill_worker(worker, &memory.worker[w], layout->engine.cluster, w, memory.workers);
        worker->limit = gp_layout_limit(layout, w);
        worker->speed = layout->speeds ? layout->speeds[w] : 1;
        if (worker->limit && worker->bytes.total > worker->limit) made->fits = false;
        if (worker->limit && (made->limit == 0 || worker->limit < made->limit)) made->limit = worker->limit;
    }
    status = simulate(made, layout, &memory);
    if (status != GP_OK) goto failed;
    gp_engine_plan_destroy(&memory);
    *plan = made;
    return GP_OK;
failed:
    gp_engine_plan_destroy(&memory);
    gp_plan_destroy(made);
    return status;
}

gp_status gp_plan_create(gp_plan **plan, const gp_model *model, const gp_pipeline_options *pipeline,
                         const gp_optimizer_options *optimizer) {
    gp_optimizer_options resolved;
    gp_layout layout = {0};
    *plan = NULL;
    if (optimizer) GP_TRY(gp_optimizer_resolve(optimizer, &resolved));
    GP_TRY(gp_grid_compare(model, pipeline, optimizer ? &resolved : NULL, 0));
    GP_TRY(gp_layout_create(&layout, model, pipeline, optimizer ? &resolved : NULL));
    gp_status status = gp_plan_from_layout(plan, &layout);
    gp_layout_destroy(&layout);
    return status;
}

void gp_plan_destroy(gp_plan *plan) {
    if (!plan) return;
    gp_free(plan->workers);
    gp_free(plan);
}
