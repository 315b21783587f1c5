/* gpipe train: a whole run. Messages, the plan and progress go to stderr, the result to stdout. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster.h"
#include "commands.h"
#include "eval_classes.h"
#include "files.h"
#include "gpipe/device.h"
#include "gpipe/words.h"
#include "json.h"
#include "message.h"
#include "progress.h"
#include "resume.h"
#include "run_folder.h"
#include "session.h"
#include "signals.h"

static bool on_step(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    cli_progress_step(user, metrics, validation);
    return cli_signals_asked() == 0;
}

static bool should_stop(void *user) {
    (void)user;
    return cli_signals_asked() != 0;
}

/* What the machine offers, and what will run slowly. */
static void describe_machine(const cli_config *config, const gp_cluster *cluster) {
    gp_machine machine = {0};
    char memory[16];
    if (gp_machine_describe(&machine) != GP_OK) return;
    const cli_settings *s = &config->settings;
    cli_message(GP_LOG_INFO, "machine: %s, %d core%s, %s; products by %s, own kernels %s, bf16 by %s",
                machine.processor, machine.cores, gp_plural(machine.cores, "s"),
                gp_bytes_format(machine.memory, memory, sizeof memory), machine.products, machine.kernels,
                machine.bf16_route);
    int64_t workers = s->pipeline.partitions * s->pipeline.replicas, wanted = workers * s->device.threads;
    if (wanted > machine.cores && !cluster)
        cli_message(GP_LOG_WARNING, "%lld workers of %lld thread%s each share %d core%s: they will take turns",
                    (long long)workers, (long long)s->device.threads, gp_plural(s->device.threads, "s"), machine.cores,
                    gp_plural(machine.cores, "s"));
    if (s->device.type == GP_DEVICE_REFERENCE)
        cli_message(GP_LOG_WARNING, "device.type is reference: plain loops in double precision, for checking only");
    if (s->device.precision == 1 && !machine.amx_bf16)
        cli_message(GP_LOG_WARNING, "this processor has no AMX: bf16 runs by %s", machine.bf16_route);
}

static void describe_data(const cli_session *session) {
    const cli_settings *s = &session->config.settings;
    const gp_classes *classes = gp_dataset_classes(session->dataset);
    if (s->data.random) {
        cli_message(GP_LOG_INFO, "data: random, from which nothing can be learned");
        return;
    }
    cli_message(GP_LOG_INFO, "data: %s, %lld %s for training, %lld for validation, %s %lld",
                s->data.images     ? s->data.images
                : s->data.examples ? s->data.examples
                : s->data.text     ? s->data.text
                                   : s->data.tokens,
                (long long)gp_dataset_count(session->dataset, GP_SPLIT_TRAIN), gp_dataset_unit(session->dataset),
                (long long)gp_dataset_count(session->dataset, GP_SPLIT_VALIDATION), classes ? "classes" : "vocabulary",
                classes ? (long long)gp_classes_count(classes) : (long long)gp_dataset_vocabulary(session->dataset));
}

static gp_status show_plan(const cli_session *session) {
    const cli_settings *s = &session->config.settings;
    char *table = NULL;
    gp_status status = gp_plan_format(gp_trainer_plan(session->trainer), false, &table);
    if (status != GP_OK) return status;
    describe_data(session);
    char replicas[48] = "";
    if (s->pipeline.replicas > 1)
        snprintf(replicas, sizeof replicas, "%lld replicas of ", (long long)s->pipeline.replicas);
    cli_message(GP_LOG_INFO, "plan: %s%lld partition%s, %lld micro-batch%s of a batch of %lld, schedule %s\n%s",
                replicas, (long long)s->pipeline.partitions, gp_plural(s->pipeline.partitions, "s"),
                (long long)s->pipeline.micro_batches, gp_plural(s->pipeline.micro_batches, "es"),
                (long long)s->train.batch, s->pipeline.schedule, table);
    gp_text_free(table);
    return GP_OK;
}

