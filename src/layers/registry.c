/* The table of built-in layers: names, help and options; what `gpipe help layers`, completion and error messages are
 * made of. To add a layer: its options here, a row in KINDS, its creator in builtin.h. */
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/status.h"
#include "layers/builtin.h"

#define INTEGER(key, standard, help)                                                                                   \
    { key, GP_OPTION_INTEGER, standard, help }
#define NUMBER(key, standard, help)                                                                                    \
    { key, GP_OPTION_NUMBER, standard, help }
#define BOOLEAN(key, standard, help)                                                                                   \
    { key, GP_OPTION_BOOLEAN, standard, help }
#define TEXT(key, standard, help)                                                                                      \
    { key, GP_OPTION_TEXT, standard, help }
#define INTEGERS(key, standard, help)                                                                                  \
    { key, GP_OPTION_INTEGERS, standard, help }
#define INIT(key, help)                                                                                                \
    { key, GP_OPTION_NUMBER, "", help }

static const gp_option_info linear_options[] = {
    INTEGER("features", NULL, "size of the last dimension of the result"),
    BOOLEAN("bias", "true", "add a learned bias"),
    INIT("init",
         "weights start as normal(0, init), biases as 0; without it as PyTorch's nn.Linear: uniform(-1/sqrt(k), "
         "1/sqrt(k)), k inputs"),
    TEXT("tie", "", "full name of the parameter that the weight is, for instance layers.0.weight"),
};
static const gp_option_info embedding_options[] = {
    INTEGER("vocabulary", NULL, "number of rows; indices are 0 to vocabulary - 1"),
    INTEGER("width", NULL, "elements of a row"),
    NUMBER("init", "1", "the table starts as normal(0, init); 1 as in PyTorch's nn.Embedding"),
};
static const gp_option_info positions_options[] = {
    INTEGER("context", "0", "largest number of positions; 0: as many as the input has"),
    TEXT("kind", "learned", "learned, or sinusoidal (without parameters; Vaswani et al. 2017)"),
    NUMBER("init", "0.02", "learned rows start as normal(0, init); 0.02 as in GPT-2"),
};
static const gp_option_info text_embedding_options[] = {
    INTEGER("vocabulary", NULL, "number of tokens"),
    INTEGER("width", NULL, "elements of a row"),
    INTEGER("context", "0", "largest number of positions; 0: as many as the input has"),
    NUMBER("dropout", "0", "probability with which an element of the sum is dropped"),
    NUMBER("init", "0.02", "both tables start as normal(0, init); 0.02 as in GPT-2"),
};
static const gp_option_info bert_embedding_options[] = {
    INTEGER("vocabulary", NULL, "number of tokens"),
    INTEGER("width", NULL, "elements of a row"),
    INTEGER("context", "0", "largest number of positions; 0: as many as the input has"),
    INTEGER("types", "2", "number of token types: parts of a sample, for instance two sentences"),
    NUMBER("dropout", "0", "probability with which an element of the result is dropped"),
    NUMBER("init", "0.02", "the tables start as normal(0, init); 0.02 as in BERT"),
    NUMBER("epsilon", "1e-12", "of the norm"),
    TEXT("mask", "mask", "name of the skip that attention recalls; \"\": there is none"),
};
static const gp_option_info pooler_options[] = {
    INIT("init", "weights start as normal(0, init), biases as 0; without it as linear"),
};
static const gp_option_info layer_norm_options[] = {
    NUMBER("epsilon", "1e-5", "added to the variance"),
    BOOLEAN("bias", "true", "add a learned bias"),
};
static const gp_option_info rms_norm_options[] = {
    NUMBER("epsilon", "1e-6", "added to the mean square"),
};
static const gp_option_info batch_norm_options[] = {
    NUMBER("epsilon", "1e-5", "added to the variance"),
    NUMBER("decay", "0.9", "of the moving averages used in evaluation: share of the old value that a step keeps"),
    NUMBER("init", "1", "the weights start as this; 0 makes a residual branch start as nothing"),
    BOOLEAN("relu", "false", "max(y, 0) in the same pass, faster than a layer relu behind it"),
};
static const gp_option_info conv2d_options[] = {
    INTEGER("channels", NULL, "of the result"),
    INTEGERS("kernel", NULL, "size of the window: 3, or height and width: [1, 7]"),
    INTEGERS("stride", "1", "pixels between windows, one number or height and width"),
    TEXT("padding", "valid",
         "zeros around: valid (none), same (as many pixels as without stride, the odd one at the end), or pixels: all "
         "sides; [height, width]; [top, bottom, left, right]"),
    INTEGERS("dilation", "1", "pixels between the elements of a window"),
    INTEGER("groups", "1", "parts of the channels that do not see each other; as many as input channels: depthwise"),
    BOOLEAN("bias", "true", "add a learned bias"),
    INIT("init",
         "weights start as normal(0, init), biases as 0; without it as PyTorch's nn.Conv2d: uniform(-1/sqrt(k), "
         "1/sqrt(k)), k elements of a window"),
    BOOLEAN(
        "identity", "false",
        "an output channel begins as a copy of the input channel of its number: 1 at the middle of the window, else 0; "
        "outputs beyond the inputs, and biases, begin as without it; not with init or groups"),
};
static const gp_option_info pool_options[] = {
    INTEGERS("kernel", NULL, "size of the window, one number or height and width"),
    INTEGERS("stride", "", "pixels between windows; without it the size of the window"),
    TEXT("padding", "valid", "valid, same, or pixels as for conv2d; padding never counts"),
    BOOLEAN("ceil", "false", "a window that ends behind the image counts too"),
};
static const gp_option_info upsample_options[] = {
    INTEGERS("factor", "2", "copies of a pixel, one number or height and width"),
};
static const gp_option_info factorised_reduction_options[] = {
    INTEGER("channels", NULL, "of the result, an even number"),
    NUMBER("epsilon", "1e-5", "of the batch norm"),
    NUMBER("decay", "0.9", "of the batch norm's moving averages"),
};
static const gp_option_info squeeze_excitation_options[] = {
    INTEGER("reduction", "16", "channels are squeezed to this part of their number"),
};
static const gp_option_info drop_path_options[] = {
    NUMBER("p", "0.5", "probability with which a sample is dropped in training"),
    BOOLEAN("scheduled", "false", "the probability grows over the training, from 0 to p"),
};
static const gp_option_info gelu_options[] = {
    TEXT("approximate", "erf", "erf (exact), or tanh (GPT-2's approximation)"),
};
static const gp_option_info dropout_options[] = {
    NUMBER("p", "0.5", "probability with which an element is dropped in training"),
};
static const gp_option_info attention_options[] = {
    INTEGER("heads", NULL, "number of heads; divides the width"),
    BOOLEAN("causal", "true", "position i sees positions up to i only"),
    NUMBER("dropout", "0", "on the probabilities and on the result of the projection"),
    BOOLEAN("bias", "true", "both linear maps have a bias"),
    INIT("init", "weights start as normal(0, init), biases as 0; without it as linear"),
    INIT("projection_init", "the same for the projection; without it init"),
    TEXT("mask", "", "name of a skip i32[time]: where it is 0 is padding, which nobody sees; needs causal: false"),
};
static const gp_option_info feed_forward_options[] = {
    INTEGER("width", "0", "features between the two linear maps; 0: four times the input's"),
    TEXT("activation", "gelu_tanh", "relu, gelu, gelu_tanh, silu, sigmoid, tanh"),
    NUMBER("dropout", "0", "on the result"),
    BOOLEAN("bias", "true", "both linear maps have a bias"),
    INIT("init", "weights start as normal(0, init), biases as 0; without it as linear"),
    INIT("projection_init", "the same for the second map; without it init"),
};
static const gp_option_info transformer_options[] = {
    INTEGER("heads", NULL, "number of attention heads; divides the width"),
    INTEGER("feed_forward", "0", "width inside the feed-forward part; 0: four times the input's"),
    BOOLEAN("causal", "true", "position i sees positions up to i only"),
    NUMBER("dropout", "0", "on attention probabilities and on both branches"),
    BOOLEAN("bias", "true", "linear maps and norms have a bias"),
    TEXT("norm", "layer_norm", "layer_norm or rms_norm"),
    BOOLEAN("pre_norm", "true", "x + f(norm(x)) as in GPT-2; false: norm(x + f(x)) as in Vaswani et al. 2017"),
    TEXT("activation", "gelu_tanh", "relu, gelu, gelu_tanh, silu, sigmoid, tanh"),
    INIT("init", "weights start as normal(0, init), biases as 0; without it as linear"),
    INIT("projection_init", "the same for the last map of each branch; without it init"),
    NUMBER("epsilon", "", "of the norms; without it the norm's own"),
    TEXT("mask", "", "name of a skip i32[time]: where it is 0 is padding, which nobody sees; needs causal: false"),
};
static const gp_option_info reshape_options[] = {
    TEXT("shape", NULL, "dimensions of a sample without the batch, for instance \"16, -1\"; one may be -1"),
};
static const gp_option_info mean_options[] = {
    INTEGER("axis", NULL, "dimension to take the mean over; 0 is the batch and refused, negative: from the last"),
    BOOLEAN("keep", "false", "leave a dimension of 1"),
};
static const gp_option_info skip_options[] = {
    TEXT("name", NULL, "name of the skip, the same where it is kept and where it is recalled"),
};
static const gp_option_info concatenate_options[] = {
    TEXT("name", NULL, "name of the skip, the same where it is kept and where it is recalled"),
    INTEGER("axis", "-1", "dimension to join along; 0 is the batch and refused, negative: from the last"),
};
static const gp_option_info residual_options[] = {
    BOOLEAN(
        "projection", "false",
        "where the layers inside change an image's channels or size, the input goes through a 1x1 convolution of the "
        "stride that fits and batch norm"),
};
static const gp_option_info no_options[1] = {{0}};

