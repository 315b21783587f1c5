/* The simulator: when each action of a schedule starts, given how long a stage takes. It runs the very lists that the
 * engine runs, over links that never make a sender wait, and so gives the shortest step that a schedule allows. */
#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/schedule.h"

/* Arrival times of messages, indexed by link * micro_batches + micro-batch; negative: not sent yet. Link l joins stages
 * l and l + 1. */
typedef struct clock_table {
    const gp_schedule *schedule;
    const gp_stage_times *times;
    double *const *starts;
    double *activation;      /* of stage l's F at stage l + 1 */
    double *gradient;        /* of stage l + 1's B at stage l */
    double *activation_free; /* per link: when it can carry the next message */
    double *gradient_free;
    double *worker_free; /* per worker */
    size_t *next;        /* per worker: first action not yet timed */
    double busy;
} clock_table;

static void clocks_free(clock_table *clocks) {
    gp_free(clocks->activation);
    gp_free(clocks->gradient);
    gp_free(clocks->activation_free);
    gp_free(clocks->gradient_free);
    gp_free(clocks->worker_free);
    gp_free(clocks->next);
}

static gp_status clocks_allocate(clock_table *clocks) {
    size_t stages = (size_t)clocks->schedule->stages;
    size_t messages = (stages - 1) * (size_t)clocks->schedule->micro_batches;
    clocks->activation = gp_allocate_array(messages, sizeof(double));
    clocks->gradient = gp_allocate_array(messages, sizeof(double));
    clocks->activation_free = gp_allocate_array(stages, sizeof(double));
    clocks->gradient_free = gp_allocate_array(stages, sizeof(double));
    clocks->worker_free = gp_allocate_array(stages, sizeof(double));
    clocks->next = gp_allocate_array(stages, sizeof(size_t));
    if (!clocks->activation || !clocks->gradient || !clocks->activation_free || !clocks->gradient_free ||
        !clocks->worker_free || !clocks->next)
        return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < messages; i++)
        clocks->activation[i] = clocks->gradient[i] = -1;
    return GP_OK;
}

static double *message(const clock_table *clocks, double *times, int link, int micro_batch) {
    return times + (size_t)link * (size_t)clocks->schedule->micro_batches + micro_batch;
}

/* When the input of an action is there; negative: its sender has not been timed yet. */
static double input_time(const clock_table *clocks, gp_action action) {
    int stage = action.stage;
    if (action.kind == GP_FORWARD && stage > 0)
        return *message(clocks, clocks->activation, stage - 1, action.micro_batch);
    if (action.kind == GP_BACKWARD && stage < clocks->schedule->stages - 1)
        return *message(clocks, clocks->gradient, stage, action.micro_batch);
    return 0;
}

static void transfer(double *link_free, double *arrival, double sent, double seconds) {
    *arrival = fmax(sent, *link_free) + seconds;
    *link_free = *arrival;
}

/* Sends what an action has made, at its end. */
static void output(clock_table *clocks, gp_action action, double end) {
    int stage = action.stage;
    double seconds = clocks->times[stage].transfer;
    if (action.kind == GP_FORWARD && stage < clocks->schedule->stages - 1)
        transfer(&clocks->activation_free[stage], message(clocks, clocks->activation, stage, action.micro_batch), end,
                 seconds);
    if (action.kind == GP_BACKWARD && stage > 0)
        transfer(&clocks->gradient_free[stage - 1], message(clocks, clocks->gradient, stage - 1, action.micro_batch),
                 end, seconds);
}

static double duration(const gp_stage_times *times, gp_action_kind kind) {
    return kind == GP_FORWARD ? times->forward : kind == GP_RECOMPUTE ? times->recompute : times->backward;
}

/* Times a worker's actions up to the first whose input is not there. Returns whether any was timed. */
static bool advance(clock_table *clocks, int worker) {
    size_t count, begun = clocks->next[worker];
    const gp_action *actions = gp_schedule_actions(clocks->schedule, worker, &count);
    for (; clocks->next[worker] < count; clocks->next[worker]++) {
        gp_action action = actions[clocks->next[worker]];
        double input = input_time(clocks, action);
        if (input < 0) break;
        double start = fmax(clocks->worker_free[worker], input);
        double seconds = duration(&clocks->times[worker], action.kind);
        if (clocks->starts) clocks->starts[worker][clocks->next[worker]] = start;
        clocks->worker_free[worker] = start + seconds;
        clocks->busy += seconds;
        output(clocks, action, start + seconds);
    }
    return clocks->next[worker] > begun;
}

/* Sweeps over the workers, there and back, until nothing moves: activations travel one way and gradients the other, so
 * each sweep carries them as far as they go. */
static gp_status run(clock_table *clocks) {
    int stages = clocks->schedule->stages;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int worker = 0; worker < stages; worker++)
            moved |= advance(clocks, worker);
        for (int worker = stages - 2; worker >= 0; worker--)
            moved |= advance(clocks, worker);
    }
    for (int worker = 0; worker < stages; worker++) {
        size_t count;
        const gp_action *actions = gp_schedule_actions(clocks->schedule, worker, &count);
        if (clocks->next[worker] == count) continue;
        gp_action stuck = actions[clocks->next[worker]];
        return gp_error(GP_INVALID,
                        "the schedule cannot finish: worker %d, position %zu: the input of %s%d never comes", worker,
                        clocks->next[worker], gp_action_text(stuck.kind), stuck.micro_batch);
    }
    return GP_OK;
}

static gp_status check_times(const gp_schedule *schedule, const gp_stage_times *times) {
    if (!times) return gp_error(GP_INVALID, "a simulation needs the times of every stage");
    for (int stage = 0; stage < schedule->stages; stage++) {
        double values[] = {times[stage].forward, times[stage].recompute, times[stage].backward, times[stage].transfer};
        for (int i = 0; i < 4; i++)
            if (!isfinite(values[i]) || values[i] < 0)
                return gp_error(GP_INVALID, "stage %d: a time of %g seconds; accepted are 0 and more", stage,
                                values[i]);
    }
    return GP_OK;
}

gp_status gp_simulate(const gp_schedule *schedule, const gp_stage_times *times, gp_simulation *simulation,
                      double *const *starts) {
    GP_TRY(check_times(schedule, times));
    if (gp_schedule_has_messages(schedule))
        return gp_error(GP_INVALID, "the schedule has sends or receives; the simulator takes the one without");
    if ((size_t)schedule->stages * (size_t)schedule->micro_batches > schedule->first[schedule->stages])
        return gp_error(GP_INVALID, "the schedule has fewer actions than stages times micro-batches: it is incomplete");
    clock_table clocks = {.schedule = schedule, .times = times, .starts = starts};
    gp_status status = clocks_allocate(&clocks);
    if (status == GP_OK) status = run(&clocks);
    if (status == GP_OK) {
        simulation->span = 0;
        for (int worker = 0; worker < schedule->stages; worker++)
            simulation->span = fmax(simulation->span, clocks.worker_free[worker]);
        double whole = simulation->span * schedule->stages;
        simulation->bubble = whole > 0 ? fmax(0, 1 - clocks.busy / whole) : 0;
        if (!isfinite(whole) || !isfinite(clocks.busy))
            status = gp_error(GP_INVALID, "the times of the stages are too large: their sum is no number any more");
    }
    clocks_free(&clocks);
    return status;
}
