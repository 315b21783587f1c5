/* From schedules to what workers run. */
#include "pipeline/agenda.h"

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"
#include "pipeline/schedule.h"

/* The computations of the first micro-batches of a schedule from outside. Sends and receives are left out: a worker
 * sends right after it computed and receives right before, which is no later and no earlier than any list can demand.
 * What is left of a schedule when its last micro-batches are taken away is proved again by the caller. */
static gp_status take_computations(gp_schedule **taken, const gp_schedule *from, int micro_batches) {
    size_t total = from->first[from->stages];
    gp_schedule *made = gp_schedule_allocate(from->stages, micro_batches, total);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_action *out = made->actions;
    for (int worker = 0; worker < from->stages; worker++) {
        for (size_t i = from->first[worker]; i < from->first[worker + 1]; i++) {
            gp_action action = from->actions[i];
            if (gp_action_computes(action.kind) && action.micro_batch < micro_batches) *out++ = action;
        }
        made->first[worker + 1] = (size_t)(out - made->actions);
    }
    *taken = made;
    return GP_OK;
}

static gp_status check_custom(const gp_engine_options *options) {
    const gp_schedule *custom = options->custom;
    if ((size_t)custom->stages != options->stages)
        return gp_error(GP_INVALID, "the schedule is for %d worker%s, the pipeline has %zu", custom->stages,
                        gp_plural(custom->stages, "s"), options->stages);
    bool whole = custom->micro_batches == options->micro_batches;
    int64_t share = (options->batch - 1) / options->replicas + 1; /* the largest of a replica */
    bool limited_by_batch = custom->micro_batches > options->micro_batches && options->micro_batches == share;
    if (!whole && !limited_by_batch)
        return gp_error(GP_INVALID, "the schedule is for %d micro-batch%s, the pipeline has %d", custom->micro_batches,
                        gp_plural(custom->micro_batches, "es"), options->micro_batches);
    return GP_OK;
}

static gp_status create_schedule(gp_schedule **schedule, const gp_engine_options *options, int micro_batches) {
    if (!options->custom)
        return gp_schedule_create(schedule, options->schedule, (int)options->stages, micro_batches, options->recompute);
    GP_TRY(check_custom(options));
    return take_computations(schedule, options->custom, micro_batches);
}

gp_status gp_agenda_create(gp_agenda **agenda, const gp_engine_options *options, int micro_batches) {
    *agenda = NULL;
    gp_agenda *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->micro_batches = micro_batches;
    gp_status status = create_schedule(&made->schedule, options, micro_batches);
    if (status == GP_OK) status = gp_error_within(gp_schedule_check(made->schedule, 0), "the schedule cannot run");
    if (status == GP_OK) {
        made->recomputed = gp_allocate_array(options->stages * (size_t)micro_batches, sizeof *made->recomputed);
        if (!made->recomputed) status = GP_OUT_OF_MEMORY;
    }
    if (status != GP_OK) {
        gp_agenda_destroy(made);
        return status;
    }
    for (size_t i = 0; i < made->schedule->first[made->schedule->stages]; i++) {
        gp_action action = made->schedule->actions[i];
        if (action.kind == GP_RECOMPUTE) made->recomputed[action.stage * micro_batches + action.micro_batch] = true;
    }
    *agenda = made;
    return GP_OK;
}

void gp_agenda_destroy(gp_agenda *agenda) {
    if (!agenda) return;
    gp_schedule_destroy(agenda->schedule);
    gp_free(agenda->recomputed);
    gp_free(agenda);
}
