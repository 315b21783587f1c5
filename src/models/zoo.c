/* What the families of the zoo share. */
#include "models/zoo.h"

#include <inttypes.h>

#include "base/status.h"

gp_option gp_zoo_integer(const char *key, int64_t value) {
    return (gp_option){.key = key, .type = GP_OPTION_INTEGER, .integer = value};
}

gp_option gp_zoo_number(const char *key, double value) {
    return (gp_option){.key = key, .type = GP_OPTION_NUMBER, .number = value};
}

gp_option gp_zoo_boolean(const char *key, bool value) {
    return (gp_option){.key = key, .type = GP_OPTION_BOOLEAN, .integer = value};
}

gp_option gp_zoo_text(const char *key, const char *text) {
    return (gp_option){.key = key, .type = GP_OPTION_TEXT, .text = text};
}

gp_status gp_zoo_add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    GP_TRY(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    return gp_model_add(model, layer);
}

gp_status gp_zoo_size(const char *family, const char *key, int64_t *value, int64_t standard) {
    if (*value == 0) *value = standard;
    if (*value >= 1 && *value <= INT32_MAX) return GP_OK;
    return gp_error(GP_INVALID, "%s: %s is %" PRId64 ", but 1 or more is accepted (0: %" PRId64 ")", family, key,
                    *value, standard);
}

gp_status gp_zoo_dropout(const char *family, const char *key, double value) {
    if (value >= 0 && value < 1) return GP_OK;
    return gp_error(GP_INVALID, "%s: %s is %g, but 0 or more and less than 1 is accepted", family, key, value);
}

gp_status gp_zoo_finish(gp_model **model, gp_model *created, gp_status status) {
    if (status == GP_OK) status = gp_model_finish(created);
    if (status != GP_OK) {
        gp_model_destroy(created);
        created = NULL;
    }
    *model = created;
    return status;
}
