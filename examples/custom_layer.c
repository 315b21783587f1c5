/* A layer and an operation of one's own, trained through two partitions.
 *
 * The operation is Snake (Ziyin, Hartwig, Ueda, "Neural networks fail to learn periodic functions and how to fix it",
 * 2020): y = x + sin(x)^2, whose derivative is 1 + sin(2x). It has a shape rule, a kernel and a gradient rule; the
 * gradient rule uses a second operation. The layer is linear followed by Snake. Two of them learn a wave.
 *
 * Build against an installed gpipe: cc custom_layer.c $(pkg-config --cflags --libs gpipe) -lm */
#include <gpipe/gpipe.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the operation ---- */

static gp_status same_as_first(const gp_op_call *call, gp_type *outputs) {
    for (size_t i = 1; i < call->input_count; i++) {
        if (!gp_shape_equal(call->inputs[i].shape, call->inputs[0].shape))
            return gp_error(GP_INVALID, "snake: both inputs need the same shape");
    }
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status snake_kernel(const gp_op_call *call, const gp_op_data *data) {
    const float *x = data->inputs[0];
    float *y = data->outputs[0];
    int64_t count = gp_shape_elements(call->outputs[0].shape);
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] + sinf(x[i]) * sinf(x[i]);
    }
    return GP_OK;
}

/* Inputs: dy, x. */
static gp_status snake_gradient_kernel(const gp_op_call *call, const gp_op_data *data) {
    const float *dy = data->inputs[0], *x = data->inputs[1];
    float *dx = data->outputs[0];
    int64_t count = gp_shape_elements(call->outputs[0].shape);
    for (int64_t i = 0; i < count; i++) {
        dx[i] = dy[i] * (1.0f + sinf(2.0f * x[i]));
    }
    return GP_OK;
}

static const gp_op_class snake_gradient_op = {
    .size = sizeof(gp_op_class),
    .name = "snake_gradient",
    .infer = same_as_first,
    .kernel = snake_gradient_kernel,
    .in_place = 1, /* may be written over dy */
};

static gp_status snake_gradient(const gp_op_gradient *gradient) {
    gp_value inputs[2] = {gradient->output_gradients[0], gradient->inputs[0]};
    gp_op_apply(&snake_gradient_op, NULL, inputs, 2, gradient->input_gradients, 1);
    return GP_OK;
}

static const gp_op_class snake_op = {
    .size = sizeof(gp_op_class),
    .name = "snake",
    .infer = same_as_first,
    .gradient = snake_gradient,
    .kernel = snake_kernel,
};

/* ---- the layer ---- */

typedef struct snake_layer {
    int64_t features;
} snake_layer;

static gp_value snake_layer_forward(const void *self, gp_builder *builder, gp_value input) {
    const snake_layer *layer = self;
    gp_shape shape = gp_value_type(input).shape;
    int64_t width = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
    gp_parameter_options uniform = {.init = {GP_INIT_UNIFORM, 1.0 / sqrt((double)width)}};
    gp_value weight =
        gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){layer->features, width}), &uniform);
    gp_value bias = gp_builder_parameter(builder, "bias", gp_shape_of(1, &layer->features), &uniform);
    gp_value sum = gp_linear(input, weight, bias), result;
    gp_op_apply(&snake_op, NULL, &sum, 1, &result, 1);
    return result;
}

static const gp_layer_class snake_layer_class = {
    .size = sizeof(gp_layer_class),
    .kind = "snake_layer",
    .forward = snake_layer_forward,
    .destroy = free,
};

/* ---- the model and its training ---- */

static gp_status add_snake(gp_model *model, int64_t features) {
    snake_layer *self = malloc(sizeof *self);
    gp_layer *layer = NULL;
    if (!self) return gp_error(GP_OUT_OF_MEMORY, "no memory for a layer");
    self->features = features;
    gp_status status = gp_layer_create(&layer, &snake_layer_class, self);
    return status == GP_OK ? gp_model_add(model, layer) : status;
}

static gp_status make_model(gp_model **model) {
    gp_option one = {.key = "features", .type = GP_OPTION_INTEGER, .integer = 1};
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    gp_layer *last = NULL;
    gp_status status = gp_model_create(model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){1})});
    if (status == GP_OK) status = add_snake(*model, 32);
    if (status == GP_OK) status = add_snake(*model, 32);
    if (status == GP_OK) status = gp_layer_create_builtin(&last, "linear", &one, 1, NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, last);
    if (status == GP_OK) status = gp_model_set_loss(*model, &loss);
    return status == GP_OK ? gp_model_finish(*model) : status;
}

enum { SAMPLES = 64, STEPS = 400 };

static gp_status train(gp_trainer *trainer, double *first, double *last) {
    float x[SAMPLES][1], y[SAMPLES][1];
    gp_tensor inputs = {{GP_F32, gp_shape_of(2, (int64_t[]){SAMPLES, 1})}, x};
    gp_tensor targets = {{GP_F32, gp_shape_of(2, (int64_t[]){SAMPLES, 1})}, y};
    for (int i = 0; i < SAMPLES; i++) {
        x[i][0] = (float)i / 8.0f - 4.0f;
        y[i][0] = sinf(2.0f * x[i][0]) + 0.3f * x[i][0];
    }
    for (int step = 0; step < STEPS; step++) {
        gp_step_metrics metrics;
        gp_status status = gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics);
        if (status != GP_OK) return status;
        if (step == 0) *first = metrics.loss;
        *last = metrics.loss;
        if (step % 100 == 0) printf("step %3d  loss %.5f\n", step, metrics.loss);
    }
    return GP_OK;
}

int main(void) {
    gp_pipeline_options pipeline = {
        .partitions = 2, .micro_batches = 4, .batch = SAMPLES, .recompute = GP_RECOMPUTE_ALWAYS};
    gp_optimizer_options optimizer = {.kind = GP_OPTIMIZER_ADAM, .lr = 5e-3};
    gp_model *model = NULL;
    gp_trainer *trainer = NULL;
    double first = 0, last = 0;
    gp_status status = make_model(&model);
    if (status == GP_OK) status = gp_trainer_create(&trainer, model, &pipeline, &optimizer, STEPS);
    if (status == GP_OK) status = train(trainer, &first, &last);
    if (status == GP_OK) printf("loss %.5f -> %.5f\n", first, last);
    if (status != GP_OK) fprintf(stderr, "custom_layer: %s\n", gp_error_message());
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    if (status != GP_OK) return gp_status_exit(status);
    return last < 0.1 * first ? 0 : 1;
}
