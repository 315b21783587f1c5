/* Texts with labels as a dataset. The files stay mapped and a text is encoded when its sample is asked for: what is in
 * memory is a place and a class for each example. */
#include "data/examples.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/order.h"
#include "data/tokenizer.h"

enum { ROWS = 3 };

/* Where an example lies. */
typedef struct place {
    uint64_t at; /* byte of the corpus */
    int32_t label;
} place;

/* The files of a split, or of both. */
typedef struct source {
    gp_corpus corpus;
    gp_example_format *formats; /* by file */
    place *places;
    size_t count, capacity;
} source;

typedef struct examples_dataset {
    gp_dataset dataset;
    source sources[2]; /* the second: validation examples of their own */
    const place *split[2];
    size_t counts[2];
    place *divided; /* the first source in two parts */
    gp_classes *classes;
    gp_example_names names;
    char *texts[3]; /* that the names point to */
    gp_special_tokens special;
    int64_t context, batch;
    gp_sampling sampling;
    bool plain;
    uint64_t use; /* keeps these random numbers apart from others with the same seed */
} examples_dataset;

static const examples_dataset *examples_of(const gp_dataset *dataset) {
    return (const examples_dataset *)dataset;
}

static void examples_destroy(gp_dataset *dataset) {
    examples_dataset *e = (examples_dataset *)dataset;
    for (int s = 0; s < 2; s++) {
        gp_corpus_close(&e->sources[s].corpus);
        gp_free(e->sources[s].formats);
        gp_free(e->sources[s].places);
    }
    for (int i = 0; i < 3; i++)
        gp_free(e->texts[i]);
    gp_free(e->divided);
    gp_classes_destroy(e->classes);
    gp_free(e);
}

static int64_t examples_count(const gp_dataset *dataset, gp_split split) {
    return (int64_t)examples_of(dataset)->counts[split == GP_SPLIT_VALIDATION];
}

/* ---- samples ---- */

/* The source that a place belongs to. */
static const source *source_of(const examples_dataset *e, gp_split split) {
    return &e->sources[split == GP_SPLIT_VALIDATION && e->sources[1].count > 0];
}

/* Longest first: tokens are taken off the end of the longer text until both fit. */
static void truncate_pair(size_t room, size_t *first, size_t *second) {
    while (*first + *second > room) {
        if (*first >= *second) {
            (*first)--;
        } else {
            (*second)--;
        }
    }
}

static size_t put(int32_t *tokens, size_t at, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        tokens[at + i] = ids[i];
    return at + count;
}

/* [CLS] text [SEP] pair [SEP]: tokens, types, mask. */
static void write_rows(const examples_dataset *e, const gp_ids *ids, size_t first, bool paired, int32_t *rows) {
    size_t context = (size_t)e->context, second = ids->count - first;
    const int32_t *pair = ids->list + first;
    truncate_pair(context - 2 - paired, &first, &second);
    size_t at = 0;
    rows[at++] = e->special.begin;
    at = put(rows, at, ids->list, first);
    rows[at++] = e->special.end;
    size_t boundary = at;
    if (paired) {
        at = put(rows, at, pair, second);
        rows[at++] = e->special.end;
    }
    for (size_t i = 0; i < context; i++) {
        if (i >= at) rows[i] = 0;
        rows[context + i] = i >= boundary && i < at;
        rows[2 * context + i] = i < at;
    }
}

/* The texts' tokens alone, one text behind the other. */
static void write_plain(const examples_dataset *e, const gp_ids *ids, int32_t *row) {
    for (size_t i = 0; i < (size_t)e->context; i++)
        row[i] = i < ids->count ? ids->list[i] : 0;
}

