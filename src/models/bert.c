/* BERT (Devlin et al., arXiv 1810.04805) of any size, out of built-in layers: bert_embedding, transformer blocks with
 * the norm after the sum, and a head. Initial values as in the published code: normal(0, 0.02), biases 0, norms 1. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "models/blocks.h"
#include "models/zoo.h"

static const double deviation = 0.02;

#define COUNT(options) (sizeof(options) / sizeof *(options))

static gp_status check_head(const gp_bert_options *options) {
    static const char *const words[] = {
#define HEAD_WORD(name, word, meaning) word,
        GP_BERT_HEADS(HEAD_WORD)
#undef HEAD_WORD
    };
    if ((unsigned)options->head >= COUNT(words))
        return gp_error(GP_INVALID, "bert: there is no head number %d", (int)options->head);
    if (options->head != GP_BERT_CLASSIFY && options->classes != 0)
        return gp_error(GP_INVALID, "bert: head %s has no classes, but %" PRId64 " are given", words[options->head],
                        options->classes);
    if (options->head == GP_BERT_CLASSIFY && (options->classes < 2 || options->classes > INT32_MAX))
        return gp_error(GP_INVALID, "bert: classes is %" PRId64 ", but head classify needs 2 or more",
                        options->classes);
    return GP_OK;
}

/* As heavy as the tokens that are hidden in a sample, so that both means count about alike, as in the published sum. */
static gp_status check_next_sentence(gp_bert_options *options) {
    if (options->next_sentence == 0) options->next_sentence = 0.15 * (double)options->context;
    if (options->next_sentence > 0 && isfinite(options->next_sentence)) return GP_OK;
    return gp_error(GP_INVALID, "bert: the weight of the next sentence is %g: above 0 is accepted",
                    options->next_sentence);
}

gp_status gp_zoo_resolve_bert(gp_bert_options *options) {
    GP_TRY(gp_zoo_size("bert", "layers", &options->layers, 12));
    GP_TRY(gp_zoo_size("bert", "heads", &options->heads, 12));
    GP_TRY(gp_zoo_size("bert", "width", &options->width, 768));
    GP_TRY(gp_zoo_size("bert", "feed_forward", &options->feed_forward, 4 * options->width));
    GP_TRY(gp_zoo_size("bert", "context", &options->context, 512));
    GP_TRY(gp_zoo_size("bert", "positions", &options->positions, options->context));
    GP_TRY(gp_zoo_size("bert", "vocabulary", &options->vocabulary, 30522));
    GP_TRY(gp_zoo_size("bert", "types", &options->types, 2));
    if (options->width % options->heads != 0)
        return gp_error(GP_INVALID, "bert: %" PRId64 " heads do not divide a width of %" PRId64, options->heads,
                        options->width);
    if (options->positions < options->context)
        return gp_error(GP_INVALID, "bert: positions is %" PRId64 ", fewer than the context of %" PRId64,
                        options->positions, options->context);
    if (options->epsilon == 0) options->epsilon = 1e-12;
    GP_TRY(check_next_sentence(options));
    if (!options->activation) options->activation = "gelu";
    GP_TRY(gp_zoo_dropout("bert", "dropout", options->dropout));
    return check_head(options);
}

static gp_status add_encoder(gp_model *model, const gp_bert_options *options) {
    gp_option embedding[] = {gp_zoo_integer("vocabulary", options->vocabulary), gp_zoo_integer("width", options->width),
                             gp_zoo_integer("context", options->positions),     gp_zoo_integer("types", options->types),
                             gp_zoo_number("dropout", options->dropout),        gp_zoo_number("init", deviation),
                             gp_zoo_number("epsilon", options->epsilon)};
    GP_TRY(gp_zoo_add(model, "bert_embedding", embedding, COUNT(embedding)));
    gp_option block[] = {gp_zoo_integer("heads", options->heads),
                         gp_zoo_integer("feed_forward", options->feed_forward),
                         gp_zoo_boolean("causal", false),
                         gp_zoo_boolean("pre_norm", false),
                         gp_zoo_text("activation", options->activation),
                         gp_zoo_number("dropout", options->dropout),
                         gp_zoo_number("epsilon", options->epsilon),
                         gp_zoo_number("init", deviation),
                         gp_zoo_text("mask", "mask")};
    for (int64_t i = 0; i < options->layers; i++)
        GP_TRY(gp_zoo_add(model, "transformer", block, COUNT(block)));
    return GP_OK;
}

/* Linear map, activation, norm. */
static gp_status add_transform(gp_model *model, const gp_bert_options *options) {
    gp_option transform[] = {gp_zoo_integer("features", options->width), gp_zoo_number("init", deviation)};
    gp_option norm[] = {gp_zoo_number("epsilon", options->epsilon)};
    gp_option tanh_form[] = {gp_zoo_text("approximate", "tanh")};
    bool approximate = strcmp(options->activation, "gelu_tanh") == 0;
    GP_TRY(gp_zoo_add(model, "linear", transform, COUNT(transform)));
    GP_TRY(gp_zoo_add(model, approximate ? "gelu" : options->activation, tanh_form, approximate ? 1 : 0));
    return gp_zoo_add(model, "layer_norm", norm, COUNT(norm));
}

