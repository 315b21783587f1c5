/* From libyaml's events to a tree. The file may come from anywhere: size, nesting and the number of nodes (an alias is
 * a copy, so it counts) are bounded before memory is taken. */
#include "config_document.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "files.h"
#include "json.h"

enum { MAX_BYTES = 1 << 20, MAX_NODES = 100000, MAX_DEPTH = 64, MAX_ANCHORS = 256 };

/* A node that can be repeated with an alias. */
typedef struct anchor {
    const char *name;
    const cli_node *node;
} anchor;

typedef struct builder {
    cli_document *document;
    yaml_parser_t parser;
    const char *origin;
    bool has_lines;
    anchor anchors[MAX_ANCHORS];
    size_t anchor_count;
} builder;

/* ---- nodes ---- */

cli_node *cli_node_find(const cli_node *node, const char *key) {
    if (!node || node->kind != CLI_MAPPING) return NULL;
    for (cli_node *child = node->first; child; child = child->next) {
        if (strcmp(child->key, key) == 0) return child;
    }
    return NULL;
}

bool cli_node_is_null(const cli_node *node) {
    if (node->kind != CLI_SCALAR || node->quoted) return false;
    return strcmp(node->text, "") == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0;
}

static gp_status placed(const char *origin, size_t line, size_t column, const char *format, va_list arguments) {
    char message[768];
    vsnprintf(message, sizeof message, format, arguments);
    if (line == 0) return gp_error(GP_INVALID, "%s: %s", origin, message);
    return gp_error(GP_INVALID, "%s:%zu:%zu: %s", origin, line, column, message);
}

gp_status cli_node_error(const cli_node *node, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gp_status status = placed(node->origin, node->line, node->column, format, arguments);
    va_end(arguments);
    return status;
}

gp_status cli_node_key_error(const cli_node *node, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gp_status status = placed(node->origin, node->key_line, node->key_column, format, arguments);
    va_end(arguments);
    return status;
}

/* "[0, 0.9]"; false when the list is long, empty or holds other than scalars. */
static bool describe_list(const cli_node *list, char *text, size_t size) {
    size_t used = 0;
    for (const cli_node *child = list->first; child; child = child->next) {
        if (child->kind != CLI_SCALAR) return false;
        int length = snprintf(text + used, size - used, "%s%s", used ? ", " : "[", child->text);
        if (length < 0 || used + (size_t)length + 2 > size) return false;
        used += (size_t)length;
    }
    if (used > 0) memcpy(text + used, "]", 2);
    return used > 0;
}

const char *cli_node_describe(const cli_node *node, char *text, size_t size) {
    if (node->kind == CLI_SEQUENCE && !describe_list(node, text, size)) {
        snprintf(text, size, "a list");
    } else if (node->kind == CLI_SEQUENCE) {
        return text;
    } else if (node->kind == CLI_MAPPING) {
        snprintf(text, size, "a mapping");
    } else if (cli_node_is_null(node)) {
        snprintf(text, size, "nothing");
    } else {
        snprintf(text, size, "\"%.60s%s\"", node->text, strlen(node->text) > 60 ? "..." : "");
    }
    return text;
}

