/* Completion for bash, zsh and fish, made of the tables of commands and keys. */
#include <string.h>

#include "commands.h"
#include "config_keys.h"

/* "a|b" as "a b". */
static void add_words(cli_text *text, const char *words) {
    for (; words && *words; words++)
        cli_text_add_bytes(text, *words == '|' ? " " : words, 1);
}

/* Every key once, with '=' behind it; layers and sizes of a model share paths. */
static void add_keys(cli_text *text) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    for (size_t i = 0; i < count; i++) {
        bool again = false;
        for (size_t j = 0; j < i; j++)
            again = again || strcmp(keys[j].path, keys[i].path) == 0;
        if (!again) cli_text_add(text, " %s=", keys[i].path);
    }
}

static void add_option_names(cli_text *text, const cli_command *command) {
    size_t count;
    const cli_option *common = cli_common_options(&count);
    for (size_t i = 0; i < command->option_count; i++)
        cli_text_add(text, " --%s", command->options[i].name);
    for (size_t i = 0; i < count; i++)
        cli_text_add(text, " --%s", common[i].name);
}

static void add_command_names(cli_text *text) {
    size_t count;
    const cli_command *const *commands = cli_commands(&count);
    for (size_t i = 0; i < count; i++)
        cli_text_add(text, "%s%s", i ? " " : "", commands[i]->name);
}

/* ---- bash ---- */

static void add_bash_values(cli_text *text, const cli_command *command) {
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &command->options[i];
        if (!option->value) continue;
        cli_text_add(text, "    %s:--%s) ", command->name, option->name);
        switch (option->kind) {
        case CLI_FILE:
            cli_text_add(text, "COMPREPLY=($(compgen -f -- \"$word\"))");
            break;
        case CLI_FOLDER:
            cli_text_add(text, "COMPREPLY=($(compgen -d -- \"$word\"))");
            break;
        case CLI_KEY_VALUE:
            cli_text_add(text, "COMPREPLY=($(compgen -W \"$keys\" -- \"$word\")); compopt -o nospace");
            break;
        case CLI_WORDS:
            cli_text_add(text, "COMPREPLY=($(compgen -W \"");
            add_words(text, option->value);
            cli_text_add(text, "\" -- \"$word\"))");
            break;
        default:
            cli_text_add(text, "COMPREPLY=()");
        }
        cli_text_add(text, "; return ;;\n");
    }
}

static void add_bash_arguments(cli_text *text, const cli_command *command) {
    cli_text_add(text, "    %s) options=\"", command->name);
    add_option_names(text, command);
    cli_text_add(text, "\"; arguments=($(compgen ");
    if (command->kind == CLI_FOLDER) {
        cli_text_add(text, "-d");
    } else if (command->words) {
        cli_text_add(text, "-W \"");
        add_words(text, command->words);
        cli_text_add(text, "\"");
    } else {
        cli_text_add(text, "-f");
    }
    cli_text_add(text, " -- \"$word\")) ;;\n");
}

static void add_bash(cli_text *text) {
    size_t count;
    const cli_command *const *commands = cli_commands(&count);
    cli_text_add(text,
                 "# bash completion for gpipe, made by: gpipe help completion bash\n_gpipe() {\n"
                 "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
                 "  local options= arguments=()\n  local keys=\"");
    add_keys(text);
    cli_text_add(text, "\"\n  COMPREPLY=()\n  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W \"");
    add_command_names(text);
    cli_text_add(text, " --help --version\" -- \"$word\"))\n    return\n  fi\n  case $command:$before in\n");
    for (size_t i = 0; i < count; i++)
        add_bash_values(text, commands[i]);
    cli_text_add(text, "  esac\n  case $command in\n");
    for (size_t i = 0; i < count; i++)
        add_bash_arguments(text, commands[i]);
    cli_text_add(
        text, "  esac\n  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n  else\n"
              "    COMPREPLY=(\"${arguments[@]}\")\n  fi\n}\ncomplete -o filenames -F _gpipe gpipe\n");
}

/* ---- zsh ---- */

/* Text within [...] of an _arguments specification, in single quotes. */
static void add_zsh_words(cli_text *text, const char *words) {
    for (; *words; words++) {
        if (*words == '\'') {
            cli_text_add(text, "'\\''");
        } else {
            if (strchr("[]:\\", *words)) cli_text_add(text, "\\");
            cli_text_add_bytes(text, words, 1);
        }
    }
}

