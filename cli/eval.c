/* gpipe eval: the loss of a run's weights over a whole split, or over other data. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster.h"
#include "commands.h"
#include "eval_classes.h"
#include "gpipe/words.h"
#include "json.h"
#include "message.h"
#include "progress.h"
#include "session.h"

typedef struct eval_result {
    const char *split, *unit; /* "character", "byte", "token" */
    double loss;
    int64_t tokens;
} eval_result;

static gp_status print(const eval_result *result, bool json) {
    double perplexity = exp(result->loss), bits = result->loss / log(2.0);
    if (!json) {
        bool written =
            printf("%s loss %.6f  perplexity %.4f  %.4f bits per %s  over %lld token%s\n", result->split, result->loss,
                   perplexity, bits, result->unit, (long long)result->tokens, gp_plural(result->tokens, "s")) > 0;
        return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
    }
    char key[40];
    snprintf(key, sizeof key, "bits_per_%s", result->unit);
    json_t *object = json_pack("{s:s, s:f, s:o, s:f, s:I}", "split", result->split, "loss", result->loss, "perplexity",
                               cli_json_number(perplexity), key, bits, "tokens", (json_int_t)result->tokens);
    return cli_json_print(object);
}

/* What a token is, for "bits per ...". */
static const char *unit_of(const gp_tokenizer *tokenizer) {
    if (!tokenizer) return "token";
    gp_tokenizer_kind kind = gp_tokenizer_kind_of(tokenizer);
    return kind == GP_TOKENIZER_CHAR ? "character" : kind == GP_TOKENIZER_BYTE ? "byte" : "token";
}

static gp_status evaluate_split(cli_session *session, gp_split split, gp_evaluation *found) {
    cli_progress progress = {0};
    gp_evaluation_watch watch = {.on_progress = cli_progress_evaluation, .user = &progress};
    gp_status status = gp_trainer_watch_evaluations(session->trainer, &watch);
    if (status == GP_OK) status = gp_trainer_evaluate_split(session->trainer, session->dataset, split, 0, found);
    gp_trainer_watch_evaluations(session->trainer, NULL);
    cli_progress_end();
    return status;
}

/* `confusion`: room for the counts of a classifier, or NULL. */
static gp_status evaluate(cli_session *session, const cli_arguments *arguments, bool other_text, int64_t *confusion) {
    int split = other_text && !cli_given_value(arguments, "split") ? GP_SPLIT_TRAIN : GP_SPLIT_VALIDATION;
    const char *checkpoint = cli_given_value(arguments, "checkpoint");
    gp_status status = cli_given_choice(arguments, "split", "train|validation", &split);
    if (status != GP_OK) return status;
    const gp_classes *classes = gp_dataset_classes(session->dataset);
    int64_t tokens = gp_dataset_count(session->dataset, (gp_split)split);
    if (tokens < (classes ? 1 : 2))
        return gp_error(GP_INVALID, "there is no %s split: data.validation is %g", split ? "validation" : "train",
                        session->config.settings.data.validation.share);
    status = cli_session_load_weights(session, arguments->words[0], checkpoint ? checkpoint : "latest",
                                      session->config.settings.train.batch);
    eval_result result = {.tokens = tokens - 1};
    gp_evaluation found = {.confusion = confusion};
    if (status == GP_OK) status = evaluate_split(session, (gp_split)split, &found);
    result.loss = found.loss;
    if (status == GP_OK && !isfinite(result.loss))
        status = gp_error(GP_DIVERGED, "the loss is %s: the weights have diverged (see gpipe inspect %s)",
                          isnan(result.loss) ? "NaN" : "infinite", arguments->words[0]);
    if (status != GP_OK) return status;
    bool whole = other_text && !cli_given_value(arguments, "split");
    result.split = whole ? "text" : split == GP_SPLIT_TRAIN ? "train" : "validation";
    result.unit = unit_of(session->tokenizer);
    if (!cli_cluster_writes(session->cluster)) return GP_OK;
    if (!classes) return print(&result, cli_given_flag(arguments, "json"));
    const char *unit = gp_dataset_unit(session->dataset);
    return cli_print_classes(whole ? unit : result.split, &found, session->dataset, cli_given_flag(arguments, "json"));
}

static int run(const cli_arguments *arguments) {
    cli_session session;
    const char *text = cli_given_value(arguments, "data");
    bool all_of_it = text && !cli_given_value(arguments, "split");
    gp_status status = cli_session_open_run(&session, arguments->words[0], arguments, all_of_it, CLI_DATA_NEEDED);
    int64_t *confusion = NULL;
    if (status == GP_OK && cli_given_flag(arguments, "confusion"))
        status = cli_confusion_create(session.model, session.dataset, &confusion);
    if (status == GP_OK) status = evaluate(&session, arguments, text != NULL, confusion);
    free(confusion);
    int exit_status = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return exit_status;
}

static const cli_option options[] = {
    {"split", 0, "train|validation", CLI_WORDS, "which part of the data (default: validation)"},
    {"data", 0, "PATH", CLI_FILE,
     "another text, or pattern of texts, or token files (*.bin), or other images or examples; without --split all of "
     "it is used"},
    {"checkpoint", 0, "NAME", CLI_ANY, "latest (default), best, step-N, or a .safetensors file"},
    {"confusion", 0, NULL, CLI_NO_VALUE, "of a classifier: how often each class was taken for which"},
    CLI_OPTION_SET,
    CLI_OPTION_JSON,
};

const cli_command cli_eval = {
    .name = "eval",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .kind = CLI_FOLDER,
    .summary = "loss of a run's weights over a whole split",
    .description = "Prints the mean loss of a run's weights over every token of a split, its perplexity and the bits "
                   "per character or "
                   "byte; of a classifier the loss, and how often the right class comes first and (with more than five "
                   "classes) among the first five. "
                   "The configuration, the vocabulary and the weights are the run directory's; the keys of "
                   "pipeline and device "
                   "may be set to others and change nothing but the speed; data.mirror and data.shift "
                   "decide which views of an image are judged.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
    .together = true,
};
