/* Inside mpi/: opening the module of the MPI implementation that started the program. */
#ifndef GP_WORLD_MPI_LOAD_H
#define GP_WORLD_MPI_LOAD_H

#include "gpipe/status.h"
#include "world/mpi/calls.h"

/* Opens the module for `implementation` ("openmpi", "mpich"; NULL: the one that the program uses already or that
 * started it). The module stays loaded: MPI cannot be unloaded. Errors: GP_INVALID, naming what was looked for. */
gp_status gp_mpi_load(const char *implementation, const gp_mpi_calls **calls);

#endif
