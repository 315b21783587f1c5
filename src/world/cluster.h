/* Inside the library: a cluster (gpipe/cluster.h) as worlds and the trainer see it. A world of a cluster spreads its
 * workers evenly over the ranks, in their order: rank r hosts workers r * n to r * n + n - 1. */
#ifndef GP_WORLD_CLUSTER_H
#define GP_WORLD_CLUSTER_H

#include "gpipe/cluster.h"
#include "world/world.h"

/* Collective. `workers` is a multiple of the ranks. Errors: GP_INVALID, GP_OUT_OF_MEMORY, GP_FAILED, GP_PEER_LOST. */
gp_status gp_world_create_cluster(gp_world **world, gp_cluster *cluster, int workers, const gp_world_options *options);

/* Collective, by the thread that calls gp_cluster_ functions. all[r * bytes ..] = what rank r gave; what `root` has
 * goes to all. Errors: GP_PEER_LOST, GP_FAILED, GP_OUT_OF_MEMORY. */
gp_status gp_cluster_gather(gp_cluster *cluster, const void *mine, size_t bytes, void *all);
gp_status gp_cluster_share(gp_cluster *cluster, int root, void *data, size_t bytes);

/* gp_cluster_launched, and by which launcher (a constant text). Pure. */
int gp_cluster_launched_by(const char **by);

/* Cores are handed out rank by rank: how many ranks before this one share the processors that it may use. A launcher
 * that has bound ranks to processors of their own has left nothing to hand out. */
int gp_cluster_first_core(const gp_cluster *cluster);

/* Whether two ranks are on one machine. */
bool gp_cluster_same_host(const gp_cluster *cluster, int a, int b);

#endif
