/* Averages over time and over groups: element by element, in f32. */
#ifndef GP_DEVICE_CPU_LOOPS_AVERAGE_H
#define GP_DEVICE_CPU_LOOPS_AVERAGE_H

#include "device/cpu/loops_lanes.h"

/* As a difference, so that an average of equal values is that value whatever rounding makes of the decay. */
static void moving_average(float *average, const float *value, float rest, int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        average[i] += rest * (value[i] - average[i]);
    }
}

static void merge_moments(float *mean, float *variance, const float *other_mean, const float *other_variance,
                          float share, int64_t count) {
    GP_SIMD
    for (int64_t i = 0; i < count; i++) {
        float difference = other_mean[i] - mean[i];
        float spread = share * (1.0f - share) * difference * difference;
        variance[i] += share * (other_variance[i] - variance[i]) + spread;
        mean[i] += share * difference;
    }
}

#endif
