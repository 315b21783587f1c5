/* JSON that nobody vouches for. Jansson is strict about syntax, duplicate keys and invalid UTF-8; before it builds a
 * tree, a scan makes sure that the tree will be shallow and no larger than the text warrants. */
#ifndef GP_BASE_JSON_H
#define GP_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "gpipe/status.h"

typedef struct gp_json_limits {
    size_t bytes;  /* of the text */
    int depth;     /* of lists and objects in each other */
    size_t values; /* of the tree: each takes up to about 200 bytes of memory */
} gp_json_limits;

/* Parses a text into a tree (released with json_decref); NULL when it fails. `what` is for messages: "the header".
 * Errors: GP_INVALID, GP_OUT_OF_MEMORY. */
gp_status gp_json_parse(json_t **tree, const char *text, size_t bytes, const gp_json_limits *limits, const char *what);

#endif
