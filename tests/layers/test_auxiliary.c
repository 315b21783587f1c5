/* Auxiliary outputs: what they add to the loss in training, and who may give them. */
#include <math.h>

#include "layers/run_graph.h"

enum { FAULT_NONE, FAULT_EARLY, FAULT_TWICE, FAULT_WEIGHT, FAULT_NAN, FAULT_TYPE };

typedef struct last_layer {
    int fault;
} last_layer;

/* Keeps its input for the last layer and halves it. */
static gp_value first_forward(const void *self, gp_builder *builder, gp_value input) {
    const last_layer *layer = self;
    gp_builder_keep(builder, "early", input);
    if (layer->fault == FAULT_EARLY) gp_builder_auxiliary(builder, input, 0.25);
    return gp_scale(input, 0.5);
}

static gp_value last_forward(const void *self, gp_builder *builder, gp_value input) {
    const last_layer *layer = self;
    gp_value early = gp_builder_recall(builder, "early");
    if (layer->fault == FAULT_TYPE) early = gp_sum(early, 1, true);
    gp_builder_auxiliary(builder, early, layer->fault == FAULT_WEIGHT ? 0 : (layer->fault == FAULT_NAN ? NAN : 0.25));
    if (layer->fault == FAULT_TWICE) gp_builder_auxiliary(builder, early, 0.25);
    return gp_scale(input, 3);
}

static const gp_layer_class first_class = {.size = sizeof(gp_layer_class), .kind = "first", .forward = first_forward};
static const gp_layer_class last_class = {.size = sizeof(gp_layer_class), .kind = "last", .forward = last_forward};

static gp_model *model_with(last_layer *self, gp_loss_kind loss) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){2}));
    gp_layer *first = NULL, *last = NULL;
    assert_ok(gp_layer_create(&first, &first_class, self));
    assert_ok(gp_layer_create(&last, &last_class, self));
    add_linear(model, 3);
    assert_ok(gp_model_add(model, first));
    assert_ok(gp_model_add(model, last));
    assert_ok(gp_model_set_loss(model, &(gp_loss){.kind = loss}));
    return model;
}

/* The linear layer gives x; the output is 1.5 x, the auxiliary output x itself. */
static double run_once(bool training, gp_loss_kind loss, double bias_gradient[3]) {
    last_layer self = {FAULT_NONE};
    gp_model *model = model_with(&self, loss);
    gp_device *device = NULL;
    gp_built built;
    assert_ok(gp_device_create_reference(&device, NULL));
    assert_ok(gp_model_finish(model));
    assert_ok(gp_model_build(
        model, &(gp_build_options){.last_layer = 2, .batch = 1, .training = training, .gradients = true, .loss = true},
        &built));
    graph_run run = start_run(built.graph, device);
    static const double bias[] = {0.5, -0.25, 1};
    memcpy(data_of(&run, built.uses[1].value), bias, sizeof bias); /* the input is 0: x is the bias */
    if (loss == GP_LOSS_SQUARED_ERROR) data_of(&run, built.targets)[1] = 2;
    *data_of(&run, built.loss_gradient) = 1;
    run_nodes(&run, false);
    run_nodes(&run, true);
    double result = *data_of(&run, built.loss);
    memcpy(bias_gradient, data_of(&run, built.uses[1].gradient), 3 * sizeof(double));
    end_run(&run);
    gp_built_destroy(&built);
    gp_model_destroy(model);
    gp_device_destroy(device);
    return result;
}

static double squared(double factor) {
    return (pow(0.5 * factor, 2) + pow(-0.25 * factor - 2, 2) + pow(factor, 2)) / 3;
}

static double cross_entropy(double factor) {
    return log(exp(0.5 * factor) + exp(-0.25 * factor) + exp(factor)) - 0.5 * factor;
}

static void test_loss(void **state) {
    (void)state;
    double gradient[3];
    assert_true(fabs(run_once(true, GP_LOSS_SQUARED_ERROR, gradient) - squared(1.5) - 0.25 * squared(1)) < 1e-12);
    assert_true(fabs(gradient[0] - (2 * 0.75 * 1.5 + 0.25 * 2 * 0.5) / 3) < 1e-12);
    assert_true(fabs(run_once(false, GP_LOSS_SQUARED_ERROR, gradient) - squared(1.5)) < 1e-12);
    assert_true(fabs(gradient[0] - 2 * 0.75 * 1.5 / 3) < 1e-12);
    assert_true(fabs(run_once(true, GP_LOSS_CROSS_ENTROPY, gradient) - cross_entropy(1.5) - 0.25 * cross_entropy(1)) <
                1e-12);
    assert_true(fabs(run_once(false, GP_LOSS_CROSS_ENTROPY, gradient) - cross_entropy(1.5)) < 1e-12);
}

