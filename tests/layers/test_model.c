/* Models: names, types, counts, initial values, and what is said about models that are wrong. */
#include <math.h>

#include "base/memory.h"
#include "layers/build_models.h"

static const gp_parameter_info *find(const gp_model *model, const char *name) {
    static gp_parameter_info info;
    for (size_t i = 0; i < gp_model_parameters(model); i++) {
        info = gp_model_parameter(model, i);
        if (strcmp(info.name, name) == 0) return &info;
    }
    fail_msg("there is no parameter %s", name);
    return NULL;
}

static void assert_names(const gp_model *model, const char *const *names, size_t count) {
    for (size_t i = 0; i < count && i < gp_model_parameters(model); i++)
        assert_string_equal(gp_model_parameter(model, i).name, names[i]);
    assert_int_equal(gp_model_parameters(model), count);
}

/* Finishes a model of one layer and checks the type of its output. */
static void check_layer(gp_type sample, gp_layer *layer, const char *output, int64_t parameters) {
    gp_model *model = model_of(sample);
    assert_ok(gp_model_add(model, layer));
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    assert_type(gp_model_output_type(model), output);
    assert_int_equal(gp_model_parameter_count(model), parameters);
    assert_int_equal(gp_model_layer_parameter_count(model, 0), parameters);
    gp_build_options options = {.batch = 3, .dtype = GP_BF16, .training = true, .gradients = true, .loss = true};
    gp_built built;
    assert_ok(gp_model_build(model, &options, &built)); /* every layer works on bf16 too, and returns it */
    assert_int_equal(gp_value_type(built.output).dtype, GP_BF16);
    for (size_t i = 0; i < built.use_count; i++)
        assert_int_equal(gp_value_type(built.uses[i].gradient).dtype, GP_F32);
    gp_built_destroy(&built);
    gp_model_destroy(model);
}

