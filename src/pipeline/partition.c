/* Partitioning: the exact best cut of a sequence of layers into runs.
 *
 * Costs become whole numbers first (2^61 is their sum), so that sums are exact and equal layers tie. Then
 *   1. the smallest possible largest part X is found by bisection; a trial asks, part by part from the last to the
 * first, from which layers on the rest can be cut with no part above X;
 *   2. with X fixed, the least sum of cut costs behind every (part, first layer) is tabulated;
 *   3. the bounds are read off the table from the front, the longest run first.
 * With P the running sums, L and R the costs of the cuts at a part's two ends, part [i, j) is within X when
 * P[j] + R[j] <= X + P[i] - L[i], and within memory when j <= reach(part, i), which grows with i. So the ends j for a
 * start i are those in a sliding window whose key P[j] + R[j] is small enough: a queue of window minima answers step 1
 * in O(parts * count) a trial, a tree of minima over the keys' ranks step 2 in O(parts * count * log count).
 * Parts of different speeds may cost X times their share of the largest speed; sums are scaled so that X still fits. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "gpipe/pipeline.h"
#include "gpipe/words.h"

/* Above every sum of whole-number costs (at most 2^61 plus rounding), far below overflow when one is added. */
#define NEVER ((int64_t)1 << 62)

typedef struct ranked {
    int64_t key;
    size_t end;
} ranked;

typedef struct cut_problem {
    size_t count, parts;
    const double *memory_sums; /* count + 1 running sums; NULL: no limit */
    const double *limits;
    const double *speeds; /* NULL: all are alike */
    double fastest, slowest;
    int64_t *sums; /* count + 1 running sums of costs */
    int64_t *cuts; /* count + 1: cost of the cut before layer i; 0 at both ends */
    int64_t limit; /* X: the largest part allowed, of the fastest */
    int64_t most;  /* what the part in hand may cost */
    bool *good;    /* count + 1: the layers from i on can be cut into the parts from the current one on */
    bool *better;  /* the same for the part before it */
    size_t *queue; /* ends j of the window with growing keys */
    int64_t *rest; /* parts x (count + 1): least sum of cuts behind a part that starts at i; NEVER: none */
    int64_t *tree; /* minima over ranks of keys; leaves at `leaves` */
    size_t leaves;
    size_t *rank;    /* of the key of end j */
    ranked *by_rank; /* keys in growing order */
} cut_problem;

/* ---- checks and preparation ---- */

static double largest(const double *values, size_t count, double least) {
    for (size_t i = 0; values && i < count; i++)
        least = fmax(least, values[i]);
    return least;
}

static gp_status check_values(const double *values, size_t count, const char *what, bool infinite) {
    for (size_t i = 0; values && i < count; i++)
        if (!(values[i] >= 0) || (!infinite && isinf(values[i])))
            return gp_error(GP_INVALID, "%s %zu is %g; accepted are 0 and more%s", what, i, values[i],
                            infinite ? "" : ", finite");
    return GP_OK;
}

enum { MOST_APART = 1 << 20 };

static gp_status check_speeds(const double *speeds, size_t parts) {
    GP_TRY(check_values(speeds, parts, "the speed of part", false));
    double most = largest(speeds, parts, 0);
    for (size_t p = 0; speeds && p < parts; p++) {
        if (speeds[p] > 0 && speeds[p] >= most / MOST_APART) continue;
        return gp_error(GP_INVALID,
                        "the speed of part %zu is %g, that of the fastest %g; at most %d times less is accepted", p,
                        speeds[p], most, MOST_APART);
    }
    return GP_OK;
}

static gp_status check_arguments(const double *costs, size_t count, size_t parts, const gp_partition_options *options,
                                 const size_t *bounds) {
    if (!costs || !bounds) return gp_error(GP_INVALID, "partitioning needs the layers' costs and room for the bounds");
    if (parts < 1 || parts > count)
        return gp_error(GP_INVALID, "%zu layer%s cannot be cut into %zu parts; accepted are 1 to %zu", count,
                        gp_plural((int64_t)count, "s"), parts, count);
    GP_TRY(check_values(costs, count, "the cost of layer", false));
    GP_TRY(check_values(options->cut_costs, count - 1, "the cost of the cut behind layer", false));
    GP_TRY(check_values(options->memory, count, "the memory of layer", false));
    GP_TRY(check_speeds(options->speeds, parts));
    return check_values(options->limits, parts, "the memory limit of part", true);
}

