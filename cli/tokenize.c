/* gpipe tokenize: text to token files, encoded once for many runs. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "gpipe/data.h"
#include "gpipe/words.h"
#include "json.h"
#include "message.h"
#include "progress.h"
#include "session.h"

static const double redraw_every = 0.1, line_every = 5.0;

/* The signal that asked to stop, 0: none. Signal handlers have no other way to speak. */
static volatile sig_atomic_t asked_by = 0;

static void on_signal(int number) {
    asked_by = number;
    signal(SIGINT, SIG_DFL); /* a second one ends the program at once */
    signal(SIGTERM, SIG_DFL);
}

static void listen_to_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef struct tokenize_progress {
    double started, last_line, last_drawn;
} tokenize_progress;

static void line_of(const tokenize_progress *progress, double time, uint64_t done, uint64_t bytes, char *line,
                    size_t size) {
    char amount[24], all[24], speed[24], left[24];
    double seconds = time - progress->started, rate = seconds > 0 ? (double)done / seconds : 0;
    gp_bytes_format((size_t)done, amount, sizeof amount);
    cli_rate(rate, speed, sizeof speed);
    if (bytes == 0 || rate == 0) {
        snprintf(line, size, "%s of text  %sB/s", amount, speed);
        return;
    }
    gp_bytes_format((size_t)bytes, all, sizeof all);
    cli_duration((double)(bytes > done ? bytes - done : 0) / rate, left, sizeof left);
    snprintf(line, size, "%s of %s of text  %sB/s  %s left", amount, all, speed, left);
}

static bool show(void *user, uint64_t done, uint64_t bytes) {
    tokenize_progress *progress = user;
    double time = cli_now();
    char line[160];
    if (cli_live_possible() && time - progress->last_drawn >= redraw_every) {
        line_of(progress, time, done, bytes, line, sizeof line);
        cli_live(line);
        progress->last_drawn = time;
    } else if (!cli_live_possible() && time - progress->last_line >= line_every) {
        line_of(progress, time, done, bytes, line, sizeof line);
        cli_message(GP_LOG_INFO, "%s", line);
        progress->last_line = time;
    }
    return asked_by == 0;
}

/* ---- the result ---- */

static void describe(const gp_tokenize_result *result, double seconds) {
    char bytes[24], speed[24], tokens[24];
    gp_bytes_format((size_t)result->bytes, bytes, sizeof bytes);
    cli_rate(seconds > 0 ? (double)result->bytes / seconds : 0, speed, sizeof speed);
    cli_rate((double)result->tokens, tokens, sizeof tokens);
    cli_message(GP_LOG_INFO, "%lld token%s of %d bytes from %s of text, %lld document%s, in %.1f s (%sB/s): %s%s",
                (long long)result->tokens, gp_plural(result->tokens, "s"), result->id_bytes, bytes,
                (long long)result->documents, gp_plural(result->documents, "s"), seconds, speed, result->files[0],
                result->file_count > 1 ? " and the following" : "");
    if (result->replaced > 0) {
        cli_message(GP_LOG_WARNING, "the text is not UTF-8 in %llu place%s: U+FFFD is read there",
                    (unsigned long long)result->replaced, gp_plural((int64_t)result->replaced, "s"));
    }
}

static gp_status print_json(const gp_tokenize_result *result, const gp_tokenizer *tokenizer, double seconds) {
    json_t *files = json_array();
    for (size_t i = 0; i < result->file_count; i++)
        json_array_append_new(files, cli_json_text(result->files[i]));
    json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:f, s:f, s:o}", "tokens",
                               (json_int_t)result->tokens, "documents", (json_int_t)result->documents, "bytes",
                               (json_int_t)result->bytes, "replaced", (json_int_t)result->replaced, "token_bytes",
                               result->id_bytes, "vocabulary", (int)gp_tokenizer_vocabulary(tokenizer), "tokenizer",
                               gp_tokenizer_kind_name(gp_tokenizer_kind_of(tokenizer)), "seconds", seconds,
                               "bytes_per_second", seconds > 0 ? (double)result->bytes / seconds : 0.0, "files", files);
    return cli_json_print(object);
}

/* ---- options ---- */

typedef struct end_token {
    char text[256];
} end_token;

/* "none", "auto" (the tokenizer's own) or a token; without the option documents that are files have none behind them,
 * since a file's text goes on in the next. */
static gp_status read_end(const cli_arguments *arguments, gp_tokenize_options *options, end_token *end) {
    const char *given = cli_given_value(arguments, "end-of-text");
    if (!given) given = options->documents == GP_DOCUMENT_FILE ? "none" : "auto";
    if (strcmp(given, "none") == 0) return GP_OK;
    options->end_of_text = given;
    if (strcmp(given, "auto") != 0) return GP_OK;
    int32_t id = gp_tokenizer_end_of_text(options->tokenizer);
    size_t bytes = 0;
    if (id < 0)
        return gp_error(GP_INVALID, "the tokenizer has no token for the end of a text; --end-of-text takes one of its "
                                    "tokens, or none");
    gp_status status = gp_tokenizer_decode_next(options->tokenizer, -1, id, end->text, sizeof end->text - 1, &bytes);
    options->end_of_text = end->text;
    return status;
}