static void test_every_kind(void **state) {
    (void)state;
    gp_type row = type_of(GP_F32, 1, (int64_t[]){6}), text = type_of(GP_F32, 2, (int64_t[]){5, 8});
    gp_type tokens = type_of(GP_I32, 1, (int64_t[]){5});
    check_layer(row, layer_of("linear", OPTIONS(INTEGER("features", 4))), "f32[4]", 28);
    check_layer(text, layer_of("linear", OPTIONS(INTEGER("features", 4), BOOLEAN("bias", 0))), "f32[5,4]", 32);
    check_layer(tokens, layer_of("embedding", OPTIONS(INTEGER("vocabulary", 11), INTEGER("width", 3))), "f32[5,3]", 33);
    check_layer(text, layer_of("positions", NO_OPTIONS), "f32[5,8]", 40);
    check_layer(text, layer_of("positions", OPTIONS(INTEGER("context", 7))), "f32[5,8]", 56);
    check_layer(text, layer_of("positions", OPTIONS(TEXT("kind", "sinusoidal"))), "f32[5,8]", 0);
    check_layer(tokens, layer_of("text_embedding", OPTIONS(INTEGER("vocabulary", 11), INTEGER("width", 3))), "f32[5,3]",
                48);
    check_layer(text, layer_of("layer_norm", NO_OPTIONS), "f32[5,8]", 16);
    check_layer(text, layer_of("layer_norm", OPTIONS(BOOLEAN("bias", 0))), "f32[5,8]", 8);
    check_layer(text, layer_of("rms_norm", NO_OPTIONS), "f32[5,8]", 8);
    const char *plain[] = {"relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "dropout"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        check_layer(text, layer_of(plain[i], NO_OPTIONS), "f32[5,8]", 0);
    check_layer(text, layer_of("attention", OPTIONS(INTEGER("heads", 2))), "f32[5,8]", 4 * 64 + 32);
    check_layer(text, layer_of("attention", OPTIONS(INTEGER("heads", 2), BOOLEAN("causal", 0), BOOLEAN("bias", 0))),
                "f32[5,8]", 4 * 64);
    check_layer(text, layer_of("feed_forward", NO_OPTIONS), "f32[5,8]", 2 * 8 * 32 + 32 + 8);
    check_layer(text,
                layer_of("feed_forward", OPTIONS(INTEGER("width", 3), BOOLEAN("bias", 0), TEXT("activation", "silu"))),
                "f32[5,8]", 48);
    check_layer(text, layer_of("transformer", OPTIONS(INTEGER("heads", 4))), "f32[5,8]", 288 + 552 + 32);
    check_layer(text,
                layer_of("transformer", OPTIONS(INTEGER("heads", 4), BOOLEAN("bias", 0), BOOLEAN("pre_norm", 0),
                                                NUMBER("dropout", 0.1))),
                "f32[5,8]", 256 + 512 + 16);
    check_layer(text,
                layer_of("transformer", OPTIONS(INTEGER("heads", 4), TEXT("norm", "rms_norm"),
                                                INTEGER("feed_forward", 3), BOOLEAN("causal", 0))),
                "f32[5,8]", 288 + 48 + 11 + 16);
    check_layer(text, layer_of("flatten", NO_OPTIONS), "f32[40]", 0);
    check_layer(text, layer_of("reshape", OPTIONS(TEXT("shape", "2,-1,2"))), "f32[2,10,2]", 0);
    check_layer(text, layer_of("mean", OPTIONS(INTEGER("axis", 1))), "f32[8]", 0);
    check_layer(text, layer_of("mean", OPTIONS(INTEGER("axis", -1), BOOLEAN("keep", 1))), "f32[5,1]", 0);
}

static void test_nested_names(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    add_linear(model, 6);
    gp_layer *inner[] = {layer_of("linear", OPTIONS(INTEGER("features", 6))), layer_of("relu", NO_OPTIONS),
                         layer_of("linear", OPTIONS(INTEGER("features", 6), BOOLEAN("bias", 0)))};
    gp_layer *residual = NULL;
    assert_ok(gp_layer_create_builtin(&residual, "residual", NULL, 0, inner, 3));
    gp_layer *outer[] = {residual, layer_of("layer_norm", NO_OPTIONS)};
    add_container(model, "sequential", outer, 2);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    const char *names[] = {"layers.0.weight",
                           "layers.0.bias",
                           "layers.1.residual.linear0.weight",
                           "layers.1.residual.linear0.bias",
                           "layers.1.residual.linear1.weight",
                           "layers.1.layer_norm.weight",
                           "layers.1.layer_norm.bias"};
    assert_names(model, names, sizeof names / sizeof *names);
    assert_int_equal(gp_model_layer_count(model), 2);
    assert_string_equal(gp_model_layer_kind(model, 1), "sequential");
    assert_int_equal(gp_model_layer_parameter_count(model, 0), 42);
    assert_int_equal(gp_model_layer_parameter_count(model, 1), 42 + 36 + 12);
    assert_int_equal(gp_model_parameter_count(model), 42 + 42 + 36 + 12);
    assert_int_equal(find(model, "layers.1.layer_norm.bias")->layer, 1);
    gp_model_destroy(model);
}

static void test_types(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){5}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 11), INTEGER("width", 3)));
    add_linear(model, 11);
    assert_ok(gp_model_finish(model));
    assert_type(gp_model_input_type(model), "i32[5]");
    assert_type(gp_model_output_type(model), "f32[5,11]");
    assert_type(gp_model_target_type(model), "i32[5]");
    gp_model_destroy(model);

    model = model_of(type_of(GP_F32, 1, (int64_t[]){5}));
    add_linear(model, 3);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    assert_type(gp_model_target_type(model), "f32[3]");
    gp_model_destroy(model);
}

/* A linear layer does 2 multiply-adds a weight and position forward, twice that backward; the first one has no gradient
 * of its input. Small terms (bias, loss) are left room. */
static void test_flops(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_F32, 2, (int64_t[]){10, 100}));
    add_linear(model, 200);
    add_linear(model, 300);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    double first = 4.0 * 10 * 100 * 200, second = 6.0 * 10 * 200 * 300;
    assert_true(gp_model_layer_flops(model, 0) >= first && gp_model_layer_flops(model, 0) < 1.05 * first);
    assert_true(gp_model_layer_flops(model, 1) >= second && gp_model_layer_flops(model, 1) < 1.05 * second);
    gp_model_destroy(model);
}

