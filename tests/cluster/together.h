/* What the test programs of several processes share: the cluster, and how they leave it. */
#ifndef GP_TESTS_CLUSTER_TOGETHER_H
#define GP_TESTS_CLUSTER_TOGETHER_H

#include <stdio.h>

#include "gpipe/gpipe.h"

static gp_cluster *cluster;

/* Joins the other processes; false: it could not, and has said why. */
static inline bool together_begin(void) {
    if (gp_cluster_create(&cluster, NULL) == GP_OK) return true;
    fprintf(stderr, "%s\n", gp_error_message());
    return false;
}

/* The exit status; after failures the others, which may be waiting, end too. */
static inline int together_end(int failed) {
    if (failed > 0) {
        gp_cluster_abort(cluster, 1);
    } else {
        gp_cluster_destroy(cluster);
    }
    return failed;
}

#endif