/* The power of two that makes the sum of all costs, each cut counted on both sides, end at 2^61. */
static int scale_exponent(const double *costs, const double *cut_costs, size_t count) {
    int most_exponent, sum_exponent;
    double most = largest(cut_costs, count - 1, largest(costs, count, 0)), sum = 0;
    if (most == 0) return 0;
    (void)frexp(most, &most_exponent);
    for (size_t i = 0; i < count; i++)
        sum += ldexp(costs[i], -most_exponent) +
               (cut_costs && i + 1 < count ? 2 * ldexp(cut_costs[i], -most_exponent) : 0);
    (void)frexp(sum, &sum_exponent);
    return 61 - most_exponent - sum_exponent;
}

static void fill_costs(cut_problem *problem, const double *costs, const double *cut_costs) {
    int exponent = scale_exponent(costs, cut_costs, problem->count), apart;
    (void)frexp(problem->fastest / problem->slowest, &apart);
    if (problem->speeds) exponent -= apart;
    for (size_t i = 0; i < problem->count; i++) {
        problem->sums[i + 1] = problem->sums[i] + llrint(ldexp(costs[i], exponent));
        if (cut_costs && i > 0) problem->cuts[i] = llrint(ldexp(cut_costs[i - 1], exponent));
    }
}

/* The last end that part may have when it starts at layer i, looking on from `end`, which fits or is i. */
static size_t reach_on(const cut_problem *problem, size_t part, size_t start, size_t end) {
    if (!problem->memory_sums) return problem->count;
    while (end < problem->count && problem->memory_sums[end + 1] - problem->memory_sums[start] <= problem->limits[part])
        end++;
    return end;
}

/* The same walking backwards: `end` is the answer for start + 1. */
static size_t reach_back(const cut_problem *problem, size_t part, size_t start, size_t end) {
    if (!problem->memory_sums) return problem->count;
    while (end > start && problem->memory_sums[end] - problem->memory_sums[start] > problem->limits[part])
        end--;
    return end;
}

static int64_t key_of(const cut_problem *problem, size_t end) {
    return problem->sums[end] + problem->cuts[end];
}

static int64_t key_limit(const cut_problem *problem, size_t start) {
    return problem->most + problem->sums[start] - problem->cuts[start];
}

/* From here on a part is in hand; what it may cost grows with the limit. */
static void take_in_hand(cut_problem *problem, size_t part) {
    problem->most = problem->limit;
    if (problem->speeds)
        problem->most =
            (int64_t)((long double)problem->limit * (long double)(problem->speeds[part] / problem->fastest));
}

/* ---- step 1: the smallest largest part ---- */

/* Sets better[i] for every start i of `part` from good[j], the starts of the part behind it. */
static void trial_part(cut_problem *problem, size_t part) {
    size_t head = 0, tail = 0, reach = problem->count;
    take_in_hand(problem, part);
    problem->better[problem->count] = false;
    for (size_t start = problem->count; start-- > 0;) {
        /* Ends join with falling j, and the window loses its largest j first, so the front is the oldest. */
        size_t end = start + 1;
        if (problem->good[end]) {
            while (tail > head && key_of(problem, problem->queue[tail - 1]) >= key_of(problem, end))
                tail--;
            problem->queue[tail++] = end;
        }
        reach = reach_back(problem, part, start, reach);
        while (head < tail && problem->queue[head] > reach)
            head++;
        problem->better[start] = head < tail && key_of(problem, problem->queue[head]) <= key_limit(problem, start);
    }
}

static bool possible(cut_problem *problem, int64_t limit) {
    problem->limit = limit;
    for (size_t i = 0; i <= problem->count; i++)
        problem->good[i] = i == problem->count;
    for (size_t part = problem->parts; part-- > 0;) {
        trial_part(problem, part);
        bool *swap = problem->good;
        problem->good = problem->better;
        problem->better = swap;
    }
    return problem->good[0];
}

