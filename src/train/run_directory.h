/* What a run leaves in its directory besides checkpoints: metrics.jsonl, report.json, trace.json. */
#ifndef GP_TRAIN_RUN_DIRECTORY_H
#define GP_TRAIN_RUN_DIRECTORY_H

#include "gpipe/train.h"

typedef struct gp_run_directory gp_run_directory;

/* `path` exists. metrics.jsonl keeps its lines up to step `step`: what a run that was killed wrote behind its last
 * checkpoint goes. It is locked until closed: a second process is refused. Errors: GP_INVALID or GP_IO with the file's
 * name. */
gp_status gp_run_directory_open(gp_run_directory **directory, const char *path, int64_t step);
void gp_run_directory_close(gp_run_directory *directory); /* accepts NULL */

/* One line of metrics.jsonl, of the trainer's last step. A line that cannot be written is a warning, no error. */
gp_status gp_run_directory_metrics(gp_run_directory *directory, const gp_trainer *trainer,
                                   const gp_step_metrics *metrics,
                                   const gp_evaluation *validation /* NULL: none after this step */);
/* Adds an evaluation to the last line, which a run wrote that was interrupted before its evaluation. */
gp_status gp_run_directory_amend(gp_run_directory *directory, const gp_evaluation *validation);
/* The descriptor of metrics.jsonl. */
int gp_run_directory_descriptor(const gp_run_directory *directory);
/* report.json, and trace.json when wanted. */
gp_status gp_run_directory_report(gp_run_directory *directory, const gp_trainer *trainer, bool trace);

#endif
