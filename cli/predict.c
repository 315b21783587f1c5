/* gpipe predict: what a run's model makes of given samples, as a file of tensors. */
#include "predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "config_keys.h"
#include "gpipe/checkpoint.h"
#include "message.h"
#include "session.h"

enum { CHUNK_BYTES = 64 << 20, MOST_SAMPLES = 64 };

/* Outputs are computed while the file is written: a chunk of samples at a time. */
typedef struct prediction {
    gp_trainer *trainer;
    const cli_samples *samples;
    gp_type output;    /* of one sample */
    size_t shown;      /* bytes of a sample that are written: the tokens that were given */
    int64_t per_chunk; /* samples */
    int64_t first;     /* of the chunk at hand; -1: none */
    gp_tensor outputs;
} prediction;

static gp_status compute(prediction *p, int64_t first) {
    gp_tensor inputs = p->samples->inputs, outputs = p->outputs;
    int64_t left = p->samples->count - first, count = left < p->per_chunk ? left : p->per_chunk;
    size_t bytes = gp_type_bytes(inputs.type) / (size_t)p->samples->count;
    inputs.data = (char *)inputs.data + (size_t)first * bytes;
    inputs.type.shape.dims[0] = count;
    outputs.type.shape.dims[0] = count;
    gp_status status = gp_trainer_forward(p->trainer, &inputs, &outputs);
    p->first = status == GP_OK ? first : -1;
    return status;
}

static gp_status fill(void *user, size_t offset, void *buffer, size_t bytes) {
    prediction *p = user;
    char *to = buffer;
    size_t whole = gp_type_bytes(p->output);
    while (bytes > 0) {
        int64_t sample = (int64_t)(offset / p->shown), first = sample - sample % p->per_chunk;
        size_t within = offset % p->shown, piece = p->shown - within < bytes ? p->shown - within : bytes;
        gp_status status = first == p->first ? GP_OK : compute(p, first);
        if (status != GP_OK) return status;
        memcpy(to, (const char *)p->outputs.data + (size_t)(sample - first) * whole + within, piece);
        to += piece;
        offset += piece;
        bytes -= piece;
    }
    return GP_OK;
}

static gp_type with_samples(gp_type sample, int64_t count) {
    gp_type type = {.dtype = GP_F32, .shape = {.rank = sample.shape.rank + 1, .dims = {count}}};
    for (int d = 0; d < sample.shape.rank && d + 1 < GP_MAX_RANK; d++)
        type.shape.dims[d + 1] = sample.shape.dims[d];
    return type;
}

static int64_t chunk_of(gp_type output, int64_t samples) {
    size_t bytes = gp_type_bytes(output);
    int64_t fit = bytes > 0 ? (int64_t)(CHUNK_BYTES / bytes) : MOST_SAMPLES;
    if (fit > MOST_SAMPLES) fit = MOST_SAMPLES;
    if (fit > samples) fit = samples;
    return fit < 1 ? 1 : fit;
}

/* The file has a row for each token that was given, where the model gives a row for each of its context. */
static gp_status write_outputs(prediction *p, const char *path) {
    gp_type shown = p->output;
    int64_t time = p->samples->time;
    gp_type input = p->samples->inputs.type;
    int64_t context = input.shape.dims[input.shape.rank - 1];
    if (time > 0 && shown.shape.rank == 2 && shown.shape.dims[0] == context) shown.shape.dims[0] = time;
    p->shown = gp_type_bytes(shown);
    gp_safetensors_entry entry = {
        .name = "outputs", .type = with_samples(shown, p->samples->count), .fill = fill, .user = p};
    gp_status status = gp_tensor_create(&p->outputs, with_samples(p->output, p->per_chunk));
    if (status == GP_OK) status = gp_safetensors_write(path, &entry, 1, NULL, 0);
    gp_tensor_destroy(&p->outputs);
    return status;
}

static bool gives_logits(const cli_config *config) {
    int head = config->settings.model.head;
    return config->use != CLI_USE_BERT || (head != GP_BERT_POOLED && head != GP_BERT_HIDDEN);
}

