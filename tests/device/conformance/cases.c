/* The table of operations and the run over it; the cases of losses and of a user's operation. */
#include <math.h>

#include "suite.h"

const family families[] = {
    {GP_OP_LINEAR, cases_linear, true},
    {GP_OP_LINEAR_INPUT_GRADIENT, cases_linear_input_gradient, true},
    {GP_OP_LINEAR_WEIGHT_GRADIENT, cases_linear_weight_gradient, true},
    {GP_OP_MATMUL, cases_matmul, true},
    {GP_OP_ADD, cases_add, true},
    {GP_OP_SUB, cases_sub, true},
    {GP_OP_MUL, cases_mul, true},
    {GP_OP_DIV, cases_div, true},
    {GP_OP_SCALE, cases_scale, true},
    {GP_OP_CAST, cases_cast, true},
    {GP_OP_ACTIVATION, cases_activation, true},
    {GP_OP_ACTIVATION_GRADIENT, cases_activation_gradient, false}, /* a product with 0 may be 0 */
    {GP_OP_LAYER_NORM, cases_layer_norm, true},
    {GP_OP_LAYER_NORM_GRADIENT, cases_layer_norm_gradient, true},
    {GP_OP_LAYER_NORM_WEIGHT_GRADIENT, cases_layer_norm_weight_gradient, true},
    {GP_OP_RMS_NORM, cases_rms_norm, true},
    {GP_OP_RMS_NORM_GRADIENT, cases_rms_norm_gradient, true},
    {GP_OP_RMS_NORM_WEIGHT_GRADIENT, cases_rms_norm_weight_gradient, true},
    {GP_OP_SOFTMAX, cases_softmax, true},
    {GP_OP_SOFTMAX_GRADIENT, cases_softmax_gradient, true},
    {GP_OP_ATTENTION, cases_attention, true},
    {GP_OP_ATTENTION_GRADIENT, cases_attention_gradient, true},
    {GP_OP_EMBEDDING, cases_embedding, false}, /* the first row may not be picked */
    {GP_OP_EMBEDDING_GRADIENT, cases_embedding_gradient, true},
    {GP_OP_DROPOUT, cases_dropout, false}, /* the element may be dropped */
    {GP_OP_TRANSPOSE, cases_transpose, true},
    {GP_OP_SLICE, cases_slice, false}, /* the element may be cut off */
    {GP_OP_SLICE_GRADIENT, cases_slice_gradient, true},
    {GP_OP_CONCATENATE, cases_concatenate, true},
    {GP_OP_REDUCE_TO, cases_reduce_to, true},
    {GP_OP_BROADCAST_TO, cases_broadcast_to, true},
    {GP_OP_CROSS_ENTROPY, cases_cross_entropy, true},
    {GP_OP_CROSS_ENTROPY_GRADIENT, cases_cross_entropy_gradient, true},
    {GP_OP_SQUARED_ERROR, cases_squared_error, true},
    {GP_OP_SQUARED_ERROR_GRADIENT, cases_squared_error_gradient, true},
    {GP_OP_CONVOLUTION, cases_convolution, true},
    {GP_OP_CONVOLUTION_INPUT_GRADIENT, cases_convolution_input_gradient, true},
    {GP_OP_CONVOLUTION_WEIGHT_GRADIENT, cases_convolution_weight_gradient, true},
    {GP_OP_MAX_POOL, cases_max_pool, true},
    {GP_OP_MAX_POOL_GRADIENT, cases_max_pool_gradient, true},
    {GP_OP_AVERAGE_POOL, cases_average_pool, true},
    {GP_OP_AVERAGE_POOL_GRADIENT, cases_average_pool_gradient, true},
    {GP_OP_GLOBAL_AVERAGE_POOL, cases_global_average_pool, true},
    {GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, cases_global_average_pool_gradient, true},
    {GP_OP_BATCH_NORM, cases_batch_norm, true},
    {GP_OP_BATCH_NORM_WEIGHT_GRADIENT, cases_batch_norm_weight_gradient, true},
    {GP_OP_BATCH_NORM_GRADIENT, cases_batch_norm_gradient, true},
    {GP_OP_BATCH_NORM_INFERENCE, cases_batch_norm_inference, true},
    {GP_OP_BATCH_NORM_INFERENCE_GRADIENT, cases_batch_norm_inference_gradient, true},
    {GP_OP_PAD, cases_pad, true},
    {GP_OP_UPSAMPLE, cases_upsample, true},
    {GP_OP_UPSAMPLE_GRADIENT, cases_upsample_gradient, true},
    {GP_OP_DROP_PATH, cases_drop_path, false}, /* the sample may be dropped */
    {GP_OP_CHANNEL_SCALE, cases_channel_scale, true},
    {GP_OP_CHANNEL_SCALE_GRADIENT, cases_channel_scale_gradient, true},
    {GP_OP_ACCUMULATE, cases_accumulate, false}, /* is never run without adding */
    {GP_OP_CUSTOM, cases_custom, true},
};

