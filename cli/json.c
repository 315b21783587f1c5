/* Jansson refuses what JSON has no form for, and a value that it refused is NULL and gone: such values are turned into
 * others here, before they are lost. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_is_utf8(const char *text) {
    json_t *value = json_string(text);
    json_decref(value);
    return value != NULL;
}

json_t *cli_json_text(const char *text) {
    json_t *value = json_string(text);
    char *plain = value ? NULL : strdup(text);
    if (!plain) return value;
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c > 127) *c = '?';
    value = json_string(plain);
    free(plain);
    return value;
}

json_t *cli_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

gp_status cli_json_print(json_t *value) {
    if (!value) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    bool written = json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && puts("") >= 0;
    json_decref(value);
    return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
}
