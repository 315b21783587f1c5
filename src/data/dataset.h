/* The table of functions behind gp_dataset: text now, images beside it later. */
#ifndef GP_DATA_DATASET_H
#define GP_DATA_DATASET_H

#include "gpipe/data.h"

/* All but `destroy` are called from any number of threads at once, allocate nothing and keep nothing. */
typedef struct gp_dataset_class {
    const char *name;

    /* Frees the dataset, also a half-built one. */
    void (*destroy)(gp_dataset *dataset);

    /* Tokens (or whatever is counted) in a split. */
    int64_t (*tokens)(const gp_dataset *dataset, gp_split split);

    /* As gp_dataset_sample; types and signs are checked already. */
    gp_status (*sample)(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step, int64_t first_sample,
                        int64_t count, gp_tensor *inputs, gp_tensor *targets);

    /* As gp_dataset_windows. */
    int64_t (*windows)(const gp_dataset *dataset, gp_split split);

    /* As gp_dataset_window; types and signs are checked already. */
    gp_status (*window)(const gp_dataset *dataset, gp_split split, int64_t first, int64_t count, gp_tensor *inputs,
                        gp_tensor *targets);
} gp_dataset_class;

/* What every dataset starts with. */
struct gp_dataset {
    const gp_dataset_class *table;
    gp_type input_type;
    gp_type target_type;
    const gp_tokenizer *tokenizer; /* NULL: none */
};

#endif
