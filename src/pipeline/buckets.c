/* Cutting gradients into buckets. Large parameters are cut into as many pieces as there are replicas, and these into
 * chunks, a bucket each; neighbouring small ones share a bucket, whose pieces are of no meaning to anybody else. */
#include "pipeline/buckets.h"

#include "base/memory.h"
#include "base/status.h"

/* Elements: below the first a parameter is not cut; a bucket of small ones grows to the second. */
enum { SMALLEST_CUT = 4096, LARGEST_RUN = 65536 };
/* Elements of a chunk of all pieces together, and the least of one piece: long enough to hide what meeting costs, short
 * enough that the first sums begin while backward is running. */
enum { CHUNK = 1 << 20, LEAST_CHUNK = 1 << 16 };

bool gp_parameter_is_cut(int64_t elements, int replicas) {
    return replicas > 1 && elements >= SMALLEST_CUT;
}

/* First element of a member's piece; whole cache lines. */
static int64_t piece_begin(int64_t count, int member, int members) {
    int64_t lines = (count + 15) / 16;
    int64_t begin = lines * member / members * 16;
    return begin < count ? begin : count;
}

gp_piece gp_piece_of(int64_t count, int member, int members) {
    int64_t begin = piece_begin(count, member, members);
    return (gp_piece){begin, piece_begin(count, member + 1, members) - begin};
}

gp_piece gp_parameter_piece(int64_t elements, int replica, int replicas) {
    if (gp_parameter_is_cut(elements, replicas)) return gp_piece_of(elements, replica, replicas);
    return (gp_piece){0, replica == 0 ? elements : 0};
}

int64_t gp_bucket_piece_elements(int members) {
    int64_t elements = CHUNK / members;
    return elements > LEAST_CHUNK ? elements : LEAST_CHUNK;
}

/* ---- the list ---- */

/* Walks over the parameters from the last to the first; run with `buckets->list` NULL it only counts. */
typedef struct cutter {
    gp_buckets *buckets;
    const gp_stage *stage;
    int replicas;
    size_t element;
    bool late;     /* which kind is being listed */
    size_t run;    /* end of the run of small parameters that is being collected; 0: none */
    size_t listed; /* buckets so far */
} cutter;

static bool is_late(const gp_stage_parameter *parameter) {
    return parameter->extra_count > 0 || parameter->holder_count > 1;
}

static int64_t first_element(const cutter *cut, size_t parameter) {
    return (int64_t)(cut->stage->parameters[parameter].offset / cut->element);
}

static gp_bucket *next_bucket(cutter *cut, size_t first, size_t end, bool is_cut) {
    size_t number = cut->listed++;
    if (!cut->buckets->list) return NULL;
    gp_bucket *bucket = &cut->buckets->list[number];
    *bucket = (gp_bucket){cut->buckets->pieces + number * (size_t)cut->replicas, first, end, is_cut};
    return bucket;
}

static void set_piece(cutter *cut, gp_bucket *bucket, int replica, int64_t base, gp_piece piece) {
    bucket->pieces[replica] = (gp_piece){base + piece.first, piece.count};
    if (piece.count > cut->buckets->largest) cut->buckets->largest = piece.count;
}

/* The parameters from `first` to the end of the run that is being collected become a bucket. */
static void end_run(cutter *cut, size_t first) {
    if (cut->run == 0) return;
    const gp_stage_parameter *last = &cut->stage->parameters[cut->run - 1];
    int64_t begin = first_element(cut, first);
    int64_t count = first_element(cut, cut->run - 1) + last->elements - begin;
    gp_bucket *bucket = next_bucket(cut, first, cut->run, false);
    for (int r = 0; bucket && r < cut->replicas; r++)
        set_piece(cut, bucket, r, begin, gp_piece_of(count, r, cut->replicas));
    cut->run = 0;
}

static void cut_parameter(cutter *cut, size_t index) {
    int64_t elements = cut->stage->parameters[index].elements, chunk = gp_bucket_piece_elements(cut->replicas);
    int64_t most = 0;
    for (int r = 0; r < cut->replicas; r++) {
        gp_piece piece = gp_piece_of(elements, r, cut->replicas);
        if (piece.count > most) most = piece.count;
    }
    for (int64_t at = 0; at < most; at += chunk) {
        gp_bucket *bucket = next_bucket(cut, index, index + 1, true);
        for (int r = 0; bucket && r < cut->replicas; r++) {
            gp_piece piece = gp_piece_of(elements, r, cut->replicas);
            int64_t left = piece.count > at ? piece.count - at : 0;
            set_piece(cut, bucket, r, first_element(cut, index),
                      (gp_piece){left > 0 ? piece.first + at : piece.first, left < chunk ? left : chunk});
        }
    }
}

static void list_kind(cutter *cut, bool late) {
    const gp_stage *stage = cut->stage;
    for (size_t p = stage->parameter_count; p-- > 0;) {
        const gp_stage_parameter *parameter = &stage->parameters[p];
        bool is_cut = gp_parameter_is_cut(parameter->elements, cut->replicas);
        bool mine = is_late(parameter) == late;
        bool full = cut->run > 0 && first_element(cut, cut->run - 1) - first_element(cut, p) > LARGEST_RUN;
        if (!mine || is_cut || full) end_run(cut, p + 1);
        if (!mine) continue;
        if (is_cut) {
            cut_parameter(cut, p);
        } else if (cut->run == 0) {
            cut->run = p + 1;
        }
    }
    end_run(cut, 0);
}

static void list_all(cutter *cut) {
    cut->listed = 0;
    list_kind(cut, false);
    cut->buckets->early = cut->listed;
    list_kind(cut, true);
}

gp_status gp_buckets_create(gp_buckets *buckets, const gp_stage *stage, int replicas, size_t element) {
    *buckets = (gp_buckets){0};
    cutter cut = {.buckets = buckets, .stage = stage, .replicas = replicas, .element = element};
    list_all(&cut);
    gp_bucket *list = gp_allocate_array(cut.listed, sizeof *list);
    buckets->pieces = gp_allocate_array(cut.listed * (size_t)replicas, sizeof *buckets->pieces);
    buckets->count = cut.listed;
    buckets->list = list;
    if (!list || !buckets->pieces) return GP_OUT_OF_MEMORY;
    list_all(&cut);
    return GP_OK;
}

void gp_buckets_destroy(gp_buckets *buckets) {
    gp_free(buckets->list);
    gp_free(buckets->pieces);
    *buckets = (gp_buckets){0};
}
