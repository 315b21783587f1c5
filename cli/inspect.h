/* What gpipe inspect shows, by subject: a file's tensors, the differences of two files, damage. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "gpipe/checkpoint.h"

/* Elements that are looked at in one go. */
enum { CLI_INSPECT_PIECE = 16384 };

/* Numbers of the tensors in the order in which people count: layers.2 before layers.10. Freed with free(); NULL (with
 * the thread's message set) when there is no memory left. */
size_t *cli_inspect_order(const gp_shards *file);
/* Text of a file: nothing in it may move the cursor. */
void cli_inspect_print(const char *text);

/* A table, or JSON, on stdout. `state` may be NULL. */
gp_status cli_inspect_tensors(const gp_shards *file, const char *path, const gp_checkpoint_state *state, bool json);
/* The tensors of `a` beside those of `b`; `*differ`: something is different. */
gp_status cli_inspect_diff(const gp_shards *a, const gp_shards *b, const char *path_a, const char *path_b, bool json,
                           bool *differ);
/* --verify: reads a checkpoint, or all of a run, and compares every checksum. Returns the exit status. */
int cli_inspect_verify(const char *path, bool json);

#endif
