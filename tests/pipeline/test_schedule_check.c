/* The checker: each rule broken once, and random lists against an executor that takes workers' turns at random. */
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

static gp_schedule *read_schedule(const char *text) {
    gp_schedule *schedule;
    if (gp_schedule_parse(&schedule, text) != GP_OK) fail_msg("%s", gp_error_message());
    return schedule;
}

static void accepted(const char *text, int most) {
    gp_schedule *schedule = read_schedule(text);
    if (gp_schedule_check(schedule, most) != GP_OK) fail_msg("%s: %s", text, gp_error_message());
    gp_schedule_destroy(schedule);
}

static void refused(const char *text, int most, const char *expected) {
    gp_schedule *schedule = read_schedule(text);
    if (gp_schedule_check(schedule, most) != GP_INVALID) fail_msg("accepted: %s", text);
    if (!strstr(gp_error_message(), expected)) fail_msg("'%s' is not in: %s", expected, gp_error_message());
    gp_schedule_destroy(schedule);
}

static void test_accepted(void **state) {
    (void)state;
    accepted("F0 B0", 1);
    accepted("F0 R0 B0 F1 B1", 1);
    accepted("F0 F1 B0 B1\nF0 B0 F1 B1", 2);
    accepted("F1 F0 B1 B0\nF1 B1 F0 B0", 0); /* any order that both sides share */
    accepted("F0 F1 F2 B2 B1 B0\nF0 F1 F2 B2 B1 B0", 3);
    accepted("F0 F1 F2 B2 F3 B1 F4 B0 B3 B4\nF0 F1 F2 B2 F3 B1 F4 B0 B3 B4", 3); /* slots come back in any order */
    accepted("F0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2", 2);
    accepted("F0 SEND_F0 F1 SEND_F1 RECV_B0 B0 RECV_B1 B1\nRECV_F0 RECV_F1 F0 B0 SEND_B0 F1 B1 SEND_B1", 2);
    accepted("F0 SEND_F0 R0 RECV_B0 B0\nRECV_F0 F0 R0 B0 SEND_B0", 1);
}

static void test_incomplete(void **state) {
    (void)state;
    refused("F0 F1 B0", 0, "worker 0, position 3 (end of the list): B1 is missing");
    refused("F0 B0\nB0", 0, "worker 1, position 1 (end of the list): F0 is missing");
    refused("F0 B0\nF0 B0 F1 B1", 0, "worker 0, position 2 (end of the list): F1 is missing");
    refused("F0 B0 F0", 0, "worker 0, position 2 (F0): the action is there twice");
    refused("F0 R0 R0 B0", 0, "worker 0, position 2 (R0): the action is there twice");
    refused("F1048575", 0, "worker 0, position 1 (end of the list): F0 is missing");
}

static void test_order(void **state) {
    (void)state;
    refused("B0 F0", 0, "worker 0, position 0 (B0): must come after F0, which is at position 1");
    refused("R0 B0 F0", 0, "worker 0, position 0 (R0): must come after F0, which is at position 2");
    refused("F0 B0 R0", 0, "worker 0, position 1 (B0): must come after R0");
    refused("F0 F1 R0 R1 B0 B1", 0, "worker 0, position 3 (R1): nothing may be computed between");
    refused("F0 R0 F1 B0 B1", 0, "worker 0, position 2 (F1): nothing may be computed between");
    refused("F0 SEND_F0 RECV_B0 R0 B0\nRECV_F0 B0 F0 SEND_B0", 0, "worker 1, position 1 (B0): must come after F0");
}

