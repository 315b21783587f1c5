/* Inside the library: a checkpoint opened for reading, and the folder in which a run keeps its checkpoints. */
#ifndef GP_CHECKPOINT_CHECKPOINT_H
#define GP_CHECKPOINT_CHECKPOINT_H

#include "checkpoint/files.h"
#include "gpipe/checkpoint.h"

/* ---- one checkpoint ---- */

typedef struct gp_checkpoint gp_checkpoint;

/* Opens a folder step-N: reads its state, checks that every file of it is there with its size and its header. Tensors
 * are mapped, not read. Errors: GP_INVALID naming what is missing or damaged. */
gp_status gp_checkpoint_open(gp_checkpoint **checkpoint, const char *folder);
void gp_checkpoint_close(gp_checkpoint *checkpoint); /* accepts NULL */
const gp_checkpoint_state *gp_checkpoint_state_of(const gp_checkpoint *checkpoint);

/* A tensor of a group, read with gp_shards_read. Errors: GP_INVALID naming file and tensor when it is not there. Any
 * thread. */
gp_status gp_checkpoint_tensor(const gp_checkpoint *checkpoint, const char *group, const char *name,
                               const gp_shards **shards, size_t *index);
/* Compares bytes of a tensor with their checksum (and with those of the pieces that they lie in). Errors: GP_INVALID
 * naming file and tensor. Any thread. */
gp_status gp_checkpoint_check(const gp_checkpoint *checkpoint, const gp_shards *shards, size_t index, uint64_t first,
                              uint64_t bytes);

/* ---- the folder of checkpoints ---- */

/* Links to the newest one and to the best. */
#define GP_CATALOG_LATEST "latest"
#define GP_CATALOG_BEST   "best"

/* Makes the folder; one that is there already is fine. Errors: GP_IO; GP_INVALID when something that is no link has the
 * name of one. */
gp_status gp_catalog_create(const char *checkpoints);

/* Steps of the folders step-N in it, newest first, whatever is in them; none where there is no such folder. Freed with
 * gp_free. Errors: GP_IO when it cannot be read. */
gp_status gp_catalog_list(const char *checkpoints, int64_t **steps, size_t *count);
/* A folder in which a checkpoint can be written, `.step-N.new`, empty, with room for `bytes`; what others left
 * unfinished goes. `folder` is freed with gp_free. Errors: GP_IO, also when the disk has no room. */
gp_status gp_catalog_begin(const char *checkpoints, int64_t step, uint64_t bytes, char **folder);
/* Gives the written folder its name step-N: all of it is on the disk before. A folder that has the name already is
 * replaced in one step. Errors: GP_IO. */
gp_status gp_catalog_commit(const char *checkpoints, int64_t step, const char *folder);
/* Points the link `name` to step-N in one step. */
gp_status gp_catalog_link(const char *checkpoints, const char *name, int64_t step);
/* Removes a checkpoint's files and its folder. */
void gp_catalog_remove(const char *checkpoints, int64_t step);
/* Removes what killed processes left unfinished. */
void gp_catalog_clean(const char *checkpoints);

typedef struct gp_catalog_policy {
    int64_t keep;       /* newest, of which the one just written is the first; at least 1 */
    int64_t keep_every; /* steps that this number divides stay; 0: none */
    int64_t latest;     /* just written */
    int64_t best;       /* stays; -1: none */
} gp_catalog_policy;
/* Removes older ones. Failing to list or to remove is no reason to stop a run. */
void gp_catalog_prune(const char *checkpoints, const gp_catalog_policy *policy);

#endif