static gp_status encode_line(const examples_dataset *e, const source *from, const place *example, gp_encoding *encoding,
                             size_t *first, bool *paired) {
    const gp_corpus_file *file = gp_corpus_file_at(&from->corpus, example->at);
    size_t at = (size_t)(example->at - file->begin), next;
    gp_example parsed;
    const gp_example_format *format = &from->formats[file - from->corpus.files];
    gp_status status = gp_example_parse(&parsed, format, &e->names, gp_example_line(file, at, &next));
    encoding->ids.count = 0;
    if (status == GP_OK) status = gp_encoding_add(encoding, e->dataset.tokenizer, parsed.text.text, parsed.text.bytes);
    *first = encoding->ids.count;
    *paired = parsed.pair.text != NULL;
    if (status == GP_OK && *paired)
        status = gp_encoding_add(encoding, e->dataset.tokenizer, parsed.pair.text, parsed.pair.bytes);
    gp_example_release(&parsed);
    return gp_example_within(status, file, at);
}

/* Which example of its split a sample is; -1: past the end of the evaluation. */
static int64_t number_of(const examples_dataset *e, const gp_request *request, int64_t sample, size_t count) {
    if (request->evaluation) return sample < (int64_t)count ? sample : -1;
    uint64_t number = (uint64_t)request->step * (uint64_t)e->batch + (uint64_t)sample;
    uint64_t epoch = number / count, at = number % count;
    if (e->sampling == GP_SAMPLING_SEQUENTIAL) return (int64_t)at;
    return (int64_t)gp_order_at(count, 0, request->seed ^ e->use, epoch, at);
}

static gp_status write_sample(const examples_dataset *e, const gp_request *request, int64_t number,
                              gp_encoding *encoding, int32_t *tokens, int32_t *target) {
    size_t width = (size_t)e->context * (e->plain ? 1 : ROWS), first = 0;
    bool paired = false;
    if (target) *target = GP_IGNORED_TARGET;
    if (tokens) memset(tokens, 0, width * sizeof *tokens);
    if (number < 0) return GP_OK;
    const place *example = &e->split[request->split == GP_SPLIT_VALIDATION][number];
    if (target) *target = example->label;
    if (!tokens) return GP_OK;
    GP_TRY(encode_line(e, source_of(e, request->split), example, encoding, &first, &paired));
    if (e->plain) {
        write_plain(e, &encoding->ids, tokens);
    } else {
        write_rows(e, &encoding->ids, first, paired, tokens);
    }
    return GP_OK;
}

static gp_status examples_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const examples_dataset *e = examples_of(dataset);
    size_t count = e->counts[request->split == GP_SPLIT_VALIDATION];
    int64_t width = e->context * (e->plain ? 1 : ROWS);
    gp_encoding encoding = {0};
    gp_status status = GP_OK;
    if (count == 0 && !request->evaluation) return gp_error(GP_INVALID, "there are no examples to learn from");
    for (int64_t i = 0; i < request->count && status == GP_OK; i++) {
        int32_t *tokens = batch->inputs.data ? (int32_t *)batch->inputs.data + i * width : NULL;
        int32_t *target = batch->targets.data ? (int32_t *)batch->targets.data + i : NULL;
        status = write_sample(e, request, number_of(e, request, request->first + i, count), &encoding, tokens, target);
    }
    gp_encoding_free(&encoding);
    return status;
}

static const gp_dataset_class examples_class = {
    .name = "examples",
    .unit = "examples",
    .destroy = examples_destroy,
    .count = examples_count,
    .windows = examples_count,
    .read = examples_read,
};

/* ---- opening ---- */

