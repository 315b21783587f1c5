/* Manual pages, made of the same tables as the help texts. */
#include "commands.h"
#include "config_keys.h"
#include "gpipe/layer.h"

/* Text that roff must not read as a request: a dot or quote at the beginning of a line, backslashes, minus signs. */
static void add_escaped(cli_text *text, const char *words) {
    if (*words == '.' || *words == '\'') cli_text_add(text, "\\&");
    for (; *words; words++) {
        if (*words == '\\') {
            cli_text_add(text, "\\e");
        } else if (*words == '-') {
            cli_text_add(text, "\\-");
        } else {
            cli_text_add_bytes(text, words, 1);
        }
    }
}

static void add_paragraph(cli_text *text, const char *words) {
    add_escaped(text, words);
    cli_text_add(text, "\n");
}

static void add_title(cli_text *text, const char *name, int section, const char *summary) {
    cli_text_add(text, ".TH %s %d \"\" \"gpipe %s\" \"gpipe\"\n.SH NAME\n", name, section, gp_version());
    add_escaped(text, summary);
    cli_text_add(text, "\n");
}

static void add_option(cli_text *text, const cli_option *option) {
    cli_text_add(text, ".TP\n");
    if (option->letter) cli_text_add(text, "\\fB\\-%c\\fR, ", option->letter);
    cli_text_add(text, "\\fB\\-\\-");
    add_escaped(text, option->name);
    cli_text_add(text, "\\fR");
    if (option->value) {
        cli_text_add(text, " \\fI");
        add_escaped(text, option->value);
        cli_text_add(text, "\\fR");
    }
    cli_text_add(text, "\n");
    add_paragraph(text, option->help);
}

static void add_command(cli_text *text, const cli_command *command) {
    cli_text_add(text, ".SS \"gpipe %s", command->name);
    if (*command->arguments) cli_text_add(text, " %s", command->arguments);
    cli_text_add(text, "\"\n");
    add_paragraph(text, command->description);
    for (size_t i = 0; i < command->option_count; i++)
        add_option(text, &command->options[i]);
}

void cli_help_man_program(cli_text *text) {
    size_t command_count, common_count;
    const cli_command *const *commands = cli_commands(&command_count);
    const cli_option *common = cli_common_options(&common_count);
    add_title(text, "GPIPE", 1, "gpipe - pipeline-parallel training of neural networks");
    cli_text_add(text, ".SH SYNOPSIS\n\\fBgpipe\\fR \\fIcommand\\fR [\\fIoption\\fR]...\n.SH DESCRIPTION\n");
    add_paragraph(
        text, "gpipe trains neural networks that are too big for one device. It cuts the layers into partitions, one "
              "for each "
              "worker, splits every mini-batch into micro-batches and streams them through the partitions; gradients "
              "are summed, "
              "and one synchronous update follows. The result is the network that one huge device would have trained.");
    cli_text_add(text, ".SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++)
        add_command(text, commands[i]);
    cli_text_add(text, ".SH \"OPTIONS OF EVERY COMMAND\"\n");
    for (size_t i = 0; i < common_count; i++)
        add_option(text, &common[i]);
    cli_text_add(
        text,
        ".SH FILES\n.TP\n\\fIrun.yaml\\fR\nA configuration, see \\fBgpipe\\-config\\fR(5).\n.TP\n"
        "\\fIDIR\\fR/config.yaml, tokenizer.json, metrics.jsonl, report.json, log.txt\nOf a run directory: the "
        "resolved "
        "configuration, the vocabulary, a JSON object for each step, plan and measurement, messages.\n.TP\n"
        "\\fIDIR\\fR/checkpoints/step\\-N/\nWeights, optimizer state and state.json; \\fIlatest\\fR and \\fIbest\\fR "
        "are links.\n"
        ".SH ENVIRONMENT\n.TP\nNO_COLOR\nWhen set and not empty: no colors on the terminal.\n"
        ".SH \"EXIT STATUS\"\n0 done, 1 failure while running, 2 usage, configuration or input, 3 does not fit the "
        "memory, "
        "4 a peer was lost, 5 diverged (NaN), 128+n ended by signal n.\n.SH \"SEE ALSO\"\n\\fBgpipe\\-config\\fR(5)\n");
}

static void add_key(cli_text *text, const cli_key *key) {
    cli_text accepts = {0};
    cli_key_accepts(key, &accepts);
    cli_text_add(text, ".TP\n\\fB%s\\fR\n", key->path);
    add_escaped(text, key->help);
    cli_text_add(text, ".\nAccepted: ");
    add_escaped(text, accepts.text ? accepts.text : "");
    if (!key->standard) cli_text_add(text, "; required");
    if (key->standard && *key->standard) {
        cli_text_add(text, "; default: ");
        add_escaped(text, key->standard);
    }
    cli_text_add(text, ".\n");
    cli_text_free(&accepts);
}

static void add_layers(cli_text *text) {
    size_t count;
    const gp_layer_info *kinds = gp_layer_kinds(&count);
    cli_text_add(text, ".SH LAYERS\nA model given as a list is made of these layers, and of \\fBrepeat\\fR: {times: N, "
                       "layers: [...]}.\n");
    for (size_t k = 0; k < count; k++) {
        cli_text_add(text, ".TP\n\\fB%s\\fR\n", kinds[k].kind);
        add_escaped(text, kinds[k].help);
        for (size_t i = 0; i < kinds[k].option_count; i++) {
            cli_text_add(text, "\n.br\n\\fI%s\\fR: ", kinds[k].options[i].key);
            add_escaped(text, kinds[k].options[i].help);
        }
        cli_text_add(text, "\n");
    }
}

void cli_help_man_config(cli_text *text) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    add_title(text, "GPIPE-CONFIG", 5, "gpipe-config - configuration of a training run");
    cli_text_add(
        text,
        ".SH DESCRIPTION\nA configuration is a YAML file of nested keys. Any key can also be given on the command "
        "line: "
        "\\fB\\-\\-set\\fR \\fIkey\\fR=\\fIvalue\\fR. An unknown key is an error that names the nearest known one.\n"
        ".SH EXAMPLE\n.nf\nmodel:     {name: gpt2, layers: 4, heads: 4, width: 128, context: 64}\n"
        "data:      {text: corpus.txt}\npipeline:  {partitions: 2, micro_batches: 4}\n"
        "train:     {batch: 12, steps: 2000, out: runs/first}\n.fi\n");
    for (size_t i = 0; i < count; i++) {
        if (cli_key_begins(&keys[i])) {
            cli_text_add(text, ".SH \"");
            cli_key_heading(&keys[i], text);
            cli_text_add(text, "\"\n");
        }
        add_key(text, &keys[i]);
    }
    add_layers(text);
    cli_text_add(text, ".SH \"SEE ALSO\"\n\\fBgpipe\\fR(1)\n");
}
