/* Layout in the order of time: as an allocator would do it that is told in advance what comes and goes. Takes no more
 * time than intervals times gaps, so it works for any size of program; recomputation and backward passes, which are
 * nested like brackets, come out tight. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "program/layout.h"

typedef struct gap {
    size_t offset, bytes; /* the last one has no end */
} gap;

typedef struct event {
    int32_t step;
    bool free;
    int32_t interval;
    size_t bytes;
} event;

typedef struct scan {
    gap *gaps; /* by offset, no two touch */
    size_t gap_count;
    bool tightest;
} scan;

/* What dies goes before what is born in the next step; what is born at one time: the largest first. */
static int by_time(const void *left, const void *right) {
    const event *a = left, *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->free != b->free) return a->free ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->interval < b->interval ? -1 : 1;
}

static size_t take(scan *s, size_t bytes) {
    size_t chosen = s->gap_count - 1;
    for (size_t i = 0; i + 1 < s->gap_count; i++) {
        if (s->gaps[i].bytes < bytes) continue;
        if (chosen < s->gap_count - 1 && s->gaps[i].bytes >= s->gaps[chosen].bytes) continue;
        chosen = i;
        if (!s->tightest) break;
    }
    gap *g = &s->gaps[chosen];
    size_t offset = g->offset;
    g->offset += bytes;
    if (chosen == s->gap_count - 1) return offset;
    g->bytes -= bytes;
    if (!g->bytes) {
        memmove(g, g + 1, (s->gap_count - chosen - 1) * sizeof *g);
        s->gap_count--;
    }
    return offset;
}

/* The last gap has no end, so there is always one behind what is given back. */
static void give(scan *s, size_t offset, size_t bytes) {
    size_t low = 0, high = s->gap_count - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->gaps[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    gap *after = &s->gaps[low], *before = low ? after - 1 : NULL;
    bool joins_after = after->offset == offset + bytes;
    bool joins_before = before && before->offset + before->bytes == offset;
    if (joins_before && joins_after) {
        size_t all = before->bytes + bytes;
        *after = (gap){before->offset, after->bytes + all};
        memmove(before, after, (s->gap_count - low) * sizeof *after);
        s->gap_count--;
    } else if (joins_before) {
        before->bytes += bytes;
    } else if (joins_after) {
        *after = (gap){offset, after->bytes + bytes};
    } else {
        memmove(after + 1, after, (s->gap_count - low) * sizeof *after);
        *after = (gap){offset, bytes};
        s->gap_count++;
    }
}

/* Two events for every interval, in order; backwards, time is mirrored. */
static size_t list_events(event *events, const gp_interval *intervals, size_t count, int32_t steps, bool backwards) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = gp_layout_padded(intervals[i].bytes);
        int32_t first = backwards ? steps - 1 - intervals[i].last : intervals[i].first;
        int32_t last = backwards ? steps - 1 - intervals[i].first : intervals[i].last;
        if (!bytes) continue;
        events[used++] = (event){first, false, (int32_t)i, bytes};
        events[used++] = (event){last + 1, true, (int32_t)i, bytes};
    }
    qsort(events, used, sizeof *events, by_time);
    return used;
}

gp_status gp_layout_scan(gp_interval *intervals, size_t count, int32_t steps, gp_scan way, size_t *total) {
    scan s = {.gaps = gp_allocate_array(count + 2, sizeof(gap)), .gap_count = 1, .tightest = way == GP_SCAN_TIGHTEST};
    event *events = gp_allocate_array(2 * count, sizeof *events);
    gp_status status = s.gaps && events ? GP_OK : GP_OUT_OF_MEMORY;
    *total = 0;
    if (status == GP_OK) {
        size_t used = list_events(events, intervals, count, steps, way == GP_SCAN_BACKWARDS);
        for (size_t i = 0; i < used; i++) {
            gp_interval *interval = &intervals[events[i].interval];
            if (events[i].free) {
                give(&s, interval->offset, events[i].bytes);
                continue;
            }
            interval->offset = take(&s, events[i].bytes);
            if (interval->offset + events[i].bytes > *total) *total = interval->offset + events[i].bytes;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!intervals[i].bytes) intervals[i].offset = 0;
    }
    gp_free(s.gaps);
    gp_free(events);
    return status;
}
