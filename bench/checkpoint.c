/* Checkpoints of GPT-2 124M: seconds to write one to the disk, and to go on from it while it is in the page cache.
 *
 *   bench-checkpoint [--out=FOLDER] [--layers=12] [--partitions=2] [--json]
 *
 * FOLDER (default: the current one) needs 1.5 GB; what is written there stays in checkpoints/step-1. */
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "gpipe/checkpoint.h"

static const char *folder_of(int count, char **arguments) {
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], "--out=", 6) == 0) return arguments[i] + 6;
    return ".";
}

int main(int count, char **arguments) {
    const char *out = folder_of(count, arguments);
    gp_gpt2_options options = {.context = 64, .layers = (int64_t)bench_option(count, arguments, "layers", 12)};
    gp_pipeline_options pipeline = {.partitions = (int)bench_option(count, arguments, "partitions", 2),
                                    .batch = 1,
                                    .balance = GP_BALANCE_PARAMETERS};
    gp_optimizer_options optimizer = {.lr = 1e-4};
    gp_model *model = NULL;
    gp_trainer *trainer = NULL;
    gp_step_metrics metrics;
    bench_check(gp_model_create_gpt2(&model, &options), "model");
    bench_check(gp_trainer_create(&trainer, model, &pipeline, &optimizer, 10), "trainer");
    gp_tensor inputs = bench_tokens(1, 64, 50257, 1), targets = bench_tokens(1, 64, 50257, 2);
    bench_check(gp_trainer_step(trainer, &inputs, &targets, NULL, &metrics), "step");
    double begun = bench_seconds();
    bench_check(gp_trainer_save_checkpoint(trainer, out), "save");
    double saved = bench_seconds() - begun;
    begun = bench_seconds();
    bench_check(gp_trainer_resume(trainer, out), "resume");
    double loaded = bench_seconds() - begun, gigabytes = 12e-9 * (double)gp_model_parameter_count(model);
    if (bench_flag(count, arguments, "json")) {
        printf("{\"bench\": \"checkpoint\", \"gigabytes\": %.4g, \"save_seconds\": %.4g, \"load_seconds\": %.4g}\n",
               gigabytes, saved, loaded);
    } else {
        bench_print_machine();
        printf("%lld parameters, %.2f GB: written to the disk in %.2f s, read and verified in %.2f s\n",
               (long long)gp_model_parameter_count(model), gigabytes, saved, loaded);
    }
    gp_tensor_destroy(&inputs);
    gp_tensor_destroy(&targets);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return 0;
}
