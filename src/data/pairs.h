/* A hash table from 64-bit keys to two numbers, looked up in the inner loop of tokenizers: open addressing, keys beside
 * values, so that a miss is mostly one cache line. Filled once, then read by any number of threads. */
#ifndef GP_DATA_PAIRS_H
#define GP_DATA_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

enum { GP_NO_PAIR = 0 }; /* the key of an empty place: keys are never 0 */

typedef struct gp_pair {
    uint64_t key;
    uint32_t first, second;
} gp_pair;

typedef struct gp_pairs {
    gp_pair *places;
    size_t mask; /* number of places - 1; a power of two less 1 */
    size_t count;
    uint64_t seed; /* a file cannot be made to collide */
} gp_pairs;

/* Room for `count` keys without growing. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_pairs_create(gp_pairs *pairs, size_t count);
/* Accepts a zeroed struct. */
void gp_pairs_free(gp_pairs *pairs);
/* Sets the value of a key that may be there already. */
gp_status gp_pairs_set(gp_pairs *pairs, uint64_t key, uint32_t first, uint32_t second);

/* A number that nobody who writes a file knows. */
uint64_t gp_hash_seed(void);

static inline uint64_t gp_hash_mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ b) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* NULL when the key is not there. The table has at least one place. */
static inline const gp_pair *gp_pairs_find(const gp_pairs *pairs, uint64_t key) {
    size_t at = gp_hash_mix(key, pairs->seed) & pairs->mask;
    for (;; at = (at + 1) & pairs->mask) {
        const gp_pair *place = &pairs->places[at];
        if (place->key == key) return place;
        if (place->key == GP_NO_PAIR) return NULL;
    }
}

#endif
