/* Comparing clocks by questions: an estimate is never wrong by more than it says, however the way there and the way
 * back share the trip; of several the quickest counts, and clocks that drift are followed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/random.h"
#include "world/mpi/inside.h"

/* The other clock shows `offset` more. */
static gp_clock_estimate ask(double offset, double at, double there, double back) {
    return gp_clock_estimate_from(at, at + there + offset, at + there + back);
}

static void errors_are_half_the_trip_at_most(void **state) {
    (void)state;
    for (int i = 0; i <= 10; i++) {
        double there = 1e-3 * i / 10, back = 1e-3 - there;
        gp_clock_estimate found = ask(1234.5, 10, there, back);
        assert_true(fabs(found.error - 5e-4) < 1e-12);
        assert_true(fabs(found.offset - 1234.5) <= found.error + 1e-9);
        assert_true(i != 5 || fabs(found.offset - 1234.5) < 1e-9);
        assert_true(found.made >= 10);
    }
}

static void quicker_questions_replace_slower_ones(void **state) {
    (void)state;
    gp_clock_estimate none = {0}, slow = ask(-3, 10, 1e-3, 1e-3), quick = ask(-3, 11, 1e-5, 1e-5),
                      later = ask(-3, 1000, 1e-3, 1e-3);
    assert_true(gp_clock_replaces(&slow, &none));
    assert_true(gp_clock_replaces(&quick, &slow));
    assert_false(gp_clock_replaces(&slow, &quick));
    assert_true(gp_clock_replaces(&later, &quick)); /* which has had the time to drift */
}

/* Trips are quick now and then only; the clocks drift apart by ten millionths. */
static void drifting_clocks_are_followed(void **state) {
    (void)state;
    gp_clock_estimate kept = {0};
    double worst = 0;
    for (int second = 1; second < 20000; second++) {
        float drawn[2];
        gp_random_fill_uniform(drawn, 2, (uint64_t)second, "trips");
        double trip = second % 7 == 0 ? 1e-4 : 5e-3, there = fabs((double)drawn[0]);
        there = trip * (there - floor(there));
        double offset = 7 + 1e-5 * second;
        gp_clock_estimate found = ask(offset, second, there, trip - there);
        if (gp_clock_replaces(&found, &kept)) kept = found;
        if (second > 10) worst = fmax(worst, fabs(kept.offset - offset));
    }
    assert_true(worst < 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_half_the_trip_at_most),
        cmocka_unit_test(quicker_questions_replace_slower_ones),
        cmocka_unit_test(drifting_clocks_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
