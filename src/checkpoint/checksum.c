/* xxHash is compiled in from its header: the state's layout is then certain to be the one that its functions know. */
#include "checkpoint/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

struct gp_checksum {
    XXH3_state_t state;
};

uint64_t gp_checksum_of(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

gp_checksum *gp_checksum_create(void) {
    gp_checksum *checksum = gp_allocate(sizeof *checksum);
    if (checksum) gp_checksum_begin(checksum);
    return checksum;
}

void gp_checksum_begin(gp_checksum *checksum) {
    XXH3_64bits_reset(&checksum->state);
}

void gp_checksum_add(gp_checksum *checksum, const void *data, size_t bytes) {
    XXH3_64bits_update(&checksum->state, data, bytes);
}

uint64_t gp_checksum_end(const gp_checksum *checksum) {
    return XXH3_64bits_digest(&checksum->state);
}

void gp_checksum_destroy(gp_checksum *checksum) {
    gp_free(checksum);
}

const char *gp_checksum_format(uint64_t value, char text[GP_CHECKSUM_TEXT]) {
    snprintf(text, GP_CHECKSUM_TEXT, "%016" PRIx64, value);
    return text;
}

bool gp_checksum_parse(const char *text, uint64_t *value) {
    if (!text || strlen(text) != GP_CHECKSUM_TEXT - 1) return false;
    *value = 0;
    for (const char *digit = text; *digit; digit++) {
        if (!strchr("0123456789abcdef", *digit)) return false;
        *value = *value << 4 | (uint64_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
    }
    return true;
}
