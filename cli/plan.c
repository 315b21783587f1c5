/* gpipe plan: partition, memory and predicted time of each worker, without training. */
#include <stdio.h>

#include "cluster.h"
#include "commands.h"
#include "message.h"
#include "session.h"

static gp_status print_plan(const gp_plan *plan, bool json) {
    char *text = NULL;
    gp_status status = gp_plan_format(plan, json, &text);
    return status == GP_OK ? cli_print_text(text) : status;
}

static gp_status print_schedule(const gp_pipeline_options *pipeline) {
    gp_schedule *schedule = NULL;
    char *text = NULL;
    int micro_batches = gp_micro_batch_sizes(pipeline->batch, pipeline->micro_batches, NULL);
    gp_status status = pipeline->schedule_text ? gp_schedule_parse(&schedule, pipeline->schedule_text)
                                               : gp_schedule_create(&schedule, pipeline->schedule, pipeline->partitions,
                                                                    micro_batches, pipeline->recompute);
    if (status == GP_OK) status = gp_schedule_format(schedule, &text);
    if (status == GP_OK) status = cli_print_text(text);
    gp_schedule_destroy(schedule);
    return status;
}

static gp_status show(cli_session *session, const cli_arguments *arguments) {
    gp_pipeline_options pipeline;
    gp_optimizer_options optimizer;
    gp_plan *plan = NULL;
    cli_session_pipeline(session, &pipeline);
    cli_config_optimizer(&session->config, &optimizer);
    gp_status status = gp_plan_create(&plan, session->model, &pipeline, &optimizer);
    bool prints = cli_cluster_writes(session->cluster);
    if (status == GP_OK && prints) status = print_plan(plan, cli_given_flag(arguments, "json"));
    if (status == GP_OK && prints && cli_given_flag(arguments, "schedule")) status = print_schedule(&pipeline);
    if (status == GP_OK && !plan->fits) {
        char limit[16];
        char whose[48];
        snprintf(whose, sizeof whose, "of %s a worker", gp_bytes_format(plan->limit, limit, sizeof limit));
        status = gp_error(GP_DOES_NOT_FIT,
                          "the plan does not fit device.memory %s: more partitions, more micro-batches, "
                          "recompute always, "
                          "or a smaller model or batch need less",
                          pipeline.memory_limits ? "of each worker" : whose);
    }
    gp_plan_destroy(plan);
    return status;
}

static int run(const cli_arguments *arguments) {
    cli_session session;
    gp_status status = cli_session_open(&session, arguments->words[0], arguments, CLI_DATA_FOR_VOCABULARY);
    if (status == GP_OK) status = show(&session, arguments);
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    CLI_OPTION_SET,
    {"schedule", 0, NULL, CLI_NO_VALUE,
     "also print the schedule: a line for each worker, which a schedule file may hold"},
    CLI_OPTION_JSON,
};

const cli_command cli_plan = {
    .name = "plan",
    .arguments = "run.yaml",
    .least = 1,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "partition, memory and predicted time of each worker, without training",
    .description =
        "Prints for each worker its layers, its parameters and the bytes it needs by kind, the schedule's bubble and "
        "the "
        "predicted time of a step. Nothing is trained or written. Ends with status 3 when a worker needs more than "
        "device.memory.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
    .together = true,
};
