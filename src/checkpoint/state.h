/* state.json: what a checkpoint says about itself. It is written last, so a folder that has one is complete; it holds
 * the checksums of everything else, and one of its own. */
#ifndef GP_CHECKPOINT_STATE_H
#define GP_CHECKPOINT_STATE_H

#include <jansson.h>

#include "checkpoint/files.h"
#include "gpipe/checkpoint.h"

#define GP_STATE_FILE "state.json"

enum { GP_STATE_VERSION = 1, GP_STATE_MAX_BYTES = 100 * 1000 * 1000 };

/* What a step, a count of samples or of tokens may be at most: far beyond any training, and sums of a few stay numbers.
 */
#define GP_STATE_MOST       INT64_C(1000000000000000000)
#define GP_STATE_MOST_STEPS INT64_C(1000000000000000)

/* Writes state.json into `folder`. `pieces`: everything that was written, sorted here. Errors: GP_FAILED when that is
 * not all of every tensor. */
gp_status gp_state_write(const char *folder, const gp_checkpoint_state *state, const gp_files *files,
                         gp_files_piece *pieces, size_t piece_count);

/* Reads and checks state.json of `folder`; `object` (released with json_decref) has the checksums. Errors: GP_INVALID
 * when there is none or it is damaged; the message names it. */
gp_status gp_state_read(const char *folder, gp_checkpoint_state *state, json_t **object);

/* A tensor's checksum, or those of its pieces, in order. `entry` is what the object has for it. Reading: number 0, 1,
 * ... until false; `bytes` is UINT64_MAX for the whole tensor. */
bool gp_state_checksum(const json_t *entry, size_t number, uint64_t *bytes, uint64_t *checksum);

#endif
