/* The checker, first half: what can be seen worker by worker and link by link. The second half, schedule_deadlock.c,
 * runs the lists. Reports the first thing that is wrong with worker, position and reason. */
#include "base/memory.h"
#include "base/status.h"
#include "pipeline/schedule.h"

#define ABSENT SIZE_MAX

typedef struct check_state {
    const gp_schedule *schedule;
    bool messages;     /* the schedule has sends and receives: all of them are wanted */
    size_t *positions; /* of the worker being checked: [kind][micro-batch], ABSENT when not seen yet */
} check_state;

static size_t *position_of(const check_state *checker, gp_action_kind kind, int micro_batch) {
    return checker->positions + (size_t)kind * (size_t)checker->schedule->micro_batches + micro_batch;
}

static gp_status bad(int worker, size_t position, gp_action action, const char *reason) {
    return gp_error(GP_INVALID, "worker %d, position %zu (%s%d): %s", worker, position, gp_action_text(action.kind),
                    action.micro_batch, reason);
}

/* ---- one worker ---- */

/* Whether a worker's list must have the action, may have it (R), or must not because it has no such neighbour. */
typedef enum action_need { NEEDED, POSSIBLE, NO_NEIGHBOUR } action_need;

static action_need need_of(const check_state *checker, gp_action_kind kind, int worker) {
    bool is_first = worker == 0, is_last = worker == checker->schedule->stages - 1;
    switch (kind) {
    case GP_FORWARD:
    case GP_BACKWARD:
        return NEEDED;
    case GP_SEND_FORWARD:
    case GP_RECEIVE_BACKWARD:
        return is_last ? NO_NEIGHBOUR : checker->messages ? NEEDED : POSSIBLE;
    case GP_RECEIVE_FORWARD:
    case GP_SEND_BACKWARD:
        return is_first ? NO_NEIGHBOUR : checker->messages ? NEEDED : POSSIBLE;
    case GP_RECOMPUTE:
    case GP_ACTION_KINDS:
        break;
    }
    return POSSIBLE;
}

/* Notes where each action stands; each must be possible and new. */
static gp_status check_places(const check_state *checker, int worker) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(checker->schedule, worker, &count);
    for (size_t i = 0; i < (size_t)GP_ACTION_KINDS * (size_t)checker->schedule->micro_batches; i++)
        checker->positions[i] = ABSENT;
    for (size_t i = 0; i < count; i++) {
        gp_action action = actions[i];
        if ((unsigned)action.kind >= GP_ACTION_KINDS) return bad(worker, i, action, "no such kind of action");
        if (action.stage != worker) return bad(worker, i, action, "the stage belongs to another worker");
        if (action.micro_batch < 0 || action.micro_batch >= checker->schedule->micro_batches)
            return bad(worker, i, action, "no such micro-batch");
        if (need_of(checker, action.kind, worker) == NO_NEIGHBOUR)
            return bad(worker, i, action, "there is no worker on that side");
        size_t *position = position_of(checker, action.kind, action.micro_batch);
        if (*position != ABSENT) return bad(worker, i, action, "the action is there twice");
        *position = i;
    }
    return GP_OK;
}

static gp_status check_complete(const check_state *checker, int worker) {
    for (int micro_batch = 0; micro_batch < checker->schedule->micro_batches; micro_batch++)
        for (int k = 0; k < GP_ACTION_KINDS; k++) {
            gp_action_kind kind = (gp_action_kind)k;
            if (need_of(checker, kind, worker) != NEEDED || *position_of(checker, kind, micro_batch) != ABSENT)
                continue;
            size_t count;
            (void)gp_schedule_actions(checker->schedule, worker, &count);
            return gp_error(GP_INVALID, "worker %d, position %zu (end of the list): %s%d is missing", worker, count,
                            gp_action_text(kind), micro_batch);
        }
    return GP_OK;
}

/* Within a micro-batch the left action comes before the right one where a worker has both. */
static const gp_action_kind order[][2] = {{GP_RECEIVE_FORWARD, GP_FORWARD},   {GP_FORWARD, GP_SEND_FORWARD},
                                          {GP_FORWARD, GP_RECOMPUTE},         {GP_FORWARD, GP_BACKWARD},
                                          {GP_RECOMPUTE, GP_BACKWARD},        {GP_FORWARD, GP_RECEIVE_BACKWARD},
                                          {GP_RECEIVE_BACKWARD, GP_BACKWARD}, {GP_BACKWARD, GP_SEND_BACKWARD}};

