/* Counted random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A
 * number is a pure function of key and counter, so nothing depends on who draws it when. Inline: kernels vectorise over
 * it. */
#ifndef GP_BASE_RANDOM_H
#define GP_BASE_RANDOM_H

#include <stdint.h>

typedef struct gp_random_key {
    uint32_t word[2];
} gp_random_key;

typedef struct gp_random_block {
    uint32_t word[4];
} gp_random_block;

static inline gp_random_block gp_random4(gp_random_key key, gp_random_block counter) {
    uint32_t k0 = key.word[0], k1 = key.word[1];
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (gp_random_block){{c0, c1, c2, c3}};
}

static inline gp_random_key gp_random_key_of(uint64_t seed) {
    return (gp_random_key){{(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

/* What drops: element e of sample s of the mini-batch in step t at use u is kept when its word >= threshold. The word
 * of element e is word e % 4 of the block with counter (e / 4, s, t, u). Both devices follow this. */
static inline gp_random_block gp_random_element4(gp_random_key key, uint32_t block, uint32_t sample, uint32_t step,
                                                 uint32_t use) {
    return gp_random4(key, (gp_random_block){{block, sample, step, use}});
}

/* The threshold below which a 32-bit word means "dropped" with probability p. */
static inline uint32_t gp_random_threshold(double p) {
    double t = p * 4294967296.0;
    return t >= 4294967295.0 ? 0xFFFFFFFFu : (uint32_t)t;
}

/* [0, 1) with 24 bits. */
static inline float gp_random_unit(uint32_t word) {
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

/* A 64-bit hash of a text (FNV-1a), for keys made of names. */
uint64_t gp_hash_text(const char *text);

/* Fills with the i-th number (i from 0) of a stream keyed by (seed, name): normal(0, 1) by Box-Muller in double from
 * pairs of words, or uniform in [-1, 1). */
void gp_random_fill_normal(float *out, int64_t count, uint64_t seed, const char *name);
/* As normal, but numbers beyond -2 and 2 are drawn again until they lie within (TensorFlow's truncated normal). */
void gp_random_fill_truncated_normal(float *out, int64_t count, uint64_t seed, const char *name);
void gp_random_fill_uniform(float *out, int64_t count, uint64_t seed, const char *name);

#endif