/* ---- the result ---- */

static gp_status print_json(const cli_session *session, const gp_evaluation *validation) {
    char *text = NULL;
    gp_status status = gp_trainer_report_format(session->trainer, true, &text);
    if (status != GP_OK) return status;
    json_t *report = json_loads(text, 0, NULL);
    gp_text_free(text);
    json_t *result = json_pack("{s:o, s:I, s:o, s:o}", "out", cli_json_text(session->config.settings.train.out),
                               "steps", (json_int_t)gp_trainer_step_count(session->trainer), "validation_loss",
                               cli_json_number(validation->loss), "report", report);
    return cli_json_print(result);
}

static gp_status print_table(const cli_session *session, const gp_evaluation *validation) {
    char *text = NULL;
    gp_status status = gp_trainer_report_format(session->trainer, false, &text);
    if (status != GP_OK) return status;
    if (isfinite(validation->loss))
        printf("validation loss %.4f after %lld step%s\n", validation->loss,
               (long long)gp_trainer_step_count(session->trainer),
               gp_plural(gp_trainer_step_count(session->trainer), "s"));
    if (isfinite(validation->loss) && validation->samples > 0) {
        double samples = (double)validation->samples;
        printf("accuracy %.2f%%, ", 100.0 * (double)validation->top1 / samples);
        if (cli_top5_tells(validation))
            printf("among the first five %.2f%%, ", 100.0 * (double)validation->top5 / samples);
        printf("of %lld\n", (long long)validation->samples);
    }
    if (isfinite(validation->loss)) puts("");
    return cli_print_text(text);
}

/* ---- the run ---- */

/* A run without a checkpoint that is to go on by itself begins again. */
static bool may_replace(const cli_arguments *arguments) {
    return cli_given_flag(arguments, "force") || cli_given_value(arguments, "resume");
}

static gp_status prepare_new(cli_session *session, const cli_arguments *arguments, bool *made) {
    gp_status status = cli_session_open(session, arguments->words[0], arguments, CLI_DATA_NEEDED);
    if (status != GP_OK) return status;
    if (cli_cluster_writes(session->cluster))
        status = cli_run_folder_prepare(session->config.settings.train.out, may_replace(arguments), made);
    return cli_cluster_agree(session->cluster, status);
}

/* Everything that can be wrong is found before the first step. */
static gp_status prepare(cli_session *session, cli_resume *resume, const cli_arguments *arguments, bool *made) {
    *session = (cli_session){.cluster = arguments->cluster};
    memset(resume, 0, sizeof *resume);
    if (arguments->word_count < 1 && !cli_given_value(arguments, "resume"))
        return gp_error(GP_INVALID, "run.yaml is missing: the configuration to train, or --resume DIR");
    gp_status status = cli_resume_find(resume, arguments);
    if (status != GP_OK) return status;
    return resume->found ? cli_resume_open(resume, session, arguments) : prepare_new(session, arguments, made);
}

static gp_status start_from(cli_session *session, const char *weights) {
    const cli_texts *replace = &session->config.settings.train.replace;
    gp_status status = gp_trainer_load_except(session->trainer, weights, replace->items, replace->count);
    if (status == GP_OK) cli_message(GP_LOG_INFO, "the weights of %s are the start", weights);
    return cli_config_within(&session->config, "train.init_from", status);
}

static gp_status create_trainer(cli_session *session, bool resumed) {
    gp_pipeline_options pipeline;
    gp_optimizer_options optimizer;
    cli_session_pipeline(session, &pipeline);
    cli_config_optimizer(&session->config, &optimizer);
    const char *weights = session->config.settings.train.init_from;
    gp_status status = gp_trainer_create(&session->trainer, session->model, &pipeline, &optimizer,
                                         session->config.settings.train.steps);
    return status == GP_OK && weights && !resumed ? start_from(session, weights) : status;
}

