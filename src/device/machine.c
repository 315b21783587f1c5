/* What this machine offers and what the CPU device makes of it: for `gpipe doctor`. How fast it is: machine_speed.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/thread.h"
#include "device/cpu/loops.h"
#include "device/cpu/onednn/onednn.h"
#include "device/device.h"

/* ---- processor ---- */

/* The value behind "key : " in /proc/cpuinfo. */
static bool cpuinfo_value(const char *key, char *value, size_t size) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        found = true;
    }
    fclose(file);
    return found;
}

static void read_processor(gp_machine *machine) {
    if (!cpuinfo_value("model name", machine->processor, sizeof machine->processor) &&
        !cpuinfo_value("Processor", machine->processor, sizeof machine->processor)) {
        snprintf(machine->processor, sizeof machine->processor, "unknown processor");
    }
}

/* The instruction sets as the own kernels see them (the operating system's part included), and the processor's bf16. */
static void read_features(gp_machine *machine) {
    machine->avx2 = gp_cpu_loops_table("avx2") != NULL;
    machine->avx512 = gp_cpu_loops_table("avx512") != NULL;
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) machine->avx512_bf16 = machine->avx512 && (a >> 5 & 1);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) machine->amx_bf16 = d >> 22 & 1;
#endif
}

static const char *bf16_route(const gp_machine *machine) {
    if (gp_onednn_has_amx()) return "AMX";
    if (machine->amx_bf16) return "f32 (slow: AMX is there, but the library or the operating system does not offer it)";
    if (machine->avx512_bf16) return "f32 (no AMX; AVX-512 BF16 is slower still)";
    return "f32 (slow: the processor has no bf16 instructions)";
}

/* ---- memory ---- */

/* A limit of a control group: a number, or "max". SIZE_MAX when there is none. */
static size_t read_limit(const char *path) {
    FILE *file = fopen(path, "re");
    uint64_t limit = 0;
    if (!file) return SIZE_MAX;
    bool number = fscanf(file, "%" SCNu64, &limit) == 1;
    fclose(file);
    return number && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

/* The smallest limit from this process's control group (version 2) up to the root. */
static size_t group_limit(void) {
    char line[512], path[600];
    size_t limit = read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"); /* version 1 */
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return limit;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) != 0) continue;
        char *group = line + 3;
        group[strcspn(group, "\n")] = '\0';
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
            *end = '\0';
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
            size_t here = read_limit(path);
            if (here < limit) limit = here;
        }
    }
    fclose(file);
    return limit;
}

static size_t read_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t memory = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0, limit = group_limit();
    return limit < memory ? limit : memory;
}

gp_status gp_machine_describe(gp_machine *machine) {
    *machine = (gp_machine){.cores = gp_core_count(), .memory = read_memory()};
    read_processor(machine);
    read_features(machine);
    machine->kernels = gp_cpu_loops_table(NULL)->name;
    machine->products = gp_onednn_version();
    machine->bf16_route = bf16_route(machine);
    return GP_OK;
}
