/* Lines of labelled examples. Columns are split at tabs and nowhere else: there are no quotes, as in the files of GLUE.
 */
#include "data/examples.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/buffer.h"

enum { TEXTS = 3, PAIRS = 3, LABELS = 2 };
static const char *const usual_texts[TEXTS] = {"text", "sentence", "sentence1"};
static const char *const usual_pairs[PAIRS] = {"pair", "text_pair", "sentence2"};
static const char *const usual_labels[LABELS] = {"label", "class"};

static bool is_text(gp_span span, const char *text) {
    return strlen(text) == span.bytes && memcmp(span.text, text, span.bytes) == 0;
}

gp_span gp_example_line(const gp_corpus_file *file, size_t at, size_t *next) {
    const char *text = (const char *)file->map.data + at;
    size_t left = file->map.bytes - at;
    const char *end = memchr(text, '\n', left);
    size_t bytes = end ? (size_t)(end - text) : left;
    *next = at + bytes + (end != NULL);
    if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
    return (gp_span){text, bytes};
}

gp_status gp_example_within(gp_status status, const gp_corpus_file *file, size_t at) {
    size_t line = 1;
    if (status != GP_INVALID) return status;
    for (const unsigned char *c = file->map.data, *end = c + at; (c = memchr(c, '\n', (size_t)(end - c))); c++)
        line++;
    return gp_error_within(status, "'%s', line %zu", file->path, line);
}

/* ---- columns ---- */

static int split_columns(gp_span line, gp_span columns[GP_MOST_COLUMNS]) {
    int count = 0;
    for (;;) {
        const char *tab = memchr(line.text, '\t', line.bytes);
        size_t bytes = tab ? (size_t)(tab - line.text) : line.bytes;
        if (count < GP_MOST_COLUMNS) columns[count] = (gp_span){line.text, bytes};
        count++;
        if (!tab) return count;
        line.text += bytes + 1;
        line.bytes -= bytes + 1;
    }
}

static int find_column(const gp_span *columns, int count, const char *name, const char *const *usual, int usual_count) {
    for (int c = 0; c < count; c++) {
        if (name && is_text(columns[c], name)) return c;
        for (int u = 0; !name && u < usual_count; u++) {
            if (is_text(columns[c], usual[u])) return c;
        }
    }
    return -1;
}

/* Without a header: text and label, or text, pair and label. */
static gp_status plain_columns(gp_example_format *format, int count, const gp_example_names *names) {
    const char *asked = names->text ? names->text : names->pair ? names->pair : names->label;
    if (asked) return gp_error(GP_INVALID, "the first line names no column '%s'", asked);
    if (count != 2 && count != 3)
        return gp_error(GP_INVALID,
                        "it has %d columns and no header with a column 'label': text and label, or text, pair and "
                        "label, with tabs between are accepted",
                        count);
    *format = (gp_example_format){.text = 0, .pair = count == 3 ? 1 : -1, .label = count - 1};
    return GP_OK;
}

static gp_status find_columns(gp_example_format *format, gp_span line, const gp_example_names *names) {
    gp_span columns[GP_MOST_COLUMNS];
    int count = split_columns(line, columns);
    if (count > GP_MOST_COLUMNS)
        return gp_error(GP_INVALID, "it has %d columns: up to %d are accepted", count, (int)GP_MOST_COLUMNS);
    format->label = find_column(columns, count, names->label, usual_labels, LABELS);
    if (format->label < 0) return plain_columns(format, count, names);
    format->header = true;
    format->text = find_column(columns, count, names->text, usual_texts, TEXTS);
    format->pair = find_column(columns, count, names->pair, usual_pairs, PAIRS);
    if (format->text < 0)
        return gp_error(GP_INVALID, "it has no column '%s'", names->text ? names->text : usual_texts[0]);
    if (names->pair && format->pair < 0) return gp_error(GP_INVALID, "it has no column '%s'", names->pair);
    return GP_OK;
}