static void test_messages(void **state) {
    (void)state;
    refused("F0 SEND_F0 B0\nRECV_F0 F0 B0 SEND_B0", 0, "worker 0, position 3 (end of the list): RECV_B0 is missing");
    refused("SEND_F0 F0 RECV_B0 B0\nRECV_F0 F0 B0 SEND_B0", 0, "worker 0, position 0 (SEND_F0): must come after F0");
    refused("F0 SEND_F0 B0 RECV_B0\nRECV_F0 F0 B0 SEND_B0", 0, "worker 0, position 2 (B0): must come after RECV_B0");
    refused("F0 SEND_F0 RECV_B0 B0\nF0 RECV_F0 B0 SEND_B0", 0, "worker 1, position 0 (F0): must come after RECV_F0");
    refused("F0 SEND_F0 RECV_B0 B0\nRECV_F0 F0 SEND_B0 B0", 0, "worker 1, position 2 (SEND_B0): must come after B0");
    refused("RECV_F0 F0 B0", 0, "worker 0, position 0 (RECV_F0): there is no worker on that side");
    refused("F0 B0 SEND_B0", 0, "there is no worker on that side");
    refused("F0 SEND_F0 RECV_B0 B0\nRECV_F0 F0 RECV_B0 B0 SEND_B0", 0, "worker 1, position 2 (RECV_B0): there is no");
    refused("F0 F1 SEND_F1 SEND_F0 RECV_B0 B0 RECV_B1 B1\nRECV_F0 F0 RECV_F1 F1 B0 SEND_B0 B1 SEND_B1", 0,
            "worker 1, position 0 (RECV_F0): message 0 from worker 0 is that of SEND_F1");
}

static void test_link_order(void **state) {
    (void)state;
    refused("F0 F1 B0 B1\nF1 F0 B0 B1", 0, "worker 1, position 0 (F1): message 0 from worker 0 is that of F0");
    refused("F0 F1 B0 B1\nF0 F1 B1 B0", 0, "worker 0, position 2 (B0): message 0 from worker 1 is that of B1");
    refused("F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B2 B1", 0,
            "worker 0, position 4 (B1): message 1 from worker 1 is that of B2");
}

static void test_in_flight(void **state) {
    (void)state;
    refused("F0 F1 F2 B0 B1 B2", 2, "worker 0, position 2 (F2): 3 micro-batches are in flight; accepted are 2");
    accepted("F0 F1 F2 B0 B1 B2", 3);
    refused("F0 B0", -1, "-1 micro-batches in flight");
}

static void test_deadlock(void **state) {
    (void)state;
    refused(
        "F0 B0 F1 B1\nF0 F1 B0 B1", 0,
        "deadlock: worker 0, position 1 (B0) waits for B0 of worker 1 to send its input, and worker 1, position 1 (F1) "
        "waits for F1 of worker 0 to send its input");
    refused("F0 F1 B0 B1\nF0 B0 F1 B1\nF0 F1 B0 B1", 0, "deadlock: worker 1, position 1 (B0) waits for B0 of worker 2");
    /* Runs with enough buffers only: worker 1 is ahead with gradients that worker 0 takes after all its forwards. */
    refused("F0 F1 F2 F3 B0 B1 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3", 0,
            "deadlock: worker 0, position 3 (F3) waits for B1 of worker 1 to free a slot of the link (slots: 2), and "
            "worker "
            "1, position 3 (B1) waits for B0 of worker 0 to free a slot of the link (slots: 1)");
}

/* ---- against an executor ---- */

enum { MOST_STAGES = 4, MOST_MICRO_BATCHES = 5, MOST_LIST = 3 * MOST_MICRO_BATCHES + 2 };

static uint32_t drawn;

static int draw(int below) {
    return (int)(gp_random4(gp_random_key_of(7), (gp_random_block){{drawn++, 0, 0, 0}}).word[0] % (uint32_t)below);
}

typedef struct test_lists {
    int stages, micro_batches;
    int count[MOST_STAGES];
    gp_action actions[MOST_STAGES][MOST_LIST];
} test_lists;

static int find(const test_lists *lists, int worker, gp_action_kind kind, int micro_batch) {
    for (int i = 0; i < lists->count[worker]; i++)
        if (lists->actions[worker][i].kind == kind && lists->actions[worker][i].micro_batch == micro_batch) return i;
    return -1;
}

static int how_many(const test_lists *lists, int worker, gp_action_kind kind, int micro_batch) {
    int count = 0;
    for (int i = 0; i < lists->count[worker]; i++)
        count += lists->actions[worker][i].kind == kind && lists->actions[worker][i].micro_batch == micro_batch;
    return count;
}

