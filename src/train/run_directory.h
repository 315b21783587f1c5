/* What a run leaves in its directory: metrics.jsonl, report.json, checkpoints/. */
#ifndef GP_TRAIN_RUN_DIRECTORY_H
#define GP_TRAIN_RUN_DIRECTORY_H

#include "gpipe/train.h"

typedef struct gp_run_directory gp_run_directory;

/* `path` exists. Truncates metrics.jsonl. Errors: GP_INVALID or GP_IO with the file's name. */
gp_status gp_run_directory_open(gp_run_directory **directory, const char *path, int64_t keep);
void gp_run_directory_close(gp_run_directory *directory); /* accepts NULL */

/* One line of metrics.jsonl. */
gp_status gp_run_directory_metrics(gp_run_directory *directory, const gp_step_metrics *metrics, bool has_validation,
                                   double validation_loss);
/* checkpoints/step-N/model.safetensors, complete before it has its name; the link `latest` (and `best`) follows it.
 * Checkpoints older than the newest `keep` are removed, but the best stays. A step that is there already is only
 * linked. */
gp_status gp_run_directory_save(gp_run_directory *directory, gp_trainer *trainer, int64_t step, bool best);
/* report.json, and trace.json when wanted. */
gp_status gp_run_directory_report(gp_run_directory *directory, const gp_trainer *trainer, bool trace);

#endif
