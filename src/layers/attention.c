/* The parts of a Transformer (Vaswani et al., arXiv 1706.03762): self-attention and the feed-forward network, each with
 * its linear maps. Dropout is where GPT-2 has it: on the probabilities and on what each part returns. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct attention {
    int64_t heads;
    bool causal, bias;
    double dropout;
    gp_weight_init init, projection_init;
    char mask[]; /* name of the skip with the mask, as long as it is; "": none */
} attention;

typedef struct feed_forward {
    int64_t width; /* 0: four times the input's */
    gp_activation_name activation;
    bool bias;
    double dropout;
    gp_weight_init init, projection_init;
} feed_forward;

static gp_value drop(gp_value x, double p) {
    return p > 0 ? gp_dropout(x, p) : x;
}

static gp_value attention_forward(const void *self, gp_builder *builder, gp_value input) {
    const attention *layer = self;
    gp_type type = gp_value_type(input);
    char text[128];
    if (type.shape.rank != 3)
        return gp_builder_error(builder, "attention: the input is %s, but [batch, time, width] is needed",
                                gp_type_format(type, text, sizeof text));
    int64_t width = type.shape.dims[2];
    if (width % layer->heads != 0)
        return gp_builder_error(builder, "attention: %" PRId64 " heads do not divide the width of %s", layer->heads,
                                gp_type_format(type, text, sizeof text));
    gp_attention_options options = {.heads = (int)layer->heads, .full = !layer->causal, .dropout = layer->dropout};
    gp_value qkv = gp_build_linear(builder, "qkv", input, 3 * width, layer->bias, layer->init, NULL);
    gp_value mask = gp_none();
    if (*layer->mask && !gp_value_valid(mask = gp_builder_recall(builder, layer->mask))) return mask;
    gp_value mixed = gp_attention_masked(qkv, mask, &options);
    gp_value result = gp_build_linear(builder, "projection", mixed, width, layer->bias, layer->projection_init, NULL);
    return drop(result, layer->dropout);
}

static gp_value feed_forward_forward(const void *self, gp_builder *builder, gp_value input) {
    const feed_forward *layer = self;
    int64_t width = gp_last_dim(input), inner = layer->width ? layer->width : 4 * width;
    gp_value x = gp_build_linear(builder, "up", input, inner, layer->bias, layer->init, NULL);
    x = gp_build_activation(x, layer->activation);
    x = gp_build_linear(builder, "down", x, width, layer->bias, layer->projection_init, NULL);
    return drop(x, layer->dropout);
}

static const gp_layer_class attention_class = {
    .size = sizeof(gp_layer_class), .kind = "attention", .forward = attention_forward, .destroy = gp_free};
static const gp_layer_class feed_forward_class = {
    .size = sizeof(gp_layer_class), .kind = "feed_forward", .forward = feed_forward_forward, .destroy = gp_free};

static gp_status read_inits(const gp_arguments *arguments, gp_weight_init *init, gp_weight_init *projection) {
    GP_TRY(gp_argument_init(arguments, "init", init));
    GP_TRY(gp_argument_init(arguments, "projection_init", projection));
    if (!projection->given) *projection = *init;
    return GP_OK;
}

gp_status gp_create_attention(gp_arguments *arguments, gp_layer **layer) {
    attention self = {.causal = gp_argument_boolean(arguments, "causal"),
                      .bias = gp_argument_boolean(arguments, "bias")};
    GP_TRY(gp_argument_integer(arguments, "heads", 1, &self.heads));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &self.dropout));
    GP_TRY(read_inits(arguments, &self.init, &self.projection_init));
    const char *mask = gp_argument_text(arguments, "mask");
    if (*mask && self.causal) return gp_error(GP_INVALID, "layer attention: option \"mask\" needs causal: false");
    attention *copy = gp_allocate(sizeof self + strlen(mask) + 1);
    if (!copy) return GP_OUT_OF_MEMORY;
    *copy = self;
    memcpy(copy->mask, mask, strlen(mask) + 1);
    return gp_layer_create(layer, &attention_class, copy);
}

gp_status gp_create_feed_forward(gp_arguments *arguments, gp_layer **layer) {
    feed_forward self = {.bias = gp_argument_boolean(arguments, "bias")};
    GP_TRY(gp_argument_integer(arguments, "width", 0, &self.width));
    GP_TRY(gp_argument_activation(arguments, "activation", &self.activation));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &self.dropout));
    GP_TRY(read_inits(arguments, &self.init, &self.projection_init));
    return gp_layer_create_copy(layer, &feed_forward_class, &self, sizeof self);
}
