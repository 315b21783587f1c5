/* Conversion between f32 and the two 16-bit floating-point formats, inline so that kernels vectorise over it. Rounding
 * is to nearest even, NaN stays NaN (and becomes quiet), numbers too large become infinite. Without branches, so that a
 * loop over bf16 turns into a handful of vector instructions. */
#ifndef GP_TENSOR_BF16_H
#define GP_TENSOR_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gp_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float gp_f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float gp_bf16_to_f32(uint16_t value) {
    return gp_f32_of_bits((uint32_t)value << 16);
}

static inline uint16_t gp_bf16_of_f32(float value) {
    uint32_t bits = gp_f32_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u; /* a NaN whose payload sits in the low bits must not become infinity */
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

static inline float gp_f16_to_f32(uint16_t value) {
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t magnitude = value & 0x7FFFu;
    if (magnitude >= 0x7C00u) return gp_f32_of_bits(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    /* As bits of an f32 the number is 2^112 too small, also where it is subnormal: one exact product mends it. */
    return gp_f32_of_bits(sign | gp_f32_bits(gp_f32_of_bits(magnitude << 13) * 0x1p112f));
}

static inline uint16_t gp_f16_of_f32(float value) {
    uint32_t bits = gp_f32_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and above round to infinity */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14: adding 1/2 leaves multiples of 2^-24 in the low bits, rounded by the processor. */
        return (uint16_t)(sign | (gp_f32_bits(gp_f32_of_bits(magnitude) + 0.5f) - 0x3F000000u));
    }
    uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

#endif
