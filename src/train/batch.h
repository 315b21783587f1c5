/* A mini-batch of a data set in host memory. */
#ifndef GP_TRAIN_BATCH_H
#define GP_TRAIN_BATCH_H

#include "gpipe/data.h"
#include "pipeline/engine.h"

gp_status gp_batch_create(gp_batch *batch, const gp_dataset *dataset, int64_t samples);
void gp_batch_destroy(gp_batch *batch);

#endif
