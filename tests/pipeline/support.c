/* Shared helpers of the engine's tests. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

void test_assert_ok(gp_status status, const char *call, const char *file, int line) {
    if (status == GP_OK) return;
    print_error("%s: %s: %s\n", call, gp_status_text(status), gp_error_message());
    _fail(file, line);
}

/* ---- models ---- */

gp_model *test_gpt(int64_t layers, double dropout, bool untied) {
    gp_model *model;
    gp_gpt2_options options = {
        .layers = layers, .heads = 2, .width = 8, .context = 4, .vocabulary = 11, .dropout = dropout, .untied = untied};
    assert_ok(gp_model_create_gpt2(&model, &options));
    return model;
}

gp_model *test_bert(int64_t layers, double dropout) {
    gp_model *model;
    gp_bert_options options = {.layers = layers, .heads = 2, .width = 8, .context = 4, .vocabulary = 11, .types = 11};
    options.dropout = dropout;
    assert_ok(gp_model_create_bert(&model, &options));
    return model;
}

gp_model *test_wide_gpt(int64_t layers) {
    gp_model *model;
    gp_gpt2_options options = {
        .layers = layers, .heads = 4, .width = 64, .context = 16, .vocabulary = 96, .dropout = 0.1};
    assert_ok(gp_model_create_gpt2(&model, &options));
    return model;
}

/* One layer of the small models: y = silu(x w + b), or y = silu(x) for every third; with skips and the hook before it.
 */
typedef struct small_layer {
    int64_t width;
    int index;
    bool keeps, recalls, hooked, shares;
} small_layer;

static test_hook current_hook;
static void *current_user;

void test_set_hook(test_hook hook, void *user) {
    current_hook = hook;
    current_user = user;
}

static gp_status hooked_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status hooked_kernel(const gp_op_call *call, const gp_op_data *data) {
    int64_t count = gp_shape_elements(call->inputs[0].shape);
    memcpy(data->outputs[0], data->inputs[0], (size_t)count * sizeof(float));
    int layer;
    memcpy(&layer, call->attributes, sizeof layer);
    return current_hook ? current_hook(current_user, layer, data->outputs[0], count) : GP_OK;
}

static const gp_op_class hooked_back_op = {.size = sizeof(gp_op_class),
                                           .name = "hooked_back",
                                           .attributes_size = sizeof(int),
                                           .infer = hooked_infer,
                                           .kernel = hooked_kernel};

static gp_status hooked_gradient(const gp_op_gradient *gradient) {
    int layer;
    memcpy(&layer, gradient->attributes, sizeof layer);
    layer += TEST_BACKWARD;
    gp_op_apply(&hooked_back_op, &layer, gradient->output_gradients, 1, gradient->input_gradients, 1);
    return GP_OK;
}

static const gp_op_class hooked_op = {.size = sizeof(gp_op_class),
                                      .name = "hooked",
                                      .attributes_size = sizeof(int),
                                      .infer = hooked_infer,
                                      .gradient = hooked_gradient,
                                      .kernel = hooked_kernel};

static gp_value small_forward(const void *self, gp_builder *builder, gp_value input) {
    const small_layer *layer = self;
    gp_parameter_options weight = {.init = {GP_INIT_NORMAL, 0.5}}, bias = {.init = {GP_INIT_UNIFORM, 0.1}};
    gp_value x = input;
    if (layer->shares && layer->index > 0) weight.tie = "layers.0.weight";
    if (layer->index % 3 != 2) {
        gp_value w =
            gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){layer->width, layer->width}), &weight);
        gp_value b = gp_builder_parameter(builder, "bias", gp_shape_of(1, &layer->width), &bias);
        x = gp_linear(x, w, b);
    }
    if (layer->recalls) x = gp_add(x, gp_builder_recall(builder, "early"));
    if (layer->hooked) gp_op_apply(&hooked_op, &layer->index, &x, 1, &x, 1);
    x = gp_silu(x); /* whose gradient reads x */
    if (layer->keeps) gp_builder_keep(builder, "early", x);
    return x;
}

static void small_destroy(void *self) {
    free(self);
}

static const gp_layer_class small_class = {
    .size = sizeof(gp_layer_class), .kind = "small", .forward = small_forward, .destroy = small_destroy};

static void add_small(gp_model *model, small_layer description) {
    gp_layer *layer;
    small_layer *self = malloc(sizeof *self);
    assert_non_null(self);
    *self = description;
    assert_ok(gp_layer_create(&layer, &small_class, self));
    assert_ok(gp_model_add(model, layer));
}

static gp_model *begin_small(int64_t width) {
    gp_model *model;
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    assert_ok(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(1, &width)}));
    assert_ok(gp_model_set_loss(model, &loss));
    return model;
}

