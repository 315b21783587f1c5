/* The loops for x86-64-v3: AVX2 and FMA. */
#define GP_CPU_LOOPS      gp_cpu_loops_avx2
#define GP_CPU_LOOPS_NAME "avx2"
#include "device/cpu/loops_table.h"
