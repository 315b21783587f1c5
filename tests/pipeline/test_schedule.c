/* Schedules as made: the published lists, what is in flight, lowering, names, and the figures of a step. */
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

static gp_schedule *make(gp_schedule_kind kind, int stages, int micro_batches, gp_recompute recompute) {
    gp_schedule *schedule;
    assert_int_equal(gp_schedule_create(&schedule, kind, stages, micro_batches, recompute), GP_OK);
    return schedule;
}

/* Compares with text and frees the schedule. */
static void check_text(gp_schedule *schedule, const char *expected) {
    char *text;
    assert_int_equal(gp_schedule_format(schedule, &text), GP_OK);
    assert_string_equal(text, expected);
    gp_text_free(text);
    gp_schedule_destroy(schedule);
}

static void test_gpipe(void **state) {
    (void)state;
    check_text(make(GP_SCHEDULE_GPIPE, 2, 3, GP_RECOMPUTE_NEVER), "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
    check_text(make(GP_SCHEDULE_GPIPE, 1, 2, GP_RECOMPUTE_ALWAYS), "F0 F1 R0 B0 R1 B1\n");
    check_text(make(GP_SCHEDULE_GPIPE, 1, 2, GP_RECOMPUTE_EXCEPT_LAST), "F0 F1 R0 B0 B1\n");
    check_text(make(GP_SCHEDULE_GPIPE, 1, 1, GP_RECOMPUTE_EXCEPT_LAST), "F0 B0\n");
}

static void test_1f1b(void **state) {
    (void)state;
    check_text(make(GP_SCHEDULE_1F1B, 4, 8, GP_RECOMPUTE_NEVER), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
                                                                 "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
                                                                 "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
                                                                 "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
    check_text(make(GP_SCHEDULE_1F1B, 4, 2, GP_RECOMPUTE_NEVER),
               "F0 F1 B0 B1\nF0 F1 B0 B1\nF0 F1 B0 B1\nF0 B0 F1 B1\n");
    check_text(make(GP_SCHEDULE_1F1B, 2, 3, GP_RECOMPUTE_EXCEPT_LAST),
               "F0 F1 R0 B0 F2 R1 B1 B2\nF0 R0 B0 F1 R1 B1 F2 B2\n");
}

static void test_naive(void **state) {
    (void)state;
    check_text(make(GP_SCHEDULE_NAIVE, 2, 2, GP_RECOMPUTE_NEVER), "F0 B0 F1 B1\nF0 B0 F1 B1\n");
    check_text(make(GP_SCHEDULE_NAIVE, 1, 2, GP_RECOMPUTE_ALWAYS), "F0 R0 B0 F1 R1 B1\n");
}

static void refuse(gp_schedule_kind kind, int stages, int micro_batches, gp_recompute recompute, const char *piece) {
    gp_schedule *schedule = (gp_schedule *)(uintptr_t)1;
    assert_int_equal(gp_schedule_create(&schedule, kind, stages, micro_batches, recompute), GP_INVALID);
    assert_null(schedule);
    if (!strstr(gp_error_message(), piece)) fail_msg("'%s' is not in: %s", piece, gp_error_message());
}

static void test_refusals(void **state) {
    (void)state;
    refuse(GP_SCHEDULE_GPIPE, 0, 1, GP_RECOMPUTE_NEVER, "stages, not 0");
    refuse(GP_SCHEDULE_GPIPE, -3, 1, GP_RECOMPUTE_NEVER, "stages, not -3");
    refuse(GP_SCHEDULE_1F1B, 1, 0, GP_RECOMPUTE_ALWAYS, "micro-batches, not 0");
    refuse(GP_SCHEDULE_1F1B, 1, -2, GP_RECOMPUTE_EXCEPT_LAST, "micro-batches, not -2");
    refuse(GP_SCHEDULE_GPIPE, 2147483647, 2147483647, GP_RECOMPUTE_ALWAYS, "stages, not");
    refuse(GP_SCHEDULE_GPIPE, GP_SCHEDULE_MOST_STAGES, GP_SCHEDULE_MOST_MICRO_BATCHES, GP_RECOMPUTE_ALWAYS, "actions");
    refuse((gp_schedule_kind)3, 1, 1, GP_RECOMPUTE_NEVER, "kind 3");
    refuse(GP_SCHEDULE_GPIPE, 1, 1, (gp_recompute)-1, "mode -1");
}

/* Every kind, size and mode: proved by the checker, with as much in flight as the kind allows. */
static void check_one(gp_schedule_kind kind, int stages, int micro_batches, gp_recompute recompute) {
    gp_schedule *schedule = make(kind, stages, micro_batches, recompute), *lowered;
    int most = 0;
    for (int worker = 0; worker < stages; worker++) {
        int recomputed, kept,
            ahead = kind == GP_SCHEDULE_GPIPE  ? micro_batches
                    : kind == GP_SCHEDULE_1F1B ? stages - worker
                                               : 1;
        if (ahead > micro_batches) ahead = micro_batches;
        assert_int_equal(gp_schedule_in_flight(schedule, worker, &recomputed, &kept), ahead);
        assert_in_range(recomputed + kept, ahead, 2 * ahead);
        if (recompute == GP_RECOMPUTE_ALWAYS) assert_int_equal(kept, 0);
        if (recompute == GP_RECOMPUTE_NEVER) assert_int_equal(recomputed, 0);
        if (recompute == GP_RECOMPUTE_EXCEPT_LAST) assert_int_equal(kept, 1);
        if (ahead > most) most = ahead;
    }
    assert_int_equal(gp_schedule_check(schedule, most), GP_OK);
    if (most > 1) assert_int_equal(gp_schedule_check(schedule, most - 1), GP_INVALID);
    assert_true(gp_schedule_backward_in_order(schedule));
    assert_true(gp_schedule_forward_in_order(schedule));
    assert_int_equal(gp_schedule_lower(schedule, &lowered), GP_OK);
    assert_int_equal(gp_schedule_check(lowered, most), GP_OK);
    gp_schedule_destroy(lowered);
    gp_schedule_destroy(schedule);
}

static void test_order(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool forward, backward;
    } cases[] = {{"F0 F1 B0 B1", true, true},
                 {"F1 F0 B0 B1", false, true},
                 {"F0 F1 B1 B0", true, false},
                 {"F0 F1 B0 B1\nF0 F1 B0 B1", true, true},
                 {"F0 F1 B0 B1\nF1 F0 B0 B1", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_schedule *schedule;
        assert_int_equal(gp_schedule_parse(&schedule, cases[i].text), GP_OK);
        assert_int_equal(gp_schedule_forward_in_order(schedule), cases[i].forward);
        assert_int_equal(gp_schedule_backward_in_order(schedule), cases[i].backward);
        gp_schedule_destroy(schedule);
    }
}

static void test_all_are_proved(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int recompute = 0; recompute < 3; recompute++)
            for (int stages = 1; stages <= 9; stages++)
                for (int micro_batches = 1; micro_batches <= 20; micro_batches += 1 + micro_batches / 5)
                    check_one((gp_schedule_kind)kind, stages, micro_batches, (gp_recompute)recompute);
    check_one(GP_SCHEDULE_1F1B, 64, 500, GP_RECOMPUTE_ALWAYS);
    check_one(GP_SCHEDULE_GPIPE, 128, 3, GP_RECOMPUTE_EXCEPT_LAST);
}

static void test_actions(void **state) {
    (void)state;
    gp_schedule *schedule = make(GP_SCHEDULE_GPIPE, 2, 2, GP_RECOMPUTE_ALWAYS);
    size_t count;
    assert_int_equal(gp_schedule_stages(schedule), 2);
    assert_int_equal(gp_schedule_micro_batches(schedule), 2);
    const gp_action *actions = gp_schedule_actions(schedule, 1, &count);
    assert_int_equal(count, 6);
    assert_int_equal(actions[2].kind, GP_RECOMPUTE);
    assert_int_equal(actions[5].micro_batch, 1);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(actions[i].stage, 1);
    assert_null(gp_schedule_actions(schedule, 2, &count));
    assert_int_equal(count, 0);
    assert_null(gp_schedule_actions(schedule, -1, &count));
    assert_int_equal(gp_schedule_in_flight(schedule, 2, NULL, NULL), 0);
    gp_schedule_destroy(schedule);
    gp_schedule_destroy(NULL);
}

static void test_lowering(void **state) {
    (void)state;
    gp_schedule *schedule = make(GP_SCHEDULE_GPIPE, 2, 2, GP_RECOMPUTE_NEVER), *lowered, *again;
    assert_int_equal(gp_schedule_lower(schedule, &lowered), GP_OK);
    gp_schedule_destroy(schedule);
    assert_int_equal(gp_schedule_lower(lowered, &again), GP_INVALID);
    assert_null(again);
    check_text(lowered, "F0 SEND_F0 F1 SEND_F1 RECV_B0 B0 RECV_B1 B1\n"
                        "RECV_F0 F0 RECV_F1 F1 B0 SEND_B0 B1 SEND_B1\n");
    /* Early recompute: the gradient is waited for after R only. */
    schedule = make(GP_SCHEDULE_1F1B, 3, 1, GP_RECOMPUTE_ALWAYS);
    assert_int_equal(gp_schedule_lower(schedule, &lowered), GP_OK);
    gp_schedule_destroy(schedule);
    check_text(lowered,
               "F0 SEND_F0 R0 RECV_B0 B0\nRECV_F0 F0 SEND_F0 R0 RECV_B0 B0 SEND_B0\nRECV_F0 F0 R0 B0 SEND_B0\n");
}

static void test_names(void **state) {
    (void)state;
    gp_schedule_kind kind;
    gp_recompute recompute;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gp_schedule_kind_by_name(gp_schedule_kind_name((gp_schedule_kind)i), &kind), GP_OK);
        assert_int_equal(kind, i);
        assert_int_equal(gp_recompute_by_name(gp_recompute_name((gp_recompute)i), &recompute), GP_OK);
        assert_int_equal(recompute, i);
    }
    assert_string_equal(gp_schedule_kind_name(GP_SCHEDULE_1F1B), "1f1b");
    assert_string_equal(gp_recompute_name(GP_RECOMPUTE_EXCEPT_LAST), "except_last");
    assert_string_equal(gp_schedule_kind_name((gp_schedule_kind)99), "unknown");
    assert_string_equal(gp_recompute_name((gp_recompute)-1), "unknown");
    assert_int_equal(gp_schedule_kind_by_name("GPipe", &kind), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "'GPipe' is unknown; accepted are gpipe, 1f1b, naive"));
    assert_int_equal(gp_recompute_by_name(NULL, &recompute), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "except_last, always, never"));
}

