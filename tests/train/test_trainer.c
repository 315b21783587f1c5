/* The trainer through its public API: options refused with the key's name, weights saved under one partitioning and
 * loaded under another, evaluation, generation, gradients in a file, a run directory, divergence. */
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

enum { CONTEXT = 8, VOCABULARY = 11, BATCH = 5 };

static gp_model *make_model(void) {
    gp_gpt2_options options = {.layers = 2, .heads = 2, .width = 16, .context = CONTEXT, .vocabulary = VOCABULARY};
    gp_model *model = NULL;
    assert_int_equal(gp_model_create_gpt2(&model, &options), GP_OK);
    return model;
}

static gp_pipeline_options pipeline_of(int partitions) {
    return (gp_pipeline_options){
        .partitions = partitions, .micro_batches = 2, .batch = BATCH, .balance = GP_BALANCE_PARAMETERS, .seed = 3};
}

static gp_trainer *make_trainer(const gp_model *model, int partitions, const gp_optimizer_options *optimizer) {
    gp_pipeline_options pipeline = pipeline_of(partitions);
    gp_trainer *trainer = NULL;
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, optimizer, 10), GP_OK);
    return trainer;
}

/* Tokens that follow a rule, so that there is something to learn. */
static void fill(gp_tensor *inputs, gp_tensor *targets) {
    gp_type type = {GP_I32, gp_shape_of(2, (int64_t[]){BATCH, CONTEXT})};
    assert_int_equal(gp_tensor_create(inputs, type), GP_OK);
    assert_int_equal(gp_tensor_create(targets, type), GP_OK);
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        ((int32_t *)inputs->data)[i] = (3 * i) % VOCABULARY;
        ((int32_t *)targets->data)[i] = (3 * i + 3) % VOCABULARY;
    }
}

static void test_options_are_refused_by_name(void **state) {
    (void)state;
    gp_model *model = make_model();
    gp_optimizer_options adamw = {0};
    gp_trainer *trainer = NULL;
    const struct {
        gp_pipeline_options pipeline;
        gp_optimizer_options optimizer;
        const char *named;
    } cases[] = {
        {{.partitions = -1}, {0}, "pipeline.partitions is -1"},
        {{.partitions = 6}, {0}, "only 5 layers"},
        {{.micro_batches = -2}, {0}, "pipeline.micro_batches is -2"},
        {{.batch = -1}, {0}, "train.batch is -1"},
        {{.precision = GP_I32}, {0}, "device.precision is i32"},
        {{.schedule_text = "F0 B0\nX0"}, {0}, "line 2"},
        {{.partitions = 2, .stage_layers = (size_t[]){1, 1}}, {0}, "2 layers together"},
        {{0}, {.lr = -1}, "optimizer.lr is -1"},
        {{0}, {.lr = NAN}, "optimizer.lr is"},
        {{0}, {.beta2 = 1}, "optimizer.betas[1] is 1"},
        {{0}, {.kind = GP_OPTIMIZER_SGD, .nesterov = true}, "optimizer.momentum"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_trainer_create(&trainer, model, &cases[i].pipeline, &cases[i].optimizer, 1), GP_INVALID);
        assert_null(trainer);
        assert_non_null(strstr(gp_error_message(), cases[i].named));
    }
    gp_pipeline_options large = pipeline_of(2); /* more than the machine has: found before a page is touched */
    large.batch = INT64_C(1) << 30;
    assert_int_equal(gp_trainer_create(&trainer, model, &large, &adamw, 1), GP_DOES_NOT_FIT);
    assert_non_null(strstr(gp_error_message(), "this machine has"));
    gp_pipeline_options small = pipeline_of(2);
    small.device.memory = 1000;
    assert_int_equal(gp_trainer_create(&trainer, model, &small, &adamw, 1), GP_DOES_NOT_FIT);
    assert_null(trainer);
    gp_model_destroy(model);
}

