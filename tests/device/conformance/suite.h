/* The conformance test of devices: what every device must do, whichever it is, checked against the reference device.
 *
 * A table (cases.c) has a function for each operation that emits cases: operands and attributes. Each case is run as it
 * is, adding into outputs, in place, with parameters in their forms and once more for the same bits (check.c). */
#ifndef GP_TESTS_DEVICE_CONFORMANCE_SUITE_H
#define GP_TESTS_DEVICE_CONFORMANCE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != GP_OK) fail_msg("%s: %s", #call, gp_error_message());                                            \
    } while (0)

#define SHAPE(...)   gp_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define SCALAR       gp_shape_of(0, NULL)
#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MOST_OPERANDS = 512 };

/* A tensor on the host: what it holds after rounding to its dtype. An absent one has no values. */
typedef struct operand {
    gp_type type;
    double *values;
} operand;

typedef struct suite {
    gp_device *device, *reference;
    gp_dtype dtype;               /* of activations in the cases that are being emitted */
    double tolerance[2];          /* relative to the norm of the result: of f32 outputs, of shorter ones */
    int emitted[GP_OP_COUNT];     /* cases of each operation */
    bool nan_travels;             /* of the operation whose cases are being emitted */
    double *owned[MOST_OPERANDS]; /* values of operands, freed when an operation's cases are done */
    size_t owned_count;
    uint32_t drawn; /* operands drawn so far: each has numbers of its own */
} suite;

/* ---- operands ---- */

operand uniform(suite *s, gp_dtype dtype, gp_shape shape, double low, double high);
/* An activation in -1 .. 1, a parameter in -1 .. 1 (f32), integers low .. high - 1. */
operand activation(suite *s, gp_shape shape);
operand parameter(suite *s, gp_shape shape);
operand integers(suite *s, gp_shape shape, int low, int high);
operand absent(void);
int64_t elements(const operand *x);

/* What the reference device computes; the outputs are rounded to their dtypes. */
void compute(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count, operand *outputs,
             int output_count);

/* ---- cases ---- */

/* Checks an operation on these inputs, in all the ways that it can be run. */
void emit(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count);
/* The same for a user's operation. */
void emit_custom(suite *s, const gp_op_class *op, const void *attributes, const operand *inputs, int input_count);
/* Number of outputs of an operation. */
int output_count_of(gp_op_id id);
/* The status of creating and running the kernel once. */
gp_status run_status(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count);

/* Emits the cases of every operation for f32 and bf16; fails when an operation has none. */
void check_kernels(gp_device *device);
/* Memory, transfers, updates and everything else of a device that is no kernel. */
void check_arrays(gp_device *device);

typedef struct family {
    gp_op_id id;
    void (*cases)(suite *s);
    bool nan_travels; /* a NaN in the first element of input 0 must show in output 0 */
} family;

extern const family families[];
extern const size_t family_count;

void cases_linear(suite *s), cases_linear_input_gradient(suite *s), cases_linear_weight_gradient(suite *s),
    cases_matmul(suite *s);
void cases_add(suite *s), cases_sub(suite *s), cases_mul(suite *s), cases_div(suite *s), cases_scale(suite *s),
    cases_cast(suite *s), cases_activation(suite *s), cases_activation_gradient(suite *s), cases_dropout(suite *s),
    cases_accumulate(suite *s);
void cases_layer_norm(suite *s), cases_layer_norm_gradient(suite *s), cases_layer_norm_weight_gradient(suite *s),
    cases_rms_norm(suite *s), cases_rms_norm_gradient(suite *s), cases_rms_norm_weight_gradient(suite *s),
    cases_softmax(suite *s), cases_softmax_gradient(suite *s);
void cases_attention(suite *s), cases_attention_gradient(suite *s), cases_embedding(suite *s),
    cases_embedding_gradient(suite *s);
void cases_transpose(suite *s), cases_slice(suite *s), cases_slice_gradient(suite *s), cases_concatenate(suite *s),
    cases_reduce_to(suite *s), cases_broadcast_to(suite *s);
void cases_convolution(suite *s), cases_convolution_input_gradient(suite *s),
    cases_convolution_weight_gradient(suite *s);
void cases_batch_norm(suite *s), cases_batch_norm_weight_gradient(suite *s), cases_batch_norm_gradient(suite *s),
    cases_batch_norm_inference(suite *s), cases_batch_norm_inference_gradient(suite *s);
void cases_max_pool(suite *s), cases_max_pool_gradient(suite *s), cases_average_pool(suite *s),
    cases_average_pool_gradient(suite *s), cases_global_average_pool(suite *s),
    cases_global_average_pool_gradient(suite *s), cases_pad(suite *s), cases_upsample(suite *s),
    cases_upsample_gradient(suite *s), cases_drop_path(suite *s), cases_channel_scale(suite *s),
    cases_channel_scale_gradient(suite *s);
void cases_cross_entropy(suite *s), cases_cross_entropy_gradient(suite *s), cases_squared_error(suite *s),
    cases_squared_error_gradient(suite *s), cases_custom(suite *s);

#endif
