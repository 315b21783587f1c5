/* The public functions of datasets: they check what every kind of data needs checked, and ask the table. */
#include "data/dataset.h"

#include <inttypes.h>

#include "base/status.h"
#include "tensor/batched.h"

void gp_dataset_destroy(gp_dataset *dataset) {
    if (dataset) dataset->table->destroy(dataset);
}

const gp_tokenizer *gp_dataset_tokenizer(const gp_dataset *dataset) {
    return dataset->tokenizer;
}

const gp_classes *gp_dataset_classes(const gp_dataset *dataset) {
    return dataset->classes;
}

int32_t gp_dataset_vocabulary(const gp_dataset *dataset) {
    return dataset->vocabulary;
}

gp_type gp_dataset_input_type(const gp_dataset *dataset) {
    return dataset->input_type;
}

gp_type gp_dataset_target_type(const gp_dataset *dataset) {
    return dataset->target_type;
}

bool gp_dataset_weighted(const gp_dataset *dataset) {
    return dataset->weighted;
}

const char *gp_dataset_unit(const gp_dataset *dataset) {
    return dataset->table->unit;
}

int64_t gp_dataset_count(const gp_dataset *dataset, gp_split split) {
    return dataset->table->count(dataset, split);
}

int64_t gp_dataset_windows(const gp_dataset *dataset, gp_split split) {
    return dataset->table->windows(dataset, split);
}

/* ---- batches ---- */

static gp_type weight_type(const gp_dataset *dataset) {
    return (gp_type){GP_F32, dataset->target_type.shape};
}

gp_status gp_batch_create_part(gp_batch *batch, const gp_dataset *dataset, int64_t samples, bool inputs, bool targets) {
    gp_status status = GP_OK;
    *batch = (gp_batch){.inputs.type = gp_type_with_batch(dataset->input_type, samples),
                        .targets.type = gp_type_with_batch(dataset->target_type, samples),
                        .weights.type = gp_type_with_batch(weight_type(dataset), samples)};
    if (inputs) status = gp_tensor_create(&batch->inputs, batch->inputs.type);
    if (status == GP_OK && targets) status = gp_tensor_create(&batch->targets, batch->targets.type);
    if (status == GP_OK && targets && dataset->weighted)
        status = gp_tensor_create(&batch->weights, batch->weights.type);
    if (status != GP_OK) gp_batch_destroy(batch);
    return status;
}

gp_status gp_batch_create(gp_batch *batch, const gp_dataset *dataset, int64_t samples) {
    return gp_batch_create_part(batch, dataset, samples, true, true);
}

void gp_batch_destroy(gp_batch *batch) {
    gp_tensor_destroy(&batch->inputs);
    gp_tensor_destroy(&batch->targets);
    gp_tensor_destroy(&batch->weights);
}

void gp_batch_resize(gp_batch *batch, int64_t samples) {
    batch->inputs.type.shape.dims[0] = samples;
    batch->targets.type.shape.dims[0] = samples;
    batch->weights.type.shape.dims[0] = samples;
}

/* ---- reading ---- */

/* Whether a tensor, where it has memory, holds `count` samples of a type. */
static gp_status check_tensor(const gp_tensor *tensor, gp_type sample, int64_t count, const char *what) {
    gp_type wanted = gp_type_with_batch(sample, count);
    if (!tensor->data || gp_type_equal(tensor->type, wanted)) return GP_OK;
    char found[160], expected[160];
    return gp_error(GP_INVALID, "the tensor for the %s is %s: %s is needed", what,
                    gp_type_format(tensor->type, found, sizeof found),
                    gp_type_format(wanted, expected, sizeof expected));
}

static gp_status check_batch(const gp_dataset *dataset, int64_t count, const gp_batch *batch) {
    GP_TRY(check_tensor(&batch->inputs, dataset->input_type, count, "inputs"));
    GP_TRY(check_tensor(&batch->targets, dataset->target_type, count, "targets"));
    GP_TRY(check_tensor(&batch->weights, weight_type(dataset), count, "weights"));
    bool has_weights = batch->weights.data != NULL, wanted = dataset->weighted && batch->targets.data;
    if (has_weights == wanted) return GP_OK;
    return gp_error(GP_INVALID,
                    wanted ? "the targets of %s come with weights: a tensor for them is needed"
                           : "there are no weights of targets of %s that could be asked for",
                    dataset->table->name);
}

gp_status gp_dataset_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch) {
    int64_t first = request->first, count = request->count;
    if (request->step < 0)
        return gp_error(GP_INVALID, "samples of step %" PRId64 " cannot be asked for", request->step);
    if (first < 0 || count < 0 || first > INT64_MAX - count) {
        return gp_error(GP_INVALID, "%" PRId64 " samples from number %" PRId64 " cannot be asked for", count, first);
    }
    GP_TRY(check_batch(dataset, count, batch));
    return dataset->table->read(dataset, request, batch);
}

gp_status gp_dataset_sample(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step,
                            int64_t first_sample, int64_t count, gp_batch *batch) {
    gp_request request = {.split = split, .seed = seed, .step = step, .first = first_sample, .count = count};
    return gp_dataset_read(dataset, &request, batch);
}

gp_status gp_dataset_window(const gp_dataset *dataset, gp_split split, int64_t first, int64_t count, gp_batch *batch) {
    gp_request request = {.split = split, .evaluation = true, .first = first, .count = count};
    return gp_dataset_read(dataset, &request, batch);
}