/* A process that does not keep the run's log keeps one of its own on request; otherwise it adds what it has to say when
 * the others cannot. */
static gp_status open_log(const cli_session *session, bool own, FILE **log) {
    char path[4096];
    const char *out = session->config.settings.train.out;
    if (own)
        snprintf(path, sizeof path, "%s/log-rank-%d.txt", out, gp_cluster_rank(session->cluster));
    else
        snprintf(path, sizeof path, "%s/log.txt", out);
    gp_status status = cli_file_open(log, path, own ? "w" : "a");
    if (!*log) return own ? status : GP_OK; /* it may be on another disk */
    if (own)
        cli_message_log(*log);
    else
        cli_message_shared_log(*log);
    return GP_OK;
}

/* The run directory, new or that of the run that goes on, and its log. Nothing changes in one that another process
 * holds.
 */
static gp_status open_folder(const cli_session *session, const cli_resume *resume, FILE **log) {
    const char *out = session->config.settings.train.out;
    gp_status status = cli_run_folder_hold(out, log);
    if (status == GP_OK && !resume->found) {
        cli_run_folder_clear(out);
        status = cli_run_folder_describe(out, session, *log);
    }
    if (status == GP_OK) cli_message_log(*log);
    return status;
}

static gp_status begin_folder(cli_session *session, cli_resume *resume, const cli_arguments *arguments, FILE **log) {
    bool writes = cli_cluster_writes(session->cluster);
    gp_status status = cli_cluster_agree(session->cluster, writes ? open_folder(session, resume, log) : GP_OK);
    if (status != GP_OK) return status;
    if (!writes) status = open_log(session, cli_given_flag(arguments, "rank-logs"), log);
    status = cli_cluster_agree(session->cluster, status);
    return status == GP_OK && resume->found ? cli_resume_apply(resume, session) : status;
}

static gp_status train(cli_session *session, gp_evaluation *validation) {
    cli_progress progress;
    gp_run_options run;
    cli_text configuration = {0};
    gp_status status = cli_config_fixed_text(&session->config, &configuration);
    cli_config_run(&session->config, &run);
    run.on_step = on_step;
    run.user = &progress;
    run.configuration = configuration.text;
    cli_progress_start(&progress, gp_trainer_step_count(session->trainer), run.steps, run.skip_not_finite,
                       gp_trainer_plan(session->trainer));
    gp_evaluation_watch watch = {.on_progress = cli_progress_evaluation, .should_stop = should_stop, .user = &progress};
    if (status == GP_OK) status = gp_trainer_watch_evaluations(session->trainer, &watch);
    if (status == GP_OK) status = gp_trainer_run(session->trainer, session->dataset, &run, validation);
    gp_trainer_watch_evaluations(session->trainer, NULL);
    cli_progress_end();
    cli_text_free(&configuration);
    return status;
}

static gp_status run_session(cli_session *session, cli_resume *resume, const cli_arguments *arguments, FILE **log,
                             gp_evaluation *validation) {
    describe_machine(&session->config, session->cluster);
    gp_status status = create_trainer(session, resume->found);
    if (status == GP_OK) status = begin_folder(session, resume, arguments, log);
    if (status != GP_OK) return status;
    cli_signals_listen();
    status = show_plan(session);
    return status == GP_OK ? train(session, validation) : status;
}

static int finish(const cli_session *session, gp_status status) {
    cli_text command = {0};
    if (status == GP_OK) return 0;
    int asked = status == GP_INTERRUPTED ? cli_cluster_signal(session->cluster) : 0;
    if (asked == 0) return cli_fail(status);
    int result = cli_signals_exit(asked);
    cli_message(result == 0 ? GP_LOG_INFO : GP_LOG_ERROR, "%s", gp_error_message());
    cli_resume_command(session->config.settings.train.out, &command);
    cli_message(GP_LOG_INFO, "go on with: %s", command.text ? command.text : "");
    cli_text_free(&command);
    return result;
}