static void test_initial_values(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){5}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 1000), INTEGER("width", 16)));
    add_linear(model, 400);
    add(model, "layer_norm", NO_OPTIONS);
    add(model, "linear", OPTIONS(INTEGER("features", 5), NUMBER("init", 0.5)));
    assert_ok(gp_model_finish(model));
    float *values = gp_allocate(16000 * sizeof *values), *again = gp_allocate(16000 * sizeof *again);
    gp_parameter_initialise(find(model, "layers.0.weight"), 7, values);
    double sum = 0, squares = 0;
    for (int i = 0; i < 16000; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sum / 16000) < 0.05 && fabs(squares / 16000 - 1) < 0.05);
    gp_parameter_initialise(find(model, "layers.0.weight"), 7, again);
    assert_memory_equal(values, again, 16000 * sizeof *values);
    gp_parameter_initialise(find(model, "layers.0.weight"), 8, again);
    assert_memory_not_equal(values, again, 16000 * sizeof *values);

    gp_parameter_initialise(find(model, "layers.1.weight"), 7, values);
    float least = 1, most = -1;
    for (int i = 0; i < 6400; i++) {
        least = fminf(least, values[i]);
        most = fmaxf(most, values[i]);
    }
    assert_true(least >= -0.25f && least < -0.24f && most <= 0.25f && most > 0.24f);
    gp_parameter_initialise(find(model, "layers.1.bias"), 7, again);
    assert_true(fabsf(again[0]) <= 0.25f && again[0] != values[0]); /* other names, other numbers */
    gp_parameter_initialise(find(model, "layers.2.weight"), 7, values);
    assert_true(values[0] == 1.0f && values[399] == 1.0f);
    gp_parameter_initialise(find(model, "layers.2.bias"), 7, values);
    assert_true(values[0] == 0.0f && values[399] == 0.0f);
    gp_parameter_initialise(find(model, "layers.3.bias"), 7, values);
    assert_true(values[0] == 0.0f && values[4] == 0.0f);
    assert_true(find(model, "layers.3.bias")->no_decay && find(model, "layers.2.weight")->no_decay);
    assert_false(find(model, "layers.3.weight")->no_decay);
    gp_free(values);
    gp_free(again);
    gp_model_destroy(model);
}

static void test_loss_weight(void **state) {
    (void)state;
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){2}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 9), INTEGER("width", 9)));
    gp_loss loss = {.kind = GP_LOSS_CROSS_ENTROPY, .cross_entropy = {.has_ignored = true, .ignored = -1}};
    assert_ok(gp_model_set_loss(model, &loss));
    assert_ok(gp_model_finish(model));
    int32_t targets[] = {0, -1, -1, -1, 3, 4};
    float weights[] = {0.5f, 1, 1, 1, 0.25f, 2};
    gp_tensor tensor = {type_of(GP_I32, 2, (int64_t[]){3, 2}), targets};
    gp_tensor weighted = {type_of(GP_F32, 2, (int64_t[]){3, 2}), weights};
    assert_true(gp_model_loss_weight(model, &tensor, NULL, 0, 3) == 3);
    assert_true(gp_model_loss_weight(model, &tensor, NULL, 1, 1) == 0);
    assert_true(gp_model_loss_weight(model, &tensor, NULL, 1, 2) == 2);
    assert_true(gp_model_loss_weight(model, &tensor, &weighted, 0, 3) == 2.75);
    assert_true(gp_model_loss_weight(model, &tensor, &weighted, 2, 1) == 2.25);
    gp_model_destroy(model);

    model = model_of(type_of(GP_F32, 1, (int64_t[]){2}));
    add_linear(model, 3);
    use_squared_error(model);
    assert_ok(gp_model_finish(model));
    assert_true(gp_model_loss_weight(model, &tensor, NULL, 1, 2) == 2);
    gp_model_destroy(model);
}

/* ---- wrong models ---- */

static void assert_refused(gp_model *model, const char *part) {
    assert_message(gp_model_finish(model), GP_INVALID, part);
    gp_model_destroy(model);
}

static gp_model *rows(void) {
    gp_model *model = model_of(type_of(GP_F32, 1, (int64_t[]){6}));
    use_squared_error(model);
    return model;
}

