/* BERT of the zoo: parameter counts as published, names, heads, what is refused. */
#include <math.h>

#include "layers/build_models.h"

static gp_model *bert(const gp_bert_options *options) {
    gp_model *model = NULL;
    assert_ok(gp_model_create_bert(&model, options));
    return model;
}

static void assert_count(const gp_bert_options *options, int64_t parameters) {
    gp_model *model = bert(options);
    assert_int_equal(gp_model_parameter_count(model), parameters);
    gp_model_destroy(model);
}

static void test_counts(void **state) {
    (void)state;
    assert_count(&(gp_bert_options){.head = GP_BERT_POOLED}, 109482240);
    assert_count(NULL, 109514298);
    assert_count(&(gp_bert_options){.head = GP_BERT_CLASSIFY, .classes = 2}, 109483778);
    assert_count(&(gp_bert_options){.head = GP_BERT_NEXT_SENTENCE}, 109483778);
    assert_count(&(gp_bert_options){.head = GP_BERT_HIDDEN}, 109482240 - 768 * 769);
    assert_count(&(gp_bert_options){.head = GP_BERT_PRETRAINING}, 110106428); /* as transformers' BertForPreTraining */
    assert_count(&(gp_bert_options){.untied = true}, 109514298 + 30522 * 768);
    gp_bert_options large = {.layers = 24, .heads = 16, .width = 1024, .head = GP_BERT_POOLED};
    assert_count(&large, 335141888);
    /* Fewer tokens than positions change nothing. */
    assert_count(&(gp_bert_options){.context = 128, .positions = 512, .head = GP_BERT_POOLED}, 109482240);
}

static const gp_bert_options small = {.layers = 1, .heads = 2, .width = 8, .context = 4, .vocabulary = 11};

static void assert_names(const gp_model *model, size_t first, const char *const *names, size_t count) {
    assert_int_equal(gp_model_parameters(model), first + count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(gp_model_parameter(model, first + i).name, names[i]);
}

static void test_names(void **state) {
    (void)state;
    gp_model *model = bert(&small);
    const char *names[] = {"layers.0.token.weight",
                           "layers.0.position.weight",
                           "layers.0.type.weight",
                           "layers.0.norm.weight",
                           "layers.0.norm.bias",
                           "layers.1.attention.qkv.weight",
                           "layers.1.attention.qkv.bias",
                           "layers.1.attention.projection.weight",
                           "layers.1.attention.projection.bias",
                           "layers.1.norm1.weight",
                           "layers.1.norm1.bias",
                           "layers.1.feed_forward.up.weight",
                           "layers.1.feed_forward.up.bias",
                           "layers.1.feed_forward.down.weight",
                           "layers.1.feed_forward.down.bias",
                           "layers.1.norm2.weight",
                           "layers.1.norm2.bias",
                           "layers.2.weight",
                           "layers.2.bias",
                           "layers.4.weight",
                           "layers.4.bias",
                           "layers.5.bias"};
    assert_names(model, 0, names, sizeof names / sizeof *names);
    assert_type(gp_model_input_type(model), "i32[3,4]");
    assert_type(gp_model_output_type(model), "f32[4,11]");
    assert_type(gp_model_target_type(model), "i32[4]");
    assert_int_equal(gp_model_parameter(model, 0).init.kind, GP_INIT_NORMAL);
    assert_true(fabs(gp_model_parameter(model, 5).init.value - 0.02) < 1e-15);
    gp_model_destroy(model);
}

static void test_heads(void **state) {
    (void)state;
    gp_bert_options options = small;
    options.head = GP_BERT_CLASSIFY;
    options.classes = 3;
    gp_model *model = bert(&options);
    const char *names[] = {"layers.2.weight", "layers.2.bias", "layers.4.weight", "layers.4.bias"};
    assert_names(model, 17, names, 4);
    assert_type(gp_model_output_type(model), "f32[3]");
    assert_type(gp_model_target_type(model), "i32[]");
    gp_model_destroy(model);
    options.head = GP_BERT_PRETRAINING;
    options.classes = 0;
    model = bert(&options);
    const char *both[] = {"layers.2.pooler.weight",   "layers.2.pooler.bias", "layers.2.classifier.weight",
                          "layers.2.classifier.bias", "layers.3.weight",      "layers.3.bias",
                          "layers.5.weight",          "layers.5.bias",        "layers.6.bias"};
    assert_names(model, 17, both, 9);
    assert_type(gp_model_output_type(model), "f32[4,11]");
    assert_type(gp_model_target_type(model), "i32[5]");
    gp_model_destroy(model);
    options.head = GP_BERT_HIDDEN;
    model = bert(&options);
    assert_type(gp_model_output_type(model), "f32[4,8]");
    gp_model_destroy(model);
}

static void test_errors(void **state) {
    (void)state;
    gp_model *model = NULL;
    const struct {
        gp_bert_options options;
        const char *part;
    } cases[] = {{{.layers = -1}, "layers is -1"},
                 {{.heads = 5}, "5 heads do not divide a width of 768"},
                 {{.dropout = 1}, "dropout is 1"},
                 {{.positions = 4}, "positions is 4, fewer than the context of 512"},
                 {{.head = GP_BERT_CLASSIFY}, "classes is 0, but head classify needs 2 or more"},
                 {{.classes = 2}, "head masked has no classes"},
                 {{.head = (gp_bert_head)9}, "no head number 9"},
                 {{.next_sentence = -1}, "the weight of the next sentence is -1"},
                 {{.activation = "gelo"}, "nearest accepted one is \"gelu\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_message(gp_model_create_bert(&model, &cases[i].options), GP_INVALID, cases[i].part);
        assert_null(model);
    }
}

/* The layer refuses what is no sample of three rows; a mask needs full attention and a layer that keeps it. */
static void test_layers(void **state) {
    (void)state;
    gp_option embedding[] = {INTEGER("vocabulary", 11), INTEGER("width", 8)};
    gp_model *model = model_of(type_of(GP_I32, 2, (int64_t[]){2, 4}));
    add(model, "bert_embedding", embedding, 2);
    assert_message(gp_model_finish(model), GP_INVALID, "i32[batch, 3, time] is needed");
    gp_model_destroy(model);
    model = model_of(type_of(GP_I32, 2, (int64_t[]){3, 4}));
    add(model, "bert_embedding", embedding, 2);
    add(model, "attention", OPTIONS(INTEGER("heads", 2), BOOLEAN("causal", 0), TEXT("mask", "maks")));
    assert_message(gp_model_finish(model), GP_INVALID, "maks");
    gp_model_destroy(model);
    gp_layer *layer = NULL;
    assert_message(
        gp_layer_create_builtin(&layer, "attention", OPTIONS(INTEGER("heads", 2), TEXT("mask", "mask")), NULL, 0),
        GP_INVALID, "needs causal: false");
    assert_null(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_names),  cmocka_unit_test(test_heads),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
