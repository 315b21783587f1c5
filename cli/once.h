/* Processes that a launcher started together and that do not know of each other yet. */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include <stdbool.h>

/* Whether this process is the first on this machine, of those with the same parent, that is about to say this. Then it
 * has to stay afterwards until so many others have asked as well, for a few seconds at most; `hold`, a descriptor or
 * -1, is for that, and is closed by it. */
bool cli_once_first(const char *text, int *hold);
void cli_once_linger(int hold, int others);

#endif