static void test_skip_errors(void **state) {
    (void)state;
    gp_model *model = rows();
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 6);
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    assert_refused(model, "layer 2 (keep): keeps skip \"a\", which layer 0 (keep) keeps already");

    model = rows();
    add_linear(model, 6);
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 6);
    assert_refused(model, "layer 1 (keep): keeps skip \"a\", which no later layer recalls");

    model = rows();
    add(model, "keep", OPTIONS(TEXT("name", "long")));
    add(model, "add_kept", OPTIONS(TEXT("name", "lnog")));
    assert_refused(model,
                   "layer 1 (add_kept): skip \"lnog\" is recalled, but no earlier layer keeps it (the nearest kept one "
                   "is \"long\")");

    model = rows();
    add(model, "add_kept", OPTIONS(TEXT("name", "a"))); /* kept, but later */
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    assert_refused(model, "layer 0 (add_kept): skip \"a\" is recalled");

    model = rows();
    gp_layer *twice[] = {layer_of("keep", OPTIONS(TEXT("name", "a"))), layer_of("keep", OPTIONS(TEXT("name", "a")))};
    add_container(model, "sequential", twice, 2);
    assert_refused(model, "layer 0 (sequential), keep1 (keep): skip \"a\" is kept twice");

    model = rows();
    add(model, "keep", OPTIONS(TEXT("name", "a")));
    add_linear(model, 5);
    add(model, "add_kept", OPTIONS(TEXT("name", "a")));
    assert_refused(model, "layer 2 (add_kept): add_kept: the input is f32[2,5], but skip \"a\" is f32[2,6]");
}

static void test_tie_errors(void **state) {
    (void)state;
    gp_model *model = rows();
    add_linear(model, 6);
    add(model, "linear", OPTIONS(INTEGER("features", 6), TEXT("tie", "layers.0.wieght")));
    assert_refused(
        model, "layer 1 (linear): layers.1.weight is tied to \"layers.0.wieght\", which this and the earlier layers "
               "do not declare (the nearest one is \"layers.0.weight\")");
    model = rows();
    add_linear(model, 5);
    add(model, "linear", OPTIONS(INTEGER("features", 6), TEXT("tie", "layers.0.weight")));
    assert_refused(model, "layers.1.weight is f32[6,5], but \"layers.0.weight\", to which it is tied, is f32[5,6]");
    model = rows();
    add(model, "linear", OPTIONS(INTEGER("features", 6), TEXT("tie", "layers.1.weight"))); /* a later one */
    add_linear(model, 6);
    assert_refused(model, "layer 0 (linear): layers.0.weight is tied");
    const char *odd[] = {"layers.", "layers.x.weight", "layers.99999999999999999999999.weight", "layers.-1.weight",
                         "weight"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        model = rows();
        add_linear(model, 6);
        add(model, "linear", OPTIONS(INTEGER("features", 6), TEXT("tie", odd[i])));
        assert_refused(model, odd[i]);
    }
}

static void test_shape_errors(void **state) {
    (void)state;
    gp_model *model = rows();
    add_linear(model, 6);
    add(model, "attention", OPTIONS(INTEGER("heads", 2)));
    assert_refused(model, "layer 1 (attention): attention: the input is f32[2,6], but [batch, time, width]");

    model = model_of(type_of(GP_F32, 2, (int64_t[]){4, 6}));
    add(model, "transformer", OPTIONS(INTEGER("heads", 4)));
    assert_refused(
        model,
        "layer 0 (transformer), attention (attention): attention: 4 heads do not divide the width of f32[2,4,6]");

    model = rows(); /* numbers where indices are wanted: the operation says so itself */
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 5), INTEGER("width", 3)));
    assert_message(gp_model_finish(model), GP_INVALID, "layer 0 (embedding): embedding");
    assert_non_null(strstr(gp_error_message(), "f32[2,6]"));
    gp_model_destroy(model);

    model = rows();
    add(model, "reshape", OPTIONS(TEXT("shape", "4")));
    assert_message(gp_model_finish(model), GP_INVALID, "layer 0 (reshape): reshape");
    assert_non_null(strstr(gp_error_message(), "f32[2,6]"));
    gp_model_destroy(model);

    model = rows();
    gp_layer *children[] = {layer_of("linear", OPTIONS(INTEGER("features", 1)))};
    add_container(model, "residual", children, 1);
    assert_refused(model, "layer 0 (residual): residual: the layers inside return f32[2,1], but the input is f32[2,6]");

    model = model_of(type_of(GP_F32, 2, (int64_t[]){4, 6}));
    add(model, "positions", OPTIONS(INTEGER("context", 3)));
    assert_refused(model, "positions: the input has 4 positions, the context is 3");

    model = rows();
    add(model, "mean", OPTIONS(INTEGER("axis", -2)));
    assert_refused(model, "layer 0 (mean): mean: axis -2 of an input of rank 2");
}

