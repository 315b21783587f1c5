/* The promise of the project, for any model: with M fixed, the bits of every weight and state after any number of steps
 * depend neither on the number of partitions, nor on the schedule, nor on what is recomputed. */
#ifndef GP_TESTS_PIPELINE_VARIANTS_H
#define GP_TESTS_PIPELINE_VARIANTS_H

#include "support.h"

/* Trains for `steps` with every combination of partitions, schedules, recompute modes and granularities, on full
 * mini-batches of `common`, and compares with one partition, gpipe, nothing recomputed. */
void test_all_variants(const gp_engine_options *common, const size_t *partitions, size_t partition_count, int steps,
                       double clip);

#endif