static bool worker_is_sound(const test_lists *lists, int worker) {
    for (int m = 0; m < lists->micro_batches; m++) {
        int recomputes = how_many(lists, worker, GP_RECOMPUTE, m);
        if (how_many(lists, worker, GP_FORWARD, m) != 1 || how_many(lists, worker, GP_BACKWARD, m) != 1) return false;
        int forward = find(lists, worker, GP_FORWARD, m), backward = find(lists, worker, GP_BACKWARD, m);
        if (forward > backward || recomputes > 1) return false;
        if (recomputes == 1 && (find(lists, worker, GP_RECOMPUTE, m) != backward - 1 || backward - 1 < forward))
            return false;
    }
    return true;
}

/* The number of micro-batches whose `kind` comes before that of `micro_batch`: its message's number. */
static int rank_of(const test_lists *lists, int worker, gp_action_kind kind, int micro_batch) {
    int rank = 0, at = find(lists, worker, kind, micro_batch);
    for (int i = 0; i < at; i++)
        rank += lists->actions[worker][i].kind == kind;
    return rank;
}

static bool link_is_sound(const test_lists *lists, int link) {
    for (int m = 0; m < lists->micro_batches; m++)
        if (rank_of(lists, link, GP_FORWARD, m) != rank_of(lists, link + 1, GP_FORWARD, m) ||
            rank_of(lists, link, GP_BACKWARD, m) != rank_of(lists, link + 1, GP_BACKWARD, m))
            return false;
    return true;
}

static int held_at_once(const test_lists *lists, int worker) {
    int held = 0, most = 0;
    for (int i = 0; i < lists->count[worker]; i++) {
        held += (lists->actions[worker][i].kind == GP_FORWARD) - (lists->actions[worker][i].kind == GP_BACKWARD);
        if (held > most) most = held;
    }
    return most;
}

static bool is_done(const test_lists *lists, const int *next, int worker, gp_action_kind kind, int micro_batch) {
    return find(lists, worker, kind, micro_batch) < next[worker];
}

/* Whether fewer than `slots` micro-batches have been sent by a worker's `kind` and not been through B at the other end.
 */
static bool slot_is_free(const test_lists *lists, const int *next, int worker, int to, gp_action_kind kind, int slots) {
    int taken = 0;
    for (int m = 0; m < lists->micro_batches; m++)
        taken += is_done(lists, next, worker, kind, m) && !is_done(lists, next, to, GP_BACKWARD, m);
    return taken < slots;
}

static bool may_run(const test_lists *lists, const int *next, int worker) {
    gp_action action = lists->actions[worker][next[worker]];
    bool forward = action.kind == GP_FORWARD;
    if (action.kind == GP_RECOMPUTE) return true;
    int from = forward ? worker - 1 : worker + 1, to = forward ? worker + 1 : worker - 1;
    if (from >= 0 && from < lists->stages && !is_done(lists, next, from, action.kind, action.micro_batch)) return false;
    if (to < 0 || to >= lists->stages) return true;
    return slot_is_free(lists, next, worker, to, action.kind, forward ? held_at_once(lists, to) + 1 : 1);
}

static bool runs_to_the_end(const test_lists *lists) {
    int next[MOST_STAGES] = {0}, idle = 0, left = 0;
    for (int worker = 0; worker < lists->stages; worker++)
        left += lists->count[worker];
    while (left > 0 && idle < 200) {
        int worker = draw(lists->stages);
        idle++;
        if (next[worker] == lists->count[worker] || !may_run(lists, next, worker)) continue;
        next[worker]++;
        left--;
        idle = 0;
    }
    return left == 0;
}

static bool is_sound(const test_lists *lists) {
    for (int worker = 0; worker < lists->stages; worker++)
        if (!worker_is_sound(lists, worker)) return false;
    for (int link = 0; link + 1 < lists->stages; link++)
        if (!link_is_sound(lists, link)) return false;
    return true;
}

/* Forwards and backwards in order, mixed at random, some with a recompute: sound but for deadlock. */
static void draw_worker(test_lists *lists, int worker) {
    int forwards = 0, backwards = 0, count = 0;
    gp_action *actions = lists->actions[worker];
    while (backwards < lists->micro_batches) {
        if (forwards < lists->micro_batches && (forwards == backwards || draw(2))) {
            actions[count++] = (gp_action){GP_FORWARD, worker, forwards++};
            continue;
        }
        if (draw(3) == 0) actions[count++] = (gp_action){GP_RECOMPUTE, worker, backwards};
        actions[count++] = (gp_action){GP_BACKWARD, worker, backwards++};
    }
    lists->count[worker] = count;
}