gp_model *test_skips(int layers, int64_t width, const int *recalls) {
    gp_model *model = begin_small(width);
    for (int i = 0; i < layers; i++) {
        bool recalled = false;
        for (const int *r = recalls; *r >= 0; r++)
            recalled = recalled || *r == i;
        add_small(model, (small_layer){.width = width, .index = i, .keeps = i == 0, .recalls = recalled});
    }
    assert_ok(gp_model_finish(model));
    return model;
}

gp_model *test_shared(int layers, int64_t width) {
    gp_model *model = begin_small(width);
    for (int i = 0; i < layers; i++)
        add_small(model, (small_layer){.width = width, .index = i, .shares = true});
    assert_ok(gp_model_finish(model));
    return model;
}

gp_model *test_hooked(int layers, int64_t width) {
    gp_model *model = begin_small(width);
    for (int i = 0; i < layers; i++)
        add_small(model, (small_layer){.width = width, .index = i, .hooked = true});
    assert_ok(gp_model_finish(model));
    return model;
}

/* ---- images ---- */

static gp_value convolve(gp_builder *builder, const char *name, gp_value x, int64_t channels, int64_t kernel) {
    gp_parameter_options weight = {.init = {GP_INIT_NORMAL, 0.3}};
    int64_t in = gp_value_type(x).shape.dims[3];
    gp_value w =
        gp_builder_parameter(builder, name, gp_shape_of(4, (int64_t[]){channels, in, kernel, kernel}), &weight);
    return gp_convolution(x, w, gp_none(), &(gp_convolution_options){.padding = GP_PADDING_SAME});
}

static gp_value normalise(gp_builder *builder, gp_value x) {
    gp_shape shape = gp_shape_of(1, &gp_value_type(x).shape.dims[3]);
    gp_parameter_options ones = {.init = {GP_INIT_CONSTANT, 1}};
    gp_batch_norm_options options = {1e-3, true};
    gp_value w = gp_builder_parameter(builder, "norm_weight", shape, &ones);
    gp_value b = gp_builder_parameter(builder, "norm_bias", shape, NULL);
    gp_value moving_mean = gp_builder_state(builder, "moving_mean", shape, NULL);
    gp_value moving_variance = gp_builder_state(builder, "moving_variance", shape, &ones.init);
    if (!gp_builder_training(builder)) return gp_batch_norm_inference(x, w, b, moving_mean, moving_variance, &options);
    gp_value mean, variance, y = gp_batch_norm(x, w, b, &options, &mean, &variance);
    gp_builder_moving_moments(builder, moving_mean, moving_variance, mean, variance, 0.9);
    return y;
}

static gp_value image_forward(const void *self, gp_builder *builder, gp_value input) {
    const double *drop_path = self;
    gp_pool_options window = {.kernel = {2, 2}, .stride = {1, 1}, .padding = GP_PADDING_SAME};
    gp_value x = normalise(builder, convolve(builder, "convolution", input, 4, 3));
    gp_value halves[] = {gp_max_pool(gp_slice(x, 3, 0, 2), &window), gp_average_pool(gp_slice(x, 3, 2, 4), &window)};
    x = gp_concatenate(halves, 2, 3);
    gp_value scale = gp_sigmoid(gp_global_average_pool(x));
    x = gp_drop_path(gp_channel_scale(gp_pixel_shift(x, 1, 1), scale), *drop_path, true);
    return gp_add(convolve(builder, "projection", input, 4, 1), x);
}

static const gp_layer_class image_class = {
    .size = sizeof(gp_layer_class), .kind = "image", .forward = image_forward, .destroy = small_destroy};

static gp_value classify_forward(const void *self, gp_builder *builder, gp_value input) {
    gp_parameter_options weight = {.init = {GP_INIT_NORMAL, 0.3}};
    (void)self;
    gp_value w = gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){5, 4}), &weight);
    return gp_linear(gp_global_average_pool(input), w, gp_none());
}

static const gp_layer_class classify_class = {
    .size = sizeof(gp_layer_class), .kind = "classify", .forward = classify_forward};

gp_model *test_images(int layers, double drop_path) {
    gp_model *model;
    gp_layer *layer;
    assert_ok(gp_model_create(&model, (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){6, 6, 2})}));
    for (int i = 0; i < layers; i++) {
        double *self = malloc(sizeof *self);
        assert_non_null(self);
        *self = drop_path;
        assert_ok(gp_layer_create(&layer, &image_class, self));
        assert_ok(gp_model_add(model, layer));
    }
    assert_ok(gp_layer_create(&layer, &classify_class, NULL));
    assert_ok(gp_model_add(model, layer));
    assert_ok(gp_model_finish(model));
    return model;
}

/* ---- mini-batches ---- */

static gp_type with_batch(gp_type sample, int64_t samples) {
    gp_type type = {sample.dtype, {.rank = sample.shape.rank + 1, .dims = {samples}}};
    memcpy(type.shape.dims + 1, sample.shape.dims, (size_t)sample.shape.rank * sizeof(int64_t));
    return type;
}

