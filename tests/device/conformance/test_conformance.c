/* The conformance test on every device that there is. */
#include "device/cpu/cpu.h"
#include "suite.h"

static void with_cpu(int threads, void (*check)(gp_device *device)) {
    gp_device *device = NULL;
    assert_ok(gp_device_create(&device, &(gp_device_options){.type = GP_DEVICE_CPU, .threads = threads}));
    check(device);
    gp_device_destroy(device);
}

static void test_cpu(void **state) {
    (void)state;
    with_cpu(1, check_kernels);
    with_cpu(1, check_arrays);
}

static void test_cpu_three_threads(void **state) {
    (void)state;
    with_cpu(3, check_kernels);
    with_cpu(3, check_arrays);
}

/* The routes of processors with AMX, taken with whatever bf16 instructions there are. */
static void test_cpu_bf16(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_ok(gp_device_create(&device, &(gp_device_options){.type = GP_DEVICE_CPU}));
    ((gp_cpu_device *)device)->bf16_packed = true;
    check_kernels(device);
    gp_device_destroy(device);
}

/* The reference device against itself: adding, writing in place, guards. */
static void test_reference(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_ok(gp_device_create(&device, &(gp_device_options){.type = GP_DEVICE_REFERENCE}));
    check_kernels(device);
    check_arrays(device);
    gp_device_destroy(device);
}

static void test_unknown_type(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_int_equal(gp_device_create(&device, &(gp_device_options){.type = (gp_device_type)9}), GP_INVALID);
    assert_null(device);
    gp_device_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu),          cmocka_unit_test(test_cpu_three_threads),
        cmocka_unit_test(test_cpu_bf16),  cmocka_unit_test(test_unknown_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
