/* The trainer's state in checkpoints. */
#ifndef GP_TRAIN_RESUME_H
#define GP_TRAIN_RESUME_H

#include "gpipe/checkpoint.h"
#include "gpipe/train.h"

/* What a checkpoint of now says of itself. The data's counts and the configuration are the caller's to fill in. */
gp_checkpoint_state gp_trainer_state(const gp_trainer *trainer);

#endif
