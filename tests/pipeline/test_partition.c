/* Partitions: published cases, and every small random problem against trying all cuts. Costs there are whole numbers,
 * so that the two sides agree exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "gpipe/pipeline.h"

enum { MOST = 12 };

static double part_cost(const double *costs, size_t count, const double *cuts, size_t begin, size_t end) {
    double cost = 0;
    for (size_t i = begin; i < end; i++)
        cost += costs[i];
    if (cuts && begin > 0) cost += cuts[begin - 1];
    if (cuts && end < count) cost += cuts[end - 1];
    return cost;
}

static double largest_part(const double *costs, size_t count, const double *cuts, const size_t *bounds, size_t parts,
                           double *sum) {
    double most = 0, total = 0;
    for (size_t p = 0; p < parts; p++) {
        double cost = part_cost(costs, count, cuts, bounds[p], bounds[p + 1]);
        most = fmax(most, cost);
        total += cost;
    }
    if (sum) *sum = total;
    return most;
}

static void check_bounds(const double *costs, size_t count, size_t parts, const size_t *expected) {
    size_t bounds[MOST + 1];
    assert_int_equal(gp_partition(costs, count, parts, NULL, bounds), GP_OK);
    for (size_t p = 0; p <= parts; p++)
        assert_int_equal(bounds[p], expected[p]);
}

static void test_published_cases(void **state) {
    (void)state;
    check_bounds((double[]){1, 2, 3, 4, 5, 6}, 6, 2, (size_t[]){0, 4, 6});
    check_bounds((double[]){0, 1, 2, 3, 3, 3}, 6, 4, (size_t[]){0, 3, 4, 5, 6});
    check_bounds((double[]){0, 1.1, 30, 3}, 4, 3, (size_t[]){0, 2, 3, 4});
    check_bounds((double[]){97, 1, 1, 1}, 4, 2, (size_t[]){0, 1, 4});
    size_t bounds[MOST + 1];
    const double a[] = {2, 2, 2, 3, 4}, b[] = {2, 8, 7, 4, 4};
    assert_int_equal(gp_partition(a, 5, 4, NULL, bounds), GP_OK);
    assert_true(largest_part(a, 5, NULL, bounds, 4, NULL) == 4);
    assert_int_equal(gp_partition(b, 5, 4, NULL, bounds), GP_OK);
    assert_true(largest_part(b, 5, NULL, bounds, 4, NULL) == 8);
}

static void test_edges(void **state) {
    (void)state;
    check_bounds((double[]){0, 0, 0}, 3, 2, (size_t[]){0, 2, 3});
    check_bounds((double[]){5}, 1, 1, (size_t[]){0, 1});
    check_bounds((double[]){1e300, 1e300, 1e-300}, 3, 2, (size_t[]){0, 1, 3});
    check_bounds((double[]){5e-324, 5e-324, 5e-324}, 3, 3, (size_t[]){0, 1, 2, 3});
    check_bounds((double[]){1.7e308, 1.7e308, 1.7e308, 1.7e308}, 4, 2, (size_t[]){0, 2, 4});
}

/* A tenth has no exact double; equal layers tie all the same, and the first part takes what it may. */
static void test_equal_layers_tie(void **state) {
    (void)state;
    double costs[MOST];
    for (int i = 0; i < MOST; i++)
        costs[i] = 0.1;
    check_bounds(costs, MOST, 5, (size_t[]){0, 3, 6, 9, 11, 12});
    check_bounds(costs, 10, 4, (size_t[]){0, 3, 6, 9, 10});
}

/* Differences in the last bits of a double count. */
static void test_small_differences(void **state) {
    (void)state;
    const double bit = 0x1p-50;
    check_bounds((double[]){1, bit, 1 - 2 * bit}, 3, 2, (size_t[]){0, 1, 3});
    check_bounds((double[]){1, bit, 1 - bit}, 3, 2, (size_t[]){0, 1, 3});
    check_bounds((double[]){1, 0, 1 - bit}, 3, 2, (size_t[]){0, 2, 3});
}

static void refused(const double *costs, size_t count, size_t parts, const gp_partition_options *options,
                    gp_status expected, const char *piece) {
    size_t bounds[MOST + 1];
    assert_int_equal(gp_partition(costs, count, parts, options, bounds), expected);
    if (!strstr(gp_error_message(), piece)) fail_msg("'%s' is not in: %s", piece, gp_error_message());
}

