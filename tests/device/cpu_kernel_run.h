/* Running one kernel of the CPU device in a test: operands in host memory, a workspace with a guard behind it. */
#ifndef TESTS_DEVICE_CPU_KERNEL_RUN_H
#define TESTS_DEVICE_CPU_KERNEL_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"

/* The OpenMP libraries are not built for ThreadSanitizer, which then sees races in their barriers. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GP_THREAD_SANITIZER
#endif
#elif defined(__SANITIZE_THREAD__)
#define GP_THREAD_SANITIZER
#endif
#ifdef GP_THREAD_SANITIZER
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "called_from_lib:libomp.so\ncalled_from_lib:libgomp.so\nrace:libomp.so\nrace:libgomp.so\n";
}
#endif

static inline gp_type type_of(gp_dtype dtype, int rank, const int64_t *sizes) {
    return (gp_type){dtype, gp_shape_of(rank, sizes)};
}

#define TYPE(dtype, ...)                                                                                               \
    type_of(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define ABSENT ((gp_type){GP_F32, {.rank = -1}})

/* Elements in -1 .. 1, rounded to the dtype. */
static inline void *filled(gp_type type, const char *name) {
    size_t count = (size_t)gp_shape_elements(type.shape);
    float *values = gp_allocate(count * sizeof *values + 64);
    void *data = gp_allocate(gp_type_bytes(type) + 64);
    assert_true(values && data);
    gp_random_fill_uniform(values, (int64_t)count, 7, name);
    gp_convert(data, type.dtype, values, GP_F32, count);
    gp_free(values);
    return data;
}

static inline double *doubles(gp_type type, const void *data) {
    size_t count = (size_t)gp_shape_elements(type.shape);
    double *values = gp_allocate(count * sizeof *values + 64);
    assert_non_null(values);
    gp_convert(values, GP_F64, data, type.dtype, count);
    return values;
}

/* Runs a kernel once. With `packed`, operand i is handed in its form where the kernel has one. */
static inline void kernel_run(gp_device *device, const gp_kernel_desc *desc, const void *const *inputs,
                              void *const *outputs, const gp_run *run, bool packed) {
    enum { GUARD = 256 };
    gp_kernel *kernel = NULL;
    gp_status status = device->class->kernel_create(device, desc, &kernel);
    if (status != GP_OK) fail_msg("kernel_create: %s", gp_error_message());
    unsigned char *workspace = gp_allocate(kernel->workspace + GUARD);
    assert_non_null(workspace);
    memset(workspace, 0xFF, kernel->workspace + GUARD); /* NaN: what is read before it is written shows */
    const void *given[GP_MAX_OPERANDS] = {NULL};
    void *forms[GP_MAX_OPERANDS] = {NULL};
    for (int i = 0; i < desc->input_count; i++) {
        given[i] = inputs[i];
        const gp_form *form = kernel->forms[i];
        if (!form || !packed) continue;
        forms[i] = gp_allocate(form->bytes);
        assert_non_null(forms[i]);
        assert_int_equal(form->pack(form, inputs[i], forms[i]), GP_OK);
        given[i] = forms[i];
        kernel->packed |= 1u << i;
    }
    uint64_t allocations = gp_allocation_count();
    status = kernel->run(kernel, given, outputs, workspace, run);
    if (status != GP_OK) fail_msg("run: %s", gp_error_message());
    assert_true(gp_allocation_count() == allocations);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(workspace[kernel->workspace + i], 0xFF);
    }
    for (int i = 0; i < desc->input_count; i++) {
        gp_free(forms[i]);
    }
    gp_free(workspace);
    kernel->destroy(kernel);
}

#endif
