/* Processes that a launcher started together and that do not know of each other yet. */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include <stdbool.h>

/* Whether this process is to say this: it is the first on this machine, of those with the same parent. Then it has to
 * stay afterwards (`hold`, a descriptor or -1, is for that) until so many others have asked as well; it goes after a
 * few seconds in which none does. For the others the call comes back when the first has spoken; when that ends without
 * a word, another becomes the first. */
bool cli_once_first(const char *text, int *hold);
/* After it has been said. Closes `hold`. */
void cli_once_linger(int hold, int others);

#endif
