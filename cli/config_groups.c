/* train.freeze and optimizer.lr_factors as the groups of parameters that the library takes. */
#include <stdlib.h>
#include <string.h>

#include "config.h"

/* "pattern=factor"; a pattern may have a = itself. */
static gp_status read_factor(cli_config *config, const char *text, gp_parameter_group *group) {
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    double factor = equals ? strtod(equals + 1, &end) : 0;
    bool valid = equals && equals > text && end > equals + 1 && *end == '\0' && factor >= 0 && factor <= 1e9;
    if (!valid)
        return cli_config_error(
            config, "optimizer.lr_factors",
            "optimizer.lr_factors has \"%s\"; accepted: pattern=factor, with a factor from 0 to 1e9", text);
    char *pattern = cli_arena_copy(&config->document.arena, text, (size_t)(equals - text));
    *group = (gp_parameter_group){.pattern = pattern, .frozen = factor == 0, .lr_factor = factor};
    return pattern ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
}

gp_status cli_config_read_groups(cli_config *config) {
    const cli_texts *freeze = &config->settings.train.freeze, *factors = &config->settings.optimizer.lr_factors;
    size_t count = freeze->count + factors->count;
    if (count == 0) return GP_OK;
    config->groups = cli_arena_take(&config->document.arena, count * sizeof *config->groups);
    if (!config->groups) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    for (size_t i = 0; i < freeze->count; i++)
        config->groups[config->group_count++] = (gp_parameter_group){.pattern = freeze->items[i], .frozen = true};
    for (size_t i = 0; i < factors->count; i++) {
        gp_status status = read_factor(config, factors->items[i], &config->groups[config->group_count++]);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}
