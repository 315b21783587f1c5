/* Conformance of worlds: one set of cases for every implementation (a row in `implementations`). Workers are threads of
 * this test; each case gives them a function to run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "world/world.h"

typedef gp_status (*create_function)(gp_world **world, int workers, const gp_world_options *options);

static const struct {
    const char *name;
    create_function create;
} implementations[] = {{"threads", gp_world_create_threads}};

enum { MOST_WORKERS = 5, MESSAGES = 200, SLOTS = 3 };

typedef struct team team;

typedef struct member {
    team *team;
    int worker;
    gp_thread *thread;
    gp_status status;
    char message[256];
} member;

struct team {
    gp_world *world;
    int workers;
    gp_status (*work)(team *all, int worker);
    member members[MOST_WORKERS];
    void *data;
};

/* Errors of a worker stop the others, as in the engine. */
static void run_member(void *argument) {
    member *self = argument;
    self->status = self->team->work(self->team, self->worker);
    if (self->status == GP_OK) return;
    snprintf(self->message, sizeof self->message, "%s", gp_error_message());
    gp_world_fail(self->team->world, self->worker, self->status, gp_error_message());
}

static void run_team(team *all) {
    for (int w = 0; w < all->workers; w++) {
        all->members[w] = (member){.team = all, .worker = w};
        assert_int_equal(gp_thread_create(&all->members[w].thread, run_member, &all->members[w], 0, 0), GP_OK);
    }
    for (int w = 0; w < all->workers; w++)
        gp_thread_join(all->members[w].thread);
}

static void form_team(team *all, create_function create, int workers, gp_status (*work)(team *, int),
                      const gp_world_options *options) {
    memset(all, 0, sizeof *all);
    all->workers = workers;
    all->work = work;
    assert_int_equal(create(&all->world, workers, options), GP_OK);
    assert_int_equal(gp_world_workers(all->world), workers);
}

static void assert_all_done(const team *all) {
    for (int w = 0; w < all->workers; w++)
        if (all->members[w].status != GP_OK) fail_msg("worker %d: %s", w, all->members[w].message);
}

/* ---- links ---- */

static gp_status send_numbers(team *all, int worker) {
    gp_link *link;
    void *buffer, *again;
    GP_TRY(gp_link_open_sender(all->world, worker, 1, 7, NULL, &link));
    for (int i = 0; i < MESSAGES; i++) {
        GP_TRY(gp_link_reserve(link, &buffer));
        GP_TRY(gp_link_reserve(link, &again));
        if (buffer != again) return gp_error(GP_FAILED, "the slot changed before it was committed");
        *(int *)buffer = i;
        GP_TRY(gp_link_commit(link, sizeof i));
    }
    return GP_OK;
}

/* Holds up to two messages and releases them in the wrong order. */
static gp_status receive_numbers(team *all, int worker) {
    gp_link *link;
    void *memory = gp_allocate(SLOTS * 64), *first, *second;
    int first_slot, second_slot;
    all->data = memory;
    GP_TRY(gp_link_open_receiver(all->world, worker, 0, 7, SLOTS, 64, memory, &link));
    for (int i = 0; i < MESSAGES; i += 2) {
        GP_TRY(gp_link_await(link, &first, &first_slot));
        GP_TRY(gp_link_await(link, &second, &second_slot));
        if (*(int *)first != i || *(int *)second != i + 1) return gp_error(GP_FAILED, "message %d is wrong", i);
        if ((char *)first != (char *)memory + 64 * first_slot) return gp_error(GP_FAILED, "a message was copied");
        gp_link_release(link, second_slot);
        if (*(int *)first != i) return gp_error(GP_FAILED, "message %d was overwritten while it was held", i);
        gp_link_release(link, first_slot);
    }
    return GP_OK;
}

static gp_status numbers(team *all, int worker) {
    return worker == 0 ? send_numbers(all, worker) : receive_numbers(all, worker);
}

