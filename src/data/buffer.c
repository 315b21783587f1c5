/* Growing bytes and ids, and the repair of text that is not UTF-8. */
#include "data/buffer.h"

#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "data/utf8.h"

/* The new size of an array that has `used` of `capacity` elements and needs room for `more`; 0 when there is room. */
static size_t grown(size_t used, size_t capacity, size_t more) {
    if (more <= capacity - used) return 0;
    size_t needed = used + more, doubled = capacity < 64 ? 64 : capacity + capacity / 2;
    return needed > doubled ? needed : doubled;
}

gp_status gp_buffer_reserve(gp_buffer *buffer, size_t more) {
    size_t capacity = grown(buffer->used, buffer->capacity, more);
    if (capacity == 0) return GP_OK;
    unsigned char *bytes = gp_grow_array(buffer->bytes, buffer->used, capacity, 1);
    if (!bytes) return GP_OUT_OF_MEMORY;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return GP_OK;
}

gp_status gp_buffer_add(gp_buffer *buffer, const void *bytes, size_t count) {
    if (count == 0) return GP_OK;
    GP_TRY(gp_buffer_reserve(buffer, count));
    memcpy(buffer->bytes + buffer->used, bytes, count);
    buffer->used += count;
    return GP_OK;
}

void gp_buffer_free(gp_buffer *buffer) {
    gp_free(buffer->bytes);
    *buffer = (gp_buffer){0};
}

gp_status gp_ids_reserve(gp_ids *ids, size_t more) {
    size_t capacity = grown(ids->count, ids->capacity, more);
    if (capacity == 0) return GP_OK;
    int32_t *list = gp_grow_array(ids->list, ids->count, capacity, sizeof *list);
    if (!list) return GP_OUT_OF_MEMORY;
    ids->list = list;
    ids->capacity = capacity;
    return GP_OK;
}

void gp_ids_free(gp_ids *ids) {
    gp_free(ids->list);
    *ids = (gp_ids){0};
}

size_t gp_utf8_valid(const unsigned char *text, size_t bytes) {
    size_t at = 0;
    while (at < bytes) {
        uint64_t word;
        uint32_t code;
        if (bytes - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t length = gp_utf8_decode(text + at, bytes - at, &code);
        if (length == 0) break;
        at += length;
    }
    return at;
}

/* Whether a second byte can follow a first one that begins a character of several bytes. */
static bool second_fits(unsigned char first, unsigned char second) {
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

size_t gp_utf8_invalid(const unsigned char *text, size_t bytes) {
    unsigned char first = text[0];
    size_t most = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1; /* of a character that lacks its last byte */
    if (first < 0xC2 || first > 0xF4 || most == 1 || bytes < 2 || !second_fits(first, text[1])) return 1;
    size_t length = 2;
    while (length < most && length < bytes && (text[length] & 0xC0) == 0x80)
        length++;
    return length;
}

gp_status gp_utf8_repair(const unsigned char *text, size_t bytes, gp_buffer *buffer, const unsigned char **valid,
                         size_t *valid_bytes, size_t *replaced) {
    *valid = text;
    *valid_bytes = bytes;
    *replaced = 0;
    size_t good = gp_utf8_valid(text, bytes);
    if (good == bytes) return GP_OK;
    buffer->used = 0;
    for (size_t at = 0; at < bytes; good = gp_utf8_valid(text + at, bytes - at)) {
        GP_TRY(gp_buffer_add(buffer, text + at, good));
        at += good;
        if (at == bytes) break;
        GP_TRY(gp_buffer_add(buffer, "\xEF\xBF\xBD", 3));
        at += gp_utf8_invalid(text + at, bytes - at);
        ++*replaced;
    }
    *valid = buffer->bytes;
    *valid_bytes = buffer->used;
    return GP_OK;
}