static void test_refusals(void **state) {
    (void)state;
    const double one[] = {42}, two[] = {1, 1};
    refused(one, 1, 2, NULL, GP_INVALID, "1 layer cannot be cut into 2 parts");
    refused(one, 0, 1, NULL, GP_INVALID, "0 layers");
    refused(one, 1, 0, NULL, GP_INVALID, "0 parts");
    refused(NULL, 1, 1, NULL, GP_INVALID, "costs");
    refused((double[]){1, -1}, 2, 1, NULL, GP_INVALID, "cost of layer 1 is -1");
    refused((double[]){NAN, 1}, 2, 1, NULL, GP_INVALID, "cost of layer 0 is");
    refused((double[]){1, INFINITY}, 2, 1, NULL, GP_INVALID, "cost of layer 1 is inf");
    refused(two, 2, 2, &(gp_partition_options){.cut_costs = (double[]){-2}}, GP_INVALID, "cut behind layer 0 is -2");
    refused(two, 2, 2, &(gp_partition_options){.memory = (double[]){1, NAN}}, GP_INVALID, "memory of layer 1");
    refused(two, 2, 2, &(gp_partition_options){.limits = (double[]){1, -1}}, GP_INVALID, "limit of part 1");
}

static void test_memory_limits(void **state) {
    (void)state;
    const double costs[] = {1, 1, 1, 1, 1, 1}, memory[] = {100, 10, 10, 10, 10, 10};
    gp_partition_options options = {.memory = memory, .limits = (double[]){100, 50}};
    size_t bounds[3];
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
    assert_int_equal(bounds[1], 1);
    options.limits = (double[]){INFINITY, 20};
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
    assert_int_equal(bounds[1], 4);
    options.limits = (double[]){99, 99};
    refused(costs, 6, 2, &options, GP_DOES_NOT_FIT, "layer 0 needs 100 bytes, more than the 99");
    options.limits = (double[]){110, 30};
    refused(costs, 6, 2, &options, GP_DOES_NOT_FIT, "layer 5");
    options.limits = (double[]){150, 5};
    refused(costs, 6, 2, &options, GP_DOES_NOT_FIT, "at least one layer");
    options.memory = NULL; /* limits without memory say nothing */
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
}

/* A dear cut is avoided although the sums alone would have it. */
static void test_cut_costs(void **state) {
    (void)state;
    const double costs[] = {2, 2, 2, 2}, cuts[] = {0, 5, 1};
    size_t bounds[3];
    assert_int_equal(gp_partition(costs, 4, 2, &(gp_partition_options){.cut_costs = cuts}, bounds), GP_OK);
    assert_int_equal(bounds[1], 1);
}

/* ---- against all cuts ---- */

typedef struct test_problem {
    size_t count, parts;
    double costs[MOST], cuts[MOST], memory[MOST], limits[MOST];
    bool has_cuts, has_memory;
    double speeds[MOST]; /* 0: all are alike */
} test_problem;

typedef struct cut_search {
    const test_problem *problem;
    size_t bounds[MOST + 1], best[MOST + 1];
    double most, sum;
    bool found;
} cut_search;

/* Seconds of the slowest part. */
static double slowest_part(const test_problem *problem, const size_t *bounds) {
    double most = 0;
    for (size_t p = 0; p < problem->parts; p++)
        most = fmax(most, part_cost(problem->costs, problem->count, problem->has_cuts ? problem->cuts : NULL, bounds[p],
                                    bounds[p + 1]) /
                              problem->speeds[p]);
    return most;
}

static bool fits(const test_problem *problem, const size_t *bounds) {
    for (size_t p = 0; problem->has_memory && p < problem->parts; p++)
        if (part_cost(problem->memory, problem->count, NULL, bounds[p], bounds[p + 1]) > problem->limits[p])
            return false;
    return true;
}

