/* Opening and closing what commands work with, always in the same order. */
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster.h"
#include "commands.h"

/* Whether inputs and targets of the model are what the data gives. */
static gp_status check_types(const cli_session *session) {
    gp_type input = gp_model_input_type(session->model), target = gp_model_target_type(session->model);
    gp_type inputs = gp_dataset_input_type(session->dataset), targets = gp_dataset_target_type(session->dataset);
    char wanted[96], found[96];
    if (!gp_type_equal(input, inputs))
        return cli_config_error(&session->config, "model", "a sample of the model is %s, but the data gives %s",
                                gp_type_format(input, wanted, sizeof wanted),
                                gp_type_format(inputs, found, sizeof found));
    if (!gp_type_equal(target, targets))
        return cli_config_error(
            &session->config, "model", "the loss wants targets of %s a sample, but the data gives %s",
            gp_type_format(target, wanted, sizeof wanted), gp_type_format(targets, found, sizeof found));
    return GP_OK;
}

static bool needs_data(const cli_session *session, cli_data_use use) {
    const cli_settings *s = &session->config.settings;
    int64_t vocabulary = session->config.custom ? s->model.input_vocabulary : s->model.vocabulary;
    if (use != CLI_DATA_FOR_VOCABULARY) return use == CLI_DATA_NEEDED;
    return vocabulary == 0 && (s->data.text || s->data.tokens) && !session->tokenizer;
}

/* How many different tokens there are; 0: not known. */
static int64_t known_tokens(const cli_session *session) {
    const gp_tokenizer *tokenizer = session->tokenizer;
    const cli_settings *s = &session->config.settings;
    bool special = s->data.masked > 0 || (s->data.examples && !cli_config_is_plain(&session->config));
    if (session->dataset) return gp_dataset_vocabulary(session->dataset);
    if (tokenizer && special) return gp_tokenizer_special(tokenizer).vocabulary;
    return tokenizer ? gp_tokenizer_vocabulary(tokenizer) : 0;
}

static gp_status open_images(cli_session *session, cli_data_use use) {
    gp_type sample;
    bool for_classes = use == CLI_DATA_FOR_VOCABULARY && cli_config_needs_classes(&session->config);
    if (use != CLI_DATA_NEEDED && !for_classes) return GP_OK;
    gp_status status = cli_config_sample(&session->config, &sample);
    if (status == GP_OK)
        status =
            cli_config_images(&session->config, sample, session->classes, session->only_validation, &session->dataset);
    return status == GP_OK ? cli_config_classes(&session->config, session->dataset) : status;
}

static gp_status open_examples(cli_session *session, cli_data_use use) {
    bool for_classes = use == CLI_DATA_FOR_VOCABULARY && cli_config_needs_classes(&session->config);
    if (use != CLI_DATA_NEEDED && !for_classes) return GP_OK;
    gp_status status = cli_config_examples(&session->config, session->tokenizer, session->classes, &session->dataset);
    return status == GP_OK ? cli_config_classes(&session->config, session->dataset) : status;
}

static gp_status open_data(cli_session *session, cli_data_use use) {
    if (session->config.settings.data.random) return GP_OK; /* it is made for the model, later */
    if (session->config.settings.data.images) return open_images(session, use);
    if (session->config.settings.data.examples) return open_examples(session, use);
    if (!needs_data(session, use)) return GP_OK;
    return cli_config_data(&session->config, session->tokenizer, &session->dataset);
}

static gp_status open_rest(cli_session *session, cli_data_use use) {
    bool random = session->config.settings.data.random;
    gp_status status = session->tokenizer ? GP_OK : cli_config_tokenizer(&session->config, &session->tokenizer);
    if (status == GP_OK) status = open_data(session, use);
    if (status == GP_OK) status = cli_config_vocabulary(&session->config, known_tokens(session));
    if (status == GP_OK) status = cli_config_model(&session->config, &session->model);
    if (status == GP_OK && random && use == CLI_DATA_NEEDED)
        status = cli_config_random_data(&session->config, session->model, &session->dataset);
    if (status == GP_OK && session->dataset) status = check_types(session);
    return status;
}

/* ---- together ---- */