static void test_model_errors(void **state) {
    (void)state;
    gp_model *model = NULL;
    assert_message(gp_model_create(&model, type_of(GP_BF16, 1, (int64_t[]){6})), GP_INVALID, "bf16[6]");
    assert_null(model);
    assert_message(gp_model_create(&model, type_of(GP_F32, 1, (int64_t[]){0})), GP_INVALID, "f32[0]");
    assert_message(gp_model_create(&model, type_of(GP_F32, 6, (int64_t[]){1, 1, 1, 1, 1, 1})), GP_INVALID, "0 to 5");
    assert_int_equal(gp_model_create(&model, (gp_type){GP_F32, {.rank = -1}}), GP_INVALID);
    assert_refused(rows(), "no layers");

    model = rows();
    add_linear(model, 3);
    assert_message(gp_model_set_loss(model, &(gp_loss){.cross_entropy = {.label_smoothing = 1}}), GP_INVALID,
                   "smoothing");
    assert_ok(gp_model_finish(model));
    assert_int_equal(gp_model_finish(model), GP_INVALID);
    assert_message(gp_model_add(model, layer_of("relu", NO_OPTIONS)), GP_INVALID, "layer relu comes too late");
    assert_message(gp_model_add(model, NULL), GP_INVALID, "no layer");
    assert_int_equal(gp_model_set_loss(model, &(gp_loss){0}), GP_INVALID);
    gp_model_destroy(model);
    gp_model_destroy(NULL);

    model = model_of(type_of(GP_I32, 1, (int64_t[]){6}));
    add(model, "flatten", NO_OPTIONS);
    assert_refused(model, "the loss needs floating-point outputs, the last layer returns i32[6]");
    model = model_of(type_of(GP_F32, 0, NULL));
    add(model, "relu", NO_OPTIONS);
    assert_refused(model, "needs classes as last dimension");
}

/* ---- a user's own classes that break the rules ---- */

typedef enum misdeed {
    NO_VALUE,
    OPEN_SCOPE,
    POP_TOO_MUCH,
    MIX_SAMPLES,
    SAME_NAME,
    NO_NAME,
    BAD_SHAPE,
    BAD_INIT,
    FORGETFUL,
    MOODY,
    COMPLAIN
} misdeed;

static gp_value misbehave(const void *self, gp_builder *builder, gp_value input) {
    static int calls;
    calls++;
    gp_shape one = gp_shape_of(1, (int64_t[]){6});
    switch (*(const misdeed *)self) {
    case NO_VALUE:
        return gp_none();
    case OPEN_SCOPE:
        gp_builder_push(builder, "open");
        return input;
    case POP_TOO_MUCH:
        gp_builder_pop(builder);
        return input;
    case MIX_SAMPLES:
        return gp_reshape(input, gp_shape_of(1, (int64_t[]){-1}));
    case SAME_NAME:
        gp_builder_parameter(builder, "a", one, NULL);
        return gp_add(input, gp_builder_parameter(builder, "a", one, NULL));
    case NO_NAME:
        return gp_add(input, gp_builder_parameter(builder, "", one, NULL));
    case BAD_SHAPE:
        return gp_add(input, gp_builder_parameter(builder, "a", gp_shape_of(1, (int64_t[]){-6}), NULL));
    case BAD_INIT:
        return gp_add(input, gp_builder_parameter(builder, "a", one,
                                                  &(gp_parameter_options){.init = {GP_INIT_NORMAL, (double)INFINITY}}));
    case FORGETFUL: /* declares another name each time */
        return gp_add(input, gp_builder_parameter(builder, calls % 2 ? "odd" : "even", one, NULL));
    case MOODY: /* declares only at times */
        return calls % 2 ? input : gp_add(input, gp_builder_parameter(builder, "a", one, NULL));
    case COMPLAIN:
        gp_builder_push(builder, "inner");
        gp_builder_error(builder, "only %d today", 7);
        gp_builder_error(builder, "and nothing tomorrow");
        gp_builder_pop(builder);
        return gp_add(input, gp_builder_recall(builder, "unknown"));
    }
    return input;
}

