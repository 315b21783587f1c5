/* gpipe gradients: one mini-batch's numbers in a file, for other frameworks to check. */
#include <stdio.h>

#include "commands.h"
#include "message.h"
#include "session.h"

static gp_status write_gradients(cli_session *session, const char *path) {
    const cli_settings *s = &session->config.settings;
    gp_pipeline_options pipeline;
    gp_optimizer_options optimizer;
    gp_batch batch = {0};
    cli_session_pipeline(session, &pipeline);
    cli_config_optimizer(&session->config, &optimizer);
    gp_status status = gp_trainer_create(&session->trainer, session->model, &pipeline, &optimizer, s->train.steps);
    if (status == GP_OK) status = gp_batch_create(&batch, session->dataset, s->train.batch);
    if (status == GP_OK)
        status =
            gp_dataset_sample(session->dataset, GP_SPLIT_TRAIN, (uint64_t)s->train.seed, 0, 0, s->train.batch, &batch);
    if (status == GP_OK)
        status = gp_trainer_save_gradients(session->trainer, &batch.inputs, &batch.targets, &batch.weights, path);
    gp_batch_destroy(&batch);
    return status;
}

static int run(const cli_arguments *arguments) {
    cli_session session = {0};
    const char *path = cli_given_value(arguments, "out");
    gp_status status =
        path ? GP_OK : gp_error(GP_INVALID, "gradients: --out FILE is missing: where the safetensors file goes");
    if (status == GP_OK) status = cli_session_open(&session, arguments->words[0], arguments, CLI_DATA_NEEDED);
    if (status == GP_OK) status = write_gradients(&session, path);
    if (status == GP_OK)
        cli_message(GP_LOG_INFO, "inputs, targets, loss, parameters and gradients of the first mini-batch are in %s",
                    path);
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    {"out", 'o', "FILE", CLI_FILE, "the safetensors file to write (required)"},
    CLI_OPTION_SET,
};

const cli_command cli_gradients = {
    .name = "gradients",
    .arguments = "run.yaml",
    .least = 1,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "write one mini-batch's inputs, targets, parameters, loss and gradients",
    .description =
        "Writes a safetensors file with the inputs, targets and loss of the first mini-batch of a configuration, the "
        "initial "
        "parameters (parameters.NAME) and their gradients (gradients.NAME), so that another framework can check the "
        "numbers. No update is made.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
