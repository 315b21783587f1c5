/* Options of built-in layers: checked against the table, read with their defaults. */
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
    }
    return "something unknown";
}

static gp_status unknown_option(const gp_layer_info *info, const char *key) {
    gp_nearest nearest = {0};
    for (size_t i = 0; i < info->option_count; i++)
        gp_nearest_consider(&nearest, key, info->options[i].key);
    if (!nearest.word) return gp_error(GP_INVALID, "layer %s takes no options, but \"%s\" is given", info->kind, key);
    return gp_error(GP_INVALID, "layer %s has no option \"%s\"; the nearest one is \"%s\"", info->kind, key,
                    nearest.word);
}

static gp_status resolve_one(gp_arguments *arguments, const gp_option *option) {
    const gp_layer_info *info = arguments->info;
    for (size_t i = 0; i < info->option_count; i++) {
        const gp_option_info *known = &info->options[i];
        if (strcmp(known->key, option->key) != 0) continue;
        if (arguments->given[i])
            return gp_error(GP_INVALID, "option \"%s\" of layer %s is given twice", option->key, info->kind);
        bool integer_as_number = known->type == GP_OPTION_NUMBER && option->type == GP_OPTION_INTEGER;
        if ((option->type != known->type && !integer_as_number) || (option->type == GP_OPTION_TEXT && !option->text))
            return gp_error(GP_INVALID, "option \"%s\" of layer %s is %s, but %s is accepted", option->key, info->kind,
                            type_name(option->type), type_name(known->type));
        arguments->given[i] = option;
        return GP_OK;
    }
    return unknown_option(info, option->key);
}

gp_status gp_arguments_resolve(gp_arguments *arguments, const gp_option *options, size_t option_count) {
    const gp_layer_info *info = arguments->info;
    for (size_t i = 0; i < option_count; i++)
        GP_TRY(resolve_one(arguments, &options[i]));
    for (size_t i = 0; i < info->option_count; i++) {
        if (!arguments->given[i] && !info->options[i].default_text)
            return gp_error(GP_INVALID, "layer %s needs option \"%s\" (%s: %s)", info->kind, info->options[i].key,
                            type_name(info->options[i].type), info->options[i].help);
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
    return gp_error(GP_INVALID, "option \"%s\" of layer %s is %" PRId64 ", but %" PRId64 " to %" PRId32 " is accepted",
                    key, arguments->info->kind, *value, lowest, INT32_MAX);
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
    return gp_error(GP_INVALID, "option \"%s\" of layer %s is %g, but %g or more and less than %g is accepted", key,
                    arguments->info->kind, *value, lowest, below);
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
    return gp_error(GP_INVALID, "option \"%s\" of layer %s is \"%s\"; the nearest accepted one is \"%s\"", key,
                    arguments->info->kind, text, nearest.word);
}

gp_status gp_argument_init(const gp_arguments *arguments, const char *key, gp_weight_init *init) {
    init->given = is_given(arguments, key);
    return init->given ? gp_argument_number(arguments, key, 0, 1e6, &init->deviation) : GP_OK;
}