static void add_zsh_option(cli_text *text, const cli_option *option) {
    cli_text_add(text, " \\\n        '*--%s[", option->name);
    add_zsh_words(text, option->help);
    cli_text_add(text, "]");
    if (option->value) {
        cli_text_add(text, ":value:");
        if (option->kind == CLI_FILE) cli_text_add(text, "_files");
        if (option->kind == CLI_FOLDER) cli_text_add(text, "_files -/");
        if (option->kind == CLI_KEY_VALUE) cli_text_add(text, "->keys");
        if (option->kind == CLI_WORDS) {
            cli_text_add(text, "(");
            add_words(text, option->value);
            cli_text_add(text, ")");
        }
    }
    cli_text_add(text, "'");
}

static void add_zsh(cli_text *text) {
    size_t count, common_count;
    const cli_command *const *commands = cli_commands(&count);
    const cli_option *common = cli_common_options(&common_count);
    cli_text_add(
        text,
        "#compdef gpipe\n# zsh completion for gpipe, made by: gpipe help completion zsh\n_gpipe() {\n  local state\n"
        "  local -a commands keys\n  keys=(");
    add_keys(text);
    cli_text_add(text, ")\n  commands=(");
    for (size_t i = 0; i < count; i++) {
        cli_text_add(text, "\n    '%s:", commands[i]->name);
        add_zsh_words(text, commands[i]->summary);
        cli_text_add(text, "'");
    }
    cli_text_add(text, ")\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
                       "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n");
    for (size_t i = 0; i < count; i++) {
        cli_text_add(text, "    %s)\n      _arguments", commands[i]->name);
        for (size_t j = 0; j < commands[i]->option_count; j++)
            add_zsh_option(text, &commands[i]->options[j]);
        for (size_t j = 0; j < common_count; j++)
            add_zsh_option(text, &common[j]);
        if (commands[i]->words) {
            cli_text_add(text, " \\\n        '1:topic:(");
            add_words(text, commands[i]->words);
            cli_text_add(text, ")'");
        } else if (commands[i]->most > 0) {
            cli_text_add(text, " \\\n        '1:argument:_files%s'", commands[i]->kind == CLI_FOLDER ? " -/" : "");
        }
        cli_text_add(text, " ;;\n");
    }
    cli_text_add(text, "  esac\n  [[ $state == keys ]] && compadd -S '' -- $keys\n}\n_gpipe \"$@\"\n");
}

/* ---- fish ---- */

static void add_fish_quoted(cli_text *text, const char *words) {
    cli_text_add(text, "'");
    for (; *words; words++) {
        if (*words == '\'' || *words == '\\') cli_text_add(text, "\\");
        cli_text_add_bytes(text, words, 1);
    }
    cli_text_add(text, "'");
}

static void add_fish_option(cli_text *text, const char *command, const cli_option *option) {
    cli_text_add(text, "complete -c gpipe -n '__fish_seen_subcommand_from %s' -l %s", command, option->name);
    if (option->letter) cli_text_add(text, " -s %c", option->letter);
    if (option->value) cli_text_add(text, option->kind == CLI_FILE || option->kind == CLI_FOLDER ? " -rF" : " -x");
    if (option->kind == CLI_WORDS) {
        cli_text_add(text, " -a '");
        add_words(text, option->value);
        cli_text_add(text, "'");
    } else if (option->kind == CLI_KEY_VALUE) {
        cli_text_add(text, " -a '");
        add_keys(text);
        cli_text_add(text, "'");
    }
    cli_text_add(text, " -d ");
    add_fish_quoted(text, option->help);
    cli_text_add(text, "\n");
}

static void add_fish(cli_text *text) {
    size_t count, common_count;
    const cli_command *const *commands = cli_commands(&count);
    const cli_option *common = cli_common_options(&common_count);
    cli_text_add(text, "# fish completion for gpipe, made by: gpipe help completion fish\ncomplete -c gpipe -n "
                       "__fish_use_subcommand -f\n");
    for (size_t i = 0; i < count; i++) {
        const cli_command *command = commands[i];
        cli_text_add(text, "complete -c gpipe -n __fish_use_subcommand -f -a %s -d ", command->name);
        add_fish_quoted(text, command->summary);
        cli_text_add(text, "\n");
        if (command->words) {
            cli_text_add(text, "complete -c gpipe -n '__fish_seen_subcommand_from %s' -f -a '", command->name);
            add_words(text, command->words);
            cli_text_add(text, "'\n");
        }
        for (size_t j = 0; j < command->option_count; j++)
            add_fish_option(text, command->name, &command->options[j]);
        for (size_t j = 0; j < common_count; j++)
            add_fish_option(text, command->name, &common[j]);
    }
}

bool cli_help_completion(const char *shell, cli_text *text) {
    if (strcmp(shell, "bash") == 0) {
        add_bash(text);
    } else if (strcmp(shell, "zsh") == 0) {
        add_zsh(text);
    } else if (strcmp(shell, "fish") == 0) {
        add_fish(text);
    } else {
        return false;
    }
    return true;
}