gp_status gp_example_format_find(gp_example_format *format, const gp_corpus_file *file, const gp_example_names *names) {
    size_t next;
    *format = (gp_example_format){.pair = -1};
    format->json = gp_ends_in(file->path, ".jsonl") || gp_ends_in(file->path, ".json");
    if (format->json) return GP_OK;
    if (!gp_ends_in(file->path, ".tsv"))
        return gp_error(GP_INVALID, "'%s' is neither .tsv (columns with tabs between) nor .jsonl (an object a line)",
                        file->path);
    return gp_example_within(find_columns(format, gp_example_line(file, 0, &next), names), file, 0);
}

static gp_status parse_columns(gp_example *example, const gp_example_format *format, gp_span line) {
    gp_span columns[GP_MOST_COLUMNS];
    int count = split_columns(line, columns);
    int needed = format->text > format->label ? format->text : format->label;
    if (format->pair > needed) needed = format->pair;
    if (count <= needed || count > GP_MOST_COLUMNS)
        return gp_error(GP_INVALID, "it has %d columns: the file has at least %d", count, needed + 1);
    example->text = columns[format->text];
    example->label = columns[format->label];
    if (format->pair >= 0) example->pair = columns[format->pair];
    return GP_OK;
}

/* ---- objects ---- */

static json_t *find_value(const json_t *object, const char *name, const char *const *usual, int usual_count) {
    if (name) return json_object_get(object, name);
    for (int i = 0; i < usual_count; i++) {
        json_t *value = json_object_get(object, usual[i]);
        if (value) return value;
    }
    return NULL;
}

static gp_status read_text(gp_span *span, const json_t *value, const char *name) {
    if (!json_is_string(value)) return gp_error(GP_INVALID, "its \"%s\" is missing or no text", name);
    *span = (gp_span){json_string_value(value), json_string_length(value)};
    return GP_OK;
}

static gp_status parse_object(gp_example *example, const gp_example_names *names, gp_span line) {
    static const gp_json_limits limits = {.bytes = GP_MOST_LINE_BYTES, .depth = 8, .values = 100000};
    GP_TRY(gp_json_parse(&example->object, line.text, line.bytes, &limits, "it"));
    if (!json_is_object(example->object)) return gp_error(GP_INVALID, "it is not a JSON object");
    const json_t *label = find_value(example->object, names->label, usual_labels, LABELS);
    const json_t *pair = find_value(example->object, names->pair, usual_pairs, PAIRS);
    GP_TRY(read_text(&example->text, find_value(example->object, names->text, usual_texts, TEXTS),
                     names->text ? names->text : usual_texts[0]));
    if (pair || names->pair) GP_TRY(read_text(&example->pair, pair, names->pair ? names->pair : usual_pairs[0]));
    if (!json_is_integer(label))
        return read_text(&example->label, label, names->label ? names->label : usual_labels[0]);
    snprintf(example->digits, sizeof example->digits, "%" JSON_INTEGER_FORMAT, json_integer_value(label));
    example->label = (gp_span){example->digits, strlen(example->digits)};
    return GP_OK;
}

/* ---- lines ---- */

static gp_status check_span(gp_span span, const char *what) {
    if (gp_utf8_valid((const unsigned char *)span.text, span.bytes) == span.bytes &&
        memchr(span.text, '\0', span.bytes) == NULL)
        return GP_OK;
    return gp_error(GP_INVALID, "its %s is not UTF-8", what);
}

gp_status gp_example_parse(gp_example *example, const gp_example_format *format, const gp_example_names *names,
                           gp_span line) {
    memset(example, 0, sizeof *example);
    if (line.bytes > GP_MOST_LINE_BYTES)
        return gp_error(GP_INVALID, "it has %zu bytes: up to %d are accepted", line.bytes, (int)GP_MOST_LINE_BYTES);
    GP_TRY(format->json ? parse_object(example, names, line) : parse_columns(example, format, line));
    if (example->label.bytes == 0) return gp_error(GP_INVALID, "its label is empty");
    return check_span(example->label, "label");
}

void gp_example_release(gp_example *example) {
    json_decref(example->object);
    example->object = NULL;
}
