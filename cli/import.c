/* gpipe import: the weights of another program as a run directory, from which everything else goes on. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "gpipe/exchange.h"
#include "message.h"
#include "run_folder.h"

/* ---- the configuration ---- */

static void add_gpt2(cli_text *text, const gp_gpt2_options *options) {
    cli_text_add(text,
                 "model: {name: gpt2, layers: %lld, heads: %lld, width: %lld, context: %lld, positions: %lld, "
                 "vocabulary: %lld, dropout: %.17g, tied: %s}\n",
                 (long long)options->layers, (long long)options->heads, (long long)options->width,
                 (long long)options->context, (long long)options->positions, (long long)options->vocabulary,
                 options->dropout, options->untied ? "false" : "true");
}

static void add_bert(cli_text *text, const gp_bert_options *options) {
    static const char *const heads[] = {
#define HEAD_WORD(name, word, meaning) word,
        GP_BERT_HEADS(HEAD_WORD)
#undef HEAD_WORD
    };
    cli_text_add(text,
                 "model: {name: bert, layers: %lld, heads: %lld, width: %lld, feed_forward: %lld, context: %lld, "
                 "positions: %lld, vocabulary: %lld, types: %lld, dropout: %.17g, epsilon: %.17g, activation: %s, "
                 "tied: %s, head: %s",
                 (long long)options->layers, (long long)options->heads, (long long)options->width,
                 (long long)options->feed_forward, (long long)options->context, (long long)options->positions,
                 (long long)options->vocabulary, (long long)options->types, options->dropout, options->epsilon,
                 options->activation, options->untied ? "false" : "true", heads[options->head]);
    if (options->head == GP_BERT_CLASSIFY) cli_text_add(text, ", classes: %lld", (long long)options->classes);
    cli_text_add(text, "}\n");
}

/* Where training on goes by default: runs/NAME-tuned, after the folder, or the file unless it only says that it is a
 * model.
 */
static const char *name_tuned(cli_arena *arena, const char *from) {
    char real[PATH_MAX], *name = real;
    if (!realpath(from, real)) return cli_arena_format(arena, "runs/tuned");
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(real, '/');
        name = slash ? slash + 1 : real;
        char *end = strstr(name, ".safetensors");
        if (!end) end = strstr(name, ".bin");
        if (end) *end = '\0';
        bool says_nothing = strcmp(name, "model") == 0 || strncmp(name, "model-", 6) == 0;
        if (!says_nothing || !slash) break;
        *slash = '\0';
    }
    return cli_arena_format(arena, "runs/%s%stuned", name, *name ? "-" : "");
}

/* Through the table of keys, so that what is written is what can be read. */
static gp_status write_config(const gp_foreign *foreign, const char *from, const char *out, bool has_tokenizer) {
    const gp_family_options *family = gp_foreign_family(foreign);
    cli_text text = {0};
    cli_config config = {0};
    cli_config_options options = {.option = "--out", .key = "train.init_from", .text = out};
    if (family->family == GP_FAMILY_GPT2) add_gpt2(&text, &family->gpt2);
    if (family->family == GP_FAMILY_BERT) add_bert(&text, &family->bert);
    if (family->family == GP_FAMILY_RESNET)
        cli_text_add(&text, "model: {name: %s, classes: %lld}\n", family->resnet.name,
                     (long long)family->resnet.classes);
    gp_status status = text.failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left")
                                   : cli_config_parse(&config, "import", text.text, &options);
    if (status == GP_OK && !(config.settings.train.out = name_tuned(&config.document.arena, from)))
        status = GP_OUT_OF_MEMORY;
    if (status == GP_OK && has_tokenizer) {
        const char *tokenizer = cli_arena_format(&config.document.arena, "%s/tokenizer.json", out);
        config.settings.data.tokenizer = tokenizer;
        if (!tokenizer) status = GP_OUT_OF_MEMORY;
    }
    if (status == GP_OK) status = cli_run_folder_write_config(out, &config);
    cli_config_free(&config);
    cli_text_free(&text);
    return status;
}