static cli_node *new_node(builder *b, cli_node_kind kind, yaml_mark_t mark) {
    if (b->document->nodes >= MAX_NODES) {
        gp_error(GP_INVALID, "%s: more than %d values, aliases counted as often as they are used", b->origin,
                 MAX_NODES);
        return NULL;
    }
    b->document->nodes++;
    cli_node *node = cli_arena_take(&b->document->arena, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->origin = b->origin;
    node->line = b->has_lines ? mark.line + 1 : 0;
    node->column = b->has_lines ? mark.column + 1 : 0;
    return node;
}

static void append(cli_node *parent, cli_node *child) {
    if (parent->last) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
}

/* A deep copy for an alias, standing where the alias stands. The nesting of what is copied is bounded already. */
static cli_node *copy_node(builder *b, const cli_node *node, yaml_mark_t mark, int depth) {
    if (depth > MAX_DEPTH) {
        gp_error(GP_INVALID, "%s: nesting of more than %d levels", b->origin, MAX_DEPTH);
        return NULL;
    }
    cli_node *copy = new_node(b, node->kind, mark);
    if (!copy) return NULL;
    copy->text = node->text;
    copy->quoted = node->quoted;
    for (const cli_node *child = node->first; child; child = child->next) {
        cli_node *below = copy_node(b, child, mark, depth + 1);
        if (!below) return NULL;
        below->key = child->key;
        below->key_line = child->key_line;
        below->key_column = child->key_column;
        append(copy, below);
    }
    return copy;
}

/* ---- events ---- */

static gp_status error_at(const builder *b, yaml_mark_t mark, const char *text) {
    if (!b->has_lines) return gp_error(GP_INVALID, "%s: %s", b->origin, text);
    return gp_error(GP_INVALID, "%s:%zu:%zu: %s", b->origin, mark.line + 1, mark.column + 1, text);
}

static gp_status next_event(builder *b, yaml_event_t *event) {
    if (yaml_parser_parse(&b->parser, event)) return GP_OK;
    if (b->parser.error == YAML_MEMORY_ERROR) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    char message[256];
    const char *problem = b->parser.problem ? b->parser.problem : "it cannot be read";
    snprintf(message, sizeof message, "not valid YAML: %s%s%s", problem, b->parser.context ? " " : "",
             b->parser.context ? b->parser.context : "");
    if (b->parser.error == YAML_READER_ERROR)
        return gp_error(GP_INVALID, "%s: byte %zu: %s", b->origin, b->parser.problem_offset, message);
    return error_at(b, b->parser.problem_mark, message);
}

static gp_status keep_anchor(builder *b, const yaml_char_t *name, const cli_node *node, yaml_mark_t mark) {
    if (!name) return GP_OK;
    if (b->anchor_count == MAX_ANCHORS) return error_at(b, mark, "more than 256 anchors");
    const char *text = (const char *)name;
    char *copy = cli_arena_copy(&b->document->arena, text, strlen(text));
    if (!copy) return GP_OUT_OF_MEMORY;
    b->anchors[b->anchor_count++] = (anchor){copy, node};
    return GP_OK;
}

static gp_status check_tag(const builder *b, const yaml_event_t *event, const yaml_char_t *tag, bool scalar) {
    if (!tag) return GP_OK;
    if (scalar && (strcmp((const char *)tag, "tag:yaml.org,2002:str") == 0 || strcmp((const char *)tag, "!") == 0))
        return GP_OK;
    return error_at(b, event->start_mark, "tags other than !!str are not accepted");
}

static gp_status build_scalar(builder *b, const yaml_event_t *event, cli_node **node) {
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(text, '\0', length)) return error_at(b, event->start_mark, "a text with a zero byte is not accepted");
    gp_status status = check_tag(b, event, event->data.scalar.tag, true);
    if (status != GP_OK) return status;
    *node = new_node(b, CLI_SCALAR, event->start_mark);
    char *copy = *node ? cli_arena_copy(&b->document->arena, text, length) : NULL;
    if (!copy) return *node ? GP_OUT_OF_MEMORY : GP_INVALID;
    (*node)->text = copy;
    (*node)->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || event->data.scalar.tag != NULL;
    return GP_OK;
}

static gp_status build_alias(builder *b, const yaml_event_t *event, int depth, cli_node **node) {
    const char *name = (const char *)event->data.alias.anchor;
    for (size_t i = b->anchor_count; i-- > 0;) {
        if (strcmp(b->anchors[i].name, name) != 0) continue;
        *node = copy_node(b, b->anchors[i].node, event->start_mark, depth);
        return *node ? GP_OK : GP_INVALID;
    }
    return error_at(b, event->start_mark, "an alias to an anchor that is not there (before it)");
}

static gp_status build_node(builder *b, yaml_event_t *event, int depth, cli_node **node);

static gp_status build_sequence(builder *b, int depth, cli_node *sequence) {
    for (;;) {
        yaml_event_t event;
        cli_node *child = NULL;
        gp_status status = next_event(b, &event);
        if (status != GP_OK) return status;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end) status = build_node(b, &event, depth, &child);
        yaml_event_delete(&event);
        if (end || status != GP_OK || !child) return status;
        append(sequence, child);
    }
}

/* The key of a pair; *key stays NULL at the end of the mapping. */
static gp_status build_key(builder *b, const cli_node *mapping, cli_node **key) {
    yaml_event_t event;
    char message[160];
    gp_status status = next_event(b, &event);
    if (status != GP_OK) return status;
    if (event.type == YAML_SCALAR_EVENT) {
        status = build_scalar(b, &event, key);
    } else if (event.type != YAML_MAPPING_END_EVENT) {
        status = error_at(b, event.start_mark, "a key must be a word");
    }
    yaml_event_delete(&event);
    if (status != GP_OK || !*key) return status;
    const cli_node *twin = cli_node_find(mapping, (*key)->text);
    if (!twin) return GP_OK;
    snprintf(message, sizeof message, "the key \"%.60s\" is given twice (before in line %zu)", (*key)->text,
             twin->line);
    return cli_node_error(*key, "%s", message);
}