const size_t family_count = COUNT(families);

static void run_family(suite *s, const family *f) {
    static const gp_dtype DTYPES[] = {GP_F32, GP_BF16};
    for (size_t d = 0; d < COUNT(DTYPES); d++) {
        s->dtype = DTYPES[d];
        s->nan_travels = f->nan_travels;
        f->cases(s);
        for (size_t i = 0; i < s->owned_count; i++) {
            gp_free(s->owned[i]);
        }
        s->owned_count = 0;
    }
}

void check_kernels(gp_device *device) {
    suite s = {.device = device, .tolerance = {1e-5, 1e-2}};
    assert_ok(gp_device_create_reference(&s.reference, NULL));
    assert_ok(device->class->enter(device));
    for (size_t i = 0; i < family_count; i++) {
        run_family(&s, &families[i]);
    }
    for (int id = 0; id < GP_OP_COUNT; id++) {
        bool view = id == GP_OP_RESHAPE || id == GP_OP_ALIAS; /* have no kernel */
        if (!view && s.emitted[id] < 2) fail_msg("%s has no case in this test", gp_op_name((gp_op_id)id));
    }
    gp_device_destroy(s.reference);
}

/* ---- losses ---- */

/* Rows and classes; the logits are near each other, so that a loss is no difference of two large numbers. The classes
 * of a big vocabulary are not a multiple of anything. */
static const gp_shape LOGITS[] = {{2, {1, 2}},  {2, {5, 1}},       {2, {7, 3}},   {3, {2, 3, 17}},
                                  {2, {4, 64}}, {3, {1, 2, 1000}}, {2, {3, 5003}}};

static gp_shape without_last(gp_shape shape) {
    shape.rank--;
    return shape;
}

static const gp_cross_entropy_options LOSSES[] = {
    {0}, {.label_smoothing = 0.1}, {.has_ignored = true, .ignored = -100}, {0.3, true, 0}};

/* Targets, the first of which counts (so that a NaN in the first row shows), and the others may be ignored ones. */
static operand targets_for(suite *s, const gp_cross_entropy_options *options, gp_shape shape, int classes) {
    operand targets = integers(s, shape, 0, classes);
    for (int64_t i = 2; i < elements(&targets) && options->has_ignored; i += 2) {
        targets.values[i] = options->ignored;
    }
    if (options->has_ignored && options->ignored == 0) targets.values[0] = classes - 1;
    return targets;
}

static void losses(suite *s, bool gradient) {
    for (size_t i = 0; i < COUNT(LOGITS); i++) {
        for (size_t o = 0; o < COUNT(LOSSES); o++) {
            int classes = (int)LOGITS[i].dims[LOGITS[i].rank - 1];
            if (classes == 1 && LOSSES[o].has_ignored && LOSSES[o].ignored == 0) continue;
            operand inputs[5] = {uniform(s, s->dtype, LOGITS[i], -2.0, 2.0),
                                 targets_for(s, &LOSSES[o], without_last(LOGITS[i]), classes), absent()};
            if (o % 2) inputs[2] = uniform(s, GP_F32, without_last(LOGITS[i]), 0.5, 2.0);
            operand outputs[2];
            compute(s, GP_OP_CROSS_ENTROPY, &LOSSES[o], inputs, 3, outputs, 2);
            inputs[3] = outputs[1];
            inputs[4] = uniform(s, GP_F32, SCALAR, 0.2, 0.4);
            if (gradient) {
                emit(s, GP_OP_CROSS_ENTROPY_GRADIENT, &LOSSES[o], inputs, 5);
            } else {
                emit(s, GP_OP_CROSS_ENTROPY, &LOSSES[o], inputs, 3);
            }
        }
    }
}

