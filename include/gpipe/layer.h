/* Layers and models.
 *
 * A layer is one unit of the sequence that gpipe cuts into partitions: its forward is written once, in operations
 * (gpipe/graph.h); parameters are declared where they are used. A model is a sequence of layers with a loss at its end.
 *
 * A model is immutable once gp_model_finish() has succeeded and may then be read by any number of threads. */
#ifndef GPIPE_LAYER_H
#define GPIPE_LAYER_H

#include "gpipe/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- inside a forward ---- */

/* What a layer's forward builds with: the graph, the layer's place in the model, the compute dtype. Lives for the call.
 */
typedef struct gp_builder gp_builder;

typedef enum gp_init_kind {
    GP_INIT_ZEROS,
    GP_INIT_CONSTANT,
    GP_INIT_NORMAL,
    GP_INIT_UNIFORM,
    GP_INIT_TRUNCATED_NORMAL, /* normal, drawn again beyond two deviations (TensorFlow's truncated_normal) */
    GP_INIT_IDENTITY /* uniform, but output i of [outputs, inputs, ...] begins as input i, where there is one: 1 at the
                        middle of the kernel, 0 elsewhere (arXiv 1706.00388); GP_INVALID for fewer than two dimensions
                      */
} gp_init_kind;

/* How a parameter starts: a constant, normal(0, value) or uniform(-value, value); drawn by Philox keyed by (seed, full
 * name), so it is the same for every partitioning. */
typedef struct gp_init {
    gp_init_kind kind;
    double value;
} gp_init;

typedef struct gp_parameter_options {
    size_t size; /* sizeof, or 0 */
    gp_init init;
    bool no_decay;   /* excluded from weight decay; set by itself for rank < 2 */
    const char *tie; /* full name of a parameter of this or an earlier layer that this one is ("layers.0.token.weight"):
                        same shape, one value; NULL: its own */
} gp_parameter_options;

/* Declares a parameter (f32); `options` may be NULL: zeros. Its full name is "layers.<index>.<scopes>.<name>". A name
 * used twice in a layer is an error, so is a tie to a name that does not exist or has another shape. */
GP_API gp_value gp_builder_parameter(gp_builder *builder, const char *name, gp_shape shape,
                                     const gp_parameter_options *options);
/* Names inside are prefixed by "<scope>." until the matching pop. */
GP_API void gp_builder_push(gp_builder *builder, const char *scope);
GP_API void gp_builder_pop(gp_builder *builder);
/* f32 or bf16: the dtype that activations have. */
GP_API gp_dtype gp_builder_dtype(const gp_builder *builder);

/* ---- states: what a layer keeps beside its parameters and no gradient reaches, such as moving averages ---- */

/* Declares a state (f32), named like a parameter ("layers.3.bn.moving_mean"), and returns its value, which the forward
 * may read in training and in evaluation. It is initialised, saved and loaded with the parameters, is in no parameter
 * count, and only gp_builder_moving_moments changes it. A name that a parameter or state of the layer has already is an
 * error. `init` may be NULL: zeros. */
GP_API gp_value gp_builder_state(gp_builder *builder, const char *name, gp_shape shape, const gp_init *init);
/* Whether the graph is that of training; otherwise evaluation: dropout is the identity, moving averages are used. */
GP_API bool gp_builder_training(const gp_builder *builder);
/* Has two states follow the moments of the mini-batches. `mean` and `variance` are values f32 of the states' shape that
 * this forward computes of the samples of the micro-batch (every sample counts alike; the variance is the biased one,
 * divided by the count). The engine merges those of all micro-batches in their order, by the samples in each (Chan,
 * Golub & LeVeque 1979: exact for unequal micro-batches, without the cancellation of E[x^2] - E[x]^2), once per
 * micro-batch however often it is computed again, and after each optimizer step makes one update
 *     moving = decay * moving + (1 - decay) * that of the whole mini-batch, 0 <= decay <= 1
 * of both (the moving variance is an average of biased variances). Called in graphs of training only. */
GP_API void gp_builder_moving_moments(gp_builder *builder, gp_value moving_mean, gp_value moving_variance,
                                      gp_value mean, gp_value variance, double decay);

