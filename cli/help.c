/* Help texts for the terminal. Everything in them comes from the tables of commands, keys and layers. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "config_keys.h"
#include "gpipe/layer.h"
#include "message.h"

enum { WIDTH = 100, COLUMN = 26 };

/* "  left        words words", the words from COLUMN on. */
static void add_row(cli_text *text, const char *left, const char *words) {
    cli_text_add(text, "  %-*s", COLUMN - 2, left);
    if (strlen(left) > COLUMN - 3) cli_text_add(text, "\n%*s", COLUMN, "");
    cli_text_add_wrapped(text, words, COLUMN, WIDTH);
    cli_text_add(text, "\n");
}

void cli_help_program(cli_text *text) {
    size_t count;
    const cli_command *const *commands = cli_commands(&count);
    cli_text_add(
        text,
        "gpipe trains neural networks by pipeline parallelism.\n\nUsage: gpipe COMMAND [OPTION]...\n\nCommands:\n");
    for (size_t i = 0; i < count; i++)
        add_row(text, commands[i]->name, commands[i]->summary);
    cli_text_add(text,
                 "\ngpipe COMMAND --help says more; gpipe help config lists the keys of a configuration, gpipe help\n"
                 "layers the layers of a model. gpipe --version says what is built in.\n\n"
                 "Exit status: 0 done, 1 failure while running, 2 usage, configuration or input, 3 does not fit\n"
                 "the memory, 4 a peer was lost, 5 diverged (NaN), 128+n ended by signal n.\n");
}

static void add_option(cli_text *text, const cli_option *option) {
    char left[96];
    char letter[8] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
             option->value ? option->value : "");
    add_row(text, left, option->help);
}

void cli_help_command(const cli_command *command, cli_text *text) {
    size_t common_count;
    const cli_option *common = cli_common_options(&common_count);
    cli_text_add(text, "Usage: gpipe %s%s%s [OPTION]...\n\n", command->name, *command->arguments ? " " : "",
                 command->arguments);
    cli_text_add_wrapped(text, command->description, 0, WIDTH);
    cli_text_add(text, "\n\nOptions:\n");
    for (size_t i = 0; i < command->option_count; i++)
        add_option(text, &command->options[i]);
    for (size_t i = 0; i < common_count; i++)
        add_option(text, &common[i]);
}

static void add_key(cli_text *text, const cli_key *key) {
    cli_text accepts = {0};
    cli_key_accepts(key, &accepts);
    cli_text_add(text, "  %s\n      ", key->path);
    cli_text_add_wrapped(text, key->help, 6, WIDTH);
    cli_text_add(text, "\n      accepted: ");
    cli_text_add_wrapped(text, accepts.text ? accepts.text : "", 6, WIDTH);
    if (!key->standard) cli_text_add(text, "; required");
    if (key->standard && *key->standard) cli_text_add(text, "; default: %s", key->standard);
    cli_text_add(text, "\n");
    cli_text_free(&accepts);
}

/* The key `path` or, where that is a group, those in it; "": every key. */
static bool is_asked_for(const cli_key *key, const char *path) {
    size_t length = strlen(path);
    if (length == 0) return true;
    return strncmp(key->path, path, length) == 0 && (key->path[length] == '\0' || key->path[length] == '.');
}

/* Returns whether there is such a key. */
static bool help_config(cli_text *text, const char *path) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    bool heading = true, found = false;
    if (!*path)
        cli_text_add(
            text,
            "Keys of a configuration (YAML). Any of them can be set from the command line: --set train.steps=100\n\n");
    for (size_t i = 0; i < count; i++) {
        heading = heading || cli_key_begins(&keys[i]);
        if (!is_asked_for(&keys[i], path)) continue;
        if (heading) {
            if (found) cli_text_add(text, "\n");
            cli_key_heading(&keys[i], text);
            cli_text_add(text, ":\n");
        }
        add_key(text, &keys[i]);
        heading = false;
        found = true;
    }
    return found;
}

static const char *type_word(gp_option_type type) {
    static const char *const words[] = {"integer", "number", "true or false", "text", "integer or list of integers"};
    return words[type];
}

static void add_layer(cli_text *text, const gp_layer_info *kind) {
    cli_text_add(text, "%s%s\n  ", kind->kind, kind->container ? ": {layers: [...]}" : "");
    cli_text_add_wrapped(text, kind->help, 2, WIDTH);
    cli_text_add(text, "\n");
    for (size_t i = 0; i < kind->option_count; i++) {
        const gp_option_info *option = &kind->options[i];
        char words[512];
        bool required = !option->default_text;
        snprintf(words, sizeof words, "%s (%s%s%s)", option->help, type_word(option->type),
                 required                ? "; required"
                 : *option->default_text ? "; default: "
                                         : "",
                 required ? "" : option->default_text);
        add_row(text, option->key, words);
    }
}

