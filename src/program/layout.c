/* Layout: the choice between ways, the lower bound, and placing by size. */
#include "program/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* Placing by size looks at every pair that shares a step; beyond this many the order of time alone must do. */
enum { MOST_PAIRS = 20000000 };

gp_status gp_layout_bound(const gp_interval *intervals, size_t count, int32_t steps, size_t *bound) {
    size_t *born = gp_allocate_array((size_t)steps + 1, sizeof *born);
    size_t *dead = gp_allocate_array((size_t)steps + 1, sizeof *dead);
    gp_status status = born && dead ? GP_OK : GP_OUT_OF_MEMORY;
    *bound = 0;
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        born[intervals[i].first] += gp_layout_padded(intervals[i].bytes);
        dead[intervals[i].last + 1] += gp_layout_padded(intervals[i].bytes);
    }
    size_t alive = 0;
    for (int32_t s = 0; s < steps && status == GP_OK; s++) {
        alive = alive - dead[s] + born[s];
        if (alive > *bound) *bound = alive;
    }
    gp_free(born);
    gp_free(dead);
    return status;
}

/* ---- placing by size ---- */

/* Placed intervals that live at a time, kept in a tree over the steps: a node of the tree holds those that live through
 * all of its steps and not through all of its parent's, and those that were born in its steps. Lists are chains through
 * arrays. */
typedef struct entry {
    int32_t interval, next;
} entry;

typedef struct tree {
    int32_t leaves;   /* a power of two, at least the number of steps */
    int32_t *through; /* first entry of each node's chain, -1: none */
    int32_t *born;    /* first entry of each step's chain */
    entry *entries;
    size_t used, capacity;
} tree;

static gp_status tree_create(tree *t, int32_t steps) {
    t->leaves = 1;
    while (t->leaves < steps) {
        t->leaves *= 2;
    }
    t->through = gp_allocate_array(2 * (size_t)t->leaves, sizeof *t->through);
    t->born = gp_allocate_array((size_t)t->leaves, sizeof *t->born);
    if (!t->through || !t->born) return GP_OUT_OF_MEMORY;
    memset(t->through, 0xFF, 2 * (size_t)t->leaves * sizeof *t->through);
    memset(t->born, 0xFF, (size_t)t->leaves * sizeof *t->born);
    return GP_OK;
}

static void tree_destroy(tree *t) {
    gp_free(t->through);
    gp_free(t->born);
    gp_free(t->entries);
}

static gp_status chain(tree *t, int32_t *head, int32_t interval) {
    if (t->used == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 1024;
        entry *entries = gp_grow_array(t->entries, t->capacity, capacity, sizeof *entries);
        if (!entries) return GP_OUT_OF_MEMORY;
        t->entries = entries;
        t->capacity = capacity;
    }
    t->entries[t->used] = (entry){interval, *head};
    *head = (int32_t)t->used++;
    return GP_OK;
}

static gp_status tree_add(tree *t, const gp_interval *intervals, int32_t interval) {
    int32_t low = intervals[interval].first + t->leaves, high = intervals[interval].last + t->leaves + 1;
    GP_TRY(chain(t, &t->born[intervals[interval].first], interval));
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2) GP_TRY(chain(t, &t->through[low++], interval));
        if (high % 2) GP_TRY(chain(t, &t->through[--high], interval));
    }
    return GP_OK;
}

static size_t collect_chain(const tree *t, int32_t head, int32_t *found, size_t count) {
    for (int32_t e = head; e >= 0; e = t->entries[e].next) {
        found[count++] = t->entries[e].interval;
    }
    return count;
}

/* Everything placed that shares a step with [first, last]: what lives in step first, and what is born after it. */
static size_t tree_collect(const tree *t, int32_t first, int32_t last, int32_t *found) {
    size_t count = 0;
    for (int32_t node = first + t->leaves; node > 0; node /= 2) {
        count = collect_chain(t, t->through[node], found, count);
    }
    for (int32_t step = first + 1; step <= last; step++) {
        count = collect_chain(t, t->born[step], found, count);
    }
    return count;
}

/* Numbers of intervals to be sorted, with what they are sorted by: qsort has no argument for it. */
typedef struct keyed {
    size_t key;
    int32_t interval, duration;
} keyed;

static int by_key(const void *left, const void *right) {
    const keyed *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->duration != b->duration) return a->duration > b->duration ? -1 : 1;
    return a->interval < b->interval ? -1 : 1;
}

