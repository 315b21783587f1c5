/* Reading config.json: a file that nobody vouches for. A setting that changes what the model computes and that gpipe's
 * models do not have is refused, never passed over. */
#include "exchange/config_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum { MOST_BYTES = 4 << 20, MOST_SIZE = INT32_MAX, MOST_LAYERS = 100000 };

/* ---- values ---- */

/* What a value is, for messages: at most 60 bytes of its JSON. */
static const char *describe(const json_t *value, char text[64]) {
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    size_t length = dumped ? strlen(dumped) : 0;
    bool whole = length < 60;
    snprintf(text, 64, "%.*s%s", whole ? 60 : 57, dumped ? dumped : "missing", whole ? "" : "...");
    free(dumped); /* Jansson's */
    return text;
}

static bool is_given(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    return value && !json_is_null(value);
}

/* An integer from 1 to `most`. Missing: the standard, unless that is 0. */
static gp_status read_size(const json_t *config, const char *key, int64_t standard, int64_t most, int64_t *size) {
    const json_t *value = json_object_get(config, key);
    char found[64];
    *size = standard;
    if (!is_given(config, key) && standard > 0) return GP_OK;
    if (json_is_integer(value)) *size = json_integer_value(value);
    if (json_is_integer(value) && *size >= 1 && *size <= most) return GP_OK;
    return gp_error(GP_INVALID, "\"%s\" is %s: an integer from 1 to %" PRId64 " is accepted", key,
                    describe(value, found), most);
}

static gp_status read_number(const json_t *config, const char *key, double standard, double *number) {
    const json_t *value = json_object_get(config, key);
    char found[64];
    *number = is_given(config, key) ? json_number_value(value) : standard;
    if (is_given(config, key) && !(json_is_number(value) && isfinite(*number) && *number >= 0 && *number < 1))
        return gp_error(GP_INVALID, "\"%s\" is %s: a number from 0 and below 1 is accepted", key,
                        describe(value, found));
    return GP_OK;
}

static gp_status read_switch(const json_t *config, const char *key, bool standard, bool *value) {
    const json_t *given = json_object_get(config, key);
    char found[64];
    *value = is_given(config, key) ? json_is_true(given) : standard;
    if (!is_given(config, key) || json_is_boolean(given)) return GP_OK;
    return gp_error(GP_INVALID, "\"%s\" is %s: true or false is accepted", key, describe(given, found));
}

/* A switch that must be as the model has it. */
static gp_status expect_switch(const json_t *config, const char *key, bool accepted) {
    bool value = accepted;
    GP_TRY(read_switch(config, key, accepted, &value));
    if (value == accepted) return GP_OK;
    return gp_error(GP_INVALID, "\"%s\" is %s: gpipe's model has only %s", key, value ? "true" : "false",
                    accepted ? "true" : "false");
}

static const char *text_at(const json_t *config, const char *key, const char *standard) {
    const char *text = json_string_value(json_object_get(config, key));
    return text ? text : standard;
}

/* One dropout where transformers has several: theirs when all are equal. */
static gp_status read_dropout(const json_t *config, const char *const *keys, size_t count, double *dropout) {
    double first = 0;
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        GP_TRY(read_number(config, keys[i], 0.1, &value));
        if (i == 0) first = value;
        if (value != first) first = 0;
    }
    *dropout = first;
    return GP_OK;
}

/* ---- GPT-2 ---- */