/* The layer `only`, "": all. Returns whether there is such a layer. */
static bool help_layers(cli_text *text, const char *only) {
    static const char repeat[] = "repeat: {times: N, layers: [...]}\n  the layers inside, N times\n";
    size_t count;
    const gp_layer_info *kinds = gp_layer_kinds(&count);
    bool found = !*only || strcmp(only, "repeat") == 0;
    if (!*only)
        cli_text_add(text,
                     "Layers of a model given as a list:  model: {layers: [{linear: {features: 10}}, relu, ...]}\n\n");
    if (found) cli_text_add(text, "%s", repeat);
    for (size_t k = 0; k < count; k++) {
        if (*only && strcmp(only, kinds[k].kind) != 0) continue;
        if (found) cli_text_add(text, "\n");
        add_layer(text, &kinds[k]);
        found = true;
    }
    return found;
}

/* ---- the command ---- */

static gp_status refuse(const char *topic, const char *more) {
    const char *word = *more ? more : topic,
               *nearest = strchr(word, '.') ? cli_key_nearest(word, CLI_USE_ALWAYS) : NULL;
    return gp_error(
        GP_INVALID,
        "there is no help on \"%s%s%s\"; accepted: a command, config, a key of a configuration%s%s%s, layers, "
        "a layer, man, completion",
        topic, *more ? " " : "", more, nearest ? " (the nearest is " : "", nearest ? nearest : "", nearest ? ")" : "");
}

/* A word that is no topic itself: a key, a group of keys, or a layer. */
static bool write_word(const char *word, cli_text *text) {
    return *word && (help_config(text, word) || help_layers(text, word));
}

/* Topics that a second word may follow. */
static gp_status write_pair(const char *topic, const char *more, cli_text *text) {
    bool config = strcmp(topic, "config") == 0, layers = strcmp(topic, "layers") == 0, man = strcmp(topic, "man") == 0;
    if (config || layers)
        return (config ? help_config(text, more) : help_layers(text, more)) ? GP_OK : refuse(topic, more);
    if (man && *more && strcmp(more, "config") != 0) return refuse(topic, more);
    if (man) {
        (*more ? cli_help_man_config : cli_help_man_program)(text);
    } else if (strcmp(topic, "completion") != 0) {
        return refuse(topic, more);
    } else if (!cli_help_completion(more, text)) {
        return gp_error(GP_INVALID, "completion for \"%s\" is not known; accepted: bash, zsh, fish", more);
    }
    return GP_OK;
}

static gp_status write_topic(const cli_arguments *arguments, cli_text *text) {
    const char *topic = arguments->word_count > 0 ? arguments->words[0] : "";
    const char *more = arguments->word_count > 1 ? arguments->words[1] : "";
    const cli_command *command = cli_command_find(topic);
    gp_status status = GP_OK;
    if (arguments->word_count == 0) {
        cli_help_program(text);
    } else if (command && !*more) {
        cli_help_command(command, text);
    } else if (*more || !write_word(topic, text)) {
        status = write_pair(topic, more, text);
    }
    return status == GP_OK && text->failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left") : status;
}

static int run(const cli_arguments *arguments) {
    cli_text text = {0};
    gp_status status = write_topic(arguments, &text);
    int result = status == GP_OK ? 0 : cli_fail(status);
    if (result == 0) fputs(text.text, stdout); /* main sees whether it arrived */
    cli_text_free(&text);
    return result;
}

const cli_command cli_help = {
    .name = "help",
    .arguments = "[TOPIC [WORD]]",
    .most = 2,
    .kind = CLI_WORDS,
    .words = "train|eval|sample|plan|profile|simulate|inspect|predict|import|export|tokenize|gradients|doctor|config|"
             "layers|man|completion",
    .summary = "help on a command, on the keys of a configuration, on layers",
    .description =
        "Without a topic: the commands. With one: help on that command, key (data.mirror), group of keys (data) or "
        "layer (conv2d); config [KEY]: every key of a configuration, or that one; layers [LAYER]: the layers that a "
        "model can be made of; man [config]: the manual pages; completion bash|zsh|fish: completion for that shell.",
    .run = run,
};