static void links_keep_order_and_wait_for_slots(void **state) {
    team all;
    form_team(&all, *(create_function *)*state, 2, numbers, NULL);
    run_team(&all);
    assert_all_done(&all);
    gp_world_destroy(all.world);
    gp_free(all.data);
}

static void links_refuse_bad_ends(void **state) {
    gp_world *world;
    gp_link *link;
    char memory[64];
    assert_int_equal((*(create_function *)*state)(&world, 2, NULL), GP_OK);
    assert_int_equal(gp_link_open_sender(world, 0, 0, 0, NULL, &link), GP_INVALID);
    assert_int_equal(gp_link_open_sender(world, 0, 2, 0, NULL, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, 1, 0, 0, 0, 64, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, 1, 0, 0, 1, 65, memory, &link), GP_INVALID);
    assert_int_equal(gp_link_open_receiver(world, 1, 0, 0, 1, 64, memory, &link), GP_OK);
    assert_int_equal(gp_link_open_receiver(world, 1, 0, 0, 1, 64, memory, &link), GP_INVALID);
    gp_world_destroy(world);
    assert_int_equal((*(create_function *)*state)(&world, 0, NULL), GP_INVALID);
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
    for (int workers = 1; workers <= MOST_WORKERS; workers += 2) {
        team all;
        form_team(&all, *(create_function *)*state, workers, gather_often, NULL);
        run_team(&all);
        assert_all_done(&all);
        gp_world_destroy(all.world);
    }
}

static void sum_floats(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        float sum = ((const float *)sources[0])[i];
        for (int s = 1; s < source_count; s++)
            sum += ((const float *)sources[s])[i];
        ((float *)destination)[i] = sum;
    }
}

enum { SUM_COUNT = 1003, GROUPS = 2, GROUP_MEMBERS = 3 };

/* Overlapping groups. */
static const int groups[GROUPS][GROUP_MEMBERS] = {{0, 1, 2}, {1, 2, 3}};

/* Pieces that leave the first element and the last ones out. */
static void fill_pieces(gp_piece *pieces) {
    pieces[0] = (gp_piece){600, 300};
    pieces[1] = (gp_piece){0, 0};
    pieces[2] = (gp_piece){1, 599};
}

/* Values that give another sum in another order. */
static float addend(int contribution, int i) {
    static const float values[] = {1e8f, 1.0f, -1e8f, 3.0f, 0.125f};
    return values[(contribution + i) % 5] * (float)(1 + i % 7);
}

static float expected_sum(int i) {
    float expected = addend(0, i);
    for (int c = 1; c < 4; c++)
        expected += addend(c, i);
    return expected;
}

static gp_status open_groups(team *all, int worker, gp_group **opened, void **staging) {
    for (int g = 0; g < GROUPS; g++) {
        opened[g] = NULL;
        staging[g] = NULL;
        if (worker < groups[g][0] || worker > groups[g][GROUP_MEMBERS - 1]) continue;
        gp_group_options options = {.members = groups[g],
                                    .member_count = GROUP_MEMBERS,
                                    .tag = g,
                                    .lane = GP_LANE_COMPUTE,
                                    .contributions = 4,
                                    .piece_bytes = SUM_COUNT * sizeof(float)};
        staging[g] = gp_allocate(gp_group_staging_bytes(all->world, worker, &options));
        options.staging = staging[g];
        GP_TRY(gp_group_open(all->world, worker, &options, &opened[g]));
    }
    return GP_OK;
}

typedef struct sum_case {
    team *all;
    int worker;
    float arrays[2][SUM_COUNT];
    gp_piece pieces[GROUP_MEMBERS];
    gp_group_sum_part part;
    void *mine[2];
    int place, first;
} sum_case;