/* The configuration section by section, so that the message can say which one differs. */
static gp_status compare_sections(const cli_session *session, const char *text) {
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        while (*end && (end[1] == ' ' || end[1] == '\n'))
            end += 1 + strcspn(end + 1, "\n");
        char what[80];
        snprintf(what, sizeof what, "the configuration (%.*s)", (int)strcspn(text, ":\n"), text);
        gp_status status = gp_cluster_compare(session->cluster, what, text, (size_t)(end - text));
        if (status != GP_OK) return status;
        text = *end ? end + 1 : end;
    }
    return GP_OK;
}

/* All processes have opened what they need, and have been told to do the same. */
static gp_status join(const cli_session *session, gp_status status) {
    cli_text text = {0};
    if (!session->cluster) return status;
    if (status == GP_OK) status = cli_config_write(&session->config, false, &text);
    status = cli_cluster_agree(session->cluster, status);
    if (status == GP_OK && text.text) status = compare_sections(session, text.text);
    cli_text_free(&text);
    return status;
}

void cli_session_pipeline(cli_session *session, gp_pipeline_options *options) {
    cli_config_pipeline(&session->config, options);
    options->cluster = session->cluster;
    cli_measuring_start(&session->measuring, options);
}

gp_status cli_session_open(cli_session *session, const char *path, const cli_arguments *arguments, cli_data_use data) {
    *session = (cli_session){.cluster = arguments->cluster};
    bool has_out = arguments->command == &cli_train;
    cli_config_options options = {.sets = arguments->sets,
                                  .set_count = arguments->set_count,
                                  .option = "--out",
                                  .key = "train.out",
                                  .text = has_out ? cli_given_value(arguments, "out") : NULL,
                                  .ranks = session->cluster ? gp_cluster_ranks(session->cluster) : 1};
    gp_status status = cli_config_load(&session->config, path, &options);
    if (status == GP_OK) status = open_rest(session, data);
    return join(session, status);
}

/* Whether --data names token files rather than text. */
static bool names_tokens(const char *path) {
    size_t length = path ? strlen(path) : 0;
    return length > 4 && strcmp(path + length - 4, ".bin") == 0;
}

/* The key of the data that a run, whose configuration is read for that, learned from. */
static const char *data_key(const char *config_path, const char *data_path) {
    cli_config config;
    cli_config_options options = {.any_schedule = true};
    const char *key = names_tokens(data_path) ? "data.tokens" : "data.text";
    if (cli_config_load(&config, config_path, &options) == GP_OK) {
        if (config.settings.data.images) key = "data.images";
        if (config.settings.data.examples) key = "data.examples";
    }
    cli_config_free(&config);
    return key;
}

/* --data takes the place of all data of the run. */
static void use_data(cli_settings *settings, const char *path) {
    if (settings->data.images) {
        settings->data.labels = NULL;
        settings->data.format = GP_IMAGES_AUTO;
    } else if (settings->data.examples) {
        settings->data.validation.path = NULL;
    } else if (names_tokens(path)) {
        settings->data.text = NULL;
    } else {
        settings->data.tokens = NULL;
    }
    settings->data.validation_tokens = NULL;
}

/* The list that the run was trained with: the numbers of its classes must not change. */
static gp_status load_classes(cli_session *session, const char *folder) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/classes.json", folder);
    if (length < 0 || (size_t)length >= sizeof path) return gp_error(GP_INVALID, "the path %s is too long", folder);
    return gp_classes_load(&session->classes, path);
}

gp_status cli_session_open_resumed(cli_session *session, const char *path, const char *run,
                                   const cli_arguments *arguments) {
    *session = (cli_session){.cluster = arguments->cluster};
    cli_arena arena = {0};
    struct stat information;
    cli_config_options options = {.sets = arguments->sets,
                                  .set_count = arguments->set_count,
                                  .option = "--resume",
                                  .key = "train.out",
                                  .text = run,
                                  .ranks = session->cluster ? gp_cluster_ranks(session->cluster) : 1};
    const char *tokenizer = cli_arena_format(&arena, "%s/tokenizer.json", run);
    gp_status status = tokenizer ? cli_config_load(&session->config, path, &options) : GP_OUT_OF_MEMORY;
    if (status == GP_OK && stat(tokenizer, &information) == 0)
        status = gp_tokenizer_load(&session->tokenizer, tokenizer);
    const char *classes = cli_arena_format(&arena, "%s/classes.json", run);
    if (status == GP_OK && classes && stat(classes, &information) == 0) status = load_classes(session, run);
    if (status == GP_OK) status = open_rest(session, CLI_DATA_NEEDED);
    cli_arena_free(&arena);
    return join(session, status);
}