static void check_sizes(int64_t batch, int micro_batches, int count, const int64_t *expected) {
    int64_t sizes[8];
    assert_int_equal(gp_micro_batch_sizes(batch, micro_batches, sizes), count);
    assert_int_equal(gp_micro_batch_sizes(batch, micro_batches, NULL), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(sizes[i], expected[i]);
}

static void test_figures_of_a_step(void **state) {
    (void)state;
    check_sizes(5, 4, 4, (int64_t[]){2, 1, 1, 1});
    check_sizes(7, 4, 4, (int64_t[]){2, 2, 2, 1});
    check_sizes(2, 4, 2, (int64_t[]){1, 1});
    check_sizes(8, 4, 4, (int64_t[]){2, 2, 2, 2});
    check_sizes(INT64_C(5000000000), 2, 2, (int64_t[]){2500000000, 2500000000});
    check_sizes(0, 4, 0, NULL);
    check_sizes(4, 0, 0, NULL);
    assert_true(gp_bubble_formula(4, 8) == 3.0 / 11.0);
    assert_true(gp_bubble_formula(1, 5) == 0);
    assert_true(gp_bubble_formula(0, 5) == 0);
    assert_true(gp_bubble_formula(2147483647, 2147483647) < 0.5);
}

static gp_status everything(void) {
    gp_schedule *schedule = NULL, *lowered = NULL, *read = NULL;
    char *text = NULL;
    gp_status status = gp_schedule_create(&schedule, GP_SCHEDULE_1F1B, 3, 40, GP_RECOMPUTE_ALWAYS);
    if (status == GP_OK) status = gp_schedule_check(schedule, 0);
    if (status == GP_OK) status = gp_schedule_in_flight(schedule, 0, NULL, NULL) < 0 ? GP_OUT_OF_MEMORY : GP_OK;
    if (status == GP_OK) status = gp_schedule_lower(schedule, &lowered);
    if (status == GP_OK) status = gp_schedule_format(lowered, &text);
    if (status == GP_OK) status = gp_schedule_parse(&read, text);
    gp_schedule_destroy(read);
    gp_schedule_destroy(lowered);
    gp_schedule_destroy(schedule);
    gp_text_free(text);
    return status;
}

/* Each allocation fails in its turn; nothing leaks (the sanitizers see that) and the status says why. */
static void test_no_memory_left(void **state) {
    (void)state;
    int failures = 0;
    gp_status status = GP_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != GP_OK; n++) {
        gp_allocation_fail_at(n);
        status = everything();
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || status == GP_OUT_OF_MEMORY);
        failures += status == GP_OUT_OF_MEMORY;
    }
    assert_in_range(failures, 15, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpipe),         cmocka_unit_test(test_1f1b),
                                       cmocka_unit_test(test_naive),         cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_order),         cmocka_unit_test(test_all_are_proved),
                                       cmocka_unit_test(test_actions),       cmocka_unit_test(test_lowering),
                                       cmocka_unit_test(test_names),         cmocka_unit_test(test_figures_of_a_step),
                                       cmocka_unit_test(test_no_memory_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
