/* Clusters: the processes of a run that MPI started, on one machine or several.
 *
 * Every process of the run makes the same calls in the same order ("collectively") and gets the same results; gpipe
 * spreads workers over the processes, and each builds, computes, reads and writes only what its own workers hold. MPI
 * itself is a module that is opened at run time (gpipe built without MPI says so): Open MPI and MPICH are known.
 *
 * Functions are called by one thread of each process at a time, except where said otherwise. */
#ifndef GPIPE_CLUSTER_H
#define GPIPE_CLUSTER_H

#include "gpipe/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gp_cluster gp_cluster;

/* A process that is lost is told of through the log (GP_LOG_ERROR) as soon as it is noticed, by the process that speaks
 * (gp_cluster_speaks): launchers end a job at once when one of its processes ends. Functions that wait for it then
 * return GP_PEER_LOST. */

/* All zero is the default. */
typedef struct gp_cluster_options {
    size_t size; /* sizeof, or 0 */
    /* The address of an MPI_Comm whose processes are to work together; it is duplicated, never used. NULL:
     * MPI_COMM_WORLD. */
    const void *communicator;
    const char *implementation; /* "openmpi" or "mpich"; NULL: the one that the program uses or that started it */
    double lost_after;          /* seconds of silence after which a process on another machine counts as lost; 0: 20 */
} gp_cluster_options;

/* How many processes a launcher (mpirun, srun) started together with this one, as far as the environment tells; 0: this
 * process was started by itself. Pure. */
GP_API int gp_cluster_launched(void);

/* The MPI implementations that gpipe was built for, "Open MPI 4.1.4, MPICH 4.0.2"; "" without MPI. Lives for ever.
 * Pure. */
GP_API const char *gp_cluster_implementations(void);

/* Joins the processes; collective. MPI is initialised unless the program has done so, and finalised by
 * gp_cluster_destroy in the same case. A thread of gpipe makes MPI calls while the cluster exists: a program that makes
 * calls itself meanwhile must have asked for MPI_THREAD_MULTIPLE. Errors: GP_INVALID (gpipe was built without MPI,
 * there is no module for this implementation, or MPI was initialised with less than MPI_THREAD_SERIALIZED), GP_FAILED
 * (an MPI error), GP_PEER_LOST. When MPICH's launcher says during it that another process has ended (by SIGUSR1, which
 * is blocked in the calling thread meanwhile), this one ends with the error in the log and the exit status of
 * GP_PEER_LOST; a wait of 30 seconds for others to start is told of through the log (GP_LOG_WARNING). MPI is finalised
 * after an error too; when it does not come back, the process ends as gp_cluster_destroy says, but with the error in
 * the log and with its exit status. */
GP_API gp_status gp_cluster_create(gp_cluster **cluster, const gp_cluster_options *options);
/* Collective, after everything that was made with the cluster is gone. When an MPI that gpipe has initialised does not
 * come back from MPI_Finalize within 5 seconds, that is told of through the log (GP_LOG_WARNING) and ends the process,
 * with status 0; between several machines MPICH, which hangs there at times, is not finalised at all, and its launcher
 * takes the process as having left: let it be among the last things that a program does. Accepts NULL. */
GP_API void gp_cluster_destroy(gp_cluster *cluster);
/* After a failure: waits a few seconds for the other processes to come here too, then destroys the cluster; when some
 * do not come, ends all processes of the job with this exit status (this one too: then it does not return). Accepts
 * NULL. */
GP_API void gp_cluster_abort(gp_cluster *cluster, int exit_status);

GP_API int gp_cluster_rank(const gp_cluster *cluster);
GP_API int gp_cluster_ranks(const gp_cluster *cluster);
/* The name of the machine that a rank runs on; the cluster's. */
GP_API const char *gp_cluster_host(const gp_cluster *cluster, int rank);
/* "Open MPI 4.1.4" */
GP_API const char *gp_cluster_implementation(const gp_cluster *cluster);
/* Whether this process is the one to print what is to be printed once: rank 0, or the lowest that has been heard of
 * lately when others are lost or stopped. Any thread. */
GP_API bool gp_cluster_speaks(const gp_cluster *cluster);

/* Collective. Each process says how what it has just done ended (this thread's message tells why); all get the failure
 * of the lowest rank that has one, with its rank and host before the message. Errors: that status, or GP_PEER_LOST. */
GP_API gp_status gp_cluster_agree(gp_cluster *cluster, gp_status status);
/* Collective: whether any process says so. Errors: GP_PEER_LOST. */
GP_API gp_status gp_cluster_any(gp_cluster *cluster, bool mine, bool *any);
/* Collective: refuses processes that do not have the same bytes as rank 0. `what` names them in the message ("the
 * configuration (pipeline)"). Errors: GP_INVALID naming the first rank that differs, GP_PEER_LOST. */
GP_API gp_status gp_cluster_compare(gp_cluster *cluster, const char *what, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
