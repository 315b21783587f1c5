/* Orders of epochs are permutations, different ones, and keep to their windows. */
#include "temporary.h"

#include "base/memory.h"
#include "data/order.h"

static void check_order(uint64_t count, uint64_t window, uint64_t seed, uint64_t epoch) {
    bool *seen = gp_allocate_array(count, sizeof *seen);
    assert_non_null(seen);
    for (uint64_t place = 0; place < count; place++) {
        uint64_t at = gp_order_at(count, window, seed, epoch, place);
        assert_true(at < count);
        assert_false(seen[at]);
        seen[at] = true;
    }
    gp_free(seen);
}

static void test_every_order_is_a_permutation(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 100, 1000, 4097};
    static const uint64_t windows[] = {0, 1, 2, 16, 17, 50, 1000, 5000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
            for (uint64_t epoch = 0; epoch < 3; epoch++)
                check_order(counts[c], windows[w], 7, epoch);
}

static void test_orders_differ(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    static const uint64_t windows[] = {0, 100};
    for (int w = 0; w < 2; w++) {
        int same_epoch = 0, same_seed = 0, still = 0;
        for (uint64_t place = 0; place < COUNT; place++) {
            uint64_t at = gp_order_at(COUNT, windows[w], 1, 0, place);
            same_epoch += gp_order_at(COUNT, windows[w], 1, 1, place) == at;
            same_seed += gp_order_at(COUNT, windows[w], 1ULL << 32, 0, place) == at;
            still += at == place;
        }
        /* One place in a permutation is fixed on average. */
        assert_true(same_epoch < 12);
        assert_true(same_seed < 12);
        assert_true(still < 12);
    }
}

/* Where the first of a few comes to lie, over many epochs: every place about equally often. */
static void test_orders_are_even(void **state) {
    (void)state;
    enum { COUNT = 7, EPOCHS = 7000 };
    for (uint64_t place = 0; place < COUNT; place += 3) {
        int counts[COUNT] = {0};
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
            counts[gp_order_at(COUNT, 0, 3, epoch, place)]++;
        for (int i = 0; i < COUNT; i++)
            assert_in_range(counts[i], 850, 1150); /* five deviations */
    }
}

/* Within a window, samples come from few runs of the storage, and their order is shuffled. */
static void test_windows_read_forward(void **state) {
    (void)state;
    enum { COUNT = 16000, WINDOW = 1600, RUN = 100 };
    for (uint64_t first = 0; first < COUNT; first += WINDOW) {
        bool runs[COUNT / RUN] = {false};
        int used = 0, ascending = 0;
        uint64_t before = 0;
        for (uint64_t place = first; place < first + WINDOW; place++) {
            uint64_t at = gp_order_at(COUNT, WINDOW, 5, 2, place);
            used += !runs[at / RUN];
            runs[at / RUN] = true;
            ascending += at == before + 1;
            before = at;
        }
        assert_int_equal(used, WINDOW / RUN);
        assert_true(ascending < 20);
    }
}

static void test_huge_counts(void **state) {
    (void)state;
    uint64_t count = (1ULL << 63) + 12345;
    for (uint64_t place = 0; place < 1000; place++) {
        assert_true(gp_order_at(count, 0, 1, place, place) < count);
        assert_true(gp_order_at(count, 1 << 20, 1, place, place * 1000003) < count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order_is_a_permutation),
        cmocka_unit_test(test_orders_differ),
        cmocka_unit_test(test_orders_are_even),
        cmocka_unit_test(test_windows_read_forward),
        cmocka_unit_test(test_huge_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
