/* Masked language modelling: the windows of a text or token dataset, with some of their tokens hidden, perhaps cut into
 * two parts of which the second may be another window's. What is hidden is a pure function of seed, step, the sample's
 * number in the mini-batch and the token's place; so are the parts. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/dataset.h"

enum {
    ROWS = 3,
    AROUND = 2 /* [CLS], [SEP] */,
    OF_PARTS = -1 /* the place of random numbers about the whole sample */
};

typedef struct masked_dataset {
    gp_dataset dataset;
    gp_dataset *text; /* windows of tokens */
    bool pairs;
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

/* ---- windows ---- */

/* The window of one sample, and how many of its tokens there are: evaluation's last one is shorter. */
static gp_status read_window(const masked_dataset *masked, gp_request request, int64_t number, gp_batch *window,
                             int64_t *count) {
    request.first = number;
    request.count = 1;
    GP_TRY(gp_dataset_read(masked->text, &request, window));
    const int32_t *targets = window->targets.data;
    *count = gp_dataset_input_type(masked->text).shape.dims[0];
    while (*count > 0 && targets[*count - 1] == GP_IGNORED_TARGET)
        (*count)--;
    return GP_OK;
}

/* What a sample is made of: `first` tokens and then others, together `count`, in one row. */
typedef struct parts {
    int32_t *tokens;
    int64_t first, count;
    int32_t other; /* the second part does not follow: 1; GP_IGNORED_TARGET: there is none */
} parts;

/* A window from elsewhere: of another step, or another number where they are counted through. */
static gp_status read_other(const masked_dataset *masked, gp_request request, gp_random_block words, gp_batch *window,
                            int64_t *count) {
    uint64_t drawn = (uint64_t)words.word[2] << 16 ^ words.word[3];
    int64_t windows = gp_dataset_windows(masked->text, request.split);
    if (request.evaluation)
        return read_window(masked, request, (int64_t)(drawn % (uint64_t)(windows > 0 ? windows : 1)), window, count);
    request.step = (int64_t)(drawn & 0x7FFFFFFF);
    return read_window(masked, request, 0, window, count);
}

/* The cut lies in the middle half. The random numbers are drawn whatever comes of it. */
static gp_status cut(const masked_dataset *masked, const gp_request *request, const sample_draws *draws,
                     gp_batch *window, parts *made) {
    gp_random_block words = draw(draws, OF_PARTS);
    int64_t quarter = made->count / 4, others = 0;
    made->other = GP_IGNORED_TARGET;
    made->first = made->count;
    if (!masked->pairs || made->count < 4) return GP_OK;
    made->first = quarter + (int64_t)(words.word[1] % (uint32_t)(made->count - 2 * quarter));
    made->other = words.word[0] < gp_random_threshold(0.5);
    if (!made->other) return GP_OK;
    GP_TRY(read_other(masked, *request, words, window, &others));
    int64_t second = made->count - made->first < others ? made->count - made->first : others;
    memcpy(made->tokens + made->first, window->inputs.data, (size_t)second * sizeof *made->tokens);
    made->count = made->first + second;
    return GP_OK;
}

/* ---- samples ---- */

/* Hides tokens: at least one. Where the second part begins there is a [SEP] before it. */
static void write_hidden(const masked_dataset *masked, const sample_draws *draws, const parts *p, int32_t *tokens,
                         int32_t *targets) {
    int64_t only = -1;
    bool any = false;
    for (int64_t i = 0; i < p->count && !any; i++)
        any = draw(draws, i).word[0] < masked->threshold;
    if (!any && p->count > 0) only = (int64_t)(draw(draws, 0).word[3] % (uint64_t)p->count);
    for (int64_t i = 0; i < p->count; i++) {
        gp_random_block words = draw(draws, i);
        bool hidden = i == only || words.word[0] < masked->threshold;
        int64_t place = 1 + i + (i >= p->first);
        if (tokens) tokens[place] = hidden ? hide(masked, words, p->tokens[i]) : p->tokens[i];
        if (targets && hidden) targets[place] = p->tokens[i];
    }
}

/* One sample; tokens or targets may be NULL. */
static void write_sample(const masked_dataset *masked, const sample_draws *draws, const parts *p, int32_t *tokens,
                         int32_t *targets) {
    int64_t context = masked->context, seconds = masked->pairs ? p->first + AROUND : context;
    int64_t used =
        p->count > 0 ? p->count + AROUND + masked->pairs : 0; /* past the end of the split is nothing at all */
    for (int64_t i = 0; targets && i < context; i++)
        targets[i] = GP_IGNORED_TARGET;
    if (targets && masked->pairs) targets[context] = p->other;
    for (int64_t i = 0; tokens && i < context; i++) {
        tokens[i] = 0;
        tokens[context + i] = i >= seconds && i < used;
        tokens[2 * context + i] = i < used;
    }
    write_hidden(masked, draws, p, tokens, targets);
    if (!tokens || p->count == 0) return;
    tokens[0] = masked->special.begin;
    if (masked->pairs) tokens[1 + p->first] = masked->special.end;
    tokens[used - 1] = masked->special.end;
}

static gp_status read_sample(const masked_dataset *masked, const gp_request *request, int64_t number, gp_batch *window,
                             int32_t *row, int32_t *tokens, int32_t *targets) {
    sample_draws draws = draws_of(masked, request, number);
    parts made = {.tokens = row};
    GP_TRY(read_window(masked, *request, number, window, &made.count));
    memcpy(row, window->inputs.data, (size_t)made.count * sizeof *row);
    GP_TRY(cut(masked, request, &draws, window, &made));
    write_sample(masked, &draws, &made, tokens, targets);
    return GP_OK;
}

static gp_status masked_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const masked_dataset *masked = masked_of(dataset);
    int64_t context = masked->context, asked = context + masked->pairs;
    gp_batch window;
    GP_TRY(gp_batch_create(&window, masked->text, 1));
    int32_t *row = gp_allocate_array((size_t)context, sizeof *row);
    gp_status status = row ? GP_OK : GP_OUT_OF_MEMORY;
    for (int64_t i = 0; i < request->count && status == GP_OK; i++) {
        int32_t *tokens = batch->inputs.data ? (int32_t *)batch->inputs.data + i * ROWS * context : NULL;
        int32_t *targets = batch->targets.data ? (int32_t *)batch->targets.data + i * asked : NULL;
        status = read_sample(masked, request, request->first + i, &window, row, tokens, targets);
    }
    gp_free(row);
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

/* Of windows without a tokenizer: behind their vocabulary. */
static gp_special_tokens special_of(const gp_dataset *windows) {
    const gp_tokenizer *tokenizer = gp_dataset_tokenizer(windows);
    int32_t vocabulary = gp_dataset_vocabulary(windows);
    if (tokenizer) return gp_tokenizer_special(tokenizer);
    return (gp_special_tokens){vocabulary, vocabulary + 1, vocabulary + 2, vocabulary + 3};
}

static gp_status build(masked_dataset *masked, const gp_masked_options *options) {
    double share = options->share == 0 ? 0.15 : options->share;
    gp_type window = gp_dataset_input_type(masked->text);
    if (!(share > 0 && share <= 1))
        return gp_error(GP_INVALID, "the share of masked tokens is %g: above 0 and at most 1 is accepted", share);
    if (window.dtype != GP_I32 || window.shape.rank != 1 || gp_dataset_vocabulary(masked->text) < 1)
        return gp_error(GP_INVALID, "windows of tokens are needed: a dataset of text or of token files");
    if (options->pairs && window.shape.dims[0] < 4)
        return gp_error(GP_INVALID, "the context is %" PRId64 ": two parts need 7 tokens at least",
                        window.shape.dims[0] + AROUND + 1);
    masked->pairs = options->pairs;
    masked->context = window.shape.dims[0] + AROUND + masked->pairs;
    masked->special = special_of(masked->text);
    const gp_tokenizer *tokenizer = gp_dataset_tokenizer(masked->text);
    masked->drawn = tokenizer ? gp_tokenizer_vocabulary(tokenizer) : gp_dataset_vocabulary(masked->text);
    masked->threshold = gp_random_threshold(share);
    masked->use = gp_hash_text("gpipe masked tokens");
    masked->dataset.input_type = (gp_type){GP_I32, {2, {ROWS, masked->context}}};
    masked->dataset.target_type = (gp_type){GP_I32, {1, {masked->context + masked->pairs}}};
    masked->dataset.tokenizer = tokenizer;
    masked->dataset.vocabulary = masked->special.vocabulary;
    return GP_OK;
}

gp_status gp_dataset_create_masked_windows(gp_dataset **dataset, gp_dataset *windows,
                                           const gp_masked_options *options) {
    gp_masked_options known;
    *dataset = NULL;
    gp_status status = gp_options_read(&known, sizeof known, options, "gp_masked_options");
    masked_dataset *masked = status == GP_OK ? gp_allocate(sizeof *masked) : NULL;
    if (!masked) {
        gp_dataset_destroy(windows);
        return status == GP_OK ? GP_OUT_OF_MEMORY : status;
    }
    masked->dataset.table = &masked_class;
    masked->text = windows;
    status = build(masked, &known);
    if (status != GP_OK) {
        gp_dataset_destroy(&masked->dataset);
        return status;
    }
    *dataset = &masked->dataset;
    return GP_OK;
}

gp_status gp_dataset_create_masked(gp_dataset **dataset, const gp_text_options *options, double share) {
    gp_text_options known;
    gp_dataset *windows = NULL;
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a dataset of masked text needs options: at least a text and a context");
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_text_options"));
    if (!(share > 0 && share <= 1))
        return gp_error(GP_INVALID, "the share of masked tokens is %g: above 0 and at most 1 is accepted", share);
    if (known.context < 1 + AROUND)
        return gp_error(GP_INVALID,
                        "the context is %" PRId64 ": at least %d tokens are needed, [CLS] and [SEP] among them",
                        known.context, 1 + AROUND);
    known.context -= AROUND;
    GP_TRY(gp_dataset_create_text(&windows, &known));
    return gp_dataset_create_masked_windows(dataset, windows, &(gp_masked_options){.share = share});
}
