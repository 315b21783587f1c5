/* For the tests of the CPU device's loops: operands with known values in double, and a check that runs a kernel with
 * every instruction set that this processor has and with one and three threads. */
#ifndef GP_TESTS_CPU_CHECK_H
#define GP_TESTS_CPU_CHECK_H

#include "device/device.h"

/* A tensor in the device's memory and the same values in double, as they are after rounding to the dtype. */
typedef struct operand {
    gp_type type;
    void *data;
    double *values;
} operand;

typedef struct dims {
    int rank;
    int64_t size[GP_MAX_RANK];
} dims;

/* Values between low and high, drawn from a stream that is the same in every run; integers for i32. */
operand operand_of(gp_dtype dtype, dims shape, double low, double high);
/* Zeroed; for the expected values of an output. */
operand operand_zero(gp_dtype dtype, dims shape);
/* Rounds values that the test has set by hand, and stores them in the data. */
void operand_set(operand *x);
operand operand_none(void); /* an absent input */
void operand_free(operand *x);
int64_t operand_count(const operand *x);

typedef struct kernel_case {
    gp_op_id id;
    const gp_op_class *op; /* a user's; NULL for built-in operations */
    const void *attributes;
    operand inputs[GP_MAX_OPERANDS];
    int input_count;
    operand outputs[GP_MAX_OPERANDS]; /* `values` are the expected ones; `data` is what is there before, if accumulated
                                         into */
    int output_count;
    uint32_t accumulate;
    gp_run run;
    int in_place; /* output 0 is written over input in_place - 1; 0: nowhere */
} kernel_case;

/* Runs the case with each table and number of threads. Fails unless outputs are within tolerance of the expected ones
 * (relative to their norm: 1e-5 for f32 outputs, 4e-3 for shorter ones), nothing is written behind them, and the bits
 * do not depend on the threads. Frees the operands. */
void check_kernel(kernel_case *test);
/* The status of running (or creating) the kernel once, with the best table. Does not free. */
gp_status kernel_status(kernel_case *test);
void free_case(kernel_case *test);

/* Calls `check` with a device for each table and number of threads. */
void for_each_device(void (*check)(gp_device *device, const char *table));
/* A CPU device with this table; NULL when the processor cannot run it. */
gp_device *device_with(const char *table, int threads);

/* Distance relative to the norm of `want`. */
double distance(const double *got, const double *want, int64_t count);

#endif
