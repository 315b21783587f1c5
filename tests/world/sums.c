/* Cases of worlds: sums over groups of workers, in one order whatever the world, and shares of what was summed. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "team.h"

void sum_floats(void *user, void *destination, const void *const *sources, int source_count, int64_t count) {
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

void sums_are_added_in_order(void **state) {
    team all;
    form_team(&all, *state, 4, sum_in_groups, NULL);
    run_team(&all);
    assert_all_done(&all);
    end_team(&all);
}

/* Worker 1 gives nothing, and gets the sum all the same. */
static gp_status sum_what_one_gives(team *all, int worker) {
    static const int pair[2] = {0, 1};
    static const gp_piece pieces[2] = {{0, 4}, {4, 4}};
    float given[8], sums[8] = {0};
    void *contribution = given;
    gp_group *group;
    gp_group_options options = {.members = pair, .member_count = 2, .tag = 5, .contributions = 1, .piece_bytes = 64};
    gp_group_sum_part part = {.contributions = &contribution,
                              .contribution_count = worker == 0,
                              .destination = sums,
                              .pieces = pieces,
                              .element = sizeof(float),
                              .sum = sum_floats};
    if (worker > 1) return gp_world_barrier(all->world, worker);
    char *staging = lend(all, worker, 0, gp_group_staging_bytes(all->world, worker, &options) + 1);
    options.staging = staging;
    GP_TRY(gp_group_open(all->world, worker, &options, &group));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++)
            given[i] = addend(round, i);
        GP_TRY(gp_group_sum(group, &part));
        for (int i = 0; i < 8; i++)
            if (sums[i] != addend(round, i)) return gp_error(GP_FAILED, "round %d: another sum", round);
    }
    return gp_world_barrier(all->world, worker);
}

void members_may_give_nothing(void **state) {
    team all;
    form_team(&all, *state, 2, sum_what_one_gives, NULL);
    run_team(&all);
    assert_all_done(&all);
    end_team(&all);
}