/* Skips: keeps `value` under `name` for later layers, which get it with gp_builder_recall. Kept twice under one name,
 * kept and never recalled, or recalled and never kept: an error of gp_model_finish that names the layer. A value may be
 * recalled by several layers; it travels straight to each. */
GP_API void gp_builder_keep(gp_builder *builder, const char *name, gp_value value);
GP_API gp_value gp_builder_recall(gp_builder *builder, const char *name);

/* Adds `weight` (above 0) times the model's loss of `value` to the loss in training: an auxiliary classifier in the
 * middle of a network (Szegedy et al., arXiv 1409.4842), whose logits reach the last layer as a skip. Only the last
 * layer may call it, once; `value` has the type of its output. Or it is [batch, classes] beside an output of rows,
 * [batch, rows, classes of its own]: then it has a target of its own, one a sample, which stands behind those of the
 * rows, so that targets are i32[rows + 1] (BERT's next sentence beside its hidden tokens). In evaluation it counts
 * nothing. */
GP_API void gp_builder_auxiliary(gp_builder *builder, gp_value value, double weight);

/* Keeps the first error of the layer (also in the calling thread's message) and returns an invalid value. */
GP_API gp_value gp_builder_error(gp_builder *builder, const char *format, ...) GP_PRINTF(2, 3);

/* ---- layer classes ---- */

/* A class of layers: a constant that outlives every layer of it. `self` is the instance's own data. */
typedef struct gp_layer_class {
    size_t size;      /* sizeof(gp_layer_class) */
    const char *kind; /* for instance "linear" */

    /* Required. The forward: takes the value of the layer before, returns this layer's. Called whenever a graph is
     * built: to check the model, then for each stage and size of micro-batch, by several threads at once. Must build
     * the same operations each time it sees the same types. Pure but for `builder`. */
    gp_value (*forward)(const void *self, gp_builder *builder, gp_value input);

    /* Optional. FLOPs of forward + backward for this input, where the sum over the operations would mislead. */
    double (*cost)(const void *self, gp_type input);

    /* Optional. Frees `self`. */
    void (*destroy)(void *self);
} gp_layer_class;

typedef struct gp_layer gp_layer;

/* A layer of a class; takes ownership of `self` (also on error). Errors: GP_INVALID (class without forward),
 * GP_OUT_OF_MEMORY. */
GP_API gp_status gp_layer_create(gp_layer **layer, const gp_layer_class *layer_class, void *self);
/* Accepts NULL. */
GP_API void gp_layer_destroy(gp_layer *layer);
/* Builds a layer inside another's forward (for containers such as residual or sequential). It belongs to the outer
 * layer of the model: what it declares is named "layers.<index of the outer one>.<scopes>.<name>". */
GP_API gp_value gp_layer_forward(const gp_layer *layer, gp_builder *builder, gp_value input);
GP_API const char *gp_layer_kind(const gp_layer *layer);

/* ---- built-in layers: by name with options, as in a configuration ---- */

typedef enum gp_option_type {
    GP_OPTION_INTEGER,
    GP_OPTION_NUMBER,
    GP_OPTION_BOOLEAN,
    GP_OPTION_TEXT,
    GP_OPTION_INTEGERS /* some integers: a text such as "1, 7"; for a single one GP_OPTION_INTEGER serves too */
} gp_option_type;

/* One option given to a built-in layer. */
typedef struct gp_option {
    const char *key;
    gp_option_type type;
    int64_t integer;  /* GP_OPTION_INTEGER, GP_OPTION_BOOLEAN (0, 1) */
    double number;    /* GP_OPTION_NUMBER */
    const char *text; /* GP_OPTION_TEXT, GP_OPTION_INTEGERS */
} gp_option;

/* One option that a built-in layer knows. */
typedef struct gp_option_info {
    const char *key;
    gp_option_type type;
    const char *default_text; /* NULL: required */
    const char *help;
} gp_option_info;

typedef struct gp_layer_info {
    const char *kind;
    const char *help;
    const gp_option_info *options;
    size_t option_count;
    bool container; /* takes `children` */
} gp_layer_info;

/* The built-in layers, for help texts and completion. */
GP_API const gp_layer_info *gp_layer_kinds(size_t *count);

