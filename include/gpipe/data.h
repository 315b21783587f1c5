/* Training data: tokenizers and datasets. A dataset is immutable and asked by number: which sample of which step is
 * wanted is in the question, so any worker or thread gets the same answer, and nothing has to be restored when a run
 * resumes. */
#ifndef GPIPE_DATA_H
#define GPIPE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"
#include "gpipe/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Tokenizers: text to numbers and back. Immutable; every function may be called from any number of threads. --- */

typedef struct gp_tokenizer gp_tokenizer;

/* Kinds of tokenizers: name, the configuration's word, meaning. */
#define GP_TOKENIZERS(X)                                                                                               \
    X(GP_TOKENIZER_CHAR, "char", "the Unicode code points of the corpus, in ascending order")                          \
    X(GP_TOKENIZER_BYTE, "byte", "the 256 bytes")                                                                      \
    X(GP_TOKENIZER_BPE, "bpe", "byte-pair encoding over bytes, GPT-2's kind (Radford et al., 2019)")                   \
    X(GP_TOKENIZER_WORDPIECE, "wordpiece", "WordPiece, BERT's kind (Devlin et al., arXiv 1810.04805)")

typedef enum gp_tokenizer_kind {
#define GP_TOKENIZER_ENUM(name, word, meaning) name,
    GP_TOKENIZERS(GP_TOKENIZER_ENUM)
#undef GP_TOKENIZER_ENUM
} gp_tokenizer_kind;

GP_API const char *gp_tokenizer_kind_name(gp_tokenizer_kind kind);

/* Makes a tokenizer for the text of the files at `corpus`, a path or a glob pattern (the byte tokenizer needs none:
 * NULL). Errors as gp_dataset_create_text; GP_INVALID for kinds that are not made but loaded. The caller destroys it.
 */
GP_API gp_status gp_tokenizer_create(gp_tokenizer **tokenizer, gp_tokenizer_kind kind, const char *corpus);
GP_API void gp_tokenizer_destroy(gp_tokenizer *tokenizer);

/* Loads a tokenizer from a file, or from a folder that has one:
 *
 *     tokenizer.json             as the package `tokenizers` writes it, of the kinds BPE (byte level) and WordPiece
 * (BERT's normalizer); or gpipe's own of characters and bytes: {"format": "gpipe tokenizer", "version": 1, "kind":
 * "char", "characters": "..."} vocab.json and merges.txt  as GPT-2 was published vocab.txt                  as BERT was
 * published, with tokenizer_config.json if it is there (do_lower_case, strip_accents, tokenize_chinese_chars)
 *
 * They are looked for in this order. Errors: GP_INVALID (what is missing or malformed, or of a kind that would give
 * other ids), GP_IO, GP_OUT_OF_MEMORY. The caller destroys it. */
GP_API gp_status gp_tokenizer_load(gp_tokenizer **tokenizer, const char *path);
/* Writes one JSON file from which the tokenizer is loaded again: a tokenizer.json as above, the same byte for byte when
 * it was loaded from one. Replaces a file as a whole. Errors: GP_IO, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_tokenizer_save(const gp_tokenizer *tokenizer, const char *path);

GP_API gp_tokenizer_kind gp_tokenizer_kind_of(const gp_tokenizer *tokenizer);
/* Number of different tokens: ids are 0 to this number - 1. */
GP_API int32_t gp_tokenizer_vocabulary(const gp_tokenizer *tokenizer);
/* The id of the token that is spelt so in the vocabulary ("[MASK]", "<|endoftext|>", "a"); -1 when there is none. */
GP_API int32_t gp_tokenizer_token(const gp_tokenizer *tokenizer, const char *text);
/* The token that ends a document: the first that there is of <|endoftext|>, <|end_of_text|>, </s>, [SEP]; else -1. */
GP_API int32_t gp_tokenizer_end_of_text(const gp_tokenizer *tokenizer);

