/* For the tests of programs: the plainest way to run a graph, every node by itself and every value in memory of its
 * own. What a program computes in planned memory must be the same. */
#ifndef GP_TESTS_PROGRAM_PLAIN_H
#define GP_TESTS_PROGRAM_PLAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != GP_OK) fail_msg("%s: %s", #call, gp_error_message());                                            \
    } while (0)

typedef struct plain {
    const gp_graph *graph;
    gp_device *device;
    void **data; /* by value; reshapes and aliases have their own copy */
    gp_run run;
} plain;

/* Memory for every value; inputs and parameters hold numbers in -1 .. 1 (i32 ones: zeros). */
plain plain_create(const gp_graph *graph, gp_device *device, uint64_t seed);
/* Computes every value of the graph. */
void plain_run(plain *p);
void plain_destroy(plain *p);

size_t plain_bytes(const plain *p, int32_t value);
/* The value as doubles; freed with gp_free. `data`: in the device's memory. */
double *plain_read(gp_device *device, gp_type type, const void *data);
void plain_write(gp_device *device, gp_type type, void *data, const double *values);
/* Distance of two values, relative to the norm of `want`; infinite when one has a NaN. */
double plain_distance(gp_device *device, gp_type type, const void *got, const void *want);

#endif