/* ---- the weights ---- */

static gp_status write_weights(const gp_foreign *foreign, const char *out) {
    cli_arena arena = {0};
    const char *checkpoints = cli_arena_format(&arena, "%s/checkpoints", out);
    const char *folder = cli_arena_format(&arena, "%s/checkpoints/step-0", out);
    const char *file = cli_arena_format(&arena, "%s/checkpoints/step-0/model.safetensors", out);
    const char *latest = cli_arena_format(&arena, "%s/checkpoints/latest", out);
    gp_status status = checkpoints && folder && file && latest ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK && (mkdir(checkpoints, 0777) != 0 || mkdir(folder, 0777) != 0))
        status = gp_error(GP_IO, "%s could not be created: %s", folder, strerror(errno));
    if (status == GP_OK) status = gp_foreign_write(foreign, file);
    if (status == GP_OK && symlink("step-0", latest) != 0)
        status = gp_error(GP_IO, "%s could not be created: %s", latest, strerror(errno));
    cli_arena_free(&arena);
    return status;
}

static bool has(const char *folder, const char *name) {
    char path[4096];
    struct stat information;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &information) == 0;
}

/* The folder of the weights may hold a tokenizer too. One that cannot be used does not make the weights useless. */
static gp_status write_tokenizer(const gp_foreign *foreign, const char *from, const char *out, bool *written) {
    char path[4096];
    gp_tokenizer *tokenizer = NULL;
    *written = false;
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", out);
    if (length < 0 || (size_t)length >= sizeof path) return gp_error(GP_INVALID, "the path %s is too long", out);
    if (gp_foreign_family(foreign)->family == GP_FAMILY_RESNET) return GP_OK;
    if (!has(from, "tokenizer.json") && !has(from, "vocab.json") && !has(from, "vocab.txt")) {
        cli_message(GP_LOG_INFO, "there is no tokenizer in %s: the run has none", from);
        return GP_OK;
    }
    if (gp_tokenizer_load(&tokenizer, from) != GP_OK) {
        cli_message(GP_LOG_WARNING, "the run has no tokenizer: %s", gp_error_message());
        return GP_OK;
    }
    gp_status status = gp_tokenizer_save(tokenizer, path);
    gp_tokenizer_destroy(tokenizer);
    *written = status == GP_OK;
    return status;
}

/* ---- messages ---- */

static void say_names(const char *what, const gp_foreign *foreign, size_t count,
                      const char *(*name)(const gp_foreign *, size_t)) {
    enum { SHOWN = 5 };
    cli_text text = {0};
    if (count == 0) return;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        cli_text_add(&text, "%s%s", i ? ", " : "", name(foreign, i));
    if (count > SHOWN) cli_text_add(&text, " and %zu more", count - SHOWN);
    cli_message(GP_LOG_WARNING, "%s: %s", what, text.text ? text.text : "");
    cli_text_free(&text);
}

static void say(const gp_foreign *foreign, const char *from, const char *out) {
    const gp_family_options *family = gp_foreign_family(foreign);
    say_names("tensors that the model does not use", foreign, gp_foreign_unused_count(foreign), gp_foreign_unused);
    say_names("parameters that the files lack start anew", foreign, gp_foreign_new_count(foreign), gp_foreign_new);
    const char *name = family->family == GP_FAMILY_RESNET ? family->resnet.name
                       : family->family == GP_FAMILY_BERT ? "bert"
                                                          : "gpt2";
    cli_message(GP_LOG_INFO, "%s (%s, %s) is the run %s: %lld parameters", from, gp_foreign_format(foreign), name, out,
                (long long)gp_model_parameter_count(gp_foreign_model(foreign)));
}

/* ---- the command ---- */