static gp_status print_result(const cli_session *session, const cli_arguments *arguments,
                              const gp_evaluation *validation) {
    cli_message(GP_LOG_INFO, "the run is in %s", session->config.settings.train.out);
    if (!cli_cluster_writes(session->cluster)) return GP_OK;
    return cli_given_flag(arguments, "json") ? print_json(session, validation) : print_table(session, validation);
}

/* A run that has made all its steps is no error: a job may be started once more than needed. */
static gp_status say_complete(const cli_session *session, const cli_arguments *arguments) {
    const char *out = session->config.settings.train.out;
    long long steps = (long long)session->config.settings.train.steps;
    cli_message(GP_LOG_INFO, "%s has made its %lld step%s; --set train.steps=N makes more", out, steps,
                gp_plural(steps, "s"));
    if (!cli_given_flag(arguments, "json") || !cli_cluster_writes(session->cluster)) return GP_OK;
    return cli_json_print(
        json_pack("{s:o, s:I, s:b}", "out", cli_json_text(out), "steps", (json_int_t)steps, "complete", 1));
}

static int run(const cli_arguments *arguments) {
    cli_session session;
    cli_resume resume;
    FILE *log = NULL;
    bool made = false;
    gp_evaluation validation = {.loss = NAN};
    gp_status status = prepare(&session, &resume, arguments, &made);
    if (status == GP_OK && resume.complete) {
        status = say_complete(&session, arguments);
    } else if (status == GP_OK) {
        status = run_session(&session, &resume, arguments, &log, &validation);
        if (status == GP_OK) status = print_result(&session, arguments, &validation);
    }
    if (session.dataset && gp_dataset_corrupt(session.dataset) > 0)
        cli_message(GP_LOG_WARNING, "%lld corrupt image%s skipped (named above)",
                    (long long)gp_dataset_corrupt(session.dataset),
                    gp_plural(gp_dataset_corrupt(session.dataset), "s"));
    int result = finish(&session, status);
    cli_message_log(NULL);
    if (log) fclose(log);
    if (made && !log) rmdir(session.config.settings.train.out); /* nothing was written */
    cli_resume_free(&resume);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {
    CLI_OPTION_SET,
    {"out", 'o', "DIR", CLI_FOLDER, "run directory (train.out)"},
    {"rank-logs", 0, NULL, CLI_NO_VALUE, "with mpirun: each process writes its messages to log-rank-N.txt too"},
    {"resume", 'r', "DIR|auto", CLI_FOLDER,
     "go on with the run in DIR (or from a checkpoint DIR/checkpoints/step-N); auto: with that of the run directory, "
     "if there is a checkpoint"},
    {"force", 'f', NULL, CLI_NO_VALUE,
     "replace the run that is in the run directory; with --resume of an older checkpoint: lose the later ones"},
    CLI_OPTION_JSON,
};

const cli_command cli_train = {
    .name = "train",
    .arguments = "[run.yaml]",
    .least = 0,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "train a model; weights, metrics and report go to a run directory",
    .description =
        "Trains the model of a configuration and writes a run directory: config.yaml (as resolved), tokenizer.json, "
        "metrics.jsonl (a JSON object for each step), report.json, log.txt and checkpoints/step-N with the links "
        "latest "
        "and best. The validation loss over the whole split and a table of the stages, planned and measured, are "
        "printed at the end. Ctrl-C finishes the step, writes a checkpoint and ends with status 130; a second one ends "
        "at once. SIGTERM and SIGUSR1, which batch systems send before the time is over, do the same and end with "
        "status 0. --resume goes on with the very bits of a run that never stopped, on any number of partitions; "
        "without run.yaml with the run's own configuration. What would change the network, the data or the order of "
        "sums is refused; steps, learning rate, partitions, schedule and the like may be set to others.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
    .together = true,
};
