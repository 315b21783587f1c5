/* A model of images by name: its keys of the table become the library's options. */
#include <string.h>

#include "config.h"
#include "config_keys.h"
#include "config_value.h"

enum { MOST_OPTIONS = 24 };

/* "224, 192" in the arena; NULL: no memory. */
static const char *join(cli_arena *arena, const cli_integers *integers) {
    cli_text text = {0};
    for (size_t i = 0; i < integers->count; i++)
        cli_text_add(&text, "%s%lld", i ? ", " : "", (long long)integers->values[i]);
    const char *copy = text.failed ? NULL : cli_arena_copy(arena, text.text, text.length);
    cli_text_free(&text);
    return copy;
}

/* A key's setting as an option. What is 0 or missing and has no default in the table is left to the library. */
static gp_status make_option(const cli_config *config, const cli_key *key, cli_arena *arena, gp_option *option,
                             bool *given) {
    const void *field = (const char *)&config->settings + key->offset;
    bool open = key->standard && key->standard[0] == '\0';
    char word[64];
    *option = (gp_option){.key = strchr(key->path, '.') + 1};
    *given = true;
    switch (key->type) {
    case CLI_KEY_INTEGER:
        option->type = GP_OPTION_INTEGER;
        option->integer = *(const int64_t *)field;
        *given = !open || option->integer != 0;
        return GP_OK;
    case CLI_KEY_NUMBER:
        option->type = GP_OPTION_NUMBER;
        option->number = *(const double *)field;
        *given = !open || option->number != 0;
        return GP_OK;
    case CLI_KEY_CHOICE:
        option->type = GP_OPTION_TEXT;
        cli_choice_word(key->choices, *(const int *)field, word, sizeof word);
        option->text = cli_arena_copy(arena, word, strlen(word));
        break;
    default: /* integers */
        *given = ((const cli_integers *)field)->count > 0;
        option->type = GP_OPTION_INTEGERS;
        option->text = *given ? join(arena, field) : "";
        break;
    }
    return option->text ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
}

/* Whether it is a size of the model: not its name, and in no group further down (model.loss). */
static bool is_size(const cli_config *config, const cli_key *key) {
    static const char group[] = "model.";
    return key->use & config->use && strncmp(key->path, group, strlen(group)) == 0 &&
           strcmp(key->path, "model.name") != 0 && !strchr(key->path + strlen(group), '.');
}

gp_status cli_config_named_model(const cli_config *config, const gp_loss *loss, gp_model **model) {
    gp_option options[MOST_OPTIONS];
    size_t key_count, count = 0;
    const cli_key *keys = cli_keys(&key_count);
    cli_arena arena = {0};
    char name[64];
    gp_status status = GP_OK;
    for (size_t i = 0; i < key_count && status == GP_OK && count < MOST_OPTIONS; i++) {
        bool given = false;
        if (!is_size(config, &keys[i])) continue;
        status = make_option(config, &keys[i], &arena, &options[count], &given);
        count += given;
    }
    cli_choice_word(cli_key_find("model.name", CLI_USE_ZOO)->choices, config->settings.model.name, name, sizeof name);
    if (status == GP_OK) status = gp_model_create_named(model, name, options, count, loss);
    cli_arena_free(&arena);
    return status;
}
