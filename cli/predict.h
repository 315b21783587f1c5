/* Samples for gpipe predict: from a file of tensors or from a text, brought into the form that the model takes. */
#ifndef CLI_PREDICT_H
#define CLI_PREDICT_H

#include "gpipe/images.h"
#include "gpipe/layer.h"

typedef struct cli_samples {
    gp_tensor inputs; /* the batch first */
    int64_t count;
    int64_t time; /* tokens that were given, where the model's samples may have more: the rest is padding; else 0 */
} cli_samples;

/* Reads samples for `model` from a file that gp_shards_open opens: a tensor "inputs" [samples, ...] in the form of the
 * model's samples, or for models of text "input_ids" [samples, time] with "token_type_ids" and "attention_mask" where
 * the model takes them (default: 0 and 1). `time` may be less than the model's context. Errors: GP_INVALID naming file,
 * tensor and both types. Destroy them in any case. */
gp_status cli_samples_read(cli_samples *samples, const gp_model *model, const char *path);
/* One sample from a text. Errors: GP_INVALID for a model that takes no text, a text that is too long. Destroy it in any
 * case. */
gp_status cli_samples_from_text(cli_samples *samples, const gp_model *model, const gp_tokenizer *tokenizer,
                                const char *text);
void cli_samples_destroy(cli_samples *samples);

/* What numbers mean. */
typedef struct cli_words {
    const gp_tokenizer *tokenizer;
    const gp_classes *classes; /* NULL: they have no names */
} cli_words;

/* Prints the likeliest classes, or tokens: of a masked language model those that are masked, of another one the next.
 * `values`: the outputs of one sample, whose type is `output`. */
gp_status cli_words_print(const cli_words *words, const cli_samples *samples, gp_type output, const float *values,
                          bool json);

#endif