/* Text (`bytes` long) to ids: `*count` becomes their number. `ids` may be NULL to count only. Tokens such as
 * "<|endoftext|>" are found in the text as the tokenizer's file says; nothing is put around it. For bpe and wordpiece
 * every part of the text that is not UTF-8 counts as U+FFFD.
 * Errors: GP_INVALID for a character that the vocabulary lacks (the message names it), for invalid UTF-8 (char), and
 * when there are more ids than `capacity`; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_tokenizer_encode(const gp_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *ids,
                                     size_t capacity, size_t *count);

/* Ids to text: `*bytes` becomes its length. No terminating zero is written. `text` may be NULL to measure only.
 * Errors: GP_INVALID for an id outside the vocabulary and when the text is longer than `capacity`. */
GP_API gp_status gp_tokenizer_decode(const gp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                                     size_t capacity, size_t *bytes);

/* The text that `id` adds to one whose last id is `before` (-1: none): one after the other they make the text of
 * gp_tokenizer_decode. It may end within a character. `text` may be NULL to measure only. Errors as there. */
GP_API gp_status gp_tokenizer_decode_next(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char *text,
                                          size_t capacity, size_t *bytes);

/* The length of a text without the character at its end that lacks its last bytes (1 to 3 bytes of UTF-8): what can be
 * shown while more is to come. Bytes that are no UTF-8 count as whole. */
GP_API size_t gp_text_whole(const char *text, size_t bytes);

/* --- Token files: text encoded once, for many runs. --- */

/* What a document is: a file; a line that is not blank; a run of such lines; a line of JSON whose text stands in a
 * field. */
typedef enum gp_documents { GP_DOCUMENT_FILE, GP_DOCUMENT_LINE, GP_DOCUMENT_PARAGRAPH, GP_DOCUMENT_JSON } gp_documents;

/* Ids of two bytes, or four when the vocabulary is larger than 65536, little-endian: behind a header as llm.c writes it
 * (dev/data/data_common.py: magic number 20240520, version 1; with four bytes 20240801, version 7; the number of
 * tokens; gpipe adds the vocabulary), or without one, as nanoGPT has them. */
typedef enum gp_token_format { GP_TOKENS_LLMC, GP_TOKENS_RAW } gp_token_format;

typedef struct gp_tokenize_options {
    size_t size; /* sizeof, or 0 */
    const gp_tokenizer *tokenizer;
    const char *const *inputs; /* paths or patterns, in their order; "-" is the standard input */
    size_t input_count;
    const char *output; /* "name.bin"; when there is more than one file: name_000000.bin, name_000001.bin and so on */
    gp_token_format format;
    int64_t file_tokens; /* tokens of a file at most; 0: as many as the format counts (2147483647 with a header) */
    gp_documents documents;
    const char *field;       /* of JSON; NULL: "text" */
    const char *end_of_text; /* the token that follows every document; NULL: none */
    bool plain;              /* tokens such as "<|endoftext|>" in the text are text and not tokens */
    bool replace;            /* output that is there is replaced; else it is refused */
    int threads;             /* that encode; 0: as many as there are cores. The ids are the same for any number */
    /* Called now and then by the calling thread with the bytes of text that are done and those that are known; 0 when
     * the standard input is read. False ends the work. NULL: not called. */
    bool (*progress)(void *user, uint64_t done, uint64_t bytes);
    void *user;
} gp_tokenize_options;

typedef struct gp_tokenize_result {
    size_t size; /* sizeof, or 0: set it before the call */
    int64_t tokens, documents;
    uint64_t bytes;    /* of text */
    uint64_t replaced; /* places that were not UTF-8 and count as U+FFFD (bpe, wordpiece) */
    int id_bytes;
    char **files; /* names, in order */
    size_t file_count;
} gp_tokenize_result;

/* Encodes text into token files. The text is mapped, not loaded; memory is a few MiB for each thread. Files are
 * complete under their names or not there. Errors: GP_INVALID for what is missing, no text, a token that the vocabulary
 * lacks, text that the vocabulary cannot express, an option out of range, output that is there; GP_INTERRUPTED when
 * `progress` ended the work; GP_IO; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_tokenize(const gp_tokenize_options *options, gp_tokenize_result *result);
/* Frees what the result holds; accepts a zeroed struct. */
GP_API void gp_tokenize_result_free(gp_tokenize_result *result);

/* --- Datasets. --- */

typedef struct gp_dataset gp_dataset;

typedef enum gp_split { GP_SPLIT_TRAIN, GP_SPLIT_VALIDATION } gp_split;

/* How samples are chosen: windows from anywhere in the split by counted random numbers, or one window after the other,
 * starting over at the end. */