static gp_status add_place(source *from, uint64_t at, int32_t label) {
    if (from->count == from->capacity) {
        size_t capacity = 2 * from->capacity + 1024;
        place *grown = gp_grow_array(from->places, from->capacity, capacity, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        from->places = grown;
        from->capacity = capacity;
    }
    from->places[from->count++] = (place){at, label};
    return GP_OK;
}

/* Texts of characters are encoded once for a test: the other kinds take any text. */
static gp_status check_text(const examples_dataset *e, const gp_example *example) {
    size_t count;
    if (gp_tokenizer_kind_of(e->dataset.tokenizer) != GP_TOKENIZER_CHAR) return GP_OK;
    GP_TRY(gp_tokenizer_encode(e->dataset.tokenizer, example->text.text, example->text.bytes, NULL, 0, &count));
    if (!example->pair.text) return GP_OK;
    return gp_tokenizer_encode(e->dataset.tokenizer, example->pair.text, example->pair.bytes, NULL, 0, &count);
}

static gp_status scan_line(const examples_dataset *e, source *from, const gp_corpus_file *file, size_t at, gp_span line,
                           gp_labels *labels) {
    gp_example example;
    int32_t label = 0;
    const gp_example_format *format = &from->formats[file - from->corpus.files];
    gp_status status = gp_example_parse(&example, format, &e->names, line);
    if (status == GP_OK) status = gp_labels_number(labels, example.label.text, example.label.bytes, &label);
    if (status == GP_OK) status = check_text(e, &example);
    if (status == GP_OK) status = add_place(from, file->begin + at, label);
    gp_example_release(&example);
    return gp_example_within(status, file, at);
}

static bool is_blank(gp_span line) {
    for (size_t i = 0; i < line.bytes; i++) {
        if (line.text[i] != ' ' && line.text[i] != '\t') return false;
    }
    return true;
}

static gp_status scan(const examples_dataset *e, source *from, const char *pattern, gp_labels *labels) {
    GP_TRY(gp_corpus_open(&from->corpus, pattern));
    GP_TRY(gp_corpus_check_text(&from->corpus));
    from->formats = gp_allocate_array(from->corpus.count, sizeof *from->formats);
    if (!from->formats) return GP_OUT_OF_MEMORY;
    for (size_t f = 0; f < from->corpus.count; f++) {
        const gp_corpus_file *file = &from->corpus.files[f];
        GP_TRY(gp_example_format_find(&from->formats[f], file, &e->names));
        bool header = from->formats[f].header;
        for (size_t at = 0, next; at < file->map.bytes; at = next) {
            gp_span line = gp_example_line(file, at, &next);
            bool skipped = is_blank(line) || (header && at == 0);
            if (!skipped) GP_TRY(scan_line(e, from, file, at, line, labels));
        }
    }
    if (from->count > 0) return GP_OK;
    return gp_error(GP_INVALID, "'%s' has no examples", pattern);
}

/* The same share of every class, spread evenly: always the same examples. */
static gp_status divide(examples_dataset *e, double share) {
    const source *from = &e->sources[0];
    size_t classes = gp_classes_count(e->classes), at = 0;
    size_t *seen = gp_allocate_array(classes, sizeof *seen);
    e->divided = gp_allocate_array(from->count, sizeof *e->divided);
    if (!seen || !e->divided) {
        gp_free(seen);
        return GP_OUT_OF_MEMORY;
    }
    for (int part = 0; part < 2; part++) {
        memset(seen, 0, classes * sizeof *seen);
        e->split[part] = e->divided + at;
        for (size_t i = 0; i < from->count; i++) {
            double before = (double)seen[from->places[i].label]++ * share;
            bool validation = (size_t)(before + share) > (size_t)before;
            if (validation == (part == 1)) e->divided[at++] = from->places[i];
        }
        e->counts[part] = at - (part == 1 ? e->counts[0] : 0);
    }
    gp_free(seen);
    return GP_OK;
}

static gp_status settle(examples_dataset *e, const gp_examples_options *options, gp_labels *labels) {
    GP_TRY(gp_labels_classes(labels, &e->classes));
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < e->sources[s].count; i++)
            e->sources[s].places[i].label = gp_labels_class(labels, e->sources[s].places[i].label);
    }
    if (gp_classes_count(e->classes) < 2)
        return gp_error(GP_INVALID, "'%s' has the label '%s' alone: at least two classes are needed", options->examples,
                        gp_classes_name(e->classes, 0));
    if (options->validation > 0) {
        GP_TRY(divide(e, options->validation));
        if (e->counts[1] == 0)
            return gp_error(GP_INVALID, "the %zu examples of '%s' are too few: a validation share of %g leaves none",
                            e->sources[0].count, options->examples, options->validation);
        return GP_OK;
    }
    for (int s = 0; s < 2; s++) {
        e->split[s] = e->sources[s].places;
        e->counts[s] = e->sources[s].count;
    }
    return GP_OK;
}

