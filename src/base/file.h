/* Files: mapped for reading, and replaced as a whole when written. A file that a killed or failing process was writing
 * never takes the place of a good one. */
#ifndef GP_BASE_FILE_H
#define GP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* Writes over what is there already. */
gp_status gp_file_writer_write_at(gp_file_writer *writer, const void *data, size_t bytes, uint64_t offset);
/* Waits until the bytes and the name are on the disk. On an error the old file is there still, or the new one, whole.
 * Call gp_file_writer_destroy afterwards all the same. */
gp_status gp_file_writer_commit(gp_file_writer *writer);
/* Removes the temporary file unless it was committed. Accepts NULL. */
void gp_file_writer_destroy(gp_file_writer *writer);

/* Replaces the file at `path` by a text as a whole. */
gp_status gp_file_write_text(const char *path, const char *text);

/* Writes all bytes to a descriptor; `name` is for the message. Errors: GP_IO. */
gp_status gp_write_all(int descriptor, const void *data, size_t bytes, const char *name);
/* The same at a place in the file, so that several can write to one. */
gp_status gp_write_all_at(int descriptor, const void *data, size_t bytes, uint64_t offset, const char *name);

/* ---- what is there ---- */

/* Through links. Whether it can be read is another question. */
bool gp_is_file(const char *path); /* a regular one */
bool gp_is_folder(const char *path);

/* ---- folders ---- */

/* Makes a folder; one that is there already is fine. Errors: GP_IO. */
gp_status gp_folder_make(const char *path);
/* Waits until the names in a folder are on the disk. A file system that cannot is no error. Errors: GP_IO. */
gp_status gp_folder_flush(const char *path);
/* Bytes that may still be written to the file system of a folder; UINT64_MAX when the system does not say. */
uint64_t gp_folder_free_bytes(const char *path);

#endif
