/* gpipe export: the weights of a run as other programs read them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "config_keys.h"
#include "config_value.h"
#include "gpipe/exchange.h"
#include "message.h"
#include "session.h"

static gp_status read_family(const cli_session *session, gp_family_options *family, gp_export_options *options) {
    const cli_config *config = &session->config;
    memset(family, 0, sizeof *family);
    options->dropout = config->settings.model.dropout;
    if (config->use == CLI_USE_GPT2) {
        family->family = GP_FAMILY_GPT2;
        cli_config_gpt2(config, &family->gpt2);
        return GP_OK;
    }
    if (config->use == CLI_USE_BERT) {
        family->family = GP_FAMILY_BERT;
        cli_config_bert(config, &family->bert);
        return GP_OK;
    }
    static const char *const resnets[] = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
    char name[64];
    const cli_key *names = cli_key_find("model.name", CLI_USE_ZOO);
    cli_choice_word(names->choices, config->custom ? -1 : config->settings.model.name, name, sizeof name);
    for (size_t i = 0; i < sizeof resnets / sizeof *resnets; i++) {
        if (strcmp(name, resnets[i]) != 0) continue;
        family->family = GP_FAMILY_RESNET;
        family->resnet = (gp_resnet_options){.name = resnets[i], .classes = config->settings.model.classes};
        return GP_OK;
    }
    return cli_config_error(config, "model",
                            "only gpt2, bert and the ResNets of the zoo have a form that other programs read");
}

static bool has_one_of(const char *folder, const char *const *names, size_t count) {
    struct stat information;
    char file[4096];
    for (size_t i = 0; i < count; i++) {
        int length = snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        if (length > 0 && (size_t)length < sizeof file && lstat(file, &information) == 0) return true;
    }
    return false;
}

/* A folder of its own: an export among the files of a run or a checkpoint would replace some of them. `*replaced`: it
 * holds a model that goes. */
static gp_status make_folder(const char *path, bool force, bool *replaced) {
    static const char *const own[] = {"config.yaml", "state.json"};
    static const char *const models[] = {"config.json", "model.safetensors", "model.safetensors.index.json"};
    struct stat information;
    if (mkdir(path, 0777) == 0) return GP_OK;
    if (errno != EEXIST) return gp_error(GP_INVALID, "%s could not be created: %s", path, strerror(errno));
    if (stat(path, &information) != 0 || !S_ISDIR(information.st_mode))
        return gp_error(GP_INVALID, "%s is not a directory; choose another one with --out DIR", path);
    if (has_one_of(path, own, sizeof own / sizeof *own))
        return gp_error(GP_INVALID, "%s is a run or a checkpoint of gpipe: choose another directory with --out DIR",
                        path);
    *replaced = has_one_of(path, models, sizeof models / sizeof *models);
    if (*replaced && !force)
        return gp_error(GP_INVALID, "%s holds a model already: choose another directory, or replace it with --force",
                        path);
    return GP_OK;
}

/* What describes a model that was replaced, where the new one has nothing to put in its place. */
static void remove_stale(const char *folder, const char *name) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length > 0 && (size_t)length < sizeof path) unlink(path);
}

static gp_status write_tokenizer(const cli_session *session, const char *folder, bool replaced) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    gp_tokenizer_kind kind;
    if (replaced) remove_stale(folder, "tokenizer.json");
    if (!session->tokenizer) return GP_OK;
    if (length < 0 || (size_t)length >= sizeof path) return gp_error(GP_INVALID, "the path %s is too long", folder);
    kind = gp_tokenizer_kind_of(session->tokenizer);
    if (kind == GP_TOKENIZER_CHAR || kind == GP_TOKENIZER_BYTE) {
        cli_message(GP_LOG_INFO, "the tokenizer is gpipe's own (%s): it is not exported", gp_tokenizer_kind_name(kind));
        return GP_OK;
    }
    return gp_tokenizer_save(session->tokenizer, path);
}

static gp_status export_run(cli_session *session, const cli_arguments *arguments, const char *out) {
    static const gp_dtype dtypes[] = {GP_F32, GP_BF16, GP_F16};
    const char *run = arguments->words[0], *checkpoint = cli_given_value(arguments, "checkpoint");
    gp_family_options family;
    gp_export_options options = {.size = sizeof options};
    char path[4096];
    int dtype = 0;
    size_t shard_bytes = 0;
    bool replaced = false;
    gp_status status = cli_given_choice(arguments, "dtype", "f32|bf16|f16", &dtype);
    if (status == GP_OK) status = cli_given_bytes(arguments, "shard-size", &shard_bytes);
    if (status == GP_OK) status = cli_session_open_run(session, run, arguments, false, CLI_DATA_UNUSED);
    if (status == GP_OK) status = read_family(session, &family, &options);
    if (status == GP_OK) status = cli_session_weights_path(run, checkpoint ? checkpoint : "latest", path, sizeof path);
    if (status == GP_OK) status = make_folder(out, cli_given_flag(arguments, "force"), &replaced);
    options.dtype = dtypes[dtype];
    options.shard_bytes = shard_bytes;
    if (status == GP_OK) status = gp_export_huggingface(&family, path, out, &options);
    if (status == GP_OK && replaced && family.family == GP_FAMILY_RESNET) remove_stale(out, "config.json");
    return status == GP_OK ? write_tokenizer(session, out, replaced) : status;
}

static int run(const cli_arguments *arguments) {
    cli_session session = {0};
    const char *out = cli_given_value(arguments, "out");
    int format = 0;
    gp_status status =
        out ? GP_OK : gp_error(GP_INVALID, "export: --out DIR is missing: where config.json and the weights go");
    if (status == GP_OK) status = cli_given_choice(arguments, "format", "hf", &format);
    if (status == GP_OK) status = export_run(&session, arguments, out);
    if (status == GP_OK) cli_message(GP_LOG_INFO, "the weights of %s are in %s", arguments->words[0], out);
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    {"out", 'o', "DIR", CLI_FOLDER, "the directory to write (required)"},
    {"format", 0, "hf", CLI_WORDS, "hf: Hugging Face's layout (default)"},
    {"dtype", 0, "f32|bf16|f16", CLI_WORDS, "of the tensors (default: f32, which loses nothing)"},
    {"shard-size", 0, "SIZE", CLI_ANY,
     "weights that take more come in shards of at most this, with an index (default: 5GB; none: never)"},
    {"checkpoint", 0, "NAME", CLI_ANY, "latest (default), best, step-N, or a .safetensors file"},
    {"force", 'f', NULL, CLI_NO_VALUE, "replace a model that is in the directory"},
};

const cli_command cli_export = {
    .name = "export",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .kind = CLI_FOLDER,
    .summary = "write a run's weights as other programs read them",
    .description =
        "Writes config.json and model.safetensors (large ones as shards with an index) of a run with a gpt2 or bert of "
        "the zoo, so that transformers' "
        "from_pretrained reads them, and tokenizer.json where the run has a tokenizer that transformers knows. "
        "A ResNet's model.safetensors has torchvision's names. gpipe import of the directory gives the same weights "
        "again, bit for bit.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
