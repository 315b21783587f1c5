/* Options of built-in layers: checked against the table, read with their defaults. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"
#include "layers/builtin.h"

static const char *type_name(gp_option_type type) {
    switch (type) {
    case GP_OPTION_INTEGER:
        return "an integer";
    case GP_OPTION_NUMBER:
        return "a number";
    case GP_OPTION_BOOLEAN:
        return "true or false";
    case GP_OPTION_TEXT:
        return "a text";
    case GP_OPTION_INTEGERS:
        return "an integer or several";
    }
    return "something unknown";
}

/* How messages name what the options are of. */
static const char *what(const gp_arguments *arguments) {
    return arguments->is_model ? "model" : "layer";
}

static gp_status unknown_option(const gp_arguments *arguments, const char *key) {
    const gp_layer_info *info = arguments->info;
    gp_nearest nearest = {0};
    for (size_t i = 0; i < info->option_count; i++)
        gp_nearest_consider(&nearest, key, info->options[i].key);
    if (!nearest.word)
        return gp_error(GP_INVALID, "%s %s takes no options, but \"%s\" is given", what(arguments), info->kind, key);
    return gp_error(GP_INVALID, "%s %s has no option \"%s\"; the nearest one is \"%s\"", what(arguments), info->kind,
                    key, nearest.word);
}

static bool is_accepted(gp_option_type type, const gp_option *option) {
    bool text = option->type == GP_OPTION_TEXT || option->type == GP_OPTION_INTEGERS;
    if (text && !option->text) return false;
    if (option->type == GP_OPTION_INTEGER && (type == GP_OPTION_NUMBER || type == GP_OPTION_INTEGERS)) return true;
    return option->type == type || (type == GP_OPTION_INTEGERS && text);
}

static gp_status resolve_one(gp_arguments *arguments, const gp_option *option) {
    const gp_layer_info *info = arguments->info;
    for (size_t i = 0; i < info->option_count; i++) {
        const gp_option_info *known = &info->options[i];
        if (strcmp(known->key, option->key) != 0) continue;
        if (arguments->given[i])
            return gp_error(GP_INVALID, "option \"%s\" of %s %s is given twice", option->key, what(arguments),
                            info->kind);
        if (!is_accepted(known->type, option))
            return gp_error(GP_INVALID, "option \"%s\" of %s %s is %s, but %s is accepted", option->key,
                            what(arguments), info->kind, type_name(option->type), type_name(known->type));
        arguments->given[i] = option;
        return GP_OK;
    }
    return unknown_option(arguments, option->key);
}

gp_status gp_arguments_resolve(gp_arguments *arguments, const gp_option *options, size_t option_count) {
    const gp_layer_info *info = arguments->info;
    for (size_t i = 0; i < option_count; i++)
        GP_TRY(resolve_one(arguments, &options[i]));
    for (size_t i = 0; i < info->option_count; i++) {
        if (!arguments->given[i] && !info->options[i].default_text)
            return gp_error(GP_INVALID, "%s %s needs option \"%s\" (%s: %s)", what(arguments), info->kind,
                            info->options[i].key, type_name(info->options[i].type), info->options[i].help);
    }
    return GP_OK;
}

static size_t place_of(const gp_arguments *arguments, const char *key) {
    size_t i = 0;
    while (i + 1 < arguments->info->option_count && strcmp(arguments->info->options[i].key, key) != 0)
        i++;
    return i;
}

static bool is_given(const gp_arguments *arguments, const char *key) {
    return arguments->given[place_of(arguments, key)] != NULL;
}

static const char *default_of(const gp_arguments *arguments, const char *key) {
    const char *text = arguments->info->options[place_of(arguments, key)].default_text;
    return text ? text : "";
}

