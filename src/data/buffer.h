/* Bytes and ids that grow; what encoding a text works with, kept from one text to the next. */
#ifndef GP_DATA_BUFFER_H
#define GP_DATA_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "gpipe/status.h"

/* Both start zeroed. */
typedef struct gp_buffer {
    unsigned char *bytes;
    size_t used, capacity;
} gp_buffer;

typedef struct gp_ids {
    int32_t *list;
    size_t count, capacity;
} gp_ids;

/* Makes room for `more` behind what is used. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_buffer_reserve(gp_buffer *buffer, size_t more);
gp_status gp_buffer_add(gp_buffer *buffer, const void *bytes, size_t count);
void gp_buffer_free(gp_buffer *buffer);

gp_status gp_ids_reserve(gp_ids *ids, size_t more);
void gp_ids_free(gp_ids *ids);

static inline gp_status gp_ids_add(gp_ids *ids, int32_t id) {
    if (ids->count == ids->capacity) {
        gp_status status = gp_ids_reserve(ids, 1);
        if (status != GP_OK) return status;
    }
    ids->list[ids->count++] = id;
    return GP_OK;
}

/* Text of unknown origin as valid UTF-8: `*valid` and `*valid_bytes` become the text itself, or a copy in `buffer` in
 * which every maximal part that is not UTF-8 (Unicode, section 3.9, as Python's errors="replace" and browsers count
 * them) is U+FFFD. Returns how many there were through `*replaced`. */
gp_status gp_utf8_repair(const unsigned char *text, size_t bytes, gp_buffer *buffer, const unsigned char **valid,
                         size_t *valid_bytes, size_t *replaced);

/* The length of the beginning of `text` that is valid UTF-8. */
size_t gp_utf8_valid(const unsigned char *text, size_t bytes);

/* How many bytes at `text` belong together although they are no character; at least 1. */
size_t gp_utf8_invalid(const unsigned char *text, size_t bytes);

#endif
