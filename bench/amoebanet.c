/* AmoebaNet-D for benchmarks. */
#include "amoebanet.h"

gp_model *bench_amoebanet_create(const bench_amoebanet *sizes) {
    gp_option options[] = {
        {.key = "layers", .type = GP_OPTION_INTEGER, .integer = sizes->layers},
        {.key = "filters", .type = GP_OPTION_INTEGER, .integer = sizes->filters},
        {.key = "image", .type = GP_OPTION_INTEGER, .integer = sizes->image},
        {.key = "classes", .type = GP_OPTION_INTEGER, .integer = sizes->classes},
        {.key = "stem", .type = GP_OPTION_TEXT, .text = sizes->stem},
    };
    gp_model *model = NULL;
    bench_check(gp_model_create_named(&model, "amoebanet_d", options, sizeof options / sizeof *options, NULL), "model");
    return model;
}

gp_batch bench_images(const gp_model *model, int64_t samples) {
    gp_type output = gp_model_output_type(model);
    gp_random_options options = {.input = gp_model_input_type(model),
                                 .target = gp_model_target_type(model),
                                 .target_below = (int32_t)output.shape.dims[output.shape.rank - 1]};
    gp_dataset *dataset = NULL;
    gp_batch batch;
    bench_check(gp_dataset_create_random(&dataset, &options), "data");
    bench_check(gp_batch_create(&batch, dataset, samples), "batch");
    bench_check(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, 0, 0, samples, &batch), "batch");
    gp_dataset_destroy(dataset);
    return batch;
}