static gp_status open_files(examples_dataset *e, const gp_examples_options *options) {
    gp_labels labels;
    GP_TRY(gp_labels_create(&labels, options->classes));
    gp_status status = scan(e, &e->sources[0], options->examples, &labels);
    if (status == GP_OK && options->validation_examples)
        status = scan(e, &e->sources[1], options->validation_examples, &labels);
    if (status == GP_OK) status = settle(e, options, &labels);
    gp_labels_free(&labels);
    return status;
}

/* ---- options ---- */

static gp_status check_options(const gp_examples_options *options) {
    if (!options->examples || !options->tokenizer)
        return gp_error(GP_INVALID, "a dataset of examples needs a path and a tokenizer");
    if (!(options->validation >= 0 && options->validation < 1))
        return gp_error(GP_INVALID, "the validation share is %g: at least 0 and less than 1 is accepted",
                        options->validation);
    if (options->validation > 0 && options->validation_examples)
        return gp_error(GP_INVALID, "the validation examples are both a path and a share: one of them is accepted");
    if (options->context < 4 || options->context > INT32_MAX)
        return gp_error(GP_INVALID, "the context is %" PRId64 " tokens: 4 to %d are accepted", options->context,
                        INT32_MAX);
    if (options->sampling != GP_SAMPLING_RANDOM && options->sampling != GP_SAMPLING_SEQUENTIAL)
        return gp_error(GP_INVALID, "there is no sampling of kind %d", (int)options->sampling);
    if (options->batch < 1 || options->batch > UINT32_MAX)
        return gp_error(GP_INVALID, "the size of a mini-batch is needed: it is %" PRId64, options->batch);
    return GP_OK;
}

static gp_status copy_name(examples_dataset *e, int i, const char *name, const char **copy) {
    if (!name) return GP_OK;
    *copy = e->texts[i] = gp_copy_text(name);
    return *copy ? GP_OK : GP_OUT_OF_MEMORY;
}

static gp_status build(examples_dataset *e, const gp_examples_options *options) {
    GP_TRY(check_options(options));
    GP_TRY(copy_name(e, 0, options->text_field, &e->names.text));
    GP_TRY(copy_name(e, 1, options->pair_field, &e->names.pair));
    GP_TRY(copy_name(e, 2, options->label_field, &e->names.label));
    e->context = options->context;
    e->batch = options->batch;
    e->sampling = options->sampling;
    e->plain = options->plain;
    e->use = gp_hash_text("gpipe labelled examples");
    e->special = gp_tokenizer_special(options->tokenizer);
    gp_shape rows = gp_shape_of(2, (int64_t[]){ROWS, e->context}), row = gp_shape_of(1, &e->context);
    e->dataset.input_type = (gp_type){GP_I32, e->plain ? row : rows};
    e->dataset.target_type = (gp_type){GP_I32, {0}};
    e->dataset.tokenizer = options->tokenizer;
    e->dataset.vocabulary = e->plain ? gp_tokenizer_vocabulary(options->tokenizer) : e->special.vocabulary;
    GP_TRY(open_files(e, options));
    e->dataset.classes = e->classes;
    return GP_OK;
}

gp_status gp_dataset_create_examples(gp_dataset **dataset, const gp_examples_options *options) {
    gp_examples_options known;
    *dataset = NULL;
    if (!options) return gp_error(GP_INVALID, "a dataset of examples needs options: at least a path and a tokenizer");
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_examples_options"));
    examples_dataset *e = gp_allocate(sizeof *e);
    if (!e) return GP_OUT_OF_MEMORY;
    e->dataset.table = &examples_class;
    gp_status status = build(e, &known);
    if (status != GP_OK) {
        gp_dataset_destroy(&e->dataset);
        return status;
    }
    *dataset = &e->dataset;
    return GP_OK;
}
