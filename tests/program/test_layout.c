/* Layout: no two intervals that share a step share a byte, whatever the intervals; the total is near the lower bound
 * where programs are made of; big ones are laid out too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "program/layout.h"

enum { STEPS = 200, MOST = 400 };

typedef struct source {
    gp_random_key key;
    uint32_t count;
} source;

static uint32_t draw(source *s, uint32_t below) {
    gp_random_block block = gp_random4(s->key, (gp_random_block){{s->count++, 0, 0, 0}});
    return block.word[0] % below;
}

/* Every pair is looked at. */
static void check_disjoint(const gp_interval *intervals, size_t count, size_t total) {
    for (size_t i = 0; i < count; i++) {
        const gp_interval *a = &intervals[i];
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset + gp_layout_padded(a->bytes) <= total);
        for (size_t j = 0; j < i; j++) {
            const gp_interval *b = &intervals[j];
            if (a->last < b->first || b->last < a->first) continue;
            assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
}

static size_t make_random(gp_interval *intervals, source *s, uint32_t longest, uint32_t largest) {
    size_t count = 1 + draw(s, MOST);
    for (size_t i = 0; i < count; i++) {
        int32_t first = (int32_t)draw(s, STEPS), last = first + (int32_t)draw(s, longest);
        size_t bytes = draw(s, 8) ? draw(s, largest) : 0;
        intervals[i] = (gp_interval){bytes, first, last < STEPS ? last : STEPS - 1, 12345};
    }
    return count;
}

static void test_every_way_is_disjoint(void **state) {
    (void)state;
    gp_interval intervals[MOST];
    source s = {gp_random_key_of(1), 0};
    for (int round = 0; round < 60; round++) {
        size_t total, bound, count = make_random(intervals, &s, round % 3 ? 10 : STEPS, round % 2 ? 10000 : 200);
        assert_int_equal(gp_layout_bound(intervals, count, STEPS, &bound), GP_OK);
        for (int scan = GP_SCAN_LOWEST; scan <= GP_SCAN_BACKWARDS; scan++) {
            assert_int_equal(gp_layout_scan(intervals, count, STEPS, (gp_scan)scan, &total), GP_OK);
            check_disjoint(intervals, count, total);
            assert_true(total >= bound);
        }
        assert_int_equal(gp_layout_by_size(intervals, count, STEPS, &total), GP_OK);
        check_disjoint(intervals, count, total);
        assert_true(total >= bound);
        assert_int_equal(gp_layout(intervals, count, STEPS, &total), GP_OK);
        check_disjoint(intervals, count, total);
        assert_true(total >= bound && total <= bound + bound / 4);
    }
}

static void test_bound(void **state) {
    (void)state;
    gp_interval intervals[] = {{64, 0, 1, 0}, {65, 1, 2, 0}, {1, 2, 3, 0}, {0, 0, 3, 0}};
    size_t bound, total;
    assert_int_equal(gp_layout_bound(intervals, 4, 4, &bound), GP_OK);
    assert_int_equal(bound, 64 + 128);
    assert_int_equal(gp_layout(intervals, 4, 4, &total), GP_OK);
    assert_int_equal(total, bound);
}

static void test_nothing(void **state) {
    (void)state;
    size_t total = 77;
    assert_int_equal(gp_layout(NULL, 0, 0, &total), GP_OK);
    assert_int_equal(total, 0);
    gp_interval empty = {0, 0, 0, 9};
    assert_int_equal(gp_layout(&empty, 1, 1, &total), GP_OK);
    assert_int_equal(total, 0);
}

/* A stage's recomputation and backward pass: activations of `layers` layers live until their layer's backward steps,
 * each layer has short-lived values on both ways. */
static size_t make_nested(gp_interval *intervals, int32_t layers) {
    static const size_t KEPT[] = {3072, 9216, 12288, 3072}, SHORT[] = {3072, 12288, 9216, 6144};
    size_t count = 0;
    int32_t end = 2 * 4 * layers;
    for (int32_t l = 0; l < layers; l++) {
        for (int32_t k = 0; k < 4; k++) {
            int32_t forward = 4 * l + k, backward = end - 1 - forward;
            intervals[count++] = (gp_interval){KEPT[k], forward, backward, 0};
            intervals[count++] = (gp_interval){SHORT[k], forward, forward + 1, 0};
            intervals[count++] = (gp_interval){SHORT[k], backward, backward + 1 < end ? backward + 1 : backward, 0};
        }
    }
    return count;
}

static void test_nested_is_tight(void **state) {
    (void)state;
    enum { LAYERS = 60 };
    gp_interval intervals[12 * LAYERS];
    size_t bound, total, count = make_nested(intervals, LAYERS);
    assert_int_equal(gp_layout(intervals, count, 8 * LAYERS, &total), GP_OK);
    check_disjoint(intervals, count, total);
    assert_int_equal(gp_layout_bound(intervals, count, 8 * LAYERS, &bound), GP_OK);
    assert_true(total <= bound + bound / 50);
}

/* 2,000 layers: pairs are too many to look at, the order of time has to do. */
static void test_big(void **state) {
    (void)state;
    enum { LAYERS = 2000 };
    gp_interval *intervals = gp_allocate_array(12 * LAYERS, sizeof *intervals);
    assert_non_null(intervals);
    size_t bound, total, count = make_nested(intervals, LAYERS);
    assert_int_equal(gp_layout(intervals, count, 8 * LAYERS, &total), GP_OK);
    assert_int_equal(gp_layout_bound(intervals, count, 8 * LAYERS, &bound), GP_OK);
    assert_true(total <= bound + bound / 50);
    gp_free(intervals);
}

static void test_deterministic(void **state) {
    (void)state;
    gp_interval first[MOST], second[MOST];
    source s = {gp_random_key_of(5), 0};
    size_t total_first, total_second, count = make_random(first, &s, 50, 5000);
    memcpy(second, first, sizeof first);
    for (size_t i = 0; i < count; i++) {
        second[i].offset = 99;
    }
    assert_int_equal(gp_layout(first, count, STEPS, &total_first), GP_OK);
    assert_int_equal(gp_layout(second, count, STEPS, &total_second), GP_OK);
    assert_int_equal(total_first, total_second);
    assert_memory_equal(first, second, count * sizeof *first);
}

static void test_no_memory(void **state) {
    (void)state;
    gp_interval intervals[MOST];
    source s = {gp_random_key_of(6), 0};
    size_t total, count = make_random(intervals, &s, STEPS, 5000);
    gp_status status = GP_OUT_OF_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != GP_OK && n < 100; n++, failures++) {
        gp_allocation_fail_at(n);
        status = gp_layout(intervals, count, STEPS, &total);
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || status == GP_OUT_OF_MEMORY);
    }
    assert_int_equal(status, GP_OK);
    assert_true(failures > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_is_disjoint),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_nested_is_tight),
        cmocka_unit_test(test_big),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