/* With the token embedding as weight of the last linear map. */
static gp_status add_masked_head(gp_model *model, const gp_bert_options *options) {
    gp_option decoder[] = {gp_zoo_integer("features", options->vocabulary), gp_zoo_number("init", deviation),
                           gp_zoo_text("tie", "layers.0.token.weight")};
    GP_TRY(add_transform(model, options));
    return gp_zoo_add(model, "linear", decoder, options->untied ? 2 : 3);
}

/* ---- both heads ---- */

static const char relation_skip[] = "next sentence";

typedef struct relation {
    double weight; /* of the next sentence in the loss, against one hidden token */
    int64_t vocabulary;
    bool untied;
} relation;

/* Whether the second part follows the first, from the features of [CLS]; what the encoder made goes on as it is. */
static gp_value relation_forward(const void *self, gp_builder *builder, gp_value input) {
    const gp_weight_init init = {true, deviation, false};
    gp_shape shape = gp_value_type(input).shape;
    (void)self;
    if (shape.rank != 3) return gp_builder_error(builder, "next_sentence: the input is not [batch, time, width]");
    gp_value first = gp_slice(input, 1, 0, 1);
    first = gp_reshape(first, gp_shape_of(2, (int64_t[]){shape.dims[0], shape.dims[2]}));
    gp_value pooled = gp_tanh(gp_build_linear(builder, "pooler", first, shape.dims[2], true, init, NULL));
    gp_builder_keep(builder, relation_skip, gp_build_linear(builder, "classifier", pooled, 2, true, init, NULL));
    return input;
}

/* The last linear map of the masked head, which has the answer about the sentences counted in the loss. */
static gp_value decoder_forward(const void *self, gp_builder *builder, gp_value input) {
    const relation *layer = self;
    const gp_weight_init init = {true, deviation, false};
    gp_builder_auxiliary(builder, gp_builder_recall(builder, relation_skip), layer->weight);
    return gp_build_linear(builder, NULL, input, layer->vocabulary, true, init,
                           layer->untied ? NULL : "layers.0.token.weight");
}

static const gp_layer_class relation_class = {
    .size = sizeof(gp_layer_class), .kind = "next_sentence", .forward = relation_forward, .destroy = gp_free};
static const gp_layer_class decoder_class = {
    .size = sizeof(gp_layer_class), .kind = "pretraining_decoder", .forward = decoder_forward, .destroy = gp_free};

static gp_status add_pretraining_heads(gp_model *model, const gp_bert_options *options) {
    relation own = {options->next_sentence, options->vocabulary, options->untied};
    GP_TRY(gp_zoo_add_copy(model, &relation_class, &own, sizeof own));
    GP_TRY(add_transform(model, options));
    return gp_zoo_add_copy(model, &decoder_class, &own, sizeof own);
}

static gp_status add_pooler(gp_model *model) {
    gp_option init[] = {gp_zoo_number("init", deviation)};
    return gp_zoo_add(model, "pooler", init, 1);
}

/* The dropout layer is there whatever its probability, so that names do not depend on it. */
static gp_status add_classifier(gp_model *model, const gp_bert_options *options, int64_t classes) {
    gp_option dropout[] = {gp_zoo_number("p", options->dropout)};
    gp_option classifier[] = {gp_zoo_integer("features", classes), gp_zoo_number("init", deviation)};
    GP_TRY(add_pooler(model));
    if (options->head == GP_BERT_CLASSIFY) GP_TRY(gp_zoo_add(model, "dropout", dropout, 1));
    return gp_zoo_add(model, "linear", classifier, COUNT(classifier));
}

static gp_status add_layers(gp_model *model, const gp_bert_options *options) {
    GP_TRY(add_encoder(model, options));
    switch (options->head) {
    case GP_BERT_MASKED:
        return add_masked_head(model, options);
    case GP_BERT_PRETRAINING:
        return add_pretraining_heads(model, options);
    case GP_BERT_CLASSIFY:
        return add_classifier(model, options, options->classes);
    case GP_BERT_NEXT_SENTENCE:
        return add_classifier(model, options, 2);
    case GP_BERT_POOLED:
        return add_pooler(model);
    case GP_BERT_HIDDEN:
        break;
    }
    return GP_OK;
}

gp_status gp_model_create_bert(gp_model **model, const gp_bert_options *options) {
    gp_bert_options resolved;
    *model = NULL;
    GP_TRY(gp_options_read(&resolved, sizeof resolved, options, "gp_bert_options"));
    GP_TRY(gp_zoo_resolve_bert(&resolved));
    gp_model *created = NULL;
    GP_TRY(gp_model_create(&created, (gp_type){GP_I32, gp_shape_of(2, (int64_t[]){3, resolved.context})}));
    return gp_zoo_finish(model, created, add_layers(created, &resolved));
}
