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

/* The last layer that uses parameters, whose index in gp_model_uses is returned; of a tied one the use of another
 * layer's parameter. SIZE_MAX: there is none. */
static size_t head_of(const gp_model *model, bool *tied) {
    const gp_parameter_use *uses;
    size_t count = gp_model_uses(model, &uses);
    *tied = false;
    for (size_t u = count; u-- > 0 && uses[u].layer == uses[count - 1].layer;) {
        *tied = gp_model_parameter(model, uses[u].parameter).layer != (size_t)uses[u].layer;
        if (*tied) return u;
    }
    return count - 1;
}

static bool is_in_head(const gp_model *model, const char *name) {
    const gp_parameter_use *uses;
    char layer[32];
    bool tied;
    size_t head = head_of(model, &tied);
    if (tied || head == SIZE_MAX) return false;
    gp_model_uses(model, &uses);
    snprintf(layer, sizeof layer, "layers.%" PRId32, uses[head].layer);
    return begins_with(name, layer);
}

/* A part of a tied layer would be less than its name says, and what it shares would be more. */
static gp_status check_head(const gp_model *model) {
    const gp_parameter_use *uses;
    bool tied;
    size_t head = head_of(model, &tied);
    if (!tied) return GP_OK;
    gp_model_uses(model, &uses);
    return gp_error(GP_INVALID, "\"head\" is layers.%" PRId32 ", which shares %s: name the parameters that are meant",
                    uses[head].layer, gp_model_parameter(model, uses[head].parameter).name);
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