static gp_status read_options(const cli_arguments *arguments, gp_foreign_options *options) {
    int64_t seed = 0;
    int head = GP_BERT_MASKED;
    *options = (gp_foreign_options){.choose_head = cli_given_value(arguments, "head") != NULL};
    gp_status status =
        cli_given_choice(arguments, "head", "masked|classify|next_sentence|pooled|hidden|pretraining", &head);
    if (status == GP_OK) status = cli_given_integer(arguments, "classes", 2, INT32_MAX, &options->classes);
    if (status == GP_OK) status = cli_given_integer(arguments, "seed", 0, INT64_MAX, &seed);
    options->head = (gp_bert_head)head;
    options->seed = (uint64_t)seed;
    return status;
}

/* The configuration comes last: it is what makes a folder a run. */
static gp_status write_files(const gp_foreign *foreign, const char *from, const char *out, bool made) {
    cli_run_folder_clear(out);
    gp_status status = write_weights(foreign, out);
    bool has_tokenizer = false;
    if (status == GP_OK) status = write_tokenizer(foreign, from, out, &has_tokenizer);
    if (status == GP_OK) status = write_config(foreign, from, out, has_tokenizer);
    if (status != GP_OK) {
        cli_run_folder_clear(out);
        if (made) rmdir(out);
    }
    return status;
}

/* A run that is replaced may be training still. */
static gp_status write_run(const gp_foreign *foreign, const char *from, const char *out, bool made) {
    FILE *log = NULL;
    gp_status status = made ? GP_OK : cli_run_folder_hold(out, &log);
    if (status == GP_OK) status = write_files(foreign, from, out, made);
    if (log) cli_run_folder_drop_log(out, log);
    return status;
}

static gp_status import(const cli_arguments *arguments) {
    const char *from = arguments->words[0], *out = cli_given_value(arguments, "out");
    gp_foreign_options options;
    gp_foreign *foreign = NULL;
    bool made = false;
    if (!out) return gp_error(GP_INVALID, "import: --out DIR is missing: where the run directory goes");
    gp_status status = read_options(arguments, &options);
    if (status == GP_OK) status = gp_foreign_open(&foreign, from, &options);
    if (status == GP_OK) status = cli_run_folder_prepare(out, cli_given_flag(arguments, "force"), &made);
    if (status == GP_OK) status = write_run(foreign, from, out, made);
    if (status == GP_OK) say(foreign, from, out);
    gp_foreign_close(foreign);
    return status;
}

static int run(const cli_arguments *arguments) {
    gp_status status = import(arguments);
    return status == GP_OK ? 0 : cli_fail(status);
}

static const cli_option options[] = {
    {"out", 'o', "DIR", CLI_FOLDER, "the run directory to write (required)"},
    {"head", 0, "masked|classify|next_sentence|pooled|hidden|pretraining", CLI_WORDS,
     "of a BERT: another head than config.json says; what the files lack of it starts anew"},
    {"classes", 0, "N", CLI_ANY, "of head classify (default: as config.json says)"},
    {"seed", 0, "N", CLI_ANY, "of parameters that start anew (default: 0)"},
    {"force", 'f', NULL, CLI_NO_VALUE, "replace the run that is in the run directory"},
};

const cli_command cli_import = {
    .name = "import",
    .arguments = "DIR|FILE",
    .least = 1,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "make a run directory of the weights of another program",
    .description =
        "Reads GPT-2 and BERT as Hugging Face's transformers saves them (a folder with config.json and "
        "model.safetensors or its shards, f32, bf16 or f16, with or without the prefix of the names) and checkpoints "
        "of llm.c (versions 3 and 5), and ResNets under torchvision's names (a safetensors file), and writes a run "
        "directory: config.yaml, checkpoints/step-0/model.safetensors "
        "and, if there is one in the folder, tokenizer.json. eval, sample, predict, inspect and export take it as any "
        "other run; gpipe train DIR/config.yaml --out OTHER trains on from its weights (train.init_from).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
