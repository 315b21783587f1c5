/* Inside mpi/: the clocks of machines. Every machine's monotonic clock counts from its own start. One rank of each
 * machine asks rank 0 for the time: its clock differs from rank 0's by what was told less the middle of the question's
 * round trip, and is wrong by half of that trip at most (Cristian 1989). The quickest of several questions counts; as
 * clocks drift apart, later ones replace it when they are no worse than what it has become. The other ranks of the
 * machine take over what that one knows. */
#ifndef GP_WORLD_MPI_CLOCK_H
#define GP_WORLD_MPI_CLOCK_H

#include <stdbool.h>

#include "gpipe/status.h"

struct gp_cluster;

/* What a question told, and when. */
typedef struct gp_clock_estimate {
    double offset; /* seconds to add to this clock to get the other */
    double error;  /* at most, then */
    double made;   /* on this clock */
} gp_clock_estimate;

/* Asked and heard on this clock, told on the other. Pure. */
gp_clock_estimate gp_clock_estimate_from(double asked, double told, double heard);
/* Whether `found` is to replace `kept` (made == 0: there is none), which is older. Pure. */
bool gp_clock_replaces(const gp_clock_estimate *found, const gp_clock_estimate *kept);

/* Collective: finds the clocks of all machines; `each`: as if every rank had a machine of its own (for tests). */
gp_status gp_clock_compare(struct gp_cluster *cluster, bool each);
/* Whether this rank asks for its machine. */
bool gp_clock_asks(const struct gp_cluster *cluster);
/* Whether a rank is the one that asks for this machine. */
bool gp_clock_follows(const struct gp_cluster *cluster, int rank);
/* An answer has come. Under the lock. */
void gp_clock_learn(struct gp_cluster *cluster, double asked, double told);

#endif