typedef enum gp_sampling { GP_SAMPLING_RANDOM, GP_SAMPLING_SEQUENTIAL } gp_sampling;

/* A target that the loss ignores. */
enum { GP_IGNORED_TARGET = -1 };

typedef struct gp_text_options {
    size_t size;      /* sizeof, or 0 */
    const char *text; /* a path, or a glob pattern whose files are sorted by name and joined */
    gp_tokenizer_kind tokenizer_kind;
    const gp_tokenizer *tokenizer; /* if not NULL, it is used and the kind ignored; must outlive the dataset */
    double validation;             /* share of the tokens, from the end, that is kept for validation: 0 <= share < 1 */
    int64_t context;               /* tokens of a window */
    gp_sampling sampling;
    int64_t batch; /* samples of a mini-batch: only sequential sampling needs it */
} gp_text_options;

/* A dataset for language models: a sample is a window of `context` tokens, its target the same window one token later.
 *
 * The files are mapped, not loaded, so a corpus may be larger than memory. Bytes, and characters of a corpus that is
 * all ASCII, are looked up in the map itself; for any other corpus the ids are written once (bpe and wordpiece: by all
 * cores, each file a text of its own) to an unnamed temporary file in $TMPDIR, or /var/tmp (2 bytes a token, or 4),
 * which is mapped in turn. The first floor(tokens * (1 -
 * validation)) tokens are for training, the others for validation.
 *
 * Errors: GP_INVALID with a sentence for a missing file, a pattern without a match, an empty corpus, a binary file (NUL
 * bytes; the byte tokenizer looks at the first MiB of each file), invalid UTF-8 or a character unknown to the given
 * tokenizer (with file and offset), a training split shorter than a window, a validation split without a target, an
 * option out of range; GP_IO; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_text(gp_dataset **dataset, const gp_text_options *options);
/* Random samples, to plan and to measure with: f32 elements have mean 0 and variance 1, i32 ones are 0 to a number - 1.
 */
typedef struct gp_random_options {
    size_t size;          /* sizeof, or 0 */
    gp_type input;        /* of one sample, f32 or i32 */
    gp_type target;       /* the same of its target */
    int32_t input_below;  /* of i32 inputs: what no element reaches; 1 or more */
    int32_t target_below; /* the same of i32 targets */
} gp_random_options;

/* A dataset of random samples without end and without a validation split; a sample is the same whenever it is asked
 * for. Errors: GP_INVALID for an option out of range; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_random(gp_dataset **dataset, const gp_random_options *options);
GP_API void gp_dataset_destroy(gp_dataset *dataset);

typedef struct gp_token_options {
    size_t size;                   /* sizeof, or 0 */
    const char *tokens;            /* a path, or a glob pattern whose files are sorted by name and joined */
    const char *validation_tokens; /* files of their own for validation; NULL: a share of the others */
    double validation;             /* share of the tokens, from the end, that is kept for validation: 0 <= share < 1 */
    const gp_tokenizer *tokenizer; /* that made them; must outlive the dataset; NULL: none is known */
    int32_t vocabulary; /* ids must be below; 0: the tokenizer's number of tokens, else what the files' headers say */
    int id_bytes;       /* of files without header: 2 or 4; 0: 2 when the vocabulary is at most 65536 */
    int64_t context;    /* tokens of a window */
    gp_sampling sampling;
    int64_t batch; /* samples of a mini-batch: only sequential sampling needs it */
} gp_token_options;

/* The same dataset from token files: those of gp_tokenize and of llm.c, which have a header, and bare ids as nanoGPT
 * writes them (named *.bin). They are mapped. Headers and lengths are checked, and the ids of the first GiB; all others
 * are checked when they are read, so that no id outside the vocabulary gets out.
 *
 * Errors: GP_INVALID with a sentence for a missing file, a pattern without a match, a wrong magic number or version, a
 * file that was cut off, an id outside the vocabulary (with file and place), a vocabulary that is not known, splits and
 * options as above; GP_IO; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_tokens(gp_dataset **dataset, const gp_token_options *options);

/* Tokens with a meaning of their own, as BERT has them: what a sample begins with, what ends each part of it, and what
 * hides a token. Of a tokenizer that knows [CLS], [SEP] and [MASK], those; of any other, numbers right behind its
 * vocabulary, which a model then has to have too. */
