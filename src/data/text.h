/* The dataset of language models: made in text_create.c, read in text.c. */
#ifndef GP_DATA_TEXT_H
#define GP_DATA_TEXT_H

#include "data/dataset.h"
#include "data/tokens.h"

typedef struct gp_text_dataset {
    gp_dataset dataset;
    gp_corpus corpus;            /* empty when the tokens are files */
    gp_tokenizer *own_tokenizer; /* NULL when one was given, or there is none */
    gp_tokens tokens;            /* for training, and behind them those for validation */
    gp_tokens held;              /* for validation, where they are files of their own */
    bool held_apart;
    int64_t train_tokens;
    int64_t context;
    gp_sampling sampling;
    int64_t batch;
    uint64_t use; /* keeps these random numbers apart from dropout's, which have the same seed */
} gp_text_dataset;

extern const gp_dataset_class gp_text_class;

#endif
