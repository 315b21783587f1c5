/* Inside the room: how the gradients of a stage are cut for the sum over its replicas.
 *
 * A bucket is a part of the stage's gradients that is summed in one go; every replica adds up a piece of it. Whether a
 * parameter is cut into pieces, and where, depends on the parameter and the number of replicas alone: the same piece
 * decides whose optimizer state is whose, and in which order squares are added for the norm, so that neither depends on
 * how the layers are spread over stages. */
#ifndef GP_PIPELINE_BUCKETS_H
#define GP_PIPELINE_BUCKETS_H

#include "pipeline/stage.h"
#include "world/world.h"

/* The member's part of `count` elements that are cut into `members` parts, of whole cache lines. Pure. */
gp_piece gp_piece_of(int64_t count, int member, int members);

/* Whether a parameter is cut into pieces; small ones are not: every replica cares for all of them. Pure. */
bool gp_parameter_is_cut(int64_t elements, int replicas);
/* The elements whose squares a replica adds: its piece, or, of a parameter that is not cut, all of it by the first.
 * Pure. */
gp_piece gp_parameter_piece(int64_t elements, int replica, int replicas);

typedef struct gp_bucket {
    gp_piece *pieces;                      /* per replica, in elements of the stage's gradients */
    size_t first_parameter, end_parameter; /* in stage->parameters */
    bool cut; /* the pieces are of one parameter that is cut; otherwise of a run of small ones */
} gp_bucket;

typedef struct gp_buckets {
    gp_bucket *list;
    size_t count;
    size_t early; /* the first ones, whose parameters have one use in all: complete as soon as backward wrote them */
    gp_piece *pieces; /* memory of all */
    int64_t largest;  /* elements of the largest piece */
} gp_buckets;

/* In the order in which backward completes them. `element`: bytes of an f32 element on the device. Errors:
 * GP_OUT_OF_MEMORY. */
gp_status gp_buckets_create(gp_buckets *buckets, const gp_stage *stage, int replicas, size_t element);
void gp_buckets_destroy(gp_buckets *buckets); /* accepts a zeroed struct */

/* Elements that are summed at a time by each of `members`. */
int64_t gp_bucket_piece_elements(int members);

#endif