typedef struct gp_special_tokens {
    int32_t begin, end, mask;
    int32_t vocabulary; /* ids are 0 to this number - 1, these three included */
} gp_special_tokens;
GP_API gp_special_tokens gp_tokenizer_special(const gp_tokenizer *tokenizer);

/* A dataset for masked language models (Devlin et al., arXiv 1810.04805) over the text of `options`, whose context is
 * at least 3: a sample is i32[3, context], the tokens ([CLS], a window of context - 2 tokens, [SEP]), their types (0)
 * and a mask that is 0 where there is padding; its target i32[context] has the token wherever the model has to guess,
 * and GP_IGNORED_TARGET everywhere else. Each token of the window is to be guessed with probability `share` (at least
 * one of a window is); the sample then has [MASK] in its place with probability 80%, any token of the vocabulary with
 * 10%, and the token itself with 10%. All by counted random numbers: the same for any number of workers; evaluation
 * always hides the same. Errors: as gp_dataset_create_text; GP_INVALID for a share that is not above 0 and at most 1.
 */
GP_API gp_status gp_dataset_create_masked(gp_dataset **dataset, const gp_text_options *options, double share);

typedef struct gp_masked_options {
    size_t size;  /* sizeof, or 0 */
    double share; /* of the tokens that are to be guessed; 0: 0.15 */
    /* Two parts instead of one window: [CLS], the first, [SEP], the second (of type 1), [SEP]. In half of the samples
     * the second is what follows, in the others it is from elsewhere in the split. The target is i32[context + 1]; the
     * last one is 0 when the second part follows and 1 when not (as transformers has it). */
    bool pairs;
} gp_masked_options;

/* The same over windows of a text or token dataset, which it takes over, also when it fails. Samples have 2 tokens more
 * than a window, with pairs 3. A dataset without a tokenizer gets its special tokens behind its vocabulary. `options`
 * may be NULL. Errors: GP_INVALID, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_masked_windows(gp_dataset **dataset, gp_dataset *windows,
                                                  const gp_masked_options *options);

struct gp_classes; /* gpipe/images.h */

typedef struct gp_examples_options {
    size_t size; /* sizeof, or 0 */
    /* A path or a glob pattern. *.tsv: columns with tabs between, named by the first line (GLUE's way), or without such
     * a line text and label, or text, pair and label. *.jsonl: an object on each line. */
    const char *examples;
    const char *validation_examples; /* the validation split: other files of that kind; or */
    double validation;               /* a share of the examples, the same share of every class: 0 <= share < 1 */
    /* Names of columns or keys; NULL: "text", "sentence" or "sentence1"; "pair", "text_pair" or "sentence2" where there
     * is one; "label" or "class". */
    const char *text_field, *pair_field, *label_field;
    const gp_tokenizer *tokenizer;    /* required; must outlive the dataset */
    const struct gp_classes *classes; /* the list of a run, which the labels must be among; NULL: the labels' */
    int64_t context;      /* tokens of a sample, 4 or more; longer texts are cut off, the longer of a pair first */
    bool plain;           /* samples are i32[context], the tokens alone, 0 behind them */
    gp_sampling sampling; /* random: a new order every epoch; sequential: as they stand in the files */
    int64_t batch;        /* samples of a mini-batch */
} gp_examples_options;

/* A dataset for classifiers of text: a sample is i32[3, context], the tokens ([CLS] text [SEP], with a pair another
 * text and [SEP]), their types (1 for the pair) and a mask that is 0 where there is padding; its target i32[] is the
 * class. Classes are the labels in order, as numbers when all are numbers. Every epoch has every example once. Texts
 * are encoded when their sample is asked for. Errors: GP_INVALID with file and line for what cannot be read, with a
 * sentence for files without examples, of one class only, for labels that are not among `classes`; GP_IO;
 * GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_examples(gp_dataset **dataset, const gp_examples_options *options);

/* The dataset's tokenizer, owned by it unless it was given; NULL for data without one. */
GP_API const gp_tokenizer *gp_dataset_tokenizer(const gp_dataset *dataset);
/* Of text and tokens: ids are 0 to this number - 1. 0 for other data. */
GP_API int32_t gp_dataset_vocabulary(const gp_dataset *dataset);