gp_status gp_argument_integer(const gp_arguments *arguments, const char *key, int64_t lowest, int64_t *value) {
    const gp_option *given = arguments->given[place_of(arguments, key)];
    *value = given ? given->integer : strtoll(default_of(arguments, key), NULL, 10);
    if (*value >= lowest && *value <= INT32_MAX) return GP_OK;
    return gp_error(GP_INVALID, "option \"%s\" of %s %s is %" PRId64 ", but %" PRId64 " to %" PRId32 " is accepted",
                    key, what(arguments), arguments->info->kind, *value, lowest, INT32_MAX);
}

gp_status gp_argument_number(const gp_arguments *arguments, const char *key, double lowest, double below,
                             double *value) {
    const gp_option *given = arguments->given[place_of(arguments, key)];
    if (!given) {
        *value = strtod(default_of(arguments, key), NULL);
    } else {
        *value = given->type == GP_OPTION_INTEGER ? (double)given->integer : given->number;
    }
    if (*value >= lowest && *value < below) return GP_OK;
    return gp_error(GP_INVALID, "option \"%s\" of %s %s is %g, but %g or more and less than %g is accepted", key,
                    what(arguments), arguments->info->kind, *value, lowest, below);
}

/* "1, 7" -> 1, 7; false when it is no such list or longer than `most`. */
static bool read_integers(const char *text, int64_t lowest, size_t most, int64_t *values, size_t *count) {
    for (*count = 0; *count < most;) {
        char *end = NULL;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (end == text || errno || value < lowest || value > INT32_MAX) return false;
        values[(*count)++] = value;
        while (*end == ' ')
            end++;
        if (*end == '\0') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
    return false;
}

gp_status gp_argument_integers(const gp_arguments *arguments, const char *key, int64_t lowest, size_t most,
                               int64_t *values, size_t *count) {
    const gp_option *given = arguments->given[place_of(arguments, key)];
    if (given && given->type == GP_OPTION_INTEGER) {
        *count = 1;
        return gp_argument_integer(arguments, key, lowest, values);
    }
    const char *text = given ? given->text : default_of(arguments, key);
    *count = 0;
    if (!given && !*text) return GP_OK;
    if (read_integers(text, lowest, most, values, count)) return GP_OK;
    return gp_error(GP_INVALID,
                    "option \"%s\" of %s %s is \"%s\", but 1 to %zu integers of %" PRId64 " or more are accepted", key,
                    what(arguments), arguments->info->kind, text, most, lowest);
}

gp_status gp_argument_pair(const gp_arguments *arguments, const char *key, int64_t lowest, int64_t pair[2]) {
    size_t count;
    GP_TRY(gp_argument_integers(arguments, key, lowest, 2, pair, &count));
    if (count == 1) pair[1] = pair[0];
    return GP_OK;
}

bool gp_argument_boolean(const gp_arguments *arguments, const char *key) {
    const gp_option *given = arguments->given[place_of(arguments, key)];
    return given ? given->integer != 0 : strcmp(default_of(arguments, key), "true") == 0;
}

const char *gp_argument_text(const gp_arguments *arguments, const char *key) {
    const gp_option *given = arguments->given[place_of(arguments, key)];
    return given ? given->text : default_of(arguments, key);
}

gp_status gp_argument_choice(const gp_arguments *arguments, const char *key, const char *const *choices, size_t count,
                             int *value) {
    const char *text = gp_argument_text(arguments, key);
    gp_nearest nearest = {0};
    for (size_t i = 0; i < count; i++) {
        *value = (int)i;
        if (strcmp(text, choices[i]) == 0) return GP_OK;
        gp_nearest_consider(&nearest, text, choices[i]);
    }
    return gp_error(GP_INVALID, "option \"%s\" of %s %s is \"%s\"; the nearest accepted one is \"%s\"", key,
                    what(arguments), arguments->info->kind, text, nearest.word);
}

gp_status gp_argument_init(const gp_arguments *arguments, const char *key, gp_weight_init *init) {
    *init = (gp_weight_init){.given = is_given(arguments, key)};
    return init->given ? gp_argument_number(arguments, key, 0, 1e6, &init->deviation) : GP_OK;
}
