/* Permutations by a Feistel network with Philox as its round function, on the smallest power of four that holds the
 * numbers; what falls outside goes through again until it is inside (cycle walking: Black & Rogaway, "Ciphers with
 * arbitrary finite domains", 2002). At most three quarters are outside, so that takes four rounds on average at most.
 */
#include "data/order.h"

enum { ROUNDS = 6, RUNS_OF_A_WINDOW = 16 };

gp_permutation gp_permutation_of(uint64_t count, uint64_t seed, uint64_t tweak) {
    gp_permutation permutation = {.count = count, .half = 1, .tweak = tweak, .key = gp_random_key_of(seed)};
    while (permutation.half < 32 && (uint64_t)1 << (2 * permutation.half) < count)
        permutation.half++;
    return permutation;
}

static uint64_t encipher(const gp_permutation *permutation, uint64_t number) {
    uint32_t mask = (uint32_t)(((uint64_t)1 << permutation->half) - 1);
    uint32_t left = (uint32_t)(number >> permutation->half), right = (uint32_t)number & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        gp_random_block counter = {{right, round, (uint32_t)permutation->tweak, (uint32_t)(permutation->tweak >> 32)}};
        uint32_t next = left ^ (gp_random4(permutation->key, counter).word[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << permutation->half | right;
}

uint64_t gp_permutation_at(const gp_permutation *permutation, uint64_t place) {
    do
        place = encipher(permutation, place);
    while (place >= permutation->count);
    return place;
}

static uint64_t permute(uint64_t count, uint64_t seed, uint64_t tweak, uint64_t place) {
    gp_permutation permutation = gp_permutation_of(count, seed, tweak);
    return gp_permutation_at(&permutation, place);
}

uint64_t gp_order_at(uint64_t count, uint64_t window, uint64_t seed, uint64_t epoch, uint64_t place) {
    if (window == 0 || window >= count) return permute(count, seed, epoch, place);
    uint64_t run = (window + RUNS_OF_A_WINDOW - 1) / RUNS_OF_A_WINDOW, whole = count / run;
    uint64_t number = place / window, first = number * window;
    uint64_t here = count - first < window ? count - first : window;
    /* Other keys than the epoch's: two permutations of one key would be related. */
    uint64_t inside = permute(here, ~seed ^ epoch << 32, number, place - first);
    uint64_t at = first + inside;
    if (at >= whole * run) return at; /* the rest behind the last whole run */
    return permute(whole, seed, epoch, at / run) * run + at % run;
}
