/* A program that has initialised MPI itself and hands in a communicator. With an argument: what becomes of the thread
 * level of that name. */
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "world/cluster.h"

/* Two halves of all processes, each a cluster of its own, while the program goes on talking on its own communicator. */
static void halves_work_apart(void **state) {
    int rank, ranks, half_rank, sum = 0;
    MPI_Comm half;
    gp_cluster *cluster;
    (void)state;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_rank(half, &half_rank);
    if (gp_cluster_create(&cluster, &(gp_cluster_options){.communicator = &half}) != GP_OK)
        fail_msg("%s", gp_error_message());
    assert_int_equal(gp_cluster_ranks(cluster), (ranks + 1 - rank % 2) / 2);
    assert_int_equal(gp_cluster_rank(cluster), half_rank);
    assert_true(strlen(gp_cluster_host(cluster, half_rank)) > 0);
    int all[16] = {0};
    assert_int_equal(gp_cluster_gather(cluster, &rank, sizeof rank, all), GP_OK);
    for (int r = 0; r < gp_cluster_ranks(cluster); r++)
        assert_int_equal(all[r], 2 * r + rank % 2);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    assert_int_equal(sum, ranks * (ranks - 1) / 2);
    gp_cluster_destroy(cluster);
    int finalised;
    MPI_Finalized(&finalised);
    assert_false(finalised); /* that is the program's to do */
    MPI_Comm_free(&half);
}

static void processes_agree(void **state) {
    gp_cluster *cluster;
    bool any;
    (void)state;
    assert_int_equal(gp_cluster_create(&cluster, NULL), GP_OK);
    int rank = gp_cluster_rank(cluster), ranks = gp_cluster_ranks(cluster);
    assert_int_equal(gp_cluster_agree(cluster, GP_OK), GP_OK);
    gp_status mine = rank > 1 ? gp_error(GP_INVALID, "file %d is missing", rank) : GP_OK;
    assert_int_equal(gp_cluster_agree(cluster, mine), ranks > 2 ? GP_INVALID : GP_OK);
    if (ranks > 2) assert_non_null(strstr(gp_error_message(), "rank 2 (host "));
    if (ranks > 2) assert_non_null(strstr(gp_error_message(), "file 2 is missing"));
    assert_int_equal(gp_cluster_agree(cluster, gp_error(GP_IO, "all alike")), GP_IO);
    assert_string_equal(gp_error_message(), "all alike");
    assert_int_equal(gp_cluster_any(cluster, rank == ranks - 1, &any), GP_OK);
    assert_true(any);
    assert_int_equal(gp_cluster_any(cluster, false, &any), GP_OK);
    assert_false(any);
    assert_int_equal(gp_cluster_compare(cluster, "the text", "abc", 3), GP_OK);
    assert_int_equal(gp_cluster_compare(cluster, "the text", rank == 1 ? "abd" : "abc", 3), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "the text of rank 1 (host "));
    assert_int_equal(gp_cluster_compare(cluster, "the length", "abcd", rank == 0 ? 4 : 3), GP_INVALID);
    assert_int_equal(gp_cluster_speaks(cluster), rank == 0);
    gp_cluster_destroy(cluster);
}

static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};

/* The program's own level counts: too little is refused with a sentence that names it. */
static int check_level(const char *name) {
    static const int values[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int level = 0, provided = 0;
    gp_cluster *cluster;
    while (strcmp(levels[level], name) != 0)
        level++;
    MPI_Init_thread(NULL, NULL, values[level], &provided);
    bool enough = provided >= MPI_THREAD_SERIALIZED;
    gp_status status = gp_cluster_create(&cluster, NULL);
    bool right = enough ? status == GP_OK : status == GP_INVALID && strstr(gp_error_message(), "thread level") != NULL;
    if (!right) fprintf(stderr, "level %s: %s\n", name, gp_error_message());
    gp_cluster_destroy(cluster);
    MPI_Finalize();
    return right ? 0 : 1;
}

int main(int count, char **arguments) {
    int provided;
    if (count > 1) return check_level(arguments[1]);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_work_apart),
        cmocka_unit_test(processes_agree),
    };
    int failed = provided == MPI_THREAD_MULTIPLE ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    MPI_Finalize();
    return failed;
}
