/* Which MPI started the program shows in its environment; the module for it is looked for beside the library.
 * A program that uses MPI itself has the library of one implementation in it, which then must be the one. */
#include "world/mpi/load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

/* ---- which implementation ---- */

static const char *const implementations[] = {"openmpi", "mpich"};
enum { IMPLEMENTATIONS = sizeof implementations / sizeof *implementations };

/* The implementation that should be tried first. */
static const char *guess(void) {
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world")) return "openmpi";
    if (dlsym(RTLD_DEFAULT, "MPI_Init")) return "mpich";
    if (getenv("OMPI_COMM_WORLD_SIZE")) return "openmpi";
    if (getenv("PMI_SIZE") || getenv("PMI_RANK")) return "mpich";
    return "openmpi"; /* PMIx: srun --mpi=pmix */
}

/* Whether the program has an MPI library of its own, which no module may be mixed with. */
static bool has_mpi(void) {
    return dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
}

/* ---- where ---- */

/* The folder of the file that this code is in: the library, or the program when it is linked statically. */
static char *own_folder(void) {
    Dl_info information;
    static const char here = 0;
    if (!dladdr(&here, &information) || !information.dli_fname) return gp_copy_text(".");
    const char *end = strrchr(information.dli_fname, '/');
    return end ? gp_format_text("%.*s", (int)(end - information.dli_fname), information.dli_fname) : gp_copy_text(".");
}

static void *open_in(const char *folder, const char *implementation, char *reason, size_t size) {
    char *path = gp_format_text("%s/gpipe-mpi-%s.so", folder, implementation);
    bool there = path && access(path, F_OK) == 0;
    /* MPI libraries load components of their own, which look for its symbols in the whole program. */
    void *module = there ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (there && !module) snprintf(reason, size, " that can be opened (%s)", dlerror());
    gp_free(path);
    return module;
}

static void *open_module(const char *implementation, char *reason, size_t size) {
    const char *given = getenv("GPIPE_MODULES"); /* who names a folder means no other one */
    char *own = own_folder(), *beside = own ? gp_format_text("%s/gpipe", own) : NULL;
    const char *folders[] = {given ? given : beside, given ? NULL : GPIPE_MODULE_FOLDER};
    void *module = NULL;
    for (size_t i = 0; !module && i < sizeof folders / sizeof *folders; i++)
        if (folders[i]) module = open_in(folders[i], implementation, reason, size);
    gp_free(own);
    gp_free(beside);
    return module;
}

static gp_status take_table(void *module, const char *implementation, const gp_mpi_calls **calls) {
    gp_mpi_module_function function;
    void *symbol = dlsym(module, GP_MPI_MODULE_SYMBOL);
    memcpy(&function, &symbol, sizeof function);
    const gp_mpi_calls *table = function ? function() : NULL;
    if (!table || table->version != GP_MPI_CALLS_VERSION) /* its calls may be others */
        return gp_error(GP_INVALID, "the module gpipe-mpi-%s.so belongs to another version of gpipe", implementation);
    *calls = table;
    return GP_OK;
}

gp_status gp_mpi_load(const char *implementation, const gp_mpi_calls **calls) {
    const char *wanted = implementation ? implementation : getenv("GPIPE_MPI");
    char reason[512] = "";
    *calls = NULL;
    if (wanted || has_mpi()) {
        if (!wanted) wanted = guess();
        void *module = open_module(wanted, reason, sizeof reason);
        if (module) return take_table(module, wanted, calls);
        return gp_error(GP_INVALID, "gpipe has no module for the MPI implementation %s%s", wanted, reason);
    }
    const char *first = guess();
    void *module = open_module(first, reason, sizeof reason);
    if (module) return take_table(module, first, calls);
    for (size_t i = 0; i < IMPLEMENTATIONS; i++) {
        module = strcmp(implementations[i], first) == 0 ? NULL : open_module(implementations[i], reason, sizeof reason);
        if (module) return take_table(module, implementations[i], calls);
    }
    return gp_error(GP_INVALID, "gpipe was started by MPI, but it has no module for it%s: %s was looked for", reason,
                    first);
}
