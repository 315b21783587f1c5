/* The few MPI calls that gpipe makes, as a table that a loadable module fills in: module.c is compiled once for every
 * MPI implementation found at build time, and load.c opens the one that started the program. Nothing else includes
 * <mpi.h>; the library itself depends on no MPI.
 *
 * Calls are made by one thread at a time (the caller holds a lock). Transfers do not block: each is added to the pool
 * of its communicator's job, and gp_mpi_calls.poll tells what has finished. Functions return 0 or an MPI error code,
 * whose text `describe` gives. */
#ifndef GP_WORLD_MPI_CALLS_H
#define GP_WORLD_MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gp_mpi_comm gp_mpi_comm; /* a communicator */
typedef struct gp_mpi_pool gp_mpi_pool; /* transfers that have not finished */

/* Levels of MPI 3.1, section 12.4, in their order. */
typedef enum gp_mpi_threads {
    GP_MPI_THREAD_SINGLE,
    GP_MPI_THREAD_FUNNELED,
    GP_MPI_THREAD_SERIALIZED,
    GP_MPI_THREAD_MULTIPLE
} gp_mpi_threads;

/* A transfer that has finished: what it was started with, and for a receive who sent how much. */
typedef struct gp_mpi_finished {
    void *user;
    int source;
    size_t bytes;
    int error;
} gp_mpi_finished;

enum { GP_MPI_CALLS_VERSION = 5, GP_MPI_ANYBODY = -1 };

typedef struct gp_mpi_calls {
    int version; /* GP_MPI_CALLS_VERSION */
    const char *name;

    /* Initialises MPI unless the program has; `initialised`: it was done here. */
    int (*initialise)(bool *initialised, gp_mpi_threads *threads);
    void (*finalise)(void);
    /* Tells the launcher, past MPI, that this process ends in good order, instead of `finalise` or while that does not
     * come back in another thread: the exit status is then the one that counts. Returns whether the launcher has
     * answered; may not come back either. */
    bool (*leave)(void);
    bool leaves;  /* between machines `finalise` may hang: `leave` is better */
    bool signals; /* the launcher says by SIGUSR1 that another process has ended */
    /* Ends the whole job. */
    void (*abort)(int status);
    void (*describe)(int error, char *text, size_t size);

    /* `communicator`: the address of an MPI_Comm, or NULL for MPI_COMM_WORLD. The comm is only a name for it. NULL: no
     * memory. */
    gp_mpi_comm *(*comm_of)(const void *communicator);
    /* A communicator of one's own over the same processes; collective. It is there when the transfer has finished. */
    int (*duplicate)(gp_mpi_comm *from, gp_mpi_comm **comm, gp_mpi_pool *pool, void *user);
    void (*comm_free)(gp_mpi_comm *comm, bool with_communicator);
    void (*place)(gp_mpi_comm *comm, int *rank, int *ranks);

    /* A pool with room for `capacity` transfers, which grows. NULL: no memory. */
    gp_mpi_pool *(*pool_create)(int capacity);
    /* Makes room for so many more than there are. */
    bool (*pool_reserve)(gp_mpi_pool *pool, int more);
    /* Cancels the receives that are left, and frees. */
    void (*pool_free)(gp_mpi_pool *pool);

    /* At most INT_MAX bytes each. A finished transfer is reported by poll. */
    int (*send)(gp_mpi_comm *comm, gp_mpi_pool *pool, const void *data, int bytes, int to, int tag, void *user);
    int (*receive)(gp_mpi_comm *comm, gp_mpi_pool *pool, void *data, int bytes, int from, int tag, void *user);
    /* all[r * bytes ..] = what rank r gave; by all ranks, in the same order. */
    int (*gather)(gp_mpi_comm *comm, gp_mpi_pool *pool, const void *mine, int bytes, void *all, void *user);
    int (*broadcast)(gp_mpi_comm *comm, gp_mpi_pool *pool, void *data, int bytes, int root, void *user);

    /* How many transfers have finished since the last call, and which: an array of the pool's until the next call,
     * during which new ones may be started. Does not block. */
    int (*poll)(gp_mpi_pool *pool, const gp_mpi_finished **finished);
    /* Takes one message that has arrived and that nobody has asked for, and throws it away; `found`: there was one. */
    int (*discard)(gp_mpi_comm *comm, bool *found);
    /* Cancels the transfers that were started with `user` (receives; sends are left alone); they finish with 0 bytes.
     */
    void (*cancel)(gp_mpi_pool *pool, const void *user);
} gp_mpi_calls;

/* What a module exports, under the name "gp_mpi_module". */
typedef const gp_mpi_calls *(*gp_mpi_module_function)(void);
#define GP_MPI_MODULE_SYMBOL "gp_mpi_module"

#endif
