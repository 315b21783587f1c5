/* Layout: where in one piece of memory do things lie that live from one step to another? Pure, knows nothing of
 * programs.
 *
 * The problem is NP-hard (dynamic storage allocation); several orders of placing are tried and the best result is kept.
 * Most programs come out at the lower bound, the largest sum of bytes that live at one time. */
#ifndef GP_PROGRAM_LAYOUT_H
#define GP_PROGRAM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"

typedef struct gp_interval {
    size_t bytes;
    int32_t first, last; /* steps, both included */
    size_t offset;       /* result, a multiple of 64 */
} gp_interval;

/* Gives every interval an offset, so that two that share a step share no byte. *total: bytes of the whole. `steps`: all
 * intervals lie in 0 .. steps - 1. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_layout(gp_interval *intervals, size_t count, int32_t steps, size_t *total);
/* The lower bound: the largest sum of (padded) bytes that live in one step. */
gp_status gp_layout_bound(const gp_interval *intervals, size_t count, int32_t steps, size_t *bound);

/* The pieces of gp_layout, each with the same contract. */

/* In the order of time, forwards or backwards, like an allocator that picks the lowest or the tightest gap. */
typedef enum gp_scan { GP_SCAN_LOWEST, GP_SCAN_TIGHTEST, GP_SCAN_BACKWARDS } gp_scan;
gp_status gp_layout_scan(gp_interval *intervals, size_t count, int32_t steps, gp_scan scan, size_t *total);
/* The largest first, each at the lowest offset that is free all its life. Its time grows with the number of pairs that
 * share a step. */
gp_status gp_layout_by_size(gp_interval *intervals, size_t count, int32_t steps, size_t *total);

static inline size_t gp_layout_padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

#endif
