/* Which table of loops runs on this processor. */
#include "device/cpu/loops.h"

#include <string.h>

#if defined(__x86_64__)
/* Everything that -march=x86-64-v3 and -v4 let the compiler use. */
static bool runs_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

const gp_cpu_loops *gp_cpu_loops_table(const char *name) {
#if defined(__x86_64__)
    if ((!name || !strcmp(name, "avx512")) && runs_avx512()) return &gp_cpu_loops_avx512;
    if ((!name || !strcmp(name, "avx2")) && runs_avx2()) return &gp_cpu_loops_avx2;
#endif
    return !name || !strcmp(name, "portable") ? &gp_cpu_loops_portable : NULL;
}
