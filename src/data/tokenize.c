/* Text to token files: input, threads that encode, shards. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "data/input.h"
#include "data/token_writer.h"

typedef struct job {
    const gp_tokenize_options *options;
    gp_bulk_options bulk;
    gp_input input;
    gp_token_writer writer;
    gp_paths old; /* output that was there */
    gp_tokenize_result *result;
} job;

static gp_status next(void *user, gp_buffer *own, gp_chunk *chunk, bool *there) {
    return gp_input_next(&((job *)user)->input, own, chunk, there);
}

static gp_status take(void *user, const gp_encoded_chunk *encoded) {
    job *j = user;
    gp_tokenize_result *result = j->result;
    GP_TRY(gp_token_writer_write(&j->writer, encoded->ids, encoded->count));
    result->tokens += (int64_t)encoded->count;
    result->documents += encoded->documents;
    result->replaced += encoded->replaced;
    result->bytes += encoded->chunk->bytes;
    gp_input_taken(&j->input, encoded->chunk);
    bool goes_on = !j->options->progress || j->options->progress(j->options->user, result->bytes, j->input.bytes);
    return goes_on ? GP_OK : gp_error(GP_INTERRUPTED, "interrupted after %" PRIu64 " bytes of text", result->bytes);
}

static gp_status find_end(job *j) {
    const char *name = j->options->end_of_text;
    j->bulk.end = -1;
    if (!name) return GP_OK;
    j->bulk.end = gp_tokenizer_token(j->options->tokenizer, name);
    if (j->bulk.end >= 0) return GP_OK;
    return gp_error(GP_INVALID, "the vocabulary has no token \"%s\" to put behind documents", name);
}

static gp_status check_output(job *j) {
    if (!j->options->output || !*j->options->output) return gp_error(GP_INVALID, "no file for the tokens was given");
    GP_TRY(gp_token_writer_find(&j->old, j->options->output));
    if (j->old.count == 0 || j->options->replace) return GP_OK;
    return gp_error(GP_INVALID, "'%s' is there already", j->old.list[0]);
}

static gp_status prepare(job *j) {
    const gp_tokenize_options *options = j->options;
    if (!options->tokenizer) return gp_error(GP_INVALID, "no tokenizer was given");
    if (options->threads < 0) return gp_error(GP_INVALID, "%d threads: 0 or more are accepted", options->threads);
    if ((unsigned)options->documents > GP_DOCUMENT_JSON) {
        return gp_error(GP_INVALID, "there are no documents of kind %d", (int)options->documents);
    }
    if ((unsigned)options->format > GP_TOKENS_RAW) {
        return gp_error(GP_INVALID, "there is no format %d of token files", (int)options->format);
    }
    j->bulk = (gp_bulk_options){.tokenizer = options->tokenizer,
                                .documents = options->documents,
                                .field = options->field ? options->field : "text",
                                .plain = options->plain,
                                .threads = options->threads};
    GP_TRY(find_end(j));
    GP_TRY(check_output(j));
    GP_TRY(gp_input_open(&j->input, &j->bulk, options->inputs, options->input_count));
    return gp_token_writer_create(&j->writer, options->output, options->format,
                                  gp_tokenizer_vocabulary(options->tokenizer), options->file_tokens);
}

/* Removes output of an earlier run that this one did not replace. */
static void remove_old(const job *j) {
    for (size_t i = 0; i < j->old.count; i++) {
        bool made = false;
        for (size_t m = 0; m < j->writer.made.count; m++)
            made = made || strcmp(j->old.list[i], j->writer.made.list[m]) == 0;
        if (!made) (void)unlink(j->old.list[i]);
    }
}

static gp_status run(job *j) {
    GP_TRY(gp_bulk_encode(&j->bulk, &(gp_bulk_ends){.user = j, .next = next, .take = take}));
    if (j->result->tokens == 0) return gp_error(GP_INVALID, "the text is empty: there are no tokens to write");
    GP_TRY(gp_token_writer_finish(&j->writer));
    remove_old(j);
    j->result->id_bytes = (int)j->writer.id_bytes;
    j->result->files = j->writer.made.list;
    j->result->file_count = j->writer.made.count;
    j->writer.made = (gp_paths){0}; /* the result's now */
    return GP_OK;
}

gp_status gp_tokenize(const gp_tokenize_options *options, gp_tokenize_result *result) {
    gp_tokenize_options known;
    if (!options || !result) return gp_error(GP_INVALID, "tokenizing needs options and a place for the result");
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_tokenize_options"));
    gp_tokenize_result made = {.size = result->size};
    if (made.size == 0 || made.size > sizeof made) made.size = sizeof made;
    job j = {.options = &known, .result = &made};
    gp_status status = prepare(&j);
    if (status == GP_OK) status = run(&j);
    gp_input_close(&j.input);
    gp_token_writer_destroy(&j.writer);
    gp_paths_free(&j.old);
    memcpy(result, &made, made.size); /* a program built against older headers has room for less */
    return status;
}

void gp_tokenize_result_free(gp_tokenize_result *result) {
    gp_paths files = {result->files, result->file_count};
    gp_paths_free(&files);
    *result = (gp_tokenize_result){0};
}