/* Cuts come longest first part first, so that of equals the first stays. */
static void try_all(cut_search *search, size_t part) {
    const test_problem *problem = search->problem;
    if (part + 1 == problem->parts) {
        double sum, most;
        search->bounds[problem->parts] = problem->count;
        if (!fits(problem, search->bounds)) return;
        most = largest_part(problem->costs, problem->count, problem->has_cuts ? problem->cuts : NULL, search->bounds,
                            problem->parts, &sum);
        if (problem->speeds[0] > 0) most = slowest_part(problem, search->bounds);
        if (search->found && (most > search->most || (most == search->most && sum >= search->sum))) return;
        search->found = true;
        search->most = most;
        search->sum = sum;
        memcpy(search->best, search->bounds, sizeof search->best);
        return;
    }
    for (size_t end = problem->count - (problem->parts - part - 1); end > search->bounds[part]; end--) {
        search->bounds[part + 1] = end;
        try_all(search, part + 1);
    }
}

static uint32_t drawn; /* counter of the test's random numbers */

static uint32_t draw(uint32_t below) {
    return gp_random4(gp_random_key_of(5), (gp_random_block){{drawn++, 0, 0, 0}}).word[0] % below;
}

static test_problem draw_problem(void) {
    test_problem problem = {.count = 1 + draw(9), .has_cuts = draw(2), .has_memory = draw(2)};
    problem.parts = 1 + draw((uint32_t)problem.count);
    uint32_t range = draw(2) ? 4 : 100;
    for (size_t i = 0; i < problem.count; i++) {
        problem.costs[i] = draw(range);
        problem.cuts[i] = draw(range);
        problem.memory[i] = draw(20);
        problem.limits[i] = 5 + draw(40);
    }
    return problem;
}

static void test_against_all_cuts(void **state) {
    (void)state;
    int refusals = 0;
    for (int round = 0; round < 10000; round++) {
        test_problem problem = draw_problem();
        cut_search search = {.problem = &problem};
        try_all(&search, 0);
        gp_partition_options options = {.cut_costs = problem.has_cuts ? problem.cuts : NULL,
                                        .memory = problem.has_memory ? problem.memory : NULL,
                                        .limits = problem.has_memory ? problem.limits : NULL};
        size_t bounds[MOST + 1];
        gp_status status = gp_partition(problem.costs, problem.count, problem.parts, &options, bounds);
        assert_int_equal(status, search.found ? GP_OK : GP_DOES_NOT_FIT);
        refusals += !search.found;
        if (search.found) assert_memory_equal(bounds, search.best, (problem.parts + 1) * sizeof *bounds);
    }
    assert_in_range(refusals, 500, 5000);
}

/* Parts of different speeds: as quick as the best of all cuts, within what rounding makes of it. */
static void test_speeds_against_all_cuts(void **state) {
    (void)state;
    static const double speeds[] = {1, 2, 3, 0.5, 0.1, 7.25, 1e-4};
    int refusals = 0, unlike = 0;
    for (int round = 0; round < 10000; round++) {
        test_problem problem = draw_problem();
        uint32_t kinds = 1 + draw(7);
        for (size_t p = 0; p < problem.parts; p++)
            problem.speeds[p] = speeds[draw(kinds)];
        cut_search search = {.problem = &problem};
        try_all(&search, 0);
        gp_partition_options options = {.cut_costs = problem.has_cuts ? problem.cuts : NULL,
                                        .memory = problem.has_memory ? problem.memory : NULL,
                                        .limits = problem.has_memory ? problem.limits : NULL,
                                        .speeds = problem.speeds};
        size_t bounds[MOST + 1], even[MOST + 1];
        gp_status status = gp_partition(problem.costs, problem.count, problem.parts, &options, bounds);
        assert_int_equal(status, search.found ? GP_OK : GP_DOES_NOT_FIT);
        refusals += !search.found;
        if (!search.found) continue;
        assert_true(fits(&problem, bounds));
        assert_true(slowest_part(&problem, bounds) <= search.most * (1 + 1e-9));
        options.speeds = NULL;
        assert_int_equal(gp_partition(problem.costs, problem.count, problem.parts, &options, even), GP_OK);
        unlike += slowest_part(&problem, even) > search.most * (1 + 1e-9);
    }
    assert_in_range(refusals, 500, 5000);
    assert_true(unlike > 1000); /* speeds mean something */
}

