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

gp_type gp_dataset_input_type(const gp_dataset *dataset) {
    return dataset->input_type;
}

gp_type gp_dataset_target_type(const gp_dataset *dataset) {
    return dataset->target_type;
}

int64_t gp_dataset_tokens(const gp_dataset *dataset, gp_split split) {
    return dataset->table->tokens(dataset, split);
}

int64_t gp_dataset_windows(const gp_dataset *dataset, gp_split split) {
    return dataset->table->windows(dataset, split);
}

/* Whether a tensor holds `count` samples of a type. */
static gp_status check_tensor(const gp_tensor *tensor, gp_type sample, int64_t count, const char *what) {
    gp_type wanted = gp_type_with_batch(sample, count);
    if (tensor->data && gp_type_equal(tensor->type, wanted)) return GP_OK;
    char found[160], expected[160];
    return gp_error(GP_INVALID, "the tensor for the %s is %s%s: %s is needed", what,
                    gp_type_format(tensor->type, found, sizeof found), tensor->data ? "" : " without memory",
                    gp_type_format(wanted, expected, sizeof expected));
}

static gp_status check_request(const gp_dataset *dataset, int64_t first, int64_t count, const gp_tensor *inputs,
                               const gp_tensor *targets) {
    if (first < 0 || count < 0 || first > INT64_MAX - count) {
        return gp_error(GP_INVALID, "%" PRId64 " samples from number %" PRId64 " cannot be asked for", count, first);
    }
    GP_TRY(check_tensor(inputs, dataset->input_type, count, "inputs"));
    return check_tensor(targets, dataset->target_type, count, "targets");
}

gp_status gp_dataset_sample(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step,
                            int64_t first_sample, int64_t count, gp_tensor *inputs, gp_tensor *targets) {
    if (step < 0) return gp_error(GP_INVALID, "samples of step %" PRId64 " cannot be asked for", step);
    GP_TRY(check_request(dataset, first_sample, count, inputs, targets));
    return dataset->table->sample(dataset, split, seed, step, first_sample, count, inputs, targets);
}

gp_status gp_dataset_window(const gp_dataset *dataset, gp_split split, int64_t first, int64_t count, gp_tensor *inputs,
                            gp_tensor *targets) {
    GP_TRY(check_request(dataset, first, count, inputs, targets));
    return dataset->table->window(dataset, split, first, count, inputs, targets);
}
