/* Scalars of YAML's core schema (1.2) as numbers and switches. */
#ifndef CLI_CONFIG_VALUE_H
#define CLI_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "config_document.h"

/* False when the node is not such a scalar. Numbers are decimal; an integer may be written as 1e6 or 1_000_000 is not
 * accepted: YAML's core schema knows no underscores. */
bool cli_value_integer(const cli_node *node, int64_t *value);
bool cli_value_number(const cli_node *node, double *value);
bool cli_value_boolean(const cli_node *node, bool *value);
/* Bytes with a unit: 512MiB, 8GiB, 1.5GB, 4096; "none" is 0. */
bool cli_value_bytes(const cli_node *node, size_t *value);

/* The same from a text, for options of the command line. */
bool cli_text_integer(const char *text, int64_t *value);
bool cli_text_number(const char *text, double *value);
bool cli_text_bytes(const char *text, size_t *value);

/* The place of a scalar among "a|b|c"; -1 when it is none of them. */
int cli_choice_find(const char *choices, const char *word);
/* Word number `index` of "a|b|c" into `word`, which is returned; empty past the end. */
const char *cli_choice_word(const char *choices, int index, char *word, size_t size);

#endif