static gp_status build_mapping(builder *b, int depth, cli_node *mapping) {
    for (;;) {
        cli_node *key = NULL, *child = NULL;
        yaml_event_t event;
        gp_status status = build_key(b, mapping, &key);
        if (status != GP_OK || !key) return status;
        status = next_event(b, &event);
        if (status != GP_OK) return status;
        status = build_node(b, &event, depth, &child);
        yaml_event_delete(&event);
        if (status != GP_OK || !child) return status;
        child->key = key->text;
        child->key_line = key->line;
        child->key_column = key->column;
        if (cli_node_is_null(child)) { /* an empty value has no place of its own */
            child->line = key->line;
            child->column = key->column;
        }
        append(mapping, child);
    }
}

static gp_status build_collection(builder *b, const yaml_event_t *event, int depth, cli_node **node) {
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *name = mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    const yaml_char_t *tag = mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    if (depth >= MAX_DEPTH) return error_at(b, event->start_mark, "nesting of more than 64 levels");
    gp_status status = check_tag(b, event, tag, false);
    if (status != GP_OK) return status;
    *node = new_node(b, mapping ? CLI_MAPPING : CLI_SEQUENCE, event->start_mark);
    if (!*node) return GP_INVALID;
    status = mapping ? build_mapping(b, depth + 1, *node) : build_sequence(b, depth + 1, *node);
    return status == GP_OK ? keep_anchor(b, name, *node, event->start_mark) : status;
}

static gp_status build_node(builder *b, yaml_event_t *event, int depth, cli_node **node) {
    gp_status status;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        status = build_scalar(b, event, node);
        return status == GP_OK ? keep_anchor(b, event->data.scalar.anchor, *node, event->start_mark) : status;
    case YAML_ALIAS_EVENT:
        return build_alias(b, event, depth, node);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return build_collection(b, event, depth, node);
    default:
        return error_at(b, event->start_mark, "a value was expected here");
    }
}

