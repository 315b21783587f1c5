/* Merging the bytes of a word. Short words are scanned for the next merge; for long ones a heap holds all that are
 * possible, so that a text without blanks takes n log n and not n^2. */
#include <string.h>

#include "base/status.h"
#include "data/bpe.h"

enum { SHORT = 40 };

static const uint32_t NONE = UINT32_MAX;

/* ---- short words ---- */

typedef struct candidate {
    uint32_t rank, id; /* NONE: this id and the next do not merge */
} candidate;

static candidate candidate_of(const gp_pairs *merges, int32_t left, int32_t right) {
    const gp_pair *pair = gp_pairs_find(merges, gp_merge_key(left, right));
    return pair ? (candidate){pair->first, pair->second} : (candidate){NONE, 0};
}

static size_t merge_short(const gp_pairs *merges, int32_t *ids, size_t count) {
    candidate next[SHORT];
    for (size_t i = 0; i + 1 < count; i++)
        next[i] = candidate_of(merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            best = next[i].rank < next[best].rank ? i : best;
        if (next[best].rank == NONE) break;
        ids[best] = (int32_t)next[best].id;
        count--;
        for (size_t i = best + 1; i < count; i++)
            ids[i] = ids[i + 1];
        for (size_t i = best; i + 1 < count; i++)
            next[i] = next[i + 1];
        if (best + 1 < count) next[best] = candidate_of(merges, ids[best], ids[best + 1]);
        if (best > 0) next[best - 1] = candidate_of(merges, ids[best - 1], ids[best]);
    }
    return count;
}

/* ---- long words ---- */

typedef struct symbol {
    uint32_t before, behind; /* neighbours that are left; NONE at the ends */
    candidate next;          /* with the neighbour behind; its rank is NONE when this symbol is gone */
} symbol;

/* A heap of rank << 32 | place: the lowest rank, and the leftmost of one rank, on top. What is on it may be outdated;
 * then the symbol's own rank differs. A merge takes one entry and adds at most two, so it never holds 2 * count. */
typedef struct queue {
    uint64_t *entries;
    size_t count;
} queue;

static void push(queue *q, uint64_t entry) {
    size_t at = q->count++;
    for (; at > 0 && q->entries[(at - 1) / 2] > entry; at = (at - 1) / 2)
        q->entries[at] = q->entries[(at - 1) / 2];
    q->entries[at] = entry;
}

static uint64_t pop(queue *q) {
    uint64_t top = q->entries[0], last = q->entries[--q->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < q->count; at = child) {
        if (child + 1 < q->count && q->entries[child + 1] < q->entries[child]) child++;
        if (q->entries[child] >= last) break;
        q->entries[at] = q->entries[child];
    }
    q->entries[at] = last;
    return top;
}

/* Finds out whether a symbol merges with the one behind it. */
static void consider(const gp_pairs *merges, const int32_t *ids, symbol *symbols, uint32_t at, queue *q) {
    uint32_t behind = symbols[at].behind;
    symbols[at].next = behind == NONE ? (candidate){NONE, 0} : candidate_of(merges, ids[at], ids[behind]);
    if (symbols[at].next.rank != NONE) push(q, (uint64_t)symbols[at].next.rank << 32 | at);
}

static void merge_at(const gp_pairs *merges, int32_t *ids, symbol *symbols, uint32_t at, queue *q) {
    uint32_t gone = symbols[at].behind, behind = symbols[gone].behind, before = symbols[at].before;
    ids[at] = (int32_t)symbols[at].next.id;
    ids[gone] = -1;
    symbols[gone].next.rank = NONE;
    symbols[at].behind = behind;
    if (behind != NONE) symbols[behind].before = at;
    consider(merges, ids, symbols, at, q);
    if (before != NONE) consider(merges, ids, symbols, before, q);
}

static size_t merge_all(const gp_pairs *merges, int32_t *ids, size_t count, symbol *symbols, queue *q) {
    for (uint32_t i = 0; i < count; i++)
        symbols[i] = (symbol){.before = i > 0 ? i - 1 : NONE, .behind = i + 1 < count ? i + 1 : NONE};
    for (uint32_t i = 0; i < count; i++)
        consider(merges, ids, symbols, i, q);
    while (q->count > 0) {
        uint64_t entry = pop(q);
        uint32_t at = (uint32_t)entry;
        if (symbols[at].next.rank == (uint32_t)(entry >> 32)) merge_at(merges, ids, symbols, at, q);
    }
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= 0) ids[left++] = ids[i];
    }
    return left;
}

static gp_status merge_long(const gp_pairs *merges, int32_t *ids, size_t *count, gp_buffer *work) {
    if (*count > INT32_MAX) return gp_error(GP_INVALID, "a word of %zu bytes is longer than 2 GiB", *count);
    size_t symbol_bytes = *count * sizeof(symbol);
    work->used = 0;
    GP_TRY(gp_buffer_reserve(work, symbol_bytes + 2 * *count * sizeof(uint64_t)));
    queue q = {.entries = (uint64_t *)(void *)(work->bytes + symbol_bytes)};
    *count = merge_all(merges, ids, *count, (symbol *)(void *)work->bytes, &q);
    return GP_OK;
}

gp_status gp_bpe_merge(const gp_pairs *merges, int32_t *ids, size_t *count, gp_buffer *work) {
    if (*count > SHORT) return merge_long(merges, ids, count, work);
    *count = merge_short(merges, ids, *count);
    return GP_OK;
}
