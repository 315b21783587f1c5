/* The table of functions behind gp_dataset: one implementation for each kind of data. */
#ifndef GP_DATA_DATASET_H
#define GP_DATA_DATASET_H

#include "gpipe/images.h"

/* Which samples are wanted, all of one split. Evaluation has no steps and nothing random: samples are windows. */
typedef struct gp_request {
    gp_split split;
    bool evaluation;
    uint64_t seed;
    int64_t step;         /* of training */
    int64_t first, count; /* within the mini-batch of the step; windows when evaluating */
} gp_request;

/* All but `destroy` are called from any number of threads at once and give the same answer to all, whatever was asked
 * before: a sample is a pure function of the request and its number. */
typedef struct gp_dataset_class {
    const char *name; /* for instance "text" */
    const char *unit; /* what gp_dataset_count counts, plural */
    /* Whether a sample takes long enough (decoding) for threads of its own. */
    bool slow;

    /* Required. Frees the dataset, also a half-built one. */
    void (*destroy)(gp_dataset *dataset);

    /* Required. Of a split; 0 when there is no such split. */
    int64_t (*count)(const gp_dataset *dataset, gp_split split);

    /* Required. For evaluation; 0 when there is no such split. */
    int64_t (*windows)(const gp_dataset *dataset, gp_split split);

    /* Required. Writes the samples; what has no memory in the batch is not wanted. Types and signs are checked already;
     * `count` may be 0. Keeps nothing of the batch. Errors: those of gp_dataset_sample. */
    gp_status (*read)(const gp_dataset *dataset, const gp_request *request, gp_batch *batch);
} gp_dataset_class;

/* What every dataset starts with. */
struct gp_dataset {
    const gp_dataset_class *table;
    gp_type input_type;
    gp_type target_type;
    bool weighted;
    const gp_tokenizer *tokenizer; /* NULL: none */
    const gp_classes *classes;     /* NULL: none */
    int threads;                   /* of a loader that is not told how many; 0: by `slow` */
    int32_t vocabulary;            /* of text: ids are below; else 0 */
    bool mirrored;                 /* evaluations judge the mirror images of images too (gp_images_view) */
    int64_t shift;                 /* and images moved by so many pixels; 0: they do not */
};

/* gp_batch_create with memory for a part only; all types are set. */
gp_status gp_batch_create_part(gp_batch *batch, const gp_dataset *dataset, int64_t samples, bool inputs, bool targets);

/* The public functions gp_dataset_sample and gp_dataset_window in one. */
gp_status gp_dataset_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch);

/* As how many views evaluations judge a sample; view 0 is the sample itself. */
int gp_dataset_views(const gp_dataset *dataset);
/* Another view of images f32[samples, height, width, channels], into memory as large as theirs; without memory nothing
 * happens but for the type. */
void gp_images_view(const gp_dataset *dataset, int view, const gp_tensor *images, gp_tensor *made);

#endif
