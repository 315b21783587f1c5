/* BERT of transformers, in and out: heads by the architecture or chosen, query, key and value as one, old names, and
 * the way out and in again. */
#include "exchange/foreign_files.h"

#include <sys/stat.h>

#define BLOCK(i)                                                                                                       \
    {"encoder.layer." #i ".attention.self.query.weight", 2, {4, 4}},                                                   \
        {"encoder.layer." #i ".attention.self.query.bias", 1, {4}},                                                    \
        {"encoder.layer." #i ".attention.self.key.weight", 2, {4, 4}},                                                 \
        {"encoder.layer." #i ".attention.self.key.bias", 1, {4}},                                                      \
        {"encoder.layer." #i ".attention.self.value.weight", 2, {4, 4}},                                               \
        {"encoder.layer." #i ".attention.self.value.bias", 1, {4}},                                                    \
        {"encoder.layer." #i ".attention.output.dense.weight", 2, {4, 4}},                                             \
        {"encoder.layer." #i ".attention.output.dense.bias", 1, {4}},                                                  \
        {"encoder.layer." #i ".attention.output.LayerNorm.weight", 1, {4}},                                            \
        {"encoder.layer." #i ".attention.output.LayerNorm.bias", 1, {4}},                                              \
        {"encoder.layer." #i ".intermediate.dense.weight", 2, {6, 4}},                                                 \
        {"encoder.layer." #i ".intermediate.dense.bias", 1, {6}},                                                      \
        {"encoder.layer." #i ".output.dense.weight", 2, {4, 6}}, {"encoder.layer." #i ".output.dense.bias", 1, {4}},   \
        {"encoder.layer." #i ".output.LayerNorm.weight", 1, {4}}, {                                                    \
        "encoder.layer." #i ".output.LayerNorm.bias", 1, {                                                             \
            4                                                                                                          \
        }                                                                                                              \
    }

enum {
    ENCODER = 5 + 2 * 16,
    POOLER = ENCODER,
    PREDICTIONS = POOLER + 2,
    NEXT = PREDICTIONS + 5,
    CLASSIFIER = NEXT + 2
};

static const foreign_tensor tensors[] = {
    {"embeddings.word_embeddings.weight", 2, {7, 4}},
    {"embeddings.position_embeddings.weight", 2, {5, 4}},
    {"embeddings.token_type_embeddings.weight", 2, {2, 4}},
    {"embeddings.LayerNorm.weight", 1, {4}},
    {"embeddings.LayerNorm.bias", 1, {4}},
    BLOCK(0),
    BLOCK(1),
    {"pooler.dense.weight", 2, {4, 4}},
    {"pooler.dense.bias", 1, {4}},
    {"=cls.predictions.transform.dense.weight", 2, {4, 4}},
    {"=cls.predictions.transform.dense.bias", 1, {4}},
    {"=cls.predictions.transform.LayerNorm.weight", 1, {4}},
    {"=cls.predictions.transform.LayerNorm.bias", 1, {4}},
    {"=cls.predictions.bias", 1, {7}},
    {"=cls.seq_relationship.weight", 2, {2, 4}},
    {"=cls.seq_relationship.bias", 1, {2}},
    {"=classifier.weight", 2, {3, 4}},
    {"=classifier.bias", 1, {3}},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static void write_folder(temporary *t, const char *architecture, const char *more, size_t count, const char *prefix) {
    char config[800];
    snprintf(
        config, sizeof config,
        "{\"model_type\": \"bert\", \"architectures\": [\"%s\"], \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 2, \"hidden_size\": 4, \"intermediate_size\": 6, \"max_position_embeddings\": 5, "
        "\"vocab_size\": 7, \"hidden_dropout_prob\": 0.25, \"attention_probs_dropout_prob\": 0.25%s}",
        architecture, more);
    foreign_write_config(t, config);
    foreign_write(temporary_path(t, "model.safetensors"), tensors, count, prefix, GP_F32);
}

static void check_encoder(const gp_shards *file) {
    assert_parameter(file, "layers.0.token.weight", "embeddings.word_embeddings.weight", 7, 4, false);
    assert_parameter(file, "layers.0.position.weight", "embeddings.position_embeddings.weight", 5, 4, false);
    assert_parameter(file, "layers.0.type.weight", "embeddings.token_type_embeddings.weight", 2, 4, false);
    assert_parameter(file, "layers.0.norm.bias", "embeddings.LayerNorm.bias", 4, 1, false);
    static const char *const parts[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        char weight[80], bias[80];
        snprintf(weight, sizeof weight, "encoder.layer.1.attention.self.%s.weight", parts[i]);
        snprintf(bias, sizeof bias, "encoder.layer.1.attention.self.%s.bias", parts[i]);
        for (int e = 0; e < 16; e++)
            assert_element(file, "layers.2.attention.qkv.weight", 16 * i + e, weight, e);
        for (int e = 0; e < 4; e++)
            assert_element(file, "layers.2.attention.qkv.bias", 4 * i + e, bias, e);
    }
    assert_parameter(file, "layers.1.attention.projection.weight", "encoder.layer.0.attention.output.dense.weight", 4,
                     4, false);
    assert_parameter(file, "layers.1.norm1.weight", "encoder.layer.0.attention.output.LayerNorm.weight", 4, 1, false);
    assert_parameter(file, "layers.2.feed_forward.up.weight", "encoder.layer.1.intermediate.dense.weight", 6, 4, false);
    assert_parameter(file, "layers.2.feed_forward.down.bias", "encoder.layer.1.output.dense.bias", 4, 1, false);
    assert_parameter(file, "layers.2.norm2.bias", "encoder.layer.1.output.LayerNorm.bias", 4, 1, false);
}

static void out_and_in(temporary *t, const gp_foreign_options *options) {
    char folder[300], own[300], again[340];
    snprintf(folder, sizeof folder, "%s/out", t->folder);
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    snprintf(again, sizeof again, "%s/again", folder);
    gp_foreign *foreign = foreign_open(t->folder, options);
    gp_family_options family = *gp_foreign_family(foreign);
    mkdir(folder, 0777);
    if (gp_export_huggingface(&family, own, folder, NULL) != GP_OK) fail_msg("%s", gp_error_message());
    gp_foreign_close(foreign);
    foreign = foreign_open(folder, options);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    assert_int_equal(gp_foreign_new_count(foreign), 0);
    assert_int_equal(gp_foreign_family(foreign)->bert.classes, family.bert.classes);
    assert_int_equal(gp_foreign_write(foreign, again), GP_OK);
    gp_foreign_close(foreign);
    assert_same_files(own, again);
    static const char *const left[] = {"model.safetensors", "config.json", "again"};
    for (int i = 0; i < 3; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void test_masked(void **state) {
    temporary *t = *state;
    for (int i = 0; i < 2; i++) {
        write_folder(t, "BertForMaskedLM", "", i ? CLASSIFIER : NEXT, "bert.");
        gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
        check_encoder(file);
        assert_parameter(file, "layers.3.weight", "cls.predictions.transform.dense.weight", 4, 4, false);
        assert_parameter(file, "layers.5.weight", "cls.predictions.transform.LayerNorm.weight", 4, 1, false);
        assert_parameter(file, "layers.6.bias", "cls.predictions.bias", 7, 1, false);
        gp_shards_close(file);
        gp_foreign *foreign = foreign_open(t->folder, NULL);
        assert_int_equal(gp_foreign_unused_count(foreign), i ? 4 : 2); /* the pooler, and the other head */
        assert_true(gp_foreign_family(foreign)->bert.dropout == 0.25);
        gp_foreign_close(foreign);
        out_and_in(t, NULL);
    }
}

static void test_pretraining(void **state) {
    temporary *t = *state;
    write_folder(t, "BertForPreTraining", "", CLASSIFIER, "bert.");
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    check_encoder(file);
    assert_parameter(file, "layers.3.pooler.weight", "pooler.dense.weight", 4, 4, false);
    assert_parameter(file, "layers.3.classifier.weight", "cls.seq_relationship.weight", 2, 4, false);
    assert_parameter(file, "layers.3.classifier.bias", "cls.seq_relationship.bias", 2, 1, false);
    assert_parameter(file, "layers.4.weight", "cls.predictions.transform.dense.weight", 4, 4, false);
    assert_parameter(file, "layers.6.bias", "cls.predictions.transform.LayerNorm.bias", 4, 1, false);
    assert_parameter(file, "layers.7.bias", "cls.predictions.bias", 7, 1, false);
    gp_shards_close(file);
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    gp_foreign_close(foreign);
    out_and_in(t, NULL);
    gp_foreign_options masked = {.choose_head = true, .head = GP_BERT_MASKED};
    foreign = foreign_open(t->folder, &masked);
    assert_int_equal(gp_foreign_unused_count(foreign), 4); /* the pooler, and the other head */
    gp_foreign_close(foreign);
}

static void test_classify(void **state) {
    temporary *t = *state;
    write_folder(t, "BertForSequenceClassification",
                 ", \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}, \"type_vocab_size\": 2", TENSORS,
                 "bert.");
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    check_encoder(file);
    assert_parameter(file, "layers.3.weight", "pooler.dense.weight", 4, 4, false);
    assert_parameter(file, "layers.5.weight", "classifier.weight", 3, 4, false);
    assert_parameter(file, "layers.5.bias", "classifier.bias", 3, 1, false);
    gp_shards_close(file);
    out_and_in(t, NULL);
    write_folder(t, "BertForNextSentencePrediction", "", CLASSIFIER, "bert.");
    file = foreign_import(t, t->folder, "own.safetensors", NULL);
    assert_parameter(file, "layers.4.weight", "cls.seq_relationship.weight", 2, 4, false);
    gp_shards_close(file);
    out_and_in(t, NULL);
}

static void test_encoders(void **state) {
    temporary *t = *state;
    write_folder(t, "BertModel", "", PREDICTIONS, "");
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    check_encoder(file);
    assert_int_equal(gp_shards_count(file), 5 + 2 * 12);
    gp_shards_close(file);
    out_and_in(t, NULL);
    gp_foreign_options pooled = {.choose_head = true, .head = GP_BERT_POOLED};
    file = foreign_import(t, t->folder, "own.safetensors", &pooled);
    assert_parameter(file, "layers.3.bias", "pooler.dense.bias", 4, 1, false);
    gp_shards_close(file);
    out_and_in(t, &pooled);
}

/* For fine-tuning: what the files lack behind the encoder starts anew, by the model's own rule; nothing else may. */
static void test_a_head_of_ones_own(void **state) {
    temporary *t = *state;
    gp_foreign_options options = {.choose_head = true, .head = GP_BERT_CLASSIFY, .classes = 4, .seed = 3};
    write_folder(t, "BertForMaskedLM", "", ENCODER, "bert.");
    gp_foreign *foreign = foreign_open(t->folder, &options);
    static const char *const names[] = {"layers.3.weight", "layers.3.bias", "layers.5.weight", "layers.5.bias"};
    assert_int_equal(gp_foreign_new_count(foreign), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(gp_foreign_new(foreign, i), names[i]);
    gp_foreign_close(foreign);
    float before[16] = {0}, after[16];
    for (uint64_t seed = 3; seed < 5; seed++) {
        options.seed = seed;
        gp_shards *file = foreign_import(t, t->folder, "own.safetensors", &options);
        size_t tensor;
        check_encoder(file);
        assert_true(gp_shards_find(file, "layers.5.weight", &tensor));
        assert_int_equal(gp_shards_read(file, tensor, 0, 16, GP_F32, after), GP_OK);
        assert_true(after[0] != 0 && memcmp(before, after, sizeof before) != 0);
        memcpy(before, after, sizeof before);
        gp_shards_close(file);
    }
    write_folder(t, "BertForMaskedLM", "", ENCODER - 1, "bert.");
    assert_refused(t->folder, &options, "has no tensor bert.encoder.layer.1.output.LayerNorm.bias");
    write_folder(t, "BertForMaskedLM", "", ENCODER, "bert.");
    assert_refused(t->folder, NULL, "has no tensor cls.predictions.transform.dense.weight");
    options.classes = 0; /* the file's own number, which it does not say: two */
    foreign = foreign_open(t->folder, &options);
    assert_int_equal(gp_foreign_family(foreign)->bert.classes, 2);
    gp_foreign_close(foreign);
}

/* Files converted from TensorFlow call the norm's parameters gamma and beta. */
static void test_old_names(void **state) {
    temporary *t = *state;
    static char names[TENSORS][100];
    foreign_tensor old[ENCODER];
    write_folder(t, "BertModel", "", ENCODER, "");
    memcpy(old, tensors, sizeof old);
    for (size_t i = 0; i < ENCODER; i++) {
        const char *norm = strstr(old[i].name, "LayerNorm.");
        if (!norm) continue;
        snprintf(names[i], sizeof names[i], "%.*s%s", (int)(norm + 10 - old[i].name), old[i].name,
                 strstr(norm, "weight") ? "gamma" : "beta");
        old[i].name = names[i];
    }
    foreign_write(temporary_path(t, "model.safetensors"), old, ENCODER, "", GP_F32);
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    assert_parameter(file, "layers.0.norm.weight", "embeddings.LayerNorm.gamma", 4, 1, false);
    assert_parameter(file, "layers.2.norm2.bias", "encoder.layer.1.output.LayerNorm.beta", 4, 1, false);
    gp_shards_close(file);
}

static void test_refused(void **state) {
    static const char *const cases[][3] = {
        {"BertForTokenClassification", "", "\"architectures\" has \"BertForTokenClassification\": BertModel, "},
        {"BertModel", ", \"hidden_act\": \"mish\"", "\"hidden_act\" is \"mish\": gelu"},
        {"BertModel", ", \"position_embedding_type\": \"relative_key\"", "absolute is accepted"},
        {"BertModel", ", \"is_decoder\": true", "\"is_decoder\" is true: gpipe's model has only false"},
        {"BertModel", ", \"type_vocab_size\": 3", "token_type_embeddings.weight is f32[2,4], but the sizes in"},
        {"BertModel", ", \"type_vocab_size\": -1", "\"type_vocab_size\" is -1: an integer from 1"},
        {"BertModel", ", \"layer_norm_eps\": -1", "\"layer_norm_eps\" is -1"},
        {"BertForSequenceClassification", ", \"num_labels\": 4", "classifier.weight is f32[3,4], but the sizes in"},
        {"BertForSequenceClassification", ", \"num_labels\": \"x\"", "\"num_labels\" is \"x\""},
    };
    temporary *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_folder(t, cases[i][0], cases[i][1], TENSORS, "bert.");
        assert_refused(t->folder, NULL, cases[i][2]);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, temporary_destroy)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_masked),    TEST(test_pretraining),        TEST(test_classify), TEST(test_encoders),
        TEST(test_old_names), TEST(test_a_head_of_ones_own), TEST(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
