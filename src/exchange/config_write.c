/* Writing config.json, so that transformers finds the class and the sizes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "exchange/config_json.h"

static json_t *describe_gpt2(const gp_gpt2_options *options, double dropout) {
    return json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:n, s:s, s:f, s:f, s:f, s:f, s:b}", "architectures",
                     "GPT2LMHeadModel", "model_type", "gpt2", "n_layer", (json_int_t)options->layers, "n_head",
                     (json_int_t)options->heads, "n_embd", (json_int_t)options->width, "n_positions",
                     (json_int_t)options->positions, "vocab_size", (json_int_t)options->vocabulary, "n_inner",
                     "activation_function", "gelu_new", "layer_norm_epsilon", 1e-5, "resid_pdrop", dropout,
                     "attn_pdrop", dropout, "embd_pdrop", dropout, "tie_word_embeddings", !options->untied);
}

static const char *architecture(gp_bert_head head) {
    switch (head) {
    case GP_BERT_MASKED:
        return "BertForMaskedLM";
    case GP_BERT_PRETRAINING:
        return "BertForPreTraining";
    case GP_BERT_CLASSIFY:
        return "BertForSequenceClassification";
    case GP_BERT_NEXT_SENTENCE:
        return "BertForNextSentencePrediction";
    case GP_BERT_POOLED:
    case GP_BERT_HIDDEN:
        break;
    }
    return "BertModel";
}

static const char *activation(const char *own) {
    return own && strcmp(own, "gelu_tanh") == 0 ? "gelu_new" : own ? own : "gelu";
}

/* "LABEL_0" and so on: transformers derives the number of classes from these. */
static void add_labels(json_t *config, int64_t classes) {
    json_t *labels = json_object();
    for (int64_t i = 0; i < classes; i++) {
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)i);
        json_object_set_new(labels, key, json_sprintf("LABEL_%lld", (long long)i));
    }
    json_object_set_new(config, "id2label", labels);
}

static json_t *describe_bert(const gp_bert_options *options, double dropout) {
    json_t *config =
        json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:s, s:b}", "architectures",
                  architecture(options->head), "model_type", "bert", "num_hidden_layers", (json_int_t)options->layers,
                  "num_attention_heads", (json_int_t)options->heads, "hidden_size", (json_int_t)options->width,
                  "intermediate_size", (json_int_t)options->feed_forward, "max_position_embeddings",
                  (json_int_t)options->positions, "vocab_size", (json_int_t)options->vocabulary, "type_vocab_size",
                  (json_int_t)options->types, "hidden_act", activation(options->activation), "layer_norm_eps",
                  options->epsilon, "hidden_dropout_prob", dropout, "attention_probs_dropout_prob", dropout,
                  "position_embedding_type", "absolute", "tie_word_embeddings", !options->untied);
    if (config && options->head == GP_BERT_CLASSIFY) add_labels(config, options->classes);
    return config;
}

static const char *torch_name(gp_dtype dtype) {
    return dtype == GP_BF16 ? "bfloat16" : dtype == GP_F16 ? "float16" : "float32";
}

gp_status gp_config_json_write(const gp_family_options *family, const char *path, const gp_export_options *options) {
    json_t *config = family->family == GP_FAMILY_GPT2 ? describe_gpt2(&family->gpt2, options->dropout)
                                                      : describe_bert(&family->bert, options->dropout);
    if (config) json_object_set_new(config, "torch_dtype", json_string(torch_name(options->dtype)));
    char *dumped = config ? json_dumps(config, JSON_INDENT(2)) : NULL;
    char *text = dumped ? gp_format_text("%s\n", dumped) : NULL;
    gp_status status = text ? gp_file_write_text(path, text)
                            : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for a configuration");
    free(dumped); /* Jansson's */
    gp_free(text);
    json_decref(config);
    return status;
}
