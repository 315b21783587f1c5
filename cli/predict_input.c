/* Tensors of a file as samples of a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpipe/checkpoint.h"
#include "predict.h"

enum { ROWS = 3 }; /* of a sample of BERT: tokens, token types, mask */

/* A sample of tokens: i32[time], or i32[3, time]; 0 rows: something else. */
typedef struct token_form {
    int64_t rows, context;
} token_form;

static token_form form_of(gp_type sample) {
    bool tokens = sample.dtype == GP_I32;
    if (tokens && sample.shape.rank == 1) return (token_form){1, sample.shape.dims[0]};
    if (tokens && sample.shape.rank == 2 && sample.shape.dims[0] == ROWS)
        return (token_form){ROWS, sample.shape.dims[1]};
    return (token_form){0, 0};
}

static gp_status make(cli_samples *samples, gp_type sample, int64_t count) {
    gp_type type = {.dtype = sample.dtype, .shape = {.rank = sample.shape.rank + 1, .dims = {count}}};
    for (int d = 0; d < sample.shape.rank && d + 1 < GP_MAX_RANK; d++)
        type.shape.dims[d + 1] = sample.shape.dims[d];
    samples->count = count;
    return gp_tensor_create(&samples->inputs, type);
}

static gp_status wrong_type(const char *path, const char *name, gp_type found, const char *accepted) {
    char text[96];
    return gp_error(GP_INVALID, "%s: tensor %s is %s; accepted: %s", path, name,
                    gp_type_format(found, text, sizeof text), accepted);
}

/* ---- tokens ---- */

/* A matrix [samples, time] into one row of every sample. */
static gp_status read_row(const cli_samples *samples, token_form form, int64_t row, const gp_shards *file,
                          size_t tensor) {
    int32_t *to = (int32_t *)samples->inputs.data + row * form.context;
    gp_status status = GP_OK;
    for (int64_t s = 0; s < samples->count && status == GP_OK; s++) {
        status = gp_shards_read(file, tensor, (size_t)(s * samples->time), (size_t)samples->time, GP_I32,
                                to + s * form.rows * form.context);
    }
    return status;
}

static bool is_matrix(gp_type type, int64_t count, int64_t time) {
    return !gp_dtype_is_float(type.dtype) && type.shape.rank == 2 && type.shape.dims[0] == count &&
           type.shape.dims[1] == time;
}

/* Types are 0 and the mask 1 unless the file says otherwise; behind the tokens both are 0. */
static gp_status read_other_rows(const cli_samples *samples, token_form form, const gp_shards *file, const char *path) {
    static const char *const names[ROWS] = {"input_ids", "token_type_ids", "attention_mask"};
    gp_status status = GP_OK;
    for (int64_t row = 1; row < ROWS && status == GP_OK; row++) {
        size_t tensor = 0;
        int32_t *to = (int32_t *)samples->inputs.data + row * form.context;
        for (int64_t s = 0; s < samples->count; s++)
            for (int64_t t = 0; t < samples->time; t++)
                to[s * ROWS * form.context + t] = row == 2;
        if (!gp_shards_find(file, names[row], &tensor)) continue;
        gp_type type = gp_shards_type(file, tensor);
        if (!is_matrix(type, samples->count, samples->time))
            return wrong_type(path, names[row], type, "integers in the shape of input_ids");
        status = read_row(samples, form, row, file, tensor);
    }
    return status;
}

static gp_status read_tokens(cli_samples *samples, gp_type sample, const gp_shards *file, size_t tensor,
                             const char *path) {
    token_form form = form_of(sample);
    gp_type type = gp_shards_type(file, tensor);
    char accepted[96];
    snprintf(accepted, sizeof accepted, "integers [samples, 1 to %lld]", (long long)form.context);
    int64_t count = type.shape.dims[0], time = type.shape.dims[1];
    if (type.shape.rank != 2 || !is_matrix(type, count, time) || count < 1 || time < 1 || time > form.context)
        return wrong_type(path, "input_ids", type, accepted);
    samples->time = time;
    gp_status status = make(samples, sample, count);
    if (status == GP_OK) status = read_row(samples, form, 0, file, tensor);
    if (status == GP_OK && form.rows == ROWS) status = read_other_rows(samples, form, file, path);
    return status;
}

/* ---- anything ---- */

static gp_status read_inputs(cli_samples *samples, gp_type sample, const gp_shards *file, size_t tensor,
                             const char *path) {
    gp_type type = gp_shards_type(file, tensor), one = {type.dtype, {.rank = type.shape.rank - 1}};
    char accepted[128], text[96];
    for (int d = 1; d < type.shape.rank; d++)
        one.shape.dims[d - 1] = type.shape.dims[d];
    bool kind = gp_dtype_is_float(type.dtype) == gp_dtype_is_float(sample.dtype);
    if (type.shape.rank < 1 || !kind || !gp_shape_equal(one.shape, sample.shape) || type.shape.dims[0] < 1) {
        snprintf(accepted, sizeof accepted, "samples of %s", gp_type_format(sample, text, sizeof text));
        return wrong_type(path, "inputs", type, accepted);
    }
    gp_status status = make(samples, sample, type.shape.dims[0]);
    if (status != GP_OK) return status;
    return gp_shards_read(file, tensor, 0, (size_t)gp_shape_elements(type.shape), sample.dtype, samples->inputs.data);
}

gp_status cli_samples_read(cli_samples *samples, const gp_model *model, const char *path) {
    gp_shards *file = NULL;
    gp_type sample = gp_model_input_type(model);
    size_t tensor = 0;
    memset(samples, 0, sizeof *samples);
    gp_status status = gp_shards_open(&file, path);
    if (status != GP_OK)
        return gp_error_within(status, "--inputs takes a safetensors file with a tensor inputs%s",
                               form_of(sample).rows > 0 ? " or input_ids" : "");
    bool tokens = form_of(sample).rows > 0;
    if (gp_shards_find(file, "inputs", &tensor)) {
        status = read_inputs(samples, sample, file, tensor, path);
    } else if (tokens && gp_shards_find(file, "input_ids", &tensor)) {
        status = read_tokens(samples, sample, file, tensor, path);
    } else {
        status = gp_error(GP_INVALID, "%s has no tensor inputs%s", path, tokens ? " and no input_ids" : "");
    }
    gp_shards_close(file);
    return status;
}

void cli_samples_destroy(cli_samples *samples) {
    gp_tensor_destroy(&samples->inputs);
}
