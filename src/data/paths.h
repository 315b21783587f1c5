/* The files that a path or a glob pattern means. */
#ifndef GP_DATA_PATHS_H
#define GP_DATA_PATHS_H

#include <stddef.h>

#include "gpipe/status.h"

typedef struct gp_paths {
    char **list;
    size_t count;
} gp_paths;

/* Appends the path itself, or all files that the pattern matches, sorted by bytes and not by the locale as glob would:
 * the order of files is part of the data. A path with the letters of a pattern that is there is no pattern. Whether the
 * files are there is not checked. Errors: GP_INVALID for a pattern without a match, GP_IO, GP_OUT_OF_MEMORY. */
gp_status gp_paths_add(gp_paths *paths, const char *pattern);
/* Appends a path as it is. */
gp_status gp_paths_append(gp_paths *paths, const char *path);
/* Accepts a zeroed struct. */
void gp_paths_free(gp_paths *paths);

#endif
