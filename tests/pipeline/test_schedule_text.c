/* The text form: what is read, what is refused and where, and text that nobody meant as a schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "gpipe/pipeline.h"

static void reads_as(const char *text, const char *expected, int stages, int micro_batches) {
    gp_schedule *schedule;
    char *written;
    if (gp_schedule_parse(&schedule, text) != GP_OK) fail_msg("%s", gp_error_message());
    assert_int_equal(gp_schedule_stages(schedule), stages);
    assert_int_equal(gp_schedule_micro_batches(schedule), micro_batches);
    assert_int_equal(gp_schedule_format(schedule, &written), GP_OK);
    assert_string_equal(written, expected);
    gp_text_free(written);
    gp_schedule_destroy(schedule);
}

static void test_read(void **state) {
    (void)state;
    reads_as("F0 F1 R0 B0 B1", "F0 F1 R0 B0 B1\n", 1, 2);
    reads_as("0F0 B0\r\n1F0\t 1B0  \n", "F0 B0\nF0 B0\n", 2, 1);
    reads_as("# two workers\n\nF0 B0 # the first\n   \n\tF0 B0#the second", "F0 B0\nF0 B0\n", 2, 1);
    reads_as("RECV_F0 SEND_F0 RECV_B0 SEND_B0 F0 R0 B0", "RECV_F0 SEND_F0 RECV_B0 SEND_B0 F0 R0 B0\n", 1, 1);
    reads_as("F1048575 F007", "F1048575 F7\n", 1, 1048576);
}

static void test_round_trip(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int recompute = 0; recompute < 3; recompute++) {
            gp_schedule *schedule, *lowered;
            char *text;
            assert_int_equal(gp_schedule_create(&schedule, (gp_schedule_kind)kind, 5, 101, (gp_recompute)recompute),
                             GP_OK);
            assert_int_equal(gp_schedule_format(schedule, &text), GP_OK);
            reads_as(text, text, 5, 101);
            gp_text_free(text);
            assert_int_equal(gp_schedule_lower(schedule, &lowered), GP_OK);
            assert_int_equal(gp_schedule_format(lowered, &text), GP_OK);
            reads_as(text, text, 5, 101);
            gp_text_free(text);
            gp_schedule_destroy(lowered);
            gp_schedule_destroy(schedule);
        }
}

static void refused(const char *text, const char *expected) {
    gp_schedule *schedule = (gp_schedule *)(uintptr_t)1;
    assert_int_equal(gp_schedule_parse(&schedule, text), GP_INVALID);
    assert_null(schedule);
    if (!strstr(gp_error_message(), expected)) fail_msg("'%s' is not in: %s", expected, gp_error_message());
}

static void test_refused(void **state) {
    (void)state;
    refused(NULL, "no text");
    refused("", "has no action");
    refused("\n # nothing\n", "has no action");
    refused("F0 X1", "line 1, column 4: 'X1': an action is");
    refused("F0 B0\n\n  f0", "line 3, column 3: 'f0': an action is");
    refused("F", "line 1, column 1: 'F': the number of the micro-batch is missing");
    refused("F-1", "'F-1': the number of the micro-batch is missing");
    refused("F0B0", "'F0B0': a blank must follow");
    refused("F0,B0", "'F0,B0': a blank must follow");
    refused("F0\n0F1", "line 2, column 1: '0F1': the stage before the letter");
    refused("1F0", "the stage before the letter");
    refused("99999999999999999999F0", "the stage before the letter");
    refused("F1048576", "beyond the most");
    refused("F99999999999999999999999999999999999999999", "'F99999999999999999999999...': the micro-batch is beyond");
    refused("SEND0", "an action is");
    refused("12", "an action is");
    refused("\x01\xff\x7f", "'\?\?\?': an action is");
    refused("FF0", "an action is");
    refused("RECV_F", "number of the micro-batch is missing");
}

/* One worker more than there may be, one line each. */
static void test_too_many_workers(void **state) {
    (void)state;
    size_t lines = GP_SCHEDULE_MOST_STAGES + 1;
    char *text = malloc(3 * lines + 1);
    assert_non_null(text);
    for (size_t i = 0; i < lines; i++)
        memcpy(text + 3 * i, "F0\n", 4);
    refused(text, "line 16385, column 1: 'F0': more workers than a schedule may have");
    text[3 * (lines - 1)] = '\0';
    gp_schedule *schedule;
    assert_int_equal(gp_schedule_parse(&schedule, text), GP_OK);
    gp_schedule_destroy(schedule);
    free(text);
}

