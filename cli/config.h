/* The configuration of a run: what the file and --set say, checked, with every default filled in. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "config_document.h"
#include "gpipe/images.h"
#include "gpipe/train.h"

typedef struct cli_texts {
    const char **items;
    size_t count;
} cli_texts;

typedef struct cli_integers {
    int64_t *values;
    size_t count;
} cli_integers;

/* One field a key (config_keys.c). Choices are numbers in the order of the table, which is that of the library's
 * enumerations. */
typedef struct cli_numbers {
    double *values;
    size_t count;
} cli_numbers;

/* Bytes, 0: none. */
typedef struct cli_sizes {
    size_t *values;
    size_t count;
} cli_sizes;

/* A share of the data, or a path to other data. */
typedef struct cli_share {
    double share;
    const char *path; /* NULL: a share */
} cli_share;

typedef struct cli_settings {
    struct {
        int name;
        int64_t layers, heads, width, context, vocabulary, positions;
        double dropout;
        bool tied, bias;
        int64_t feed_forward, classes, types; /* bert */
        int head, activation;
        double epsilon;
        int64_t filters, depth, channels, levels; /* images */
        cli_integers image;
        int stem;
        double auxiliary, drop_path, batch_norm_decay;
        cli_integers shape;
        int dtype;
        int64_t input_vocabulary, input_classes;
        int loss;
        double label_smoothing;
    } model;
    struct {
        bool random;
        const char *text, *tokens, *validation_tokens, *tokenizer;
        int token_type, sampling;
        cli_share validation;
        double masked;
        const char *images, *labels, *validation_labels;
        const char *examples, *text_field, *pair_field, *label_field;
        int format, corrupt;
        cli_numbers mean, deviation;
        int64_t resize, window, most_pixels, threads, shift;
        bool mirror;
        struct {
            int crop;
            bool flip, alternate;
            int64_t pad, operations, cutout;
            double scale[2], ratio[2], magnitude, brightness, contrast, saturation, hue, mixup;
        } augment;
    } data;
    struct {
        int64_t partitions, replicas, micro_batches, workers_per_rank;
        const char *schedule;
        int recompute, granularity, balance;
        cli_integers stages;
        cli_numbers speeds;
        double report_after;
    } pipeline;
    struct {
        int type, precision;
        cli_sizes memory;
        int64_t threads;
    } device;
    struct {
        int name;
        double lr, betas[2], epsilon, weight_decay, momentum, clip;
        bool nesterov, shard, epsilon_inside;
        double average, layer_decay;
        cli_texts lr_factors;
        struct {
            int name;
            int64_t warmup, every;
            double min_lr, gamma;
        } schedule;
    } optimizer;
    struct {
        int64_t batch, steps, seed, eval_every, eval_windows;
        int64_t patience;
        const char *out, *init_from;
        cli_texts replace, freeze;
        int on_nan;
        bool trace;
    } train;
    struct {
        int64_t every, keep, keep_every;
        bool best, background;
        size_t shard_size; /* 0: no limit */
    } checkpoint;
} cli_settings;

typedef struct cli_config {
    cli_document document;
    cli_settings settings;
    bool custom;                /* model.layers is a list; otherwise model.name is of the zoo */
    uint64_t use;               /* the model's bit (config_keys.h) */
    char *schedule;             /* text of the schedule file; NULL: settings.pipeline.schedule is a name */
    gp_parameter_group *groups; /* of train.freeze and optimizer.lr_factors; NULL: none */
    size_t group_count;
    size_t *stages; /* pipeline.stages as the library wants them; NULL: none */
} cli_config;

typedef struct cli_config_options {
    const char *const *sets; /* "key=value", applied in their order */
    size_t set_count;
    const char *option, *key, *text; /* a key given by an option of its own, such as --out DIR; text NULL: none */
    int ranks;                       /* processes that share the workers; 0 or 1: this one alone */
    bool any_schedule;               /* a schedule file is not read: nothing will be trained */
} cli_config_options;

/* Reads a file, applies the options on top, checks everything against the table of keys. Errors: GP_INVALID naming
 * file, line and key, what was found, what is accepted. Free it in any case. */
gp_status cli_config_load(cli_config *config, const char *path, const cli_config_options *options);
/* The same from a text; messages name `origin`. */
gp_status cli_config_parse(cli_config *config, const char *origin, const char *text, const cli_config_options *options);
void cli_config_free(cli_config *config);
/* Only the defaults of the keys that a configuration like `like` has. */
gp_status cli_config_defaults(cli_config *config, const cli_config *like);

