/* Two configurations of one run: what differs, and whether a run may go on with it. */
#ifndef CLI_CONFIG_COMPARE_H
#define CLI_CONFIG_COMPARE_H

#include "config.h"

typedef struct cli_difference {
    cli_text refused; /* "model.width (16 there, 32 here), ...": what must be the same */
    cli_text changed; /* "train.steps 10 -> 20, ...": what may change */
} cli_difference;

/* `before`: of the run; `now`: what is wanted. Errors: GP_OUT_OF_MEMORY. Free it in any case. */
gp_status cli_config_compare(const cli_config *before, const cli_config *now, cli_difference *difference);
void cli_difference_free(cli_difference *difference);

/* A text that is the same for two configurations exactly when a run of one may go on with the other: the keys that must
 * be the same, where they are not at their defaults, so that new keys change nothing. */
gp_status cli_config_fixed_text(const cli_config *config, cli_text *text);

#endif