static uint32_t drawn;

static uint32_t draw(uint32_t below) {
    return gp_random4(gp_random_key_of(11), (gp_random_block){{drawn++, 0, 0, 0}}).word[0] % below;
}

/* Reads anything; what is accepted must be written and read again, and the checker and the lowering must bear it. */
static bool survives(const char *text) {
    gp_schedule *schedule, *lowered;
    gp_status status = gp_schedule_parse(&schedule, text);
    if (status != GP_OK) {
        assert_int_equal(status, GP_INVALID);
        assert_non_null(strstr(gp_error_message(), "schedule: "));
        return false;
    }
    char *written;
    assert_int_equal(gp_schedule_format(schedule, &written), GP_OK);
    reads_as(written, written, gp_schedule_stages(schedule), gp_schedule_micro_batches(schedule));
    gp_text_free(written);
    gp_status check = gp_schedule_check(schedule, 0);
    assert_true(check == GP_OK || check == GP_INVALID);
    gp_status lower = gp_schedule_lower(schedule, &lowered);
    assert_true(lower == GP_OK || lower == GP_INVALID);
    gp_schedule_destroy(lowered);
    gp_schedule_destroy(schedule);
    return true;
}

static void test_random_text(void **state) {
    (void)state;
    static const char letters[] = "FFRBB00112 \n\t#SENDRECV__9";
    char text[64];
    int accepted = 0;
    for (int round = 0; round < 10000; round++) {
        size_t length = draw(sizeof text - 1);
        for (size_t i = 0; i < length; i++)
            text[i] = draw(20) ? letters[draw(sizeof letters - 1)] : (char)(1 + draw(255));
        text[length] = '\0';
        accepted += survives(text);
    }
    assert_true(accepted > 0);
}

static void test_damaged_text(void **state) {
    (void)state;
    static const char good[] = "F0 F1 F2 R0 B0 R1 B1 B2\nF0 R0 B0 F1 R1 B1 F2 B2\n";
    char text[sizeof good];
    int accepted = 0;
    for (int round = 0; round < 10000; round++) {
        memcpy(text, good, sizeof good);
        for (uint32_t damage = 1 + draw(3); damage > 0; damage--)
            text[draw(sizeof good - 1)] = draw(2) ? good[draw(sizeof good - 1)] : (char)draw(256);
        accepted += survives(text);
    }
    assert_true(accepted > 500);
}

/* Ten megabytes: one long word, one long number, one long line, noise. */
static void test_long_text(void **state) {
    (void)state;
    const size_t length = 10000000;
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'F', length);
    text[length] = '\0';
    refused(text, "line 1, column 1: 'FFFFFFFFFFFFFFFFFFFFFFFF...'");
    memset(text, '9', length);
    refused(text, "line 1, column 1");
    memset(text, '\n', length);
    refused(text, "has no action");
    for (size_t i = 0; i + 2 < length; i += 3)
        memcpy(text + i, "F0 ", 3);
    assert_true(survives(text));
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(1 + i * 2654435761u % 255);
    assert_false(survives(text));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_random_text),
                                       cmocka_unit_test(test_too_many_workers),
                                       cmocka_unit_test(test_damaged_text),
                                       cmocka_unit_test(test_long_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