/* The node of a key, for messages; NULL when it is a default. */
const cli_node *cli_config_node(const cli_config *config, const char *path);
/* GP_INVALID with the place of the key (or of the file) in front. */
gp_status cli_config_error(const cli_config *config, const char *path, const char *format, ...) GP_PRINTF(3, 4);

/* The same for the thread's message, when `status` is GP_INVALID; returns `status`. */
gp_status cli_config_within(const cli_config *config, const char *path, gp_status status);

/* config_groups.c: fills in `groups`; its errors name the key. */
gp_status cli_config_read_groups(cli_config *config);

/* The library's options; pointers are the configuration's. */
void cli_config_pipeline(const cli_config *config, gp_pipeline_options *options);
void cli_config_optimizer(const cli_config *config, gp_optimizer_options *options);
void cli_config_run(const cli_config *config, gp_run_options *options);

/* Tokens of a window: what the data set is asked for. */
int64_t cli_config_context(const cli_config *config);
/* The tokenizer that data.tokenizer names; NULL when it is made from the text (char), or there is none (token files).
 * The caller destroys it. */
gp_status cli_config_tokenizer(const cli_config *config, gp_tokenizer **tokenizer);
/* Whether data.tokenizer is a word (char, byte) and not a path; NULL is none. */
bool cli_tokenizer_is_word(const char *text);
/* Whether the model is a bert that guesses hidden tokens. */
bool cli_config_hides(const cli_config *config);
/* The data of a run. `tokenizer` may be NULL: it is made from the text. Errors name the key. The caller destroys the
 * data set, then the tokenizer. */
gp_status cli_config_data(const cli_config *config, const gp_tokenizer *tokenizer, gp_dataset **dataset);
/* data.images: that no other data and no other model than one of images is meant. */
gp_status cli_config_check_images(const cli_config *config);
/* The type of a sample that the model takes; builds it for that when need be. */
gp_status cli_config_sample(const cli_config *config, gp_type *sample);
/* The images of a run as samples of that type. `classes`: the list of a run, or NULL.
 * `only_validation`: images of training are not looked at where those of validation are others. Errors name the key. */
gp_status cli_config_images(const cli_config *config, gp_type sample, const gp_classes *classes, bool only_validation,
                            gp_dataset **dataset);
/* Whether samples have two labels with a weight each (data.augment.mixup). */
bool cli_config_mixes(const cli_config *config);
/* data.examples: that no other data is meant. */
gp_status cli_config_check_examples(const cli_config *config);
/* Whether the model takes the tokens of an example alone, without types and mask. */
bool cli_config_is_plain(const cli_config *config);
/* The labelled texts of a run. `classes`: the list of a run, or NULL. Errors name the key. The caller destroys the data
 * set, then the tokenizer. */
gp_status cli_config_examples(const cli_config *config, const gp_tokenizer *tokenizer, const gp_classes *classes,
                              gp_dataset **dataset);
/* Whether the model's number of classes is to be the data's. */
bool cli_config_needs_classes(const cli_config *config);
/* Settles the number of classes (the model's, at least the data's) and writes it into the settings. */
gp_status cli_config_classes(cli_config *config, const gp_dataset *dataset);
/* Random data for a finished model (data.random). */
gp_status cli_config_random_data(const cli_config *config, const gp_model *model, gp_dataset **dataset);
/* Settles the vocabulary (the model's, at least the `tokens` of tokenizer or data; 0: not known) and writes it into the
 * settings. */
gp_status cli_config_vocabulary(cli_config *config, int64_t tokens);
/* The options of a model of the zoo: its family is model.name's. Texts are constants. */
void cli_config_gpt2(const cli_config *config, gp_gpt2_options *options);
void cli_config_bert(const cli_config *config, gp_bert_options *options);
/* A model of images by its name, with the settings of its keys. Messages have no place in front. */
gp_status cli_config_named_model(const cli_config *config, const gp_loss *loss, gp_model **model);
/* The finished model. The caller destroys it. */
gp_status cli_config_model(const cli_config *config, gp_model **model);

/* The resolved configuration as YAML, which reads back to the same settings. `absolute`: paths of data no longer depend
 * on the current folder. */
gp_status cli_config_write(const cli_config *config, bool absolute, cli_text *text);

#endif