/* Names what does not fit: filling the parts to the brim from the front leaves layers over or a part without any. */
static gp_status does_not_fit(const cut_problem *problem) {
    double most = largest(problem->limits, problem->parts, 0);
    if (!problem->memory_sums) return gp_error(GP_FAILED, "there is no partition");
    for (size_t i = 0; i < problem->count; i++) {
        double bytes = problem->memory_sums[i + 1] - problem->memory_sums[i];
        if (bytes > most)
            return gp_error(GP_DOES_NOT_FIT, "layer %zu needs %.0f bytes, more than the %.0f of the largest part", i,
                            bytes, most);
    }
    size_t end = 0;
    for (size_t part = 0; part < problem->parts && end < problem->count; part++)
        end = reach_on(problem, part, end, end);
    if (end < problem->count)
        return gp_error(GP_DOES_NOT_FIT,
                        "the layers do not fit: %zu parts filled from the front hold those before layer %zu, which "
                        "needs %.0f bytes",
                        problem->parts, end, problem->memory_sums[end + 1] - problem->memory_sums[end]);
    return gp_error(GP_DOES_NOT_FIT, "no cut gives each of the %zu parts at least one layer within its memory limit",
                    problem->parts);
}

static gp_status find_limit(cut_problem *problem) {
    int64_t low = problem->sums[problem->count] / (int64_t)problem->parts, high = problem->sums[problem->count];
    for (size_t i = 1; i < problem->count; i++)
        high += problem->cuts[i];
    if (problem->speeds) /* so much that the slowest could do it all, rounding included */
        high = (int64_t)((double)high * (problem->fastest / problem->slowest) * (1 + 0x1p-50)) + MOST_APART;
    if (!possible(problem, high)) return does_not_fit(problem);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (possible(problem, middle))
            high = middle;
        else
            low = middle + 1;
    }
    problem->limit = high;
    return GP_OK;
}

/* ---- step 2: the least sum of cuts ---- */

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static void rank_keys(cut_problem *problem) {
    for (size_t j = 0; j <= problem->count; j++)
        problem->by_rank[j] = (ranked){key_of(problem, j), j};
    qsort(problem->by_rank, problem->count + 1, sizeof *problem->by_rank, compare_ranked);
    for (size_t r = 0; r <= problem->count; r++)
        problem->rank[problem->by_rank[r].end] = r;
}

