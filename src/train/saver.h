/* Checkpoints of a run: when one is written, what becomes of it, which are kept. */
#ifndef GP_TRAIN_SAVER_H
#define GP_TRAIN_SAVER_H

#include "gpipe/checkpoint.h"
#include "gpipe/train.h"

typedef struct gp_saver gp_saver;

typedef struct gp_saver_options {
    const char *checkpoints; /* folder; copied */
    int64_t keep;            /* newest ones; 0: all */
    int64_t keep_every;      /* steps that this number divides stay; 0: none */
    bool best;               /* the best stays, and has a link */
    bool background;         /* those on the way are written while training goes on, if there is memory for the copy */
    uint64_t shard_bytes;    /* 0: no limit */
    int metrics;             /* descriptor that is flushed first; -1: none */
} gp_saver_options;

gp_status gp_saver_create(gp_saver **saver, gp_trainer *trainer, const gp_saver_options *options);
/* Gives up what is being written. Accepts NULL. */
void gp_saver_destroy(gp_saver *saver);

/* Saves the state of the trainer. On the way (`last` false) it returns as soon as training may go on, and a failure is
 * a loud warning, no error. `last` waits, and failing is an error (GP_IO). */
gp_status gp_saver_save(gp_saver *saver, const gp_checkpoint_state *state, bool last);
/* Sees whether a save on the way has ended; `wait`: until it has. Errors: the engine's. */
gp_status gp_saver_poll(gp_saver *saver, bool wait);

#endif
