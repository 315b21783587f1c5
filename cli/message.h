/* Messages for people, on stderr and in a run's log.txt. Data goes to stdout and not through here. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "gpipe/status.h"

/* Starts passing the library's messages on. `level`: the highest that is shown. Call it once, before any worker runs.
 */
void cli_message_start(gp_log_level level);
/* Messages are also written to this file, whatever is shown; NULL: no longer. The caller closes it. */
void cli_message_log(FILE *file);
/* The same for the log of another process: only what this one speaks is written to it. */
void cli_message_shared_log(FILE *file);

/* A message with its line end; may be several lines. From any thread. */
void cli_message(gp_log_level level, const char *format, ...) GP_PRINTF(2, 3);
/* "gpipe: the thread's message" at level error; returns the exit status for `status`. */
int cli_fail(gp_status status);

/* Whether messages of this level are shown. */
int cli_message_shows(gp_log_level level);

/* A line that is drawn over itself, below the messages, when stderr is a terminal; `text` "" takes it away. */
int cli_live_possible(void);
void cli_live(const char *text);

/* Asked before anything is written to the terminal: false keeps it from there (logs get it all the same). NULL: always
 * written. */
void cli_message_speaker(bool (*speaks)(const void *user), const void *user);

/* This process is one of several that do not know of each other yet: until there is a speaker, only the first of those
 * on a machine writes an error that they have in common, and waits for the others to meet with it. */
void cli_message_once(int processes);

#endif
