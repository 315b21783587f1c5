/* Schedules: the lists of gpipe, 1f1b and naive, their names, and questions about a list. A schedule is data: the
 * engine runs it, the simulator times it, the checker proves it, and none of them knows the kind. */
#include "pipeline/schedule.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static const char *const schedule_names[] = {
    [GP_SCHEDULE_GPIPE] = "gpipe", [GP_SCHEDULE_1F1B] = "1f1b", [GP_SCHEDULE_NAIVE] = "naive"};
static const char *const recompute_names[] = {
    [GP_RECOMPUTE_EXCEPT_LAST] = "except_last", [GP_RECOMPUTE_ALWAYS] = "always", [GP_RECOMPUTE_NEVER] = "never"};

enum { NAMES = 3 };

static int find_name(const char *const names[NAMES], const char *name) {
    for (int i = 0; name && i < NAMES; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

gp_status gp_schedule_kind_by_name(const char *name, gp_schedule_kind *kind) {
    int found = find_name(schedule_names, name);
    if (found < 0)
        return gp_error(GP_INVALID, "schedule '%.40s' is unknown; accepted are gpipe, 1f1b, naive", name ? name : "");
    *kind = (gp_schedule_kind)found;
    return GP_OK;
}

gp_status gp_recompute_by_name(const char *name, gp_recompute *recompute) {
    int found = find_name(recompute_names, name);
    if (found < 0)
        return gp_error(GP_INVALID, "recompute mode '%.40s' is unknown; accepted are except_last, always, never",
                        name ? name : "");
    *recompute = (gp_recompute)found;
    return GP_OK;
}

const char *gp_schedule_kind_name(gp_schedule_kind kind) {
    return (unsigned)kind < NAMES ? schedule_names[kind] : "unknown";
}

const char *gp_recompute_name(gp_recompute recompute) {
    return (unsigned)recompute < NAMES ? recompute_names[recompute] : "unknown";
}

const char *gp_action_text(gp_action_kind kind) {
    static const char *const texts[] = {
#define ACTION_TEXT(name, text) text,
        GP_ACTIONS(ACTION_TEXT)
#undef ACTION_TEXT
    };
    return (unsigned)kind < GP_ACTION_KINDS ? texts[kind] : "?";
}

bool gp_action_computes(gp_action_kind kind) {
    return kind == GP_FORWARD || kind == GP_RECOMPUTE || kind == GP_BACKWARD;
}

gp_status gp_schedule_check_size(int stages, int micro_batches, size_t count) {
    if (stages < 1 || stages > GP_SCHEDULE_MOST_STAGES)
        return gp_error(GP_INVALID, "a schedule has 1 to %d stages, not %d", GP_SCHEDULE_MOST_STAGES, stages);
    if (micro_batches < 1 || micro_batches > GP_SCHEDULE_MOST_MICRO_BATCHES)
        return gp_error(GP_INVALID, "a schedule has 1 to %d micro-batches, not %d", GP_SCHEDULE_MOST_MICRO_BATCHES,
                        micro_batches);
    if (count > GP_SCHEDULE_MOST_ACTIONS)
        return gp_error(GP_INVALID, "a schedule has at most %zu actions, not %zu: use fewer micro-batches or stages",
                        GP_SCHEDULE_MOST_ACTIONS, count);
    return GP_OK;
}

gp_schedule *gp_schedule_allocate(int stages, int micro_batches, size_t count) {
    gp_schedule *made = gp_allocate(sizeof *made);
    if (!made) return NULL;
    made->stages = stages;
    made->micro_batches = micro_batches;
    made->first = gp_allocate_array((size_t)stages + 1, sizeof *made->first);
    made->actions = gp_allocate_array(count, sizeof *made->actions);
    if (made->first && made->actions) return made;
    gp_schedule_destroy(made);
    return NULL;
}

void gp_schedule_destroy(gp_schedule *schedule) {
    if (!schedule) return;
    gp_free(schedule->first);
    gp_free(schedule->actions);
    gp_free(schedule);
}

/* ---- generators ---- */

/* A worker's list while it is written. */
typedef struct action_list {
    gp_action *end;
    int stage;
    int micro_batches;
    gp_recompute recompute;
} action_list;

static void forward(action_list *list, int micro_batch) {
    *list->end++ = (gp_action){GP_FORWARD, list->stage, micro_batch};
}

static void backward(action_list *list, int micro_batch) {
    bool last = micro_batch == list->micro_batches - 1;
    if (list->recompute == GP_RECOMPUTE_ALWAYS || (list->recompute == GP_RECOMPUTE_EXCEPT_LAST && !last))
        *list->end++ = (gp_action){GP_RECOMPUTE, list->stage, micro_batch};
    *list->end++ = (gp_action){GP_BACKWARD, list->stage, micro_batch};
}

/* All kinds are one pattern, "one forward, one backward" after `ahead` forwards: gpipe runs all M ahead (fill and
 * drain), 1f1b as many as there are stages from here to the end (PipeDream-Flush: Narayanan et al., arXiv 2006.09503),
 * naive one.
 *
 * Naive needs no more than F0 B0 F1 B1 ... at every worker to keep one micro-batch in flight in the whole pipeline:
 * worker 0 starts F(i+1) only after its own B(i), which waited for the B(i) of all the workers behind it, and these
 * cannot start F(i+1) before worker 0 has sent it. */
static void write_list(action_list *list, int ahead) {
    for (int i = 0; i < ahead; i++)
        forward(list, i);
    for (int i = 0; i < list->micro_batches; i++) {
        backward(list, i);
        if (i < list->micro_batches - ahead) forward(list, i + ahead);
    }
}

static int forwards_ahead(gp_schedule_kind kind, int stages, int micro_batches, int stage) {
    int ahead = kind == GP_SCHEDULE_GPIPE ? micro_batches : kind == GP_SCHEDULE_1F1B ? stages - stage : 1;
    return ahead < micro_batches ? ahead : micro_batches;
}

gp_status gp_schedule_create(gp_schedule **schedule, gp_schedule_kind kind, int stages, int micro_batches,
                             gp_recompute recompute) {
    *schedule = NULL;
    if ((unsigned)kind >= NAMES || (unsigned)recompute >= NAMES)
        return gp_error(GP_INVALID, "schedule kind %d or recompute mode %d is none that gpipe has", (int)kind,
                        (int)recompute);
    size_t recomputes = (size_t)micro_batches - (recompute == GP_RECOMPUTE_EXCEPT_LAST);
    size_t each = 2 * (size_t)micro_batches + (recompute == GP_RECOMPUTE_NEVER ? 0 : recomputes);
    GP_TRY(gp_schedule_check_size(stages, micro_batches, (size_t)stages * each));
    gp_schedule *made = gp_schedule_allocate(stages, micro_batches, (size_t)stages * each);
    if (!made) return GP_OUT_OF_MEMORY;
    for (int stage = 0; stage < stages; stage++) {
        action_list list = {made->actions + made->first[stage], stage, micro_batches, recompute};
        write_list(&list, forwards_ahead(kind, stages, micro_batches, stage));
        made->first[stage + 1] = (size_t)(list.end - made->actions);
    }
    *schedule = made;
    return GP_OK;
}

/* ---- questions ---- */

int gp_schedule_stages(const gp_schedule *schedule) {
    return schedule->stages;
}

int gp_schedule_micro_batches(const gp_schedule *schedule) {
    return schedule->micro_batches;
}

const gp_action *gp_schedule_actions(const gp_schedule *schedule, int worker, size_t *count) {
    bool there = worker >= 0 && worker < schedule->stages;
    *count = there ? schedule->first[worker + 1] - schedule->first[worker] : 0;
    return there ? schedule->actions + schedule->first[worker] : NULL;
}

bool gp_schedule_has_messages(const gp_schedule *schedule) {
    for (size_t i = 0; i < schedule->first[schedule->stages]; i++)
        if (!gp_action_computes(schedule->actions[i].kind)) return true;
    return false;
}

static bool in_order(const gp_schedule *schedule, gp_action_kind kind) {
    for (int worker = 0; worker < schedule->stages; worker++) {
        size_t count;
        const gp_action *actions = gp_schedule_actions(schedule, worker, &count);
        int last = -1;
        for (size_t i = 0; i < count; i++) {
            if (actions[i].kind != kind) continue;
            if (actions[i].micro_batch < last) return false;
            last = actions[i].micro_batch;
        }
    }
    return true;
}

bool gp_schedule_backward_in_order(const gp_schedule *schedule) {
    return in_order(schedule, GP_BACKWARD);
}

bool gp_schedule_forward_in_order(const gp_schedule *schedule) {
    return in_order(schedule, GP_FORWARD);
}

typedef struct flight_count {
    int now;
    int most;
} flight_count;

static void count_flight(flight_count *flight, gp_action_kind kind) {
    if (kind == GP_FORWARD) flight->now++;
    if (kind == GP_BACKWARD) flight->now--;
    if (flight->now > flight->most) flight->most = flight->now;
}

int gp_schedule_in_flight(const gp_schedule *schedule, int worker, int *recomputed, int *kept) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(schedule, worker, &count);
    bool *has_recompute = gp_allocate_array((size_t)schedule->micro_batches, sizeof *has_recompute);
    if (!has_recompute) return -1;
    for (size_t i = 0; i < count; i++)
        if (actions[i].kind == GP_RECOMPUTE) has_recompute[actions[i].micro_batch] = true;
    flight_count all = {0, 0}, parts[2] = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < count; i++) {
        count_flight(&all, actions[i].kind);
        count_flight(&parts[has_recompute[actions[i].micro_batch]], actions[i].kind);
    }
    gp_free(has_recompute);
    if (recomputed) *recomputed = parts[1].most;
    if (kept) *kept = parts[0].most;
    return all.most;
}

/* ---- figures of a step ---- */

double gp_bubble_formula(int stages, int micro_batches) {
    if (stages < 1 || micro_batches < 1) return 0;
    return (stages - 1.0) / ((double)micro_batches + stages - 1.0);
}

int gp_micro_batch_sizes(int64_t batch, int micro_batches, int64_t *sizes) {
    if (batch < 1 || micro_batches < 1) return 0;
    int count = batch < micro_batches ? (int)batch : micro_batches;
    for (int i = 0; sizes && i < count; i++)
        sizes[i] = batch / count + (i < batch % count);
    return count;
}
