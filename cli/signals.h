/* Signals that end a run: it finishes its step, writes a checkpoint, and says how to go on. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* From here on: SIGINT (Ctrl-C), SIGTERM and SIGUSR1 (what batch systems send before the time is over), and SIGHUP
 * unless it was ignored (nohup) ask for the end. A second SIGINT or SIGTERM ends the program at once. */
void cli_signals_listen(void);
/* The signal that asked first; 0: none has. */
int cli_signals_asked(void);
/* The exit status of a run that was ended by the signal and is complete on the disk: 0 when that was what the signal
 * was for, 128 + its number for those of somebody at a terminal. */
int cli_signals_exit(int number);

#endif
