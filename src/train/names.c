/* Which parameters a pattern means, and the complaint when it means none. */
#include "train/names.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "layers/model.h"

static bool begins_with(const char *name, const char *part) {
    size_t length = strlen(part);
    return strncmp(name, part, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

/* The last layer that uses parameters, or -1. `shared`: the name of one that another layer declares; NULL: all are its
 * own. */
static int32_t find_head(const gp_model *model, const char **shared) {
    const gp_parameter_use *uses;
    size_t count = gp_model_uses(model, &uses);
    int32_t layer = count > 0 ? uses[count - 1].layer : -1;
    *shared = NULL;
    for (size_t u = count; u-- > 0 && uses[u].layer == layer;) {
        gp_parameter_info info = gp_model_parameter(model, uses[u].parameter);
        if (info.layer != (size_t)layer) *shared = info.name;
    }
    return layer;
}

static bool is_in_head(const gp_model *model, const char *name) {
    const char *shared;
    char layer[32];
    snprintf(layer, sizeof layer, "layers.%" PRId32, find_head(model, &shared));
    return !shared && begins_with(name, layer);
}

/* A part of a tied layer would be less than its name says, and what it shares would be more. */
static gp_status check_head(const gp_model *model) {
    const char *shared;
    int32_t layer = find_head(model, &shared);
    if (!shared) return GP_OK;
    return gp_error(GP_INVALID, "\"head\" is layers.%" PRId32 ", which shares %s: name the parameters that are meant",
                    layer, shared);
}

bool gp_name_matches(const gp_model *model, const char *pattern, const char *name) {
    if (strcmp(pattern, "head") == 0) return is_in_head(model, name);
    return begins_with(name, pattern) || fnmatch(pattern, name, 0) == 0;
}

gp_status gp_names_check(const gp_model *model, const char *pattern) {
    size_t parameters = gp_model_parameters(model), states = gp_model_states(model);
    if (strcmp(pattern, "head") == 0) GP_TRY(check_head(model));
    for (size_t p = 0; p < parameters; p++)
        if (gp_name_matches(model, pattern, gp_model_parameter(model, p).name)) return GP_OK;
    for (size_t s = 0; s < states; s++)
        if (gp_name_matches(model, pattern, gp_model_state(model, s).name)) return GP_OK;
    if (parameters == 0) return gp_error(GP_INVALID, "no parameter matches \"%s\": the model has none", pattern);
    return gp_error(GP_INVALID, "no parameter matches \"%s\"; the first is called %s, the last %s", pattern,
                    gp_model_parameter(model, 0).name, gp_model_parameter(model, parameters - 1).name);
}