/* ---- with targets of its own ---- */

/* x is [batch, 4]: the output is two rows of two classes, the auxiliary output x itself. */
static gp_value rows_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    gp_shape shape = gp_value_type(input).shape;
    gp_builder_auxiliary(builder, input, 0.25);
    return gp_reshape(input, gp_shape_of(3, (int64_t[]){shape.dims[0], 2, 2}));
}

static const gp_layer_class rows_class = {.size = sizeof(gp_layer_class), .kind = "rows", .forward = rows_forward};

static gp_model *model_of_rows(gp_loss_kind loss) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){2}));
    gp_layer *rows = NULL;
    assert_ok(gp_layer_create(&rows, &rows_class, NULL));
    add_linear(model, 4);
    assert_ok(gp_model_add(model, rows));
    assert_ok(gp_model_set_loss(model, &(gp_loss){.kind = loss}));
    return model;
}

static double run_rows(bool training, double bias_gradient[4]) {
    gp_model *model = model_of_rows(GP_LOSS_CROSS_ENTROPY);
    gp_device *device = NULL;
    gp_built built;
    assert_ok(gp_device_create_reference(&device, NULL));
    assert_ok(gp_model_finish(model));
    assert_type(gp_model_target_type(model), "i32[3]");
    assert_ok(gp_model_build(
        model, &(gp_build_options){.last_layer = 1, .batch = 1, .training = training, .gradients = true, .loss = true},
        &built));
    graph_run run = start_run(built.graph, device);
    static const double bias[] = {0.5, -0.25, 1, 0};
    static const int32_t targets[] = {1, 0, 3};
    memcpy(data_of(&run, built.uses[1].value), bias, sizeof bias);
    memcpy(data_of(&run, built.targets), targets, sizeof targets);
    *data_of(&run, built.loss_gradient) = 1;
    run_nodes(&run, false);
    run_nodes(&run, true);
    double result = *data_of(&run, built.loss);
    memcpy(bias_gradient, data_of(&run, built.uses[1].gradient), 4 * sizeof(double));
    end_run(&run);
    gp_built_destroy(&built);
    gp_model_destroy(model);
    gp_device_destroy(device);
    return result;
}

static void test_targets_of_its_own(void **state) {
    (void)state;
    double gradient[4];
    double rows = log(exp(0.5) + exp(-0.25)) + 0.25 + log(exp(1) + 1) - 1;
    double all = exp(0.5) + exp(-0.25) + exp(1) + 1, own = log(all);
    assert_true(fabs(run_rows(false, gradient) - rows) < 1e-12);
    assert_true(fabs(gradient[3] - 1 / (exp(1) + 1)) < 1e-12);
    assert_true(fabs(run_rows(true, gradient) - rows - 0.25 * own) < 1e-12);
    assert_true(fabs(gradient[3] - 1 / (exp(1) + 1) - 0.25 * (1 / all - 1)) < 1e-12);
    gp_model *model = model_of_rows(GP_LOSS_CROSS_ENTROPY);
    assert_ok(gp_model_finish(model));
    int32_t targets[] = {1, 0, 2, 0, 1, 3};
    gp_tensor tensor = {.type = type_of(GP_I32, 2, (int64_t[]){2, 3}), .data = targets};
    assert_true(gp_model_loss_weight(model, &tensor, NULL, 0, 2) == 4); /* its own do not count */
    gp_model_destroy(model);
    model = model_of_rows(GP_LOSS_SQUARED_ERROR);
    assert_message(gp_model_finish(model), GP_INVALID, "an auxiliary output with targets of its own is for");
    gp_model_destroy(model);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        int fault;
        const char *message;
    } faults[] = {{FAULT_EARLY, "layer 1 (first): an auxiliary output counts in the loss, so that only the last layer"},
                  {FAULT_TWICE, "layer 2 (last): there is more than one auxiliary output"},
                  {FAULT_WEIGHT, "the auxiliary output has weight 0"},
                  {FAULT_NAN, "the auxiliary output has weight nan"},
                  {FAULT_TYPE, "its auxiliary output is f32[2,1], but its output is f32[2,3]"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        last_layer self = {faults[i].fault};
        gp_model *model = model_with(&self, GP_LOSS_SQUARED_ERROR);
        assert_message(gp_model_finish(model), GP_INVALID, faults[i].message);
        gp_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_targets_of_its_own),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
