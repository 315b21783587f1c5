/* The safetensors files of a checkpoint: where each tensor will lie, worked out beforehand from names and types alone,
 * so that any number of workers write their own tensors into the same files at the same time. Nothing in the files
 * depends on how many there are. */
#ifndef GP_CHECKPOINT_FILES_H
#define GP_CHECKPOINT_FILES_H

#include "gpipe/checkpoint.h"

/* Tensors of one group lie in <group>.safetensors, or, when they are larger than a shard may be, in
 * <group>-00001-of-0000n.safetensors and so on, with an index. Names are unique within a group. */
typedef struct gp_files_tensor {
    const char *group;
    const char *name;
    gp_type type;
} gp_files_tensor;

typedef struct gp_files_shard {
    const char *group;
    char *name;   /* of the file */
    char *header; /* its first bytes */
    size_t header_bytes;
    uint64_t bytes;  /* of the whole file */
    bool only;       /* the group's only one: there is no index */
    size_t *tensors; /* numbers of its tensors, as they lie in the file */
    size_t count;
    size_t first; /* of these: with whose first byte the header is written */
} gp_files_shard;

typedef struct gp_files {
    const gp_files_tensor *tensors; /* the caller's */
    size_t count;
    size_t *shard;    /* of each tensor: number of its shard */
    uint64_t *offset; /* of each tensor: its first byte in the file */
    gp_files_shard *shards;
    size_t shard_count;
    size_t *order;  /* memory of all shards' tensors */
    uint64_t bytes; /* of all files */
} gp_files;

/* Lays out. Tensors of a group need not be neighbours. `shard_bytes`: tensor bytes of a shard (at least one tensor is
 * in each); 0: no limit. `tensors` must outlive the layout. Errors: GP_INVALID (a name twice in a group), no memory. */
gp_status gp_files_create(gp_files *files, const gp_files_tensor *tensors, size_t count, uint64_t shard_bytes);
void gp_files_destroy(gp_files *files); /* accepts a zeroed struct */

/* ---- writing ---- */

/* Bytes of a tensor that were written together: the whole tensor, or a piece of it where several workers share one. */
typedef struct gp_files_piece {
    size_t tensor;
    uint64_t first, bytes;
    uint64_t checksum;
} gp_files_piece;

/* What one thread writes. */
typedef struct gp_files_part gp_files_part;

/* `folder` is there. */
gp_status gp_files_part_create(gp_files_part **part, const gp_files *files, const char *folder);
/* Writes a piece from `data`, or bit by bit from `fill` (whose offsets count from the piece's first byte), and fills in
 * its checksum. Who writes a shard's first byte writes its header too. `cancelled` (may be NULL) is looked at now and
 * then: GP_INTERRUPTED. */
gp_status gp_files_part_write(gp_files_part *part, gp_files_piece *piece, const void *data, gp_safetensors_fill fill,
                              void *user, const _Atomic bool *cancelled);
/* Waits until all of it is on the disk. */
gp_status gp_files_part_finish(gp_files_part *part);
void gp_files_part_destroy(gp_files_part *part); /* accepts NULL */

/* Sorts pieces by tensor and place, and checks that they are all of every tensor, each byte once. Errors: GP_FAILED
 * naming a tensor. */
gp_status gp_files_check_pieces(const gp_files *files, gp_files_piece *pieces, size_t count);
/* Writes the indices of groups that have several shards. */
gp_status gp_files_write_indices(const gp_files *files, const char *folder);

#endif
