/* Partitions within a memory limit: where the one that is balanced by time does not fit, another one is found, as long
 * as there is memory enough in all; and as fast a one as the limit allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpipe/gpipe.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
