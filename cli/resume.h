/* gpipe train --resume: from where a run goes on, and whether its configuration allows it. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "config_compare.h"
#include "session.h"

typedef struct cli_resume {
    bool found;        /* there is a checkpoint to go on from; false: the run begins at its beginning */
    char run[4096];    /* the run directory */
    char from[4096];   /* what is resumed: the run directory, for its newest whole checkpoint, or a checkpoint */
    char folder[4096]; /* the checkpoint, as far as is known before it has been read */
    bool by_name;      /* a checkpoint was named: no other one will do */
    bool complete;     /* the run has made its steps: nothing is left to do */
    cli_difference difference;
} cli_resume;

/* Reads --resume. Errors: GP_INVALID when there is nothing to resume. Free it in any case. */
gp_status cli_resume_find(cli_resume *resume, const cli_arguments *arguments);
/* The session of the run that goes on: the given configuration, else that of the run; compared with the run's.
 * Errors: GP_INVALID naming the keys that may not differ, or checkpoints that would be lost. */
gp_status cli_resume_open(cli_resume *resume, cli_session *session, const cli_arguments *arguments);
/* Reads the checkpoint into the session's trainer and records what has changed: config.yaml, a message for the log. */
gp_status cli_resume_apply(cli_resume *resume, cli_session *session);
void cli_resume_free(cli_resume *resume);

/* "gpipe train --resume DIR", as one types it. */
void cli_resume_command(const char *run, cli_text *text);

#endif
