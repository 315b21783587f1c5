/* A module for MPI (src/world/mpi/calls.h) that never comes back from MPI_Finalize, as MPICH over UCX and TCP at times:
 * all else is the module that REAL_MODULE names. With OTHER_MODULE it is of another version instead, where calls are in
 * other places. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world/mpi/calls.h"

static void finalise(void) {
    for (;;)
        pause();
}

const gp_mpi_calls *gp_mpi_module(void);
__attribute__((visibility("default"))) const gp_mpi_calls *gp_mpi_module(void) {
    static gp_mpi_calls calls;
    gp_mpi_module_function function;
    const char *path = getenv("REAL_MODULE");
    if (getenv("OTHER_MODULE")) {
        static gp_mpi_calls other;
        other.version = GP_MPI_CALLS_VERSION - 1;
        memset((char *)&other + sizeof other.version, 1, sizeof other - sizeof other.version);
        return &other;
    }
    void *module = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL, *symbol = NULL;
    if (module) symbol = dlsym(module, GP_MPI_MODULE_SYMBOL);
    if (!symbol) return NULL;
    memcpy(&function, &symbol, sizeof function);
    calls = *function();
    calls.finalise = finalise;
    return &calls;
}
