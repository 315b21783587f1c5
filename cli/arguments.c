/* The command line against a command's table of options: --name value, --name=value, -x value, -- ends the options. */
#include "arguments.h"

#include <stdlib.h>
#include <string.h>

#include "config_value.h"

static const cli_option common[] = {
    {"quiet", 'q', NULL, CLI_NO_VALUE, "say only what went wrong"},
    {"verbose", 'v', NULL, CLI_NO_VALUE, "say more"},
    {"help", 'h', NULL, CLI_NO_VALUE, "show this help"},
};
enum { COMMON = sizeof common / sizeof *common };

const cli_option *cli_common_options(size_t *count) {
    *count = COMMON;
    return common;
}

static const cli_option *option_at(const cli_command *command, size_t index) {
    if (index < command->option_count) return &command->options[index];
    return index - command->option_count < COMMON ? &common[index - command->option_count] : NULL;
}

static const cli_option *find_long(const cli_command *command, const char *name, size_t length) {
    const cli_option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0) return option;
    }
    return NULL;
}

static const cli_option *find_letter(const cli_command *command, char letter) {
    const cli_option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        if (option->letter == letter) return option;
    }
    return NULL;
}

static gp_status unknown(const cli_command *command, const char *text) {
    const cli_option *option, *nearest = &common[0];
    size_t best = cli_edit_distance(text + strspn(text, "-"), nearest->name);
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        size_t here = cli_edit_distance(text + strspn(text, "-"), option->name);
        if (here >= best) continue;
        nearest = option;
        best = here;
    }
    return gp_error(GP_INVALID, "unknown option %s; the nearest known one is --%s", text, nearest->name);
}

static void add(cli_arguments *arguments, const cli_option *option, const char *value) {
    if (strcmp(option->name, "help") == 0) arguments->help = true;
    if (strcmp(option->name, "set") == 0) arguments->sets[arguments->set_count++] = value;
    arguments->given[arguments->given_count++] = (cli_given){option, value};
}

/* One option at texts[*at], whose value may be the next text. */
static gp_status read_option(cli_arguments *arguments, char **texts, int count, int *at) {
    const char *text = texts[*at], *value = NULL;
    const cli_option *option;
    if (text[1] == '-') {
        size_t length = strcspn(text + 2, "=");
        option = find_long(arguments->command, text + 2, length);
        if (text[2 + length] == '=') value = text + 3 + length;
    } else {
        option = find_letter(arguments->command, text[1]);
        if (option && text[2] && option->value) value = text + 2;
        if (option && text[2] && !option->value) option = NULL;
    }
    if (!option) return unknown(arguments->command, text);
    if (!option->value && value) return gp_error(GP_INVALID, "option --%s takes no value", option->name);
    if (option->value && !value) {
        if (*at + 1 >= count) return gp_error(GP_INVALID, "option --%s needs a value: %s", option->name, option->value);
        value = texts[++*at];
    }
    add(arguments, option, value);
    return GP_OK;
}

static gp_status read_all(cli_arguments *arguments, int count, char **texts) {
    bool options = true;
    for (int i = 0; i < count; i++) {
        if (options && strcmp(texts[i], "--") == 0) {
            options = false;
        } else if (options && texts[i][0] == '-' && texts[i][1]) {
            gp_status status = read_option(arguments, texts, count, &i);
            if (status != GP_OK) return status;
        } else {
            arguments->words[arguments->word_count++] = texts[i];
        }
    }
    if (arguments->help) return GP_OK;
    const cli_command *command = arguments->command;
    if (arguments->word_count < command->least) return gp_error(GP_INVALID, "%s is missing", command->arguments);
    if (arguments->word_count > command->most)
        return gp_error(GP_INVALID, "unexpected argument \"%s\"", arguments->words[command->most]);
    return GP_OK;
}

gp_status cli_arguments_read(cli_arguments *arguments, const cli_command *command, int count, char **texts) {
    size_t room = (size_t)(count > 0 ? count : 0) + 1;
    memset(arguments, 0, sizeof *arguments);
    arguments->command = command;
    arguments->words = calloc(room, sizeof *arguments->words);
    arguments->given = calloc(room, sizeof *arguments->given);
    arguments->sets = calloc(room, sizeof *arguments->sets);
    if (!arguments->words || !arguments->given || !arguments->sets)
        return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    return read_all(arguments, count, texts);
}

void cli_arguments_free(cli_arguments *arguments) {
    free(arguments->words);
    free(arguments->given);
    free(arguments->sets);
    memset(arguments, 0, sizeof *arguments);
}

bool cli_given_flag(const cli_arguments *arguments, const char *name) {
    for (size_t i = 0; i < arguments->given_count; i++) {
        if (strcmp(arguments->given[i].option->name, name) == 0) return true;
    }
    return false;
}

const char *cli_given_value(const cli_arguments *arguments, const char *name) {
    for (size_t i = arguments->given_count; i-- > 0;) {
        if (strcmp(arguments->given[i].option->name, name) == 0) return arguments->given[i].value;
    }
    return NULL;
}

gp_status cli_given_integer(const cli_arguments *arguments, const char *name, int64_t least, int64_t most,
                            int64_t *value) {
    const char *text = cli_given_value(arguments, name);
    int64_t number;
    if (!text) return GP_OK;
    if (!cli_text_integer(text, &number) || number < least || number > most)
        return gp_error(GP_INVALID, "--%s is \"%s\"; accepted: an integer from %lld to %lld", name, text,
                        (long long)least, (long long)most);
    *value = number;
    return GP_OK;
}

gp_status cli_given_number(const cli_arguments *arguments, const char *name, double least, double most, double *value) {
    const char *text = cli_given_value(arguments, name);
    double number;
    if (!text) return GP_OK;
    if (!cli_text_number(text, &number) || number < least || number > most)
        return gp_error(GP_INVALID, "--%s is \"%s\"; accepted: a number from %g to %g", name, text, least, most);
    *value = number;
    return GP_OK;
}

gp_status cli_given_bytes(const cli_arguments *arguments, const char *name, size_t *value) {
    const char *text = cli_given_value(arguments, name);
    size_t bytes = 0;
    if (!text) return GP_OK;
    bool none = strcmp(text, "none") == 0;
    if (!none && (!cli_text_bytes(text, &bytes) || bytes == 0))
        return gp_error(GP_INVALID, "--%s is \"%s\"; accepted: bytes with a unit, for instance 500MB or 2GiB, or none",
                        name, text);
    *value = none ? SIZE_MAX : bytes;
    return GP_OK;
}

gp_status cli_given_choice(const cli_arguments *arguments, const char *name, const char *words, int *value) {
    const char *text = cli_given_value(arguments, name);
    if (!text) return GP_OK;
    int place = cli_choice_find(words, text);
    if (place < 0) return gp_error(GP_INVALID, "--%s is \"%s\"; accepted: %s", name, text, words);
    *value = place;
    return GP_OK;
}