/* Worker 1 gives two contributions, and each destination is the last of its own. */
static void begin_sum(sum_case *sum, int g, int round) {
    int contributions = sum->worker == 1 ? 2 : 1;
    sum->first = 0;
    sum->place = sum->worker - groups[g][0];
    for (int w = groups[g][0]; w < sum->worker; w++)
        sum->first += w == 1 ? 2 : 1;
    fill_pieces(sum->pieces);
    for (int c = 0; c < contributions; c++) {
        sum->mine[c] = sum->arrays[c];
        for (int i = 0; i < SUM_COUNT; i++)
            sum->arrays[c][i] = addend(sum->first + c, i + round);
    }
    sum->part = (gp_group_sum_part){.contributions = sum->mine,
                                    .contribution_count = contributions,
                                    .destination = sum->mine[contributions - 1],
                                    .pieces = sum->pieces,
                                    .element = sizeof(float),
                                    .sum = sum_floats};
}

static int owner_of(const sum_case *sum, int i) {
    for (int m = 0; m < GROUP_MEMBERS; m++)
        if (i >= sum->pieces[m].first && i < sum->pieces[m].first + sum->pieces[m].count) return m;
    return -1;
}

/* What nobody or, with own_only, somebody else sums is as it was. */
static gp_status check_sum(const sum_case *sum, int round) {
    int last = sum->first + sum->part.contribution_count - 1;
    const float *found = sum->part.destination;
    for (int i = 0; i < SUM_COUNT; i++) {
        int owner = owner_of(sum, i);
        bool summed = owner >= 0 && (!sum->part.own_only || owner == sum->place);
        float expected = summed ? expected_sum(i + round) : addend(last, i + round);
        if (found[i] != expected)
            return gp_error(GP_FAILED, "element %d: %g instead of %g", i, (double)found[i], (double)expected);
    }
    return GP_OK;
}

static void copy_bytes(void *user, void *destination, const void *source, size_t bytes) {
    (void)user;
    memcpy(destination, source, bytes);
}

static gp_status sum_rounds(sum_case *sum, gp_group *const *opened) {
    for (int round = 0; round < 20; round++) {
        for (int g = 0; g < GROUPS; g++) {
            if (!opened[g]) continue;
            begin_sum(sum, g, round);
            sum->part.own_only = round % 2 == 1;
            GP_TRY(gp_group_sum(opened[g], &sum->part));
            GP_TRY(check_sum(sum, round));
            if (!sum->part.own_only) continue;
            gp_group_share_part share = {
                .array = sum->part.destination, .pieces = sum->pieces, .element = sizeof(float), .copy = copy_bytes};
            GP_TRY(gp_group_share(opened[g], &share));
            sum->part.own_only = false;
            GP_TRY(check_sum(sum, round));
        }
    }
    return GP_OK;
}

static gp_status sum_in_groups(team *all, int worker) {
    gp_group *opened[GROUPS];
    void *staging[GROUPS];
    sum_case sum = {.all = all, .worker = worker};
    gp_status status = open_groups(all, worker, opened, staging);
    if (status == GP_OK) status = sum_rounds(&sum, opened);
    if (status == GP_OK) status = gp_world_barrier(all->world, worker); /* nobody sends any more */
    for (int g = 0; g < GROUPS; g++)
        gp_free(staging[g]);
    return status;
}

static void sums_are_added_in_order(void **state) {
    team all;
    form_team(&all, *(create_function *)*state, 4, sum_in_groups, NULL);
    run_team(&all);
    assert_all_done(&all);
    gp_world_destroy(all.world);
}

/* ---- failure ---- */

