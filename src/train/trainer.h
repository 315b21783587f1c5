/* The trainer's own data, shared by the files of this room. */
#ifndef GP_TRAIN_TRAINER_H
#define GP_TRAIN_TRAINER_H

#include "gpipe/train.h"
#include "train/optimizer.h"
#include "train/plan.h"
#include "train/traffic.h"

/* What became of the checkpoints of a run, for the report. */
typedef struct gp_save_counts {
    int64_t written, failed;
    double pause;   /* seconds in which training waited */
    double seconds; /* from the beginning of each to its end */
    uint64_t bytes; /* of the last one */
} gp_save_counts;

struct gp_trainer {
    const gp_model *model;
    gp_layout layout;
    gp_engine *engine;
    gp_plan *plan;
    gp_optimizer_options optimizer;
    bool inference;
    int64_t steps;   /* planned length of training */
    int64_t step;    /* made so far, skipped updates included */
    int64_t updates; /* made so far: what bias corrections count */
    int64_t samples; /* seen so far */
    /* of runs; with a checkpoint they go on */
    double best;       /* validation loss so far; infinite: none */
    int64_t best_step; /* -1: none */
    bool evaluation_pending;
    int64_t training_count, validation_count; /* of the data of the checkpoint that was resumed; -1: none was */
    uint64_t configuration;                   /* the same; 0: not known */
    gp_save_counts saves;
    gp_evaluation_watch watch;
    /* sums over the steps but the first (which warms caches and page tables) */
    int64_t measured_steps;
    gp_worker_report *sums;
    double bubble_sum, seconds_sum;
    gp_traffic traffic;
    char fault[256];
};

/* A worker as tables name it: by its stage, and by its replica where there are several. */
const char *gp_worker_name(const gp_plan *plan, size_t worker, char text[32]);

/* Whether this process, the one with worker 0, writes what the workers do not write themselves. */
bool gp_trainer_writes(const gp_trainer *trainer);

#endif
