/* From text to numbers, strictly: the whole scalar must be one. */
#include "config_value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether it looks like a decimal number; strtod alone would take hexadecimal, "nan" and leading blanks. */
static bool looks_numeric(const char *text) {
    if (*text == '-' || *text == '+') text++;
    bool starts = (*text >= '0' && *text <= '9') || (*text == '.' && text[1] >= '0' && text[1] <= '9');
    return starts && strspn(text, "0123456789.eE+-") == strlen(text);
}

bool cli_text_number(const char *text, double *value) {
    char *end;
    if (!looks_numeric(text)) return false;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

bool cli_text_integer(const char *text, int64_t *value) {
    char *end;
    double number;
    if (!looks_numeric(text)) return false;
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0) {
        *value = integer;
        return true;
    }
    if (errno != 0 || !cli_text_number(text, &number) || number != floor(number) || fabs(number) > 9e15) return false;
    *value = (int64_t)number; /* 2e3 */
    return true;
}

static const char *plain(const cli_node *node) {
    return node->kind == CLI_SCALAR && !node->quoted ? node->text : "";
}

bool cli_value_integer(const cli_node *node, int64_t *value) {
    return cli_text_integer(plain(node), value);
}

bool cli_value_number(const cli_node *node, double *value) {
    return cli_text_number(plain(node), value);
}

bool cli_value_boolean(const cli_node *node, bool *value) {
    const char *text = plain(node);
    *value = strcasecmp(text, "true") == 0;
    return *value || strcasecmp(text, "false") == 0;
}

bool cli_text_bytes(const char *text, size_t *value) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                 {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    *value = 0;
    if (strcmp(text, "none") == 0) return true;
    size_t digits = strspn(text, "0123456789.eE+-");
    char number[64];
    double count;
    if (digits == 0 || digits >= sizeof number) return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    const char *unit = text + digits + strspn(text + digits, " ");
    if (!cli_text_number(number, &count) || count < 0) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, unit) != 0) continue;
        double bytes = count * units[i].factor;
        if (bytes > 0x1p62) return false;
        *value = (size_t)bytes;
        return true;
    }
    return false;
}

bool cli_value_bytes(const cli_node *node, size_t *value) {
    return node->kind == CLI_SCALAR && cli_text_bytes(node->text, value);
}

int cli_choice_find(const char *choices, const char *word) {
    size_t length = strlen(word);
    for (int index = 0;; index++) {
        size_t here = strcspn(choices, "|");
        if (here == length && strncmp(choices, word, here) == 0) return index;
        if (choices[here] == '\0') return -1;
        choices += here + 1;
    }
}

const char *cli_choice_word(const char *choices, int index, char *word, size_t size) {
    for (; index > 0 && *choices; index--) {
        choices += strcspn(choices, "|");
        if (*choices) choices++;
    }
    snprintf(word, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return word;
}
