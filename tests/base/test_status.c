/* Messages: per thread, nested, cut where too long; the log callback; the numbers that programs rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/thread.h"

static void test_numbers(void **state) {
    (void)state;
    assert_int_equal(gp_status_exit(GP_OK), 0);
    assert_int_equal(gp_status_exit(GP_FAILED), 1);
    assert_int_equal(gp_status_exit(GP_INVALID), 2);
    assert_int_equal(gp_status_exit(GP_DOES_NOT_FIT), 3);
    assert_int_equal(gp_status_exit(GP_PEER_LOST), 4);
    assert_int_equal(gp_status_exit(GP_DIVERGED), 5);
    assert_int_equal(gp_status_exit(GP_OUT_OF_MEMORY), 3);
    assert_int_equal(gp_status_exit((gp_status)99), 1);
    assert_string_equal(gp_status_text(GP_PEER_LOST), "a peer was lost");
    assert_string_equal(gp_status_text((gp_status)99), "unknown status");
    int major = -1, minor = -1, patch = -1;
    assert_int_equal(sscanf(gp_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

static void test_messages(void **state) {
    (void)state;
    assert_int_equal(gp_error(GP_INVALID, "layer %d is bad", 3), GP_INVALID);
    assert_string_equal(gp_error_message(), "layer 3 is bad");
    assert_int_equal(gp_error_within(GP_INVALID, "model '%s'", "x"), GP_INVALID);
    assert_string_equal(gp_error_message(), "model 'x': layer 3 is bad");
    assert_int_equal(gp_error_within(GP_OK, "never"), GP_OK);
    assert_string_equal(gp_error_message(), "model 'x': layer 3 is bad");
    /* The kept message may be among the arguments. */
    gp_error(GP_FAILED, "again: %s", gp_error_message());
    assert_string_equal(gp_error_message(), "again: model 'x': layer 3 is bad");
    gp_error_message_set(gp_error_message() + 7);
    assert_string_equal(gp_error_message(), "model 'x': layer 3 is bad");
}

static void test_long_message_is_cut(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gp_error(GP_FAILED, "%s", text);
    size_t length = strlen(gp_error_message());
    assert_true(length > 1000 && length < sizeof text);
    assert_string_equal(gp_error_message() + length - 3, "...");
    gp_error_message_set(text);
    assert_int_equal(strlen(gp_error_message()), length);
}

static void fail_elsewhere(void *argument) {
    gp_error(GP_FAILED, "in another thread");
    *(size_t *)argument = strlen(gp_error_message());
}

static void test_message_belongs_to_thread(void **state) {
    (void)state;
    gp_error(GP_FAILED, "mine");
    size_t length = 0;
    gp_thread *thread;
    assert_int_equal(gp_thread_create(&thread, fail_elsewhere, &length, 0, 0), GP_OK);
    gp_thread_join(thread);
    assert_int_equal(length, strlen("in another thread"));
    assert_string_equal(gp_error_message(), "mine");
}

typedef struct heard {
    int count;
    gp_log_level level;
    char last[64];
} heard;

static void hear(void *user, gp_log_level level, const char *message) {
    heard *h = user;
    h->count++;
    h->level = level;
    snprintf(h->last, sizeof h->last, "%s", message);
}

static void test_log(void **state) {
    (void)state;
    heard h = {0};
    gp_log(GP_LOG_ERROR, "nobody listens");
    gp_log_set(hear, &h, GP_LOG_INFO);
    gp_log(GP_LOG_WARNING, "slow %s", "path");
    assert_int_equal(h.count, 1);
    assert_int_equal(h.level, GP_LOG_WARNING);
    assert_string_equal(h.last, "slow path");
    gp_log(GP_LOG_DEBUG, "too much");
    assert_int_equal(h.count, 1);
    gp_log_set(NULL, NULL, GP_LOG_DEBUG);
    gp_log(GP_LOG_ERROR, "gone");
    assert_int_equal(h.count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_message_is_cut),
        cmocka_unit_test(test_message_belongs_to_thread),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