/* The number of keys that are at most `key`. */
static size_t keys_up_to(const cut_problem *problem, int64_t key) {
    size_t low = 0, high = problem->count + 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (problem->by_rank[middle].key <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void tree_set(cut_problem *problem, size_t end, int64_t value) {
    size_t node = problem->leaves + problem->rank[end];
    problem->tree[node] = value;
    for (node /= 2; node > 0; node /= 2)
        problem->tree[node] = lesser(problem->tree[2 * node], problem->tree[2 * node + 1]);
}

/* The minimum over the first `ranks` leaves. */
static int64_t tree_minimum(const cut_problem *problem, size_t ranks) {
    int64_t minimum = NEVER;
    for (size_t low = problem->leaves, high = problem->leaves + ranks; low < high; low /= 2, high /= 2) {
        if (low & 1) minimum = lesser(minimum, problem->tree[low++]);
        if (high & 1) minimum = lesser(minimum, problem->tree[--high]);
    }
    return minimum;
}

static int64_t *rest_of(const cut_problem *problem, size_t part) {
    return problem->rest + part * (problem->count + 1);
}

/* What cutting before layer j costs, with the best cuts behind it, when `part` ends there. */
static int64_t cost_of_end(const cut_problem *problem, size_t part, size_t end) {
    if (part + 1 == problem->parts) return end == problem->count ? 0 : NEVER;
    int64_t rest = rest_of(problem, part + 1)[end];
    return rest == NEVER ? NEVER : rest + problem->cuts[end];
}

static void tabulate_part(cut_problem *problem, size_t part) {
    for (size_t i = 0; i < 2 * problem->leaves; i++)
        problem->tree[i] = NEVER;
    int64_t *rest = rest_of(problem, part);
    take_in_hand(problem, part);
    size_t in = problem->count, reach = problem->count;
    rest[problem->count] = NEVER;
    for (size_t start = problem->count; start-- > 0;) {
        int64_t cost = cost_of_end(problem, part, start + 1);
        if (cost != NEVER) tree_set(problem, start + 1, cost);
        reach = reach_back(problem, part, start, reach);
        for (; in > reach; in--)
            tree_set(problem, in, NEVER);
        rest[start] = tree_minimum(problem, keys_up_to(problem, key_limit(problem, start)));
    }
}

/* ---- step 3: the bounds ---- */

static void read_bounds(cut_problem *problem, size_t *bounds) {
    bounds[0] = 0;
    for (size_t part = 0; part < problem->parts; part++) {
        size_t start = bounds[part], end = reach_on(problem, part, start, start);
        int64_t wanted = rest_of(problem, part)[start];
        take_in_hand(problem, part);
        while (end > start + 1 &&
               (key_of(problem, end) > key_limit(problem, start) || cost_of_end(problem, part, end) != wanted))
            end--;
        bounds[part + 1] = end;
    }
}

/* ---- all of it ---- */

static gp_status problem_allocate(cut_problem *problem) {
    size_t count = problem->count + 1;
    for (problem->leaves = 1; problem->leaves < count; problem->leaves *= 2) {
    }
    problem->sums = gp_allocate_array(count, sizeof *problem->sums);
    problem->cuts = gp_allocate_array(count, sizeof *problem->cuts);
    problem->good = gp_allocate_array(count, sizeof *problem->good);
    problem->better = gp_allocate_array(count, sizeof *problem->better);
    problem->queue = gp_allocate_array(count, sizeof *problem->queue);
    problem->rest = gp_allocate_array(problem->parts, count * sizeof *problem->rest);
    problem->tree = gp_allocate_array(problem->leaves, 2 * sizeof *problem->tree);
    problem->rank = gp_allocate_array(count, sizeof *problem->rank);
    problem->by_rank = gp_allocate_array(count, sizeof *problem->by_rank);
    bool all = problem->sums && problem->cuts && problem->good && problem->better && problem->queue && problem->rest &&
               problem->tree && problem->rank && problem->by_rank;
    return all ? GP_OK : GP_OUT_OF_MEMORY;
}

static void problem_free(cut_problem *problem) {
    gp_free(problem->sums);
    gp_free(problem->cuts);
    gp_free(problem->good);
    gp_free(problem->better);
    gp_free(problem->queue);
    gp_free(problem->rest);
    gp_free(problem->tree);
    gp_free(problem->rank);
    gp_free(problem->by_rank);
}

static gp_status solve(cut_problem *problem, const double *costs, const double *cut_costs, size_t *bounds) {
    GP_TRY(problem_allocate(problem));
    fill_costs(problem, costs, cut_costs);
    GP_TRY(find_limit(problem));
    rank_keys(problem);
    for (size_t part = problem->parts; part-- > 0;)
        tabulate_part(problem, part);
    read_bounds(problem, bounds);
    return GP_OK;
}

static double *running_sums(const double *values, size_t count) {
    double *sums = gp_allocate_array(count + 1, sizeof *sums);
    for (size_t i = 0; sums && i < count; i++)
        sums[i + 1] = sums[i] + values[i];
    return sums;
}

gp_status gp_partition(const double *costs, size_t count, size_t parts, const gp_partition_options *options,
                       size_t *bounds) {
    gp_partition_options known;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_partition_options"));
    GP_TRY(check_arguments(costs, count, parts, &known, bounds));
    cut_problem problem = {
        .count = count, .parts = parts, .limits = known.limits, .speeds = known.speeds, .fastest = 1, .slowest = 1};
    if (known.speeds) {
        problem.fastest = largest(known.speeds, parts, 0);
        problem.slowest = problem.fastest;
        for (size_t p = 0; p < parts; p++)
            problem.slowest = fmin(problem.slowest, known.speeds[p]);
    }
    double *memory_sums = NULL;
    if (known.memory && known.limits) {
        memory_sums = running_sums(known.memory, count);
        if (!memory_sums) return GP_OUT_OF_MEMORY;
        problem.memory_sums = memory_sums;
    }
    gp_status status = solve(&problem, costs, known.cut_costs, bounds);
    problem_free(&problem);
    gp_free(memory_sums);
    return status;
}
