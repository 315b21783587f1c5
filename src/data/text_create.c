/* Making the dataset of language models: from text and a tokenizer, or from token files. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/text.h"
#include "gpipe/words.h"

/* What both ways have in common. */
typedef struct window_options {
    const char *what;  /* is divided: "the text 'a.txt'" */
    double validation; /* share, from the end */
    int64_t context;
    gp_sampling sampling;
    int64_t batch;
} window_options;

static gp_status check_options(const window_options *options) {
    if (!(options->validation >= 0 && options->validation < 1)) {
        return gp_error(GP_INVALID, "the validation share is %g: at least 0 and less than 1 is accepted",
                        options->validation);
    }
    if (options->context < 1 || options->context > INT32_MAX) {
        return gp_error(GP_INVALID, "the context is %" PRId64 " tokens: 1 to %d are accepted", options->context,
                        INT32_MAX);
    }
    if (options->sampling != GP_SAMPLING_RANDOM && options->sampling != GP_SAMPLING_SEQUENTIAL) {
        return gp_error(GP_INVALID, "there is no sampling of kind %d", (int)options->sampling);
    }
    if (options->sampling == GP_SAMPLING_SEQUENTIAL && (options->batch < 1 || options->batch > UINT32_MAX)) {
        return gp_error(GP_INVALID, "sequential sampling needs the size of a mini-batch, which is %" PRId64,
                        options->batch);
    }
    return GP_OK;
}

static gp_status open_char_tokens(gp_text_dataset *text, const gp_text_options *options) {
    gp_characters *characters = gp_allocate(sizeof *characters);
    gp_status status = characters ? gp_corpus_scan(&text->corpus, characters) : GP_OUT_OF_MEMORY;
    if (status == GP_OK && !options->tokenizer) {
        status = gp_tokenizer_create_seen(&text->own_tokenizer, characters);
        text->dataset.tokenizer = text->own_tokenizer;
    }
    if (status == GP_OK) status = gp_tokens_open(&text->tokens, &text->corpus, text->dataset.tokenizer, characters);
    gp_free(characters);
    return status;
}

static gp_status open_byte_tokens(gp_text_dataset *text, const gp_text_options *options) {
    GP_TRY(gp_corpus_check_text(&text->corpus));
    if (!options->tokenizer) {
        GP_TRY(gp_tokenizer_create_byte(&text->own_tokenizer));
        text->dataset.tokenizer = text->own_tokenizer;
    }
    return gp_tokens_open(&text->tokens, &text->corpus, text->dataset.tokenizer, NULL);
}

static gp_status open_subword_tokens(gp_text_dataset *text, const gp_text_options *options) {
    if (!options->tokenizer) {
        return gp_error(GP_INVALID, "a %s tokenizer is not made from the text but must be given",
                        gp_tokenizer_kind_name(options->tokenizer_kind));
    }
    GP_TRY(gp_corpus_check_text(&text->corpus));
    return gp_tokens_open(&text->tokens, &text->corpus, text->dataset.tokenizer, NULL);
}

static gp_status open_tokens(gp_text_dataset *text, const gp_text_options *options) {
    gp_tokenizer_kind kind = options->tokenizer ? gp_tokenizer_kind_of(options->tokenizer) : options->tokenizer_kind;
    switch (kind) {
    case GP_TOKENIZER_BYTE:
        return open_byte_tokens(text, options);
    case GP_TOKENIZER_CHAR:
        return open_char_tokens(text, options);
    case GP_TOKENIZER_BPE:
    case GP_TOKENIZER_WORDPIECE:
        return open_subword_tokens(text, options);
    }
    return gp_error(GP_INVALID, "there is no tokenizer of kind %d", (int)kind);
}

/* Divides the tokens and makes sure that each split can serve. */
static gp_status split_tokens(gp_text_dataset *text, const window_options *options) {
    int64_t count = text->tokens.count, needed = text->context + 1;
    text->train_tokens = (int64_t)((double)count * (1.0 - options->validation));
    if (text->train_tokens > count) text->train_tokens = count;
    if (text->train_tokens < needed) {
        return gp_error(GP_INVALID,
                        "%s is too short: it has %" PRId64 " token%s, of which %" PRId64
                        " are for training; a window of context %" PRId64 " and its target need %" PRId64,
                        options->what, count, gp_plural(count, "s"), text->train_tokens, text->context, needed);
    }
    if (options->validation > 0 && count - text->train_tokens < 2) {
        return gp_error(GP_INVALID,
                        "%s is too short: of its %" PRId64 " token%s a validation share of %g leaves %" PRId64
                        "; at least 2 are needed",
                        options->what, count, gp_plural(count, "s"), options->validation, count - text->train_tokens);
    }
    return GP_OK;
}

