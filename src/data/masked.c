/* Masked language modelling: the windows of a text dataset, with some of their tokens hidden. What is hidden is a pure
 * function of seed, step, the sample's number in the mini-batch and the token's place. */
#include <inttypes.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/dataset.h"

enum { ROWS = 3, AROUND = 2 /* [CLS], [SEP] */ };

typedef struct masked_dataset {
    gp_dataset dataset;
    gp_dataset *text; /* windows of context - AROUND tokens */
    gp_special_tokens special;
    int32_t drawn; /* tokens of which one may take another one's place */
    int64_t context;
    uint32_t threshold; /* of being hidden */
    uint64_t use;       /* keeps these random numbers apart from others with the same seed */
} masked_dataset;

static const masked_dataset *masked_of(const gp_dataset *dataset) {
    return (const masked_dataset *)dataset;
}

static void masked_destroy(gp_dataset *dataset) {
    masked_dataset *masked = (masked_dataset *)dataset;
    gp_dataset_destroy(masked->text);
    gp_free(masked);
}

static int64_t masked_count(const gp_dataset *dataset, gp_split split) {
    return gp_dataset_count(masked_of(dataset)->text, split);
}

static int64_t masked_windows(const gp_dataset *dataset, gp_split split) {
    return gp_dataset_windows(masked_of(dataset)->text, split);
}

/* ---- hiding ---- */

/* The random numbers of a place: whether it is hidden, how, by which token. */
typedef struct sample_draws {
    gp_random_key key;
    uint32_t sample, low, high;
} sample_draws;

static sample_draws draws_of(const masked_dataset *masked, const gp_request *request, int64_t number) {
    uint64_t seed = masked->use + (uint64_t)request->split;
    if (request->evaluation) /* windows are numbered by 64 bits, steps by none */
        return (sample_draws){gp_random_key_of(~seed), (uint32_t)number, (uint32_t)((uint64_t)number >> 32), 0};
    return (sample_draws){gp_random_key_of(seed ^ request->seed), (uint32_t)number, (uint32_t)request->step,
                          (uint32_t)((uint64_t)request->step >> 32)};
}

static gp_random_block draw(const sample_draws *draws, int64_t place) {
    return gp_random4(draws->key, (gp_random_block){{(uint32_t)place, draws->sample, draws->low, draws->high}});
}

static int32_t hide(const masked_dataset *masked, gp_random_block words, int32_t token) {
    double how = gp_random_unit(words.word[1]);
    if (how < 0.8) return masked->special.mask;
    if (how >= 0.9) return token;
    return (int32_t)(((uint64_t)words.word[2] * (uint64_t)masked->drawn) >> 32);
}

/* ---- samples ---- */

/* One sample from the `count` tokens of its window; tokens or targets may be NULL. */
static void write_sample(const masked_dataset *masked, const sample_draws *draws, const int32_t *window, int64_t count,
                         int32_t *tokens, int32_t *targets) {
    int64_t context = masked->context, only = -1;
    bool any = false;
    for (int64_t i = 0; i < count && !any; i++)
        any = draw(draws, i).word[0] < masked->threshold;
    if (!any && count > 0) only = (int64_t)(draw(draws, 0).word[3] % (uint64_t)count);
    for (int64_t i = 0; targets && i < context; i++)
        targets[i] = GP_IGNORED_TARGET;
    for (int64_t i = 0; i < count; i++) {
        gp_random_block words = draw(draws, i);
        bool hidden = i == only || words.word[0] < masked->threshold;
        if (tokens) tokens[1 + i] = hidden ? hide(masked, words, window[i]) : window[i];
        if (targets && hidden) targets[1 + i] = window[i];
    }
    int64_t used = count > 0 ? count + AROUND : 0; /* past the end of the split there is nothing at all */
    for (int64_t i = 0; tokens && i < context; i++) {
        if (i >= used) tokens[i] = 0;
        tokens[context + i] = 0;
        tokens[2 * context + i] = i < used;
    }
    if (!tokens || count == 0) return;
    tokens[0] = masked->special.begin;
    tokens[1 + count] = masked->special.end;
}

