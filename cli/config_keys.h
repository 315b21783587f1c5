/* The table of keys: the only place that knows what a configuration may hold. Checking, writing, `gpipe help config`,
 * the man page and completion are made of it. */
#ifndef CLI_CONFIG_KEYS_H
#define CLI_CONFIG_KEYS_H

#include "config.h"

typedef enum cli_key_type {
    CLI_KEY_INTEGER,  /* int64_t */
    CLI_KEY_NUMBER,   /* double */
    CLI_KEY_BOOLEAN,  /* bool */
    CLI_KEY_TEXT,     /* const char * */
    CLI_KEY_CHOICE,   /* int, the place among `choices` */
    CLI_KEY_BYTES,    /* size_t */
    CLI_KEY_SIZES,    /* cli_sizes: bytes, or a list of them */
    CLI_KEY_PAIR,     /* double[2] */
    CLI_KEY_NUMBERS,  /* cli_numbers, each within the range */
    CLI_KEY_SHARE,    /* cli_share: a number within the range, or a path */
    CLI_KEY_TEXTS,    /* cli_texts */
    CLI_KEY_INTEGERS, /* cli_integers, each within the range */
    CLI_KEY_LAYERS    /* a list that config_model.c reads */
} cli_key_type;

/* Which models have the key, a bit each: those given as a list of layers, and the models of the zoo in the order of the
 * words of model.name. A path may have several rows for different models, with other ranges and defaults. */
typedef uint64_t cli_key_use;
#define CLI_USE_LAYERS       ((cli_key_use)1)
#define CLI_USE_GPT2         ((cli_key_use)2)
#define CLI_USE_BERT         ((cli_key_use)4)
#define CLI_USE_AMOEBANET    ((cli_key_use)3 << 3) /* -D and -B */
#define CLI_USE_RESNET_CIFAR ((cli_key_use)1 << 10)
#define CLI_USE_SENET154     ((cli_key_use)1 << 11)
#define CLI_USE_GOOGLENET    ((cli_key_use)1 << 13)
#define CLI_USE_VGG16        ((cli_key_use)1 << 14)
#define CLI_USE_UNET         ((cli_key_use)1 << 15)
#define CLI_USE_MLP          ((cli_key_use)1 << 16)
#define CLI_USE_IMAGES       ((((cli_key_use)1 << 14) - 1) << 3) /* all that gp_model_create_named makes */
#define CLI_USE_ALWAYS       (~(cli_key_use)0)
#define CLI_USE_ZOO          (CLI_USE_ALWAYS & ~CLI_USE_LAYERS)

typedef struct cli_key {
    const char *path;
    cli_key_type type;
    cli_key_use use;
    size_t offset;        /* in cli_settings */
    double low, high;     /* of numbers: what is accepted */
    bool above, below;    /* low, high themselves are not accepted */
    const char *choices;  /* "a|b|c" */
    const char *standard; /* default, as YAML; NULL: required; "": see the help */
    const char *help;
} cli_key;

const cli_key *cli_keys(size_t *count);
/* Whether it means something for data.images only. */
bool cli_key_is_of_images(const cli_key *key);
/* The key of a model with the bit `use`; NULL when there is none. */
const cli_key *cli_key_find(const char *path, cli_key_use use);
/* Whether a key lies below `path` ("optimizer", "optimizer.schedule"). */
bool cli_key_is_group(const char *path, cli_key_use use);
/* The nearest known path to an unknown one, or NULL. */
const char *cli_key_nearest(const char *path, cli_key_use use);
/* The models of a key in words, "gpt2, bert"; empty for all. */
void cli_key_models(const cli_key *key, cli_text *text);
/* Help texts: whether a new group begins with this key of the table, and the group's heading. */
bool cli_key_begins(const cli_key *key);
void cli_key_heading(const cli_key *key, cli_text *text);
/* Whether a run that is resumed may have another value: what changes neither the network nor the order of sums, and the
 * course of training that somebody may want to change on purpose. */
bool cli_key_may_change(const cli_key *key);
/* A key's value as config.yaml has it; nothing is added when it has none. */
void cli_config_write_value(const cli_config *config, const cli_key *key, cli_text *text);
/* For messages and help: "an integer, 1 or more", "one of a, b, c". */
void cli_key_accepts(const cli_key *key, cli_text *text);

#endif