static void fill_tensor(gp_tensor *tensor, gp_type sample, int64_t samples, int classes, uint64_t seed,
                        const char *name) {
    assert_ok(gp_tensor_create(tensor, with_batch(sample, samples)));
    int64_t count = gp_shape_elements(tensor->type.shape);
    float *uniform = gp_allocate_array((size_t)count, sizeof *uniform);
    assert_non_null(uniform);
    gp_random_fill_uniform(uniform, count, seed, name);
    for (int64_t i = 0; i < count; i++) {
        if (sample.dtype == GP_I32) {
            ((int32_t *)tensor->data)[i] = (int32_t)((uniform[i] + 1) * 0.4999f * (float)classes);
        } else {
            ((float *)tensor->data)[i] = uniform[i];
        }
    }
    gp_free(uniform);
}

void test_batch_create(gp_batch *batch, const gp_model *model, int64_t samples, uint64_t seed) {
    gp_type output = gp_model_output_type(model);
    int classes = (int)output.shape.dims[output.shape.rank - 1];
    *batch = (gp_batch){0};
    fill_tensor(&batch->inputs, gp_model_input_type(model), samples, classes, seed, "inputs");
    fill_tensor(&batch->targets, gp_model_target_type(model), samples, classes, seed, "targets");
}

void test_batch_destroy(gp_batch *batch) {
    gp_tensor_destroy(&batch->inputs);
    gp_tensor_destroy(&batch->targets);
    gp_tensor_destroy(&batch->weights);
}

/* ---- engines ---- */

gp_engine_options test_options(const gp_model *model, size_t stages, int64_t batch, int micro_batches) {
    const char *device = getenv("GPIPE_TEST_DEVICE");
    bool reference = device && strcmp(device, "reference") == 0;
    return (gp_engine_options){.model = model,
                               .stages = stages,
                               .batch = batch,
                               .micro_batches = micro_batches,
                               .device = {.type = reference ? GP_DEVICE_REFERENCE : GP_DEVICE_CPU},
                               .optimizer = GP_UPDATE_ADAMW,
                               .seed = 7};
}

gp_step_options test_step_options(uint32_t step, double clip) {
    double t = step + 1.0;
    return (gp_step_options){.step = step,
                             .update = {.kind = GP_UPDATE_ADAMW,
                                        .lr = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .epsilon = 1e-8,
                                        .first = step == 0,
                                        .correction1 = 1 - pow(0.9, t),
                                        .correction2 = 1 - pow(0.99, t)},
                             .weight_decay = 0.1,
                             .clip = clip};
}

float *test_read_all(gp_engine *engine, const gp_model *model, bool gradients, size_t *count) {
    size_t parameters = gp_model_parameters(model), states = gradients ? 0 : gp_model_states(model), at = 0;
    size_t room = (size_t)gp_model_parameter_count(model);
    for (size_t s = 0; s < states; s++)
        room += (size_t)gp_shape_elements(gp_model_state(model, s).shape);
    float *values = gp_allocate_array(room, sizeof *values);
    assert_non_null(values);
    for (size_t p = 0; p < parameters; p++) {
        if (gradients) {
            assert_ok(gp_engine_read_gradient(engine, p, values + at));
        } else {
            assert_ok(gp_engine_read_parameter(engine, p, values + at));
        }
        at += (size_t)gp_shape_elements(gp_model_parameter(model, p).shape);
    }
    for (size_t s = 0; s < states; s++) {
        assert_ok(gp_engine_read_state(engine, s, values + at));
        at += (size_t)gp_shape_elements(gp_model_state(model, s).shape);
    }
    *count = at;
    return values;
}

static void assert_plan_is_reality(const gp_engine *engine) {
    const gp_engine_plan *plan = gp_engine_planned(engine);
    for (size_t w = 0; w < plan->workers; w++)
        assert_int_equal(plan->worker[w].bytes.total, gp_engine_high_water(engine, w));
}

float *test_train(const gp_engine_options *options, int64_t samples, int steps, double clip, double *loss,
                  size_t *count) {
    gp_engine *engine;
    gp_step_result result = {0};
    assert_ok(gp_engine_create(&engine, options));
    assert_ok(gp_engine_initialise(engine, 42));
    for (int s = 0; s < steps; s++) {
        gp_batch batch;
        gp_step_options step = test_step_options((uint32_t)s, clip);
        test_batch_create(&batch, options->model, samples, (uint64_t)s);
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
        if (!result.finite) fail_msg("step %d: %s", s, result.fault);
        test_batch_destroy(&batch);
    }
    float *weights = test_read_all(engine, options->model, false, count);
    assert_plan_is_reality(engine);
    gp_engine_destroy(engine);
    if (loss) *loss = result.loss;
    return weights;
}

void test_assert_same(const float *a, const float *b, size_t count, const char *what) {
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            fail_msg("%s: number %zu of %zu is %.9g and %.9g", what, i, count, (double)a[i], (double)b[i]);
}
