/* The hash table of pairs: a power of two of places, at most half of them taken. */
#include "data/pairs.h"

#include <sys/random.h>

#include "base/memory.h"
#include "base/status.h"

uint64_t gp_hash_seed(void) {
    static const char place = 0; /* the system loads it somewhere else each time */
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = (uint64_t)(uintptr_t)&place;
    return seed;
}

gp_status gp_pairs_create(gp_pairs *pairs, size_t count) {
    size_t places = 16;
    while (places < SIZE_MAX / 64 && places / 2 < count)
        places *= 2;
    *pairs = (gp_pairs){.places = gp_allocate_array(places, sizeof *pairs->places), .mask = places - 1};
    if (!pairs->places) return GP_OUT_OF_MEMORY;
    pairs->seed = gp_hash_seed();
    return GP_OK;
}

void gp_pairs_free(gp_pairs *pairs) {
    gp_free(pairs->places);
    *pairs = (gp_pairs){0};
}

/* The place of a key, or the empty one that it would take. */
static gp_pair *place_of(const gp_pairs *pairs, uint64_t key) {
    size_t at = gp_hash_mix(key, pairs->seed) & pairs->mask;
    while (pairs->places[at].key != key && pairs->places[at].key != GP_NO_PAIR)
        at = (at + 1) & pairs->mask;
    return &pairs->places[at];
}

static gp_status grow(gp_pairs *pairs) {
    gp_pairs larger;
    GP_TRY(gp_pairs_create(&larger, pairs->mask + 1));
    larger.seed = pairs->seed;
    for (size_t i = 0; i <= pairs->mask; i++) {
        if (pairs->places[i].key != GP_NO_PAIR) *place_of(&larger, pairs->places[i].key) = pairs->places[i];
    }
    larger.count = pairs->count;
    gp_pairs_free(pairs);
    *pairs = larger;
    return GP_OK;
}

gp_status gp_pairs_set(gp_pairs *pairs, uint64_t key, uint32_t first, uint32_t second) {
    if (pairs->count >= (pairs->mask + 1) / 2) GP_TRY(grow(pairs));
    gp_pair *place = place_of(pairs, key);
    pairs->count += place->key == GP_NO_PAIR;
    *place = (gp_pair){key, first, second};
    return GP_OK;
}
