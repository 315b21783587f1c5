/* The zoo: parameter counts as published, names, initial values. */
#include <math.h>

#include "layers/build_models.h"

static gp_model *gpt2(const gp_gpt2_options *options) {
    gp_model *model = NULL;
    assert_ok(gp_model_create_gpt2(&model, options));
    return model;
}

static void test_counts(void **state) {
    (void)state;
    const struct {
        int64_t layers, heads, width, parameters;
    } sizes[] = {
        {0, 0, 0, 124439808},      {12, 12, 768, 124439808},   {24, 16, 1024, 354823168},
        {36, 20, 1280, 774030080}, {48, 25, 1600, 1557611200},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gp_gpt2_options options = {.layers = sizes[i].layers, .heads = sizes[i].heads, .width = sizes[i].width};
        gp_model *model = gpt2(&options);
        assert_int_equal(gp_model_parameter_count(model), sizes[i].parameters);
        int64_t sum = 0;
        for (size_t layer = 0; layer < gp_model_layer_count(model); layer++)
            sum += gp_model_layer_parameter_count(model, layer);
        assert_int_equal(sum, sizes[i].parameters);
        gp_model_destroy(model);
    }
    gp_model *model = gpt2(&(gp_gpt2_options){.untied = true});
    assert_int_equal(gp_model_parameter_count(model), 124439808 + 50257 * 768);
    gp_model_destroy(model);
    model = gpt2(&(gp_gpt2_options){.no_bias = true});
    assert_int_equal(gp_model_parameter_count(model), 124439808 - 12 * (3 + 1 + 4 + 1 + 2) * 768 - 768);
    gp_model_destroy(model);
}

/* The Transformer of the GPipe paper: width 2048, 8192 inside, 32 heads, 32,000 words, 1024 positions. Its published
 * counts come out with biases everywhere, sinusoidal positions, an untied head and no norm behind the last block. */
static gp_model *transformer_l(int64_t layers) {
    gp_model *model = model_of(type_of(GP_I32, 1, (int64_t[]){1024}));
    add(model, "embedding", OPTIONS(INTEGER("vocabulary", 32000), INTEGER("width", 2048)));
    add(model, "positions", OPTIONS(TEXT("kind", "sinusoidal")));
    for (int64_t i = 0; i < layers; i++)
        add(model, "transformer", OPTIONS(INTEGER("heads", 32), INTEGER("feed_forward", 8192), BOOLEAN("pre_norm", 0)));
    add(model, "linear", OPTIONS(INTEGER("features", 32000)));
    assert_ok(gp_model_finish(model));
    return model;
}

static void test_gpipe_transformers(void **state) {
    (void)state;
    const int64_t counts[][2] = {{3, 282178816}, {13, 785761536}, {103, 5318006016}, {1663, 83876910336}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gp_model *model = transformer_l(counts[i][0]);
        assert_int_equal(gp_model_parameter_count(model), counts[i][1]);
        gp_model_destroy(model);
    }
}

static void test_names(void **state) {
    (void)state;
    gp_model *model = gpt2(&(gp_gpt2_options){.layers = 1, .heads = 2, .width = 8, .context = 4, .vocabulary = 11});
    const char *names[] = {"layers.0.token.weight",
                           "layers.0.position.weight",
                           "layers.1.norm1.weight",
                           "layers.1.norm1.bias",
                           "layers.1.attention.qkv.weight",
                           "layers.1.attention.qkv.bias",
                           "layers.1.attention.projection.weight",
                           "layers.1.attention.projection.bias",
                           "layers.1.norm2.weight",
                           "layers.1.norm2.bias",
                           "layers.1.feed_forward.up.weight",
                           "layers.1.feed_forward.up.bias",
                           "layers.1.feed_forward.down.weight",
                           "layers.1.feed_forward.down.bias",
                           "layers.2.weight",
                           "layers.2.bias"};
    assert_int_equal(gp_model_parameters(model), sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(gp_model_parameter(model, i).name, names[i]);
    const char *kinds[] = {"text_embedding", "transformer", "layer_norm", "linear"};
    assert_int_equal(gp_model_layer_count(model), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(gp_model_layer_kind(model, i), kinds[i]);
    const gp_parameter_use *uses = NULL;
    size_t count = gp_model_uses(model, &uses);
    assert_int_equal(count, sizeof names / sizeof *names + 1);
    assert_int_equal(uses[count - 1].parameter, 0); /* the head uses the token embedding */
    assert_int_equal(uses[count - 1].layer, 3);
    assert_int_equal(gp_model_layer_parameter_count(model, 3), 0);
    assert_type(gp_model_output_type(model), "f32[4,11]");
    assert_type(gp_model_target_type(model), "i32[4]");
    gp_model_destroy(model);

    model =
        gpt2(&(gp_gpt2_options){.layers = 1, .heads = 2, .width = 8, .context = 4, .vocabulary = 11, .untied = true});
    assert_string_equal(gp_model_parameter(model, gp_model_parameters(model) - 1).name, "layers.3.weight");
    gp_model_destroy(model);
}

static void test_initial_values(void **state) {
    (void)state;
    gp_model *model = gpt2(&(gp_gpt2_options){.layers = 8, .heads = 2, .width = 8, .context = 4, .vocabulary = 11});
    for (size_t i = 0; i < gp_model_parameters(model); i++) {
        gp_parameter_info info = gp_model_parameter(model, i);
        bool last = strstr(info.name, "projection.weight") || strstr(info.name, "down.weight");
        if (info.shape.rank == 2) {
            assert_int_equal(info.init.kind, GP_INIT_NORMAL);
            assert_true(fabs(info.init.value - (last ? 0.02 / 4 : 0.02)) < 1e-15);
            assert_false(info.no_decay);
        } else {
            bool norm = strstr(info.name, ".norm") || info.layer == 9;
            bool one = norm && strstr(info.name, "weight");
            assert_int_equal(info.init.kind, one ? GP_INIT_CONSTANT : GP_INIT_ZEROS);
            if (one) assert_true(info.init.value == 1);
            assert_true(info.no_decay);
        }
    }
    gp_model_destroy(model);
}

/* 6 FLOPs a parameter and token (Kaplan et al., arXiv 2001.08361), and attention: 12 * layers * width * context a token
 * in full, half of it where causal masking is used. */
static void test_flops(void **state) {
    (void)state;
    gp_model *model = gpt2(NULL);
    double flops = 0, products = 6.0 * (124439808 - 1024.0 * 768) * 1024;
    for (size_t layer = 0; layer < gp_model_layer_count(model); layer++)
        flops += gp_model_layer_flops(model, layer);
    assert_true(flops > products && flops < 1.3 * products);
    gp_model_destroy(model);
}

static void test_errors(void **state) {
    (void)state;
    gp_model *model = NULL;
    assert_message(gp_model_create_gpt2(&model, &(gp_gpt2_options){.layers = -1}), GP_INVALID, "layers is -1");
    assert_null(model);
    assert_message(gp_model_create_gpt2(&model, &(gp_gpt2_options){.heads = 5}), GP_INVALID,
                   "5 heads do not divide a width of 768");
    assert_message(gp_model_create_gpt2(&model, &(gp_gpt2_options){.dropout = 1}), GP_INVALID, "dropout is 1");
    assert_message(gp_model_create_gpt2(&model, &(gp_gpt2_options){.vocabulary = INT64_MAX}), GP_INVALID, "vocabulary");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_gpipe_transformers),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_flops),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