gp_status cli_session_open_run(cli_session *session, const char *folder, const cli_arguments *arguments, bool all_of_it,
                               cli_data_use data) {
    const char *data_path = cli_given_value(arguments, "data");
    *session = (cli_session){.cluster = arguments->cluster};
    cli_arena arena = {0};
    struct stat information;
    cli_config_options options = {.sets = arguments->sets,
                                  .set_count = arguments->set_count,
                                  .option = "--data",
                                  .key = "data.text",
                                  .text = data_path,
                                  .any_schedule = true};
    const char *config = cli_arena_format(&arena, "%s/config.yaml", folder);
    const char *tokenizer = cli_arena_format(&arena, "%s/tokenizer.json", folder);
    gp_status status = config && tokenizer ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK && stat(config, &information) != 0)
        status = gp_error(GP_INVALID, "%s is not a run directory: there is no config.yaml in it", folder);
    const char *split = cli_given_value(arguments, "split");
    session->only_validation =
        arguments->command == &cli_eval && !data_path && (!split || strcmp(split, "validation") == 0);
    if (status == GP_OK && data_path) options.key = data_key(config, data_path);
    if (status == GP_OK) status = cli_config_load(&session->config, config, &options);
    if (status == GP_OK && data_path) use_data(&session->config.settings, data_path);
    if (status == GP_OK && all_of_it) session->config.settings.data.validation = (cli_share){0};
    bool random = session->config.settings.data.random;
    if (status == GP_OK && random && data == CLI_DATA_NEEDED)
        status =
            gp_error(GP_INVALID, "%s was trained on random data, which has nothing to evaluate or to continue", folder);
    bool has_tokenizer = status == GP_OK && stat(tokenizer, &information) == 0;
    if (status == GP_OK && !has_tokenizer && data == CLI_DATA_NEEDED && session->config.settings.data.text)
        status = gp_error(GP_INVALID,
                          "%s has no tokenizer.json to encode a text with: token files (*.bin) are accepted", folder);
    if (status == GP_OK && has_tokenizer) status = gp_tokenizer_load(&session->tokenizer, tokenizer);
    const cli_settings *s = &session->config.settings;
    if (status == GP_OK && (s->data.images || s->data.examples)) status = load_classes(session, folder);
    if (status == GP_OK) status = open_rest(session, data);
    cli_arena_free(&arena);
    return join(session, status);
}

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

gp_status cli_session_weights_path(const char *folder, const char *checkpoint, char *path, size_t size) {
    struct stat information;
    bool is_file = ends_in(checkpoint, ".safetensors") || ends_in(checkpoint, ".safetensors.index.json");
    int length = is_file ? snprintf(path, size, "%s", checkpoint)
                         : snprintf(path, size, "%s/checkpoints/%s", folder, checkpoint);
    if (length < 0 || (size_t)length >= size) return gp_error(GP_INVALID, "the path %s is too long", folder);
    if (stat(path, &information) == 0) return GP_OK;
    return gp_error(GP_INVALID,
                    "there are no weights at %s; --checkpoint takes latest, best, step-N or a .safetensors file", path);
}

gp_status cli_session_load_weights(cli_session *session, const char *folder, const char *checkpoint, int64_t batch) {
    gp_pipeline_options pipeline;
    char path[4096];
    cli_session_pipeline(session, &pipeline);
    pipeline.batch = batch;
    pipeline.replicas = 1;
    pipeline.memory_limits = NULL; /* they are of the workers of training */
    pipeline.speeds = NULL;
    if (session->cluster) pipeline.partitions = 0; /* as many as there are processes */
    pipeline.balance = GP_BALANCE_PARAMETERS;      /* nothing is measured first */
    gp_status status = cli_session_weights_path(folder, checkpoint, path, sizeof path);
    if (status == GP_OK) status = gp_trainer_create(&session->trainer, session->model, &pipeline, NULL, 0);
    return status == GP_OK ? gp_trainer_load(session->trainer, path) : status;
}

void cli_session_close(cli_session *session) {
    gp_trainer_destroy(session->trainer);
    gp_model_destroy(session->model);
    gp_dataset_destroy(session->dataset);
    gp_tokenizer_destroy(session->tokenizer);
    gp_classes_destroy(session->classes);
    cli_config_free(&session->config);
    memset(session, 0, sizeof *session);
}

gp_status cli_print_text(char *text) {
    bool written = text && fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    gp_text_free(text);
    return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
}
