/* YAML as a tree of nodes that remember where they stood. */
#ifndef CLI_CONFIG_DOCUMENT_H
#define CLI_CONFIG_DOCUMENT_H

#include "text.h"

typedef enum cli_node_kind { CLI_SCALAR, CLI_SEQUENCE, CLI_MAPPING } cli_node_kind;

typedef struct cli_node cli_node;
struct cli_node {
    cli_node_kind kind;
    const char *text;    /* of a scalar */
    bool quoted;         /* a scalar that is a text whatever it looks like */
    const char *origin;  /* the file, or "--set key=value" */
    size_t line, column; /* from 1; 0: the origin has no lines */
    const char *key;     /* in a mapping */
    size_t key_line, key_column;
    cli_node *first, *last, *next; /* children; next sibling */
};

typedef struct cli_document {
    cli_arena arena;
    cli_node *root; /* a mapping */
    size_t nodes;   /* made so far, aliases counted as often as they are used */
} cli_document;

/* Reads a YAML file of at most 1 MiB. Keys twice in a mapping, more than one document, tags other than !!str, aliases
 * beyond 100,000 nodes and nesting beyond 64 levels are errors: a hostile file costs little time and memory. Errors:
 * GP_INVALID with file:line:column. */
gp_status cli_document_load(cli_document *document, const char *path);
/* The same from memory. */
gp_status cli_document_parse(cli_document *document, const char *origin, const char *text, size_t length);
/* Applies "key.path=value", the value being YAML, on top of the tree. */
gp_status cli_document_set(cli_document *document, const char *assignment);
/* Sets a key to a text as it is; messages name `origin` as its place. */
gp_status cli_document_set_text(cli_document *document, const char *origin, const char *key, const char *text);
void cli_document_free(cli_document *document); /* accepts a zeroed struct */

/* The child of a mapping with that key, or NULL (also when `node` is NULL or no mapping). */
cli_node *cli_node_find(const cli_node *node, const char *key);
/* Whether it is an unquoted scalar that means nothing: empty, ~ or null. */
bool cli_node_is_null(const cli_node *node);
/* GP_INVALID with "file:line:column: " before the message. */
gp_status cli_node_error(const cli_node *node, const char *format, ...) GP_PRINTF(2, 3);
/* The same with the place of the node's key. */
gp_status cli_node_key_error(const cli_node *node, const char *format, ...) GP_PRINTF(2, 3);
/* What it is, for messages: "[1, 2]", "a list" (of other things than scalars, or long), "the text \"abc\"", ... */
const char *cli_node_describe(const cli_node *node, char *text, size_t size);

#endif
