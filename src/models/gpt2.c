/* GPT-2 (Radford et al. 2019) of any size, out of built-in layers: text_embedding, transformer blocks, layer_norm,
 * linear head. Initial values as in the published code: normal(0, 0.02), the maps that end a residual branch normal(0,
 * 0.02 / sqrt(2 * layers)), because that many branches add up; biases 0, norms 1. */
#include <inttypes.h>
#include <math.h>

#include "base/options.h"
#include "base/status.h"
#include "gpipe/layer.h"

static const double deviation = 0.02;

static gp_option integer(const char *key, int64_t value) {
    return (gp_option){.key = key, .type = GP_OPTION_INTEGER, .integer = value};
}

static gp_option number(const char *key, double value) {
    return (gp_option){.key = key, .type = GP_OPTION_NUMBER, .number = value};
}

static gp_option boolean(const char *key, bool value) {
    return (gp_option){.key = key, .type = GP_OPTION_BOOLEAN, .integer = value};
}

static gp_status add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    GP_TRY(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    return gp_model_add(model, layer);
}

static gp_status resolve_one(const char *key, int64_t *value, int64_t standard) {
    if (*value == 0) *value = standard;
    if (*value >= 1 && *value <= INT32_MAX) return GP_OK;
    return gp_error(GP_INVALID, "gpt2: %s is %" PRId64 ", but 1 or more is accepted (0: %" PRId64 ")", key, *value,
                    standard);
}

static gp_status resolve(gp_gpt2_options *options) {
    GP_TRY(resolve_one("layers", &options->layers, 12));
    GP_TRY(resolve_one("heads", &options->heads, 12));
    GP_TRY(resolve_one("width", &options->width, 768));
    GP_TRY(resolve_one("context", &options->context, 1024));
    GP_TRY(resolve_one("vocabulary", &options->vocabulary, 50257));
    if (options->width % options->heads != 0)
        return gp_error(GP_INVALID, "gpt2: %" PRId64 " heads do not divide a width of %" PRId64, options->heads,
                        options->width);
    if (!(options->dropout >= 0 && options->dropout < 1))
        return gp_error(GP_INVALID, "gpt2: dropout is %g, but 0 or more and less than 1 is accepted", options->dropout);
    return GP_OK;
}

static gp_status add_layers(gp_model *model, const gp_gpt2_options *options) {
    bool bias = !options->no_bias;
    gp_option embedding[] = {integer("vocabulary", options->vocabulary), integer("width", options->width),
                             integer("context", options->context), number("dropout", options->dropout),
                             number("init", deviation)};
    GP_TRY(add(model, "text_embedding", embedding, sizeof embedding / sizeof *embedding));
    double last = deviation / sqrt(2.0 * (double)options->layers);
    gp_option block[] = {integer("heads", options->heads), number("dropout", options->dropout), boolean("bias", bias),
                         number("init", deviation), number("projection_init", last)};
    for (int64_t i = 0; i < options->layers; i++)
        GP_TRY(add(model, "transformer", block, sizeof block / sizeof *block));
    gp_option norm[] = {boolean("bias", bias)};
    GP_TRY(add(model, "layer_norm", norm, 1));
    gp_option head[] = {integer("features", options->vocabulary),
                        boolean("bias", false),
                        number("init", deviation),
                        {.key = "tie", .type = GP_OPTION_TEXT, .text = "layers.0.token.weight"}};
    return add(model, "linear", head, options->untied ? 3 : 4);
}

gp_status gp_model_create_gpt2(gp_model **model, const gp_gpt2_options *options) {
    gp_gpt2_options resolved;
    *model = NULL;
    GP_TRY(gp_options_read(&resolved, sizeof resolved, options, "gp_gpt2_options"));
    GP_TRY(resolve(&resolved));
    gp_model *created = NULL;
    GP_TRY(gp_model_create(&created, (gp_type){GP_I32, gp_shape_of(1, &resolved.context)}));
    gp_status status = add_layers(created, &resolved);
    if (status == GP_OK) status = gp_model_finish(created);
    if (status != GP_OK) {
        gp_model_destroy(created);
        return status;
    }
    *model = created;
    return GP_OK;
}