static void mutate(test_lists *lists) {
    int worker = draw(lists->stages), count = lists->count[worker], one = draw(count), two = draw(count);
    gp_action *actions = lists->actions[worker], kept = actions[one];
    switch (draw(5)) {
    case 0: /* drop */
        if (count == 1) return;
        memmove(actions + one, actions + one + 1, (size_t)(count - one - 1) * sizeof *actions);
        lists->count[worker]--;
        return;
    case 1: /* change */
        actions[one].kind = (gp_action_kind)draw(3);
        actions[two].micro_batch = draw(lists->micro_batches);
        return;
    case 2: /* repeat */
        if (count == MOST_LIST) return;
        actions[count] = kept;
        lists->count[worker]++;
        return;
    default: /* swap */
        actions[one] = actions[two];
        actions[two] = kept;
    }
}

/* Swaps two micro-batches everywhere: sound again, out of order. */
static void rename_two(test_lists *lists) {
    int one = draw(lists->micro_batches), two = draw(lists->micro_batches);
    for (int worker = 0; worker < lists->stages; worker++)
        for (int i = 0; i < lists->count[worker]; i++) {
            int *m = &lists->actions[worker][i].micro_batch;
            *m = *m == one ? two : *m == two ? one : *m;
        }
}

static gp_schedule *to_schedule(const test_lists *lists) {
    char text[MOST_STAGES * MOST_LIST * 4 + MOST_STAGES + 1], *out = text;
    for (int worker = 0; worker < lists->stages; worker++) {
        for (int i = 0; i < lists->count[worker]; i++)
            out +=
                sprintf(out, "%c%d ", "FRB"[lists->actions[worker][i].kind], lists -> actions[worker][i].micro_batch);
        *out++ = '\n';
    }
    *out = '\0';
    return read_schedule(text);
}

static bool same_size(const test_lists *lists, const gp_schedule *schedule) {
    return gp_schedule_stages(schedule) == lists->stages && gp_schedule_micro_batches(schedule) == lists->micro_batches;
}

static test_lists draw_lists(void) {
    test_lists lists = {.stages = 1 + draw(MOST_STAGES), .micro_batches = 1 + draw(MOST_MICRO_BATCHES)};
    for (int worker = 0; worker < lists.stages; worker++)
        draw_worker(&lists, worker);
    if (draw(3) == 0) rename_two(&lists);
    for (int mutations = draw(4) ? 0 : 1 + draw(2); mutations > 0; mutations--)
        mutate(&lists);
    return lists;
}

static void test_against_an_executor(void **state) {
    (void)state;
    int good = 0, unsound = 0, deadlocked = 0;
    for (int round = 0; round < 15000; round++) {
        test_lists lists = draw_lists();
        gp_schedule *schedule = to_schedule(&lists);
        if (same_size(&lists, schedule)) {
            bool sound = is_sound(&lists), runs = sound && runs_to_the_end(&lists);
            gp_status status = gp_schedule_check(schedule, 0);
            if ((status == GP_OK) != runs) fail_msg("round %d: %s", round, status ? gp_error_message() : "accepted");
            if (status && (strncmp(gp_error_message(), "deadlock", 8) == 0) != sound)
                fail_msg("%s", gp_error_message());
            good += runs;
            unsound += !sound;
            deadlocked += sound && !runs;
        }
        gp_schedule_destroy(schedule);
    }
    assert_true(good > 1000 && unsound > 1000 && deadlocked > 1000);
}

/* Lowering changes no verdict. */
static void test_lowered_the_same(void **state) {
    (void)state;
    for (int round = 0; round < 10000; round++) {
        test_lists lists = draw_lists();
        gp_schedule *schedule = to_schedule(&lists), *lowered;
        assert_int_equal(gp_schedule_lower(schedule, &lowered), GP_OK);
        assert_int_equal(gp_schedule_check(schedule, 2), gp_schedule_check(lowered, 2));
        gp_schedule_destroy(lowered);
        gp_schedule_destroy(schedule);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_order),           cmocka_unit_test(test_messages),
        cmocka_unit_test(test_link_order),      cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_deadlock),        cmocka_unit_test(test_against_an_executor),
        cmocka_unit_test(test_lowered_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
