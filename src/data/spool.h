/* An unnamed temporary file: written once, then mapped. What is too large for memory goes there. */
#ifndef GP_DATA_SPOOL_H
#define GP_DATA_SPOOL_H

#include <stdint.h>

#include "base/file.h"

/* Starts as {.descriptor = -1}. */
typedef struct gp_spool {
    int descriptor;
    char *name; /* that it had for a moment: for messages */
    uint64_t bytes;
} gp_spool;

/* Creates it in $TMPDIR, or /var/tmp (/tmp often lies in memory). `what` is for the message. Errors: GP_IO,
 * GP_OUT_OF_MEMORY. */
gp_status gp_spool_open(gp_spool *spool, const char *what);
gp_status gp_spool_write(gp_spool *spool, const void *data, size_t bytes);
/* Maps what was written; the map outlives the spool. */
gp_status gp_spool_map(const gp_spool *spool, gp_file_map *map);
void gp_spool_close(gp_spool *spool);

#endif
