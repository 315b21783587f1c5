/* The fastest that one core can multiply and add: independent accumulators that never leave their registers. What
 * shares of peak are measured against. */
#ifndef GP_DEVICE_CPU_LOOPS_PEAK_H
#define GP_DEVICE_CPU_LOOPS_PEAK_H

#include "device/cpu/loops_vectors.h"

/* Two pipes with a latency of 4 or 5 cycles need 10; two constants beside them fit into 16 registers. */
enum { PEAK_VECTORS = 12 };

static float peak(int64_t rounds, double *flops) {
    /* Unknown to the compiler: it found that 1 * 0.999 + 0.001 stays 1, left that sum out, and the peak was a twelfth
     * too high. */
    volatile float unknown[] = {0.999f, 0.001f, 1.0f};
    vector sums[PEAK_VECTORS], total = {0}, factor = total + unknown[0], term = total + unknown[1];
    for (int v = 0; v < PEAK_VECTORS; v++) {
        sums[v] = total + unknown[2] * (float)v;
    }
    for (int64_t i = 0; i < rounds; i++) {
        for (int v = 0; v < PEAK_VECTORS; v++) {
            sums[v] = sums[v] * factor + term;
        }
    }
    for (int v = 0; v < PEAK_VECTORS; v++) {
        total += sums[v];
    }
    *flops = 2.0 * PEAK_VECTORS * VECTOR_LANES * (double)rounds;
    return total[0];
}

#endif
