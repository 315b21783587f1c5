/* Conformance of worlds: one set of cases for every implementation. Workers are threads of this test, or, when it is
 * started by MPI, of all processes of it: then each process runs its own ones, and all go through the same cases. The
 * number of workers of each process is the first argument, the bytes of the longest message of MPI the second. */
#include "team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#ifdef GPIPE_TEST_MPI
#include "world/mpi/inside.h"
#endif

enum { MESSAGES = 200, SLOTS = 3 };

/* ---- links ---- */

/* A message of `bytes` is told by its number at both ends and in between. */
static void write_message(void *buffer, size_t bytes, int number) {
    memset(buffer, number % 251, bytes);
    memcpy(buffer, &number, sizeof number);
    if (bytes >= 2 * sizeof number) memcpy((char *)buffer + bytes - sizeof number, &number, sizeof number);
}

static gp_status check_message(const void *buffer, size_t bytes, int number) {
    int first, last = number;
    memcpy(&first, buffer, sizeof first);
    if (bytes >= 2 * sizeof number) memcpy(&last, (const char *)buffer + bytes - sizeof last, sizeof last);
    if (first != number || last != number)
        return gp_error(GP_FAILED, "message %d of %zu bytes begins with %d and ends with %d", number, bytes, first,
                        last);
    for (size_t i = sizeof number; i + sizeof number < bytes; i += 61)
        if (((const unsigned char *)buffer)[i] != number % 251)
            return gp_error(GP_FAILED, "message %d is torn", number);
    return GP_OK;
}

typedef struct traffic {
    size_t slot_bytes;
    int messages, slots;
} traffic;

/* Messages are shorter than their slot, most of them. */
static size_t bytes_of(const traffic *how, int number) {
    return number % 3 == 0 ? how->slot_bytes : how->slot_bytes / 4 * (size_t)(1 + number % 4);
}

static gp_status send_numbers(team *all, int worker, int receiver, const traffic *how) {
    gp_link *link;
    void *buffer, *again;
    void *staging = lend(all, worker, 0, gp_link_staging_bytes(all->world, worker, receiver, 2, how->slot_bytes));
    GP_TRY(gp_link_open_sender(all->world, worker, receiver, 1, 2, how->slot_bytes, staging, &link));
    for (int i = 0; i < how->messages; i++) {
        GP_TRY(gp_link_reserve(link, &buffer));
        GP_TRY(gp_link_reserve(link, &again));
        if (buffer != again) return gp_error(GP_FAILED, "the slot changed before it was committed");
        write_message(buffer, bytes_of(how, i), i);
        GP_TRY(gp_link_commit(link, bytes_of(how, i)));
    }
    return gp_world_barrier(all->world, worker); /* all has arrived */
}

static gp_status check_figures(gp_link *link, const traffic *how) {
    gp_link_figures figures, none;
    double bytes = 0;
    for (int i = 0; i < how->messages; i++)
        bytes += (double)bytes_of(how, i);
    gp_link_take_figures(link, &figures);
    gp_link_take_figures(link, &none);
    if (figures.messages != how->messages || figures.bytes != bytes)
        return gp_error(GP_FAILED, "%.0f messages of %.0f bytes were counted instead of %d of %.0f", figures.messages,
                        figures.bytes, how->messages, bytes);
    if (!(figures.transfer >= 0 && figures.exposed >= 0))
        return gp_error(GP_FAILED, "%g s under way, %g s waited", figures.transfer, figures.exposed);
    if (none.messages != 0 || none.bytes != 0 || none.transfer != 0 || none.exposed != 0)
        return gp_error(GP_FAILED, "figures that were taken are there again");
    return GP_OK;
}

