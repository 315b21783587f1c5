/* Threads that a failure ends in the middle of what they do together: whose arrays and descriptions lie on the stack of
 * their owners, who must not leave while others still read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "world/world.h"

enum { WORKERS = 3 };

typedef struct team {
    gp_world *world;
    _Atomic bool reading, left, left_early;
} team;

typedef struct member {
    team *team;
    int worker;
    gp_status status;
} member;

static void sum_slowly(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
    team *all = user;
    double begun = gp_seconds();
    (void)destination, (void)sources, (void)source_count, (void)count;
    atomic_store(&all->reading, true);
    while (gp_seconds() < begun + 0.05) {
    }
    if (atomic_load(&all->left)) atomic_store(&all->left_early, true);
}

/* Worker 0 sums everything, worker 1 waits for it to finish. */
static gp_status sum(team *all, int worker) {
    float data[4] = {0};
    void *contribution = data;
    const int members[2] = {0, 1};
    const gp_piece pieces[2] = {{0, 4}, {4, 0}};
    gp_group *group;
    gp_group_options options = {.members = members, .member_count = 2, .contributions = 2, .piece_bytes = sizeof data};
    gp_group_sum_part part = {.contributions = &contribution,
                              .contribution_count = 1,
                              .destination = data,
                              .pieces = pieces,
                              .element = sizeof(float),
                              .sum = sum_slowly,
                              .user = all};
    GP_TRY(gp_group_open(all->world, worker, &options, &group));
    gp_status status = gp_group_sum(group, &part);
    if (worker == 1) atomic_store(&all->left, true);
    return status;
}

static void run_member(void *argument) {
    member *self = argument;
    team *all = self->team;
    if (self->worker < 2) {
        self->status = sum(all, self->worker);
        return;
    }
    while (!atomic_load(&all->reading)) {
    }
    gp_world_fail(all->world, self->worker, GP_INVALID, "the operation failed");
}

static void nobody_leaves_a_sum_while_others_read(void **state) {
    team all = {0};
    member members[WORKERS];
    gp_thread *threads[WORKERS];
    (void)state;
    assert_int_equal(gp_world_create_threads(&all.world, WORKERS, NULL), GP_OK);
    for (int w = 0; w < WORKERS; w++) {
        members[w] = (member){.team = &all, .worker = w};
        assert_int_equal(gp_thread_create(&threads[w], run_member, &members[w], 0, 0), GP_OK);
    }
    for (int w = 0; w < WORKERS; w++)
        gp_thread_join(threads[w]);
    assert_int_equal(members[0].status, GP_ABORTED);
    assert_int_equal(members[1].status, GP_ABORTED);
    assert_false(all.left_early);
    gp_world_destroy(all.world);
}

/* ---- gathering: what is seen is seen by a thread sanitizer ---- */

enum { ROUNDS = 30, GATHERED = 1 << 18 };

typedef struct gatherer {
    gp_world *world;
    int worker;
    gp_status status;
    char all[WORKERS * GATHERED];
} gatherer;

static void gather_until_a_failure(void *argument) {
    gatherer *self = argument;
    char mine[GATHERED] = {0};
    do {
        self->status = gp_world_all_gather(self->world, self->worker, mine, sizeof mine, self->all);
        memset(mine, self->worker, sizeof mine);
    } while (self->status == GP_OK);
}

static void nobody_leaves_a_gathering_while_others_read(void **state) {
    static gatherer members[WORKERS];
    gp_thread *threads[WORKERS];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        gp_world *world;
        assert_int_equal(gp_world_create_threads(&world, WORKERS, NULL), GP_OK);
        for (int w = 0; w < WORKERS; w++) {
            members[w].world = world;
            members[w].worker = w;
            assert_int_equal(gp_thread_create(&threads[w], gather_until_a_failure, &members[w], 0, 0), GP_OK);
        }
        double begun = gp_seconds();
        while (gp_seconds() < begun + 1e-3 + 3e-4 * round) {
        }
        gp_world_fail(world, 0, GP_INVALID, "the operation failed");
        for (int w = 0; w < WORKERS; w++) {
            gp_thread_join(threads[w]);
            assert_int_equal(members[w].status, GP_ABORTED);
        }
        gp_world_destroy(world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_leaves_a_sum_while_others_read),
        cmocka_unit_test(nobody_leaves_a_gathering_while_others_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
