/* Tokens lie one behind the other in one block of bytes; a hash table finds them by name. */
#include "data/vocabulary.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

enum { GAP = 16384, MOST = 1 << 28 };

gp_status gp_vocabulary_create(gp_vocabulary *vocabulary, size_t tokens) {
    *vocabulary = (gp_vocabulary){.seed = gp_hash_seed()};
    if (tokens > MOST) return gp_error(GP_INVALID, "%zu tokens are more than the %d that are accepted", tokens, MOST);
    size_t places = 64;
    while (places / 2 < tokens)
        places *= 2;
    vocabulary->capacity = (int32_t)tokens + GAP;
    vocabulary->mask = places - 1;
    vocabulary->tokens = gp_allocate_array((size_t)vocabulary->capacity, sizeof *vocabulary->tokens);
    vocabulary->places = gp_allocate_array(places, sizeof *vocabulary->places);
    return vocabulary->tokens && vocabulary->places ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_vocabulary_free(gp_vocabulary *vocabulary) {
    gp_free(vocabulary->tokens);
    gp_free(vocabulary->places);
    gp_buffer_free(&vocabulary->bytes);
    *vocabulary = (gp_vocabulary){0};
}

static uint64_t hash_name(const char *name, size_t bytes, uint64_t seed) {
    uint64_t hash = seed ^ bytes;
    for (; bytes >= 8; bytes -= 8, name += 8) {
        uint64_t word;
        memcpy(&word, name, 8);
        hash = gp_hash_mix(hash, word);
    }
    uint64_t word = 0;
    memcpy(&word, name, bytes);
    return gp_hash_mix(hash, word);
}

/* The place in the table of a name, or the empty one that it would take. */
static int32_t *place_of(const gp_vocabulary *vocabulary, const char *name, size_t bytes) {
    size_t at = hash_name(name, bytes, vocabulary->seed) & vocabulary->mask;
    for (; vocabulary->places[at] != 0; at = (at + 1) & vocabulary->mask) {
        int32_t id = vocabulary->places[at] - 1;
        if (vocabulary->tokens[id].name_bytes == bytes && memcmp(gp_vocabulary_name(vocabulary, id), name, bytes) == 0)
            break;
    }
    return &vocabulary->places[at];
}

int32_t gp_vocabulary_find(const gp_vocabulary *vocabulary, const char *name, size_t bytes) {
    return *place_of(vocabulary, name, bytes) - 1;
}

static gp_status check_id(const gp_vocabulary *vocabulary, int64_t id, const char *name, size_t bytes) {
    int length = bytes > 64 ? 64 : (int)bytes;
    if (id < 0 || id >= vocabulary->capacity) {
        return gp_error(GP_INVALID,
                        "its token \"%.*s\" has the id %" PRId64 ": for so many tokens 0 to %" PRId32 " are accepted",
                        length, name, id, vocabulary->capacity - 1);
    }
    const gp_token *token = &vocabulary->tokens[id];
    if (token->there &&
        (token->name_bytes != bytes || memcmp(gp_vocabulary_name(vocabulary, (int32_t)id), name, bytes) != 0)) {
        return gp_error(GP_INVALID, "its tokens \"%.64s\" and \"%.*s\" have the same id %" PRId64,
                        gp_vocabulary_name(vocabulary, (int32_t)id), length, name, id);
    }
    return GP_OK;
}

/* Keeps at least half of the places empty: tokens may be added beyond those announced. */
static gp_status grow(gp_vocabulary *vocabulary) {
    int32_t *old = vocabulary->places;
    size_t places = (vocabulary->mask + 1) * 2;
    vocabulary->places = gp_allocate_array(places, sizeof *vocabulary->places);
    if (!vocabulary->places) {
        vocabulary->places = old;
        return GP_OUT_OF_MEMORY;
    }
    size_t last = vocabulary->mask;
    vocabulary->mask = places - 1;
    for (size_t i = 0; i <= last; i++) {
        if (old[i] == 0) continue;
        int32_t id = old[i] - 1;
        *place_of(vocabulary, gp_vocabulary_name(vocabulary, id), vocabulary->tokens[id].name_bytes) = old[i];
    }
    gp_free(old);
    return GP_OK;
}

gp_status gp_vocabulary_add(gp_vocabulary *vocabulary, int64_t id, const char *name, size_t bytes) {
    GP_TRY(check_id(vocabulary, id, name, bytes));
    gp_token *token = &vocabulary->tokens[id];
    if (token->there) return GP_OK;
    if (bytes > UINT32_MAX) return gp_error(GP_INVALID, "its token %" PRId64 " has %zu bytes", id, bytes);
    if ((size_t)vocabulary->count >= (vocabulary->mask + 1) / 2) GP_TRY(grow(vocabulary));
    size_t begin = vocabulary->bytes.used;
    GP_TRY(gp_buffer_add(&vocabulary->bytes, name, bytes));
    GP_TRY(gp_buffer_add(&vocabulary->bytes, "", 1));
    int32_t *place = place_of(vocabulary, name, bytes);
    *token = (gp_token){.name = begin, .name_bytes = (uint32_t)bytes, .there = true};
    *place = (int32_t)id + 1;
    if (id >= vocabulary->count) vocabulary->count = (int32_t)id + 1;
    return GP_OK;
}

gp_status gp_vocabulary_set_piece(gp_vocabulary *vocabulary, int32_t id, const void *piece, size_t bytes) {
    vocabulary->tokens[id].piece = vocabulary->bytes.used;
    vocabulary->tokens[id].piece_bytes = (uint32_t)bytes;
    return gp_buffer_add(&vocabulary->bytes, piece, bytes);
}
