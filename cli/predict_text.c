/* gpipe predict --text: a text as a sample, and what the model says about it in words. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpipe/words.h"
#include "json.h"
#include "predict.h"

enum { ROWS = 3, TOP = 5 };

/* ---- the sample ---- */

static gp_status encode(const gp_tokenizer *tokenizer, const char *text, int32_t **ids, size_t *count) {
    size_t bytes = strlen(text);
    *count = 0;
    gp_status status = gp_tokenizer_encode(tokenizer, text, bytes, NULL, 0, count);
    *ids = status == GP_OK ? malloc((*count + 1) * sizeof **ids) : NULL;
    if (status == GP_OK && !*ids) status = gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (status == GP_OK) status = gp_tokenizer_encode(tokenizer, text, bytes, *ids, *count, count);
    return gp_error_within(status, "--text");
}

static gp_status too_long(size_t count, int64_t context) {
    return gp_error(GP_INVALID, "--text has %zu token%s: 1 to %lld are accepted", count, gp_plural((int64_t)count, "s"),
                    (long long)context);
}

/* As it is for models of rows, between [CLS] and [SEP] for a bert. */
static gp_status fill(cli_samples *samples, gp_type sample, const gp_tokenizer *tokenizer, const int32_t *ids,
                      size_t count) {
    bool rows = sample.shape.rank == 2;
    int64_t context = sample.shape.dims[sample.shape.rank - 1];
    gp_type type = {GP_I32, {.rank = sample.shape.rank + 1, .dims = {1, rows ? ROWS : context, context}}};
    if (count < 1 || (int64_t)count > context - 2 * rows) return too_long(count, context - 2 * rows);
    gp_status status = gp_tensor_create(&samples->inputs, type);
    if (status != GP_OK) return status;
    int32_t *tokens = samples->inputs.data;
    memcpy(tokens + rows, ids, count * sizeof *ids);
    samples->count = 1;
    samples->time = (int64_t)count + 2 * rows;
    if (!rows) return GP_OK;
    gp_special_tokens special = gp_tokenizer_special(tokenizer);
    tokens[0] = special.begin;
    tokens[count + 1] = special.end;
    for (int64_t t = 0; t < samples->time; t++)
        tokens[2 * context + t] = 1;
    return GP_OK;
}

gp_status cli_samples_from_text(cli_samples *samples, const gp_model *model, const gp_tokenizer *tokenizer,
                                const char *text) {
    gp_type sample = gp_model_input_type(model);
    bool rows = sample.shape.rank == 2 && sample.shape.dims[0] == ROWS;
    int32_t *ids = NULL;
    size_t count = 0;
    memset(samples, 0, sizeof *samples);
    if (!tokenizer) return gp_error(GP_INVALID, "the run has no tokenizer.json to encode --text with");
    if (sample.dtype != GP_I32 || !(sample.shape.rank == 1 || rows))
        return gp_error(GP_INVALID, "--text is for models of text; this one takes something else");
    gp_status status = encode(tokenizer, text, &ids, &count);
    if (status == GP_OK && ids) status = fill(samples, sample, tokenizer, ids, count);
    free(ids);
    return status;
}

/* ---- the answer ---- */

typedef struct choice {
    int64_t number;
    double probability;
} choice;

/* The likeliest of `count` logits, at most TOP, with their probabilities. */
static int find_top(const float *logits, int64_t count, choice top[TOP]) {
    double most = -INFINITY, sum = 0;
    int found = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, logits[i]);
    for (int64_t i = 0; i < count; i++) {
        double weight = exp(logits[i] - most);
        int place = found;
        sum += weight;
        while (place > 0 && top[place - 1].probability < weight)
            place--;
        if (place >= TOP) continue;
        if (found < TOP) found++;
        memmove(top + place + 1, top + place, (size_t)(found - 1 - place) * sizeof *top);
        top[place] = (choice){i, weight};
    }
    for (int i = 0; i < found; i++)
        top[i].probability /= sum;
    return found;
}

/* A token's text, or its number where it has none. */
static void spell(const gp_tokenizer *tokenizer, int64_t token, char *text, size_t size) {
    size_t bytes = 0;
    int32_t id = (int32_t)token;
    bool known = token < gp_tokenizer_vocabulary(tokenizer) &&
                 gp_tokenizer_decode(tokenizer, &id, 1, text, size - 1, &bytes) == GP_OK;
    text[known ? bytes : 0] = '\0';
    if (!known) snprintf(text, size, "#%lld", (long long)token);
}

static void name_class(const gp_classes *classes, int64_t number, char *text, size_t size) {
    bool known = classes && number < (int64_t)gp_classes_count(classes);
    if (known) snprintf(text, size, "%s", gp_classes_name(classes, (size_t)number));
    if (!known) snprintf(text, size, "%lld", (long long)number);
}

/* One distribution: of a class (position -1) or of a token at a position. */
static json_t *describe(const cli_words *words, const float *logits, int64_t count, int64_t position) {
    choice top[TOP];
    json_t *list = json_array(), *one = json_object();
    int found = find_top(logits, count, top);
    for (int i = 0; i < found; i++) {
        char text[256];
        if (position < 0) name_class(words->classes, top[i].number, text, sizeof text);
        if (position >= 0) spell(words->tokenizer, top[i].number, text, sizeof text);
        json_t *name = json_string(text); /* half a character is no text */
        json_array_append_new(list, json_pack("{s:I, s:o, s:f}", "number", (json_int_t)top[i].number, "text",
                                              name ? name : json_null(), "probability", top[i].probability));
    }
    if (position >= 0) json_object_set_new(one, "position", json_integer(position));
    json_object_set_new(one, position < 0 ? "classes" : "tokens", list);
    return one;
}

/* A language model is asked for the token that follows, a masked one for those that are masked. */
static void add_tokens(json_t *answers, const cli_words *words, const cli_samples *samples, gp_type output,
                       const float *logits) {
    const int32_t *tokens = samples->inputs.data;
    bool rows = samples->inputs.type.shape.rank == 3;
    int32_t mask = gp_tokenizer_special(words->tokenizer).mask;
    int64_t count = output.shape.dims[1];
    for (int64_t t = rows ? 0 : samples->time - 1; t < samples->time; t++) {
        if (!rows || tokens[t] == mask)
            json_array_append_new(answers, describe(words, logits + t * count, count, rows ? t : t + 1));
    }
}

static void print_answer(const json_t *answer) {
    const json_t *position = json_object_get(answer, "position");
    const json_t *list = json_object_get(answer, position ? "tokens" : "classes");
    if (position) printf("token %lld:\n", (long long)json_integer_value(position));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(one, "text"));
        printf("%9.6f  %s\n", json_real_value(json_object_get(one, "probability")), text ? text : "?");
    }
}

gp_status cli_words_print(const cli_words *words, const cli_samples *samples, gp_type output, const float *values,
                          bool json) {
    json_t *answers = json_array();
    if (output.shape.rank == 1) {
        json_array_append_new(answers, describe(words, values, output.shape.dims[0], -1));
    } else {
        add_tokens(answers, words, samples, output, values);
    }
    gp_status status = GP_OK;
    if (json_array_size(answers) == 0)
        status = gp_error(GP_INVALID, "--text has no [MASK], which is what this model guesses");
    for (size_t i = 0; status == GP_OK && !json && i < json_array_size(answers); i++)
        print_answer(json_array_get(answers, i));
    if (status == GP_OK && json) status = cli_json_print(json_incref(answers));
    json_decref(answers);
    return status;
}
