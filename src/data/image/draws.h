/* The random numbers of one sample: a stream that belongs to (seed, number of the sample in the training), so that it
 * is the same for whoever makes the sample; and whether its image is turned in this epoch. */
#ifndef GP_DATA_IMAGE_DRAWS_H
#define GP_DATA_IMAGE_DRAWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

typedef struct gp_draws {
    gp_random_key key;
    uint64_t number;
    uint32_t drawn;
    bool turned; /* left and right change places (gp_augmentation.alternate) */
    gp_random_block block;
} gp_draws;

static inline gp_draws gp_draws_of(uint64_t seed, uint64_t number) {
    return (gp_draws){.key = gp_random_key_of(seed), .number = number};
}

static inline uint32_t gp_draw(gp_draws *draws) {
    uint32_t lane = draws->drawn % 4;
    if (lane == 0) {
        gp_random_block counter = {
            {draws->drawn / 4, (uint32_t)draws->number, (uint32_t)(draws->number >> 32), 0x696D6167u}};
        draws->block = gp_random4(draws->key, counter);
    }
    draws->drawn++;
    return draws->block.word[lane];
}

/* [low, high) */
static inline double gp_draw_between(gp_draws *draws, double low, double high) {
    return low + (high - low) * ((double)gp_draw(draws) * 0x1p-32);
}

/* 0 to count - 1; favours no number by more than count / 2^32. */
static inline int gp_draw_below(gp_draws *draws, int count) {
    return (int)((uint64_t)gp_draw(draws) * (uint64_t)count >> 32);
}

#endif