static gp_status read_options(const cli_arguments *arguments, gp_tokenize_options *options, end_token *end) {
    int64_t threads = 0;
    int documents = GP_DOCUMENT_FILE, format = GP_TOKENS_LLMC;
    gp_status status = cli_given_integer(arguments, "threads", 0, 4096, &threads);
    if (status == GP_OK) status = cli_given_integer(arguments, "file-tokens", 1, INT64_MAX, &options->file_tokens);
    if (status == GP_OK) status = cli_given_choice(arguments, "documents", "file|line|paragraph|json", &documents);
    if (status == GP_OK) status = cli_given_choice(arguments, "format", "llmc|raw", &format);
    options->threads = (int)threads;
    options->documents = (gp_documents)documents;
    options->format = (gp_token_format)format;
    options->field = cli_given_value(arguments, "field");
    options->plain = cli_given_flag(arguments, "plain");
    options->replace = cli_given_flag(arguments, "force");
    options->output = cli_given_value(arguments, "out");
    options->inputs = arguments->words;
    options->input_count = arguments->word_count;
    if (status == GP_OK && !options->output) return gp_error(GP_INVALID, "--out is missing: the token file to write");
    if (status == GP_OK && options->field && options->documents != GP_DOCUMENT_JSON)
        return gp_error(GP_INVALID, "--field is for --documents json");
    return status == GP_OK ? read_end(arguments, options, end) : status;
}

static gp_status load(const cli_arguments *arguments, gp_tokenizer **tokenizer) {
    const char *name = cli_given_value(arguments, "tokenizer");
    if (!name) return gp_error(GP_INVALID, "--tokenizer is missing: a tokenizer's folder or file, or byte");
    if (strcmp(name, "byte") == 0) return gp_tokenizer_create(tokenizer, GP_TOKENIZER_BYTE, NULL);
    return gp_error_within(gp_tokenizer_load(tokenizer, name), "--tokenizer");
}

static gp_status tokenize(const cli_arguments *arguments, const gp_tokenizer *tokenizer) {
    end_token end = {0};
    tokenize_progress progress = {.started = cli_now(), .last_line = cli_now()};
    gp_tokenize_options options = {.size = sizeof options, .tokenizer = tokenizer, .progress = show, .user = &progress};
    gp_tokenize_result result = {.size = sizeof result};
    gp_status status = read_options(arguments, &options, &end);
    if (status != GP_OK) return status;
    listen_to_signals();
    status = gp_tokenize(&options, &result);
    cli_live("");
    double seconds = cli_now() - progress.started;
    if (status == GP_OK) describe(&result, seconds);
    if (status == GP_OK && cli_given_flag(arguments, "json")) status = print_json(&result, tokenizer, seconds);
    gp_tokenize_result_free(&result);
    return status;
}

static int run(const cli_arguments *arguments) {
    gp_tokenizer *tokenizer = NULL;
    gp_status status = load(arguments, &tokenizer);
    if (status == GP_OK) status = tokenize(arguments, tokenizer);
    int exit_status = status == GP_OK ? 0 : cli_fail(status);
    gp_tokenizer_destroy(tokenizer);
    return status == GP_INTERRUPTED && asked_by ? 128 + asked_by : exit_status;
}

static const cli_option options[] = {
    {"tokenizer", 0, "PATH", CLI_FILE,
     "a tokenizer (required): a folder or file with tokenizer.json, vocab.json and merges.txt, or vocab.txt; a run "
     "directory; or the word byte"},
    {"out", 'o', "FILE", CLI_FILE,
     "the token file to write (required), name.bin; with --file-tokens name_000000.bin and so on"},
    {"documents", 0, "file|line|paragraph|json", CLI_WORDS,
     "what a document is: a file (default), a line, a run of lines without a blank one, a line of JSON"},
    {"field", 0, "NAME", CLI_ANY, "where the text of a JSON line stands (default: text)"},
    {"end-of-text", 0, "TOKEN", CLI_ANY,
     "the token that follows every document; auto: the tokenizer's own (default, but for files); none (default for "
     "files)"},
    {"plain", 0, NULL, CLI_NO_VALUE, "tokens such as <|endoftext|> that stand in the text are text, not tokens"},
    {"format", 0, "llmc|raw", CLI_WORDS, "with the header of llm.c's shards (default), or bare ids as nanoGPT's"},
    {"file-tokens", 0, "N", CLI_ANY, "tokens of a file at most (default: as many as the format counts)"},
    {"threads", 0, "N", CLI_ANY,
     "threads that encode (default: one for each core); the result is the same for any number"},
    {"force", 0, NULL, CLI_NO_VALUE, "replace token files that are there"},
    CLI_OPTION_JSON,
};

const cli_command cli_tokenize = {
    .name = "tokenize",
    .arguments = "TEXT...",
    .least = 1,
    .most = SIZE_MAX,
    .kind = CLI_FILE,
    .summary = "encode text into token files",
    .description = "Encodes text files (paths, patterns such as texts/*.txt, or - for standard input) into files of "
                   "token ids, which "
                   "data.tokens of a configuration reads. Text that is not UTF-8 counts as U+FFFD.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
