/* GPT-2 (Radford et al. 2019) of any size, out of built-in layers: text_embedding, transformer blocks, layer_norm,
 * linear head. Initial values as in the published code: normal(0, 0.02), the maps that end a residual branch normal(0,
 * 0.02 / sqrt(2 * layers)), because that many branches add up; biases 0, norms 1. */
#include <inttypes.h>
#include <math.h>

#include "base/options.h"
#include "base/status.h"
#include "models/zoo.h"

static const double deviation = 0.02;

gp_status gp_zoo_resolve_gpt2(gp_gpt2_options *options) {
    GP_TRY(gp_zoo_size("gpt2", "layers", &options->layers, 12));
    GP_TRY(gp_zoo_size("gpt2", "heads", &options->heads, 12));
    GP_TRY(gp_zoo_size("gpt2", "width", &options->width, 768));
    GP_TRY(gp_zoo_size("gpt2", "context", &options->context, 1024));
    GP_TRY(gp_zoo_size("gpt2", "positions", &options->positions, options->context));
    GP_TRY(gp_zoo_size("gpt2", "vocabulary", &options->vocabulary, 50257));
    if (options->width % options->heads != 0)
        return gp_error(GP_INVALID, "gpt2: %" PRId64 " heads do not divide a width of %" PRId64, options->heads,
                        options->width);
    if (options->positions < options->context)
        return gp_error(GP_INVALID, "gpt2: positions is %" PRId64 ", fewer than the context of %" PRId64,
                        options->positions, options->context);
    return gp_zoo_dropout("gpt2", "dropout", options->dropout);
}

static gp_status add_layers(gp_model *model, const gp_gpt2_options *options) {
    bool bias = !options->no_bias;
    gp_option embedding[] = {gp_zoo_integer("vocabulary", options->vocabulary), gp_zoo_integer("width", options->width),
                             gp_zoo_integer("context", options->positions), gp_zoo_number("dropout", options->dropout),
                             gp_zoo_number("init", deviation)};
    GP_TRY(gp_zoo_add(model, "text_embedding", embedding, sizeof embedding / sizeof *embedding));
    double last = deviation / sqrt(2.0 * (double)options->layers);
    gp_option block[] = {gp_zoo_integer("heads", options->heads), gp_zoo_number("dropout", options->dropout),
                         gp_zoo_boolean("bias", bias), gp_zoo_number("init", deviation),
                         gp_zoo_number("projection_init", last)};
    for (int64_t i = 0; i < options->layers; i++)
        GP_TRY(gp_zoo_add(model, "transformer", block, sizeof block / sizeof *block));
    gp_option norm[] = {gp_zoo_boolean("bias", bias)};
    GP_TRY(gp_zoo_add(model, "layer_norm", norm, 1));
    gp_option head[] = {gp_zoo_integer("features", options->vocabulary), gp_zoo_boolean("bias", false),
                        gp_zoo_number("init", deviation), gp_zoo_text("tie", "layers.0.token.weight")};
    return gp_zoo_add(model, "linear", head, options->untied ? 3 : 4);
}

gp_status gp_model_create_gpt2(gp_model **model, const gp_gpt2_options *options) {
    gp_gpt2_options resolved;
    *model = NULL;
    GP_TRY(gp_options_read(&resolved, sizeof resolved, options, "gp_gpt2_options"));
    GP_TRY(gp_zoo_resolve_gpt2(&resolved));
    gp_model *created = NULL;
    GP_TRY(gp_model_create(&created, (gp_type){GP_I32, gp_shape_of(1, &resolved.context)}));
    return gp_zoo_finish(model, created, add_layers(created, &resolved));
}
