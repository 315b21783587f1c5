/* Every command: one file each, one constant each. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "arguments.h"

extern const cli_command cli_train, cli_eval, cli_sample, cli_plan, cli_profile, cli_simulate, cli_inspect, cli_predict,
    cli_import, cli_export, cli_gradients, cli_tokenize, cli_doctor, cli_help;

/* All of them, in the order of help texts. */
const cli_command *const *cli_commands(size_t *count);
/* NULL when there is none. */
const cli_command *cli_command_find(const char *name);

/* Options that several commands have. */
#define CLI_OPTION_SET                                                                                                 \
    { "set", 's', "KEY=VALUE", CLI_KEY_VALUE, "set a key of the configuration (gpipe help config); may be repeated" }
#define CLI_OPTION_JSON                                                                                                \
    { "json", 0, NULL, CLI_NO_VALUE, "write JSON to stdout" }

/* ---- help texts (help.c, help_man.c, help_completion.c) ---- */

void cli_help_program(cli_text *text);
void cli_help_command(const cli_command *command, cli_text *text);
void cli_help_man_program(cli_text *text);
void cli_help_man_config(cli_text *text);
/* False for a shell that is not known. */
bool cli_help_completion(const char *shell, cli_text *text);

#endif
