/* The data of a configuration when it is labelled texts. */
#include "config.h"
#include "config_keys.h"
#include "gpipe/images.h"

gp_status cli_config_check_examples(const cli_config *config) {
    static const char *const fields[] = {"data.text_field", "data.pair_field", "data.label_field"};
    const cli_settings *s = &config->settings;
    const char *other = s->data.text ? "text" : s->data.tokens ? "tokens" : s->data.images ? "images" : NULL;
    if (s->data.examples && other)
        return cli_config_error(config, "data.examples", "data.examples and data.%s are both given: one is accepted",
                                other);
    if (s->data.examples && s->data.masked > 0)
        return cli_config_error(config, "data.masked", "data.masked is for data.text");
    for (size_t i = 0; !s->data.examples && i < sizeof fields / sizeof *fields; i++) {
        if (cli_config_node(config, fields[i]))
            return cli_config_error(config, fields[i], "%s is for data.examples, which is not given", fields[i]);
    }
    return GP_OK;
}

bool cli_config_is_plain(const cli_config *config) {
    return config->custom && config->settings.model.shape.count == 1;
}

/* Whether the model takes labelled texts: a bert that classifies, or layers on tokens. */
static gp_status check_model(const cli_config *config) {
    const cli_settings *s = &config->settings;
    const int64_t *shape = s->model.shape.values;
    bool rows = s->model.shape.count == 2 && shape[0] == 3;
    bool bert =
        config->use == CLI_USE_BERT && (s->model.head == GP_BERT_CLASSIFY || s->model.head == GP_BERT_NEXT_SENTENCE);
    if (config->custom && s->model.dtype == 0 && (rows || s->model.shape.count == 1)) return GP_OK;
    if (config->custom)
        return cli_config_error(
            config, "model.input",
            "model.input is not tokens, types and mask (shape: [3, tokens], dtype: i32) or a row of "
            "tokens (shape: [tokens]), which is what data.examples gives");
    if (bert) return GP_OK;
    return cli_config_error(config, "data.examples",
                            "data.examples is for bert with model.head: classify or next_sentence, or for a list of "
                            "layers");
}

static gp_status check_classes(const cli_config *config, const gp_dataset *dataset) {
    size_t count = gp_classes_count(gp_dataset_classes(dataset));
    bool pair = config->use == CLI_USE_BERT && config->settings.model.head == GP_BERT_NEXT_SENTENCE;
    if (!pair || count == 2) return GP_OK;
    return cli_config_error(config, "data.examples", "model.head next_sentence has two classes, the examples have %zu",
                            count);
}

gp_status cli_config_examples(const cli_config *config, const gp_tokenizer *tokenizer, const gp_classes *classes,
                              gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    *dataset = NULL;
    gp_status status = check_model(config);
    if (status != GP_OK) return status;
    if (!tokenizer)
        return cli_config_error(config, "data.tokenizer",
                                "data.examples needs data.tokenizer: a folder or file with one, or byte");
    gp_examples_options options = {
        .size = sizeof options,
        .examples = s->data.examples,
        .validation_examples = s->data.validation.path,
        .validation = s->data.validation.share,
        .text_field = s->data.text_field,
        .pair_field = s->data.pair_field,
        .label_field = s->data.label_field,
        .tokenizer = tokenizer,
        .classes = classes,
        .context = cli_config_context(config),
        .plain = cli_config_is_plain(config),
        .sampling = (gp_sampling)s->data.sampling,
        .batch = s->train.batch,
    };
    status = gp_error_within(gp_dataset_create_examples(dataset, &options), "data");
    if (status == GP_OK) return check_classes(config, *dataset);
    return cli_config_within(config, "data.examples", status);
}
