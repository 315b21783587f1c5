/* A Transformer block out of the other built-in layers: norm1, attention, norm2, feed_forward, each pair in a residual
 * branch. Norm first as in GPT-2 (Radford et al. 2019), or after the sum as published first (Vaswani et al. 2017). */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

enum { BRANCHES = 2 };

typedef struct transformer {
    gp_layer *norm[BRANCHES], *branch[BRANCHES];
    bool pre_norm;
} transformer;

static const char *const norm_scopes[BRANCHES] = {"norm1", "norm2"};
static const char *const branch_scopes[BRANCHES] = {"attention", "feed_forward"};

static gp_value within(gp_builder *builder, const char *scope, const gp_layer *layer, gp_value x) {
    gp_builder_push(builder, scope);
    gp_value result = gp_layer_forward(layer, builder, x);
    gp_builder_pop(builder);
    return result;
}

static gp_value forward(const void *self, gp_builder *builder, gp_value x) {
    const transformer *layer = self;
    for (int i = 0; i < BRANCHES; i++) {
        gp_value y = layer->pre_norm ? within(builder, norm_scopes[i], layer->norm[i], x) : x;
        y = within(builder, branch_scopes[i], layer->branch[i], y);
        x = gp_add(x, y);
        if (!layer->pre_norm) x = within(builder, norm_scopes[i], layer->norm[i], x);
    }
    return x;
}

static void destroy(void *self) {
    transformer *layer = self;
    for (int i = 0; layer && i < BRANCHES; i++) {
        gp_layer_destroy(layer->norm[i]);
        gp_layer_destroy(layer->branch[i]);
    }
    gp_free(layer);
}

static const gp_layer_class transformer_class = {
    .size = sizeof(gp_layer_class), .kind = "transformer", .forward = forward, .destroy = destroy};

/* Hands an option that was given on to a part, under the part's name for it. */
static size_t pass(const gp_arguments *arguments, const char *const (*keys)[2], size_t count, gp_option *options) {
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < arguments->info->option_count; j++) {
            const gp_option *given = arguments->given[j];
            if (!given || strcmp(given->key, keys[i][0]) != 0) continue;
            options[passed] = *given;
            options[passed++].key = keys[i][1];
        }
    }
    return passed;
}

static gp_status create_norms(const gp_arguments *arguments, transformer *self) {
    static const char *const known[] = {"layer_norm", "rms_norm"};
    static const char *const keys[][2] = {{"epsilon", "epsilon"}, {"bias", "bias"}};
    int kind = 0;
    gp_option options[GP_MAX_OPTIONS];
    GP_TRY(gp_argument_choice(arguments, "norm", known, 2, &kind));
    size_t count = pass(arguments, keys, kind == 0 ? 2 : 1, options); /* an rms_norm has no bias */
    for (int i = 0; i < BRANCHES; i++)
        GP_TRY(gp_layer_create_builtin(&self->norm[i], known[kind], options, count, NULL, 0));
    return GP_OK;
}

static gp_status create_branches(const gp_arguments *arguments, transformer *self) {
    static const char *const attention[][2] = {{"heads", "heads"},     {"causal", "causal"},
                                               {"dropout", "dropout"}, {"bias", "bias"},
                                               {"init", "init"},       {"projection_init", "projection_init"},
                                               {"mask", "mask"}};
    static const char *const feed_forward[][2] = {{"feed_forward", "width"}, {"activation", "activation"},
                                                  {"dropout", "dropout"},    {"bias", "bias"},
                                                  {"init", "init"},          {"projection_init", "projection_init"}};
    gp_option options[GP_MAX_OPTIONS];
    size_t count = pass(arguments, attention, sizeof attention / sizeof *attention, options);
    GP_TRY(gp_layer_create_builtin(&self->branch[0], "attention", options, count, NULL, 0));
    count = pass(arguments, feed_forward, sizeof feed_forward / sizeof *feed_forward, options);
    return gp_layer_create_builtin(&self->branch[1], "feed_forward", options, count, NULL, 0);
}

gp_status gp_create_transformer(gp_arguments *arguments, gp_layer **layer) {
    transformer *self = gp_allocate(sizeof *self);
    if (!self) return GP_OUT_OF_MEMORY;
    self->pre_norm = gp_argument_boolean(arguments, "pre_norm");
    gp_status status = create_norms(arguments, self);
    if (status == GP_OK) status = create_branches(arguments, self);
    if (status != GP_OK) {
        destroy(self);
        return gp_error_within(status, "layer transformer");
    }
    return gp_layer_create(layer, &transformer_class, self);
}
