/* The checker, second half: runs a schedule's lists over the smallest links that an engine may have and sees whether
 * all of them end.
 *
 * One run proves it for every speed of the workers: an action that can run stays able to run whatever the others do,
 * since a message is taken only by its one receiver and a slot is given back only once. So the order in which workers
 * get their turn changes nothing about where they stop, and larger links only remove waits.
 *
 * A link has slots that are used in any order. One is taken when the message is sent (by F or B itself where the list
 * has no sends) and given back when the receiver's B of that micro-batch is done, since the receiver reads the message
 * in place: activations until then, for R and B need them; gradients too. A forward link has one slot more than its
 * receiver holds at once, a gradient link as many as its receiver holds: one, unless receives run ahead. */
#include "base/memory.h"
#include "base/status.h"
#include "pipeline/schedule.h"

typedef struct slot_link {
    int slots;
    int sent;     /* messages sent so far */
    int received; /* messages received so far */
    int returned; /* slots given back so far */
} slot_link;

/* What a worker's next action waits for. */
typedef struct wait_for {
    int on; /* worker */
    gp_action_kind kind;
    int micro_batch;
    const slot_link *full; /* the link in which a slot is wanted; NULL: a message is wanted */
} wait_for;

typedef struct link_run {
    const gp_schedule *schedule;
    bool messages;
    slot_link *activations; /* link l from worker l to l + 1 */
    slot_link *gradients;   /* link l from worker l + 1 to l */
    size_t *next;           /* per worker: position of its next action */
    int *turns;             /* workers that may be able to go on, a stack */
    bool *has_turn;
    int turn_count;
} link_run;

static void run_free(link_run *run) {
    gp_free(run->activations);
    gp_free(run->gradients);
    gp_free(run->next);
    gp_free(run->turns);
    gp_free(run->has_turn);
}

static gp_status run_allocate(link_run *run) {
    size_t stages = (size_t)run->schedule->stages;
    run->activations = gp_allocate_array(stages, sizeof *run->activations);
    run->gradients = gp_allocate_array(stages, sizeof *run->gradients);
    run->next = gp_allocate_array(stages, sizeof *run->next);
    run->turns = gp_allocate_array(stages, sizeof *run->turns);
    run->has_turn = gp_allocate_array(stages, sizeof *run->has_turn);
    bool all = run->activations && run->gradients && run->next && run->turns && run->has_turn;
    return all ? GP_OK : GP_OUT_OF_MEMORY;
}

/* ---- which links an action uses ---- */

static slot_link *takes_from(const link_run *run, gp_action action) {
    int stage = action.stage, last = run->schedule->stages - 1;
    if (action.kind == (run->messages ? GP_RECEIVE_FORWARD : GP_FORWARD) && stage > 0)
        return &run->activations[stage - 1];
    if (action.kind == (run->messages ? GP_RECEIVE_BACKWARD : GP_BACKWARD) && stage < last)
        return &run->gradients[stage];
    return NULL;
}

static slot_link *sends_to(const link_run *run, gp_action action) {
    int stage = action.stage, last = run->schedule->stages - 1;
    if (action.kind == (run->messages ? GP_SEND_FORWARD : GP_FORWARD) && stage < last) return &run->activations[stage];
    if (action.kind == (run->messages ? GP_SEND_BACKWARD : GP_BACKWARD) && stage > 0) return &run->gradients[stage - 1];
    return NULL;
}

/* ---- links before the run ---- */

/* The most messages that a worker holds at once: received by `receive`, given back by its B. */
static int most_held(const link_run *run, int worker, gp_action_kind receive) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(run->schedule, worker, &count);
    int held = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        if (actions[i].kind == receive) held++;
        if (held > most) most = held;
        if (actions[i].kind == GP_BACKWARD) held--;
    }
    return most;
}

static void give_slots(link_run *run) {
    for (int link = 0; link + 1 < run->schedule->stages; link++) {
        run->activations[link].slots = 1 + most_held(run, link + 1, run->messages ? GP_RECEIVE_FORWARD : GP_FORWARD);
        run->gradients[link].slots = most_held(run, link, run->messages ? GP_RECEIVE_BACKWARD : GP_BACKWARD);
    }
}

/* ---- the run ---- */

static bool can_run(const link_run *run, gp_action action) {
    const slot_link *in = takes_from(run, action), *out = sends_to(run, action);
    if (in && in->received == in->sent) return false;
    return !out || out->sent - out->returned < out->slots;
}

