/* Partitions within a memory limit: where the one that is balanced by time does not fit, another one is found, as long
 * as there is memory enough in all; and as fast a one as the limit allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "gpipe/gpipe.h"
#include "train/grid.h"

enum { PARTITIONS = 3 };

/* Its time is in the first cells, its parameters in the last ones. */
static gp_model *make_model(void) {
    gp_option options[] = {
        {.key = "layers", .type = GP_OPTION_INTEGER, .integer = 9},
        {.key = "filters", .type = GP_OPTION_INTEGER, .integer = 32},
        {.key = "image", .type = GP_OPTION_INTEGER, .integer = 16},
        {.key = "stem", .type = GP_OPTION_TEXT, .text = "cifar"},
    };
    gp_model *model = NULL;
    assert_int_equal(gp_model_create_named(&model, "amoebanet_d", options, 4, NULL), GP_OK);
    return model;
}

static gp_plan *make_plan(const gp_model *model, size_t memory) {
    gp_pipeline_options pipeline = {.partitions = PARTITIONS,
                                    .micro_batches = 4,
                                    .batch = 4,
                                    .recompute = GP_RECOMPUTE_ALWAYS,
                                    .balance = GP_BALANCE_FLOPS,
                                    .device = {.memory = memory}};
    gp_optimizer_options optimizer = {0};
    gp_plan *plan = NULL;
    assert_int_equal(gp_plan_create(&plan, model, &pipeline, &optimizer), GP_OK);
    assert_int_equal(plan->worker_count, PARTITIONS);
    return plan;
}

static void measure(const gp_plan *plan, double *most, double *mean) {
    *most = *mean = 0;
    for (size_t w = 0; w < PARTITIONS; w++) {
        double total = (double)plan->workers[w].bytes.total;
        *mean += total / PARTITIONS;
        if (total > *most) *most = total;
    }
}

static void test_limits(void **state) {
    (void)state;
    gp_model *model = make_model();
    gp_plan *balanced = make_plan(model, 0);
    double most, mean, bubble = balanced->bubble;
    measure(balanced, &most, &mean);
    assert_true(most > 1.4 * mean); /* the limits below mean something */
    for (double share = 0.95; share * most > 1.15 * mean; share -= 0.05) {
        gp_plan *plan = make_plan(model, (size_t)(share * most));
        assert_true(plan->fits);
        assert_true(plan->bubble >= bubble - 1e-9); /* less memory is never faster */
        gp_plan_destroy(plan);
    }
    /* As much as is needed: the balanced partition stays. Too little in all: it stays too, and is said not to fit. */
    for (int i = 0; i < 2; i++) {
        gp_plan *plan = make_plan(model, (size_t)(i == 0 ? most : 0.9 * mean));
        assert_int_equal(plan->fits, i == 0);
        for (size_t w = 0; w < PARTITIONS; w++)
            assert_int_equal(plan->workers[w].first_layer, balanced->workers[w].first_layer);
        gp_plan_destroy(plan);
    }
    gp_plan_destroy(balanced);
    gp_model_destroy(model);
}

/* ---- workers that differ ---- */

static gp_plan *plan_with(const gp_model *model, int replicas, const size_t *stages, const size_t *limits,
                          size_t limit_count, const double *speeds, size_t speed_count) {
    gp_pipeline_options pipeline = {.partitions = 2,
                                    .replicas = replicas,
                                    .micro_batches = 2,
                                    .batch = 4,
                                    .recompute = GP_RECOMPUTE_ALWAYS,
                                    .balance = GP_BALANCE_FLOPS,
                                    .stage_layers = stages,
                                    .memory_limits = limits,
                                    .memory_limit_count = limit_count,
                                    .speeds = speeds,
                                    .speed_count = speed_count};
    gp_optimizer_options optimizer = {0};
    gp_plan *plan = NULL;
    if (gp_plan_create(&plan, model, &pipeline, &optimizer) != GP_OK) fail_msg("%s", gp_error_message());
    return plan;
}

/* Blocks between a large table and a head of its own: small, but uneven. */
static gp_model *make_gpt(void) {
    gp_gpt2_options options = {.layers = 6, .heads = 2, .width = 16, .context = 8, .vocabulary = 150, .untied = true};
    gp_model *model = NULL;
    assert_int_equal(gp_model_create_gpt2(&model, &options), GP_OK);
    return model;
}

/* Limits that are just enough for one cut, for each cut in turn: it is found, however uneven it is. A hundredth less,
 * which no cut keeps, is said not to fit. */
