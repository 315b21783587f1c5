/* Host memory: every allocation of the library goes through here, so that it can be counted and made to fail in tests.
 */
#ifndef GP_BASE_MEMORY_H
#define GP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

/* Zeroed, 64-byte aligned memory; NULL (with the error message set) when the system has none. bytes may be 0. */
void *gp_allocate(size_t bytes);
/* As gp_allocate for count * bytes, with a check for overflow. */
void *gp_allocate_array(size_t count, size_t bytes);
/* Grows an array from `count` to `new_count` elements (new ones zeroed); the old one stays valid on failure (NULL). */
void *gp_grow_array(void *array, size_t count, size_t new_count, size_t bytes);
void gp_free(void *memory);

/* Copies; NULL on failure. Freed with gp_free. */
char *gp_copy_text(const char *text);
char *gp_format_text(const char *format, ...) GP_PRINTF(1, 2);
/* Whether `end` is the end of a text. */
bool gp_ends_in(const char *text, const char *end);

/* Allocations made since the process started; for the test that a step allocates nothing. */
uint64_t gp_allocation_count(void);
/* Makes the n-th allocation from now (1 = the next) fail once; 0 switches off. For tests. */
void gp_allocation_fail_at(uint64_t n);

#endif