static gp_status check_outputs(const gp_tensor *outputs) {
    const float *values = outputs->data;
    for (int64_t i = 0; i < gp_shape_elements(outputs->type.shape); i++)
        if (isnan(values[i])) return gp_error(GP_DIVERGED, "the model gives NaN for --text: its weights have diverged");
    return GP_OK;
}

/* The outputs of the one sample that a text is, in words. */
static gp_status print_words(prediction *p, const cli_session *session, bool json) {
    cli_words words = {.tokenizer = session->tokenizer, .classes = session->classes};
    if (!gives_logits(&session->config))
        return gp_error(GP_INVALID, "this model gives features, not words: --out FILE is needed");
    gp_status status = gp_tensor_create(&p->outputs, with_samples(p->output, 1));
    if (status == GP_OK) status = compute(p, 0);
    if (status == GP_OK) status = check_outputs(&p->outputs);
    if (status == GP_OK) status = cli_words_print(&words, p->samples, p->output, p->outputs.data, json);
    gp_tensor_destroy(&p->outputs);
    return status;
}

static gp_status predict(cli_session *session, const cli_arguments *arguments, const char *to) {
    const char *run = arguments->words[0], *checkpoint = cli_given_value(arguments, "checkpoint");
    const char *from = cli_given_value(arguments, "inputs"), *text = cli_given_value(arguments, "text");
    cli_samples samples = {0};
    prediction p = {.samples = &samples, .first = -1};
    gp_status status = cli_session_open_run(session, run, arguments, false, CLI_DATA_UNUSED);
    if (status == GP_OK && text) status = cli_samples_from_text(&samples, session->model, session->tokenizer, text);
    if (status == GP_OK && from) status = cli_samples_read(&samples, session->model, from);
    if (status == GP_OK) {
        p.output = gp_model_output_type(session->model);
        p.per_chunk = chunk_of(p.output, samples.count);
        session->config.settings.pipeline.micro_batches = 1;
        status = cli_session_load_weights(session, run, checkpoint ? checkpoint : "latest", p.per_chunk);
    }
    p.trainer = session->trainer;
    if (status == GP_OK)
        status = to ? write_outputs(&p, to) : print_words(&p, session, cli_given_flag(arguments, "json"));
    cli_samples_destroy(&samples);
    return status;
}

static int run(const cli_arguments *arguments) {
    cli_session session = {0};
    const char *to = cli_given_value(arguments, "out");
    bool from = cli_given_value(arguments, "inputs") != NULL, text = cli_given_value(arguments, "text") != NULL;
    gp_status status = GP_OK;
    if (from == text)
        status = gp_error(GP_INVALID, "predict: either --inputs FILE, a safetensors file of samples, or --text TEXT");
    if (status == GP_OK && from && !to)
        status = gp_error(GP_INVALID, "predict: --out FILE is missing: where the safetensors file goes");
    if (status == GP_OK) status = predict(&session, arguments, to);
    if (status == GP_OK && to) cli_message(GP_LOG_INFO, "the outputs are in %s", to);
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    {"inputs", 'i', "FILE", CLI_FILE, "a safetensors file with a tensor inputs, or for text input_ids"},
    {"text", 't', "TEXT", CLI_ANY, "or a text, encoded with the run's tokenizer"},
    {"out", 'o', "FILE", CLI_FILE, "the safetensors file to write; may be missing with --text"},
    {"checkpoint", 0, "NAME", CLI_ANY, "latest (default), best, step-N, or a .safetensors file"},
    CLI_OPTION_SET,
    CLI_OPTION_JSON,
};

const cli_command cli_predict = {
    .name = "predict",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .kind = CLI_FOLDER,
    .summary = "what a run's model makes of given samples",
    .description =
        "Runs the model of a run directory, without dropout, on the samples in a safetensors file and writes the last "
        "layer's outputs (f32, for a language model its logits) as tensor outputs [samples, ...]. The file has a "
        "tensor "
        "inputs [samples, ...], or for models of text input_ids [samples, time], and for a bert also token_type_ids "
        "and attention_mask, as transformers has them; time may be less than the model's context. With --text and "
        "without --out the answer is printed: the likeliest classes, the tokens in the places of [MASK], or the token "
        "that follows, with their probabilities.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
