/* gpipe sample: text from a run's weights, on stdout as it comes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

typedef struct encoded_prompt {
    const char *text;
    int32_t *ids;
    size_t count;
} encoded_prompt;

typedef struct token_writer {
    const gp_tokenizer *tokenizer;
    int32_t before;  /* the token before the next one, -1: none */
    char pending[4]; /* the beginning of a character whose other bytes are still to come */
    size_t pending_bytes;
    gp_status status;
} token_writer;

/* Without a prompt the model begins a line, or, where the vocabulary has no line end, follows its first token. */
static gp_status encode(const cli_session *session, const cli_arguments *arguments, encoded_prompt *prompt) {
    const char *given = cli_given_value(arguments, "prompt");
    prompt->text = given ? given : "\n";
    size_t bytes = strlen(prompt->text), count = 0;
    if (bytes == 0) return gp_error(GP_INVALID, "--prompt is empty; at least one character is needed");
    gp_status status = gp_tokenizer_encode(session->tokenizer, prompt->text, bytes, NULL, 0, &count);
    prompt->ids = calloc(count + 1, sizeof *prompt->ids);
    if (!prompt->ids) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (status == GP_OK)
        status = gp_tokenizer_encode(session->tokenizer, prompt->text, bytes, prompt->ids, count, &prompt->count);
    if (!given && (status == GP_INVALID || (status == GP_OK && prompt->count == 0))) {
        prompt->count = 1; /* of token 0 */
        return GP_OK;
    }
    if (status == GP_OK && prompt->count == 0)
        return gp_error(GP_INVALID, "--prompt has no tokens: the tokenizer takes all of it away");
    return gp_error_within(status, "--prompt");
}

/* Writes a text but for an unfinished character at its end, which waits for the next token: a reader never sees half of
 * one. */
static gp_status write_text(token_writer *writer, const char *text, size_t bytes) {
    size_t whole = gp_text_whole(text, bytes);
    if (fwrite(text, 1, whole, stdout) != whole || fflush(stdout) != 0)
        return gp_error(GP_IO, "stdout could not be written: %s", strerror(errno));
    memcpy(writer->pending, text + whole, bytes - whole);
    writer->pending_bytes = bytes - whole;
    return GP_OK;
}

static gp_status write_pending(token_writer *writer) {
    if (fwrite(writer->pending, 1, writer->pending_bytes, stdout) != writer->pending_bytes)
        return gp_error(GP_IO, "stdout could not be written: %s", strerror(errno));
    return GP_OK;
}

static gp_status write_piece(token_writer *writer, int32_t token) {
    size_t bytes = 0, kept = writer->pending_bytes;
    gp_status status = gp_tokenizer_decode_next(writer->tokenizer, writer->before, token, NULL, 0, &bytes);
    char *text = status == GP_OK ? malloc(kept + bytes + 1) : NULL;
    if (status == GP_OK && !text) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (status != GP_OK) return status;
    memcpy(text, writer->pending, kept);
    status = gp_tokenizer_decode_next(writer->tokenizer, writer->before, token, text + kept, bytes, &bytes);
    if (status == GP_OK) status = write_text(writer, text, kept + bytes);
    writer->before = token;
    free(text);
    return status;
}

static bool write_token(void *user, int32_t token) {
    token_writer *writer = user;
    if (token >= gp_tokenizer_vocabulary(writer->tokenizer)) return true; /* the model's vocabulary may be larger */
    writer->status = write_piece(writer, token);
    return writer->status == GP_OK;
}

static gp_status read_options(const cli_arguments *arguments, int64_t *tokens, gp_generate_options *options) {
    int64_t seed = 0;
    gp_status status = cli_given_integer(arguments, "tokens", 0, 1000000000, tokens);
    if (status == GP_OK) status = cli_given_integer(arguments, "seed", 0, INT64_MAX, &seed);
    if (status == GP_OK) status = cli_given_integer(arguments, "top-k", 0, INT32_MAX, &options->top_k);
    if (status == GP_OK) status = cli_given_number(arguments, "temperature", 0, 1000, &options->temperature);
    if (status == GP_OK) status = cli_given_number(arguments, "top-p", 0, 1, &options->top_p);
    options->seed = (uint64_t)seed;
    return status;
}

