/* Built-in layers: how one is made from options, and the pieces of forward that several share. */
#ifndef GP_LAYERS_BUILTIN_H
#define GP_LAYERS_BUILTIN_H

#include "gpipe/layer.h"

enum { GP_MAX_OPTIONS = 16 };

/* The options of one layer, checked against the table of its kind (registry.c). */
typedef struct gp_arguments {
    const gp_layer_info *info;
    const gp_option *given[GP_MAX_OPTIONS]; /* by place in info->options; NULL: the default */
    gp_layer **children;
    size_t child_count; /* set to 0 by the container that takes the children over */
    bool is_model;      /* the options are those of a model of the zoo, not of a layer */
} gp_arguments;

/* The value of an option or its default. The keys must be in the table. Numbers: GP_INVALID outside lowest..highest,
 * named in the message. */
gp_status gp_argument_integer(const gp_arguments *arguments, const char *key, int64_t lowest, int64_t *value);
gp_status gp_argument_number(const gp_arguments *arguments, const char *key, double lowest, double below,
                             double *value);
/* 0 (nothing given, no default) to `most` integers of `lowest` or more. */
gp_status gp_argument_integers(const gp_arguments *arguments, const char *key, int64_t lowest, size_t most,
                               int64_t *values, size_t *count);
/* One for height and width, or one each. */
gp_status gp_argument_pair(const gp_arguments *arguments, const char *key, int64_t lowest, int64_t pair[2]);
/* valid, same, or pixels: all sides; height, width; top, bottom, left, right. */
gp_status gp_argument_padding(const gp_arguments *arguments, const char *key, gp_padding *padding, int64_t before[2],
                              int64_t after[2]);
bool gp_argument_boolean(const gp_arguments *arguments, const char *key);
/* "" when there is neither value nor default; owned by the caller of gp_layer_create_builtin. */
const char *gp_argument_text(const gp_arguments *arguments, const char *key);
/* Place of the value among `choices`; GP_INVALID with the nearest one in the message. */
gp_status gp_argument_choice(const gp_arguments *arguments, const char *key, const char *const *choices, size_t count,
                             int *value);
/* Puts the arguments into `info`'s order: unknown, wrongly typed, doubled and missing ones are GP_INVALID. */
gp_status gp_arguments_resolve(gp_arguments *arguments, const gp_option *options, size_t option_count);

/* Makes a layer whose data is a copy of the `bytes` bytes at `self`, which owns nothing; the class destroys it with
 * gp_free. */
gp_status gp_layer_create_copy(gp_layer **layer, const gp_layer_class *layer_class, const void *self, size_t bytes);

/* Every kind of the table in registry.c has a creator. */
typedef gp_status gp_layer_creator(gp_arguments *arguments, gp_layer **layer);
gp_layer_creator gp_create_linear, gp_create_embedding, gp_create_positions, gp_create_text_embedding,
    gp_create_bert_embedding, gp_create_pooler, gp_create_layer_norm, gp_create_rms_norm, gp_create_relu,
    gp_create_gelu, gp_create_silu, gp_create_sigmoid, gp_create_tanh, gp_create_dropout, gp_create_softmax,
    gp_create_attention, gp_create_feed_forward, gp_create_transformer, gp_create_residual, gp_create_sequential,
    gp_create_flatten, gp_create_reshape, gp_create_mean, gp_create_keep, gp_create_add_kept,
    gp_create_concatenate_kept, gp_create_batch_norm, gp_create_conv2d, gp_create_max_pool, gp_create_average_pool,
    gp_create_global_average_pool, gp_create_upsample, gp_create_factorised_reduction, gp_create_squeeze_excitation,
    gp_create_drop_path;

/* ---- pieces ---- */

/* Initial values of a layer's weights as options give them: a standard deviation, or what the layer's source published.
 */
typedef struct gp_weight_init {
    bool given;
    double deviation;
    bool truncated; /* drawn again beyond two deviations */
} gp_weight_init;

gp_status gp_argument_init(const gp_arguments *arguments, const char *key, gp_weight_init *init);

/* Parameters weight[features, width of x] and bias[features] in `scope` (NULL: none), and the product. */
gp_value gp_build_linear(gp_builder *builder, const char *scope, gp_value x, int64_t features, bool bias,
                         gp_weight_init init, const char *tie);

/* Batch norm with its parameters and moving averages in `scope` (NULL: none). */
typedef struct gp_batch_norm_settings {
    double epsilon;
    double decay;  /* of the moving averages */
    double weight; /* initial value of the weights */
    bool relu;     /* max(0, y) in the same pass */
} gp_batch_norm_settings;

gp_value gp_build_batch_norm(gp_builder *builder, const char *scope, gp_value x,
                             const gp_batch_norm_settings *settings);

/* x plus sines and cosines of the position (sinusoid.c). */
gp_value gp_build_sinusoid(gp_value x);

typedef enum gp_activation_name {
    GP_NAME_RELU,
    GP_NAME_GELU,
    GP_NAME_GELU_TANH,
    GP_NAME_SILU,
    GP_NAME_SIGMOID,
    GP_NAME_TANH
} gp_activation_name;
gp_status gp_argument_activation(const gp_arguments *arguments, const char *key, gp_activation_name *name);
gp_value gp_build_activation(gp_value x, gp_activation_name name);

/* Last dimension of a value; 0 for a scalar. */
int64_t gp_last_dim(gp_value x);

#endif