static void test_misdeeds(void **state) {
    (void)state;
    const char *messages[] = {
        "layer 1 (own): its forward returned no value",
        "layer 1 (own): its forward left 1 scopes open",
        "layer 1 (own): gp_builder_pop without a gp_builder_push",
        "layer 1 (own): it returns f32[12] for 2 samples, but dimension 0 must stay the batch",
        "layer 1 (own): parameter layers.1.a is declared twice",
        "layer 1 (own): a parameter has no name",
        "layer 1 (own): parameter a: dimension 0 of a shape is -6",
        "layer 1 (own): parameter layers.1.a has an initial value",
        "layer 1 (own): declares layers.1.",
        "layer 1 (own): declares ",
        "layer 1 (own): only 7 today",
    };
    const gp_layer_class own = {.size = sizeof own, .kind = "own", .forward = misbehave};
    for (int deed = NO_VALUE; deed <= COMPLAIN; deed++) {
        misdeed kind = (misdeed)deed;
        gp_model *model = rows();
        add_linear(model, 6);
        gp_layer *layer = NULL;
        assert_ok(gp_layer_create(&layer, &own, &kind));
        assert_ok(gp_model_add(model, layer));
        assert_refused(model, messages[deed]);
    }
}

static gp_value nest(const void *self, gp_builder *builder, gp_value input) {
    int depth = *(const int *)self;
    for (int i = 0; i < depth; i++)
        gp_builder_push(builder, "a");
    for (int i = 0; i < depth; i++)
        gp_builder_pop(builder);
    return input;
}

static void test_deep_nesting(void **state) {
    (void)state;
    const gp_layer_class own = {.size = sizeof own, .kind = "own", .forward = nest};
    for (int depth = 32; depth < 50; depth += 10) {
        gp_model *model = rows();
        gp_layer *layer = NULL;
        assert_ok(gp_layer_create(&layer, &own, &depth));
        assert_ok(gp_model_add(model, layer));
        if (depth == 32) {
            assert_ok(gp_model_finish(model));
            gp_model_destroy(model);
        } else {
            assert_refused(model, "nested deeper than 32");
        }
    }
}

/* A failing allocation anywhere is reported, and nothing is lost (seen under the address sanitizer). */
static gp_status build_some_model(gp_model **model) {
    gp_layer *layer = NULL, *children[2] = {NULL, NULL};
    gp_status status = gp_model_create(model, type_of(GP_F32, 2, (int64_t[]){3, 4}));
    if (status == GP_OK) status = gp_layer_create_builtin(&layer, "keep", OPTIONS(TEXT("name", "a")), NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layer);
    if (status == GP_OK) status = gp_layer_create_builtin(&layer, "transformer", OPTIONS(INTEGER("heads", 2)), NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layer);
    if (status == GP_OK)
        status = gp_layer_create_builtin(&children[0], "linear", OPTIONS(INTEGER("features", 4)), NULL, 0);
    if (status == GP_OK) {
        status = gp_layer_create_builtin(&children[1], "relu", NO_OPTIONS, NULL, 0);
        if (status != GP_OK) gp_layer_destroy(children[0]);
    }
    if (status == GP_OK) status = gp_layer_create_builtin(&layer, "residual", NULL, 0, children, 2);
    if (status == GP_OK) status = gp_model_add(*model, layer);
    if (status == GP_OK) status = gp_layer_create_builtin(&layer, "add_kept", OPTIONS(TEXT("name", "a")), NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layer);
    gp_option tied[] = {INTEGER("features", 4), TEXT("tie", "layers.2.linear.weight")};
    if (status == GP_OK) status = gp_layer_create_builtin(&layer, "linear", tied, 2, NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layer);
    return status == GP_OK ? gp_model_finish(*model) : status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    gp_model *whole = NULL;
    uint64_t before = gp_allocation_count(), failures = 0;
    assert_ok(build_some_model(&whole));
    uint64_t allocations = gp_allocation_count() - before;
    gp_model_destroy(whole);
    for (uint64_t n = 1;; n++) {
        gp_model *model = NULL;
        gp_allocation_fail_at(n);
        gp_status status = build_some_model(&model);
        gp_allocation_fail_at(0);
        gp_model_destroy(model);
        if (status == GP_OK) break;
        assert_int_equal(status, GP_OUT_OF_MEMORY);
        failures++;
    }
    assert_int_equal(failures, allocations); /* none was swallowed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),     cmocka_unit_test(test_nested_names),
        cmocka_unit_test(test_types),          cmocka_unit_test(test_flops),
        cmocka_unit_test(test_initial_values), cmocka_unit_test(test_loss_weight),
        cmocka_unit_test(test_skip_errors),    cmocka_unit_test(test_tie_errors),
        cmocka_unit_test(test_shape_errors),   cmocka_unit_test(test_model_errors),
        cmocka_unit_test(test_misdeeds),       cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
