/* Inside the room: what a schedule is made of. All workers' lists lie in one array, so that a schedule is copied,
 * counted and freed as one thing. */
#ifndef GP_PIPELINE_SCHEDULE_H
#define GP_PIPELINE_SCHEDULE_H

#include "gpipe/pipeline.h"

struct gp_schedule {
    int stages;
    int micro_batches;
    size_t *first; /* stages + 1 entries: worker w's actions are actions[first[w]] .. actions[first[w + 1] - 1] */
    gp_action *actions;
};

/* GP_INVALID when a size is beyond the limits of gpipe/pipeline.h. */
gp_status gp_schedule_check_size(int stages, int micro_batches, size_t count);

/* An empty schedule with room for `count` actions and `first` zeroed; NULL when the system has no memory. */
gp_schedule *gp_schedule_allocate(int stages, int micro_batches, size_t count);

/* The text of a kind of action ("F", "SEND_F"); "?" for a number that is none. */
const char *gp_action_text(gp_action_kind kind);

/* Whether the action is a computation (F, R, B) and not a send or receive. */
bool gp_action_computes(gp_action_kind kind);

/* Whether any worker has a send or a receive. */
bool gp_schedule_has_messages(const gp_schedule *schedule);

/* The second half of gp_schedule_check: runs the lists over the smallest links and names who waits for whom when they
 * stop. The schedule must be complete and its links ordered (the first half). */
gp_status gp_schedule_check_deadlock(const gp_schedule *schedule);

#endif
