/* The order of an epoch: a permutation of the samples that is computed, not stored. */
#ifndef GP_DATA_ORDER_H
#define GP_DATA_ORDER_H

#include <stdint.h>

#include "base/random.h"

/* A bijection of 0 to count - 1 on itself. */
typedef struct gp_permutation {
    uint64_t count;
    uint32_t half; /* bits of half a number */
    uint64_t tweak;
    gp_random_key key;
} gp_permutation;

/* The permutation of `count` numbers that belongs to (seed, tweak). */
gp_permutation gp_permutation_of(uint64_t count, uint64_t seed, uint64_t tweak);
/* Where `place`, which is below the count, goes to. */
uint64_t gp_permutation_at(const gp_permutation *permutation, uint64_t place);

/* The sample at `place` of epoch `epoch` when `count` samples are shuffled. `window` 0: all of them at once. Otherwise
 * samples that lie one after the other in storage stay within a window of that many places, so that a slow disk can
 * read on: the storage is cut into runs of window / 16, the runs come in any order, and the samples of every 16 of them
 * are shuffled. */
uint64_t gp_order_at(uint64_t count, uint64_t window, uint64_t seed, uint64_t epoch, uint64_t place);

#endif
