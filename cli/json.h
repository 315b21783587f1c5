/* JSON for stdout: values that JSON has no form for, and printing. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "gpipe/status.h"

/* Whether a text can be in JSON and YAML: names of files may be any bytes. */
bool cli_is_utf8(const char *text);
/* A text whose bytes that are not ASCII become '?' when it is not UTF-8: a path is shown, and nothing is left out. */
json_t *cli_json_text(const char *text);
/* NaN and infinite become null. */
json_t *cli_json_number(double value);
/* Prints `value`, numbers with 9 digits, and releases it; NULL: memory had run out when it was made. Errors: GP_IO,
 * GP_OUT_OF_MEMORY. */
gp_status cli_json_print(json_t *value);

#endif
