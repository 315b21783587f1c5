/* Reading of a caller's options: structs that start with `size_t size`, so that a program built against another version
 * of the headers keeps working. */
#ifndef GP_BASE_OPTIONS_H
#define GP_BASE_OPTIONS_H

#include <stddef.h>

#include "gpipe/status.h"

/* Copies what the caller gave of a struct of which this library knows `known_bytes` bytes into `known`; the rest is
 * zero, and known's size is known_bytes. NULL is all zero; a size of 0 stands for known_bytes. `options` must not be
 * `known`. Errors: GP_INVALID for a size that no version has, and for a longer struct in which fields are set that this
 * library does not know. `name` is the struct's, for the message. */
gp_status gp_options_read(void *known, size_t known_bytes, const void *options, const char *name);
/* The way back, for results: copies as much of `known` as the caller's struct has room for, by its size (0 stands for
 * known_bytes), which stays. */
void gp_options_write(void *result, const void *known, size_t known_bytes);

#endif
