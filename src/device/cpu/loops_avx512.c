/* The loops for x86-64-v4: AVX-512 with vectors of 64 bytes. */
#define GP_CPU_LOOPS      gp_cpu_loops_avx512
#define GP_CPU_LOOPS_NAME "avx512"
#include "device/cpu/loops_table.h"
