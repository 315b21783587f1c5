/* Running as one of several processes that MPI started: joining them, leaving them, and who speaks. */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include "arguments.h"

/* Joins when a launcher started several processes; *cluster stays NULL when this one is alone. From then on only the
 * one that speaks writes messages. Errors: GP_INVALID (also for a command that is not done together), GP_FAILED. */
gp_status cli_cluster_join(gp_cluster **cluster, const cli_command *command);
/* Leaves in good order, or, with a result that is not 0, together with all others. Returns the exit status. */
int cli_cluster_leave(gp_cluster *cluster, int result);

/* Collective: the first failure of any process becomes everybody's. `cluster` may be NULL. */
gp_status cli_cluster_agree(gp_cluster *cluster, gp_status status);
/* Collective: the signal that asked some process for the end (signals.h); 0: none has. `cluster` may be NULL. */
int cli_cluster_signal(gp_cluster *cluster);
/* Whether this process writes what is written once: stdout, the run directory. */
bool cli_cluster_writes(const gp_cluster *cluster);

#endif
