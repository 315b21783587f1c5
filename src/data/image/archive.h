/* Archives and compressed files through libarchive, which takes what is broken or hostile for what it is. */
#ifndef GP_DATA_IMAGE_ARCHIVE_H
#define GP_DATA_IMAGE_ARCHIVE_H

#include <stdbool.h>

#include "base/file.h"

typedef struct gp_archive gp_archive;

/* Opens a mapped file, which outlives it. `tar` false: a single file, compressed. `name` is for messages. Formats: tar
 * in all its forms; gzip, bzip2, xz, zstd, lz4. Errors: GP_INVALID, GP_OUT_OF_MEMORY. */
gp_status gp_archive_open(gp_archive **archive, const gp_file_map *map, const char *name, bool tar);
void gp_archive_close(gp_archive *archive); /* accepts NULL */

/* The next regular file: `*member` becomes its name, NULL at the end, valid until the next call. Errors: GP_INVALID for
 * a damaged archive and one that unpacks to far more than it warrants. */
gp_status gp_archive_next(gp_archive *archive, const char **member);
/* The next piece of the member's bytes: `*bytes` 0 at its end. Where nothing is compressed, pieces lie in the map
 * itself. Errors: GP_INVALID for a damaged archive, and for a member with holes. */
gp_status gp_archive_piece(gp_archive *archive, const void **data, size_t *bytes);

#endif
