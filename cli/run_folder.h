/* The run directory: refused, made, filled with what describes the run. */
#ifndef CLI_RUN_FOLDER_H
#define CLI_RUN_FOLDER_H

#include <stdio.h>

#include "session.h"

/* Whether a run may go to `path`: not there, empty, or (with `force`) a former run. Parents are made.
 * *made: the folder itself is new. Errors: GP_INVALID saying what to do instead. */
gp_status cli_run_folder_prepare(const char *path, bool force, bool *made);
/* Opens log.txt, empty or with what is in it, and holds the folder by it until it is closed. Before anything else in
 * the folder is touched. Errors: GP_INVALID when another process trains in it; GP_IO. */
gp_status cli_run_folder_hold(const char *path, FILE **log);
/* Closes and removes the log of a run in which nothing was trained. */
void cli_run_folder_drop_log(const char *path, FILE *log);
/* Removes a former run's files but for the log: not before all that can be refused has been checked. */
void cli_run_folder_clear(const char *run);
/* Writes config.yaml. */
gp_status cli_run_folder_write_config(const char *folder, const cli_config *config);
/* Writes config.yaml and tokenizer.json, and empties the log. */
gp_status cli_run_folder_describe(const char *path, const cli_session *session, FILE *log);

#endif
