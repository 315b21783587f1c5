/* Generation: token after token through the same stages. Every step runs the whole window (positions behind the last
 * token are padding that causal attention never looks at); the row of logits of the last token gives the next one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "train/trainer.h"

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

/* Likeliest first; equal ones by number, so that the order is the same everywhere. */
static int by_likelihood(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

static double uniform(uint64_t seed, int64_t position) {
    gp_random_block block = {{(uint32_t)position, (uint32_t)(position >> 32), 0x67656e65u, 0}};
    block = gp_random4(gp_random_key_of(seed), block);
    return (double)block.word[0] / 4294967296.0;
}

/* How many of the sorted candidates stay, by top_k and by top_p of the probability mass. */
static int64_t keep(const candidate *sorted, int64_t count, const gp_generate_options *options, double temperature) {
    double top_p = options->top_p > 0 ? options->top_p : 1, total = 0, mass = 0;
    if (options->top_k > 0 && options->top_k < count) count = options->top_k;
    for (int64_t i = 0; i < count; i++) {
        total += exp((sorted[i].logit - sorted[0].logit) / temperature);
    }
    for (int64_t i = 0; i < count; i++) {
        mass += exp((sorted[i].logit - sorted[0].logit) / temperature);
        if (mass >= top_p * total) return i + 1;
    }
    return count;
}

static int32_t pick(candidate *candidates, int64_t count, const gp_generate_options *options, int64_t position) {
    double temperature = options->temperature, total = 0, target;
    qsort(candidates, (size_t)count, sizeof *candidates, by_likelihood);
    if (temperature == 0) return candidates[0].token;
    count = keep(candidates, count, options, temperature);
    for (int64_t i = 0; i < count; i++) {
        total += exp((candidates[i].logit - candidates[0].logit) / temperature);
    }
    target = uniform(options->seed, position) * total;
    for (int64_t i = 0; i < count; i++) {
        target -= exp((candidates[i].logit - candidates[0].logit) / temperature);
        if (target < 0) return candidates[i].token;
    }
    return candidates[count - 1].token;
}

typedef struct generator {
    gp_tensor window, logits;
    candidate *candidates;
    int64_t context, vocabulary, filled;
} generator;

static gp_status check_prompt(gp_type input, gp_type output, const int32_t *prompt, int64_t prompt_count) {
    if (input.dtype != GP_I32 || input.shape.rank != 1 || output.shape.rank != 2)
        return gp_error(GP_INVALID, "this model does not generate text: it does not map tokens to logits");
    if (prompt_count < 1) return gp_error(GP_INVALID, "the prompt is empty; at least one token is needed");
    for (int64_t i = 0; i < prompt_count; i++) {
        if (prompt[i] < 0 || prompt[i] >= output.shape.dims[1])
            return gp_error(GP_INVALID, "token %d of the prompt is not below the vocabulary of %lld", prompt[i],
                            (long long)output.shape.dims[1]);
    }
    return GP_OK;
}

static gp_status generator_create(generator *g, const gp_trainer *trainer, const int32_t *prompt,
                                  int64_t prompt_count) {
    gp_type input = gp_model_input_type(trainer->model), output = gp_model_output_type(trainer->model);
    memset(g, 0, sizeof *g);
    GP_TRY(check_prompt(input, output, prompt, prompt_count));
    g->context = input.shape.dims[0];
    g->vocabulary = output.shape.dims[1];
    g->candidates = gp_allocate_array((size_t)g->vocabulary, sizeof *g->candidates);
    if (!g->candidates) return GP_OUT_OF_MEMORY;
    GP_TRY(gp_tensor_create(&g->window, (gp_type){GP_I32, gp_shape_of(2, (int64_t[]){1, g->context})}));
    GP_TRY(gp_tensor_create(&g->logits, (gp_type){GP_F32, gp_shape_of(3, (int64_t[]){1, g->context, g->vocabulary})}));
    g->filled = prompt_count < g->context ? prompt_count : g->context;
    memcpy(g->window.data, prompt + (prompt_count - g->filled), (size_t)g->filled * sizeof *prompt);
    return GP_OK;
}

static void generator_destroy(generator *g) {
    gp_tensor_destroy(&g->window);
    gp_tensor_destroy(&g->logits);
    gp_free(g->candidates);
}

static void append(generator *g, int32_t token) {
    int32_t *window = g->window.data;
    if (g->filled == g->context) {
        memmove(window, window + 1, (size_t)(g->context - 1) * sizeof *window);
        g->filled--;
    }
    window[g->filled++] = token;
}

/* The next token from the logits of the last one. */
static gp_status next_token(generator *g, const gp_generate_options *options, int64_t position, int32_t *token) {
    const float *row = (const float *)g->logits.data + (g->filled - 1) * g->vocabulary;
    for (int32_t v = 0; v < g->vocabulary; v++) {
        if (isnan(row[v]) || row[v] == INFINITY) /* an order among these means nothing */
            return gp_error(GP_DIVERGED, "the model gives %s for token %lld of the text: its weights have diverged",
                            isnan(row[v]) ? "NaN" : "infinity", (long long)position);
        g->candidates[v] = (candidate){row[v], v};
    }
    *token = pick(g->candidates, g->vocabulary, options, position);
    return GP_OK;
}

static gp_status check_options(const gp_generate_options *options) {
    if (!(options->temperature >= 0 && options->temperature < INFINITY))
        return gp_error(GP_INVALID, "temperature is %g; 0 or more is accepted", options->temperature);
    if (options->top_k < 0)
        return gp_error(GP_INVALID, "top_k is %lld; 0 (all) or more is accepted", (long long)options->top_k);
    if (!(options->top_p >= 0 && options->top_p <= 1))
        return gp_error(GP_INVALID, "top_p is %g; a probability from 0 (all) to 1 is accepted", options->top_p);
    return GP_OK;
}

gp_status gp_trainer_generate(gp_trainer *trainer, const int32_t *prompt, int64_t prompt_count, int64_t count,
                              const gp_generate_options *options, bool (*on_token)(void *user, int32_t token),
                              void *user) {
    gp_generate_options known;
    generator g;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_generate_options"));
    GP_TRY(check_options(&known));
    if (count < 0) return gp_error(GP_INVALID, "%lld tokens cannot be made; 0 or more is accepted", (long long)count);
    gp_status status = generator_create(&g, trainer, prompt, prompt_count);
    for (int64_t i = 0; status == GP_OK && i < count; i++) {
        status = gp_engine_forward(trainer->engine, &g.window, &g.logits);
        int32_t token = 0;
        if (status == GP_OK) status = next_token(&g, &known, i, &token);
        if (status != GP_OK) break;
        append(&g, token);
        if (!on_token(user, token)) break;
    }
    generator_destroy(&g);
    return status;
}
