/* How training goes, step by step: a live line on a terminal, plain lines elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "gpipe/train.h"

typedef struct cli_progress {
    int64_t steps;
    int64_t first;    /* steps made before: a run that goes on */
    bool skips;       /* a step that is not finite is passed over, not the end */
    size_t memory;    /* of the worker that needs most */
    double started;   /* seconds of the clock */
    double last_line; /* when a line was last written */
    double last_drawn;
    double evaluation_began; /* the one at hand */
    double per_second;       /* tokens, images; smoothed */
    double waiting;          /* share of the time in which there was no mini-batch; smoothed */
} cli_progress;

/* `first`: steps that are made already. */
void cli_progress_start(cli_progress *progress, int64_t first, int64_t steps, bool skips, const gp_plan *plan);
/* validation: NULL when there was no evaluation after this step. */
void cli_progress_step(cli_progress *progress, const gp_step_metrics *metrics, const gp_evaluation *validation);
/* Before each pass of an evaluation: so many of them are made (on_progress of gp_evaluation_watch). `progress`: a
 * cli_progress; for evaluations alone it begins as zeros. */
void cli_progress_evaluation(void *progress, int64_t done, int64_t count);
/* Takes the live line away. */
void cli_progress_end(void);

/* Seconds of a clock that only goes forward. */
double cli_now(void);
/* "59s", "1m05s", "2h07m"; returns `text`. */
const char *cli_duration(double seconds, char *text, size_t size);
/* 1234567 -> "1.23M"; returns `text`. */
const char *cli_rate(double value, char *text, size_t size);

#endif
