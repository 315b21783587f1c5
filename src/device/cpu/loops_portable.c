/* The loops for any processor of the kind that the library is built for. */
#define GP_CPU_LOOPS      gp_cpu_loops_portable
#define GP_CPU_LOOPS_NAME "portable"
#include "device/cpu/loops_table.h"
