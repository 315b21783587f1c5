/* The dataset of language models: windows of a text. Where a window starts is a pure function of seed, step and the
 * sample's number in the mini-batch, so no worker has to know what another one drew. */
#include "data/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "gpipe/words.h"

static const gp_text_dataset *text_of(const gp_dataset *dataset) {
    return (const gp_text_dataset *)dataset;
}

static void text_destroy(gp_dataset *dataset) {
    gp_text_dataset *text = (gp_text_dataset *)dataset;
    gp_tokens_close(&text->tokens);
    gp_tokens_close(&text->held);
    gp_tokenizer_destroy(text->own_tokenizer);
    gp_corpus_close(&text->corpus);
    gp_free(text);
}

static int64_t text_tokens(const gp_dataset *dataset, gp_split split) {
    const gp_text_dataset *text = text_of(dataset);
    if (split == GP_SPLIT_TRAIN) return text->train_tokens;
    return text->held_apart ? text->held.count : text->tokens.count - text->train_tokens;
}

static const char *split_name(gp_split split) {
    return split == GP_SPLIT_TRAIN ? "training" : "validation";
}

/* Where, from the beginning of the split, the window of a sample starts. A split of n tokens has n - context starts:
 * the last target is one token after the last input. The remainder of 64 bits favours no start by more than n / 2^64.
 */
static int64_t random_start(const gp_text_dataset *text, gp_split split, uint64_t seed, int64_t step, int64_t sample,
                            int64_t tokens) {
    gp_random_block counter = {{(uint32_t)sample, (uint32_t)step, (uint32_t)((uint64_t)step >> 32), (uint32_t)split}};
    gp_random_block words = gp_random4(gp_random_key_of(seed ^ text->use), counter);
    uint64_t number = (uint64_t)words.word[1] << 32 | words.word[0];
    return (int64_t)(number % (uint64_t)(tokens - text->context));
}

static int64_t sequential_start(const gp_text_dataset *text, int64_t step, int64_t sample, int64_t tokens) {
    int64_t windows = (tokens - 1) / text->context;
    return (step * text->batch + sample) % windows * text->context;
}

static gp_status check_sample(const gp_text_dataset *text, gp_split split, int64_t step, int64_t last, int64_t tokens) {
    if (tokens <= text->context) {
        return gp_error(GP_INVALID,
                        "the %s split has %" PRId64 " token%s: a window of context %" PRId64
                        " and its target need %" PRId64,
                        split_name(split), tokens, gp_plural(tokens, "s"), text->context, text->context + 1);
    }
    if (last > UINT32_MAX) return gp_error(GP_INVALID, "sample %" PRId64 " is more than a mini-batch can have", last);
    if (text->sampling == GP_SAMPLING_SEQUENTIAL && step > (INT64_MAX - last) / text->batch) {
        return gp_error(GP_INVALID, "step %" PRId64 " is too large for batches of %" PRId64, step, text->batch);
    }
    return GP_OK;
}

/* Ids `first` to `first + count` of a split, where they are wanted. */
static gp_status read_ids(const gp_text_dataset *text, gp_split split, int64_t first, int64_t count, int32_t *out) {
    if (!out) return GP_OK;
    if (split == GP_SPLIT_TRAIN) return gp_tokens_read(&text->tokens, first, count, out);
    if (text->held_apart) return gp_tokens_read(&text->held, first, count, out);
    return gp_tokens_read(&text->tokens, text->train_tokens + first, count, out);
}

static int32_t *row(const gp_tensor *tensor, int64_t sample, int64_t context) {
    return tensor->data ? (int32_t *)tensor->data + sample * context : NULL;
}

static gp_status read_samples(const gp_text_dataset *text, const gp_request *request, gp_batch *batch) {
    int64_t tokens = text_tokens(&text->dataset, request->split), context = text->context;
    GP_TRY(check_sample(text, request->split, request->step, request->first + request->count, tokens));
    for (int64_t i = 0; i < request->count; i++) {
        int64_t sample = request->first + i;
        int64_t start = text->sampling == GP_SAMPLING_RANDOM
                            ? random_start(text, request->split, request->seed, request->step, sample, tokens)
                            : sequential_start(text, request->step, sample, tokens);
        GP_TRY(read_ids(text, request->split, start, context, row(&batch->inputs, i, context)));
        GP_TRY(read_ids(text, request->split, start + 1, context, row(&batch->targets, i, context)));
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
static gp_status read_window(const gp_text_dataset *text, gp_split split, int64_t window, int32_t *input,
                             int32_t *target) {
    int64_t context = text->context, tokens = text_tokens(&text->dataset, split), there = 0;
    if (window < text_windows(&text->dataset, split)) {
        int64_t start = window * context, left = tokens - 1 - start;
        there = left < context ? left : context;
        GP_TRY(read_ids(text, split, start, there, input));
        GP_TRY(read_ids(text, split, start + 1, there, target));
    }
    pad(input, there, context, 0);
    pad(target, there, context, GP_IGNORED_TARGET);
    return GP_OK;
}

static gp_status text_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const gp_text_dataset *text = text_of(dataset);
    if (!request->evaluation) return read_samples(text, request, batch);
    for (int64_t i = 0; i < request->count; i++) {
        GP_TRY(read_window(text, request->split, request->first + i, row(&batch->inputs, i, text->context),
                           row(&batch->targets, i, text->context)));
    }
    return GP_OK;
}

const gp_dataset_class gp_text_class = {
    .name = "text",
    .unit = "tokens",
    .destroy = text_destroy,
    .count = text_tokens,
    .windows = text_windows,
    .read = text_read,
};