#define COUNT(options) (sizeof(options) / sizeof *(options))

/* kind, options, how many, takes children, help */
#define KINDS(X)                                                                                                       \
    X(linear, linear_options, COUNT(linear_options), false, "x times a weight, plus a bias, over the last dimension")  \
    X(embedding, embedding_options, COUNT(embedding_options), false, "a learned row for each index")                   \
    X(positions, positions_options, COUNT(positions_options), false, "adds a row for each position")                   \
    X(text_embedding, text_embedding_options, COUNT(text_embedding_options), false,                                    \
      "token embedding plus learned positions, then dropout: the first layer of GPT-2")                                \
    X(bert_embedding, bert_embedding_options, COUNT(bert_embedding_options), false,                                    \
      "the first layer of BERT: of a sample i32[3, time] (tokens, token types, mask: 0 is padding) the sum of token, " \
      "position and type embeddings, then norm and dropout; keeps the mask")                                           \
    X(pooler, pooler_options, COUNT(pooler_options), false,                                                            \
      "the first position alone, through a linear map and tanh, as in BERT")                                           \
    X(layer_norm, layer_norm_options, COUNT(layer_norm_options), false,                                                \
      "normalises mean and variance of the last dimension")                                                            \
    X(rms_norm, rms_norm_options, COUNT(rms_norm_options), false, "normalises the mean square of the last dimension")  \
    X(batch_norm, batch_norm_options, COUNT(batch_norm_options), false,                                                \
      "normalises every channel (last dimension) over samples and pixels; moving averages in evaluation")              \
    X(conv2d, conv2d_options, COUNT(conv2d_options), false, "convolution of an image [height, width, channels]")       \
    X(max_pool, pool_options, COUNT(pool_options), false, "the greatest element of each window of an image")           \
    X(average_pool, pool_options, COUNT(pool_options), false, "the mean of each window of an image")                   \
    X(global_average_pool, no_options, 0, false, "the mean over all pixels: an image becomes a row of channels")       \
    X(upsample, upsample_options, COUNT(upsample_options), false, "every pixel repeated (nearest neighbour)")          \
    X(factorised_reduction, factorised_reduction_options, COUNT(factorised_reduction_options), false,                  \
      "an image of half the height and width: two 1x1 convolutions of stride 2, the second a pixel further, then "     \
      "batch norm")                                                                                                    \
    X(squeeze_excitation, squeeze_excitation_options, COUNT(squeeze_excitation_options), false,                        \
      "scales the channels of an image by what a small network makes of their means")                                  \
    X(drop_path, drop_path_options, COUNT(drop_path_options), false,                                                   \
      "drops whole samples at random in training, scales the others")                                                  \
    X(relu, no_options, 0, false, "max(x, 0)")                                                                         \
    X(gelu, gelu_options, COUNT(gelu_options), false, "x times the normal distribution function of x")                 \
    X(silu, no_options, 0, false, "x sigmoid(x)")                                                                      \
    X(sigmoid, no_options, 0, false, "1 / (1 + exp(-x))")                                                              \
    X(tanh, no_options, 0, false, "hyperbolic tangent")                                                                \
    X(dropout, dropout_options, COUNT(dropout_options), false,                                                         \
      "drops elements at random in training, scales the others")                                                       \
    X(softmax, no_options, 0, false, "probabilities over the last dimension")                                          \
    X(attention, attention_options, COUNT(attention_options), false, "multi-head self-attention with its linear maps") \
    X(feed_forward, feed_forward_options, COUNT(feed_forward_options), false,                                          \
      "two linear maps with an activation between")                                                                    \
    X(transformer, transformer_options, COUNT(transformer_options), false,                                             \
      "a block of attention and feed-forward, each in a residual branch with a norm")                                  \
    X(residual, residual_options, COUNT(residual_options), true, "the input plus what the layers inside make of it")   \
    X(sequential, no_options, 0, true, "the layers inside one after another, never cut apart")                         \
    X(flatten, no_options, 0, false, "all dimensions but the batch as one")                                            \
    X(reshape, reshape_options, COUNT(reshape_options), false, "the same elements in another shape")                   \
    X(mean, mean_options, COUNT(mean_options), false, "the mean over a dimension")                                     \
    X(keep, skip_options, COUNT(skip_options), false, "keeps the value for later layers and passes it on")             \
    X(add_kept, skip_options, COUNT(skip_options), false, "adds a kept value")                                         \
    X(concatenate_kept, concatenate_options, COUNT(concatenate_options), false, "joins a kept value behind the input")

