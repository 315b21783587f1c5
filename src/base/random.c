/* Streams of counted random numbers for initial parameters. Number i of a stream depends on seed, name and i alone, so
 * a worker fills its own layers without drawing anybody else's. */
#include "base/random.h"

#include <math.h>
#include <stdbool.h>

uint64_t gp_hash_text(const char *text) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *text; text++) {
        hash ^= (unsigned char)*text;
        hash *= 0x100000001B3u;
    }
    return hash;
}

/* Words 4 * block to 4 * block + 3 of the stream. */
static gp_random_block stream_block(uint64_t seed, uint64_t name, uint64_t block) {
    gp_random_block counter = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)name, (uint32_t)(name >> 32)}};
    return gp_random4(gp_random_key_of(seed), counter);
}

/* Box-Muller: two words to two normal numbers. The radius takes (0, 1], so that the logarithm is finite. */
static void normal_pair(uint32_t first, uint32_t second, float out[2]) {
    const double turn = 6.283185307179586476925286766559;
    double radius = sqrt(-2.0 * log(((double)first + 1.0) * 0x1p-32));
    double angle = turn * ((double)second * 0x1p-32);
    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

/* Numbers 4 * block to 4 * block + 3 of a normal stream. */
static void normal_four(uint64_t seed, uint64_t name, uint64_t block, float four[4]) {
    gp_random_block words = stream_block(seed, name, block);
    normal_pair(words.word[0], words.word[1], four);
    normal_pair(words.word[2], words.word[3], four + 2);
}

void gp_random_fill_normal(float *out, int64_t count, uint64_t seed, const char *name) {
    uint64_t hash = gp_hash_text(name);
    for (int64_t i = 0; i < count; i += 4) {
        float four[4];
        normal_four(seed, hash, (uint64_t)i / 4, four);
        for (int64_t j = 0; j < 4 && i + j < count; j++)
            out[i + j] = four[j];
    }
}

/* A number is drawn again from the same place of the next attempt's blocks, which have the attempt in their high bits:
 * others do not move. After 64 attempts, which nobody will see, it is 0. */
void gp_random_fill_truncated_normal(float *out, int64_t count, uint64_t seed, const char *name) {
    enum { ATTEMPTS = 64, ATTEMPT_BIT = 56 };
    uint64_t hash = gp_hash_text(name);
    for (int64_t i = 0; i < count; i += 4) {
        bool missing = true;
        float kept[4] = {0};
        for (uint64_t attempt = 0; attempt < ATTEMPTS && missing; attempt++) {
            float four[4];
            normal_four(seed, hash, (uint64_t)i / 4 | attempt << ATTEMPT_BIT, four);
            missing = false;
            for (int j = 0; j < 4; j++) {
                if (kept[j] == 0 && fabsf(four[j]) <= 2) kept[j] = four[j];
                missing = missing || kept[j] == 0;
            }
        }
        for (int64_t j = 0; j < 4 && i + j < count; j++)
            out[i + j] = kept[j];
    }
}

void gp_random_fill_uniform(float *out, int64_t count, uint64_t seed, const char *name) {
    uint64_t hash = gp_hash_text(name);
    for (int64_t i = 0; i < count; i += 4) {
        gp_random_block words = stream_block(seed, hash, (uint64_t)i / 4);
        for (int64_t j = 0; j < 4 && i + j < count; j++)
            out[i + j] = (float)(words.word[j] >> 8) * 0x1p-23f - 1.0f;
    }
}
