/* The simulator against published figures and closed forms. */
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
#include "gpipe/pipeline.h"

enum { MOST_STAGES = 16 };

static gp_simulation run(const gp_schedule *schedule, gp_stage_times all) {
    gp_stage_times times[MOST_STAGES];
    for (int i = 0; i < MOST_STAGES; i++)
        times[i] = all;
    gp_simulation simulation;
    assert_int_equal(gp_simulate(schedule, times, &simulation, NULL), GP_OK);
    return simulation;
}

static gp_simulation made(gp_schedule_kind kind, int stages, int micro_batches, gp_recompute recompute,
                          gp_stage_times all) {
    gp_schedule *schedule;
    assert_int_equal(gp_schedule_create(&schedule, kind, stages, micro_batches, recompute), GP_OK);
    gp_simulation simulation = run(schedule, all);
    gp_schedule_destroy(schedule);
    return simulation;
}

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

static void test_published_spans(void **state) {
    (void)state;
    const int cases[][3] = {{2, 2, 9}, {2, 4, 15}, {4, 4, 21}, {4, 8, 33}, {3, 5, 21}, {4, 2, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = GP_SCHEDULE_GPIPE; kind <= GP_SCHEDULE_1F1B; kind++) {
            gp_simulation got = made((gp_schedule_kind)kind, cases[i][0], cases[i][1], GP_RECOMPUTE_NEVER,
                                     (gp_stage_times){.forward = 1, .backward = 2});
            near(got.span, cases[i][2]);
            near(got.bubble, gp_bubble_formula(cases[i][0], cases[i][1]));
        }
}

static void test_bubble_formula(void **state) {
    (void)state;
    for (int stages = 1; stages <= 8; stages++)
        for (int micro_batches = 1; micro_batches <= 12; micro_batches++) {
            gp_stage_times times = {.forward = 1, .backward = 1.75};
            double bubble = gp_bubble_formula(stages, micro_batches);
            near(made(GP_SCHEDULE_GPIPE, stages, micro_batches, GP_RECOMPUTE_NEVER, times).bubble, bubble);
            near(made(GP_SCHEDULE_1F1B, stages, micro_batches, GP_RECOMPUTE_NEVER, times).bubble, bubble);
            /* One micro-batch in flight: one worker of all works at any time. */
            near(made(GP_SCHEDULE_NAIVE, stages, micro_batches, GP_RECOMPUTE_NEVER, times).bubble,
                 (stages - 1.0) / stages);
        }
}

/* M (f + r + b) + (K - 1) (f + b): recomputing does not wait for the gradient. */
static void test_early_recompute(void **state) {
    (void)state;
    gp_stage_times times = {.forward = 1, .recompute = 1, .backward = 2};
    gp_simulation early = made(GP_SCHEDULE_GPIPE, 4, 32, GP_RECOMPUTE_ALWAYS, times);
    near(early.span, 32 * 4 + 3 * 3);
    assert_true(fabs(early.bubble - 0.0657) < 5e-5);
    gp_simulation late =
        made(GP_SCHEDULE_GPIPE, 4, 32, GP_RECOMPUTE_NEVER, (gp_stage_times){.forward = 1, .backward = 3});
    assert_true(fabs(late.bubble - 0.0857) < 5e-5);
    for (int stages = 1; stages <= 6; stages++)
        for (int micro_batches = 1; micro_batches <= 9; micro_batches++)
            near(made(GP_SCHEDULE_GPIPE, stages, micro_batches, GP_RECOMPUTE_ALWAYS, times).span,
                 4.0 * micro_batches + 3.0 * (stages - 1));
}

/* Forwards only, unequal stages: sum(t) + (M - 1) max(t). */
static void test_unequal_stages(void **state) {
    (void)state;
    gp_schedule *schedule;
    gp_simulation simulation;
    const gp_stage_times times[] = {{.forward = 2}, {.forward = 5}, {.forward = 3}};
    assert_int_equal(gp_schedule_parse(&schedule, "F0 F1 F2 F3\nF0 F1 F2 F3\nF0 F1 F2 F3\n"), GP_OK);
    assert_int_equal(gp_simulate(schedule, times, &simulation, NULL), GP_OK);
    near(simulation.span, 10 + 3 * 5);
    near(simulation.bubble, 1 - 40.0 / 75.0);
    gp_schedule_destroy(schedule);
}

/* Transfers lengthen fill and drain only while they are shorter than the work; longer ones set the pace themselves. */
static void test_transfers(void **state) {
    (void)state;
    gp_stage_times times = {.forward = 1, .backward = 2, .transfer = 0.5};
    near(made(GP_SCHEDULE_GPIPE, 4, 8, GP_RECOMPUTE_NEVER, times).span, 8 * 3 + 3 * (3 + 2 * 0.5));
    near(made(GP_SCHEDULE_GPIPE, 1, 8, GP_RECOMPUTE_NEVER, times).span, 8 * 3);
    times.transfer = 10; /* F0, three activations, F2 B0 at the other side, three gradients, B2 */
    near(made(GP_SCHEDULE_GPIPE, 2, 3, GP_RECOMPUTE_NEVER, times).span, 1 + 3 * 10 + 1 + 2 + 3 * 10 + 2);
}

static void test_starts(void **state) {
    (void)state;
    gp_schedule *schedule;
    gp_simulation simulation;
    const gp_stage_times times[] = {{1, 1, 2, 0.25}, {1, 1, 2, 0.5}};
    const double expected[2][6] = {{0, 1, 2, 4.75, 6.75, 7.75}, {1.25, 2.25, 4.25, 5.25}};
    double first[6], second[4];
    double *const starts[] = {first, second};
    assert_int_equal(gp_schedule_parse(&schedule, "F0 F1 R0 B0 R1 B1\nF0 B0 F1 B1"), GP_OK);
    assert_int_equal(gp_simulate(schedule, times, &simulation, starts), GP_OK);
    for (int i = 0; i < 6; i++)
        near(first[i], expected[0][i]);
    for (int i = 0; i < 4; i++)
        near(second[i], expected[1][i]);
    near(simulation.span, 9.75);
    near(simulation.bubble, 1 - (8.0 + 6.0) / (2 * 9.75));
    gp_schedule_destroy(schedule);
}

static void refused(const char *text, const gp_stage_times *times, const char *piece) {
    gp_schedule *schedule;
    gp_simulation simulation;
    assert_int_equal(gp_schedule_parse(&schedule, text), GP_OK);
    assert_int_equal(gp_simulate(schedule, times, &simulation, NULL), GP_INVALID);
    if (!strstr(gp_error_message(), piece)) fail_msg("'%s' is not in: %s", piece, gp_error_message());
    gp_schedule_destroy(schedule);
}

static void test_refusals(void **state) {
    (void)state;
    const gp_stage_times good[] = {{.forward = 1}, {.forward = 1}}, negative[] = {{.forward = 1}, {.backward = -1}};
    const gp_stage_times infinite[] = {{.transfer = INFINITY}, {.forward = 1}},
                         nan[] = {{.forward = NAN}, {.forward = 1}};
    refused("F0 B0\nF0 B0", NULL, "needs the times");
    refused("F0 B0\nF0 B0", negative, "stage 1: a time of -1");
    refused("F0 B0\nF0 B0", infinite, "stage 0: a time of inf");
    refused("F0 B0\nF0 B0", nan, "stage 0: a time of");
    const gp_stage_times huge[] = {{.forward = 1e308, .backward = 1e308}, {.forward = 1e308}};
    refused("F0 B0\nF0 B0", huge, "too large");
    refused("F0 SEND_F0 RECV_B0 B0\nRECV_F0 F0 B0 SEND_B0", good, "sends or receives");
    refused("F0 B0 F1 B1\nF0 F1 B0 B1", good, "worker 0, position 1: the input of B0 never comes");
    refused("F0 B0\nF1000000", good, "incomplete");
}

static void test_zero_times(void **state) {
    (void)state;
    gp_simulation simulation = made(GP_SCHEDULE_GPIPE, 3, 3, GP_RECOMPUTE_ALWAYS, (gp_stage_times){0, 0, 0, 0});
    assert_true(simulation.span == 0 && simulation.bubble == 0);
}

static void test_no_memory_left(void **state) {
    (void)state;
    gp_schedule *schedule;
    gp_simulation simulation;
    const gp_stage_times times[2] = {{1, 1, 1, 0}, {1, 1, 1, 0}};
    assert_int_equal(gp_schedule_create(&schedule, GP_SCHEDULE_GPIPE, 2, 2, GP_RECOMPUTE_NEVER), GP_OK);
    gp_status status = GP_OUT_OF_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != GP_OK; n++) {
        gp_allocation_fail_at(n);
        status = gp_simulate(schedule, times, &simulation, NULL);
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || status == GP_OUT_OF_MEMORY);
        failures += status == GP_OUT_OF_MEMORY;
    }
    assert_in_range(failures, 3, 20);
    gp_schedule_destroy(schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published_spans), cmocka_unit_test(test_bubble_formula),
                                       cmocka_unit_test(test_early_recompute), cmocka_unit_test(test_unequal_stages),
                                       cmocka_unit_test(test_transfers),       cmocka_unit_test(test_starts),
                                       cmocka_unit_test(test_refusals),        cmocka_unit_test(test_zero_times),
                                       cmocka_unit_test(test_no_memory_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
