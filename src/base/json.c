/* JSON within limits. */
#include "base/json.h"

#include "base/status.h"

/* Returns the position after the string that starts at `at` (its opening quote). */
static size_t skip_string(const char *text, size_t bytes, size_t at) {
    for (at++; at < bytes && text[at] != '"'; at++) {
        if (text[at] == '\\') at++;
    }
    return at + 1;
}

static gp_status check_structure(const char *text, size_t bytes, const gp_json_limits *limits, const char *what) {
    int depth = 0;
    size_t values = 0;
    for (size_t at = 0; at < bytes;) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(text, bytes, at);
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (c == '{' || c == '[' || c == ',') values++;
        if (depth > limits->depth) {
            return gp_error(GP_INVALID, "%s is nested deeper than %d at byte %zu", what, limits->depth, at);
        }
        if (values > limits->values) return gp_error(GP_INVALID, "%s has more than %zu values", what, limits->values);
        at++;
    }
    return GP_OK;
}

gp_status gp_json_parse(json_t **tree, const char *text, size_t bytes, const gp_json_limits *limits, const char *what) {
    *tree = NULL;
    if (bytes > limits->bytes) {
        return gp_error(GP_INVALID, "%s has %zu bytes: up to %zu are accepted", what, bytes, limits->bytes);
    }
    GP_TRY(check_structure(text, bytes, limits, what));
    json_error_t error;
    *tree = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*tree) return GP_OK;
    if (json_error_code(&error) == json_error_out_of_memory) {
        return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for %s of %zu bytes", what, bytes);
    }
    return gp_error(GP_INVALID, "%s is not valid JSON: %s (line %d, byte %d)", what, error.text, error.line,
                    error.position);
}
