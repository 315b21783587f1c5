/* The program: finds the command, reads its options, runs it. Exit status: see gp_status_exit and `gpipe help`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster.h"
#include "commands.h"
#include "gpipe/cluster.h"
#include "gpipe/device.h"
#include "message.h"

static const cli_command *const commands[] = {
    &cli_train,   &cli_eval,   &cli_sample, &cli_plan,      &cli_profile,  &cli_simulate, &cli_inspect,
    &cli_predict, &cli_import, &cli_export, &cli_gradients, &cli_tokenize, &cli_doctor,   &cli_help,
};
enum { COMMANDS = sizeof commands / sizeof *commands, USAGE = 2 };

const cli_command *const *cli_commands(size_t *count) {
    *count = COMMANDS;
    return commands;
}

const cli_command *cli_command_find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

/* The name nearest to an unknown one. */
static const char *nearest_command(const char *name) {
    const char *nearest = commands[0]->name;
    for (size_t i = 1; i < COMMANDS; i++) {
        if (cli_edit_distance(name, commands[i]->name) < cli_edit_distance(name, nearest)) nearest = commands[i]->name;
    }
    return nearest;
}

/* Data that did not arrive is a failure, said once: commands that write much say it themselves and return so. */
static int end_output(int result) {
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || result != 0) return result;
    cli_message(GP_LOG_ERROR, "stdout could not be written");
    return 1;
}

static int print(cli_text *text) {
    if (text->text) fputs(text->text, stdout);
    int result = end_output(text->text ? 0 : 1);
    cli_text_free(text);
    return result;
}

/* A closed standard stream would give its number to the next file that is opened, a run's metrics or weights, into
 * which messages would then be written. /dev/null takes the place; opened for reading, so that writing data fails. */
static void occupy_streams(void) {
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0) close(descriptor);
}

static int version(void) {
    gp_machine machine = {0};
    gp_status status = gp_machine_describe(&machine);
    printf("gpipe %s\n", gp_version());
    if (status != GP_OK) return cli_fail(status);
    const char *mpi = gp_cluster_implementations();
    printf("products %s\nkernels %s\nbf16 %s\nMPI %s\n", machine.products, machine.kernels, machine.bf16_route,
           *mpi ? mpi : "not built in");
    return end_output(0);
}

static int unknown_command(const char *name) {
    cli_message(GP_LOG_ERROR, "there is no command \"%s\"; the nearest one is %s. See gpipe --help", name,
                nearest_command(name));
    return USAGE;
}

static gp_log_level level_of(const cli_arguments *arguments) {
    if (cli_given_flag(arguments, "quiet")) return GP_LOG_ERROR;
    return cli_given_flag(arguments, "verbose") ? GP_LOG_DEBUG : GP_LOG_INFO;
}

static int run_together(const cli_command *command, cli_arguments *arguments) {
    gp_status status = cli_cluster_join(&arguments->cluster, command);
    if (status != GP_OK) return cli_fail(status);
    return cli_cluster_leave(arguments->cluster, end_output(command->run(arguments)));
}

static int run_command(const cli_command *command, int count, char **texts) {
    cli_arguments arguments;
    cli_text help = {0};
    int result;
    gp_status status = cli_arguments_read(&arguments, command, count, texts);
    cli_message_start(level_of(&arguments));
    if (status != GP_OK) {
        cli_message(GP_LOG_ERROR, "%s: %s. See gpipe %s --help", command->name, gp_error_message(), command->name);
        result = gp_status_exit(status);
    } else if (arguments.help) {
        cli_help_command(command, &help);
        result = print(&help);
    } else {
        result = run_together(command, &arguments);
    }
    cli_arguments_free(&arguments);
    return result;
}

int main(int count, char **texts) {
    cli_text help = {0};
    occupy_streams();
    cli_message_start(GP_LOG_INFO);
    cli_message_once(gp_cluster_launched());
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is a failed write, so that a run still ends properly */
    if (count < 2) {
        cli_help_program(&help);
        if (help.text) fputs(help.text, stderr);
        cli_text_free(&help);
        return USAGE;
    }
    if (strcmp(texts[1], "--version") == 0 || strcmp(texts[1], "-V") == 0) return version();
    if (strcmp(texts[1], "--help") == 0 || strcmp(texts[1], "-h") == 0) {
        cli_help_program(&help);
        return print(&help);
    }
    const cli_command *command = cli_command_find(texts[1]);
    return command ? run_command(command, count - 2, texts + 2) : unknown_command(texts[1]);
}
