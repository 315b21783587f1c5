/* Moving averages through the public API: in the file of the weights, under their names, and from there into
 * evaluation under another partitioning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpipe/gpipe.h"
#include "temporary.h"

enum { WIDTH = 6, BATCH = 7 };

static void add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    assert_int_equal(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0), GP_OK);
    assert_int_equal(gp_model_add(model, layer), GP_OK);
}

/* linear, batch norm, linear, to classes. */
static gp_model *make_model(void) {
    gp_model *model = NULL;
    gp_option features = {.key = "features", .type = GP_OPTION_INTEGER, .integer = WIDTH};
    assert_int_equal(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){3})}), GP_OK);
    add(model, "linear", &features, 1);
    add(model, "batch_norm", NULL, 0);
    add(model, "linear", &features, 1);
    assert_int_equal(gp_model_finish(model), GP_OK);
    return model;
}

static gp_trainer *make_trainer(const gp_model *model, int partitions, const gp_optimizer_options *optimizer) {
    gp_pipeline_options pipeline = {
        .partitions = partitions, .micro_batches = 3, .batch = BATCH, .balance = GP_BALANCE_PARAMETERS, .seed = 3};
    gp_trainer *trainer = NULL;
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, optimizer, 10), GP_OK);
    return trainer;
}

static void fill(gp_tensor *inputs, gp_tensor *targets) {
    assert_int_equal(gp_tensor_create(inputs, (gp_type){GP_F32, gp_shape_of(2, (int64_t[]){BATCH, 3})}), GP_OK);
    assert_int_equal(gp_tensor_create(targets, (gp_type){GP_I32, gp_shape_of(1, (int64_t[]){BATCH})}), GP_OK);
    for (int i = 0; i < BATCH * 3; i++)
        ((float *)inputs->data)[i] = (float)sin(i * i);
    for (int i = 0; i < BATCH; i++)
        ((int32_t *)targets->data)[i] = i % WIDTH;
}

/* Copies the file without one tensor. */
static void write_without(const char *path, const char *reduced, const char *missing) {
    gp_safetensors *file = NULL;
    gp_safetensors_entry entries[16] = {{0}};
    gp_tensor tensors[16] = {{{0}, NULL}};
    size_t count = 0;
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const char *name = gp_safetensors_name(file, i);
        if (strcmp(name, missing) == 0) continue;
        gp_tensor *tensor = &tensors[count];
        assert_int_equal(gp_tensor_create(tensor, gp_safetensors_type(file, i)), GP_OK);
        size_t elements = (size_t)gp_shape_elements(tensor->type.shape);
        assert_int_equal(gp_safetensors_read(file, i, 0, elements, GP_F32, tensor->data), GP_OK);
        entries[count++] = (gp_safetensors_entry){.name = name, .type = tensor->type, .data = tensor->data};
    }
    assert_int_equal(gp_safetensors_write(reduced, entries, count, NULL, 0), GP_OK);
    for (size_t i = 0; i < count; i++)
        gp_tensor_destroy(&tensors[i]);
    gp_safetensors_close(file);
}

static void check_file(const char *path) {
    gp_safetensors *file = NULL;
    size_t index;
    float values[WIDTH];
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    assert_true(gp_safetensors_find(file, "layers.1.moving_mean", &index));
    assert_int_equal(gp_safetensors_read(file, index, 0, WIDTH, GP_F32, values), GP_OK);
    assert_true(fabs((double)values[0]) > 1e-6);
    assert_true(gp_safetensors_find(file, "layers.1.moving_variance", &index));
    assert_int_equal(gp_safetensors_read(file, index, 0, WIDTH, GP_F32, values), GP_OK);
    assert_true(fabs((double)values[0] - 1) > 1e-6 && values[0] > 0);
    gp_safetensors_close(file);
}

static void test_states_move_between_partitionings(void **state) {
    char path[4096], reduced[4096];
    snprintf(path, sizeof path, "%s", temporary_path(*state, "weights.safetensors"));
    snprintf(reduced, sizeof reduced, "%s", temporary_path(*state, "reduced.safetensors"));
    gp_optimizer_options sgd = {.kind = GP_OPTIMIZER_SGD, .lr = 1e-2};
    gp_model *model = make_model();
    gp_trainer *one = make_trainer(model, 1, &sgd), *three = make_trainer(model, 3, NULL);
    gp_tensor inputs, targets;
    gp_step_metrics metrics;
    double loss_fresh = 0, loss_one = 0, loss_three = 0, weight = 0;
    fill(&inputs, &targets);
    for (int step = 0; step < 4; step++)
        assert_int_equal(gp_trainer_step(one, &inputs, &targets, NULL, &metrics), GP_OK);
    assert_int_equal(gp_trainer_save(one, path), GP_OK);
    check_file(path);
    assert_int_equal(gp_trainer_evaluate(three, &inputs, &targets, NULL, &loss_fresh, &weight), GP_OK);
    assert_int_equal(gp_trainer_load(three, path), GP_OK);
    assert_int_equal(gp_trainer_evaluate(one, &inputs, &targets, NULL, &loss_one, &weight), GP_OK);
    assert_int_equal(gp_trainer_evaluate(three, &inputs, &targets, NULL, &loss_three, &weight), GP_OK);
    assert_true(fabs(loss_one - loss_three) < 1e-6 * loss_one && loss_one != loss_fresh); /* through f32 */
    write_without(path, reduced, "layers.1.moving_variance");
    assert_int_equal(gp_trainer_load(three, reduced), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "no tensor layers.1.moving_variance"));
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_trainer_destroy(one);
    gp_trainer_destroy(three);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_states_move_between_partitionings, temporary_create, temporary_destroy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