/* Holds up to two messages and releases them in the wrong order. */
static gp_status receive_numbers(team *all, int worker, int sender, const traffic *how) {
    gp_link *link;
    size_t each = gp_link_slot_bytes(all->world, worker, sender, how->slot_bytes);
    char *memory = lend(all, worker, 0, (size_t)how->slots * each);
    void *first, *second;
    int first_slot, second_slot;
    GP_TRY(gp_link_open_receiver(all->world, worker, sender, 1, how->slots, how->slot_bytes, memory, &link));
    for (int i = 0; i < how->messages; i += 2) {
        GP_TRY(gp_link_await(link, &first, &first_slot));
        GP_TRY(gp_link_await(link, &second, &second_slot));
        GP_TRY(check_message(first, bytes_of(how, i), i));
        GP_TRY(check_message(second, bytes_of(how, i + 1), i + 1));
        if ((char *)first != memory + each * (size_t)first_slot + (each - how->slot_bytes))
            return gp_error(GP_FAILED, "a message is not in its slot");
        gp_link_release(link, second_slot);
        GP_TRY(check_message(first, bytes_of(how, i), i)); /* not overwritten while it is held */
        gp_link_release(link, first_slot);
    }
    GP_TRY(check_figures(link, how));
    return gp_world_barrier(all->world, worker); /* the memory stays: receives are posted */
}

/* Short messages, and ones that MPI sends only when the receiver is ready. */
static const traffic sizes[] = {{64, MESSAGES, SLOTS}, {4096, MESSAGES, SLOTS}, {1 << 20, 24, SLOTS}, {64, 40, 2}};

static gp_status numbers(team *all, int worker) {
    const traffic *how = all->data;
    int last = all->workers - 1;
    if (worker == 0) return send_numbers(all, worker, last, how);
    if (worker == last) return receive_numbers(all, worker, 0, how);
    return gp_world_barrier(all->world, worker);
}

static void links_keep_order_and_wait_for_slots(void **state) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        team all;
        traffic how = sizes[i];
        form_team(&all, *state, 2, numbers, NULL);
        all.data = &how;
        run_team(&all);
        assert_all_done(&all);
        end_team(&all);
    }
}

/* Everybody sends to the next one in a ring, both ways at once. */
static gp_status ring(team *all, int worker) {
    enum { ROUNDS = 50, BYTES = 65536 };
    int next = (worker + 1) % all->workers, before = (worker + all->workers - 1) % all->workers;
    gp_link *out, *in;
    void *buffer, *staging = lend(all, worker, 0, gp_link_staging_bytes(all->world, worker, next, 1, BYTES));
    char *memory = lend(all, worker, 1, 2 * gp_link_slot_bytes(all->world, worker, before, BYTES));
    int slot;
    GP_TRY(gp_link_open_sender(all->world, worker, next, 0, 1, BYTES, staging, &out));
    GP_TRY(gp_link_open_receiver(all->world, worker, before, 0, 2, BYTES, memory, &in));
    for (int i = 0; i < ROUNDS; i++) {
        GP_TRY(gp_link_reserve(out, &buffer));
        write_message(buffer, BYTES, 1000 * worker + i);
        GP_TRY(gp_link_commit(out, BYTES));
        GP_TRY(gp_link_await(in, &buffer, &slot));
        GP_TRY(check_message(buffer, BYTES, 1000 * before + i));
        gp_link_release(in, slot);
    }
    return gp_world_barrier(all->world, worker);
}

static void messages_cross(void **state) {
    team all;
    form_team(&all, *state, 3, ring, NULL);
    run_team(&all);
    assert_all_done(&all);
    end_team(&all);
}

