/* The description of this machine and its speed: plausible, and consistent with each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpipe/device.h"

static void test_describe(void **state) {
    (void)state;
    gp_machine machine;
    assert_int_equal(gp_machine_describe(&machine), GP_OK);
    assert_true(strlen(machine.processor) > 0);
    assert_true(machine.cores >= 1);
    assert_true(machine.memory >= (size_t)64 << 20);
    assert_true(!strncmp(machine.products, "oneDNN ", 7));
    assert_true(strlen(machine.bf16_route) > 0);
    const char *best = machine.avx512 ? "avx512" : machine.avx2 ? "avx2" : "portable";
    assert_string_equal(machine.kernels, best);
    if (!machine.amx_bf16) assert_null(strstr(machine.bf16_route, "AMX is there"));
}

static void test_measure(void **state) {
    (void)state;
    gp_machine_speed speed;
    assert_int_equal(gp_machine_measure(&speed, 0.01), GP_OK);
    assert_true(speed.peak_f32 > 0 && speed.product_f32 > 0 && speed.product_bf16 > 0 && speed.copy > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
