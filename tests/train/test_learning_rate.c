/* Learning rates over the steps against values worked out by hand from the published formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gpipe/train.h"

static void assert_near(double found, double expected) {
    if (!(found > expected - 1e-12 && found < expected + 1e-12))
        fail_msg("found %.15g, expected %.15g", found, expected);
}

static void test_warmup_is_linear_and_reaches_the_rate(void **state) {
    (void)state;
    gp_lr_options schedule = {.kind = GP_LR_CONSTANT, .warmup = 100};
    assert_near(gp_learning_rate(&schedule, 1e-3, 0, 2000), 0);
    assert_near(gp_learning_rate(&schedule, 1e-3, 50, 2000), 0.5e-3);
    assert_near(gp_learning_rate(&schedule, 1e-3, 100, 2000), 1e-3);
    assert_near(gp_learning_rate(&schedule, 1e-3, 1999, 2000), 1e-3);
}

static void test_cosine_goes_from_rate_to_least(void **state) {
    (void)state;
    gp_lr_options schedule = {.kind = GP_LR_COSINE, .warmup = 100, .min_lr = 1e-4};
    assert_near(gp_learning_rate(&schedule, 1e-3, 100, 2100), 1e-3);
    assert_near(gp_learning_rate(&schedule, 1e-3, 1100, 2100), 5.5e-4);
    assert_near(gp_learning_rate(&schedule, 1e-3, 2100, 2100), 1e-4);
    assert_near(gp_learning_rate(&schedule, 1e-3, 9999, 2100), 1e-4); /* trained on: stays there */
}

static void test_linear(void **state) {
    (void)state;
    gp_lr_options schedule = {.kind = GP_LR_LINEAR, .min_lr = 0};
    assert_near(gp_learning_rate(&schedule, 1.0, 0, 10), 1.0);
    assert_near(gp_learning_rate(&schedule, 1.0, 5, 10), 0.5);
    assert_near(gp_learning_rate(&schedule, 1.0, 10, 10), 0.0);
}

static void test_step_and_exponential(void **state) {
    (void)state;
    gp_lr_options step = {.kind = GP_LR_STEP, .every = 30, .gamma = 0.1, .min_lr = 0.005};
    assert_near(gp_learning_rate(&step, 1.0, 29, 100), 1.0);
    assert_near(gp_learning_rate(&step, 1.0, 30, 100), 0.1);
    assert_near(gp_learning_rate(&step, 1.0, 60, 100), 0.01);
    assert_near(gp_learning_rate(&step, 1.0, 99, 100), 0.005);
    gp_lr_options smooth = {.kind = GP_LR_EXPONENTIAL, .every = 2, .gamma = 0.25};
    assert_near(gp_learning_rate(&smooth, 1.0, 1, 100), 0.5);
    assert_near(gp_learning_rate(&smooth, 1.0, 4, 100), 0.0625);
}

static void test_inverse_square_root(void **state) {
    (void)state;
    gp_lr_options schedule = {.kind = GP_LR_INVERSE_SQRT, .warmup = 4};
    assert_near(gp_learning_rate(&schedule, 1.0, 2, 100), 0.5);
    assert_near(gp_learning_rate(&schedule, 1.0, 4, 100), 1.0);
    assert_near(gp_learning_rate(&schedule, 1.0, 16, 100), 0.5);
    assert_near(gp_learning_rate(&schedule, 1.0, 64, 100), 0.25);
}

static void test_defaults_without_a_schedule(void **state) {
    (void)state;
    gp_lr_options schedule = {0};
    assert_near(gp_learning_rate(&schedule, 0.25, 0, 0), 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup_is_linear_and_reaches_the_rate),
        cmocka_unit_test(test_cosine_goes_from_rate_to_least),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_step_and_exponential),
        cmocka_unit_test(test_inverse_square_root),
        cmocka_unit_test(test_defaults_without_a_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
