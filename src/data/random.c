/* Samples of counted random numbers: something to compute with when it does not matter what, for planning and
 * benchmarks. Nothing can be learned from them, so there is no validation split. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "data/dataset.h"

typedef struct random_dataset {
    gp_dataset dataset;
    gp_random_options options;
} random_dataset;

/* Keeps inputs and targets of one sample apart. */
enum { USE_INPUTS, USE_TARGETS };

/* What element `at` of a tensor becomes. Numbers have mean 0 and variance 1. */
static void set(gp_tensor *tensor, int64_t at, uint32_t word, int32_t below) {
    const float root3 = 1.7320508f;
    if (tensor->type.dtype == GP_I32) {
        ((int32_t *)tensor->data)[at] = (int32_t)((uint64_t)word * (uint64_t)below >> 32);
    } else {
        ((float *)tensor->data)[at] = (2 * gp_random_unit(word) - 1) * root3;
    }
}

static void fill(const gp_request *request, uint32_t use, int32_t below, gp_tensor *tensor) {
    if (!tensor->data || request->count == 0) return;
    int64_t elements = gp_shape_elements(tensor->type.shape) / request->count;
    gp_random_key key = gp_random_key_of(request->seed);
    for (int64_t s = 0; s < request->count; s++) {
        for (int64_t e = 0; e < elements; e += 4) {
            gp_random_block block = gp_random_element4(key, (uint32_t)(e / 4), (uint32_t)(request->first + s),
                                                       (uint32_t)request->step, use);
            for (int64_t i = 0; i < 4 && e + i < elements; i++)
                set(tensor, s * elements + e + i, block.word[i], below);
        }
    }
}

static gp_status read_samples(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    const gp_random_options *options = &((const random_dataset *)dataset)->options;
    if (request->evaluation || request->split != GP_SPLIT_TRAIN)
        return gp_error(GP_INVALID, "random data has no validation split");
    fill(request, USE_INPUTS, options->input_below, &batch->inputs);
    fill(request, USE_TARGETS, options->target_below, &batch->targets);
    return GP_OK;
}

static void destroy(gp_dataset *dataset) {
    gp_free(dataset);
}

static int64_t count_windows(const gp_dataset *dataset, gp_split split) {
    (void)dataset;
    (void)split;
    return 0;
}

static int64_t count_samples(const gp_dataset *dataset, gp_split split) {
    (void)dataset;
    return split == GP_SPLIT_TRAIN ? INT32_MAX : 0;
}

static const gp_dataset_class random_class = {.name = "random",
                                              .unit = "samples",
                                              .destroy = destroy,
                                              .count = count_samples,
                                              .windows = count_windows,
                                              .read = read_samples};

static gp_status check(const char *what, gp_type type, int32_t below) {
    char text[160];
    GP_TRY(gp_shape_check(type.shape));
    if (type.dtype != GP_F32 && type.dtype != GP_I32)
        return gp_error(GP_INVALID, "random %s: %s is neither f32 nor i32", what,
                        gp_type_format(type, text, sizeof text));
    if (type.shape.rank >= GP_MAX_RANK)
        return gp_error(GP_INVALID, "random %s: %s leaves no dimension for the batch", what,
                        gp_type_format(type, text, sizeof text));
    if (type.dtype == GP_I32 && below < 1)
        return gp_error(GP_INVALID, "random %s: integers below %" PRId32 " are asked for, but 1 or more is accepted",
                        what, below);
    return GP_OK;
}

gp_status gp_dataset_create_random(gp_dataset **dataset, const gp_random_options *options) {
    gp_random_options known;
    *dataset = NULL;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_random_options"));
    GP_TRY(check("inputs", known.input, known.input_below));
    GP_TRY(check("targets", known.target, known.target_below));
    random_dataset *created = gp_allocate(sizeof *created);
    if (!created) return GP_OUT_OF_MEMORY;
    created->dataset = (gp_dataset){.table = &random_class, .input_type = known.input, .target_type = known.target};
    created->options = known;
    *dataset = &created->dataset;
    return GP_OK;
}