/* Creates a built-in layer. Unknown kinds and keys are GP_INVALID with the nearest known one in the message. Takes
 * ownership of the `children` (also on error), not of the array. Integers are accepted for numbers. What a child
 * declares is in a scope of its own: its kind when no other child has the same, else the kind with its number among
 * those of the kind, from 0 ("layers.3.linear1.weight"). */
GP_API gp_status gp_layer_create_builtin(gp_layer **layer, const char *kind, const gp_option *options,
                                         size_t option_count, gp_layer **children, size_t child_count);

/* ---- models ---- */

typedef enum gp_loss_kind { GP_LOSS_CROSS_ENTROPY, GP_LOSS_SQUARED_ERROR } gp_loss_kind;

typedef struct gp_loss {
    size_t size; /* sizeof, or 0 */
    gp_loss_kind kind;
    gp_cross_entropy_options cross_entropy;
    bool mixed; /* cross_entropy: every target is two labels, i32[..., 2], and their losses are added; with
                   pipeline.loss_weights, f32[..., 2], each as much as it weighs (mixup, arXiv 1710.09412) */
} gp_loss;

typedef struct gp_model gp_model;

/* An empty model whose samples have `sample` as type, without the batch dimension (for instance i32[64]). */
GP_API gp_status gp_model_create(gp_model **model, gp_type sample);
/* Accepts NULL. */
GP_API void gp_model_destroy(gp_model *model);
/* Appends a layer and takes ownership of it (also on error). */
GP_API gp_status gp_model_add(gp_model *model, gp_layer *layer);
/* Default: cross-entropy without smoothing. Targets of -1 (GP_IGNORED_TARGET) are ignored unless the options name
 * another number. `loss` may be NULL: the default. */
GP_API gp_status gp_model_set_loss(gp_model *model, const gp_loss *loss);
/* Checks shapes, skips, ties and names by building every layer once. Errors (GP_INVALID) name the layer, the operation
 * and the shapes. */
GP_API gp_status gp_model_finish(gp_model *model);

/* ---- questions to a finished model; a layer's number must be below the count ---- */
GP_API size_t gp_model_layer_count(const gp_model *model);
GP_API const char *gp_model_layer_kind(const gp_model *model, size_t layer);
/* Parameters of the model, each shared one counted once. */
GP_API int64_t gp_model_parameter_count(const gp_model *model);
/* Parameters declared by a layer, tied ones not counted. */
GP_API int64_t gp_model_layer_parameter_count(const gp_model *model, size_t layer);
/* Type of one sample of the input, of the last layer's output, and of the targets, all without the batch dimension. */
GP_API gp_type gp_model_input_type(const gp_model *model);
GP_API gp_type gp_model_output_type(const gp_model *model);
GP_API gp_type gp_model_target_type(const gp_model *model);
/* FLOPs of forward and backward of a layer for one sample. */
GP_API double gp_model_layer_flops(const gp_model *model, size_t layer);

typedef struct gp_parameter_info {
    const char *name; /* full name, owned by the model */
    gp_shape shape;
    size_t layer; /* the layer that declares it */
    gp_init init;
    bool no_decay;
} gp_parameter_info;

/* The model's own parameters (tied ones once, where declared first), in the order of layers. */
GP_API size_t gp_model_parameters(const gp_model *model);
GP_API gp_parameter_info gp_model_parameter(const gp_model *model, size_t index);

typedef struct gp_state_info {
    const char *name; /* full name, owned by the model */
    gp_shape shape;
    size_t layer;
    gp_init init;
} gp_state_info;

/* The states of the model's layers, in the order of layers. */
GP_API size_t gp_model_states(const gp_model *model);
GP_API gp_state_info gp_model_state(const gp_model *model, size_t index);

/* ---- the zoo ---- */

/* GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks, GELU (tanh). Layers: embedding, `layers` blocks,
 * final norm, head. 0 means the default in brackets. */
typedef struct gp_gpt2_options {
    size_t size;        /* sizeof, or 0 */
    int64_t layers;     /* [12] */
    int64_t heads;      /* [12] */
    int64_t width;      /* [768] */
    int64_t context;    /* [1024] */
    int64_t vocabulary; /* [50257] */
    double dropout;     /* [0] on embeddings, attention probabilities and residual branches */
    bool untied;        /* head with weights of its own instead of the token embedding's */
    bool no_bias;       /* linear layers and norms without bias */
    int64_t positions;  /* [context] rows of the table of positions */
} gp_gpt2_options;