/* The window of one sample, and how many of its tokens there are: evaluation's last one is shorter. */
static gp_status read_window(const masked_dataset *masked, gp_request request, int64_t number, gp_batch *window,
                             int64_t *count) {
    request.first = number;
    request.count = 1;
    GP_TRY(gp_dataset_read(masked->text, &request, window));
    const int32_t *targets = window->targets.data;
    *count = masked->context - AROUND;
    while (*count > 0 && targets[*count - 1] == GP_IGNORED_TARGET)
        (*count)--;
    return GP_OK;
}

static gp_status masked_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const masked_dataset *masked = masked_of(dataset);
    int64_t context = masked->context;
    gp_batch window;
    GP_TRY(gp_batch_create(&window, masked->text, 1));
    gp_status status = GP_OK;
    for (int64_t i = 0; i < request->count && status == GP_OK; i++) {
        int64_t number = request->first + i, count = 0;
        sample_draws draws = draws_of(masked, request, number);
        status = read_window(masked, *request, number, &window, &count);
        int32_t *tokens = batch->inputs.data ? (int32_t *)batch->inputs.data + i * ROWS * context : NULL;
        int32_t *targets = batch->targets.data ? (int32_t *)batch->targets.data + i * context : NULL;
        if (status == GP_OK) write_sample(masked, &draws, window.inputs.data, count, tokens, targets);
    }
    gp_batch_destroy(&window);
    return status;
}

static const gp_dataset_class masked_class = {
    .name = "masked text",
    .unit = "tokens",
    .destroy = masked_destroy,
    .count = masked_count,
    .windows = masked_windows,
    .read = masked_read,
};

/* ---- creation ---- */

gp_special_tokens gp_tokenizer_special(const gp_tokenizer *tokenizer) {
    int32_t vocabulary = gp_tokenizer_vocabulary(tokenizer);
    gp_special_tokens known = {gp_tokenizer_token(tokenizer, "[CLS]"), gp_tokenizer_token(tokenizer, "[SEP]"),
                               gp_tokenizer_token(tokenizer, "[MASK]"), vocabulary};
    if (known.begin >= 0 && known.end >= 0 && known.mask >= 0) return known;
    return (gp_special_tokens){vocabulary, vocabulary + 1, vocabulary + 2, vocabulary + 3};
}

static gp_status build(masked_dataset *masked, gp_text_options *options, double share) {
    if (!(share > 0 && share <= 1))
        return gp_error(GP_INVALID, "the share of masked tokens is %g: above 0 and at most 1 is accepted", share);
    if (options->context < 1 + AROUND)
        return gp_error(GP_INVALID,
                        "the context is %" PRId64 ": at least %d tokens are needed, [CLS] and [SEP] among them",
                        options->context, 1 + AROUND);
    masked->context = options->context;
    options->context -= AROUND;
    GP_TRY(gp_dataset_create_text(&masked->text, options));
    const gp_tokenizer *tokenizer = gp_dataset_tokenizer(masked->text);
    masked->special = gp_tokenizer_special(tokenizer);
    masked->drawn = gp_tokenizer_vocabulary(tokenizer);
    masked->threshold = gp_random_threshold(share);
    masked->use = gp_hash_text("gpipe masked tokens");
    masked->dataset.input_type = (gp_type){GP_I32, {2, {ROWS, masked->context}}};
    masked->dataset.target_type = (gp_type){GP_I32, {1, {masked->context}}};
    masked->dataset.tokenizer = tokenizer;
    masked->dataset.vocabulary = masked->special.vocabulary;
    return GP_OK;
}

gp_status gp_dataset_create_masked(gp_dataset **dataset, const gp_text_options *options, double share) {
    gp_text_options known;
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a dataset of masked text needs options: at least a text and a context");
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_text_options"));
    masked_dataset *masked = gp_allocate(sizeof *masked);
    if (!masked) return GP_OUT_OF_MEMORY;
    masked->dataset.table = &masked_class;
    gp_status status = build(masked, &known, share);
    if (status != GP_OK) {
        gp_dataset_destroy(&masked->dataset);
        return status;
    }
    *dataset = &masked->dataset;
    return GP_OK;
}