static void links_refuse_bad_ends(void **state) {
    gp_world *world;
    gp_link *link;
    char memory[256];
    const setting *where = *state;
    int workers = where->workers > 0 ? where->workers : 2;
    assert_int_equal(create_world(where, &world, workers, NULL), GP_OK);
    int me = gp_world_first_local(world), other = me == 0 ? 1 : 0;
    assert_int_equal(gp_link_open_sender(world, me, me, 0, 1, 64, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_sender(world, me, workers, 0, 1, 64, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, me, other, 0, 0, 64, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, me, other, 0, 1, 65, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, me, other, 2, 1, 64, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, me, other, 0, 1, 64, memory, &link), GP_OK);
    assert_int_equal(gp_link_open_receiver(world, me, other, 0, 1, 64, memory, &link), GP_INVALID);
    gp_world_destroy(world);
    assert_int_equal(create_world(where, &world, 0, NULL), GP_INVALID);
    assert_null(world);
    gp_world_destroy(NULL);
}

/* ---- together ---- */

static gp_status gather_often(team *all, int worker) {
    int gathered[MOST_WORKERS];
    for (int round = 0; round < 100; round++) {
        int mine = round * 10 + worker;
        GP_TRY(gp_world_all_gather(all->world, worker, &mine, sizeof mine, gathered));
        for (int w = 0; w < all->workers; w++)
            if (gathered[w] != round * 10 + w) return gp_error(GP_FAILED, "round %d: wrong number of %d", round, w);
        GP_TRY(gp_world_barrier(all->world, worker));
    }
    return GP_OK;
}

static void gathering_gives_everybody_all(void **state) {
    const setting *where = *state;
    for (int workers = 1; workers <= 5; workers += 2) {
        team all;
        form_team(&all, *state, where->workers > 0 ? 1 : workers, gather_often, NULL);
        run_team(&all);
        assert_all_done(&all);
        end_team(&all);
    }
}

/* Between processes, by the threads that command the workers. */
static void processes_share_rows_and_data(void **state) {
    team all;
    int rows[MOST_WORKERS] = {0};
    form_team(&all, *state, 2, gather_often, NULL);
    int first = gp_world_first_local(all.world), local = gp_world_local_workers(all.world);
    for (int w = first; w < first + local; w++)
        rows[w] = 100 + w;
    assert_int_equal(gp_world_gather_rows(all.world, rows, sizeof *rows), GP_OK);
    for (int w = 0; w < all.workers; w++)
        assert_int_equal(rows[w], all.cluster || w < first + local ? 100 + w : 0);
    for (int root = 0; root < all.workers; root++) {
        int data = root >= first && root < first + local ? 7 * root : -1;
        assert_int_equal(gp_world_share(all.world, root, &data, sizeof data), GP_OK);
        assert_int_equal(data, 7 * root);
    }
    end_team(&all);
}

/* ---- failure ---- */

/* Everybody gathers into memory that goes away at once, until the last worker fails: nobody is to touch the memory of
 * one who has left. */
static gp_status gather_until_a_failure(team *all, int worker) {
    enum { BYTES = 4096 };
    size_t total = (size_t)BYTES * (size_t)all->workers;
    for (int round = 0;; round++) {
        if (worker == all->workers - 1 && round == *(int *)all->data) return gp_error(GP_INVALID, "enough");
        char *mine = gp_allocate(BYTES), *gathered = gp_allocate(total);
        if (!mine || !gathered) return GP_OUT_OF_MEMORY;
        memset(mine, round, BYTES);
        gp_status status = gp_world_all_gather(all->world, worker, mine, BYTES, gathered);
        bool right = status != GP_OK || (gathered[0] == (char)round && gathered[total - 1] == (char)round);
        memset(gathered, -1, total);
        gp_free(mine);
        gp_free(gathered);
        if (status != GP_OK) return status;
        if (!right) return gp_error(GP_FAILED, "round %d has gathered something else", round);
    }
}

static void a_failure_ends_gathering(void **state) {
    for (int rounds = 0; rounds < 12; rounds++) {
        team all;
        form_team(&all, *state, 3, gather_until_a_failure, NULL);
        all.data = &rounds;
        run_team(&all);
        int first = gp_world_first_local(all.world), end = first + gp_world_local_workers(all.world);
        for (int w = first; w < end; w++)
            assert_int_equal(all.members[w].status, w == all.workers - 1 ? GP_INVALID : GP_ABORTED);
        end_team(&all);
    }
}

/* Worker 0 fails while the others wait: for a message, for a slot, at a barrier, in a sum. */
static gp_status wait_for_a_failure(team *all, int worker) {
    gp_link *link;
    void *buffer;
    int slot, pair[2] = {1, 4};
    static float data[64], staging[128]; /* one worker of a process at most looks at them */
    void *contribution = data;
    if (worker > 4) return gp_world_barrier(all->world, worker);
    switch (worker) {
    case 0:
        while (gp_seconds() < *(double *)all->data + 0.05) {
        }
        return gp_error(GP_INVALID, "the operation failed");
    case 1:
        GP_TRY(gp_link_open_receiver(all->world, 1, 2, 0, 1, 64, data, &link));
        return gp_link_await(link, &buffer, &slot);
    case 2: /* never opened by worker 3 */
        GP_TRY(gp_link_open_sender(all->world, 2, 3, 0, 1, 64, staging, &link));
        for (;;) {
            GP_TRY(gp_link_reserve(link, &buffer));
            GP_TRY(gp_link_commit(link, 64)); /* MPI takes some itself */
        }
    case 3:
        return gp_world_barrier(all->world, 3);
    default:
        break;
    }
    gp_group *group;
    const gp_piece pieces[2] = {{0, 4}, {4, 0}};
    gp_group_options options = {
        .members = pair, .member_count = 2, .contributions = 2, .piece_bytes = 64, .staging = staging};
    gp_group_sum_part part = {.contributions = &contribution,
                              .contribution_count = 1,
                              .destination = data,
                              .pieces = pieces,
                              .element = sizeof(float),
                              .sum = sum_floats};
    GP_TRY(gp_group_open(all->world, 4, &options, &group));
    return gp_group_sum(group, &part);
}

static void a_failure_ends_every_wait(void **state) {
    team all;
    gp_failure failure;
    double begun = gp_seconds();
    form_team(&all, *state, 5, wait_for_a_failure, NULL);
    all.data = &begun;
    run_team(&all);
    gp_world_settle(all.world);
    int first = gp_world_first_local(all.world), end = first + gp_world_local_workers(all.world);
    for (int w = first; w < end; w++)
        assert_int_equal(all.members[w].status, w == 0 ? GP_INVALID : GP_ABORTED);
    assert_true(gp_world_failed(all.world, &failure));
    assert_int_equal(failure.status, GP_INVALID);
    assert_int_equal(failure.worker, 0);
    assert_non_null(strstr(failure.message, "the operation failed"));
    if (all.cluster) assert_non_null(strstr(failure.message, "rank 0 (host "));
    end_team(&all);
}

/* All fail at once: all processes hear of the same failure. And the next world works. */
static gp_status fail_at_once(team *all, int worker) {
    GP_TRY(gp_world_barrier(all->world, worker));
    return gp_error(GP_FAILED, "worker %d gave up", worker);
}

static void failures_at_once_become_one(void **state) {
    team all;
    for (int round = 0; round < 5; round++) {
        gp_failure failure, theirs;
        form_team(&all, *state, 2, fail_at_once, NULL);
        run_team(&all);
        gp_world_settle(all.world);
        assert_true(gp_world_failed(all.world, &failure));
        theirs = failure;
        if (all.cluster) assert_int_equal(gp_cluster_share(all.cluster, 0, &theirs, sizeof theirs), GP_OK);
        assert_string_equal(failure.message, theirs.message);
        assert_int_equal(failure.worker, theirs.worker);
        end_team(&all);
    }
    form_team(&all, *state, 2, gather_often, NULL);
    run_team(&all);
    assert_all_done(&all);
    end_team(&all);
}

/* ---- the report of long waits ---- */

typedef struct reports {
    int count;
    char last[512];
} reports;

static void keep_report(void *user, gp_log_level level, const char *message) {
    reports *kept = user;
    if (level != GP_LOG_WARNING || strncmp(message, "worker 0 (", 10) != 0 || !strstr(message, "has waited")) return;
    kept->count++;
    snprintf(kept->last, sizeof kept->last, "%s", message);
}

/* The last worker is slow, worker 0 waits for it. That is no waiting for a message under way. */
static gp_status wait_long(team *all, int worker) {
    gp_link *link;
    void *buffer;
    int slot, last = all->workers - 1;
    char *memory = lend(all, worker, 0, 256);
    double begun = gp_seconds(), sent, slow = all->cluster ? 2.5 : 0.2; /* between ranks news come every second */
    if (worker != 0 && worker != last) return gp_world_barrier(all->world, worker);
    gp_world_doing(all->world, worker, worker == 0 ? "F2 of stage 0" : "B1 of stage 1");
    if (worker == last) {
        GP_TRY(gp_link_open_sender(all->world, worker, 0, 0, 1, 64, memory, &link));
        GP_TRY(gp_link_reserve(link, &buffer));
        while (gp_seconds() < begun + slow) {
        }
        sent = gp_seconds();
        memcpy(buffer, &sent, sizeof sent);
        GP_TRY(gp_link_commit(link, sizeof sent));
        return gp_world_barrier(all->world, worker);
    }
    GP_TRY(gp_link_open_receiver(all->world, 0, last, 0, 1, 64, memory, &link));
    GP_TRY(gp_link_await(link, &buffer, &slot));
    gp_link_figures figures;
    gp_link_take_figures(link, &figures);
    memcpy(&sent, buffer, sizeof sent);
    if (figures.exposed > gp_seconds() - sent)
        return gp_error(GP_FAILED, "%g s count, though the message was sent %g s ago", figures.exposed,
                        gp_seconds() - sent);
    gp_link_release(link, slot);
    return gp_world_barrier(all->world, worker);
}

static void long_waits_are_reported(void **state) {
    team all;
    reports kept = {0};
    char expected[64];
    gp_log_set(keep_report, &kept, GP_LOG_WARNING);
    form_team(&all, *state, 2, wait_long, &(gp_world_options){.report_after = 0.02});
    run_team(&all);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    assert_all_done(&all);
    snprintf(expected, sizeof expected, "from worker %d (B1 of stage 1", all.workers - 1);
    if (gp_world_first_local(all.world) == 0) {
        assert_true(kept.count >= 1);
        assert_non_null(strstr(kept.last, "worker 0 (F2 of stage 0"));
        assert_non_null(strstr(kept.last, "for a message from worker"));
        if (!strstr(kept.last, expected)) fail_msg("%s", kept.last);
        assert_non_null(strstr(kept.last, "which is running"));
        if (all.cluster) assert_non_null(strstr(kept.last, " on rank "));
    } else {
        assert_int_equal(kept.count, 0);
    }
    end_team(&all);
}

#ifdef GPIPE_TEST_MPI
/* As if every rank had a machine of its own: their clocks are the same one, and no estimate is wrong by more than it
 * says. */
static void clocks_are_compared(void **state) {
    const setting *where = *state;
    if (!where->cluster) return;
    assert_int_equal(gp_clock_compare(where->cluster, true), GP_OK);
    double clock = atomic_load(&where->cluster->clock);
    gp_cluster_lock(where->cluster);
    gp_clock_estimate estimate = where->cluster->estimate;
    gp_cluster_unlock(where->cluster);
    if (gp_cluster_rank(where->cluster) == 0) assert_true(clock == 0 && estimate.made == 0);
    if (gp_cluster_rank(where->cluster) > 0) assert_true(estimate.made > 0 && fabs(clock) <= estimate.error);
    assert_int_equal(gp_clock_compare(where->cluster, false), GP_OK);
    assert_true(atomic_load(&where->cluster->clock) == 0);
}
#endif

static int run_cases(const char *name, setting *where) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(links_keep_order_and_wait_for_slots, where),
        cmocka_unit_test_prestate(messages_cross, where),
        cmocka_unit_test_prestate(links_refuse_bad_ends, where),
        cmocka_unit_test_prestate(gathering_gives_everybody_all, where),
        cmocka_unit_test_prestate(processes_share_rows_and_data, where),
        cmocka_unit_test_prestate(sums_are_added_in_order, where),
        cmocka_unit_test_prestate(members_may_give_nothing, where),
        cmocka_unit_test_prestate(a_failure_ends_gathering, where),
        cmocka_unit_test_prestate(a_failure_ends_every_wait, where),
        cmocka_unit_test_prestate(failures_at_once_become_one, where),
        cmocka_unit_test_prestate(long_waits_are_reported, where),
#ifdef GPIPE_TEST_MPI
        cmocka_unit_test_prestate(clocks_are_compared, where),
#endif
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

#ifdef GPIPE_TEST_MPI
/* The same cases with messages cut into pieces of this many bytes. */
static void cut_messages(gp_cluster *cluster, const char *bytes) {
    cluster->largest = (size_t)atoi(bytes);
}
#endif

int main(int count, char **arguments) {
    setting where = {0};
    if (gp_cluster_launched() == 0) return run_cases("threads", &where);
    if (gp_cluster_create(&where.cluster, NULL) != GP_OK) {
        fprintf(stderr, "%s\n", gp_error_message());
        return 1;
    }
    where.workers = gp_cluster_ranks(where.cluster) * (count > 1 ? atoi(arguments[1]) : 1);
#ifdef GPIPE_TEST_MPI
    if (count > 2) cut_messages(where.cluster, arguments[2]);
#endif
    int failed = run_cases(gp_cluster_implementation(where.cluster), &where);
    if (failed > 0)
        gp_cluster_abort(where.cluster, 1);
    else
        gp_cluster_destroy(where.cluster);
    return failed;
}