static void perform(link_run *run, gp_action action) {
    slot_link *in = takes_from(run, action), *out = sends_to(run, action);
    if (in) in->received++;
    if (out) out->sent++;
    if (action.kind != GP_BACKWARD) return;
    if (action.stage > 0) run->activations[action.stage - 1].returned++;
    if (action.stage < run->schedule->stages - 1) run->gradients[action.stage].returned++;
}

static void give_turn(link_run *run, int worker) {
    if (worker < 0 || worker >= run->schedule->stages || run->has_turn[worker]) return;
    run->has_turn[worker] = true;
    run->turns[run->turn_count++] = worker;
}

static void take_turn(link_run *run) {
    int worker = run->turns[--run->turn_count];
    run->has_turn[worker] = false;
    size_t count, begun = run->next[worker];
    const gp_action *actions = gp_schedule_actions(run->schedule, worker, &count);
    for (; run->next[worker] < count && can_run(run, actions[run->next[worker]]); run->next[worker]++)
        perform(run, actions[run->next[worker]]);
    if (run->next[worker] == begun) return;
    give_turn(run, worker - 1);
    give_turn(run, worker + 1);
}

/* ---- who waits for whom ---- */

static bool finished(const link_run *run, int worker) {
    size_t count;
    (void)gp_schedule_actions(run->schedule, worker, &count);
    return run->next[worker] == count;
}

static gp_action next_action(const link_run *run, int worker) {
    size_t count;
    return gp_schedule_actions(run->schedule, worker, &count)[run->next[worker]];
}

/* The micro-batch of a worker's next B, which gives slots back. */
static int next_backward(const link_run *run, int worker) {
    size_t count, at = run->next[worker];
    const gp_action *actions = gp_schedule_actions(run->schedule, worker, &count);
    while (actions[at].kind != GP_BACKWARD)
        at++;
    return actions[at].micro_batch;
}

static wait_for wait_of(const link_run *run, int worker) {
    gp_action action = next_action(run, worker);
    const slot_link *in = takes_from(run, action), *out = sends_to(run, action);
    if (in && in->received == in->sent) {
        bool activation = worker > 0 && in == &run->activations[worker - 1];
        gp_action_kind kind = run->messages ? (activation ? GP_SEND_FORWARD : GP_SEND_BACKWARD) : action.kind;
        return (wait_for){activation ? worker - 1 : worker + 1, kind, action.micro_batch, NULL};
    }
    int receiver = out == &run->activations[worker] ? worker + 1 : worker - 1;
    return (wait_for){receiver, GP_BACKWARD, next_backward(run, receiver), out};
}

/* "worker 0, position 3 (F2) waits for B0 of worker 1 to ..." */
static char *describe(const link_run *run, int worker) {
    gp_action action = next_action(run, worker);
    wait_for wait = wait_of(run, worker);
    char *reason = wait.full ? gp_format_text(" to free a slot of the link (slots: %d)", wait.full->slots)
                             : gp_copy_text(" to send its input");
    if (!reason) return NULL;
    char *text = gp_format_text("worker %d, position %zu (%s%d) waits for %s%d of worker %d%s", worker,
                                run->next[worker], gp_action_text(action.kind), action.micro_batch,
                                gp_action_text(wait.kind), wait.micro_batch, wait.on, reason);
    gp_free(reason);
    return text;
}

/* Workers wait for neighbours only, so the chain from a worker that stopped ends in two that wait for each other. */
static gp_status report(const link_run *run, int worker) {
    int other = wait_of(run, worker).on;
    while (wait_of(run, other).on != worker) {
        worker = other;
        other = wait_of(run, worker).on;
    }
    char *one = describe(run, worker), *two = describe(run, other);
    gp_status status = one && two ? gp_error(GP_INVALID, "deadlock: %s, and %s", one, two) : GP_OUT_OF_MEMORY;
    gp_free(one);
    gp_free(two);
    return status;
}

gp_status gp_schedule_check_deadlock(const gp_schedule *schedule) {
    link_run run = {.schedule = schedule, .messages = gp_schedule_has_messages(schedule)};
    gp_status status = run_allocate(&run);
    if (status == GP_OK) {
        give_slots(&run);
        for (int worker = schedule->stages - 1; worker >= 0; worker--)
            give_turn(&run, worker);
        while (run.turn_count > 0)
            take_turn(&run);
    }
    for (int worker = 0; status == GP_OK && worker < schedule->stages; worker++)
        if (!finished(&run, worker)) status = report(&run, worker);
    run_free(&run);
    return status;
}
