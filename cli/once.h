/* Processes that a launcher started together and that do not know of each other yet. */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include <stdbool.h>

/* Whether this process is the first on this machine, of those with the same parent, that is about to say this. Who is
 * must stay for a moment afterwards (cli_once_linger), so that the others find it. */
bool cli_once_first(const char *text);
void cli_once_linger(void);

#endif