/* The lowest offset where `bytes` fit between the found ones. */
static size_t lowest_fit(const gp_interval *intervals, const int32_t *found, size_t count, keyed *sorted,
                         size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (keyed){intervals[found[i]].offset, found[i], 0};
    }
    qsort(sorted, count, sizeof *sorted, by_key);
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        const gp_interval *other = &intervals[sorted[i].interval];
        if (other->offset >= offset + bytes) break;
        size_t end = other->offset + gp_layout_padded(other->bytes);
        if (end > offset) offset = end;
    }
    return offset;
}

typedef struct by_size {
    tree placed;
    keyed *order, *sorted;
    int32_t *found;
} by_size;

static gp_status place_all(by_size *work, gp_interval *intervals, size_t count, size_t *total) {
    for (size_t i = 0; i < count; i++) {
        gp_interval *interval = &intervals[work->order[i].interval];
        size_t bytes = gp_layout_padded(interval->bytes);
        interval->offset = 0;
        if (!bytes) continue;
        size_t found = tree_collect(&work->placed, interval->first, interval->last, work->found);
        interval->offset = lowest_fit(intervals, work->found, found, work->sorted, bytes);
        if (interval->offset + bytes > *total) *total = interval->offset + bytes;
        GP_TRY(tree_add(&work->placed, intervals, work->order[i].interval));
    }
    return GP_OK;
}

gp_status gp_layout_by_size(gp_interval *intervals, size_t count, int32_t steps, size_t *total) {
    by_size work = {.order = gp_allocate_array(count, sizeof(keyed)),
                    .sorted = gp_allocate_array(count, sizeof(keyed)),
                    .found = gp_allocate_array(count, sizeof(int32_t))};
    gp_status status = work.order && work.sorted && work.found ? tree_create(&work.placed, steps) : GP_OUT_OF_MEMORY;
    *total = 0;
    if (status == GP_OK) {
        for (size_t i = 0; i < count; i++) {
            int32_t duration = intervals[i].last - intervals[i].first;
            work.order[i] = (keyed){SIZE_MAX - gp_layout_padded(intervals[i].bytes), (int32_t)i, duration};
        }
        qsort(work.order, count, sizeof *work.order, by_key);
        status = place_all(&work, intervals, count, total);
    }
    tree_destroy(&work.placed);
    gp_free(work.order);
    gp_free(work.sorted);
    gp_free(work.found);
    return status;
}

/* ---- the choice ---- */

/* Pairs that share a step: every interval meets those that live when it is born. */
static gp_status count_pairs(const gp_interval *intervals, size_t count, int32_t steps, size_t *pairs) {
    size_t *born = gp_allocate_array((size_t)steps + 1, sizeof *born);
    size_t *dead = gp_allocate_array((size_t)steps + 1, sizeof *dead);
    gp_status status = born && dead ? GP_OK : GP_OUT_OF_MEMORY;
    *pairs = 0;
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        born[intervals[i].first]++;
        dead[intervals[i].last + 1]++;
    }
    size_t alive = 0;
    for (int32_t s = 0; s < steps && status == GP_OK; s++) {
        alive = alive - dead[s] + born[s];
        *pairs += born[s] * alive;
    }
    gp_free(born);
    gp_free(dead);
    return status;
}

static gp_status attempt(int way, gp_interval *intervals, size_t count, int32_t steps, size_t *total) {
    return way < 3 ? gp_layout_scan(intervals, count, steps, (gp_scan)way, total)
                   : gp_layout_by_size(intervals, count, steps, total);
}

gp_status gp_layout(gp_interval *intervals, size_t count, int32_t steps, size_t *total) {
    size_t bound, pairs;
    GP_TRY(gp_layout_bound(intervals, count, steps, &bound));
    GP_TRY(count_pairs(intervals, count, steps, &pairs));
    size_t *best = gp_allocate_array(count, sizeof *best);
    gp_status status = best ? GP_OK : GP_OUT_OF_MEMORY;
    *total = SIZE_MAX;
    int ways = pairs > MOST_PAIRS ? 3 : 4;
    for (int way = 0; way<ways && * total> bound && status == GP_OK; way++) {
        size_t reached;
        status = attempt(way, intervals, count, steps, &reached);
        if (status != GP_OK || reached >= *total) continue;
        *total = reached;
        for (size_t i = 0; i < count; i++) {
            best[i] = intervals[i].offset;
        }
    }
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        intervals[i].offset = best[i];
    }
    gp_free(best);
    return status;
}