/* The one document of a stream; *node stays NULL when there is none. */
static gp_status build_stream(builder *b, cli_node **node) {
    for (bool more = true; more;) {
        yaml_event_t event;
        gp_status status = next_event(b, &event);
        if (status != GP_OK) return status;
        if (event.type == YAML_STREAM_END_EVENT) {
            more = false;
        } else if (event.type == YAML_DOCUMENT_START_EVENT && *node) {
            status = error_at(b, event.start_mark, "a second document begins; one is accepted");
        } else if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT &&
                   event.type != YAML_DOCUMENT_END_EVENT) {
            status = build_node(b, &event, 0, node);
        }
        yaml_event_delete(&event);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

static gp_status parse(cli_document *document, const char *origin, bool has_lines, const char *text, size_t length,
                       cli_node **node) {
    builder *b = calloc(1, sizeof *b);
    *node = NULL;
    if (!b || !yaml_parser_initialize(&b->parser)) {
        free(b);
        return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    }
    b->document = document;
    b->origin = origin;
    b->has_lines = has_lines;
    yaml_parser_set_input_string(&b->parser, (const unsigned char *)text, length);
    gp_status status = build_stream(b, node);
    yaml_parser_delete(&b->parser);
    free(b);
    return status;
}

/* ---- documents ---- */

gp_status cli_document_parse(cli_document *document, const char *origin, const char *text, size_t length) {
    memset(document, 0, sizeof *document);
    char *name = cli_arena_copy(&document->arena, origin, strlen(origin));
    if (!name) return GP_OUT_OF_MEMORY;
    gp_status status = parse(document, name, true, text, length, &document->root);
    if (status != GP_OK) return status;
    if (!document->root || cli_node_is_null(document->root)) return gp_error(GP_INVALID, "%s is empty", origin);
    if (document->root->kind == CLI_MAPPING) return GP_OK;
    char found[96];
    return cli_node_error(document->root, "found %s; keys such as \"model:\" are accepted here",
                          cli_node_describe(document->root, found, sizeof found));
}

/* Memory grows with what there is to read. */
static gp_status read_all(FILE *file, const char *path, cli_text *text) {
    char piece[4096];
    errno = 0;
    for (size_t length; text->length <= MAX_BYTES && (length = fread(piece, 1, sizeof piece, file)) > 0;)
        cli_text_add_bytes(text, piece, length);
    if (ferror(file)) return gp_error(GP_INVALID, "%s could not be read: %s", path, strerror(errno));
    if (text->failed) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (text->length <= MAX_BYTES) return GP_OK;
    return gp_error(GP_INVALID, "%s is larger than 1 MiB, which no configuration is", path);
}

gp_status cli_document_load(cli_document *document, const char *path) {
    memset(document, 0, sizeof *document);
    FILE *file;
    cli_text text = {0};
    gp_status status = cli_file_open(&file, path, "r");
    if (status != GP_OK) return status;
    status = read_all(file, path, &text);
    fclose(file);
    if (status == GP_OK) status = cli_document_parse(document, path, text.text ? text.text : "", text.length);
    cli_text_free(&text);
    return status;
}

void cli_document_free(cli_document *document) {
    cli_arena_free(&document->arena);
    memset(document, 0, sizeof *document);
}

/* ---- --set ---- */

/* Takes the child with that key out of a mapping. */
static void detach(cli_node *mapping, const char *key) {
    cli_node *kept = mapping->first;
    mapping->first = NULL;
    mapping->last = NULL;
    while (kept) {
        cli_node *next = kept->next;
        kept->next = NULL;
        if (strcmp(kept->key, key) != 0) append(mapping, kept);
        kept = next;
    }
}

/* The mapping at `key` below `parent`, made when there is none. */
static gp_status descend(cli_document *document, const char *origin, cli_node *parent, const char *key,
                         cli_node **child) {
    char found[96];
    *child = cli_node_find(parent, key);
    if (*child && cli_node_is_null(*child)) {
        detach(parent, key);
        *child = NULL;
    }
    if (*child && (*child)->kind == CLI_MAPPING) return GP_OK;
    if (*child)
        return gp_error(GP_INVALID, "%s: %s is %s and has no keys of its own", origin, key,
                        cli_node_describe(*child, found, sizeof found));
    *child = cli_arena_take(&document->arena, sizeof **child);
    if (!*child) return GP_OUT_OF_MEMORY;
    **child = (cli_node){.kind = CLI_MAPPING, .origin = origin, .key = key};
    append(parent, *child);
    return GP_OK;
}

static gp_status set(cli_document *document, const char *origin, char *path, cli_node *value) {
    cli_node *parent = document->root;
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = '\0';
        gp_status status = descend(document, origin, parent, path, &parent);
        if (status != GP_OK) return status;
    }
    detach(parent, path);
    value->key = path;
    append(parent, value);
    return GP_OK;
}

gp_status cli_document_set_text(cli_document *document, const char *origin, const char *key, const char *text) {
    if (!cli_is_utf8(text))
        return gp_error(GP_INVALID, "%s: this is not UTF-8, which a configuration is written in", origin);
    cli_arena *arena = &document->arena;
    char *path = cli_arena_copy(arena, key, strlen(key)), *place = cli_arena_copy(arena, origin, strlen(origin));
    char *copy = cli_arena_copy(arena, text, strlen(text));
    cli_node *value = cli_arena_take(arena, sizeof *value);
    if (!path || !place || !copy || !value) return GP_OUT_OF_MEMORY;
    *value = (cli_node){.kind = CLI_SCALAR, .text = copy, .quoted = true, .origin = place};
    return set(document, place, path, value);
}

gp_status cli_document_set(cli_document *document, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return gp_error(GP_INVALID, "--set %s: key=value is accepted, for instance --set train.steps=100", assignment);
    char *origin = cli_arena_format(&document->arena, "--set %s", assignment);
    char *path = cli_arena_copy(&document->arena, assignment, (size_t)(equals - assignment));
    cli_node *value = NULL;
    if (!origin || !path) return GP_OUT_OF_MEMORY;
    gp_status status = parse(document, origin, false, equals + 1, strlen(equals + 1), &value);
    if (status != GP_OK) return status;
    if (!value) {
        value = cli_arena_take(&document->arena, sizeof *value);
        if (!value) return GP_OUT_OF_MEMORY;
        *value = (cli_node){.kind = CLI_SCALAR, .text = "", .origin = origin};
    }
    return set(document, origin, path, value);
}