/* Worker 0 fails while the others wait: for a message, for a slot, at a barrier, in a sum. */
static gp_status wait_for_a_failure(team *all, int worker) {
    gp_link *link;
    void *buffer;
    int slot, pair[2] = {1, 4};
    float data[16] = {0}, staging[128];
    void *contribution = data;
    switch (worker) {
    case 0:
        while (gp_seconds() < *(double *)all->data + 0.05) {
        }
        return gp_error(GP_INVALID, "the operation failed");
    case 1:
        GP_TRY(gp_link_open_receiver(all->world, 1, 2, 0, 1, 64, data, &link));
        return gp_link_await(link, &buffer, &slot);
    case 2:
        GP_TRY(gp_link_open_sender(all->world, 2, 3, 0, NULL, &link)); /* never opened by worker 3 */
        return gp_link_reserve(link, &buffer);
    case 3:
        return gp_world_barrier(all->world, 3);
    default:
        break;
    }
    gp_group *group;
    const gp_piece pieces[2] = {{0, 4}, {4, 0}};
    gp_group_options options = {
        .members = pair, .member_count = 2, .contributions = 2, .piece_bytes = sizeof data, .staging = staging};
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
    form_team(&all, *(create_function *)*state, 5, wait_for_a_failure, NULL);
    all.data = &begun;
    assert_false(gp_world_failed(all.world, NULL));
    run_team(&all);
    for (int w = 1; w < 5; w++)
        assert_int_equal(all.members[w].status, GP_ABORTED);
    assert_true(gp_world_failed(all.world, &failure));
    assert_int_equal(failure.status, GP_INVALID);
    assert_int_equal(failure.worker, 0);
    assert_string_equal(failure.message, "the operation failed");
    gp_world_destroy(all.world);
}

/* ---- the report of long waits ---- */

typedef struct reports {
    int count;
    char first[512];
} reports;

static void keep_report(void *user, gp_log_level level, const char *message) {
    reports *kept = user;
    if (level != GP_LOG_WARNING || !strstr(message, "has waited")) return;
    if (kept->count++ == 0) snprintf(kept->first, sizeof kept->first, "%s", message);
}

static gp_status wait_long(team *all, int worker) {
    gp_link *link;
    void *buffer;
    int slot;
    double begun = gp_seconds();
    gp_world_doing(all->world, worker, worker == 0 ? "F2 of stage 0" : "B1 of stage 1");
    if (worker == 1) {
        GP_TRY(gp_link_open_sender(all->world, 1, 0, 0, NULL, &link));
        GP_TRY(gp_link_reserve(link, &buffer));
        while (gp_seconds() < begun + 0.2) {
        }
        return gp_link_commit(link, 0);
    }
    GP_TRY(gp_link_open_receiver(all->world, 0, 1, 0, 1, 64, all->data, &link));
    GP_TRY(gp_link_await(link, &buffer, &slot));
    gp_link_release(link, slot);
    return GP_OK;
}

static void long_waits_are_reported(void **state) {
    team all;
    char memory[64];
    reports kept = {0};
    gp_log_set(keep_report, &kept, GP_LOG_WARNING);
    form_team(&all, *(create_function *)*state, 2, wait_long, &(gp_world_options){.report_after = 0.02});
    all.data = memory;
    run_team(&all);
    gp_log_set(NULL, NULL, GP_LOG_ERROR);
    assert_all_done(&all);
    assert_true(kept.count >= 1);
    assert_non_null(strstr(kept.first, "worker 0 (F2 of stage 0) has waited"));
    assert_non_null(strstr(kept.first, "for a message from worker 1 (B1 of stage 1), which is running"));
    gp_world_destroy(all.world);
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        create_function create = implementations[i].create;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(links_keep_order_and_wait_for_slots, &create),
            cmocka_unit_test_prestate(links_refuse_bad_ends, &create),
            cmocka_unit_test_prestate(gathering_gives_everybody_all, &create),
            cmocka_unit_test_prestate(sums_are_added_in_order, &create),
            cmocka_unit_test_prestate(a_failure_ends_every_wait, &create),
            cmocka_unit_test_prestate(long_waits_are_reported, &create),
        };
        failed += cmocka_run_group_tests_name(implementations[i].name, tests, NULL, NULL);
    }
    return failed;
}
