/* Commands and their options: one table that the command line is read with, and that help texts, the man page and
 * completion are made of. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "gpipe/cluster.h"
#include "text.h"

#include <stdint.h>

/* What completion offers for a value or an argument. */
typedef enum cli_value_kind { CLI_NO_VALUE, CLI_ANY, CLI_FILE, CLI_FOLDER, CLI_KEY_VALUE, CLI_WORDS } cli_value_kind;

typedef struct cli_option {
    const char *name;  /* without the two dashes */
    char letter;       /* of the short form; 0: none */
    const char *value; /* name of its value ("DIR", or the words "a|b"); NULL: a switch */
    cli_value_kind kind;
    const char *help;
} cli_option;

typedef struct cli_arguments cli_arguments;

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "run.yaml", "DIR", "" */
    size_t least, most;    /* how many of them */
    cli_value_kind kind;   /* of the arguments */
    const char *words;     /* kind CLI_WORDS: "a|b" */
    const char *summary;   /* a line */
    const char *description;
    const cli_option *options;
    size_t option_count;
    int (*run)(const cli_arguments *arguments); /* returns the exit status */
    bool together;                              /* may be started by mpirun: the processes do the work together */
} cli_command;

typedef struct cli_given {
    const cli_option *option;
    const char *value;
} cli_given;

struct cli_arguments {
    const cli_command *command;
    const char **words; /* arguments that are no options */
    size_t word_count;
    cli_given *given; /* in their order */
    size_t given_count;
    const char **sets; /* values of --set, in their order */
    size_t set_count;
    bool help;
    gp_cluster *cluster; /* NULL: this process works alone */
};

/* Options that every command has: --help, --quiet, --verbose. */
const cli_option *cli_common_options(size_t *count);

/* Reads argv[first..]; what is wrong is said with gp_error(GP_INVALID). Free it in any case. */
gp_status cli_arguments_read(cli_arguments *arguments, const cli_command *command, int count, char **texts);
void cli_arguments_free(cli_arguments *arguments);

bool cli_given_flag(const cli_arguments *arguments, const char *name);
/* The last value given; NULL: none. */
const char *cli_given_value(const cli_arguments *arguments, const char *name);
/* Numbers within a range; unchanged when not given. Errors: GP_INVALID naming the option. */
gp_status cli_given_integer(const cli_arguments *arguments, const char *name, int64_t least, int64_t most,
                            int64_t *value);
gp_status cli_given_number(const cli_arguments *arguments, const char *name, double least, double most, double *value);
/* The place of the value among the option's words; unchanged when not given. */
/* Bytes with a unit, one or more; "none" is SIZE_MAX. */
gp_status cli_given_bytes(const cli_arguments *arguments, const char *name, size_t *value);
gp_status cli_given_choice(const cli_arguments *arguments, const char *name, const char *words, int *value);

#endif