/* Types of one sample, without the leading dimension of the batch: i32[context] and i32[context] for text. */
GP_API gp_type gp_dataset_input_type(const gp_dataset *dataset);
GP_API gp_type gp_dataset_target_type(const gp_dataset *dataset);
/* Whether every target comes with a weight, f32 in the shape of the targets. */
GP_API bool gp_dataset_weighted(const gp_dataset *dataset);

/* What the targets are, counted: "tokens", "images". */
GP_API const char *gp_dataset_unit(const gp_dataset *dataset);
/* How many of them are in a split. */
GP_API int64_t gp_dataset_count(const gp_dataset *dataset, gp_split split);

/* A mini-batch in host memory, the batch first; weights: no memory when there are none. */
typedef struct gp_batch {
    gp_tensor inputs, targets, weights;
} gp_batch;

/* Memory for `samples` samples of a dataset. Errors: GP_INVALID, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_batch_create(gp_batch *batch, const gp_dataset *dataset, int64_t samples);
GP_API void gp_batch_destroy(gp_batch *batch); /* accepts a zeroed struct */
/* Says that the first `samples` of those that the batch was created for are there. */
GP_API void gp_batch_resize(gp_batch *batch, int64_t samples);

/* Writes samples `first_sample` to `first_sample + count` (numbered within the mini-batch) of step `step` into a batch
 * of `count`. Inputs without memory are not wanted and not made; targets and weights likewise, both or neither. A pure
 * function of its arguments: thread-safe. For text, ids are below the vocabulary and no target is ignored.
 * Errors: GP_INVALID when a tensor has another type, the split has no sample, a file of the data cannot be understood;
 * GP_IO, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_sample(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step,
                                   int64_t first_sample, int64_t count, gp_batch *batch);

/* For evaluation: the number of windows. For text: windows without overlap, in which every token of the split but the
 * first is a target exactly once. For images: one each. */
GP_API int64_t gp_dataset_windows(const gp_dataset *dataset, gp_split split);

/* Writes windows `first` to `first + count` into a batch of `count`, without augmentation. Past the end of the split
 * (the rest of the last window, and whole windows beyond it) inputs are 0 and targets GP_IGNORED_TARGET, so that any
 * batch can be filled and the loss over a split is that of its targets. Thread-safe; errors as gp_dataset_sample. */
GP_API gp_status gp_dataset_window(const gp_dataset *dataset, gp_split split, int64_t first, int64_t count,
                                   gp_batch *batch);

/* --- Loaders: mini-batches in their order, made ahead by threads of their own. --- */

typedef struct gp_loader gp_loader;

typedef struct gp_loader_options {
    size_t size; /* sizeof, or 0 */
    gp_split split;
    bool evaluation; /* windows (gp_dataset_window) instead of samples */
    uint64_t seed;
    int64_t first, count;               /* steps; or windows, where a count of 0 is all of them */
    int64_t samples;                    /* of a mini-batch; the last one of an evaluation has what is left */
    bool no_inputs, no_targets;         /* not made: for processes that have no use for them */
    int64_t inputs_first, inputs_count; /* samples of a mini-batch whose inputs are needed, others may be made or not;
                                           a count of 0: all */
    int threads; /* 0: what the dataset was created with, else, for data that take long to make (images), as many as
                    there are cores, for others none: then gp_loader_next makes them */
    int ahead;   /* mini-batches made before they are asked for; 0: 2 */
} gp_loader_options;

/* Starts making. The dataset outlives the loader. Batches are the same whatever `threads` and `ahead` are. Errors:
 * GP_INVALID, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_loader_create(gp_loader **loader, const gp_dataset *dataset, const gp_loader_options *options);
GP_API void gp_loader_destroy(gp_loader *loader); /* accepts NULL */

/* The next mini-batch, which is the loader's and stays until the next call; NULL behind the last one. Called by one
 * thread at a time. Errors: those of gp_dataset_sample, of the batch's first sample that failed. */
GP_API gp_status gp_loader_next(gp_loader *loader, gp_batch **batch);
/* Seconds that gp_loader_next waited (or made batches itself) so far. */
GP_API double gp_loader_waited(const gp_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
