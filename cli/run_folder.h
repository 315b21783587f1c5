/* The run directory: refused, made, filled with what describes the run. */
#ifndef CLI_RUN_FOLDER_H
#define CLI_RUN_FOLDER_H

#include <stdio.h>

#include "session.h"

/* Whether a run may go to `path`: not there, empty, or (with `force`) a former run. Parents are made.
 * *made: the folder itself is new. Errors: GP_INVALID saying what to do instead. */
gp_status cli_run_folder_prepare(const char *path, bool force, bool *made);
/* Removes a former run's files: not before all that can be refused has been checked. */
void cli_run_folder_clear(const char *path);
/* Writes config.yaml. */
gp_status cli_run_folder_write_config(const char *path, const cli_config *config);
/* Writes config.yaml and tokenizer.json and opens log.txt, to which messages then go; the caller closes it after
 * cli_message_log(NULL). */
gp_status cli_run_folder_describe(const char *path, const cli_session *session, FILE **log);
/* Opens log.txt of a run that goes on, behind what is in it. */
gp_status cli_run_folder_go_on(const char *path, FILE **log);

#endif
