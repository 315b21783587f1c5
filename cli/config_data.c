/* The data of a configuration: text or token files, the tokenizer, the vocabulary that the model must have. */
#include <string.h>

#include <sys/stat.h>

#include "config.h"
#include "config_keys.h"
#include "gpipe/words.h"

int64_t cli_config_context(const cli_config *config) {
    const cli_settings *s = &config->settings;
    if (!config->custom) return s->model.context;
    return s->model.shape.count > 0 ? s->model.shape.values[s->model.shape.count - 1] : 0;
}

bool cli_tokenizer_is_word(const char *text) {
    return !text || strcmp(text, "char") == 0 || strcmp(text, "byte") == 0;
}

/* What the library said, with the place of the key in front. */
static gp_status error_at(const cli_config *config, const char *path, gp_status status) {
    char message[640];
    if (status != GP_INVALID) return status;
    strncpy(message, gp_error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    return cli_config_error(config, path, "data: %s", message);
}

gp_status cli_config_tokenizer(const cli_config *config, gp_tokenizer **tokenizer) {
    const char *name = config->settings.data.tokenizer;
    struct stat information;
    *tokenizer = NULL;
    if (!name || strcmp(name, "char") == 0) return GP_OK;
    if (strcmp(name, "byte") == 0) return gp_tokenizer_create(tokenizer, GP_TOKENIZER_BYTE, NULL);
    if (stat(name, &information) != 0)
        return cli_config_error(config, "data.tokenizer",
                                "data.tokenizer is %s: char, byte, or a folder or file that is there is accepted",
                                name);
    return error_at(config, "data.tokenizer", gp_tokenizer_load(tokenizer, name));
}

static gp_status check_keys(const cli_config *config) {
    const cli_settings *s = &config->settings;
    if (!s->data.text && !s->data.tokens)
        return cli_config_error(
            config, "data",
            "data.text is missing: the file, or a pattern of files, to learn from (or data.tokens, data.images)");
    if (s->data.text && s->data.tokens)
        return cli_config_error(config, "data.tokens", "data.text and data.tokens are both given: one is accepted");
    if (s->data.validation_tokens && !s->data.tokens)
        return cli_config_error(config, "data.validation_tokens", "data.validation_tokens is for data.tokens");
    if (s->data.tokens && s->data.tokenizer && strcmp(s->data.tokenizer, "char") == 0)
        return cli_config_error(config, "data.tokenizer",
                                "data.tokenizer char is made from a text, and data.tokens has none");
    return GP_OK;
}

/* Whether the model can take what the data gives. */
static gp_status check_model(const cli_config *config) {
    const cli_settings *s = &config->settings;
    const char *key = s->data.text ? "data.text" : "data.tokens";
    if (config->use & CLI_USE_IMAGES)
        return cli_config_error(config, key, "%s gives tokens, but the model takes images", key);
    bool masked = s->data.masked > 0;
    bool rows = masked ? s->model.shape.count == 2 && s->model.shape.values[0] == 3 : s->model.shape.count == 1;
    if (config->custom && (s->model.dtype != 0 || !rows))
        return cli_config_error(config, "model.input", "model.input is not %s, which is what %s gives%s",
                                masked ? "tokens, types and mask (shape: [3, tokens], dtype: i32)"
                                       : "a row of tokens (shape: [tokens], dtype: i32)",
                                key, masked ? " with data.masked" : "");
    if (config->use == CLI_USE_GPT2 && masked)
        return cli_config_error(config, "data.masked", "data.masked is for models that see every token; this is gpt2");
    if (config->use == CLI_USE_BERT && !cli_config_hides(config))
        return cli_config_error(config, key, "%s is for model.head: masked or pretraining", key);
    return GP_OK;
}

static int64_t *model_vocabulary(cli_settings *settings, bool custom) {
    return custom ? &settings->model.input_vocabulary : &settings->model.vocabulary;
}

bool cli_config_hides(const cli_config *config) {
    int head = config->settings.model.head;
    return config->use == CLI_USE_BERT && (head == GP_BERT_MASKED || head == GP_BERT_PRETRAINING);
}

/* Two parts of a text, of which the second may follow the first. */
static bool has_pairs(const cli_config *config) {
    return config->use == CLI_USE_BERT && config->settings.model.head == GP_BERT_PRETRAINING;
}

/* Tokens of a window: where tokens are hidden, a sample has others around it. */
static int64_t window_of(const cli_config *config) {
    int64_t around = config->settings.data.masked > 0 ? 2 + has_pairs(config) : 0;
    return cli_config_context(config) - around;
}

static gp_status check_window(const cli_config *config) {
    int64_t least = has_pairs(config) ? 4 : 1, window = window_of(config);
    if (window >= least) return GP_OK;
    return cli_config_error(
        config, "model.context", "model.context is %lld; at least %lld is needed for what is hidden",
        (long long)cli_config_context(config), (long long)(least + cli_config_context(config) - window));
}

static gp_status open_tokens(const cli_config *config, const gp_tokenizer *tokenizer, gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    gp_token_options options = {
        .size = sizeof options,
        .tokens = s->data.tokens,
        .validation_tokens = s->data.validation_tokens,
        .validation = s->data.validation.share,
        .tokenizer = tokenizer,
        .vocabulary = (int32_t)*model_vocabulary((cli_settings *)(uintptr_t)s, config->custom),
        .id_bytes = 2 * s->data.token_type,
        .context = window_of(config),
        .sampling = (gp_sampling)s->data.sampling,
        .batch = s->train.batch,
    };
    /* The model has room for the special tokens too, which the files need not have. */
    if (s->data.masked > 0 && !tokenizer && options.vocabulary > 3) options.vocabulary -= 3;
    return error_at(config, "data.tokens", gp_dataset_create_tokens(dataset, &options));
}

static gp_status open_text(const cli_config *config, const gp_tokenizer *tokenizer, gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    gp_text_options options = {
        .size = sizeof options,
        .text = s->data.text,
        .tokenizer_kind = GP_TOKENIZER_CHAR,
        .tokenizer = tokenizer,
        .validation = s->data.validation.share,
        .context = window_of(config),
        .sampling = (gp_sampling)s->data.sampling,
        .batch = s->train.batch,
    };
    return error_at(config, "data.text", gp_dataset_create_text(dataset, &options));
}

gp_status cli_config_data(const cli_config *config, const gp_tokenizer *tokenizer, gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    *dataset = NULL;
    gp_status status = check_keys(config);
    if (status == GP_OK) status = check_model(config);
    if (status != GP_OK) return status;
    status = check_window(config);
    if (status != GP_OK) return status;
    gp_dataset *windows = NULL;
    status = s->data.tokens ? open_tokens(config, tokenizer, &windows) : open_text(config, tokenizer, &windows);
    gp_masked_options hidden = {.size = sizeof hidden, .share = s->data.masked, .pairs = has_pairs(config)};
    if (status == GP_OK && s->data.masked > 0) {
        status = error_at(config, "data.masked", gp_dataset_create_masked_windows(dataset, windows, &hidden));
    } else {
        *dataset = windows;
    }
    return status;
}

/* Tokens are below the vocabulary; a bert has types and a mask beside them in one tensor. */
static int64_t random_below(const cli_config *config, int64_t vocabulary) {
    int64_t types = config->settings.model.types;
    return config->use == CLI_USE_BERT ? (types < 2 ? types : 2) : vocabulary;
}

/* Tokens of a model are below its vocabulary, classes are its outputs. */
gp_status cli_config_random_data(const cli_config *config, const gp_model *model, gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    int64_t vocabulary = config->custom ? s->model.input_vocabulary : s->model.vocabulary;
    gp_type input = gp_model_input_type(model), output = gp_model_output_type(model);
    *dataset = NULL;
    if (input.dtype == GP_I32 && vocabulary == 0)
        return cli_config_error(config, "model", "data.random needs the number of tokens: model.%svocabulary",
                                config->custom ? "input." : "");
    gp_random_options options = {
        .size = sizeof options,
        .input = input,
        .target = gp_model_target_type(model),
        .input_below = (int32_t)random_below(config, vocabulary),
        .target_below = has_pairs(config)       ? 2 /* the answers about sentences are among the targets */
                        : output.shape.rank > 0 ? (int32_t)output.shape.dims[output.shape.rank - 1]
                                                : 0,
    };
    return gp_dataset_create_random(dataset, &options);
}

gp_status cli_config_vocabulary(cli_config *config, int64_t tokens) {
    const char *path = config->custom ? "model.input.vocabulary" : "model.vocabulary";
    int64_t *vocabulary = model_vocabulary(&config->settings, config->custom);
    if (config->use & CLI_USE_IMAGES) return GP_OK;
    if (*vocabulary == 0) *vocabulary = tokens;
    if (*vocabulary == 0 && !config->custom)
        return cli_config_error(config, "model", "the vocabulary is not known: %s or data.text is needed", path);
    if (*vocabulary < tokens)
        return cli_config_error(
            config, path, "%s is %lld, but the tokenizer has %lld token%s%s: that many or more are accepted", path,
            (long long)*vocabulary, (long long)tokens, gp_plural(tokens, "s"),
            config->settings.data.masked > 0 ? " with those for the beginning, the end and what is masked" : "");
    return GP_OK;
}