static void test_weights_move_between_partitionings(void **state) {
    const char *path = temporary_path(*state, "weights.safetensors");
    gp_optimizer_options adamw = {.lr = 1e-2};
    gp_model *model = make_model();
    gp_trainer *one = make_trainer(model, 1, &adamw), *three = make_trainer(model, 3, NULL);
    gp_tensor inputs, targets, left, right;
    gp_step_metrics metrics;
    double loss_one = 0, loss_three = 0, weight_one = 0, weight_three = 0;
    fill(&inputs, &targets);
    for (int step = 0; step < 5; step++) {
        assert_int_equal(gp_trainer_step(one, &inputs, &targets, NULL, &metrics), GP_OK);
    }
    assert_int_equal(gp_trainer_save(one, path), GP_OK);
    assert_int_equal(gp_trainer_load(three, path), GP_OK);
    assert_int_equal(gp_trainer_evaluate(one, &inputs, &targets, NULL, &loss_one, &weight_one), GP_OK);
    assert_int_equal(gp_trainer_evaluate(three, &inputs, &targets, NULL, &loss_three, &weight_three), GP_OK);
    assert_true(loss_one == loss_three && loss_one > 0);
    assert_true(weight_one == BATCH * CONTEXT && weight_three == weight_one);
    gp_type logits = {GP_F32, gp_shape_of(3, (int64_t[]){1, CONTEXT, VOCABULARY})};
    assert_int_equal(gp_tensor_create(&left, logits), GP_OK);
    assert_int_equal(gp_tensor_create(&right, logits), GP_OK);
    inputs.type.shape.dims[0] = 1;
    assert_int_equal(gp_trainer_forward(one, &inputs, &left), GP_OK);
    assert_int_equal(gp_trainer_forward(three, &inputs, &right), GP_OK);
    assert_memory_equal(left.data, right.data, gp_type_bytes(logits));
    assert_int_equal(gp_trainer_step(three, &inputs, &targets, NULL, &metrics),
                     GP_INVALID); /* made without an optimizer */
    gp_tensor_destroy(&left);
    gp_tensor_destroy(&right);
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_trainer_destroy(one);
    gp_trainer_destroy(three);
    gp_model_destroy(model);
}

static bool collect(void *user, int32_t token) {
    int32_t *tokens = user;
    tokens[++tokens[0]] = token;
    return tokens[0] < 20;
}

static void test_generation_is_a_function_of_its_seed(void **state) {
    (void)state;
    gp_model *model = make_model();
    gp_trainer *trainer = make_trainer(model, 2, NULL);
    gp_generate_options options = {.temperature = 1, .top_k = 5, .top_p = 0.9, .seed = 4};
    int32_t prompt[3 * CONTEXT] = {1, 2, 3}, first[32] = {0}, second[32] = {0}, other[32] = {0};
    assert_int_equal(gp_trainer_generate(trainer, prompt, 3 * CONTEXT, 25, &options, collect, first), GP_OK);
    assert_int_equal(gp_trainer_generate(trainer, prompt, 3 * CONTEXT, 25, &options, collect, second), GP_OK);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(first[0], 20); /* the callback stopped it */
    options.seed = 5;
    assert_int_equal(gp_trainer_generate(trainer, prompt, 3, 25, &options, collect, other), GP_OK);
    assert_memory_not_equal(first, other, sizeof first);
    prompt[1] = VOCABULARY;
    assert_int_equal(gp_trainer_generate(trainer, prompt, 3, 1, &options, collect, other), GP_INVALID);
    assert_int_equal(gp_trainer_generate(trainer, prompt, 0, 1, &options, collect, other), GP_INVALID);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
}

static void test_gradients_in_a_file(void **state) {
    const char *path = temporary_path(*state, "gradients.safetensors");
    gp_optimizer_options adamw = {0};
    gp_model *model = make_model();
    gp_trainer *trainer = make_trainer(model, 2, &adamw);
    gp_tensor inputs, targets;
    gp_safetensors *file = NULL;
    double loss = 0;
    size_t index;
    fill(&inputs, &targets);
    assert_int_equal(gp_trainer_save_gradients(trainer, &inputs, &targets, NULL, path), GP_OK);
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 2 * gp_model_parameters(model) + 3);
    assert_true(gp_safetensors_find(file, "loss", &index));
    assert_int_equal(gp_safetensors_read(file, index, 0, 1, GP_F64, &loss), GP_OK);
    assert_true(fabs(loss - log(VOCABULARY)) < 0.1); /* a fresh network knows nothing */
    assert_true(gp_safetensors_find(file, "gradients.layers.0.token.weight", NULL));
    gp_safetensors_close(file);
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
}

static void test_divergence_is_reported_and_not_applied(void **state) {
    (void)state;
    gp_optimizer_options sgd = {.kind = GP_OPTIMIZER_SGD, .lr = 1e30};
    gp_model *model = make_model();
    gp_trainer *trainer = make_trainer(model, 2, &sgd);
    gp_tensor inputs, targets;
    gp_step_metrics metrics = {.finite = true};
    fill(&inputs, &targets);
    for (int step = 0; step < 10 && metrics.finite; step++) {
        assert_int_equal(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), GP_OK);
    }
    assert_false(metrics.finite);
    assert_non_null(strstr(metrics.fault, "layer"));
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_are_refused_by_name),
        cmocka_unit_test_setup_teardown(test_weights_move_between_partitionings, temporary_create, temporary_destroy),
        cmocka_unit_test(test_generation_is_a_function_of_its_seed),
        cmocka_unit_test_setup_teardown(test_gradients_in_a_file, temporary_create, temporary_destroy),
        cmocka_unit_test(test_divergence_is_reported_and_not_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