static gp_status read_gpt2(const json_t *config, gp_gpt2_options *options) {
    static const char *const dropouts[] = {"resid_pdrop", "attn_pdrop", "embd_pdrop"};
    char found[64];
    bool tied = true;
    double epsilon = 0;
    GP_TRY(read_size(config, "n_layer", 12, MOST_LAYERS, &options->layers));
    GP_TRY(read_size(config, "n_head", 12, MOST_SIZE, &options->heads));
    GP_TRY(read_size(config, "n_embd", 768, MOST_SIZE, &options->width));
    GP_TRY(read_size(config, is_given(config, "n_positions") ? "n_positions" : "n_ctx", 1024, MOST_SIZE,
                     &options->context));
    GP_TRY(read_size(config, "vocab_size", 50257, MOST_SIZE, &options->vocabulary));
    GP_TRY(read_switch(config, "tie_word_embeddings", true, &tied));
    GP_TRY(read_dropout(config, dropouts, 3, &options->dropout));
    GP_TRY(expect_switch(config, "scale_attn_weights", true));
    GP_TRY(expect_switch(config, "scale_attn_by_inverse_layer_idx", false));
    GP_TRY(expect_switch(config, "add_cross_attention", false));
    options->untied = !tied;
    int64_t inner = 0;
    GP_TRY(read_size(config, "n_inner", 4 * options->width, MOST_SIZE, &inner));
    if (inner != 4 * options->width)
        return gp_error(GP_INVALID, "\"n_inner\" is %" PRId64 ": gpipe's GPT-2 has 4 * n_embd, which is %" PRId64,
                        inner, 4 * options->width);
    const char *activation = text_at(config, "activation_function", "gelu_new");
    if (strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return gp_error(GP_INVALID, "\"activation_function\" is %s: gelu_new is accepted",
                        describe(json_object_get(config, "activation_function"), found));
    GP_TRY(read_number(config, "layer_norm_epsilon", 1e-5, &epsilon));
    if (fabs(epsilon - 1e-5) > 1e-12)
        return gp_error(GP_INVALID, "\"layer_norm_epsilon\" is %g: gpipe's GPT-2 has 1e-5", epsilon);
    return GP_OK;
}

/* ---- BERT ---- */

static const struct {
    const char *foreign, *own;
} activations[] = {{"gelu", "gelu"},           {"gelu_new", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
                   {"gelu_fast", "gelu_tanh"}, {"relu", "relu"},          {"silu", "silu"},
                   {"swish", "silu"}};

static gp_status read_activation(const json_t *config, const char **own) {
    const char *name = text_at(config, "hidden_act", "gelu");
    char found[64];
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        *own = activations[i].own;
        if (strcmp(activations[i].foreign, name) == 0) return GP_OK;
    }
    return gp_error(GP_INVALID, "\"hidden_act\" is %s: gelu, gelu_new, relu and silu are accepted",
                    describe(json_object_get(config, "hidden_act"), found));
}

/* The first class of the model that config.json names decides about the head. */
static gp_status read_head(const json_t *config, gp_bert_head *head) {
    static const struct {
        const char *architecture;
        gp_bert_head head;
    } heads[] = {{"BertForMaskedLM", GP_BERT_MASKED},
                 {"BertForPreTraining", GP_BERT_PRETRAINING},
                 {"BertForSequenceClassification", GP_BERT_CLASSIFY},
                 {"BertForNextSentencePrediction", GP_BERT_NEXT_SENTENCE},
                 {"BertModel", GP_BERT_HIDDEN}};
    const json_t *value = json_array_get(json_object_get(config, "architectures"), 0);
    const char *name = json_string_value(value);
    char found[64];
    *head = GP_BERT_HIDDEN;
    for (size_t i = 0; name && i < sizeof heads / sizeof *heads; i++) {
        *head = heads[i].head;
        if (strcmp(heads[i].architecture, name) == 0) return GP_OK;
    }
    if (!name) return GP_OK;
    return gp_error(GP_INVALID,
                    "\"architectures\" has %s: BertModel, BertForMaskedLM, BertForPreTraining, "
                    "BertForSequenceClassification and BertForNextSentencePrediction are accepted",
                    describe(value, found));
}

static gp_status read_classes(const json_t *config, int64_t *classes) {
    const json_t *labels = json_object_get(config, "id2label");
    int64_t standard = json_is_object(labels) && json_object_size(labels) > 1 ? (int64_t)json_object_size(labels) : 2;
    return read_size(config, "num_labels", standard, MOST_SIZE, classes);
}

static gp_status read_bert(const json_t *config, gp_bert_options *options, const gp_foreign_options *wanted) {
    static const char *const dropouts[] = {"hidden_dropout_prob", "attention_probs_dropout_prob"};
    char found[64];
    bool tied = true;
    GP_TRY(read_size(config, "num_hidden_layers", 12, MOST_LAYERS, &options->layers));
    GP_TRY(read_size(config, "num_attention_heads", 12, MOST_SIZE, &options->heads));
    GP_TRY(read_size(config, "hidden_size", 768, MOST_SIZE, &options->width));
    GP_TRY(read_size(config, "intermediate_size", 3072, MOST_SIZE, &options->feed_forward));
    GP_TRY(read_size(config, "max_position_embeddings", 512, MOST_SIZE, &options->context));
    GP_TRY(read_size(config, "vocab_size", 30522, MOST_SIZE, &options->vocabulary));
    GP_TRY(read_size(config, "type_vocab_size", 2, MOST_SIZE, &options->types));
    GP_TRY(read_switch(config, "tie_word_embeddings", true, &tied));
    GP_TRY(read_dropout(config, dropouts, 2, &options->dropout));
    GP_TRY(read_number(config, "layer_norm_eps", 1e-12, &options->epsilon));
    GP_TRY(read_activation(config, &options->activation));
    GP_TRY(expect_switch(config, "is_decoder", false));
    GP_TRY(expect_switch(config, "add_cross_attention", false));
    if (strcmp(text_at(config, "position_embedding_type", "absolute"), "absolute") != 0)
        return gp_error(GP_INVALID, "\"position_embedding_type\" is %s: absolute is accepted",
                        describe(json_object_get(config, "position_embedding_type"), found));
    options->head = wanted->head;
    if (!wanted->choose_head) GP_TRY(read_head(config, &options->head));
    if (options->head == GP_BERT_CLASSIFY) GP_TRY(read_classes(config, &options->classes));
    if (options->head == GP_BERT_CLASSIFY && wanted->classes > 0) options->classes = wanted->classes;
    options->untied = !tied && (options->head == GP_BERT_MASKED || options->head == GP_BERT_PRETRAINING);
    return GP_OK;
}

/* ---- the file ---- */

static gp_status read_object(gp_family_options *family, const json_t *config, const gp_foreign_options *options) {
    const json_t *type = json_object_get(config, "model_type");
    const char *name = text_at(config, "model_type", "");
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    char found[64];
    if (!json_is_object(config)) return gp_error(GP_INVALID, "it is not a JSON object");
    if (!*name && class) name = strncmp(class, "GPT2", 4) == 0 ? "gpt2" : strncmp(class, "Bert", 4) == 0 ? "bert" : "";
    memset(family, 0, sizeof *family);
    if (strcmp(name, "gpt2") == 0) {
        family->family = GP_FAMILY_GPT2;
        if (options->choose_head) return gp_error(GP_INVALID, "it is a gpt2: only a bert has heads to choose from");
        return read_gpt2(config, &family->gpt2);
    }
    family->family = GP_FAMILY_BERT;
    if (strcmp(name, "bert") == 0) return read_bert(config, &family->bert, options);
    return gp_error(GP_INVALID, "\"model_type\" is %s: gpt2 and bert are accepted", describe(type, found));
}

gp_status gp_config_json_read(gp_family_options *family, const char *path, const gp_foreign_options *options) {
    gp_file_map map;
    json_error_t error;
    json_t *config = NULL;
    GP_TRY(gp_file_map_open(&map, path));
    gp_status status = GP_OK;
    if (map.bytes > MOST_BYTES) {
        status = gp_error(GP_INVALID, "it has %zu bytes: up to %d are accepted", map.bytes, (int)MOST_BYTES);
    } else if (!(config = json_loadb((const char *)map.data, map.bytes, JSON_REJECT_DUPLICATES, &error))) {
        status = gp_error(GP_INVALID, "it is not valid JSON: line %d: %s", error.line, error.text);
    }
    if (status == GP_OK) status = read_object(family, config, options);
    json_decref(config);
    gp_file_map_close(&map);
    return gp_error_within(status, "'%s'", path);
}
