/* Checksums of files: XXH3 with 64 bits (xxHash, https://xxhash.com), which finds damage at the speed of memory. It is
 * no protection against somebody who forges a file. */
#ifndef GP_CHECKPOINT_CHECKSUM_H
#define GP_CHECKPOINT_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GP_CHECKSUM_TEXT = 17 }; /* 16 hexadecimal digits and the end */

uint64_t gp_checksum_of(const void *data, size_t bytes);

/* The same over pieces. */
typedef struct gp_checksum gp_checksum;
gp_checksum *gp_checksum_create(void); /* NULL: no memory */
void gp_checksum_begin(gp_checksum *checksum);
void gp_checksum_add(gp_checksum *checksum, const void *data, size_t bytes);
uint64_t gp_checksum_end(const gp_checksum *checksum);
void gp_checksum_destroy(gp_checksum *checksum); /* accepts NULL */

/* As 16 hexadecimal digits, and back; false for anything else. */
const char *gp_checksum_format(uint64_t value, char text[GP_CHECKSUM_TEXT]);
bool gp_checksum_parse(const char *text, uint64_t *value);

#endif
