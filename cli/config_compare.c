/* Keys are compared by their canonical texts, as config.yaml has them. */
#include "config_compare.h"

#include <string.h>

#include "config_keys.h"

/* The text of a key's value; empty when the key is not of the model, or has no value. */
static gp_status value_of(const cli_config *config, const cli_key *key, cli_text *text) {
    memset(text, 0, sizeof *text);
    if (key->use & config->use) cli_config_write_value(config, key, text);
    return text->failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left") : GP_OK;
}

static const char *said(const cli_text *text) {
    return text->text ? text->text : "not set";
}

static void note(cli_difference *difference, const cli_key *key, const cli_text *before, const cli_text *now) {
    bool may = cli_key_may_change(key);
    cli_text *list = may ? &difference->changed : &difference->refused;
    cli_text_add(list, may ? "%s%s %s -> %s" : "%s%s (%s there, %s here)", list->text ? ", " : "", key->path,
                 said(before), said(now));
}

/* Models of different kinds have hardly a key in common. */
static bool same_kind(const cli_config *before, const cli_config *now, cli_difference *difference) {
    if (before->use == now->use) return true;
    cli_text_add(&difference->refused, "model (another kind there than here)");
    return false;
}

gp_status cli_config_compare(const cli_config *before, const cli_config *now, cli_difference *difference) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    gp_status status = GP_OK;
    memset(difference, 0, sizeof *difference);
    if (!same_kind(before, now, difference)) return GP_OK;
    for (size_t i = 0; status == GP_OK && i < count; i++) {
        cli_text old = {0}, fresh = {0};
        if (strcmp(keys[i].path, "train.out") == 0) continue; /* a run may be moved */
        status = value_of(before, &keys[i], &old);
        if (status == GP_OK) status = value_of(now, &keys[i], &fresh);
        if (status == GP_OK && strcmp(said(&old), said(&fresh)) != 0) note(difference, &keys[i], &old, &fresh);
        cli_text_free(&old);
        cli_text_free(&fresh);
    }
    return status;
}

void cli_difference_free(cli_difference *difference) {
    cli_text_free(&difference->refused);
    cli_text_free(&difference->changed);
}

static gp_status add_fixed(const cli_config *config, const cli_config *defaults, const cli_key *key, cli_text *text) {
    cli_text value = {0}, standard = {0};
    gp_status status = value_of(config, key, &value);
    if (status == GP_OK && key->standard) status = value_of(defaults, key, &standard);
    bool set = value.text && !(standard.text && strcmp(value.text, standard.text) == 0);
    if (status == GP_OK && set) cli_text_add(text, "%s: %s\n", key->path, value.text);
    cli_text_free(&value);
    cli_text_free(&standard);
    return status;
}

gp_status cli_config_fixed_text(const cli_config *config, cli_text *text) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    cli_config defaults;
    gp_status status = cli_config_defaults(&defaults, config);
    for (size_t i = 0; status == GP_OK && i < count; i++)
        if (!cli_key_may_change(&keys[i])) status = add_fixed(config, &defaults, &keys[i], text);
    cli_config_free(&defaults);
    return status == GP_OK && text->failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left") : status;
}
