/* Lowering: a schedule of computations becomes one with the sends and receives that they need. A pass of its own, so
 * that generators and files speak of computations only. */
#include "base/status.h"
#include "pipeline/schedule.h"

/* Appends one compute action with its messages. The gradient is received between R and B: recomputing needs none, so R
 * runs while the gradient is still on its way (early recompute). */
static gp_action *lower_action(gp_action *out, gp_action action, int last_stage) {
    int stage = action.stage, micro_batch = action.micro_batch;
    bool forward = action.kind == GP_FORWARD, backward = action.kind == GP_BACKWARD;
    if (forward && stage > 0) *out++ = (gp_action){GP_RECEIVE_FORWARD, stage, micro_batch};
    if (backward && stage < last_stage) *out++ = (gp_action){GP_RECEIVE_BACKWARD, stage, micro_batch};
    *out++ = action;
    if (forward && stage < last_stage) *out++ = (gp_action){GP_SEND_FORWARD, stage, micro_batch};
    if (backward && stage > 0) *out++ = (gp_action){GP_SEND_BACKWARD, stage, micro_batch};
    return out;
}

static size_t lowered_count(const gp_schedule *schedule) {
    size_t total = schedule->first[schedule->stages], count = total;
    for (size_t i = 0; i < total; i++) {
        gp_action action = schedule->actions[i];
        if (action.kind != GP_RECOMPUTE) count += (size_t)(action.stage > 0) + (action.stage < schedule->stages - 1);
    }
    return count;
}

gp_status gp_schedule_lower(const gp_schedule *schedule, gp_schedule **lowered) {
    *lowered = NULL;
    if (gp_schedule_has_messages(schedule))
        return gp_error(GP_INVALID, "the schedule has sends or receives already; only one without is lowered");
    size_t count = lowered_count(schedule);
    GP_TRY(gp_schedule_check_size(schedule->stages, schedule->micro_batches, count));
    gp_schedule *made = gp_schedule_allocate(schedule->stages, schedule->micro_batches, count);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_action *out = made->actions;
    for (int worker = 0; worker < schedule->stages; worker++) {
        for (size_t i = schedule->first[worker]; i < schedule->first[worker + 1]; i++)
            out = lower_action(out, schedule->actions[i], schedule->stages - 1);
        made->first[worker + 1] = (size_t)(out - made->actions);
    }
    *lowered = made;
    return GP_OK;
}
