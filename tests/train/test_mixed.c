/* Mixed labels (mixup): every sample has two with a weight each. The loss and the gradients are those of its parts, and
 * the same bits wherever the model is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpipe/gpipe.h"
#include "temporary.h"

enum { SAMPLES = 5, FEATURES = 6, CLASSES = 4 };

static gp_model *make_model(bool mixed) {
    gp_model *model;
    gp_loss loss = {.cross_entropy = {.label_smoothing = 0.1}, .mixed = mixed};
    assert_int_equal(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){FEATURES})}), GP_OK);
    for (int i = 0; i < 3; i++) {
        gp_option features = {.key = "features", .type = GP_OPTION_INTEGER, .integer = i == 2 ? CLASSES : 8};
        gp_layer *layer;
        assert_int_equal(gp_layer_create_builtin(&layer, i == 1 ? "tanh" : "linear", &features, i != 1, NULL, 0),
                         GP_OK);
        assert_int_equal(gp_model_add(model, layer), GP_OK);
    }
    assert_int_equal(gp_model_set_loss(model, &loss), GP_OK);
    assert_int_equal(gp_model_finish(model), GP_OK);
    return model;
}

static gp_trainer *make_trainer(const gp_model *model, bool mixed, int partitions) {
    gp_trainer *trainer;
    gp_pipeline_options pipeline = {.partitions = partitions,
                                    .micro_batches = 2,
                                    .batch = SAMPLES,
                                    .balance = GP_BALANCE_PARAMETERS,
                                    .loss_weights = mixed,
                                    .seed = 3};
    gp_optimizer_options optimizer = {.kind = GP_OPTIMIZER_SGD, .lr = 0.1};
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, &optimizer, 10), GP_OK);
    return trainer;
}

static gp_tensor tensor_of(gp_dtype dtype, int rank, int64_t last) {
    gp_tensor tensor;
    assert_int_equal(gp_tensor_create(&tensor, (gp_type){dtype, gp_shape_of(rank, (int64_t[]){SAMPLES, last})}), GP_OK);
    return tensor;
}

static gp_batch make_batch(void) {
    gp_batch batch = {tensor_of(GP_F32, 2, FEATURES), tensor_of(GP_I32, 2, 2), tensor_of(GP_F32, 2, 2)};
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        ((float *)batch.inputs.data)[i] = sinf((float)i * 1.3f);
    return batch;
}

/* `share` of a sample's first label; its second one is another. */
static void set_labels(gp_batch *batch, const float share[SAMPLES]) {
    for (int i = 0; i < SAMPLES; i++) {
        ((int32_t *)batch->targets.data)[2 * i] = i % CLASSES;
        ((int32_t *)batch->targets.data)[2 * i + 1] = (i * 3 + 1) % CLASSES;
        ((float *)batch->weights.data)[2 * i] = share[i];
        ((float *)batch->weights.data)[2 * i + 1] = 1 - share[i];
    }
}

/* The mean loss of plain labels: the first or the second ones, with their weights. */
static double plain_loss(const gp_batch *batch, int which) {
    gp_model *model = make_model(false);
    gp_trainer *trainer = make_trainer(model, true, 1);
    gp_tensor targets = tensor_of(GP_I32, 1, 0), weights = tensor_of(GP_F32, 1, 0);
    for (int i = 0; i < SAMPLES; i++) {
        ((int32_t *)targets.data)[i] = ((int32_t *)batch->targets.data)[2 * i + which];
        ((float *)weights.data)[i] = ((float *)batch->weights.data)[2 * i + which];
    }
    double loss = 0, weight = 0;
    assert_int_equal(gp_trainer_evaluate(trainer, &batch->inputs, &targets, &weights, &loss, &weight), GP_OK);
    gp_tensor_destroy(&targets);
    gp_tensor_destroy(&weights);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return loss;
}