static gp_status check_order(const check_state *checker, int worker) {
    for (int micro_batch = 0; micro_batch < checker->schedule->micro_batches; micro_batch++)
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
            size_t before = *position_of(checker, order[i][0], micro_batch);
            size_t after = *position_of(checker, order[i][1], micro_batch);
            if (before == ABSENT || after == ABSENT || before < after) continue;
            return gp_error(
                GP_INVALID, "worker %d, position %zu (%s%d): must come after %s%d, which is at position %zu", worker,
                after, gp_action_text(order[i][1]), micro_batch, gp_action_text(order[i][0]), micro_batch, before);
        }
    return GP_OK;
}

/* What R makes is held until its B, in memory that is planned once a worker: so nothing is computed in between. */
static gp_status check_recompute(const check_state *checker, int worker) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(checker->schedule, worker, &count);
    const gp_action *recompute = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!gp_action_computes(actions[i].kind)) continue;
        if (recompute && (actions[i].kind != GP_BACKWARD || actions[i].micro_batch != recompute->micro_batch))
            return bad(worker, i, actions[i], "nothing may be computed between a recompute and its backward");
        recompute = actions[i].kind == GP_RECOMPUTE ? &actions[i] : NULL;
    }
    if (recompute) return bad(worker, (size_t)(recompute - actions), *recompute, "no backward follows the recompute");
    return GP_OK;
}

static gp_status check_in_flight(const check_state *checker, int worker, int most) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(checker->schedule, worker, &count);
    int in_flight = 0;
    for (size_t i = 0; i < count; i++) {
        in_flight += (actions[i].kind == GP_FORWARD) - (actions[i].kind == GP_BACKWARD);
        if (most > 0 && in_flight > most)
            return gp_error(GP_INVALID,
                            "worker %d, position %zu (F%d): %d micro-batches are in flight; accepted are %d", worker, i,
                            actions[i].micro_batch, in_flight, most);
    }
    return GP_OK;
}

/* ---- one link ---- */

/* The next action of a kind from *at on; the list has one. */
static gp_action next_of_kind(const gp_action *actions, gp_action_kind kind, size_t *at) {
    while (actions[*at].kind != kind)
        ++*at;
    return actions[(*at)++];
}

/* Messages carry no name: the n-th sent is the n-th received. */
static gp_status check_link(const check_state *checker, int from, gp_action_kind send, int to, gp_action_kind receive) {
    size_t count, sent = 0, received = 0;
    const gp_action *sends = gp_schedule_actions(checker->schedule, from, &count);
    const gp_action *receives = gp_schedule_actions(checker->schedule, to, &count);
    for (int i = 0; i < checker->schedule->micro_batches; i++) {
        gp_action there = next_of_kind(sends, send, &sent), here = next_of_kind(receives, receive, &received);
        if (there.micro_batch != here.micro_batch)
            return gp_error(
                GP_INVALID,
                "worker %d, position %zu (%s%d): message %d from worker %d is that of %s%d: both sides of a "
                "link must have one order",
                to, received - 1, gp_action_text(here.kind), here.micro_batch, i, from, gp_action_text(there.kind),
                there.micro_batch);
    }
    return GP_OK;
}

static gp_status check_links(const check_state *checker) {
    bool messages = checker->messages;
    for (int worker = 0; worker + 1 < checker->schedule->stages; worker++) {
        GP_TRY(check_link(checker, worker, messages ? GP_SEND_FORWARD : GP_FORWARD, worker + 1,
                          messages ? GP_RECEIVE_FORWARD : GP_FORWARD));
        GP_TRY(check_link(checker, worker + 1, messages ? GP_SEND_BACKWARD : GP_BACKWARD, worker,
                          messages ? GP_RECEIVE_BACKWARD : GP_BACKWARD));
    }
    return GP_OK;
}

/* ---- all of it ---- */

static gp_status check_workers(const check_state *checker, int most_in_flight) {
    for (int worker = 0; worker < checker->schedule->stages; worker++) {
        GP_TRY(check_places(checker, worker));
        GP_TRY(check_complete(checker, worker));
        GP_TRY(check_order(checker, worker));
        GP_TRY(check_recompute(checker, worker));
        GP_TRY(check_in_flight(checker, worker, most_in_flight));
    }
    return GP_OK;
}

gp_status gp_schedule_check(const gp_schedule *schedule, int most_in_flight) {
    if (most_in_flight < 0)
        return gp_error(GP_INVALID, "%d micro-batches in flight; accepted are 1 and more, or 0 for any",
                        most_in_flight);
    check_state checker = {.schedule = schedule, .messages = gp_schedule_has_messages(schedule)};
    checker.positions = gp_allocate_array((size_t)schedule->micro_batches, GP_ACTION_KINDS * sizeof *checker.positions);
    if (!checker.positions) return GP_OUT_OF_MEMORY;
    gp_status status = check_workers(&checker, most_in_flight);
    gp_free(checker.positions);
    if (status == GP_OK) status = check_links(&checker);
    if (status == GP_OK) status = gp_schedule_check_deadlock(schedule);
    return status;
}
