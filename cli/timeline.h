/* A schedule over time, drawn with letters. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "gpipe/pipeline.h"
#include "text.h"

/* One line a worker: F, R and B with the number of the micro-batch where it fits, '-' while an action runs, '.' while
 * the worker waits. starts[worker][action] in seconds; `width`: columns at most. */
void cli_timeline_draw(const gp_schedule *schedule, const gp_stage_times *times, double *const *starts, double span,
                       size_t width, cli_text *text);
/* Seconds of an action on a stage; 0 for sends and receives. */
double cli_action_seconds(const gp_stage_times *times, gp_action_kind kind);
char cli_action_letter(gp_action_kind kind);

#endif
