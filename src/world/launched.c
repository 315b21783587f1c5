/* Whether a launcher started this process as one of several, which shows in its environment, with MPI or without. */
#include <stdlib.h>

#include "world/cluster.h"

int gp_cluster_launched_by(const char **by) {
    static const struct {
        const char *variable, *launcher;
    } sizes[] = {{"OMPI_COMM_WORLD_SIZE", "mpirun (Open MPI)"},
                 {"PMI_SIZE", "mpiexec (PMI)"},
                 {"SLURM_STEP_NUM_TASKS", "srun (Slurm)"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = getenv(sizes[i].variable);
        int size = text ? atoi(text) : 0;
        *by = sizes[i].launcher;
        if (size > 0) return size;
    }
    return 0;
}

int gp_cluster_launched(void) {
    const char *by;
    return gp_cluster_launched_by(&by);
}
