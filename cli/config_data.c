/* The data of a configuration: the corpus, its tokenizer, the vocabulary that the model must have. */
#include <string.h>

#include "config.h"
#include "config_keys.h"

int64_t cli_config_context(const cli_config *config) {
    const cli_settings *s = &config->settings;
    if (!config->custom) return s->model.context;
    return s->model.shape.count > 0 ? s->model.shape.values[s->model.shape.count - 1] : 0;
}

gp_status cli_config_data(const cli_config *config, const gp_tokenizer *tokenizer, gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    *dataset = NULL;
    if (!s->data.text)
        return cli_config_error(config, "data", "data.text is missing: the file, or a pattern of files, to learn from");
    if (config->use & CLI_USE_IMAGES)
        return cli_config_error(config, "data.text", "data.text gives tokens, but the model takes images");
    bool masked = s->data.masked > 0;
    bool rows = masked ? s->model.shape.count == 2 && s->model.shape.values[0] == 3 : s->model.shape.count == 1;
    if (config->custom && (s->model.dtype != 0 || !rows))
        return cli_config_error(config, "model.input", "model.input is not %s, which is what data.text gives%s",
                                masked ? "tokens, types and mask (shape: [3, tokens], dtype: i32)"
                                       : "a row of tokens (shape: [tokens], dtype: i32)",
                                masked ? " with data.masked" : "");
    if (config->use == CLI_USE_GPT2 && masked)
        return cli_config_error(config, "data.masked", "data.masked is for models that see every token; this is gpt2");
    if (config->use == CLI_USE_BERT && s->model.head != GP_BERT_MASKED)
        return cli_config_error(config, "data.text", "data.text is for model.head: masked");
    gp_text_options options = {
        .size = sizeof options,
        .text = s->data.text,
        .tokenizer_kind = (gp_tokenizer_kind)s->data.tokenizer,
        .tokenizer = tokenizer,
        .validation = s->data.validation,
        .context = cli_config_context(config),
        .sampling = (gp_sampling)s->data.sampling,
        .batch = s->train.batch,
    };
    gp_status status = masked ? gp_dataset_create_masked(dataset, &options, s->data.masked)
                              : gp_dataset_create_text(dataset, &options);
    if (status != GP_INVALID) return status;
    char message[640];
    strncpy(message, gp_error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    return cli_config_error(config, "data.text", "data: %s", message);
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
        .input_below = (int32_t)vocabulary,
        .target_below = output.shape.rank > 0 ? (int32_t)output.shape.dims[output.shape.rank - 1] : 0,
    };
    return gp_dataset_create_random(dataset, &options);
}

gp_status cli_config_vocabulary(cli_config *config, const gp_tokenizer *tokenizer) {
    const char *path = config->custom ? "model.input.vocabulary" : "model.vocabulary";
    int64_t *vocabulary =
        config->custom ? &config->settings.model.input_vocabulary : &config->settings.model.vocabulary;
    if (config->use & CLI_USE_IMAGES) return GP_OK;
    int64_t tokens = tokenizer ? gp_tokenizer_vocabulary(tokenizer) : 0;
    bool masked = config->settings.data.masked > 0;
    if (tokenizer && masked) tokens = gp_tokenizer_special(tokenizer).vocabulary;
    if (!tokenizer && config->settings.data.tokenizer == GP_TOKENIZER_BYTE) tokens = masked ? 256 + 3 : 256;
    if (*vocabulary == 0) *vocabulary = tokens;
    if (*vocabulary == 0 && !config->custom)
        return cli_config_error(config, "model", "the vocabulary is not known: %s or data.text is needed", path);
    if (*vocabulary < tokens)
        return cli_config_error(config, path,
                                "%s is %lld, but the tokenizer has %lld tokens%s: that many or more are accepted", path,
                                (long long)*vocabulary, (long long)tokens,
                                masked ? " with those for the beginning, the end and what is masked" : "");
    return GP_OK;
}