/* A dataset without tokens. */
static gp_text_dataset *create(const window_options *options) {
    gp_text_dataset *text = gp_allocate(sizeof *text);
    if (!text) return NULL;
    text->dataset.table = &gp_text_class;
    text->context = options->context;
    text->sampling = options->sampling;
    text->batch = options->batch;
    text->use = gp_hash_text("gpipe data windows");
    text->dataset.input_type = (gp_type){.dtype = GP_I32, .shape = {.rank = 1, .dims = {options->context}}};
    text->dataset.target_type = text->dataset.input_type;
    return text;
}

/* Hands a dataset out, or destroys it. */
static gp_status hand_out(gp_dataset **dataset, gp_text_dataset *text, gp_status status) {
    if (status == GP_OK) {
        *dataset = &text->dataset;
    } else {
        gp_dataset_destroy(&text->dataset);
    }
    return status;
}

/* ---- from text ---- */

static gp_status build(gp_text_dataset *text, const gp_text_options *options, const window_options *windows) {
    text->dataset.tokenizer = options->tokenizer;
    GP_TRY(gp_corpus_open(&text->corpus, options->text));
    GP_TRY(open_tokens(text, options));
    text->dataset.vocabulary = text->dataset.tokenizer->vocabulary;
    return split_tokens(text, windows);
}

gp_status gp_dataset_create_text(gp_dataset **dataset, const gp_text_options *options) {
    char what[512];
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a text dataset needs options: at least a text and a context");
    gp_text_options known;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_text_options"));
    snprintf(what, sizeof what, "the text '%s'", known.text ? known.text : "");
    window_options windows = {what, known.validation, known.context, known.sampling, known.batch};
    GP_TRY(check_options(&windows));
    gp_text_dataset *text = create(&windows);
    return text ? hand_out(dataset, text, build(text, &known, &windows)) : GP_OUT_OF_MEMORY;
}

/* ---- from token files ---- */

/* What ids must be below: what was said, else what the tokenizer has, else what the files say. */
static int32_t known_vocabulary(const gp_token_options *options) {
    if (options->vocabulary != 0) return options->vocabulary;
    return options->tokenizer ? options->tokenizer->vocabulary : 0;
}

static gp_status open_held(gp_text_dataset *text, const gp_token_options *options) {
    int32_t vocabulary = known_vocabulary(options);
    text->held_apart = true;
    GP_TRY(gp_tokens_open_files(&text->held, options->validation_tokens, vocabulary, options->id_bytes));
    if (text->held.files.vocabulary > text->dataset.vocabulary) text->dataset.vocabulary = text->held.files.vocabulary;
    if (text->held.count >= 2) return GP_OK;
    return gp_error(GP_INVALID, "the tokens of '%s' are too few: %" PRId64 "; at least 2 are needed for validation",
                    options->validation_tokens, text->held.count);
}

static gp_status build_from_files(gp_text_dataset *text, const gp_token_options *options,
                                  const window_options *windows) {
    text->dataset.tokenizer = options->tokenizer;
    GP_TRY(gp_tokens_open_files(&text->tokens, options->tokens, known_vocabulary(options), options->id_bytes));
    text->dataset.vocabulary = text->tokens.files.vocabulary;
    if (options->validation_tokens) GP_TRY(open_held(text, options));
    return split_tokens(text, windows);
}

gp_status gp_dataset_create_tokens(gp_dataset **dataset, const gp_token_options *options) {
    char what[512];
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a dataset of tokens needs options: at least token files and a context");
    gp_token_options known;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_token_options"));
    snprintf(what, sizeof what, "'%s'", known.tokens ? known.tokens : "");
    window_options windows = {what, known.validation_tokens ? 0 : known.validation, known.context, known.sampling,
                              known.batch};
    GP_TRY(check_options(&windows));
    gp_text_dataset *text = create(&windows);
    return text ? hand_out(dataset, text, build_from_files(text, &known, &windows)) : GP_OUT_OF_MEMORY;
}
