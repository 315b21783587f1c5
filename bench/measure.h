/* Timing single kernels of the CPU device, for bench-kernels and bench-images: beside every run of a kernel the
 * machine's own speed is measured, because it changes from minute to minute and only neighbours can be compared. With
 * one thread the clock is the thread's processor time, so that other programs on the machine disturb little. */
#ifndef GP_BENCH_MEASURE_H
#define GP_BENCH_MEASURE_H

#include "device/cpu/loops.h"

typedef struct measure {
    gp_device *device;
    int threads, rounds;
} measure;

/* The best times of `rounds` runs. */
typedef struct measured {
    double seconds;
    double peak; /* f32 operations a second, of multiply-adds from registers */
    double copy; /* bytes a second, read and written by memcpy; 0 unless asked for */
} measured;

/* Prints `what` and the last error, and ends the program. */
void measure_stop(const char *what);
void measure_open(measure *m, int threads, int rounds);
void measure_close(measure *m);

/* Creates the kernel and runs it, parameters in its forms. `copy_bytes`: size of the array that is copied beside it; 0:
 * none. */
measured measure_kernel(const measure *m, const char *name, const gp_kernel_desc *desc, size_t copy_bytes);

#endif
