/* Files that the program opens itself. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <stdio.h>

#include "gpipe/status.h"

/* Opens a regular file to read ("r"), to replace ("w") or to write at its end ("a"). Nothing is waited for: a pipe that
 * lies in the place of a file is refused, as are folders and devices. Pipes that a shell hands over (/dev/stdin,
 * /dev/fd/N) can be read. Errors: GP_INVALID (no such file, not a regular one), GP_IO when it cannot be written. On an
 * error `*file` is NULL. */
gp_status cli_file_open(FILE **file, const char *path, const char *mode);

#endif