/* The run's tokenizer; a run on token files may have none, then --tokenizer gives one. */
static gp_status find_tokenizer(cli_session *session, const cli_arguments *arguments) {
    const char *path = cli_given_value(arguments, "tokenizer");
    if (path) {
        gp_tokenizer_destroy(session->tokenizer);
        return gp_error_within(gp_tokenizer_load(&session->tokenizer, path), "--tokenizer");
    }
    if (session->tokenizer) return GP_OK;
    return gp_error(GP_INVALID, "the run was made from token files without data.tokenizer: --tokenizer is needed, the "
                                "folder or file of the tokenizer that made them");
}

static gp_status sample(cli_session *session, const cli_arguments *arguments, const gp_generate_options *options,
                        int64_t tokens) {
    const char *checkpoint = cli_given_value(arguments, "checkpoint");
    encoded_prompt prompt = {0}; /* count 0: not encoded */
    bool given = cli_given_value(arguments, "prompt") != NULL;
    gp_status status = find_tokenizer(session, arguments);
    token_writer writer = {.tokenizer = session->tokenizer, .before = -1};
    if (status == GP_OK) status = encode(session, arguments, &prompt);
    if (status == GP_OK) {
        session->config.settings.pipeline.micro_batches = 1;
        status = cli_session_load_weights(session, arguments->words[0], checkpoint ? checkpoint : "latest", 1);
    }
    if (status == GP_OK && given && prompt.count > 0) {
        fputs(prompt.text, stdout);
        writer.before = prompt.ids[prompt.count - 1];
    }
    if (status == GP_OK)
        status = gp_trainer_generate(session->trainer, prompt.ids, (int64_t)prompt.count, tokens, options, write_token,
                                     &writer);
    if (status == GP_OK) status = writer.status;
    if (status == GP_OK) status = write_pending(&writer);
    if (status == GP_OK && (puts("") < 0 || fflush(stdout) != 0))
        status = gp_error(GP_IO, "stdout could not be written");
    free(prompt.ids);
    return status;
}

static int run(const cli_arguments *arguments) {
    cli_session session = {0};
    gp_generate_options generate = {.temperature = 0.8};
    int64_t tokens = 200;
    gp_status status = read_options(arguments, &tokens, &generate);
    if (status == GP_OK)
        status = cli_session_open_run(&session, arguments->words[0], arguments, false, CLI_DATA_UNUSED);
    if (status == GP_OK) status = sample(&session, arguments, &generate, tokens);
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    {"prompt", 'p', "TEXT", CLI_ANY,
     "what the text begins with (default: a line end, or the first of the vocabulary's characters; not printed)"},
    {"tokens", 'n', "N", CLI_ANY, "how many tokens follow (default: 200)"},
    {"temperature", 't', "T", CLI_ANY, "0: the likeliest token each time (default: 0.8)"},
    {"top-k", 0, "K", CLI_ANY, "choose among the K likeliest tokens; 0: all (default)"},
    {"top-p", 0, "P", CLI_ANY, "choose among the likeliest tokens that together have probability P (default: 1)"},
    {"seed", 0, "N", CLI_ANY, "the same seed gives the same text (default: 0)"},
    {"checkpoint", 0, "NAME", CLI_ANY, "latest (default), best, step-N, or a .safetensors file"},
    {"tokenizer", 0, "PATH", CLI_FILE, "a tokenizer's folder or file, instead of the run's"},
    CLI_OPTION_SET,
};

const cli_command cli_sample = {
    .name = "sample",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .kind = CLI_FOLDER,
    .summary = "write text with a run's weights",
    .description =
        "Writes text with the weights of a run directory, token by token, through as many partitions as the run had "
        "(--set pipeline.partitions=1 changes that and not the text).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
