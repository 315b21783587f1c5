/* A program of a user whose operation ends its own thread in the second step: what the library tells it is printed, and
 * the exit status is the one that the library gives the failure. */
#include <gpipe/gpipe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SAMPLES = 4, WIDTH = 2, FATAL_CALL = 6 };

static atomic_int calls;

static gp_status same(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status die_later(const gp_op_call *call, const gp_op_data *data) {
    const float *x = data->inputs[0];
    float *y = data->outputs[0];
    if (atomic_fetch_add(&calls, 1) == FATAL_CALL) pthread_exit(NULL);
    for (int64_t i = 0; i < gp_shape_elements(call->outputs[0].shape); i++)
        y[i] = x[i];
    return GP_OK;
}

static gp_status pass_on(const gp_op_gradient *gradient) {
    gradient->input_gradients[0] = gradient->output_gradients[0];
    return GP_OK;
}

static const gp_op_class dying_op = {
    .size = sizeof(gp_op_class), .name = "dying", .infer = same, .gradient = pass_on, .kernel = die_later};

static gp_value forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    int64_t width = WIDTH;
    gp_value weight = gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){width, width}), NULL), result;
    gp_value sum = gp_linear(input, weight, gp_none());
    gp_op_apply(&dying_op, NULL, &sum, 1, &result, 1);
    return result;
}

static const gp_layer_class dying_class = {.size = sizeof(gp_layer_class), .kind = "dying", .forward = forward};

static gp_status make_model(gp_model **model) {
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    gp_status status = gp_model_create(model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){WIDTH})});
    for (int i = 0; status == GP_OK && i < 2; i++) {
        gp_layer *layer = NULL;
        status = gp_layer_create(&layer, &dying_class, NULL);
        if (status == GP_OK) status = gp_model_add(*model, layer);
    }
    if (status == GP_OK) status = gp_model_set_loss(*model, &loss);
    return status == GP_OK ? gp_model_finish(*model) : status;
}

int main(void) {
    float x[SAMPLES][WIDTH] = {{1, 2}}, y[SAMPLES][WIDTH] = {{0}};
    gp_tensor inputs = {{GP_F32, gp_shape_of(2, (int64_t[]){SAMPLES, WIDTH})}, x}, targets = inputs;
    gp_pipeline_options pipeline = {
        .partitions = 2, .micro_batches = 2, .batch = SAMPLES, .balance = GP_BALANCE_PARAMETERS};
    gp_optimizer_options optimizer = {0};
    gp_model *model = NULL;
    gp_trainer *trainer = NULL;
    gp_step_metrics metrics;
    targets.data = y;
    gp_status status = make_model(&model);
    if (status == GP_OK) status = gp_trainer_create(&trainer, model, &pipeline, &optimizer, 10);
    for (int step = 0; status == GP_OK && step < 10; step++)
        status = gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics);
    if (status != GP_OK) fprintf(stderr, "%s\n", gp_error_message());
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return gp_status_exit(status);
}