void cases_cross_entropy(suite *s) {
    losses(s, false);
    static const int WRONG[] = {-1, 5, -100, INT32_MAX};
    for (size_t i = 0; i < COUNT(WRONG); i++) {
        operand inputs[] = {activation(s, SHAPE(2, 5)), integers(s, SHAPE(2), 0, 5), absent()};
        inputs[1].values[1] = WRONG[i];
        assert_int_equal(run_status(s, GP_OP_CROSS_ENTROPY, &LOSSES[0], inputs, 3), GP_INVALID);
    }
    /* Logits that would overflow an exponential. */
    operand large[] = {uniform(s, s->dtype, SHAPE(4, 33), -400.0, 400.0), integers(s, SHAPE(4), 0, 33), absent()};
    emit(s, GP_OP_CROSS_ENTROPY, &LOSSES[0], large, 3);
}

void cases_cross_entropy_gradient(suite *s) {
    losses(s, true);
}

static const gp_shape SAMPLES[] = {{1, {1}}, {1, {9}}, {2, {3, 17}}, {4, {2, 3, 5, 7}}, {2, {33, 100}}};

void cases_squared_error(suite *s) {
    for (size_t i = 0; i < COUNT(SAMPLES); i++) {
        operand inputs[] = {activation(s, SAMPLES[i]), activation(s, SAMPLES[i])};
        emit(s, GP_OP_SQUARED_ERROR, NULL, inputs, 2);
    }
}

void cases_squared_error_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SAMPLES); i++) {
        operand inputs[] = {activation(s, SAMPLES[i]), activation(s, SAMPLES[i]), uniform(s, GP_F32, SCALAR, 0.5, 1.5)};
        emit(s, GP_OP_SQUARED_ERROR_GRADIENT, NULL, inputs, 3);
    }
}

/* ---- a user's operation: y = factor x + shift + optional; an f32 kernel and nothing else ---- */

typedef struct affine_attributes {
    float factor;
} affine_attributes;

static gp_status affine_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status affine_kernel(const gp_op_call *call, const gp_op_data *data) {
    const affine_attributes *attributes = call->attributes;
    const float *x = data->inputs[0];
    const int32_t *shift = data->inputs[1];
    const float *optional = data->inputs[2];
    float *y = data->outputs[0];
    if (call->inputs[0].dtype != GP_F32 || (call->inputs[2].shape.rank >= 0) != (optional != NULL)) {
        return gp_error(GP_FAILED, "a user's kernel was not given f32, or an absent input");
    }
    for (int64_t i = 0; i < gp_shape_elements(call->inputs[0].shape); i++) {
        y[i] = attributes->factor * x[i] + (float)shift[0] + (optional ? optional[i] : 0.0f);
    }
    return GP_OK;
}

static const gp_op_class affine_class = {.size = sizeof(gp_op_class),
                                         .name = "affine",
                                         .attributes_size = sizeof(affine_attributes),
                                         .infer = affine_infer,
                                         .kernel = affine_kernel,
                                         .in_place = 1};

void cases_custom(suite *s) {
    static const gp_shape SHAPES[] = {{0, {0}}, {1, {7}}, {3, {2, 3, 33}}};
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        affine_attributes attributes = {0.5f};
        operand inputs[] = {activation(s, SHAPES[i]), integers(s, SHAPE(1), 1, 4), absent()};
        emit_custom(s, &affine_class, &attributes, inputs, 3);
        inputs[2] = activation(s, SHAPES[i]);
        emit_custom(s, &affine_class, &attributes, inputs, 3);
    }
}