static void test_speeds(void **state) {
    (void)state;
    const double costs[] = {1, 1, 1, 1, 1, 1};
    gp_partition_options options = {.speeds = (double[]){1, 2}};
    size_t bounds[4];
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
    assert_int_equal(bounds[1], 2);
    options.speeds = (double[]){5, 1};
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
    assert_int_equal(bounds[1], 5);
    /* However slow, it holds a layer; the others share the rest. */
    options.speeds = (double[]){1, 1e-6, 1};
    assert_int_equal(gp_partition(costs, 6, 3, &options, bounds), GP_OK);
    assert_int_equal(bounds[2] - bounds[1], 1);
    /* Equal speeds are none at all, whatever they are. */
    options.speeds = (double[]){3, 3, 3};
    assert_int_equal(gp_partition(costs, 6, 3, &options, bounds), GP_OK);
    assert_true(bounds[1] == 2 && bounds[2] == 4);
    /* The slow one that has the memory, against the fast one that has not. */
    options = (gp_partition_options){.speeds = (double[]){4, 1}, .memory = costs, .limits = (double[]){2, 100}};
    assert_int_equal(gp_partition(costs, 6, 2, &options, bounds), GP_OK);
    assert_int_equal(bounds[1], 2);
    refused(costs, 6, 2, &(gp_partition_options){.speeds = (double[]){1, 0}}, GP_INVALID, "speed of part 1 is 0");
    refused(costs, 6, 2, &(gp_partition_options){.speeds = (double[]){-1, 1}}, GP_INVALID, "speed of part 0 is -1");
    refused(costs, 6, 2, &(gp_partition_options){.speeds = (double[]){1, INFINITY}}, GP_INVALID, "part 1 is inf");
    refused(costs, 6, 2, &(gp_partition_options){.speeds = (double[]){1e-7, 1}}, GP_INVALID, "1048576 times less");
}

/* A size at which trying all is out of reach: the result must hold its own promises. */
static void test_large(void **state) {
    (void)state;
    enum { LAYERS = 2000, PARTS = 256 };
    static double costs[LAYERS], cuts[LAYERS], memory[LAYERS], limits[PARTS];
    static size_t bounds[PARTS + 1];
    double total = 0;
    for (int i = 0; i < LAYERS; i++) {
        costs[i] = gp_random_unit(draw(UINT32_MAX)) + (i % 100 == 0 ? 5 : 0);
        cuts[i] = 0.1 * gp_random_unit(draw(UINT32_MAX));
        memory[i] = draw(1000);
        total += costs[i];
    }
    for (int p = 0; p < PARTS; p++)
        limits[p] = 12000;
    gp_partition_options options = {.cut_costs = cuts, .memory = memory, .limits = limits};
    assert_int_equal(gp_partition(costs, LAYERS, PARTS, &options, bounds), GP_OK);
    assert_int_equal(bounds[0], 0);
    assert_int_equal(bounds[PARTS], LAYERS);
    double most = largest_part(costs, LAYERS, cuts, bounds, PARTS, NULL);
    assert_true(most >= total / PARTS && most < 2 * total / PARTS + 6);
    for (int p = 0; p < PARTS; p++) {
        assert_true(bounds[p] < bounds[p + 1]);
        assert_true(part_cost(memory, LAYERS, NULL, bounds[p], bounds[p + 1]) <= limits[p]);
    }
}

static void test_no_memory_left(void **state) {
    (void)state;
    const double values[] = {1, 2, 3};
    size_t bounds[4];
    gp_partition_options options = {.memory = values, .limits = (double[]){9, 9}};
    int failures = 0;
    gp_status status = GP_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != GP_OK; n++) {
        gp_allocation_fail_at(n);
        status = gp_partition(values, 3, 2, &options, bounds);
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || status == GP_OUT_OF_MEMORY);
        failures += status == GP_OUT_OF_MEMORY;
    }
    assert_in_range(failures, 5, 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published_cases),
                                       cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_small_differences),
                                       cmocka_unit_test(test_equal_layers_tie),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_memory_limits),
                                       cmocka_unit_test(test_cut_costs),
                                       cmocka_unit_test(test_against_all_cuts),
                                       cmocka_unit_test(test_speeds),
                                       cmocka_unit_test(test_speeds_against_all_cuts),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_no_memory_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
