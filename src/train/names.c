/* Which parameters a pattern means, and the complaint when it means none. */
#include "train/names.h"

#include <fnmatch.h>
#include <string.h>

#include "base/status.h"

bool gp_name_matches(const char *pattern, const char *name) {
    size_t length = strlen(pattern);
    bool begins = strncmp(name, pattern, length) == 0 && (name[length] == '.' || name[length] == '\0');
    return begins || fnmatch(pattern, name, 0) == 0;
}

gp_status gp_names_check(const gp_model *model, const char *pattern) {
    size_t parameters = gp_model_parameters(model), states = gp_model_states(model);
    for (size_t p = 0; p < parameters; p++)
        if (gp_name_matches(pattern, gp_model_parameter(model, p).name)) return GP_OK;
    for (size_t s = 0; s < states; s++)
        if (gp_name_matches(pattern, gp_model_state(model, s).name)) return GP_OK;
    if (parameters == 0) return gp_error(GP_INVALID, "no parameter matches \"%s\": the model has none", pattern);
    return gp_error(GP_INVALID, "no parameter matches \"%s\"; the first is called %s, the last %s", pattern,
                    gp_model_parameter(model, 0).name, gp_model_parameter(model, parameters - 1).name);
}
