/* The dataset of language models: windows of a text. Where a window starts is a pure function of seed, step and the
 * sample's number in the mini-batch, so no worker has to know what another one drew. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/dataset.h"
#include "data/tokens.h"

typedef struct text_dataset {
    gp_dataset dataset;
    gp_corpus corpus;
    gp_tokenizer *own_tokenizer; /* NULL when one was given */
    gp_tokens tokens;
    int64_t train_tokens;
    int64_t context;
    gp_sampling sampling;
    int64_t batch;
    uint64_t use; /* keeps these random numbers apart from dropout's, which have the same seed */
} text_dataset;

static const text_dataset *text_of(const gp_dataset *dataset) {
    return (const text_dataset *)dataset;
}

static void text_destroy(gp_dataset *dataset) {
    text_dataset *text = (text_dataset *)dataset;
    gp_tokens_close(&text->tokens);
    gp_tokenizer_destroy(text->own_tokenizer);
    gp_corpus_close(&text->corpus);
    gp_free(text);
}

static int64_t text_tokens(const gp_dataset *dataset, gp_split split) {
    const text_dataset *text = text_of(dataset);
    return split == GP_SPLIT_TRAIN ? text->train_tokens : text->tokens.count - text->train_tokens;
}

/* The first token of a split. */
static int64_t split_begin(const text_dataset *text, gp_split split) {
    return split == GP_SPLIT_TRAIN ? 0 : text->train_tokens;
}

static const char *split_name(gp_split split) {
    return split == GP_SPLIT_TRAIN ? "training" : "validation";
}

/* Where, from the beginning of the split, the window of a sample starts. A split of n tokens has n - context starts:
 * the last target is one token after the last input. The remainder of 64 bits favours no start by more than n / 2^64.
 */
static int64_t random_start(const text_dataset *text, gp_split split, uint64_t seed, int64_t step, int64_t sample,
                            int64_t tokens) {
    gp_random_block counter = {{(uint32_t)sample, (uint32_t)step, (uint32_t)((uint64_t)step >> 32), (uint32_t)split}};
    gp_random_block words = gp_random4(gp_random_key_of(seed ^ text->use), counter);
    uint64_t number = (uint64_t)words.word[1] << 32 | words.word[0];
    return (int64_t)(number % (uint64_t)(tokens - text->context));
}

static int64_t sequential_start(const text_dataset *text, int64_t step, int64_t sample, int64_t tokens) {
    int64_t windows = (tokens - 1) / text->context;
    return (step * text->batch + sample) % windows * text->context;
}

static gp_status check_sample(const text_dataset *text, gp_split split, int64_t step, int64_t last, int64_t tokens) {
    if (tokens <= text->context) {
        return gp_error(GP_INVALID,
                        "the %s split has %" PRId64 " tokens: a window of context %" PRId64
                        " and its target need %" PRId64,
                        split_name(split), tokens, text->context, text->context + 1);
    }
    if (last > UINT32_MAX) return gp_error(GP_INVALID, "sample %" PRId64 " is more than a mini-batch can have", last);
    if (text->sampling == GP_SAMPLING_SEQUENTIAL && step > (INT64_MAX - last) / text->batch) {
        return gp_error(GP_INVALID, "step %" PRId64 " is too large for batches of %" PRId64, step, text->batch);
    }
    return GP_OK;
}

/* Ids `first` to `first + count`, where they are wanted. */
static void read_ids(const text_dataset *text, int64_t first, int64_t count, int32_t *out) {
    if (out) gp_tokens_read(&text->tokens, first, count, out);
}

static int32_t *row(const gp_tensor *tensor, int64_t sample, int64_t context) {
    return tensor->data ? (int32_t *)tensor->data + sample * context : NULL;
}

static gp_status read_samples(const text_dataset *text, const gp_request *request, gp_batch *batch) {
    int64_t tokens = text_tokens(&text->dataset, request->split), context = text->context;
    GP_TRY(check_sample(text, request->split, request->step, request->first + request->count, tokens));
    for (int64_t i = 0; i < request->count; i++) {
        int64_t sample = request->first + i;
        int64_t start = text->sampling == GP_SAMPLING_RANDOM
                            ? random_start(text, request->split, request->seed, request->step, sample, tokens)
                            : sequential_start(text, request->step, sample, tokens);
        start += split_begin(text, request->split);
        read_ids(text, start, context, row(&batch->inputs, i, context));
        read_ids(text, start + 1, context, row(&batch->targets, i, context));
    }
    return GP_OK;
}

static int64_t text_windows(const gp_dataset *dataset, gp_split split) {
    int64_t tokens = text_tokens(dataset, split), context = text_of(dataset)->context;
    return tokens < 2 ? 0 : (tokens - 2) / context + 1;
}

