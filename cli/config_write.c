/* Settings back to YAML: what a run keeps as config.yaml. It reads back to the same settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config_keys.h"
#include "config_value.h"

/* Whether a text means itself without quotes: letters first, so that it is no number, and no word of YAML. */
static bool is_plain(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/0123456789.-";
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    if (!*text || !strchr(letters, *text) || strspn(text, inside) != strlen(text)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(words[i], text) == 0) return false;
    }
    return true;
}

static void write_text(cli_text *out, const char *text) {
    if (is_plain(text)) {
        cli_text_add(out, "%s", text);
        return;
    }
    cli_text_add(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            cli_text_add(out, "\\%c", c);
        } else if (c < ' ' || c == 127) {
            cli_text_add(out, "\\x%02X", c);
        } else {
            cli_text_add_bytes(out, text, 1);
        }
    }
    cli_text_add(out, "\"");
}

/* The shortest form that reads back to the same double. */
static void write_number(cli_text *out, double value) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    cli_text_add(out, "%s", text);
}

static void write_integers(cli_text *out, const cli_integers *integers) {
    for (size_t i = 0; i < integers->count; i++)
        cli_text_add(out, "%s%lld", i ? ", " : "[", (long long)integers->values[i]);
    cli_text_add(out, "]");
}

static void write_texts(cli_text *out, const cli_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) {
        cli_text_add(out, i ? ", " : "[");
        write_text(out, texts->items[i]);
    }
    cli_text_add(out, "]");
}

/* A path that means the same from another folder. */
static void write_path(cli_text *out, const char *path) {
    char folder[4096];
    if (path[0] == '/' || !getcwd(folder, sizeof folder)) {
        write_text(out, path);
        return;
    }
    cli_text whole = {0};
    cli_text_add(&whole, "%s/%s", folder, strncmp(path, "./", 2) == 0 ? path + 2 : path);
    if (whole.failed) out->failed = true;
    write_text(out, whole.failed ? path : whole.text);
    cli_text_free(&whole);
}

static void write_numbers(cli_text *out, const cli_numbers *numbers) {
    for (size_t i = 0; i < numbers->count; i++) {
        cli_text_add(out, i ? ", " : "[");
        write_number(out, numbers->values[i]);
    }
    cli_text_add(out, "]");
}

static void write_bytes(cli_text *out, size_t bytes) {
    if (bytes)
        cli_text_add(out, "%zu", bytes);
    else
        cli_text_add(out, "none");
}

/* A list of one goes without brackets, as it came. */
static void write_sizes(cli_text *out, const cli_sizes *sizes) {
    if (sizes->count != 1) cli_text_add(out, "[");
    for (size_t i = 0; i < sizes->count; i++) {
        if (i > 0) cli_text_add(out, ", ");
        write_bytes(out, sizes->values[i]);
    }
    if (sizes->count != 1) cli_text_add(out, "]");
}

static void write_share(cli_text *out, const cli_share *share, bool absolute) {
    if (!share->path) {
        write_number(out, share->share);
    } else if (absolute) {
        write_path(out, share->path);
    } else {
        write_text(out, share->path);
    }
}

/* ---- a tree in flow style ---- */

static void write_node(cli_text *out, const cli_node *node) {
    if (node->kind == CLI_SCALAR) {
        if (node->quoted || cli_node_is_null(node)) {
            if (node->quoted) write_text(out, node->text);
        } else {
            cli_text_add(out, "%s", node->text);
        }
        return;
    }
    bool mapping = node->kind == CLI_MAPPING;
    cli_text_add(out, mapping ? "{" : "[");
    for (const cli_node *child = node->first; child; child = child->next) {
        if (mapping) {
            write_text(out, child->key);
            cli_text_add(out, ": ");
        }
        write_node(out, child);
        if (child->next) cli_text_add(out, ", ");
    }
    cli_text_add(out, mapping ? "}" : "]");
}

static void write_layers(cli_text *out, const cli_node *list, int indent) {
    for (const cli_node *entry = list->first; entry; entry = entry->next) {
        cli_text_add(out, "\n%*s- ", indent, "");
        write_node(out, entry);
    }
}

/* ---- keys ---- */

