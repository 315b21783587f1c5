/* The trainer's own data, shared by the files of this room. */
#ifndef GP_TRAIN_TRAINER_H
#define GP_TRAIN_TRAINER_H

#include "gpipe/train.h"
#include "train/optimizer.h"
#include "train/plan.h"

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
    /* sums over the steps but the first (which warms caches and page tables) */
    int64_t measured_steps;
    gp_worker_report *sums;
    double bubble_sum, seconds_sum;
    char fault[256];
};

#endif
