/* Files: mapped for reading, and replaced as a whole when written. A file that a killed or failing process was writing
 * never takes the place of a good one. */
#ifndef GP_BASE_FILE_H
#define GP_BASE_FILE_H

#include <stddef.h>

#include "gpipe/status.h"

/* A regular file mapped read-only. An empty file has bytes = 0 and data != NULL. */
typedef struct gp_file_map {
    const unsigned char *data;
    size_t bytes;
} gp_file_map;

/* Errors: GP_INVALID when there is no readable regular file at `path`, GP_IO when the system fails to open or map it.
 */
gp_status gp_file_map_open(gp_file_map *map, const char *path);
/* Accepts a zeroed struct. */
void gp_file_map_close(gp_file_map *map);

/* A file being written beside the one that it will replace. */
typedef struct gp_file_writer gp_file_writer;

/* Creates a temporary file in the folder of `path`. Errors: GP_INVALID when there is something at `path` that is no
 * regular file (a folder, a device, a pipe), GP_IO, GP_OUT_OF_MEMORY. */
gp_status gp_file_writer_create(gp_file_writer **writer, const char *path);
gp_status gp_file_writer_write(gp_file_writer *writer, const void *data, size_t bytes);
/* Waits until the bytes are on the disk and gives the file its name. Call gp_file_writer_destroy afterwards all the
 * same. */
gp_status gp_file_writer_commit(gp_file_writer *writer);
/* Removes the temporary file unless it was committed. Accepts NULL. */
void gp_file_writer_destroy(gp_file_writer *writer);

/* Replaces the file at `path` by a text as a whole. */
gp_status gp_file_write_text(const char *path, const char *text);

/* Writes all bytes to a descriptor; `name` is for the message. Errors: GP_IO. */
gp_status gp_write_all(int descriptor, const void *data, size_t bytes, const char *name);

#endif