static const gp_layer_info kinds[] = {
#define INFO(kind, options, count, container, help) {#kind, help, options, count, container},
    KINDS(INFO)
#undef INFO
};

static gp_layer_creator *const creators[] = {
#define CREATOR(kind, options, count, container, help) gp_create_##kind,
    KINDS(CREATOR)
#undef CREATOR
};

const gp_layer_info *gp_layer_kinds(size_t *count) {
    *count = COUNT(kinds);
    return kinds;
}

static gp_status find_kind(const char *kind, size_t *place) {
    gp_nearest nearest = {0};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        *place = i;
        if (strcmp(kinds[i].kind, kind) == 0) return GP_OK;
        gp_nearest_consider(&nearest, kind, kinds[i].kind);
    }
    return gp_error(GP_INVALID, "there is no layer \"%s\"; the nearest one is \"%s\"", kind, nearest.word);
}

static gp_status create(gp_layer **layer, const char *kind, const gp_option *options, size_t option_count,
                        gp_arguments *arguments) {
    size_t place = 0;
    GP_TRY(find_kind(kind, &place));
    arguments->info = &kinds[place];
    if (arguments->child_count > 0 && !kinds[place].container)
        return gp_error(GP_INVALID, "layer %s takes no layers inside", kind);
    if (arguments->child_count == 0 && kinds[place].container)
        return gp_error(GP_INVALID, "layer %s needs at least one layer inside", kind);
    for (size_t i = 0; i < arguments->child_count; i++) {
        if (!arguments->children[i]) return gp_error(GP_INVALID, "layer %s: layer %zu inside is missing", kind, i);
    }
    GP_TRY(gp_arguments_resolve(arguments, options, option_count));
    return creators[place](arguments, layer);
}

gp_status gp_layer_create_builtin(gp_layer **layer, const char *kind, const gp_option *options, size_t option_count,
                                  gp_layer **children, size_t child_count) {
    *layer = NULL;
    gp_arguments arguments = {.children = children, .child_count = child_count};
    gp_status status = create(layer, kind, options, option_count, &arguments);
    for (size_t i = 0; i < arguments.child_count; i++)
        gp_layer_destroy(children[i]); /* nobody took them over */
    return status;
}

gp_status gp_layer_create_copy(gp_layer **layer, const gp_layer_class *layer_class, const void *self, size_t bytes) {
    void *copy = gp_allocate(bytes);
    if (!copy) return GP_OUT_OF_MEMORY;
    memcpy(copy, self, bytes);
    return gp_layer_create(layer, layer_class, copy);
}