/* A key whose default the library or the configuration works out, and that was not worked out yet. */
static bool is_unset(const cli_key *key, const void *field) {
    if (!key->standard || key->standard[0] != '\0') return false;
    if (key->type == CLI_KEY_TEXT) return *(const char *const *)field == NULL;
    if (key->type == CLI_KEY_SIZES) return ((const cli_sizes *)field)->count == 0;
    if (key->type == CLI_KEY_NUMBERS) return ((const cli_numbers *)field)->count == 0;
    if (key->type == CLI_KEY_TEXTS) return ((const cli_texts *)field)->count == 0;
    if (key->type == CLI_KEY_INTEGERS) return ((const cli_integers *)field)->count == 0;
    if (key->type == CLI_KEY_INTEGER) return *(const int64_t *)field == 0;
    return key->type == CLI_KEY_NUMBER && *(const double *)field == 0;
}

/* Whether the value depends on the folder in which the program was started. */
static bool is_path(const cli_config *config, const cli_key *key, const void *field) {
    static const char *const data[] = {
        "data.text",   "data.examples",          "data.tokens",    "data.validation_tokens", "data.images",
        "data.labels", "data.validation_labels", "train.init_from"};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        if (strcmp(key->path, data[i]) == 0) return true;
    }
    if (strcmp(key->path, "pipeline.schedule") == 0) return config->schedule;
    return strcmp(key->path, "data.tokenizer") == 0 && !cli_tokenizer_is_word(*(const char *const *)field);
}

static void write_value(cli_text *out, const cli_config *config, const cli_key *key, bool absolute, int indent) {
    const void *field = (const char *)&config->settings + key->offset;
    bool path = is_path(config, key, field);
    char word[64];
    switch (key->type) {
    case CLI_KEY_INTEGER:
        cli_text_add(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case CLI_KEY_NUMBER:
        write_number(out, *(const double *)field);
        break;
    case CLI_KEY_BOOLEAN:
        cli_text_add(out, *(const bool *)field ? "true" : "false");
        break;
    case CLI_KEY_TEXT:
        if (path && absolute) {
            write_path(out, *(const char *const *)field);
        } else {
            write_text(out, *(const char *const *)field);
        }
        break;
    case CLI_KEY_CHOICE:
        write_text(out, cli_choice_word(key->choices, *(const int *)field, word, sizeof word));
        break;
    case CLI_KEY_BYTES:
        write_bytes(out, *(const size_t *)field);
        break;
    case CLI_KEY_SIZES:
        write_sizes(out, field);
        break;
    case CLI_KEY_PAIR:
        cli_text_add(out, "[");
        write_number(out, ((const double *)field)[0]);
        cli_text_add(out, ", ");
        write_number(out, ((const double *)field)[1]);
        cli_text_add(out, "]");
        break;
    case CLI_KEY_NUMBERS:
        write_numbers(out, field);
        break;
    case CLI_KEY_SHARE:
        write_share(out, field, absolute);
        break;
    case CLI_KEY_TEXTS:
        write_texts(out, field);
        break;
    case CLI_KEY_INTEGERS:
        write_integers(out, field);
        break;
    case CLI_KEY_LAYERS:
        write_layers(out, cli_config_node(config, "model.layers"), indent + 2);
        break;
    }
}

/* Opens the groups of `path` that were not open for `before`; returns how many groups it lies in. */
static int write_groups(cli_text *out, const char *before, const char *path) {
    int depth = 0;
    size_t same = 0, begin = 0;
    while (before[same] && before[same] == path[same])
        same++;
    for (const char *dot; (dot = strchr(path + begin, '.')); depth++) {
        size_t end = (size_t)(dot - path);
        bool open = same > end;
        if (!open) cli_text_add(out, "%*s%.*s:\n", 2 * depth, "", (int)(end - begin), path + begin);
        begin = end + 1;
    }
    return depth;
}

gp_status cli_config_write(const cli_config *config, bool absolute, cli_text *text) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        const cli_key *key = &keys[i];
        const void *field = (const char *)&config->settings + key->offset;
        if (!(key->use & config->use) || is_unset(key, field)) continue;
        if (cli_key_is_of_images(key) && !config->settings.data.images) continue;
        int depth = write_groups(text, before, key->path);
        cli_text_add(text, "%*s%s: ", 2 * depth, "", strrchr(key->path, '.') + 1);
        write_value(text, config, key, absolute, 2 * depth);
        cli_text_add(text, "\n");
        before = key->path;
    }
    return text->failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left") : GP_OK;
}

void cli_config_write_value(const cli_config *config, const cli_key *key, cli_text *text) {
    const void *field = (const char *)&config->settings + key->offset;
    if (!is_unset(key, field)) write_value(text, config, key, true, 0);
}