static void test_loss_is_that_of_the_parts(void **state) {
    (void)state;
    static const float shares[SAMPLES] = {0.25f, 1, 0, 0.75f, 0.5f};
    gp_model *model = make_model(true);
    gp_type target = gp_model_target_type(model);
    assert_true(target.dtype == GP_I32 && target.shape.rank == 1 && target.shape.dims[0] == 2);
    assert_int_equal(gp_model_class_count(model), CLASSES);
    gp_batch batch = make_batch();
    set_labels(&batch, shares);
    double expected = (plain_loss(&batch, 0) + plain_loss(&batch, 1)) / SAMPLES;
    for (int partitions = 1; partitions <= 3; partitions++) {
        gp_trainer *trainer = make_trainer(model, true, partitions);
        gp_step_metrics metrics;
        double loss = 0, weight = 0;
        assert_int_equal(gp_trainer_evaluate(trainer, &batch.inputs, &batch.targets, &batch.weights, &loss, &weight),
                         GP_OK);
        assert_true(fabs(loss / weight - expected) < 1e-6);
        assert_true(weight == SAMPLES);
        assert_int_equal(gp_trainer_step(trainer, &batch.inputs, &batch.targets, &batch.weights, &metrics), GP_OK);
        assert_true(fabs(metrics.loss - expected) < 1e-6);
        assert_int_equal(metrics.tokens, SAMPLES);
        gp_trainer_destroy(trainer);
    }
    gp_batch_destroy(&batch);
    gp_model_destroy(model);
}

/* Trains a few steps and returns the weights' file. */
static char *trained(temporary *t, gp_model *model, bool mixed, int partitions, const gp_tensor *inputs,
                     const gp_tensor *targets, const gp_tensor *weights, size_t *bytes) {
    gp_trainer *trainer = make_trainer(model, mixed, partitions);
    gp_step_metrics metrics;
    const char *path = temporary_path(t, "weights.safetensors");
    for (int step = 0; step < 4; step++)
        assert_int_equal(gp_trainer_step(trainer, inputs, targets, weights, &metrics), GP_OK);
    assert_int_equal(gp_trainer_save(trainer, path), GP_OK);
    gp_trainer_destroy(trainer);
    return temporary_read(path, bytes);
}

/* With all the weight on the first labels, training is the plain one to the last bit; mixed, it does not depend on
 * cuts. */
static void test_bits(void **state) {
    static const float alone[SAMPLES] = {1, 1, 1, 1, 1}, mixed_shares[SAMPLES] = {0.25f, 1, 0, 0.75f, 0.5f};
    gp_model *mixed = make_model(true), *plain = make_model(false);
    gp_batch batch = make_batch();
    gp_tensor targets = tensor_of(GP_I32, 1, 0);
    size_t size_a, size_b;
    set_labels(&batch, alone);
    for (int i = 0; i < SAMPLES; i++)
        ((int32_t *)targets.data)[i] = i % CLASSES;
    char *a = trained(*state, mixed, true, 2, &batch.inputs, &batch.targets, &batch.weights, &size_a);
    char *b = trained(*state, plain, false, 1, &batch.inputs, &targets, NULL, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(a, b, size_a);
    free(b);
    set_labels(&batch, mixed_shares);
    b = trained(*state, mixed, true, 1, &batch.inputs, &batch.targets, &batch.weights, &size_b);
    assert_true(memcmp(a, b, size_a) != 0);
    free(a);
    a = trained(*state, mixed, true, 3, &batch.inputs, &batch.targets, &batch.weights, &size_a);
    assert_memory_equal(a, b, size_a);
    free(a);
    free(b);
    gp_tensor_destroy(&targets);
    gp_batch_destroy(&batch);
    gp_model_destroy(mixed);
    gp_model_destroy(plain);
}

static void test_refused(void **state) {
    (void)state;
    gp_model *model;
    gp_layer *layer;
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR, .mixed = true};
    assert_int_equal(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){FEATURES})}), GP_OK);
    assert_int_equal(gp_layer_create_builtin(&layer, "tanh", NULL, 0, NULL, 0), GP_OK);
    assert_int_equal(gp_model_add(model, layer), GP_OK);
    assert_int_equal(gp_model_set_loss(model, &loss), GP_OK);
    assert_int_equal(gp_model_finish(model), GP_INVALID);
    assert_message_has(gp_error_message(), "mixed labels are for cross_entropy");
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_is_that_of_the_parts),
        cmocka_unit_test_setup_teardown(test_bits, temporary_create, temporary_destroy),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