static void test_unequal_limits_against_all_cuts(void **state) {
    (void)state;
    gp_model *model = make_gpt();
    size_t layers = gp_model_layer_count(model), needs[64][2], few = 0;
    assert_true(layers <= 64);
    for (size_t cut = 1; cut < layers; cut++) {
        size_t stages[] = {cut, layers - cut};
        gp_plan *plan = plan_with(model, 1, stages, NULL, 0, NULL, 0);
        for (int w = 0; w < 2; w++)
            needs[cut][w] = plan->workers[w].bytes.total;
        gp_plan_destroy(plan);
    }
    for (size_t cut = 1; cut < layers; cut++) {
        size_t fitting = 0, less = 0, limits[2], tight[2];
        for (int w = 0; w < 2; w++) {
            limits[w] = needs[cut][w];
            tight[w] = limits[w] - limits[w] / 100 - 1;
        }
        for (size_t other = 1; other < layers; other++) {
            fitting += needs[other][0] <= limits[0] && needs[other][1] <= limits[1];
            less += needs[other][0] <= tight[0] && needs[other][1] <= tight[1];
        }
        few += fitting == 1;
        gp_plan *plan = plan_with(model, 1, NULL, limits, 2, NULL, 0);
        if (!plan->fits) fail_msg("cut %zu of %zu fits and is not found", cut, layers);
        assert_true(plan->workers[0].limit == limits[0] && plan->workers[1].limit == limits[1]);
        gp_plan_destroy(plan);
        plan = plan_with(model, 1, NULL, tight, 2, NULL, 0);
        assert_int_equal(plan->fits, less > 0);
        gp_plan_destroy(plan);
    }
    assert_true(few > layers / 2); /* most limits leave one cut only */
    gp_model_destroy(model);
}

/* Where the cut is, seen from the plan. */
static size_t cut_of(gp_plan *plan) {
    size_t cut = plan->workers[1].first_layer;
    gp_plan_destroy(plan);
    return cut;
}

/* The slowest and the smallest of a stage's workers count, whichever replica it is in. */
static void test_replicas_share_a_cut(void **state) {
    (void)state;
    gp_model *model = make_gpt();
    size_t even = cut_of(plan_with(model, 2, NULL, NULL, 0, NULL, 0));
    size_t slow_first = cut_of(plan_with(model, 2, NULL, NULL, 0, (double[]){0.25, 1}, 2));
    size_t slow_last = cut_of(plan_with(model, 2, NULL, NULL, 0, (double[]){1, 0.25}, 2));
    assert_true(slow_first < even && even < slow_last);
    assert_int_equal(cut_of(plan_with(model, 2, NULL, NULL, 0, (double[]){1, 1, 0.25, 1}, 4)), slow_first);
    assert_int_equal(cut_of(plan_with(model, 2, NULL, NULL, 0, (double[]){1, 0.25, 1, 1}, 4)), slow_last);
    assert_int_equal(cut_of(plan_with(model, 2, NULL, NULL, 0, (double[]){3, 3, 3, 3}, 4)), even);
    gp_plan *plan = plan_with(model, 2, NULL, (size_t[]){0, 1u << 20, 0, 1u << 10}, 4, NULL, 0);
    assert_false(plan->fits);
    assert_true(plan->workers[0].limit == 0 && plan->workers[1].limit == 1u << 20 && plan->limit == 1u << 10);
    gp_plan_destroy(plan);
    gp_model_destroy(model);
}

/* Seconds of ranks become speeds of machines. */
static void test_measured_speeds(void **state) {
    (void)state;
    double speeds[4];
    assert_false(gp_grid_find_speeds((double[]){1, 1.1, 0.95, 1.05}, (int[]){0, 1, 2, 3}, 4, speeds));
    assert_true(speeds[0] == 1 && speeds[3] == 1);
    /* Of one machine, however they differ. */
    assert_false(gp_grid_find_speeds((double[]){1, 9, 2, 3}, (int[]){0, 0, 0, 0}, 4, speeds));
    assert_true(gp_grid_find_speeds((double[]){1, 1.2, 3.9, 4.1}, (int[]){0, 0, 2, 2}, 4, speeds));
    assert_true(speeds[0] == speeds[1] && speeds[2] == speeds[3]);
    assert_true(fabs(speeds[0] / speeds[2] - 4 / 1.1) < 1e-9);
    /* The mean of all is speed 1. */
    assert_true(fabs(speeds[0] * 1.1 - 2.55) < 1e-9);
    assert_false(gp_grid_find_speeds((double[]){0, 0}, (int[]){0, 1}, 2, speeds));
    assert_true(speeds[0] == 1 && speeds[1] == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unequal_limits_against_all_cuts),
        cmocka_unit_test(test_replicas_share_a_cut),
        cmocka_unit_test(test_measured_speeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
