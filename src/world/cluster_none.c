/* Clusters of a gpipe that was built without MPI: there are none, and a program that a launcher started as one of
 * several must not run as if it were alone. */
#include "base/status.h"
#include "world/cluster.h"

static gp_status refuse(void) {
    return gp_error(GP_INVALID, "this gpipe was built without MPI (GPIPE_MPI): it cannot work with other processes");
}

gp_status gp_cluster_create(gp_cluster **cluster, const gp_cluster_options *options) {
    (void)options;
    *cluster = NULL;
    return refuse();
}

/* None of these is ever called with a cluster: there is no way to get one. */
void gp_cluster_destroy(gp_cluster *cluster) {
    (void)cluster;
}

void gp_cluster_abort(gp_cluster *cluster, int exit_status) {
    (void)cluster, (void)exit_status;
}

int gp_cluster_rank(const gp_cluster *cluster) {
    (void)cluster;
    return 0;
}

int gp_cluster_ranks(const gp_cluster *cluster) {
    (void)cluster;
    return 1;
}

const char *gp_cluster_host(const gp_cluster *cluster, int rank) {
    (void)cluster, (void)rank;
    return "";
}

const char *gp_cluster_implementation(const gp_cluster *cluster) {
    (void)cluster;
    return "none";
}

bool gp_cluster_speaks(const gp_cluster *cluster) {
    (void)cluster;
    return true;
}

int gp_cluster_first_core(const gp_cluster *cluster) {
    (void)cluster;
    return 0;
}

bool gp_cluster_same_host(const gp_cluster *cluster, int a, int b) {
    (void)cluster, (void)a, (void)b;
    return true;
}

gp_status gp_cluster_agree(gp_cluster *cluster, gp_status status) {
    (void)cluster;
    return status;
}

gp_status gp_cluster_any(gp_cluster *cluster, bool mine, bool *any) {
    (void)cluster;
    *any = mine;
    return GP_OK;
}

gp_status gp_cluster_compare(gp_cluster *cluster, const char *what, const void *data, size_t bytes) {
    (void)cluster, (void)what, (void)data, (void)bytes;
    return GP_OK;
}

gp_status gp_cluster_gather(gp_cluster *cluster, const void *mine, size_t bytes, void *all) {
    (void)cluster, (void)mine, (void)bytes, (void)all;
    return refuse();
}

gp_status gp_cluster_share(gp_cluster *cluster, int root, void *data, size_t bytes) {
    (void)cluster, (void)root, (void)data, (void)bytes;
    return refuse();
}

gp_status gp_world_create_cluster(gp_world **world, gp_cluster *cluster, int workers, const gp_world_options *options) {
    (void)cluster, (void)workers, (void)options;
    *world = NULL;
    return refuse();
}