/* Creates a finished GPT-2 with cross-entropy loss. Initialisation: normal(0, 0.02), residual projections normal(0,
 * 0.02 / sqrt(2 * layers)), biases 0, norms 1. `options` may be NULL (GPT-2 small: 124,439,808 parameters). */
GP_API gp_status gp_model_create_gpt2(gp_model **model, const gp_gpt2_options *options);

/* What is behind BERT's encoder: name, the configuration's word, meaning. */
#define GP_BERT_HEADS(X)                                                                                               \
    X(GP_BERT_MASKED, "masked", "logits of the tokens that a mask hides, [context, vocabulary]")                       \
    X(GP_BERT_CLASSIFY, "classify", "logits of the classes of the whole sample, [classes]")                            \
    X(GP_BERT_NEXT_SENTENCE, "next_sentence", "whether the second part follows the first, [2]")                        \
    X(GP_BERT_POOLED, "pooled", "the pooler's features of the whole sample, [width]; not for training")                \
    X(GP_BERT_HIDDEN, "hidden", "the encoder's features of every token, [context, width]; not for training")           \
    X(GP_BERT_PRETRAINING, "pretraining", "as masked; in training also whether the second part follows the first")

typedef enum gp_bert_head {
#define GP_BERT_HEAD_ENUM(name, word, meaning) name,
    GP_BERT_HEADS(GP_BERT_HEAD_ENUM)
#undef GP_BERT_HEAD_ENUM
} gp_bert_head;

/* BERT (Devlin et al., arXiv 1810.04805): an encoder of Transformer blocks, the norms after the sums. A sample is
 * i32[3, context]: tokens, token types, and a mask that is 0 where there is padding. 0 means the default in brackets.
 */
typedef struct gp_bert_options {
    size_t size;            /* sizeof, or 0 */
    int64_t layers;         /* [12] */
    int64_t heads;          /* [12] */
    int64_t width;          /* [768] */
    int64_t feed_forward;   /* [4 * width] */
    int64_t context;        /* [512] tokens of a sample */
    int64_t positions;      /* [context] rows of the table of positions */
    int64_t vocabulary;     /* [30522] */
    int64_t types;          /* [2] token types */
    double dropout;         /* [0] on the embedding, attention probabilities, both branches, before the classifier */
    double epsilon;         /* [1e-12] of the norms */
    const char *activation; /* ["gelu"] one of the layer feed_forward's */
    gp_bert_head head;
    int64_t classes;      /* of head classify: required */
    bool untied;          /* the masked head has weights of its own instead of the token embedding's */
    double next_sentence; /* [0.15 * context] of head pretraining: how much the answer about the sentences of a sample
                             counts, against one hidden token */
} gp_bert_options;

/* Creates a finished BERT with cross-entropy loss. Initialisation: normal(0, 0.02), biases 0, norms 1. `options` may be
 * NULL (BERT-base with the masked head). Parameters of BERT-base: 109,482,240 with head pooled. */
GP_API gp_status gp_model_create_bert(gp_model **model, const gp_bert_options *options);

/* ---- models of images: by name with options, as in a configuration ---- */

/* A model by name: `kind` is the name, its options as a layer's, never a container. */
typedef gp_layer_info gp_model_info;

/* The models of images, for help texts and completion: AmoebaNet-D and -B, ResNets, SENets, GoogLeNet, VGG-16, U-Net, a
 * perceptron. All of them have the options `classes` and `image`. */
GP_API const gp_model_info *gp_model_kinds(size_t *count);

/* Creates a finished model. Samples are f32[height, width, channels] as option `image` says (its size, [height, width],
 * or [height, width, channels], of which there are 3 otherwise). `loss` may be NULL: cross-entropy. Nothing of the size
 * of parameters or activations is allocated. Unknown names and keys are GP_INVALID with the nearest known one in the
 * message. */
GP_API gp_status gp_model_create_named(gp_model **model, const char *name, const gp_option *options,
                                       size_t option_count, const gp_loss *loss);

#ifdef __cplusplus
}
#endif
#endif