static void pad(int32_t *out, int64_t from, int64_t to, int32_t value) {
    for (int64_t i = from; out && i < to; i++)
        out[i] = value;
}

/* One window of the evaluation; what lies past the end of the split is padding. */
static void read_window(const text_dataset *text, gp_split split, int64_t window, int32_t *input, int32_t *target) {
    int64_t context = text->context, tokens = text_tokens(&text->dataset, split), there = 0;
    if (window < text_windows(&text->dataset, split)) {
        int64_t start = window * context, left = tokens - 1 - start;
        there = left < context ? left : context;
        read_ids(text, split_begin(text, split) + start, there, input);
        read_ids(text, split_begin(text, split) + start + 1, there, target);
    }
    pad(input, there, context, 0);
    pad(target, there, context, GP_IGNORED_TARGET);
}

static gp_status text_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const text_dataset *text = text_of(dataset);
    if (!request->evaluation) return read_samples(text, request, batch);
    for (int64_t i = 0; i < request->count; i++) {
        read_window(text, request->split, request->first + i, row(&batch->inputs, i, text->context),
                    row(&batch->targets, i, text->context));
    }
    return GP_OK;
}

static const gp_dataset_class text_class = {
    .name = "text",
    .unit = "tokens",
    .destroy = text_destroy,
    .count = text_tokens,
    .windows = text_windows,
    .read = text_read,
};

static gp_status check_options(const gp_text_options *options) {
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

static gp_status open_char_tokens(text_dataset *text, const gp_text_options *options) {
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

static gp_status open_byte_tokens(text_dataset *text, const gp_text_options *options) {
    GP_TRY(gp_corpus_check_text(&text->corpus));
    if (!options->tokenizer) {
        GP_TRY(gp_tokenizer_create_byte(&text->own_tokenizer));
        text->dataset.tokenizer = text->own_tokenizer;
    }
    return gp_tokens_open(&text->tokens, &text->corpus, text->dataset.tokenizer, NULL);
}

static gp_status open_tokens(text_dataset *text, const gp_text_options *options) {
    gp_tokenizer_kind kind = options->tokenizer ? gp_tokenizer_kind_of(options->tokenizer) : options->tokenizer_kind;
    switch (kind) {
    case GP_TOKENIZER_BYTE:
        return open_byte_tokens(text, options);
    case GP_TOKENIZER_CHAR:
        return open_char_tokens(text, options);
    case GP_TOKENIZER_BPE:
    case GP_TOKENIZER_WORDPIECE:
        break;
    }
    return gp_error(GP_INVALID, "there is no tokenizer of kind %d", (int)kind);
}

/* Divides the tokens and makes sure that each split can serve. */
static gp_status split_tokens(text_dataset *text, const gp_text_options *options) {
    int64_t count = text->tokens.count, needed = text->context + 1;
    text->train_tokens = (int64_t)((double)count * (1.0 - options->validation));
    if (text->train_tokens > count) text->train_tokens = count;
    if (text->train_tokens < needed) {
        return gp_error(GP_INVALID,
                        "the text '%s' is too short: it has %" PRId64 " tokens, of which %" PRId64
                        " are for training; a window of context %" PRId64 " and its target need %" PRId64,
                        options->text, count, text->train_tokens, text->context, needed);
    }
    if (options->validation > 0 && count - text->train_tokens < 2) {
        return gp_error(GP_INVALID,
                        "the text '%s' is too short: of its %" PRId64 " tokens a validation share of %g leaves %" PRId64
                        "; at least 2 are needed",
                        options->text, count, options->validation, count - text->train_tokens);
    }
    return GP_OK;
}

static gp_status build(text_dataset *text, const gp_text_options *options) {
    GP_TRY(check_options(options));
    text->context = options->context;
    text->sampling = options->sampling;
    text->batch = options->batch;
    text->use = gp_hash_text("gpipe data windows");
    text->dataset.input_type = (gp_type){.dtype = GP_I32, .shape = {.rank = 1, .dims = {options->context}}};
    text->dataset.target_type = text->dataset.input_type;
    text->dataset.tokenizer = options->tokenizer;
    GP_TRY(gp_corpus_open(&text->corpus, options->text));
    GP_TRY(open_tokens(text, options));
    return split_tokens(text, options);
}

gp_status gp_dataset_create_text(gp_dataset **dataset, const gp_text_options *options) {
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a text dataset needs options: at least a text and a context");
    gp_text_options known;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_text_options"));
    text_dataset *text = gp_allocate(sizeof *text);
    if (!text) return GP_OUT_OF_MEMORY;
    text->dataset.table = &text_class;
    gp_status status = build(text, &known);
    if (status != GP_OK) {
        gp_dataset_destroy(&text->dataset);
        return status;
    }
    *dataset = &text->dataset;
    return GP_OK;
}
